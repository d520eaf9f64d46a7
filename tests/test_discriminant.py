"""Discriminants: scikit-learn's answer on the pooled rows."""

import numpy as np
import pandas as pd
import pytest
import sklearn.datasets
import sklearn.discriminant_analysis
from numpy.testing import assert_allclose, assert_array_equal

from classed_silos import LABEL, NEW, assert_same, data, pooled, silos
from twins import assert_close
from unpooled import (
    PCA,
    LinearDiscriminantAnalysis,
    Policy,
    load,
    save,
)

# Fixtures of another module.
__all__ = ["data"]

OPTIONS = {
    "plain": {},
    "one component": {"n_components": 1},
    "shrunk": {"shrinkage": 0.3},
    "wholly shrunk": {"shrinkage": 1.0},
    "Ledoit-Wolf": {"shrinkage": "auto"},
    "priors": {"priors": [0.2, 0.3, 0.5]},
    "priors and Ledoit-Wolf": {"priors": [0.2, 0.3, 0.5], "shrinkage": "auto"},
}


def test_equals_the_pooled_twin(federate, data):
    check(federate, data)


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("secure_sum", ["masked"], indirect=True)
@pytest.mark.parametrize("split", ["sorted"], indirect=True)
def test_options_equal_the_pooled_twin(federate, data, options):
    check(federate, data, **options)


@pytest.mark.slow
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_options_equal_the_pooled_twin_on_every_split(federate, data, options):
    check(federate, data, **options)


def check(federate, data, **options):
    X, y = data
    federation = federate(np.column_stack([X, y]), y, label=LABEL)
    ours = LinearDiscriminantAnalysis(**options).fit(federation, LABEL)
    assert_same(ours, pooled(X, y, **options), NEW + X.mean(axis=0))
    assert ours.n_samples_ == 120


@pytest.mark.parametrize("shrinkage", [None, "auto"])
def test_two_classes_named_by_texts(shrinkage):
    X, y = sklearn.datasets.load_breast_cancer(return_X_y=True)
    X, names = X[:, :10], np.array(["bösartig", "gutartig"])[y]

    ours = LinearDiscriminantAnalysis(shrinkage=shrinkage).fit(silos(X, names), "class")

    theirs = pooled(X, names, shrinkage=shrinkage)
    assert_array_equal(ours.classes_, theirs.classes_)
    # Mean radius, perimeter and area: the condition of S_w is 1e5.
    assert_close(ours.coef_, theirs.coef_, 1e-6)
    assert_array_equal(ours.predict(X), theirs.predict(X))
    assert ours.score(X, names) == theirs.score(X, names)
    assert ours.scalings_.shape == (10, 1)


def test_classes_are_ordered_as_numbers_and_keep_their_type(data):
    X, y = data
    numbers = LinearDiscriminantAnalysis().fit(
        silos(X, np.array([10, 9, -2])[y]), "class"
    )
    assert numbers.classes_.tolist() == [-2, 9, 10]
    assert numbers.classes_.dtype.kind == "i"
    halves = LinearDiscriminantAnalysis().fit(silos(X, y / 2), "class")
    assert halves.classes_.tolist() == [0.0, 0.5, 1.0]


def test_forty_classes():
    rng = np.random.default_rng(0)
    names = np.array([f"diagnosis {k:02}" for k in range(40)])[np.arange(1200) % 40]
    X = rng.standard_normal((1200, 4))
    ours = LinearDiscriminantAnalysis().fit(silos(X, names), "class")
    assert_same(ours, pooled(X, names), rng.standard_normal((5, 4)))


def test_given_classes_save_a_round(data):
    X, y = data
    known = silos(X, y)
    ours = LinearDiscriminantAnalysis(classes=[2, 0, 1]).fit(known, "class")
    assert_same(ours, pooled(X, y), NEW + X.mean(axis=0))
    assert max(line.round for line in known.ledger) == 3


def test_transform_of_a_federation_is_a_view(data):
    X, y = data
    federation = silos(X, y)
    lda = LinearDiscriminantAnalysis().fit(federation, "class")
    view = lda.transform(federation)
    assert view.feature_names == tuple(lda.get_feature_names_out())
    after = PCA().fit(view).explained_variance_
    assert_allclose(after, np.linalg.eigvalsh(np.cov(lda.transform(X).T))[::-1])


def test_order_of_silos_and_splitting_one_change_nothing(data):
    X, y = data
    few, many = silos(X, y, m=3), silos(X, y, m=6, policy=Policy.open())
    ours = LinearDiscriminantAnalysis().fit(few, "class")
    theirs = LinearDiscriminantAnalysis().fit(many, "class")
    assert_close(ours.scalings_, theirs.scalings_)


@pytest.mark.parametrize("k", [None, 1])
def test_to_sklearn_and_files(data, tmp_path, k):
    X, y = data
    ours = LinearDiscriminantAnalysis(k).fit(silos(X, y), "class")
    save(ours, tmp_path / "lda.unpooled")
    for twin in (ours.to_sklearn(), load(tmp_path / "lda.unpooled")):
        frame = pd.DataFrame(X, columns=ours.feature_names_in_)
        assert_close(twin.transform(frame), ours.transform(X), 1e-14)
        assert_allclose(twin.predict_proba(frame), ours.predict_proba(X), atol=1e-14)


def test_unnormalised_priors_are_normalised_with_a_warning(data):
    X, y = data
    with pytest.warns(UserWarning, match="priors do not sum to 1"):
        ours = LinearDiscriminantAnalysis(priors=[1, 1, 2]).fit(silos(X, y), "class")
    assert_allclose(ours.priors_, [0.25, 0.25, 0.5])


# --- More columns than rows ----------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"priors": [0.2, 0.3, 0.5]}])
def test_more_columns_than_rows_equal_the_pooled_twin(options):
    rng = np.random.default_rng(0)
    y = np.arange(105) % 3
    X = rng.standard_normal((105, 150)) * np.linspace(0.1, 3.0, 150) + 5.0
    X += 0.3 * rng.standard_normal((3, 150))[y]
    options = {"shrinkage": 0.3, **options}

    federation = silos(X, y, m=5, policy=Policy.open())
    ours = LinearDiscriminantAnalysis(**options).fit(federation, "class")

    theirs, new = pooled(X, y, **options), rng.standard_normal((9, 150)) + 5.0
    for name in ("means_", "coef_", "intercept_", "explained_variance_ratio_"):
        assert_close(getattr(ours, name), getattr(theirs, name), 1e-8)
    signs = np.sign(np.sum(ours.scalings_ * theirs.scalings_[:, :2], axis=0))
    assert_close(ours.transform(new), theirs.transform(new) * signs, 1e-8)
    # No silo sends, and nobody forms, as many numbers as columns squared.
    assert max(int(np.prod(line.shape)) for line in federation.ledger) < 150**2

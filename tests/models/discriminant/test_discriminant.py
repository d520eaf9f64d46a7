"""Discriminant analysis on a federation: the pooled answer, and what is refused."""

import numpy as np
import pandas as pd
import pytest
import sklearn.datasets
import sklearn.discriminant_analysis
from numpy.testing import assert_allclose, assert_array_equal
from statsmodels.multivariate.manova import MANOVA

from line_fields import fields
from twins import assert_close
from unpooled import (
    PCA,
    LinearDiscriminantAnalysis,
    Policy,
    load,
    plan,
    save,
    simulate,
)
from unpooled.errors import DataError, ReleaseRefusedError

P, LABEL = 5, "x5"
NEW = np.random.default_rng(2).standard_normal((9, P)) * 3.0
OPTIONS = {
    "plain": {},
    "one component": {"n_components": 1},
    "shrunk": {"shrinkage": 0.3},
    "wholly shrunk": {"shrinkage": 1.0},
    "Ledoit-Wolf": {"shrinkage": "auto"},
    "priors": {"priors": [0.2, 0.3, 0.5]},
    "priors and Ledoit-Wolf": {"priors": [0.2, 0.3, 0.5], "shrinkage": "auto"},
}


@pytest.fixture(scope="module")
def data():
    """Rows of three unequal classes that overlap, of different scales and means."""
    rng = np.random.default_rng(1)
    y = np.repeat([0, 1, 2], [50, 40, 30])
    X = rng.standard_normal((120, P)) + 1.5 * rng.standard_normal((3, P))[y]
    order = rng.permutation(120)
    return X[order] * [1, 10, 0.1, 1, 1] + [0, 100, 0, -5, 0], y[order]


def pooled(X, y, **options):
    made = sklearn.discriminant_analysis.LinearDiscriminantAnalysis
    return made(solver="eigen", **options).fit(X, y)


def assert_same(ours, theirs, new=NEW):
    # Totals are right to twelve digits, and the condition of S_w is below 1e2.
    k = theirs._max_components
    assert_array_equal(ours.classes_, theirs.classes_)
    for name in ("means_", "covariance_", "priors_", "coef_", "intercept_"):
        assert_close(getattr(ours, name), getattr(theirs, name))
    ratio = theirs.explained_variance_ratio_
    assert_allclose(ours.explained_variance_ratio_, ratio, rtol=1e-9)
    V = theirs.scalings_[:, :k]
    peaks = V[np.abs(V).argmax(axis=0), np.arange(k)]
    assert_close(ours.scalings_, V * np.sign(peaks))
    assert_close(ours.transform(new), theirs.transform(new) * np.sign(peaks))
    assert_close(ours.decision_function(new), theirs.decision_function(new))
    assert_allclose(ours.predict_proba(new), theirs.predict_proba(new), atol=1e-9)
    # A probability of 1e-300 has a logarithm of some hundreds.
    log = theirs.predict_log_proba(new)
    assert_allclose(ours.predict_log_proba(new), log, rtol=1e-8, atol=1e-8)
    assert_array_equal(ours.predict(new), theirs.predict(new))


def test_equals_the_pooled_twin(federate, data):
    check(federate, data)


@pytest.mark.thinned(1)
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


def silos(X, y, m=3, label="class", **options):
    """Put rows into silos in turn, as data frames with a label."""
    frame = pd.DataFrame(X, columns=[f"v{j}" for j in range(X.shape[1])])
    frame[label] = y
    return simulate({f"silo{i}": frame[i::m] for i in range(m)}, label=label, **options)


@pytest.mark.slow
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


@pytest.mark.slow
def test_nothing_is_printed_where_a_silo_lacks_a_class(data, capfd):
    rows = np.column_stack(data)
    silos = {"all": rows, "two": rows[rows[:, -1] < 2]}
    federation = simulate(silos, label=f"x{P}", policy=Policy.open())

    for shrinkage in (None, "auto"):
        LinearDiscriminantAnalysis(shrinkage=shrinkage).fit(federation, f"x{P}")

    assert capfd.readouterr() == ("", "")


@pytest.mark.slow
def test_classes_are_ordered_as_numbers_and_keep_their_type(data):
    X, y = data
    numbers = LinearDiscriminantAnalysis().fit(
        silos(X, np.array([10, 9, -2])[y]), "class"
    )
    assert numbers.classes_.tolist() == [-2, 9, 10]
    assert numbers.classes_.dtype.kind == "i"
    halves = LinearDiscriminantAnalysis().fit(silos(X, y / 2), "class")
    assert halves.classes_.tolist() == [0.0, 0.5, 1.0]


@pytest.mark.slow
def test_forty_classes():
    rng = np.random.default_rng(0)
    names = np.array([f"diagnosis {k:02}" for k in range(40)])[np.arange(1200) % 40]
    X = rng.standard_normal((1200, 4))
    ours = LinearDiscriminantAnalysis().fit(silos(X, names), "class")
    assert_same(ours, pooled(X, names), rng.standard_normal((5, 4)))


@pytest.mark.slow
def test_given_classes_are_counted_in_place_of_collected(data):
    X, y = data
    known = silos(X, y)
    ours = LinearDiscriminantAnalysis(classes=[2, 0, 1]).fit(known, "class")
    assert_same(ours, pooled(X, y), NEW + X.mean(axis=0))
    first = {line.step for line in known.ledger if line.round == 1}
    assert first == {"discriminant.local_class_counts"}
    assert max(line.round for line in known.ledger) == 4


@pytest.mark.slow
def test_releases_only_what_the_docstring_says(data):
    X, y = data
    federation = silos(X, y)
    given = silos(X, y)
    planned = plan(LinearDiscriminantAnalysis(n_components=2), given, "class")

    LinearDiscriminantAnalysis().fit(federation, "class")

    left = fields(federation.ledger, "step name shape visibility", direction="out")
    assert left == [
        ("discriminant.local_names", "cells", (20, 16), "summed"),
        ("discriminant.local_class_totals", "total", (3, P), "summed"),
        ("discriminant.local_within_squares", "squares", (P,), "summed"),
        ("discriminant.local_within_scatter", "scatter", (P, P), "summed"),
    ]
    assert federation.ledger.verify()
    assert left == fields(
        planned.releases, "step name shape visibility", direction="out"
    )
    assert planned.refusals == ()


@pytest.mark.slow
def test_names_that_are_given_are_counted_over_all_silos(data):
    X, y = data
    federation = silos(X, y)
    model = LinearDiscriminantAnalysis(classes=[0, 1, 2])
    planned = plan(model, federation, "class")

    model.fit(federation, "class")

    first = [line for line in federation.ledger if line.round == 1]
    assert [(x.step, x.name, x.shape, x.direction) for x in first] == [
        ("discriminant.local_class_counts", "classes", (3, 15), "in"),
        ("discriminant.local_class_counts", "count", (3,), "out"),
        ("discriminant.local_class_counts", "others", (), "out"),
    ]
    assert planned.rounds == max(line.round for line in federation.ledger)


@pytest.mark.slow
def test_transform_of_a_federation_is_a_view(data):
    X, y = data
    federation = silos(X, y)
    lda = LinearDiscriminantAnalysis().fit(federation, "class")
    view = lda.transform(federation)
    assert view.feature_names == tuple(lda.get_feature_names_out())
    after = PCA().fit(view).explained_variance_
    assert_allclose(after, np.linalg.eigvalsh(np.cov(lda.transform(X).T))[::-1])


@pytest.mark.slow
def test_order_of_silos_and_splitting_one_change_nothing(data):
    X, y = data
    few, many = silos(X, y, m=3), silos(X, y, m=6, policy=Policy.open())
    ours = LinearDiscriminantAnalysis().fit(few, "class")
    theirs = LinearDiscriminantAnalysis().fit(many, "class")
    assert_close(ours.scalings_, theirs.scalings_)


@pytest.mark.thinned(1)
@pytest.mark.parametrize("k", [None, 1])
def test_to_sklearn_and_files(data, tmp_path, k):
    X, y = data
    ours = LinearDiscriminantAnalysis(k).fit(silos(X, y), "class")
    save(ours, tmp_path / "lda.unpooled")
    for twin in (ours.to_sklearn(), load(tmp_path / "lda.unpooled")):
        frame = pd.DataFrame(X, columns=ours.feature_names_in_)
        assert_close(twin.transform(frame), ours.transform(X), 1e-14)
        assert_allclose(twin.predict_proba(frame), ours.predict_proba(X), atol=1e-14)


@pytest.mark.slow
def test_unnormalised_priors_are_normalised_with_a_warning(data):
    X, y = data
    with pytest.warns(UserWarning, match="priors do not sum to 1"):
        ours = LinearDiscriminantAnalysis(priors=[1, 1, 2]).fit(silos(X, y), "class")
    assert_allclose(ours.priors_, [0.25, 0.25, 0.5])


# --- Refusals ------------------------------------------------------------------------


def refusal(X, y, label="class", wrong=DataError, policy=None, **options):
    federation = silos(X, y, policy=policy)
    with pytest.raises(wrong) as refused:
        LinearDiscriminantAnalysis(**options).fit(federation, label)
    return str(refused.value)


@pytest.mark.thinned(1)
@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"n_components": 3}, r"min\(n_features, n_classes - 1\)=2"),
        ({"n_components": 0}, "n_components=0"),
        ({"shrinkage": 2}, "shrinkage=2"),
        ({"shrinkage": "some"}, "shrinkage='some'"),
        ({"priors": [0.5, 0.5]}, "must be 3 positive numbers"),
        ({"solver": "svd"}, "solver='svd'"),
        ({"classes": [0, 1]}, r"rows of all silos are of other classes than \[0, 1\]"),
        ({"classes": [0, 1, 2, 3]}, r"No silo has a row of the classes \[3\]"),
        ({"classes": [0, 1, "two"]}, "both numbers and texts"),
        ({"label": "v1"}, "is not the label that the silos carry"),
    ],
)
def test_arguments_are_checked(data, options, says):
    with pytest.raises(DataError, match=says):
        raise DataError(refusal(*data, **options))


def test_a_rare_class_is_refused_before_anything_leaves(data):
    X, y = data
    y = np.where(np.arange(120) == 7, 3, y)
    federation = silos(X, y)
    with pytest.raises(ReleaseRefusedError, match=r"silo1 .* min_own_cells"):
        LinearDiscriminantAnalysis().fit(federation, "class")
    own = [line for line in federation.ledger if "silo1" in line.parties]
    assert own == []


@pytest.mark.thinned(1)
@pytest.mark.parametrize(
    "options", [{}, {"classes": [0, 1, 2]}, {"solver": "dgep-eigh"}]
)
def test_sums_are_refused_where_a_class_is_rare_in_all_silos_together(data, options):
    X, y = data
    # Three rows of the class 2, all in one silo; of the others many.
    y = np.where(np.arange(120) % 2, y % 2, 0)
    y[[0, 3, 6]] = 2
    federation = silos(X, y)
    with pytest.raises(ReleaseRefusedError, match="min_rows_per_class") as refused:
        LinearDiscriminantAnalysis(**options).fit(federation, "class")
    # The counts were opened, and nothing else.
    assert {line.round for line in federation.ledger if line.direction == "out"} == {1}
    assert refused.value.step != "discriminant.local_names"


@pytest.mark.slow
def test_a_class_that_is_rare_in_a_silo_only_is_no_hindrance(data):
    X, y = data
    # Each of the silos has two or three rows of the class 2, ten together.
    y = np.where(np.arange(120) % 2, y % 2, 0)
    y[:10] = 2
    policy = Policy(max_feature_ratio=1.0)
    ours = LinearDiscriminantAnalysis().fit(silos(X, y, m=4, policy=policy), "class")
    assert_same(ours, pooled(X, y), NEW + X.mean(axis=0))


@pytest.mark.slow
def test_labels_must_be_there_and_classes_two(data):
    X, y = data
    texts = np.array(["a", "b", "c"], dtype=object)[y]
    texts[5] = None
    assert "missing_labels" in refusal(X, texts)
    assert "missing_labels" in refusal(X, np.where(np.arange(120) == 5, np.nan, y))
    assert "single class 1" in refusal(X, np.ones(120, int))
    assert "label_values" in refusal(X, np.array(["long " * 10] * 120))
    many = Policy(min_own_cells=0)
    X = np.tile(X, (30, 1))
    assert "label_values" in refusal(X, np.arange(3600.0), policy=many)


@pytest.mark.slow
@pytest.mark.parametrize("n_classes", [65, 400])
def test_a_silo_may_have_more_classes_than_the_first_tables_have_cells(n_classes):
    y = np.tile(np.arange(n_classes), 12)
    X = np.random.default_rng(0).normal(size=(len(y), 3)) + y[:, None]
    open_to_many = Policy(max_released_share=1000.0)

    federation = silos(X, y, policy=open_to_many)
    ours = LinearDiscriminantAnalysis().fit(federation, "class")

    assert_array_equal(ours.classes_, np.arange(n_classes))
    assert_allclose(ours.means_, pooled(X, y).means_, rtol=1e-9)


def test_missing_values_are_named(data):
    X, y = data[0].copy(), data[1]
    X[3, 2] = np.nan
    assert "silo0 could not answer" in (text := refusal(X, y))
    assert "missing_values" in text


@pytest.mark.slow
def test_ill_posed_requests_are_refused_with_the_remedy():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((30, 40)), np.arange(30) % 2
    for shrinkage in (None, 0.0):
        text = refusal(X, y, policy=Policy.open(), shrinkage=shrinkage)
        assert "40 columns, but 30 rows" in text
        assert "Choose a shrinkage, 0.1 for instance" in text
    X = rng.standard_normal((60, 3))
    assert "collinear" in refusal(np.column_stack([X, X[:, 0]]), np.arange(60) % 2)


@pytest.mark.thinned(1)
@pytest.mark.parametrize("n_classes", [2, 3, 5])
@pytest.mark.parametrize("p", [2, 4])
def test_tests_of_means_equal_statsmodels(n_classes, p):
    rng = np.random.default_rng([n_classes, p])
    kind = np.arange(150) % n_classes
    X = rng.standard_normal((150, p)) + 0.3 * kind[:, None] * np.arange(1, p + 1)
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(p)]).assign(kind=kind)
    parts = {"a": frame[:50], "b": frame[50:100], "c": frame[100:]}

    lda = LinearDiscriminantAnalysis().fit(
        simulate(parts, label="kind", policy=Policy.open())
    )

    dummies = pd.get_dummies(kind, drop_first=True).to_numpy(float)
    design = np.column_stack([np.ones(150), dummies])
    contrast = np.eye(n_classes)[1:]
    oracle = MANOVA(X, design).mv_test([("kind", contrast)]).results["kind"]["stat"]
    # Statsmodels computes eigenvalues by another decomposition.
    assert_allclose(lda.manova().to_numpy(), oracle.to_numpy(float), rtol=1e-6)
    table = lda.summary().to_frame("tests_of_means")
    assert_allclose(table["value"], lda.manova()["value"])


def test_tests_of_means_need_the_plain_covariance():
    frame = pd.DataFrame({"x": np.arange(90.0) % 7, "kind": np.arange(90) % 2})
    parts = {"a": frame[:30], "b": frame[30:60], "c": frame[60:]}
    silos = simulate(parts, label="kind", policy=Policy.open())

    with pytest.raises(DataError, match="without shrinkage and priors"):
        LinearDiscriminantAnalysis(shrinkage=0.2).fit(silos).manova()

"""PCA on column partitions: scikit-learn's answer on the joined columns."""

import numpy as np
import pandas as pd
import pytest
import scipy.linalg
import sklearn.decomposition
from numpy.testing import assert_allclose
from sklearn.pipeline import make_pipeline

import unpooled as up
from twins import RTOL, assert_close
from unpooled.errors import ConvergenceError, DataError, ReleaseRefusedError

N, P = 90, 8
OPEN = up.Policy.open()
# Scores may be seen by the coordinator, loadings by nobody.
ROW_LEVEL = {"allow_row_level": True}
CUTS = {"balanced": [3, 6], "skewed": [1, 2], "two": [5], "six": [1, 2, 3, 4, 6]}


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(11)
    return rng.standard_normal((N, P)) @ rng.standard_normal((P, P)) + 20.0


@pytest.fixture(scope="module")
def new_rows():
    return np.random.default_rng(12).standard_normal((15, P)) * 3 + 20.0


def federate(X, cut=(3, 6), **options):
    parts = np.split(np.arange(X.shape[1]), list(cut))
    names = [f"c{j}" for j in range(X.shape[1])]
    frame = pd.DataFrame(X, columns=names)
    tables = {f"silo{i}": frame.iloc[:, part] for i, part in enumerate(parts)}
    options = {"policy": OPEN, **options}
    return up.simulate(tables, partition="columns", **options)


def pooled(X, k=None, **options):
    """scikit-learn's PCA, with its signs turned so that the largest score is > 0."""
    twin = sklearn.decomposition.PCA(k, svd_solver="full", **options).fit(X)
    scores = twin.transform(X)
    peaks = scores[np.abs(scores).argmax(axis=0), np.arange(scores.shape[1])]
    twin.components_ *= np.where(peaks < 0, -1.0, 1.0)[:, None]
    return twin


@pytest.mark.thinned
@pytest.mark.parametrize("cut", CUTS.values(), ids=CUTS)
@pytest.mark.parametrize("solver", ["gram", "krylov", "auto"])
def test_equals_the_twin_on_joined_columns(rows, new_rows, secure_sum, cut, solver):
    theirs = pooled(rows, 3)
    federation = federate(rows, cut, secure_sum=secure_sum)

    ours = up.PCA(3, svd_solver=solver, tol=1e-11).fit(federation)

    for name in (
        "explained_variance_",
        "explained_variance_ratio_",
        "singular_values_",
        "noise_variance_",
    ):
        assert_allclose(getattr(ours, name), getattr(theirs, name), RTOL)
    assert_close(ours.transform(federation), theirs.transform(rows))
    # New aligned rows, in silos asked anew, through what was kept.
    assert_close(ours.transform(federate(new_rows, cut)), theirs.transform(new_rows))
    assert_allclose(ours.components_, theirs.components_, atol=RTOL)
    assert_allclose(ours.mean_, rows.mean(axis=0), RTOL)
    assert_close(ours.transform(new_rows), theirs.transform(new_rows))
    assert (ours.n_samples_, ours.n_components_, ours.n_features_in_) == (N, 3, P)


@pytest.mark.thinned(1)
@pytest.mark.parametrize("n_components", [None, 1, P, 0.6, 0.99])
def test_any_number_of_components(rows, n_components):
    theirs = pooled(rows, n_components)
    ours = up.PCA(n_components, svd_solver="gram").fit(federate(rows))
    assert ours.n_components_ == theirs.n_components_
    assert_allclose(ours.explained_variance_, theirs.explained_variance_, RTOL)


@pytest.mark.slow
def test_whitening_and_standardisation_in_the_silos(rows, new_rows):
    from sklearn.preprocessing import StandardScaler

    scaler = StandardScaler().fit(rows)
    theirs = pooled(scaler.transform(rows), 3, whiten=True)
    model = make_pipeline(up.StandardScaler(), up.PCA(3, whiten=True))
    federation = federate(rows, policy=ROW_LEVEL)

    ours = model.fit(federation)

    later = federate(new_rows, policy=ROW_LEVEL)
    scores = theirs.transform(scaler.transform(new_rows))
    assert_close(ours.transform(later), scores)


@pytest.mark.slow
def test_more_columns_than_people_and_far_means():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((20, 70)) * np.linspace(1, 5, 70) + 1e6
    theirs = pooled(X, 4)
    federation = federate(X, (20, 50))
    for solver in ("gram", "krylov"):
        ours = up.PCA(4, svd_solver=solver, tol=1e-11).fit(federation)
        # Means of 1e6 beside a spread of 1 leave ten digits.
        assert_close(ours.transform(federation), theirs.transform(X), 1e-8)
        # Twenty rows have twenty components at most, whatever the number of columns.
        assert_allclose(ours.noise_variance_, theirs.noise_variance_, 1e-8)
    everything = up.PCA(svd_solver="gram").fit(federation)
    assert everything.singular_values_[-1] == 0.0
    assert (everything.components_[-1] == 0.0).all()


def test_releases_what_the_docstring_says(rows):
    federation = federate(rows, policy=ROW_LEVEL)
    up.PCA(2, svd_solver="gram").fit(federation)
    seen = [(x.step, x.name, x.shape, x.visibility) for x in federation.ledger]
    assert seen == [
        ("pca.own_means", "squares", (), "summed"),
        ("pca.own_means", "mean", (3,), "kept"),
        ("pca.own_means", "mean", (2,), "kept"),
        ("pca.own_gram", "gram", (N, N), "summed"),
        ("pca.own_loadings", "U", (N, 2), "public"),
        ("pca.own_loadings", "length", (2,), "public"),
        ("pca.own_loadings", "components", (2, 3), "kept"),
        ("pca.own_loadings", "components", (2, 2), "kept"),
    ]
    planned = up.plan(up.PCA(2, svd_solver="gram"), federation)
    assert [(x.step, x.name, x.shape, x.visibility) for x in planned.releases] == seen
    assert not planned.refusals


def test_loadings_stay_in_the_silos_unless_they_allow_it(rows, new_rows):
    ours = up.PCA(2).fit(federate(rows, policy=ROW_LEVEL))
    for ask in (
        lambda: ours.components_,
        lambda: ours.mean_,
        lambda: ours.transform(new_rows),
        lambda: ours.to_sklearn().mean_,
    ):
        with pytest.raises((ReleaseRefusedError, AttributeError)):
            ask()
    assert_close(
        ours.transform(federate(new_rows, policy=ROW_LEVEL)),
        pooled(rows, 2).transform(new_rows),
    )


@pytest.mark.slow
def test_who_sees_scores_is_said(rows):
    federation = federate(rows, policy=ROW_LEVEL)
    ours = up.PCA(2, scores="parties").fit(federation)
    assert ours.transform(federation) is None
    last = federation.ledger[-1]
    assert (last.name, last.shape, last.visibility) == ("scores", (N, 2), "kept")
    with pytest.raises(DataError, match="nobody is to see the scores"):
        up.PCA(2, scores=None).fit(federation).transform(federation)
    with pytest.raises(DataError, match=r"choose .coordinator., .parties. or None"):
        up.PCA(2, scores="all").fit(federation)


def test_people_are_not_seen_unless_each_silo_allows_it(rows):
    for solver in ("gram", "krylov"):
        with pytest.raises(ReleaseRefusedError, match="allow_row_level"):
            up.PCA(2, svd_solver=solver).fit(federate(rows, policy={}))


def test_refusal_limit(rows):
    holes = rows.copy()
    holes[3, 4] = np.nan
    with pytest.raises(DataError, match="Impute first"):
        up.PCA(2).fit(federate(holes))
    with pytest.raises(DataError, match="finds a number of components"):
        up.PCA(0.5, svd_solver="krylov").fit(federate(rows))
    choices = 'choose "auto", "gram", "krylov" or "gossip" on columns'
    with pytest.raises(DataError, match=choices):
        up.PCA(2, svd_solver="covariance_eigh").fit(federate(rows))
    with pytest.raises(DataError, match="between 1 and"):
        up.PCA(8).fit(federate(rows[:5]))
    with pytest.raises(DataError, match="about a row partition"):
        up.PCA(2, bits=16).fit(federate(rows))


def test_no_convergence_is_an_error_with_residuals():
    X = np.random.default_rng(4).standard_normal((300, 60))
    with pytest.raises(ConvergenceError, match="largest residual"):
        up.PCA(2, svd_solver="krylov", max_iter=2).fit(federate(X, (20, 40)))


@pytest.mark.slow
def test_certificate_holds(rows):
    ours = up.PCA(3, svd_solver="krylov").fit(federate(rows))
    scores = ours.transform(federate(rows))
    theirs = pooled(rows, 3).transform(rows)
    assert np.sin(scipy.linalg.subspace_angles(scores, theirs)[0]) <= 1e-9
    assert ours.n_iter_ >= 1
    assert ours.gap_ > 0


@pytest.mark.slow
def test_the_order_of_parties_does_not_matter(rows):
    federation = federate(rows)
    names = [f"c{j}" for j in range(P)]
    frame = pd.DataFrame(rows, columns=names)
    other = {"z": frame[names[6:]], "a": frame[names[:6]]}
    turned = up.simulate(other, partition="columns", policy=OPEN)
    first, second = (up.PCA(3).fit(f) for f in (federation, turned))
    assert_close(second.transform(turned), first.transform(federation))
    assert_allclose(second.components_[:, 2:], first.components_[:, :6], atol=RTOL)

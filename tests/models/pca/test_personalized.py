"""PersonalizedPCA: planted components, its stationary point, and what silos keep."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.linalg import subspace_angles
from scipy.optimize import check_grad
from scipy.stats import ortho_group
from sklearn.exceptions import ConvergenceWarning

import unpooled as up
from unpooled.errors import DataError, ReleaseRefusedError
from unpooled.models.pca.personalized import local_slope, local_stiefel
from unpooled.testing import check_estimator

P, K, L, M = 12, 2, 2, 4


@pytest.fixture(scope="module")
def planted():
    """Rows of silos with two components in common, and two larger ones of their own."""
    rng = np.random.default_rng(1)
    Q = ortho_group.rvs(P, random_state=1)
    shared, own, parts = Q[:, :K], [], {}
    for i, n in enumerate((60, 2000, 90, 400)):
        own.append(Q[:, K + L * i : K + L * (i + 1)])
        X = rng.normal(size=(n, K)) * [2.0, 1.5] @ shared.T
        X += rng.normal(size=(n, L)) * [4.0, 3.0] @ own[-1].T
        parts[f"s{i}"] = X + 0.3 * rng.normal(size=(n, P)) + 5.0
    return shared, own, parts


def silos(parts, **options):
    return up.simulate(parts, policy=up.Policy.open(), **options)


def covariances(parts):
    mean = np.vstack(list(parts.values())).mean(axis=0)
    return [(X - mean).T @ (X - mean) / len(X) for X in parts.values()]


def objective(U, parts):
    """The average variance along U and each silo's best own components, by NumPy."""
    outside = np.eye(P) - U @ U.T
    return np.mean(
        [
            np.trace(U.T @ S @ U) + np.linalg.eigvalsh(outside @ S @ outside)[-L:].sum()
            for S in covariances(parts)
        ]
    )


@pytest.mark.slow
@pytest.mark.parametrize("follow", [False, True])
def test_finds_what_silos_share_where_pca_does_not(planted, follow):
    shared, own, parts = planted
    federation = silos(parts, follow=follow)

    model = up.PersonalizedPCA(K, L).fit(federation)

    # Sines of angles, of directions estimated from 60 rows or more with noise 0.3.
    assert np.sin(subspace_angles(model.components_.T, shared)).max() < 0.1
    pooled = up.PCA(K).fit(federation)
    assert np.sin(subspace_angles(pooled.components_.T, shared)).max() > 0.9
    for found, planted_ones in zip(model.own_components_, own, strict=True):
        assert np.sin(subspace_angles(found.T, planted_ones)).max() < 0.2
        assert_allclose(found @ model.components_.T, 0.0, atol=1e-12)
    assert model.own_explained_variance_.shape == (M, L)


@pytest.mark.slow
def test_ends_at_a_stationary_point_no_worse_than_the_published_end(planted):
    _, _, parts = planted
    federation = silos(parts)
    model = up.PersonalizedPCA(K, L, tol=1e-9).fit(federation)
    published = up.PersonalizedPCA(
        K, L, solver="stiefel", learning_rate=1.0, max_iter=200
    ).fit(federation)

    ours = objective(model.components_.T, parts)
    assert_allclose(model.objective_[-1], ours, rtol=1e-10)
    # Both are near; averaging what silos moved to has an end of its own.
    theirs = objective(published.components_.T, parts)
    assert ours >= theirs - 1e-12 * ours
    assert_allclose(theirs, ours, rtol=1e-3)
    assert model.n_iter_ < published.n_iter_
    # No turn of the shared components by a thousandth is better.
    rng = np.random.default_rng(0)
    for _ in range(20):
        turned = model.components_.T + 1e-3 * rng.normal(size=(P, K))
        assert objective(np.linalg.qr(turned)[0], parts) < ours
    values = np.mean(
        [np.diag(model.components_ @ S @ model.components_.T)
         for S in covariances(parts)], axis=0
    )  # fmt: skip
    assert_allclose(model.explained_variance_, values, rtol=1e-10)
    total = np.mean([np.trace(S) for S in covariances(parts)])
    assert_allclose(model.explained_variance_ratio_, values / total, rtol=1e-10)
    share = model.explained_variance_ratio_.sum() + model.own_variance_ratio_
    assert_allclose(share, ours / total, rtol=1e-10)


def test_the_slope_is_half_the_gradient(planted):
    _, _, parts = planted
    (S,) = covariances({"one": parts["s0"]})
    U = ortho_group.rvs(P, random_state=3)[:, :K]
    slope = local_slope({"covariance": S}, shared=U, n_own=L)["slope"]
    tangent = slope - U @ (U.T @ slope)

    def value(u):
        Q = np.linalg.qr(u.reshape(P, K))[0]
        return objective(Q, {"one": parts["s0"]})

    # SciPy's forward differences of a step of 1e-8 have half the digits.
    wrong = check_grad(value, lambda u: 2.0 * tangent.ravel(), U.ravel())
    assert wrong < 1e-4 * np.abs(tangent).max()


def test_the_published_step_keeps_columns_orthonormal(planted):
    _, _, parts = planted
    (S,) = covariances({"one": parts["s1"]})
    W = ortho_group.rvs(P, random_state=4)[:, : K + L]
    kept = {"covariance": S, "own": W[:, K:]}
    made = local_stiefel(kept, shared=W[:, :K], rate=0.05, n_own=L)
    moved = np.hstack([made["moved"], made["own"]])
    assert_allclose(moved.T @ moved, np.eye(K + L), atol=1e-12)
    # One step of orthogonal iteration, for a long one.
    far = local_stiefel(kept, shared=W[:, :K], rate=1e9, n_own=L)
    both = np.hstack([far["moved"], far["own"]])
    assert np.sin(subspace_angles(both, S @ W)).max() < 1e-6


@pytest.mark.slow
def test_silos_in_another_order_and_what_leaves(planted):
    _, _, parts = planted
    federation = silos(parts)
    model = up.PersonalizedPCA(K, L).fit(federation)
    sent = {x.name for x in federation.ledger if x.direction == "out"}
    assert sent == {"count", "total", "squares", "scatter", "slope", "variance"}
    again = up.PersonalizedPCA(K, L).fit(silos(dict(reversed(parts.items()))))
    # The search ends at a gradient of 1e-6.
    assert_allclose(model.components_, again.components_, atol=1e-5)


@pytest.mark.slow
def test_silos_that_disclose_nothing_of_their_own_take_no_part(planted):
    _, _, parts = planted
    federation = up.simulate(parts)
    refusals = up.plan(up.PersonalizedPCA(), federation).refusals
    assert {rule for _, _, rule in refusals} == {"allow_disclosed"}
    with pytest.raises(ReleaseRefusedError, match="allow_disclosed"):
        up.PersonalizedPCA().fit(federation)


@pytest.mark.slow
def test_mistakes_are_named(planted):
    _, _, parts = planted
    federation = silos(parts)
    for parameters, words in [
        ({"n_components": 0}, "n_components=0; choose a whole number"),
        ({"n_components": 11, "n_own_components": 2}, "more than the 12 columns"),
        ({"solver": "newton"}, "solver='newton'; choose "),
        ({"learning_rate": 0.0}, "positive numbers"),
    ]:
        with pytest.raises(DataError, match=words):
            up.PersonalizedPCA(**parameters).fit(federation)
    with pytest.raises(DataError, match="takes all rows"):
        up.PersonalizedPCA().fit(federation.folds(2)[0][0])
    with pytest.warns(ConvergenceWarning, match="in 2 rounds"):
        up.PersonalizedPCA(K, L, max_iter=2).fit(federation)


@pytest.mark.slow
def test_checks():
    check_estimator(up.PersonalizedPCA(1, 1), exact=False)


def test_constant_rows_have_no_shares_of_variance():
    tables = {name: np.ones((30, 3)) for name in "abc"}
    ours = up.PersonalizedPCA(1).fit(up.simulate(tables, policy=up.Policy.open()))
    assert list(ours.explained_variance_ratio_) == [0.0]
    assert ours.own_variance_ratio_ == 0.0

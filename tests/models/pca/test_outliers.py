"""Rows far from the components: the counts of pooled rows, and limits of the field."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import cdist
from scipy.stats import chi2
from sklearn import decomposition

import unpooled as up
from federations import open_silos
from unpooled.errors import DataError
from unpooled.models.pca.outliers import LEVELS, limits

N, P, K = 400, 7, 3


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(N, P)) @ np.diag([5, 4, 3, 1, 1, 0.8, 0.5]) + 2.0
    X[3, 0] += 40.0  # far within the components
    X[7, 6] += 6.0  # far from their span
    return X


def oracle(rows):
    """Squared distances by SciPy, residuals by scikit-learn, on the pooled rows."""
    pooled = decomposition.PCA(K).fit(rows)
    scores = pooled.transform(rows)
    inverse = np.diag(1.0 / pooled.explained_variance_)
    squares = cdist(scores, np.zeros((1, K)), "mahalanobis", VI=inverse)[:, 0] ** 2
    left = ((rows - pooled.inverse_transform(scores)) ** 2).sum(axis=1)
    return squares, left


@pytest.mark.parametrize("secure_sum", ["masked", "plain"])
@pytest.mark.parametrize("split", ["balanced", "skewed"])
def test_equal_counts_of_pooled_rows(rows, split, secure_sum):
    parts = np.split(rows, [130, 260] if split == "balanced" else [25, 50])
    silos = {f"silo{i}": part for i, part in enumerate(parts)}
    squares, left = oracle(rows)

    pca = up.PCA(K, outliers=True).fit(
        up.simulate(silos, secure_sum=secure_sum, follow=secure_sum == "masked")
    )

    # Both are sums of products of 1e3 times the unit; 1e-10 leaves four digits of room.
    assert_allclose(pca.mahalanobis(rows), squares, rtol=1e-10)
    assert_allclose(pca.q_residuals(rows), left, rtol=1e-9)
    assert_allclose(pca.mahalanobis_limits_, chi2.ppf(LEVELS, K), rtol=1e-12)
    assert_array_equal(
        pca.n_beyond_mahalanobis_, (squares[:, None] > pca.mahalanobis_limits_).sum(0)
    )
    assert_array_equal(pca.n_beyond_q_, (left[:, None] > pca.q_limits_).sum(0))
    assert pca.n_beyond_mahalanobis_[-1] >= 1
    assert pca.n_beyond_q_[-1] >= 1


@pytest.mark.slow
def test_limits_of_residuals_hold_for_normal_rows():
    """Of a sum of squared normal variables with these variances."""
    rng = np.random.default_rng(0)
    for others in ([1.0, 1.0, 1.0, 1.0], [2.0, 1.0, 0.5, 0.1], [3.0, 0.01]):
        sums = (rng.normal(size=(400_000, len(others))) ** 2 * others).sum(axis=1)
        within = [
            (sums <= limit).mean() for limit in limits(np.ones(2), np.array(others))[1]
        ]
        # The approximation is good to a few thousandths; sampling adds 4e-4.
        assert_allclose(within, LEVELS, atol=6e-3)


def test_without_other_directions_there_is_no_residual(rows):
    pca = up.PCA(outliers=True).fit(open_silos(rows))
    assert_array_equal(pca.n_beyond_q_, 0)
    assert np.isinf(pca.q_limits_).all()


def test_one_more_round_of_six_counts(rows):
    federation = open_silos(rows)
    up.PCA(K, outliers=True).fit(federation)
    last = [
        line
        for line in federation.ledger
        if line.step == "pca.local_outliers" and line.direction == "out"
    ]
    assert {line.name for line in last} == {"beyond_distances", "beyond_residuals"}
    assert {line.round for line in last} == {4}
    assert {tuple(line.shape) for line in last} == {(3,)}


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"svd_solver": "krylov"}, "exact scatter"),
        ({"bits": 16}, "exact scatter"),
    ],
)
def test_other_solvers_are_refused(rows, parameters, message):
    with pytest.raises(DataError, match=message):
        up.PCA(K, outliers=True, **parameters).fit(open_silos(rows))


def test_too_many_columns_are_refused():
    wide = np.random.default_rng(0).normal(size=(300, 257))
    with pytest.raises(DataError, match="up to 256 columns"):
        up.PCA(K, outliers=True).fit(open_silos(wide))

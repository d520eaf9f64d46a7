"""PCA of columns that are constant, identical, nearly collinear or of any scale."""

import functools

import mpmath
import numpy as np
import pytest
import scipy.linalg
from numpy.testing import assert_allclose, assert_array_equal

from federations import open_silos
from pooled_pca import N, P, correlated_rows, pooled
from twins import RTOL, assert_close, assert_same_components, assert_same_pca
from unpooled import PCA


@pytest.fixture(scope="module")
def rows():
    return correlated_rows()


def test_constant_columns(federate, rows):
    X = np.column_stack([rows, np.zeros(N), np.full(N, 7.3), np.full(N, -1e8)])

    ours, theirs = PCA().fit(federate(X)), pooled(X)

    assert_close(ours.mean_, theirs.mean_)
    assert_allclose(ours.explained_variance_[:P], theirs.explained_variance_[:P], RTOL)
    assert_same_components(ours.components_, theirs.components_, np.arange(P + 3) < P)
    # A mean that is no float64 leaves N (eps mean)² of scatter: here of 1e-8, once.
    assert_allclose(ours.explained_variance_[P:], 0.0, atol=N * (2.3e-16 * 1e8) ** 2)


def test_all_columns_constant():
    X = np.tile([1.0, 2.0], (30, 1))
    pca = PCA().fit(open_silos(X))
    assert_array_equal(pca.explained_variance_, 0.0)
    assert_array_equal(pca.explained_variance_ratio_, 0.0)
    assert_array_equal(pca.transform(X), 0.0)


def test_two_identical_columns(federate, rows):
    check_identical_columns(federate, rows)


# Raw products stand in for centred ones up to means of two spreads.
@pytest.mark.thinned(1)
@pytest.mark.parametrize("offset", [0.0, 1.0, 1.9, 3.0, 1e4])
def test_two_identical_columns_of_any_mean(rows, offset):
    check_identical_columns(
        open_silos, (rows - rows.mean(axis=0)) / rows.std(axis=0) + offset
    )


def check_identical_columns(silos, rows):
    X = np.column_stack([rows, rows[:, 2]])

    ours, theirs = PCA().fit(silos(X)), pooled(X)

    assert_same_pca(ours, theirs)
    # Not noise: a variance of 1e-16 is a singular value of 1e-8.
    assert ours.singular_values_[-1] == 0.0


@functools.cache
def exact_pca(kind):
    """Rows, with their mean, variances and directions at 50 digits, rounded once."""
    rng = np.random.default_rng(5)
    Z = rng.standard_normal((N, P)) @ (np.eye(P) + 0.4 * rng.standard_normal((P, P)))
    scales = np.logspace(-8, 8, P)
    X = {
        "scales up": Z * scales,
        "scales down": Z[:, ::-1] * scales[::-1],
        "means": Z + 1e8 * np.array([1, -1, 1, 0, 0.5, 1]),
        "scales and means": (Z + 1e8 * np.array([1, -1, 1, 0, 0.5, 1])) * scales,
    }[kind]
    with mpmath.workdps(50):
        cells = [[mpmath.mpf(x) for x in column] for column in X.T.tolist()]
        mean = [mpmath.fsum(column) / N for column in cells]
        C = [[x - m for x in column] for column, m in zip(cells, mean, strict=True)]
        S = mpmath.matrix([[mpmath.fdot(a, b) / (N - 1) for a in C] for b in C])
        values, vectors = mpmath.eigsy(S)
        variance = np.array([float(v) for v in values])[::-1]
        axes = np.array(vectors.tolist(), dtype=float)[:, ::-1].T
        return X, np.array([float(m) for m in mean]), variance, axes


@pytest.mark.thinned(1)
@pytest.mark.parametrize(
    "kind", ["scales up", "scales down", "means", "scales and means"]
)
@pytest.mark.parametrize("split", ["balanced", "one-row", "six"], indirect=True)
def test_columns_of_any_scale_and_mean(federate, kind):
    # Scales from 1e-8 to 1e8, means of 1e8 spreads. scikit-learn is no oracle here: of
    # variances from 1e-16 to 1e16 it finds the small ones to 1e-4.
    X, mean, variance, axes = exact_pca(kind)

    ours = PCA().fit(federate(X))

    assert_allclose(ours.mean_, mean, rtol=1e-15, atol=1e-15 * np.ptp(X, axis=0).max())
    # The promise; measured errors are below 1e-13.
    assert_allclose(ours.explained_variance_, variance, rtol=RTOL)
    for axis, truth in zip(ours.components_, axes, strict=True):
        angle = scipy.linalg.subspace_angles(axis[:, None], truth[:, None])[0]
        assert np.sin(angle) <= RTOL


def test_nearly_collinear_columns_as_well_as_a_covariance_can_tell():
    # Columns that differ by 1e-3 of their spread leave λ_p = 1e-7 λ_1. Entries of S are
    # known to some eps, so λ_p to about 100 eps / 1e-7, and no method on S does better.
    rng = np.random.default_rng(2)
    X = rng.standard_normal((N, 3)) + 1
    X[:, 2] = X[:, 0] + 1e-3 * X[:, 2]

    ours, theirs = PCA().fit(open_silos(X)), pooled(X)

    assert_allclose(ours.explained_variance_, theirs.explained_variance_, rtol=2e-7)
    assert_same_components(ours.components_, theirs.components_, [True] * 3)

"""Eigenproblems against 50 digits, with the sign rule."""

import mpmath
import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st

from unpooled.linalg.eigen import leading_eigenpairs, with_positive_peaks

# Backward error of a symmetric eigensolver: some p eps λ_1, with p up to 64 here.
RTOL = 1e-13


def spd(p, spectrum, seed=0):
    """Return V diag(spectrum) Vᵀ with random orthonormal V, and V."""
    rng = np.random.default_rng(seed)
    V = np.linalg.qr(rng.standard_normal((p, p)))[0]
    A = (V * spectrum) @ V.T
    return (A + A.T) / 2, V


def to_fifty_digits(A):
    """Return the eigenvalues, descending, and eigenvectors of A, rounded once."""
    with mpmath.workdps(50):
        values, vectors = mpmath.eigsy(mpmath.matrix(A.tolist()))
        V = np.array(vectors.tolist(), dtype=float)
        return np.array([float(v) for v in values])[::-1], V[:, ::-1]


def sines(U, V):
    """Return the sine of the angle between each pair of columns."""
    return [
        np.sin(scipy.linalg.subspace_angles(U[:, [j]], V[:, [j]])[0])
        for j in range(U.shape[1])
    ]


@pytest.mark.parametrize("k", [1, 3, 8])
def test_pairs_are_the_leading_ones_in_descending_order(k):
    A, V = spd(8, np.arange(8, 0, -1.0))

    values, vectors = leading_eigenpairs(A, k)

    np.testing.assert_allclose(values, np.arange(8, 8 - k, -1.0), rtol=RTOL)
    # Gaps are 1 and λ_1 is 8, so an angle errs by 8 times as much as a value.
    assert max(sines(vectors, V)) < 8 * RTOL


def test_largest_entry_of_every_vector_is_positive():
    A, _ = spd(30, np.linspace(1, 2, 30), seed=1)

    _, vectors = leading_eigenpairs(A, 30)

    peaks = vectors[np.abs(vectors).argmax(axis=0), np.arange(30)]
    assert (peaks > 0).all()


def test_signs_do_not_depend_on_the_solver():
    V = np.array([[0.6, -0.8], [-0.8, -0.6]])
    np.testing.assert_array_equal(with_positive_peaks(V), with_positive_peaks(-V))
    np.testing.assert_array_equal(with_positive_peaks(V), [[-0.6, 0.8], [0.8, 0.6]])


@pytest.mark.parametrize("direction", [1, -1], ids=["rising", "falling"])
@pytest.mark.parametrize("p", [6, 13])
def test_graded_pairs_have_their_own_digits(p, direction):
    # Columns from 1e-8 to 1e8: λ_p is 1e-32 λ_1, where `eigh` would give noise. The
    # correlation has condition 30 or so, and the promise is eps times that.
    rng = np.random.default_rng(p)
    scale = np.logspace(-8, 8, p)[::direction]
    B = rng.standard_normal((4 * p, p)) @ (
        np.eye(p) + 0.3 * rng.standard_normal((p, p))
    )
    A = (B.T @ B) * scale * scale[:, None]

    values, vectors = leading_eigenpairs(A, p)

    true_values, true_vectors = to_fifty_digits(A)
    np.testing.assert_allclose(values, true_values, rtol=1e-12)
    assert max(sines(vectors, true_vectors)) < 1e-12


def test_graded_matrix_with_collinear_and_constant_columns():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((50, 6)) * [1e8, 1e4, 1, 1e-4, 1e-8, 1]
    X[:, 5] = 3 * X[:, 2]
    X = np.column_stack([X, np.zeros(50)])
    A = X.T @ X

    values, vectors = leading_eigenpairs(A, 7)

    # Rank 5: the collinear pair and the constant column each leave one exact zero.
    assert (values[:5] > 0).all()
    np.testing.assert_array_equal(values[5:], 0.0)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(7), atol=1e-14)
    np.testing.assert_allclose(values[:5], to_fifty_digits(A)[0][:5], rtol=1e-12)


@pytest.mark.parametrize("rank", [0, 1, 5, 63])
def test_eigenvalues_beyond_the_rank_are_exactly_zero(rank):
    # Not noise of 1e-16 λ_1: its square root, a singular value, would be 1e-8.
    rng = np.random.default_rng(rank)
    X = rng.standard_normal((rank + 1, 64))
    X -= X.mean(axis=0)
    A = X.T @ X

    values, vectors = leading_eigenpairs(A, 64)

    assert (values[:rank] > 0).all()
    np.testing.assert_array_equal(values[rank:], 0.0)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(64), atol=1e-13)


def test_nearly_collinear_columns_are_not_taken_for_collinear():
    # Columns that differ by 1e-6 of their spread: λ_p is 2e-13 of λ_1, a thousand
    # times what rounding of A can make up.
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 3))
    X[:, 2] = X[:, 0] + 1e-6 * X[:, 2]
    A = X.T @ X

    values, _ = leading_eigenpairs(A, 3)

    # Ten times eps λ_1 / λ_p, which is 1e-3.
    np.testing.assert_allclose(values[2], to_fifty_digits(A)[0][2], rtol=1e-2)
    assert values[2] > 0


def test_diagonal_matrix_is_solved_exactly():
    values, vectors = leading_eigenpairs(np.diag([2.0, 0.0, 5.0, 2.0]), 4)

    np.testing.assert_array_equal(values, [5.0, 2.0, 2.0, 0.0])
    np.testing.assert_array_equal(vectors, np.eye(4)[:, [2, 0, 3, 1]])


def test_argument_is_left_as_it_was():
    A, _ = spd(5, [1e12, 1.0, 1.0, 1.0, 1e-12])
    before = A.copy()

    leading_eigenpairs(A, 5)

    np.testing.assert_array_equal(A, before)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    p=st.integers(1, 12),
    rank=st.integers(0, 14),
    exponent=st.floats(-8, 8),
    seed=st.integers(0, 2**32 - 1),
)
def test_laws_of_the_decomposition(p, rank, exponent, seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rank, p)) * np.logspace(0, exponent, p)
    A = X.T @ X
    k = int(rng.integers(1, p + 1))

    values, vectors = leading_eigenpairs(A, k)

    scale = max(values[0], 1e-300)
    assert (np.diff(values) <= 0).all()
    assert (values >= 0).all()
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(k), atol=1e-13)
    np.testing.assert_allclose(A @ vectors, vectors * values, atol=RTOL * scale)
    if k == p:
        np.testing.assert_allclose(values.sum(), A.trace(), rtol=RTOL)


def test_a_column_with_less_than_no_variance_by_rounding_has_none():
    X = np.random.default_rng(0).standard_normal((30, 4)) * [1e4, 1.0, 1.0, 0.0]
    A = X.T @ X
    A[3, 3] = -1e-12

    values, vectors = leading_eigenpairs(A, 4)

    assert np.isfinite(values).all()
    assert (values[:3] > 0).all()
    assert values[3] == 0
    assert np.abs(vectors.T @ vectors - np.eye(4)).max() < 1e-12

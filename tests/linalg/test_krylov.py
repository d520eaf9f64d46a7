"""Block Krylov: the eigenpairs of dense solvers, and residuals that mean what they say.

Angles are held to the solver's own certificate, ‖R‖ / gap, and that to `tol`.
"""

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse
import scipy.sparse.linalg
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from unpooled.errors import ConvergenceError
from unpooled.linalg import krylov
from unpooled.linalg.krylov import block_width, leading_ritz_pairs

TOL = 1e-9


def with_spectrum(values, seed=0):
    """Return a symmetric matrix with these eigenvalues, and its eigenvectors."""
    rng = np.random.default_rng(seed)
    Q = scipy.linalg.qr(rng.standard_normal((len(values), len(values))))[0]
    return (Q * np.asarray(values, float)) @ Q.T, Q


def solve(A, k, *, b=None, seed=1, tol=TOL, max_iter=200, **options):
    d = A.shape[0]
    start = np.random.default_rng(seed).standard_normal((d, b or block_width(d, k)))
    return leading_ritz_pairs(
        lambda V: A @ V, start, k, tol=tol, max_iter=max_iter, **options
    )


def sine(ours, theirs):
    return np.sin(scipy.linalg.subspace_angles(ours, theirs).max())


SPECTRA = {
    "geometric": 0.9 ** np.arange(120),
    "power": 1.0 / np.arange(1, 121) ** 2,
    "spike": np.r_[1e3, 3.0, 2.0, np.linspace(1.0, 0.9, 117)],
    "flat but for a step": np.r_[np.linspace(2.0, 1.9, 6), np.full(114, 1.0)],
    "low rank": np.r_[5.0, 4.0, 3.0, 2.0, 1.5, 1.2, 1.1, np.zeros(113)],
}


@pytest.mark.thinned(1)
@pytest.mark.parametrize("values", SPECTRA.values(), ids=SPECTRA)
@pytest.mark.parametrize("k", [1, 3, 6])
def test_equals_a_dense_solver(values, k):
    A, _ = with_spectrum(values)
    exact, axes = np.linalg.eigh(A)

    pairs = solve(A, k)

    top = exact[-1]
    assert pairs.angle <= TOL
    assert sine(pairs.vectors, axes[:, -k:]) <= max(pairs.angle, 1e-13)
    assert_allclose(pairs.values, exact[: -k - 1 : -1], atol=1e-13 * top)
    assert_allclose(pairs.vectors.T @ pairs.vectors, np.eye(k), atol=1e-13)


def test_equals_arpack_on_a_large_sparse_operator():
    # A path's Laplacian plus a slope: 20,000 dimensions that nobody writes out in full.
    d, k = 20_000, 5
    weights = 100.0 * 0.5 ** np.arange(d).clip(max=200) + 1e-3
    A = scipy.sparse.diags_array(weights) + scipy.sparse.diags_array(
        [np.full(d - 1, 1e-3)] * 2, offsets=[-1, 1]
    )
    values, vectors = scipy.sparse.linalg.eigsh(A, k, v0=np.ones(d))

    pairs = solve(A, k)

    # arpack stops at machine precision of the largest eigenvalue.
    assert sine(pairs.vectors, vectors) <= 1e-9
    assert_allclose(pairs.values, values[::-1], rtol=1e-12)


@pytest.mark.parametrize("k", [2, 5])
def test_residuals_are_those_of_the_vectors(k):
    A, _ = with_spectrum(SPECTRA["power"])
    # Loose, so that residuals are far above rounding.
    pairs = solve(A, k, tol=1e-4)

    R = A @ pairs.vectors - pairs.vectors * pairs.values

    assert_allclose(np.linalg.norm(R, axis=0), pairs.residuals, rtol=1e-6, atol=1e-14)
    assert pairs.residuals.max() > 1e-12


@pytest.mark.slow
@given(st.integers(0, 10_000), st.floats(1e-6, 1e-1))
def test_the_certificate_bounds_the_angle(seed, tol):
    rng = np.random.default_rng(seed)
    values = np.sort(rng.exponential(size=40) ** 3)[::-1]
    A, Q = with_spectrum(values, seed)
    pairs = solve(A, 4, tol=tol, seed=seed)
    # A millionth for rounding in the matrix itself, whose gap may be small.
    assert sine(pairs.vectors, Q[:, :4]) <= pairs.angle * (1 + 1e-6) + 1e-10
    assert pairs.angle <= tol


def test_a_rule_without_the_gap_would_stop_too_early():
    # The third and fourth eigenvalues differ by 1e-6 of the first.
    values = np.r_[1.0, 0.5, 1e-3 + 1e-6, 1e-3, 0.9e-3 * 0.95 ** np.arange(96)]
    A, Q = with_spectrum(values)
    pairs = solve(A, 3)
    assert sine(pairs.vectors, Q[:, :3]) <= 1e-8
    assert pairs.residuals.max() <= 1e-14


def test_restarts_keep_what_was_found():
    A, Q = with_spectrum(1.0 / np.arange(1, 301) ** 0.5)
    free = solve(A, 4)
    b = block_width(300, 4)
    short = solve(A, 4, most_columns=4 + 3 * b)
    assert short.n_iter > free.n_iter, "nothing was restarted"
    assert short.angle <= TOL
    assert sine(short.vectors, Q[:, :4]) <= TOL
    R = A @ short.vectors - short.vectors * short.values
    assert_allclose(np.linalg.norm(R, axis=0), short.residuals, atol=1e-14)


def test_no_gap_is_said_and_values_still_stand():
    values = np.r_[3.0, 2.0, 1.0, 1.0, 0.5 * 0.8 ** np.arange(46)]
    A, Q = with_spectrum(values)
    pairs = solve(A, 3)
    assert pairs.angle >= 1 or pairs.gap <= 1e-13
    assert not pairs.is_certified(TOL)
    assert_allclose(pairs.values, values[:3], atol=1e-13)
    # The vectors are eigenvectors all the same: the third lies in the plane of two.
    assert sine(pairs.vectors, Q[:, :4]) <= 1e-12


@pytest.mark.parametrize("rank", [0, 1, 3])
def test_more_pairs_than_the_rank(rank):
    A, Q = with_spectrum(np.r_[np.arange(rank, 0, -1.0), np.zeros(20 - rank)])
    pairs = solve(A, 5)
    assert pairs.is_certified(TOL)
    assert_allclose(pairs.values[rank:], 0.0, atol=1e-14)
    assert_allclose(pairs.vectors.T @ pairs.vectors, np.eye(5), atol=1e-13)
    if rank:
        assert sine(pairs.vectors[:, :rank], Q[:, :rank]) <= 1e-13


@pytest.mark.parametrize("d", [1, 2, 5])
def test_as_many_pairs_as_dimensions(d):
    A, _ = with_spectrum(np.arange(d, 0, -1.0))
    pairs = solve(A, d)
    assert pairs.gap == np.inf
    assert_allclose(pairs.values, np.arange(d, 0, -1.0), rtol=1e-13)


def test_rounding_of_the_operator_ends_the_search():
    # Images are rounded to 2⁻³⁰, as a poor fixed point would.
    A, Q = with_spectrum(0.7 ** np.arange(60))
    start = np.random.default_rng(0).standard_normal((60, 9))
    pairs = leading_ritz_pairs(
        lambda V: np.rint(A @ V * 2.0**30) / 2.0**30, start, 4, tol=1e-9, max_iter=50
    )
    assert not pairs.is_certified(1e-9)
    assert pairs.n_iter < 50
    assert 1e-9 < sine(pairs.vectors, Q[:, :4]) <= pairs.angle < 1e-5


def test_too_few_rounds_say_how_far_they_came():
    A, _ = with_spectrum(1.0 / np.arange(1, 201) ** 0.3)
    with pytest.raises(ConvergenceError, match=r"After 3 rounds .* Raise max_iter; or"):
        solve(A, 5, max_iter=3)


@pytest.mark.parametrize(("k", "b"), [(3, 3), (3, 21), (0, 4)])
def test_a_block_that_cannot_do(k, b):
    with pytest.raises(ValueError, match=f"a block of {b} columns cannot find {k}"):
        solve(np.eye(20), k, b=b)


def test_an_eigenvalue_far_above_the_others_costs_their_digits():
    # Rounding is a part of the largest; the certificate says what is left of the rest.
    A, Q = with_spectrum(np.r_[1e6, 3.0, 2.0, np.linspace(1.0, 0.9, 47)])
    pairs = solve(A, 3)
    assert sine(pairs.vectors, Q[:, :3]) <= pairs.angle <= 1e-7
    assert not pairs.is_certified(TOL)


@pytest.mark.parametrize("spread", [0.0, -3.0, -9.0, -14.0])
def test_a_block_is_extended_whatever_the_sizes_of_its_new_directions(spread):
    """Products of columns have twice the digits to lose that the columns have."""
    rng = np.random.default_rng(0)
    d, j, b = 3000, 12, 6
    Q = np.linalg.qr(rng.standard_normal((d, j)))[0]
    sizes = np.logspace(0.0, spread, b)
    image = rng.standard_normal((d, b)) * sizes + Q @ rng.standard_normal((j, b))
    new, H, size = krylov._extension(Q, image)
    # Directions below 1e-12 are rounding.
    assert new.shape[1] == (5 if spread == -14.0 else b)
    assert (np.diff(size) <= 0.0).all()
    # Sums of 3,000 products of numbers that are 1 together, and of images of length 60.
    assert_allclose(new.T @ new, np.eye(new.shape[1]), atol=1e-13)
    assert_allclose(Q.T @ new, 0.0, atol=1e-13)
    assert_allclose(np.hstack([Q, new]) @ H, image, atol=1e-11)

"""Products of runs of rows on threads of their own, against exact arithmetic."""

from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from unpooled.linalg import crossproduct
from unpooled.linalg.crossproduct import shifted_crossproduct, whole_crossproduct
from unpooled.linalg.moments import scatter

EPS = np.finfo(float).eps


def blas_threads():
    """Return how many threads each BLAS of this process may use."""
    return [
        library["num_threads"]
        for library in threadpool_info()
        if library["user_api"] == "blas"
    ]


def exact(X, t, m):
    """Return XᵀX - t mᵀ - m tᵀ by rational numbers, rounded once."""
    X, t, m = (
        np.array(list(map(Fraction, a.flat))).reshape(a.shape) for a in (X, t, m)
    )
    return (X.T @ X - np.outer(t, m) - np.outer(m, t)).astype(float)


@pytest.fixture(autouse=True)
def no_product_is_too_small(monkeypatch):
    """Let tests multiply by runs what is quickly multiplied by rational numbers too."""
    monkeypatch.setattr(crossproduct, "_LEAST_WORK", 0)


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("n", [11, 47, 48, 49])
def test_runs_of_any_length_add_up(n, order, threads):
    # Four columns: three threads get runs from 48 rows on, two from 32.
    rng = np.random.default_rng(n)
    X = np.asarray(rng.standard_normal((n, 4)), order=order)
    t, m = rng.standard_normal((2, 4))

    with threadpool_limits(threads, "blas"):
        S = shifted_crossproduct(X, t, m)

    # Additions one after the other, n of them at most, of terms no larger than these.
    size = np.abs(X).T @ np.abs(X) + 2 * np.abs(np.outer(t, m))
    assert (np.abs(np.triu(S - exact(X, t, m))) <= (n + 2) * EPS * size).all()


@pytest.mark.parametrize("view", [np.s_[::2], np.s_[:, ::-1], np.s_[:, 1:4]])
def test_rows_that_lie_apart(view):
    X = np.arange(400.0).reshape(80, 5)[view]
    nothing = np.zeros(X.shape[1])

    with threadpool_limits(2, "blas"):
        S = shifted_crossproduct(X, nothing, nothing)

    np.testing.assert_array_equal(np.triu(S), np.triu(X.T @ X))


def test_blas_has_its_threads_back_whoever_multiplied_beside():
    X = np.random.default_rng(0).standard_normal((4_000, 30))
    zeros = np.zeros(30)
    truth = np.triu(X.T @ X)

    with threadpool_limits(2, "blas"):
        before = blas_threads()
        with ThreadPoolExecutor(4) as pool:
            found = list(
                pool.map(lambda _: shifted_crossproduct(X, zeros, zeros), range(40))
            )
        after = blas_threads()

    assert before == after
    assert set(after) == {2}
    for S in found:
        np.testing.assert_allclose(np.triu(S), truth, atol=4_000 * EPS * 4_000)


def test_a_product_that_fails_gives_the_threads_back(monkeypatch):
    def fails(X, threads):
        raise MemoryError

    monkeypatch.setattr(crossproduct, "_by_runs", fails)

    with threadpool_limits(2, "blas"):
        with pytest.raises(MemoryError):
            shifted_crossproduct(np.ones((40, 2)), np.ones(2), np.ones(2))
        assert set(blas_threads()) == {2}


def whole_numbers(n, p, low, high, seed=0):
    return np.random.default_rng(seed).integers(low, high, (n, p)).astype(float)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize(
    ("n", "low", "high"),
    # One block; several; pixels; blocks that must be halved; almost the limit.
    [(40, 0, 2), (5000, 0, 3), (3000, 0, 256), (2500, -300, 300), (64, 400, 510)],
)
def test_products_of_small_whole_numbers_are_exact(n, low, high, order):
    X = np.asarray(whole_numbers(n, 7, low, high), order=order)
    for c in (np.zeros(7), np.rint(X.mean(axis=0)), np.array([3.0] * 7)):
        S = whole_crossproduct(X, c)
        whole = X.astype(int) - c.astype(int)
        assert S is not None
        np.testing.assert_array_equal(np.triu(S), np.triu(whole.T @ whole))


def test_other_numbers_are_left_to_double_precision():
    X, c = whole_numbers(4000, 5, 0, 256), np.zeros(5)
    for wrong in (0.5, 1.0 + 2.0**-40, 1e9, 2.0**12, np.nan, np.inf, -1e300):
        Y = X.copy()
        # In the last block, and not among the rows that are inspected first.
        Y[3997, 3] = wrong
        assert whole_crossproduct(Y, c) is None
        assert whole_crossproduct(np.full((4000, 5), wrong), c) is None
    # Sums of squares that reach 2²⁴ in the fewest rows.
    assert whole_crossproduct(np.full((64, 5), 512.0), c) is None
    assert whole_crossproduct(np.full((64, 5), 511.0), c) is not None


@pytest.mark.parametrize("offset", [0, 10**6, -(2**30)])
def test_scatters_of_whole_numbers_lose_no_digits_far_from_zero(offset):
    X = whole_numbers(900, 6, 0, 2) + offset
    X[:, 4] = offset
    X[:, 5], X[3, 5] = offset, offset + 1
    mean = X.mean(axis=0) + np.array([0.2, 0.0, -0.3, 0.1, 0.0, 0.25])
    S, own = scatter(X, mean), X - mean
    # Additions of at most 900 terms of at most 2, and the rounding of the offset.
    bound = 900 * 2 * (900 * EPS + abs(offset) * EPS)
    np.testing.assert_allclose(np.triu(S), np.triu(own.T @ own), rtol=0, atol=bound)

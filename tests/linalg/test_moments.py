"""Sums and scatters against exact arithmetic."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from unpooled.linalg import moments
from unpooled.linalg.moments import (
    column_sums,
    observed_sums,
    pack,
    scatter,
    squared_deviations,
    unpack,
)

EPS = np.finfo(float).eps
# Single precision: squares of what is near the end of double's range underflow.
finite = st.floats(-1e6, 1e6, allow_subnormal=False, width=32)
matrices = st.tuples(st.integers(1, 40), st.integers(1, 6)).flatmap(
    lambda shape: arrays(float, shape, elements=finite)
)


def exact_scatter(X, mean):
    """Return the scatter about `mean` by rational numbers, rounded once."""
    C = [
        [Fraction(x) - Fraction(m) for x, m in zip(row, mean, strict=True)] for row in X
    ]
    p = len(mean)
    S = [[sum(row[j] * row[k] for row in C) for k in range(p)] for j in range(p)]
    return np.array([[float(s) for s in row] for row in S])


def assert_scatter_is_exact(S, X, mean, units):
    """Compare upper triangles in units of eps sqrt(S_jj S_kk)."""
    truth = exact_scatter(X.tolist(), mean.tolist())
    radius = np.sqrt(truth.diagonal())
    error = np.abs(np.triu(S) - np.triu(truth))
    assert (error <= units * EPS * radius * radius[:, None]).all()


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("n", [1, 511, 512, 513, 20_000])
def test_column_sums_err_by_their_runs_only(n, order):
    X = np.asarray(np.random.default_rng(n).uniform(1, 2, (n, 3)), order=order)

    sums = column_sums(X)

    # At most 512 + n / 512 additions one after the other, of positive numbers.
    exact = [math.fsum(column) for column in X.T]
    np.testing.assert_allclose(sums, exact, rtol=(512 + n / 512) * EPS / 2)


@pytest.mark.parametrize("view", [np.s_[::2], np.s_[:, ::-1], np.s_[3:9, 1:3]])
def test_column_sums_of_strided_views(view):
    X = np.arange(80.0).reshape(20, 4)[view]
    np.testing.assert_array_equal(column_sums(X), X.sum(axis=0))


def test_no_rows_add_up_to_zero():
    np.testing.assert_array_equal(column_sums(np.empty((0, 3))), np.zeros(3))
    count, total = observed_sums(np.empty((0, 3)))
    np.testing.assert_array_equal(count, 0)
    np.testing.assert_array_equal(total, 0.0)


def test_missing_and_infinite_cells_show_in_the_sums():
    X = np.array([[1.0, np.nan, np.inf], [2.0, 1.0, 1.0]])
    np.testing.assert_array_equal(column_sums(X), [3.0, np.nan, np.inf])


def test_observed_sums_leave_missing_cells_out():
    X = np.array([[1.0, np.nan, np.nan], [4.0, 5.0, np.nan], [7.0, np.nan, np.nan]])

    count, total = observed_sums(X)

    np.testing.assert_array_equal(count, [3, 1, 0])
    np.testing.assert_array_equal(total, [12.0, 5.0, 0.0])
    assert np.isnan(X).sum() == 5, "the silo's rows were written to"


@settings(max_examples=50, deadline=None)
@given(X=matrices, mask=st.integers(0, 2**32 - 1))
def test_observed_sums_are_those_of_the_cells_that_are_there(X, mask):
    X = np.where(np.random.default_rng(mask).random(X.shape) < 0.3, np.nan, X)

    count, total = observed_sums(X)

    for j, column in enumerate(X.T):
        there = column[~np.isnan(column)]
        assert count[j] == len(there)
        # Less than 40 additions of numbers up to 1e6.
        assert math.isclose(total[j], math.fsum(there), abs_tol=40 * 40e6 * EPS)


@pytest.mark.thinned(1)
@pytest.mark.parametrize("offset", [0.0, 1.0, 1e4, 1e8])
def test_squares_keep_their_digits_beside_a_large_mean(offset):
    X = np.random.default_rng(0).standard_normal((300, 4)) + offset
    mean = X.mean(axis=0)

    squares = squared_deviations(X, mean)

    # About the given mean, each square errs by an eps and adding up by some more.
    truth = exact_scatter(X.tolist(), mean.tolist()).diagonal()
    np.testing.assert_allclose(squares, truth, rtol=40 * EPS)


def test_squares_leave_missing_cells_out():
    X = np.array([[1.0, np.nan], [5.0, 2.0]])

    squares = squared_deviations(X, np.array([3.0, 1.0]))

    np.testing.assert_array_equal(squares, [8.0, 1.0])
    assert np.isnan(X).sum() == 1, "the silo's rows were written to"


def test_squares_of_infinite_cells_stay_infinite():
    X = np.array([[np.inf, np.nan], [1.0, 1.0]])
    squares = squared_deviations(X, np.zeros(2))
    np.testing.assert_array_equal(squares, [np.inf, 1.0])


# Raw products are formed while means are within about two spreads; on both sides of
# that switch the digits must be there.
@pytest.mark.thinned(4)
@pytest.mark.parametrize("offset", [0.0, 1.0, 1.9, 2.1, 3.0, 100.0, 1e4, 1e8])
def test_scatter_keeps_its_digits_beside_any_mean(offset):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((400, 5)) @ rng.standard_normal((5, 5))
    X = X / X.std(axis=0) + offset * np.array([1, -1, 1, 0, -1])
    mean = X.mean(axis=0)

    # Raw products are up to 8 times as large as what is left of them.
    assert_scatter_is_exact(scatter(X, mean), X, mean, units=8 * 20)


def test_scatter_about_a_mean_that_is_not_the_silos_own():
    X = np.random.default_rng(2).standard_normal((50, 3))
    mean = np.array([5.0, -40.0, 0.0])
    assert_scatter_is_exact(scatter(X, mean), X, mean, units=40)


def test_one_column_off_the_scale_does_not_spoil_the_others():
    X = np.random.default_rng(3).standard_normal((100, 4)) * [1e-8, 1, 1e8, 1]
    X[:, 3] += 1e8
    mean = X.mean(axis=0)
    assert_scatter_is_exact(scatter(X, mean), X, mean, units=40)


def test_an_unlucky_sample_of_rows_does_not_decide(monkeypatch):
    # Every third row is what the sample looks at, and it is wide; the rest is narrow.
    rng = np.random.default_rng(4)
    X = 100 + 1e-3 * rng.standard_normal((128, 2))
    X[::3] += 60 * rng.standard_normal((43, 2))
    mean = X.mean(axis=0)
    tried = []
    raw = moments._raw_scatter
    monkeypatch.setattr(
        moments, "_raw_scatter", lambda *rows: tried.append(1) or raw(*rows)
    )

    S = scatter(X, mean)

    assert tried, "the rows were meant to mislead the sample"
    assert not np.array_equal(S, raw(X, mean)), "raw products were kept"
    assert_scatter_is_exact(S, X, mean, units=60)


@pytest.mark.thinned(1)
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("n", [1, 2, 63, 64, 65, 1000])
def test_scatter_of_any_number_of_rows_and_any_order(n, order):
    X = np.asarray(np.random.default_rng(n).standard_normal((n, 3)) + 50, order=order)
    X.flags.writeable = False
    mean = np.array([50.0, 49.0, 51.0])
    S = scatter(X, mean)
    np.testing.assert_array_equal(np.tril(S, -1), 0.0)
    assert_scatter_is_exact(S, X, mean, units=60)


def test_scatter_is_the_same_over_many_cache_blocks(monkeypatch):
    X = np.random.default_rng(6).standard_normal((2000, 4)) + 1e3
    mean = X.mean(axis=0)
    whole = scatter(X, mean)

    monkeypatch.setattr("unpooled.linalg.moments._CACHE_BYTES", 1)

    np.testing.assert_allclose(scatter(X, mean), whole, rtol=0, atol=2000 * 50 * EPS)


@pytest.mark.parametrize("order", ["C", "F"])
def test_blas_prints_nothing_of_no_rows(order, capfd):
    X = np.ones((0, 3), order=order)
    assert not scatter(X, np.ones(3)).any()
    assert not scatter(X, np.zeros(3)).any()
    assert capfd.readouterr() == ("", "")


def test_scatter_of_no_rows_is_zero():
    np.testing.assert_array_equal(scatter(np.empty((0, 2)), np.ones(2)), 0.0)


@pytest.mark.slow
@settings(max_examples=50, deadline=None)
@given(X=matrices)
def test_scatters_of_parts_add_up(X):
    mean = np.clip(X.mean(axis=0), -1e6, 1e6)
    cut = len(X) // 2

    parts = scatter(X[:cut], mean) + scatter(X[cut:], mean)

    S = scatter(X, mean)
    radius = np.sqrt(S.diagonal())
    # Squares below 1e-308 vanish; such columns are as good as constant.
    bound = 400 * EPS * radius * radius[:, None] + 1e-140 * (1.0 + radius.max())
    assert (np.abs(parts - S) <= bound).all()


@pytest.mark.parametrize("p", [1, 2, 7])
def test_packing_keeps_the_upper_triangle_row_by_row(p):
    S = np.arange(1.0, p * p + 1).reshape(p, p)

    packed = pack(S)

    np.testing.assert_array_equal(packed, S[np.triu_indices(p)])
    np.testing.assert_array_equal(unpack(packed, p), np.triu(S) + np.triu(S, 1).T)

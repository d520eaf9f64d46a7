"""Rows cleared by their scatter, against the hat matrix."""

from typing import Any

import numpy as np
import pytest
import scipy.sparse
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

from unpooled.arrays import Array
from unpooled.linalg import leverage_by_scatter as by_scatter
from unpooled.linalg.leverage import largest_leverage
from unpooled.linalg.leverage_by_scatter import leverage_by_scatter


def clears(X: Array, limit: float, about: Array | float = 0.0, blocks: int = 3) -> bool:
    dense = scipy.sparse.csr_array(X).toarray()
    A = (dense - about).T @ (dense - about)
    parts = np.array_split(np.arange(X.shape[0]), blocks)
    return clears_rows(A, lambda: (X[rows] for rows in parts), len(dense), limit)


def clears_rows(A: Array, blocks: Any, n: int, limit: float) -> bool:
    found = leverage_by_scatter(A, blocks, n, limit)
    return found is not None and found.at_most <= limit


def exact(X: Array) -> float:
    return largest_leverage(lambda: iter([X]), *X.shape).at_least


def table(seed: int, n: int = 400, least: float = 3.0) -> Array:
    """Return rows of tails that are heavy or not, in correlated columns."""
    rng = np.random.default_rng(seed)
    p = int(rng.integers(1, 60))
    X = rng.standard_t(rng.uniform(least, 12), (n, p))
    mixing = rng.standard_normal((p, p)) + 2.0 * np.sqrt(p) * np.eye(p)
    return (X @ mixing + rng.uniform(-3, 3, p)) * 10.0 ** rng.integers(-6, 6, p)


@pytest.mark.slow
@given(st.integers(0, 10**6), st.sampled_from([0.0, 1.0, -50.0]))
def test_rows_are_cleared_just_where_the_largest_leverage_is_below_the_limit(
    seed, away
):
    X = table(seed)
    about = X.mean(axis=0) + away * X.std(axis=0)
    largest = exact(X)
    below, above = largest - 1e-4, largest + 0.002
    assert not clears(X, below, about)
    if above < 1.0:
        assert clears(X, above, about)


@pytest.mark.slow
@given(st.integers(0, 10**6), st.sampled_from([1.0, 1.2, 2.0]))
def test_of_very_heavy_tails_nothing_is_cleared_that_should_not(seed, least):
    X = table(seed, least=least) ** 3
    assert not clears(X, exact(X) - 1e-4, X.mean(axis=0) - X.std(axis=0))


@pytest.mark.slow
@given(st.integers(0, 10**6), st.floats(0.3, 0.95))
def test_a_row_that_carries_more_than_the_limit_is_never_cleared(seed, share):
    X = table(seed)
    rng = np.random.default_rng(seed)
    # One row far out in a random direction of the whitened columns.
    centred = X - X.mean(axis=0)
    root = np.linalg.cholesky(centred.T @ centred)
    direction = rng.standard_normal(X.shape[1])
    direction /= np.linalg.norm(direction)
    far = X.mean(axis=0) + 1e3 * root @ direction
    X[rng.integers(len(X))] = far
    assert exact(X) > share
    assert not clears(X, share, X.mean(axis=0) + 0.1 * X.std(axis=0))


@pytest.mark.thinned(3)
@pytest.mark.parametrize("offset", [0.0, 30.0, 1e4])
@pytest.mark.parametrize("limit", [0.5, 0.95])
def test_planted_rows_just_above_the_limit_are_found_in_single_precision(offset, limit):
    """Far from zero the rows are projected in double precision, or not judged."""
    rng = np.random.default_rng(int(offset))
    for _ in range(5):
        X = rng.standard_normal((3000, 60))
        X -= X.mean(axis=0)
        direction = rng.standard_normal(60)
        direction /= np.linalg.norm(direction)
        # h = 1/n + t²/(S + t²) of a row at distance t, about the mean without it.
        S = float(1.0 / (direction @ np.linalg.solve(X.T @ X, direction)))
        n, wanted = len(X) + 1, limit + 1e-3 - 1.0 / (len(X) + 1)
        t = np.sqrt(S * wanted / (1.0 - wanted) * n / (n - 1.0))
        planted = np.vstack([X, t * direction]) + offset
        assert limit < exact(planted) < limit + 2e-3
        assert not clears(planted, limit, planted.mean(axis=0))
        if offset < 1e3:
            assert clears(planted, limit + 4e-3, planted.mean(axis=0) + 0.1)


def test_the_scatter_of_other_rows_clears_nothing():
    X, other = table(1), table(1)
    other[7] = 0.0
    A = other.T @ other
    assert clears(X, 0.95)
    assert not clears_rows(A, lambda: iter([X]), len(X), 0.95)
    assert not clears_rows(1.01 * X.T @ X, lambda: iter([X]), len(X), 0.95)
    # That of classes about their means is not one about a single point.
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((300, 6)), np.arange(300) % 3
    within = X - np.array([X[y == c].mean(axis=0) for c in range(3)])[y]
    assert not clears_rows(within.T @ within, lambda: iter([X]), len(X), 0.95)


def test_constant_columns_are_absent_and_nearly_constant_ones_are_not_cleared():
    X = np.random.default_rng(2).standard_normal((500, 8))
    X[:, 3], X[:, 5] = 0.1, 0.0
    for about in (0.0, X.mean(axis=0), 7.0):
        assert clears(X, 0.95, about)
    X[11, 5] = 1e-9
    for about in (0.0, X.mean(axis=0), 7.0):
        assert not clears(X, 0.95, about)


def test_what_cannot_be_judged_is_not_cleared():
    X = np.random.default_rng(3).standard_normal((500, 8))
    twins = np.column_stack([X, X[:, 0]])
    twins[4, 8] += 1e-9
    assert not clears(twins, 0.95)
    assert not clears(1e9 + X, 0.95)
    missing = X.copy()
    missing[3, 3] = np.nan
    assert not clears(missing, 0.95)
    assert not clears_rows(X.T @ X, lambda: iter([missing]), len(X), 0.95)


@pytest.mark.slow
@given(st.integers(0, 10**6), st.floats(0.05, 0.95))
def test_a_leverage_above_the_limit_is_told_with_the_columns_that_carry_it(seed, limit):
    X = table(seed)
    X[3] += 20.0 * X.std(axis=0)
    found = leverage_by_scatter(X.T @ X, lambda: iter([X]), len(X), limit)
    largest = exact(X)
    if found is None or found.at_most <= limit:
        assert largest < limit + 1e-4
        return
    # Rounding is relative to the scatter's own metric, of which 1e-4 is accepted.
    assert found.at_least <= largest <= found.at_most
    assert found.at_most - found.at_least <= 0.0021
    of_all = largest_leverage(lambda: iter([X]), *X.shape)
    assert set(found.columns) & set(of_all.columns)


def test_many_rows_are_cleared_by_few_projections_and_one_row_is_found():
    rng = np.random.default_rng(11)
    X = rng.standard_normal((6000, 20))
    found = leverage_by_scatter(X.T @ X, lambda: iter([X]), len(X), 0.5)
    assert found is not None
    assert found.at_most == 0.5
    X[4321, 7] = 90.0
    found = leverage_by_scatter(X.T @ X, lambda: iter([X]), len(X), 0.5)
    assert found is not None
    assert abs(found.at_most - exact(X) - 0.001) < 1e-4
    assert found.columns[0] == 7


@pytest.mark.parametrize("rare", [1, 2, 30])
def test_sparse_rows(rare):
    X = scipy.sparse.random_array((600, 40), density=0.2, rng=4).tolil()
    X[:, 7] = 0.0
    X[np.arange(rare) * 17, 7] = 1.0
    assert clears(X.tocsr(), 0.95) == (rare > 1)


def test_quantiles_are_those_of_chi_squared():
    """Rounded down: rows are cleared a little more seldom than they might be."""
    for quantiles, chance in ((by_scatter._RARE, 4e-10), (by_scatter._SELDOM, 1e-3)):
        for k, quantile in quantiles.items():
            exact = scipy.stats.chi2.ppf(chance, k)
            assert 0.9997 * exact <= quantile <= exact


@pytest.mark.thinned(3)
@pytest.mark.parametrize(("n", "p"), [(300, 100), (900, 300), (1400, 300)])
@pytest.mark.parametrize("of_interest", [0.5, 0.95])
def test_with_few_rows_beside_columns_rows_above_either_limit_are_found(
    n, p, of_interest
):
    """From 0.5 on rows are noted, from 0.95 on never cleared.

    The three shapes leave all rows to the exact leverage, clear most of them by
    projections that miss a note once in a thousand times, and by such that never do.
    """
    rng = np.random.default_rng(n)
    X = rng.standard_normal((n, p))
    X -= X.mean(axis=0)
    direction = rng.standard_normal(p)
    S = 1.0 / (direction @ np.linalg.solve(X.T @ X, direction))
    wanted = of_interest + 0.01 - 1.0 / n
    X[0] = np.sqrt(S * wanted / (1.0 - wanted) * n / (n - 1.0)) * direction
    # The row that was there is missing, so that its own leverage counts too.
    largest = exact(X)
    assert largest > of_interest
    mean, about = X.mean(axis=0), np.full(p, 0.02)
    A = (X - about).T @ (X - about)
    for known in ({}, {"mean": mean, "about": about}):
        found = leverage_by_scatter(
            A, lambda: iter([X]), n, 0.95, noteworthy=0.5, **known
        )
        assert found is not None
        assert found.at_least <= largest <= found.at_most
        assert found.at_most - found.at_least <= 0.0021
    others = np.delete(X, 0, axis=0)
    rest = (others - about).T @ (others - about)
    found = leverage_by_scatter(
        rest, lambda: iter([others]), n - 1, 0.95, noteworthy=0.5
    )
    assert found is not None
    assert found.at_most <= 0.95
    assert (found.at_least == 0.0) == (exact(others) < 0.5)


@pytest.mark.parametrize("wrong", ["mean", "about"])
def test_a_wrong_mean_or_point_clears_nothing(wrong):
    X = table(1)
    known = {"mean": X.mean(axis=0), "about": X.mean(axis=0) - X.std(axis=0)}
    A = (X - known["about"]).T @ (X - known["about"])
    blocks = lambda: iter([X])  # noqa: E731
    found = leverage_by_scatter(A, blocks, len(X), 0.95, **known)
    assert found is not None
    assert found.at_most <= 0.95
    known[wrong] = known[wrong] + 0.1 * X.std(axis=0)
    assert leverage_by_scatter(A, blocks, len(X), 0.95, **known) is None


@pytest.fixture(params=[1, 2], ids=["one thread", "two"])
def several_threads(request, monkeypatch):
    """Have rows divided among threads however few they are."""
    monkeypatch.setattr("unpooled.linalg.threads._LEAST_WORK", 0)
    with threadpool_limits(request.param, "blas"):
        yield


@pytest.mark.thinned(2)
@pytest.mark.usefixtures("several_threads")
@pytest.mark.parametrize("apart", [0.1, 1e-2, 1e-3])
def test_rounding_is_bounded_row_by_row_where_columns_nearly_depend(apart):
    """Twins that differ by little: a row far along the difference is found."""
    rng = np.random.default_rng(0)
    n, p = 1200, 80
    X = rng.standard_normal((n, p))
    X[:, 1::2] = X[:, ::2] + apart * X[:, 1::2]
    assert clears(X, 0.95)
    X[7, 1] += 200.0 * apart
    largest = exact(X)
    assert largest > 0.95
    assert not clears(X, 0.95)


@pytest.mark.slow
@pytest.mark.usefixtures("several_threads")
def test_cells_beyond_single_precision_are_judged_in_double():
    X = np.random.default_rng(5).standard_normal((4000, 30))
    for power in (-150, -44, -38, 38, 100):
        scaled = X.copy()
        scaled[:, 4] *= 10.0**power
        assert clears(scaled, 0.95)
        scaled[9, 4] *= 1e4
        assert not clears(scaled, 0.95)


@pytest.mark.slow
@pytest.mark.usefixtures("several_threads")
@pytest.mark.parametrize("blocks", [1, 4])
def test_many_rows_far_out_are_projected_once_more_and_one_at_the_limit_is_found(
    monkeypatch, blocks
):
    """A tenth of the rows has leverages about 0.1, which 32 projections do not clear.

    The others have 0.03 or less. A table has more rows of the first kind than those
    whose leverages are computed at once.
    """
    computed, of_rows = list[int](), by_scatter._Whitening.of_rows

    def counted(whitening, rows):
        computed.append(rows.shape[0])
        return of_rows(whitening, rows)

    monkeypatch.setattr(by_scatter._Whitening, "of_rows", counted)
    rng = np.random.default_rng(0)
    n, p = 9000, 300
    X = rng.standard_normal((n, p))
    X[::10] *= 2.0
    assert clears(X, 0.5, blocks=blocks)
    # Without the second projections it would be the whole tenth.
    assert sum(computed) < n / 20
    X[n // 2] *= 11.0
    largest = exact(X)
    assert 0.5 < largest < 0.95
    assert not clears(X, largest - 0.002, blocks=blocks)
    assert clears(X, largest + 0.004, blocks=blocks)

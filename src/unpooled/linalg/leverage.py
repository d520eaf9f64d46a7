"""Statistical leverage: how much of some direction of the columns one row carries.

    h_i = max over v, c of (x_i v + c)² / Σ_j (x_j v + c)²

is the i-th diagonal entry of the hat matrix of a regression on the columns and an
intercept. No invertible linear map of the columns changes it, and further rows can only
lower it. So the leverage of a row among some *base* rows and itself bounds the one
among all rows, and most rows are cleared without a factorisation of all of them:

    base    some rows at random, factorised:  QR ── R
    pass 1  ‖x_i R⁻¹‖² of all rows by random projections of R⁻¹
            ── rows outside that it does not clear join the base
    pass 2  for rows of the base that are not cleared yet, x_j v of all rows j along
            their directions v: a row's share is a bound from below; the rows j with the
            largest values join the base, and so on until the bounds decide

References
----------
Drineas, Magdon-Ismail, Mahoney and Woodruff, Fast approximation of matrix coherence and
statistical leverage, JMLR 13, 2012, Algorithm 1: the random projections. Their sketch
of all rows is a sample of rows here, whose error has one sign.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import final

import numpy as np

from unpooled.arrays import Array, Float, Int
from unpooled.linalg.moments import (
    Rows,
    column_sums,
    dense_rows,
    observed_sums,
    squared_deviations,
)
from unpooled.linalg.narrow_products import rows_times
from unpooled.linalg.threads import by_runs, one_thread

# A column whose distance from the others is below this share of its own size is a
# linear combination of them, up to rounding.
_ROUNDING = 2.0**-42
# Random projections of a row, whose squared norm falls below this share of the true one
# once in a million times: the quantile of χ² over its degrees of freedom.
_PROJECTIONS, _LEAST_SHARE = 32, 0.22
# Rows of a base: at least so many, so many for each column, and one of so many.
_FEWEST, _PER_COLUMN, _ONE_OF = 2048, 1.5, 32
# Directions of a pass, and rows that join for each of them, twice as many every time.
_DIRECTIONS, _JOINING = 32, 64
# Bytes of rows that are kept from pass to pass.
_IN_MEMORY = 2**27
# Rows that are mapped at once.
_SLICE = 4096


@final
@dataclass(frozen=True, eq=False)
class Leverage:
    """The largest leverage of a table's rows.

    Attributes
    ----------
    at_least, at_most : float
        Bounds of it, from 0 to 1. They are equal, or on the same side of the limit.
    columns : (l,) array of int
        The columns of the direction that the row carries, the heaviest first; none
        where only a bound was found, below the limit.
    """

    at_least: float
    at_most: float
    columns: Int[Array, " l"]


@one_thread()
def largest_leverage(
    blocks: Callable[[], Iterator[Rows]], n: int, p: int, limit: float = 0.0
) -> Leverage:
    """Return the largest leverage of n rows, or on which side of a limit it is.

    Parameters
    ----------
    blocks : callable
        Returns all rows once more, in blocks of dense or CSR rows of p columns. Missing
        cells take the mean of some others.
    n, p : int
        Number of rows and columns.
    limit : float, default 0.0
        Below 1. With 0 the result is exact.

    Notes
    -----
    Columns that are constant, or combinations of others up to rounding, carry nothing:
    they count as absent. With more than a few thousand rows, a row above the limit is
    missed with a probability of 1e-6.
    """
    size = max(_FEWEST, int(_PER_COLUMN * p), n // _ONE_OF)
    if limit <= 0 or n <= 2 * size:
        rows = _chosen(blocks(), np.arange(n), p)
        base = _Base(rows)
        shares = base.shares(rows)
        largest = float(shares.max(initial=0.0))
        columns = np.zeros(0, int)
        if len(rows):
            columns = base.heaviest(base.mapped(rows[[shares.argmax()]])[0])
        return Leverage(largest, largest, columns)
    if 8 * n * p <= _IN_MEMORY:
        # Converted once, and not for every pass.
        kept = list(blocks())
        blocks = lambda: iter(kept)  # noqa: E731
    rng = np.random.default_rng(0)
    places = np.sort(rng.choice(n, size, replace=False))
    base = _Base(_chosen(blocks(), places, p))
    high = _not_cleared(base, blocks(), places, limit, rng)
    watched = _chosen(blocks(), high, p)
    base.join(watched[~np.isin(high, places)])
    places = np.union1d(places, high)
    joining = _JOINING
    while True:
        shares = base.shares(watched)
        watched = watched[np.argsort(-shares)[: (shares > limit).sum()]]
        if not len(watched):
            return Leverage(0.0, limit, np.zeros(0, int))
        Z = base.mapped(watched[:_DIRECTIONS])
        lines = base.lines(Z.T)
        own, values = lines.of(watched[:_DIRECTIONS]), _all(lines.of, blocks())
        least = np.diag(own) ** 2 / np.square(values).sum(axis=0)
        if least.max() > limit:
            columns = base.heaviest(Z[least.argmax()])
            return Leverage(float(least.max()), float(shares.max()), columns)
        largest = np.argpartition(-np.abs(values), min(joining, n - 1), axis=0)
        new = np.setdiff1d(largest[:joining], places)
        base.join(_chosen(blocks(), new, p))
        places, joining = np.union1d(places, new), 2 * joining


def leverages(rows: Float[Array, "n p"]) -> Float[Array, " n"]:
    """Return the leverage of each of some rows among them.

    Missing cells take the mean of the others.
    """
    return _Base(rows).shares(rows)


def largest_in_a_column(blocks: Callable[[], Iterator[Rows]], p: int) -> Leverage:
    """Return the largest leverage of a row in one of p columns by itself.

    Parameters
    ----------
    blocks : callable
        As `largest_leverage` takes it. Missing cells count as absent.
    """
    n, mean = np.zeros(p), np.zeros(p)
    for X in blocks():
        own, total = _counted(X)
        n, mean = n + own, mean + total
    mean /= np.maximum(n, 1.0)
    squares, far = np.zeros(p), np.zeros(p)
    for X in blocks():
        squares += squared_deviations(X, mean)
        least, most = (_extreme(X, which) for which in (np.fmin, np.fmax))
        far = np.fmax(far, np.fmax(most - mean, mean - least))
    share, varies = np.zeros(p), squares > n * (_ROUNDING * mean) ** 2
    share[varies] = far[varies] ** 2 / squares[varies] + 1.0 / n[varies]
    largest = float(share.max(initial=0.0))
    return Leverage(largest, largest, np.atleast_1d(share.argmax()))


def _counted(X: Rows) -> tuple[Int[Array, " p"], Float[Array, " p"]]:
    """Return the observed cells of each column, and their sum."""
    if isinstance(X, np.ndarray):
        return observed_sums(X)
    return np.full(X.shape[1], X.shape[0]), column_sums(X)


def _extreme(X: Rows, which: np.ufunc) -> Float[Array, " p"]:
    """Return the least or largest observed cell of each column."""
    if isinstance(X, np.ndarray):
        return which.reduce(X, axis=0, initial=np.nan)
    found = X.min(axis=0) if which is np.fmin else X.max(axis=0)
    return np.ravel(found.toarray())


@final
class _Base:
    """Some rows, by the map under which the columns of these rows are orthonormal.

    Attributes
    ----------
    width : int
        Number of columns, that of the intercept included.
    """

    def __init__(self, rows: Float[Array, "b p"]) -> None:
        there = ~np.isnan(rows)
        high = np.abs(rows).max(axis=0, initial=0.0, where=there)
        # Divided first: sums and squares of large numbers would overflow.
        unit = np.where(high > 0, high, 1.0)
        scaled = np.where(there, rows / unit, 0.0)
        mean = scaled.sum(axis=0) / np.maximum(there.sum(axis=0), 1)
        centred = np.where(there, scaled - mean, 0.0)
        spread = np.sqrt(np.square(centred).sum(axis=0))
        # A column that is constant here may vary elsewhere.
        rounding = spread <= _ROUNDING * np.sqrt(len(rows))
        self._fill = unit * mean
        self._scale = unit * np.where(rounding, 1.0, spread)
        self.width = rows.shape[1] + 1
        self._one = 1.0 / np.sqrt(max(len(rows), 1))
        # The digits of a column that remain under a large offset are rounding as well.
        self._least = _ROUNDING * np.maximum(1.0, np.append(1.0, high / self._scale))
        self._factor = np.zeros((0, self.width))
        self.join(rows)

    def join(self, rows: Float[Array, "b p"]) -> None:
        """Add rows to the base."""
        for part in _slices(rows):
            stacked = np.concatenate([self._factor, self._columns(part)])
            self._factor = np.linalg.qr(stacked, mode="r")
        self._R = np.zeros((self.width, self.width))
        self._R[: len(self._factor)] = self._factor
        self._order, self._rank = np.arange(self.width), self.width
        absent = np.abs(np.diag(self._R)) < self._least
        if absent.any():
            self._move_to_the_end(int(absent.argmax()))

    def _move_to_the_end(self, first: int) -> None:
        """Put columns that depend on others behind them, from the first such one on.

        A factorisation gives a column of zeros a direction of its own, an arbitrary
        one, and would take it out of the columns that come after.
        """
        from scipy.linalg import qr

        least = self._least[first:]
        part, places = qr(self._R[first:, first:] / least, mode="r", pivoting=True)
        rank = int((np.abs(np.diag(part)) >= 1.0).sum())
        # The residuals of dependent columns are rounding. Rows that are not
        # combinations of the base stand out by them.
        part[rank:, rank:] = np.eye(len(part) - rank)
        self._R[:first, first:] = self._R[:first, first:][:, places]
        self._R[first:, first:] = part * least[places]
        self._order[first:], self._rank = first + places, first + rank

    def _columns(self, rows: Float[Array, "b p"]) -> Float[Array, "b q"]:
        """Return the intercept's column and the scaled ones."""
        columns = np.empty((len(rows), self.width))
        columns[:, 0] = self._one
        centred = np.where(np.isnan(rows), 0.0, rows - self._fill)
        np.divide(centred, self._scale, out=columns[:, 1:])
        return columns

    def mapped(self, rows: Float[Array, "b p"]) -> Float[Array, "b q"]:
        """Return ``[1, X] P R⁻¹``, whose squared row norms are leverages in the base.

        P orders the columns: those that depend on others come last.
        """
        columns = self._columns(rows)[:, self._order]
        return triangular_solution(self._R, columns.T, trans="T").T

    def shares(self, rows: Float[Array, "b p"]) -> Float[Array, " b"]:
        """Return the leverages of rows of the base among its rows."""
        parts = [row_squares(self.mapped(part)) for part in _slices(rows)]
        return np.minimum(np.concatenate([np.zeros(0), *parts]), 1.0)

    def lines(self, directions: Float[Array, "q k"]) -> "_Lines":
        """Return ``mapped(rows) @ directions`` as a linear function of rows."""
        W = self._weights(directions)
        weights = W[1:] / self._scale[:, None]
        return _Lines(weights, self._one * W[0] - self._fill @ weights, self._fill)

    def heaviest(self, direction: Float[Array, " q"]) -> Int[Array, " l"]:
        """Return the columns with large weights in a direction of mapped rows."""
        there = np.where(np.arange(self.width) < self._rank, direction, 0.0)
        return heaviest(self._weights(there[:, None])[1:, 0])

    def _weights(self, directions: Float[Array, "q k"]) -> Float[Array, "q k"]:
        """Return ``R⁻¹ directions``, of the intercept and the columns as they came."""
        weights = np.empty_like(directions)
        weights[self._order] = triangular_solution(self._R, directions)
        return weights


@final
@dataclass(frozen=True, eq=False)
class _Lines:
    """Linear functions of rows, one for each column of the weights."""

    weights: Float[Array, "p k"]
    offset: Float[Array, " k"]
    fill: Float[Array, " p"]

    def of(self, rows: Rows) -> Float[Array, "n k"]:
        """Return their values of each row."""
        if hasattr(rows, "indptr"):
            values = rows @ self.weights
        else:
            values = np.empty((len(rows), self.weights.shape[1]))
            work = rows.size * values.shape[1]
            by_runs(partial(self._multiplied, rows, values), len(rows), work)
        if np.isnan(values).any():
            dense = dense_rows(rows)
            values = np.where(np.isnan(dense), self.fill, dense) @ self.weights
        values += self.offset
        return values

    def _multiplied(
        self, rows: Float[Array, "n p"], values: Float[Array, "n k"], run: slice
    ) -> None:
        rows_times(rows[run], self.weights, out=values[run])


def _not_cleared(
    base: _Base,
    blocks: Iterator[Rows],
    places: Int[Array, " b"],
    limit: float,
    rng: np.random.Generator,
) -> Int[Array, " l"]:
    """Return the places of the rows whose leverage may be above a limit.

    Parameters
    ----------
    places : (b,) array of int
        Columns of the base, sorted.
    """
    q = base.width
    directions, share = np.eye(q), 1.0
    if q > _PROJECTIONS:
        directions = rng.standard_normal((q, _PROJECTIONS)) / np.sqrt(_PROJECTIONS)
        share = _LEAST_SHARE
    lines = base.lines(directions)
    found, start = [], 0
    for block in blocks:
        stop = start + block.shape[0]
        first, last = np.searchsorted(places, [start, stop])
        # With g in the base, a row outside has at most g / (1 + g).
        most = np.full(block.shape[0], limit / (1.0 - limit))
        most[places[first:last] - start] = limit
        high = np.flatnonzero(row_squares(lines.of(block)) > share * most)
        for part in np.split(high, range(_SLICE, len(high), _SLICE)):
            exact = row_squares(base.mapped(dense_rows(block[part])))
            found.append(start + part[exact > most[part]])
        start = stop
    return np.concatenate(found)


def triangular_solution(
    R: Float[Array, "q q"],
    B: Float[Array, "q k"],
    *,
    trans: str = "N",
    lower: bool = False,
) -> Float[Array, "q k"]:
    """Return ``R⁻¹ B``, or ``R⁻ᵀ B`` with `trans` "T"."""
    # SciPy takes long to import, and simulations need it only here.
    from scipy.linalg import solve_triangular

    return solve_triangular(R, B, trans=trans, lower=lower, check_finite=False)


def heaviest(weights: Float[Array, " p"]) -> Int[Array, " l"]:
    """Return the columns with large weights, in units of each column's spread.

    Their weights are at least a tenth of the largest; the largest comes first.
    """
    order = np.argsort(-np.abs(weights), kind="stable")
    size = np.abs(weights)[order]
    return order[size >= 0.1 * size.max(initial=0.0)]


def _all(
    of: Callable[[Rows], Float[Array, "n k"]], blocks: Iterator[Rows]
) -> Float[Array, "N k"]:
    return np.concatenate([of(block) for block in blocks])


def _chosen(
    blocks: Iterator[Rows], places: Int[Array, " b"], p: int
) -> Float[Array, "b p"]:
    """Return the rows at sorted places."""
    parts, start = [np.zeros((0, p))], 0
    for block in blocks:
        stop = start + block.shape[0]
        first, last = np.searchsorted(places, [start, stop])
        parts.append(dense_rows(block[places[first:last] - start]))
        start = stop
    return np.concatenate(parts)


def _slices(rows: Float[Array, "n p"]) -> Iterator[Float[Array, "m p"]]:
    step = max(_SLICE, 2 * rows.shape[1])
    return (rows[start : start + step] for start in range(0, len(rows), step))


def row_squares(rows: Float[Array, "n k"]) -> Float[Array, " n"]:
    """Return the squared norms of rows."""
    return np.einsum("ij,ij->i", rows, rows)

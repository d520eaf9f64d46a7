"""The largest leverage of rows by a scatter matrix of theirs that exists already.

    h_i = 1/n + (x_i - m) S⁻¹ (x_i - m)ᵀ,   m, S: mean of the n rows, scatter about it

A silo that forms a scatter for a release has the expensive part:

    A          given, the scatter about any one point μ:  A = S + d dᵀ,  d = √n (m - μ)
    reading 1  m, and S v for one direction v ── A v - S v tells d ──> S = L Lᵀ
               ── left out where m and μ are known
    reading 2  W = L⁻ᵀ Ωᵀ, few random columns ── ‖(x_i - m) W‖² of all rows;
               rows that these do not clear are projected on more columns;
               what is left has its leverage computed

Reading 2 costs 2 n p k operations for k projections, 2 k / p of what the scatter took.
It also proves S: the projected rows have the cross-product matrix Ω Ωᵀ if, and for
random Ω only if, S is the scatter of these very rows. So m and μ need no trust either.

**Why no row above the limit is cleared.** With Gaussian Ω the projected squared norm of
a row is its own times χ² of k degrees of freedom. So it falls below `_RARE[k]` times
its own once in 2.5e9 times, and rows are cleared only where it is at most that many
times the limit, less what rounding may hide. A row below the limit that is worth a note
is warned of and not refused: where n is only a few times p, so that many projections
would be needed, one such row in a thousand is missed (`_SELDOM`).

**Single precision.** Most of the time is that of the projections, so rows are rounded
before. Let W be the weights of the projections and x a row. A sum of p rounded products
differs from the true one by at most γ |x| |w| with γ = 2 (p + 4) ε, whatever the order
of the additions (Higham, Accuracy and Stability of Numerical Algorithms, 2002, section
3.1). Over all columns of W that is at most γ times

    a(x) = Σ_j |x_j| ‖W_j‖ ≤ ‖x‖ ‖W‖     and   ‖x - m‖² ≤ ‖R‖ (x - m) R⁻¹ (x - m)ᵀ

in units of the columns' spreads, in which S is R. By the second line no row of leverage
h is projected to less than (√_RARE - ρ) √h - γ ‖m‖ ‖W‖ with ρ = γ ‖R‖^½ ‖W‖. Where that
leaves too little, as with columns that nearly depend on each other, a(x) is computed
for every row: one more column of weights.

References
----------
Drineas, Magdon-Ismail, Mahoney and Woodruff, Fast approximation of matrix coherence and
statistical leverage, JMLR 13, 2012, Algorithm 1: the random projections. Their sketch
of the rows is the factor of the scatter itself here, whose error is none.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, partial
from typing import final

import numpy as np

from unpooled.arrays import Array, Bool, Float, Int
from unpooled.linalg.leverage import (
    Leverage,
    heaviest,
    row_squares,
    triangular_solution,
)
from unpooled.linalg.moments import Rows, dense_rows
from unpooled.linalg.narrow_products import rows_times
from unpooled.linalg.threads import by_runs, one_thread

# Quantiles of χ² by numbers of projections, its degrees of freedom: it falls below the
# first with a probability of 4e-10, below the second with one of 1e-3.
_RARE = {16: 0.5181, 24: 1.8725, 32: 3.9487, 48: 9.6432, 64: 16.747, 96: 33.593}
_RARE |= {128: 52.688, 192: 94.896, 256: 140.44, 384: 237.39, 512: 339.16}
_SELDOM = {96: 58.798, 128: 84.187, 192: 137.09, 256: 191.73, 384: 304.02, 512: 418.78}
# Projections that rows are judged by at first clear a mean leverage with as many
# standard deviations of χ² above it; others have so many times more, at most p / 3.
_ABOVE_MEAN, _MORE = 2.0, 3
# Projections whose cross-product matrix proves the scatter.
_PROVING = min(_RARE)
# Rounding of a leverage. One so close to a limit is left to another method.
_MARGIN = 1e-3
# Relative error of S in its own metric, which is that of leverages. The projections see
# at least a share of it, so that leverages are wrong by less than the margin. Columns
# that nearly depend on each other show here, too: rounding is large in this metric.
_TOLERANCE = 1e-4
# A column whose squares about the mean are below this share of those about another
# point has lost its digits, unless it is constant.
_LOST = 1e-10
# The part of a bound's root that rounding may take before it is computed for each row.
_ROUNDED = 0.1
# Columns up to which a bound of ‖R‖ is formed entry by entry.
_FEW_COLUMNS = 1024
# Numbers of rows that stay in the processor's cache; of rows that are mapped at once.
_CACHE_NUMBERS, _PART_NUMBERS = 2**18, 2**20


@one_thread()
def leverage_by_scatter(
    A: Float[Array, "p p"],
    blocks: Callable[[], Iterator[Rows]],
    n: int,
    limit: float,
    *,
    noteworthy: float | None = None,
    mean: Float[Array, " p"] | None = None,
    about: Float[Array, " p"] | None = None,
) -> Leverage | None:
    """Return the largest leverage, or that it is below a limit.

    Parameters
    ----------
    A : (p, p) array
        Believed to be the scatter of the rows about one point.
    blocks : callable
        Returns all rows once more, in blocks of dense or CSR rows of p columns.
    n : int
        Number of rows.
    limit : float
        Above 0 and at most 1. Smaller leverages are not computed, unless some are
        worth a note.
    noteworthy : float, optional
        At most the limit, by default equal to it: leverages from here on are computed.
    mean, about : (p,) array, optional
        Believed to be the mean of the rows, and the point that A is about. With both,
        the rows are read once less.

    Returns
    -------
    Leverage or None
        None where it is not known: A is something else, cells are missing, or columns
        are linear combinations of others or nearly so. "At most the limit" is wrong
        with a probability of 1e-9 for each row above it.
    """
    if not np.isfinite(A).all():
        return None
    if mean is None or about is None:
        m, S = _about_mean(A, blocks(), np.random.default_rng(1))
    else:
        d = np.sqrt(n) * (mean - about)
        m, S = mean, np.multiply.outer(d, d)
        np.subtract(A, S, out=S)
    if not (np.isfinite(m).all() and np.isfinite(S).all()):
        return None
    lost = S.diagonal() <= _LOST * np.maximum(A.diagonal(), n * m**2)
    if lost.any() and not _are_constant(blocks(), lost):
        return None
    try:
        whitening = _Whitening(S, m, ~lost)
    except np.linalg.LinAlgError:
        return None
    low = limit if noteworthy is None else noteworthy
    # These limits are for a row's leverage less 1/n.
    clear, unnoted = (max(h - _MARGIN - 1.0 / n, 0.0) for h in (limit, low))
    stages = _stages(clear, unnoted, len(A), n)
    for precision in (np.float32, np.float64):
        projections = _Projections(whitening, n, clear, stages, precision)
        largest, columns = 0.0, np.zeros(0, int)
        for rows in projections.not_cleared(blocks()):
            Y = whitening.of_rows(rows)
            squares = row_squares(Y)
            if squares.max() > largest:
                largest = float(squares.max())
                columns = whitening.heaviest(Y[squares.argmax()])
        if projections.error <= _TOLERANCE:
            break
        if not projections.is_single:
            return None
    largest += 1.0 / n
    if largest + _MARGIN <= low:
        return Leverage(0.0, limit, np.zeros(0, int))
    return Leverage(max(largest - _MARGIN, 0.0), min(largest + _MARGIN, 1.0), columns)


def _stages(clear: float, unnoted: float, p: int, n: int) -> dict[int, float]:
    """Return how many projections rows are judged by, and up to which squared norm.

    The first projections are of every row, the later ones of rows that are not cleared.

    Parameters
    ----------
    clear, unnoted : float
        Whitened squared norms up to which rows may be cleared, and need no note.
    p, n : int
        Numbers of columns and rows.
    """
    few = {k: rare * unnoted for k, rare in _RARE.items() if k not in _SELDOM}
    many = {k: min(_RARE[k] * clear, _SELDOM[k] * unnoted) for k in _SELDOM}
    if unnoted == clear:
        many = {k: _RARE[k] * clear for k in _SELDOM}
    for bounds in (few, many):
        for k, bound in bounds.items():
            above = 1.0 + _ABOVE_MEAN * np.sqrt(2.0 / k)
            if bound >= k * p / n * above and k <= max(p // 3, _PROVING):
                later = {j: _RARE[j] * unnoted for j in _RARE} if k in few else many
                more = [j for j in sorted(_RARE) if _MORE * k <= j <= p // 3][:1]
                return {k: bound} | {j: later[j] for j in more}
    return {_PROVING: few[_PROVING]}


@final
class _Whitening:
    """The map under which columns with a given scatter are orthonormal.

    Parameters
    ----------
    S : (p, p) array
        The scatter about m, of which the upper triangle is read. It is overwritten.
    m : (p,) array
        The mean.
    there : (p,) array of bool
        Columns that are not constant.

    Raises
    ------
    LinAlgError
        Where columns depend on each other.
    """

    def __init__(
        self, S: Float[Array, "p p"], m: Float[Array, " p"], there: Bool[Array, " p"]
    ) -> None:
        from scipy.linalg.lapack import dpotrf

        if not there.all():
            S = S[np.ix_(there, there)]
        self.mean, self._there, self._scale = m, there, np.sqrt(S.diagonal())
        self.width = len(S)
        # ‖R‖ is at most its trace, and at most the largest sum of a row; with many
        # columns that is not worth a pass over p² numbers.
        norm = float(self.width)
        if self.width <= _FEW_COLUMNS:
            sums = np.abs(S) @ (1.0 / self._scale) / self._scale
            norm = float(sums.max(initial=0.0))
        self._root_norm = np.sqrt(norm)
        # In Fortran order, in place: the factor takes the place of S.
        self._L, failed = dpotrf(S.T, lower=1, clean=0, overwrite_a=1)
        if failed:
            raise np.linalg.LinAlgError("columns depend on each other")

    def weights(self, directions: Float[Array, "k l"]) -> Float[Array, "p k"]:
        """Return W with ``(X - m) W = whitened(X) directionsᵀ``."""
        solved = triangular_solution(self._L, directions.T, lower=True, trans="T")
        weights = np.zeros((len(self._there), len(directions)))
        weights[self._there] = solved
        return weights

    def sizes(self, W: Float[Array, "p k"], n: int) -> tuple[float, float, float]:
        """Return norms in units of the columns' spreads.

        Of W times the root of ‖R‖, which bounds rows by their leverage; of W times the
        mean; and of W times the root mean square of n rows.
        """
        size = float(np.linalg.norm(W[self._there] * self._scale[:, None]))
        mean = float(np.linalg.norm(self.mean[self._there] / self._scale))
        usual = np.sqrt(self.width / n + mean**2)
        return size * self._root_norm, size * mean, size * float(usual)

    def of_rows(self, rows: Rows) -> Float[Array, "n l"]:
        """Return rows whitened: their squared norms are leverages less 1/n."""
        Y = (dense_rows(rows) - self.mean)[:, self._there]
        return triangular_solution(self._L, Y.T, lower=True).T

    def heaviest(self, direction: Float[Array, " l"]) -> Int[Array, " q"]:
        """Return the columns with large weights in a direction of whitened rows."""
        solved = triangular_solution(self._L, direction[:, None], lower=True, trans="T")
        return np.flatnonzero(self._there)[heaviest(solved[:, 0] * self._scale)]


@final
class _Projections:
    """Random projections of whitened rows, by which most of them are cleared.

    Parameters
    ----------
    whitening : _Whitening
        Whitening of the rows.
    n : int
        Number of rows.
    clear : float
        Whitened squared norm up to which rows may be cleared.
    stages : dict of int to float
        As of `_stages`.
    precision : type
        In which all rows may be projected, where rounding allows.

    Attributes
    ----------
    is_single : bool
        Whether they are projected in single precision.
    """

    def __init__(
        self,
        whitening: _Whitening,
        n: int,
        clear: float,
        stages: Mapping[int, float],
        precision: type[np.floating],
    ) -> None:
        self._whitening, self._stages = whitening, list(stages.items())
        self._rng = np.random.default_rng(0)
        (k, bound), *_ = self._stages
        # Rows whose leverages take no more than a next stage: they are computed.
        self._exactly = 2 * max(stages)
        omega = self._rng.standard_normal((k, whitening.width))
        self._W = whitening.weights(omega)
        self._shift, self._root = whitening.mean @ self._W, np.sqrt(bound)
        eps = float(np.finfo(np.float32).eps)
        gamma = 2.0 * (whitening.width + 4) * eps
        of_leverage, of_mean, of_rows = whitening.sizes(self._W, n)
        # For rows of usual size. A sum over rows, which proves S, has a smaller error.
        self.is_single = (
            precision is np.float32
            and gamma * of_rows <= _ROUNDED * self._root
            and eps * of_rows <= _TOLERANCE
        )
        # By which rounding may shorten a projected row: any row, or a(x) of each.
        self._lost = gamma * (of_leverage * np.sqrt(clear) + of_mean)
        self._by_row = not self._lost <= _ROUNDED * self._root
        if self._by_row:
            self._lost = gamma
        with np.errstate(over="ignore"):  # of weights that are not used in the end
            self._single = self._W.astype(np.float32)
            self._lengths = np.sqrt(row_squares(self._W)).astype(np.float32)
        # The part that the projected rows' cross-product matrix still lacks.
        self._lacking = omega[:_PROVING] @ omega[:_PROVING].T

    def not_cleared(self, blocks: Iterator[Rows]) -> Iterator[Rows]:
        """Yield rows that may be above the limit."""
        for block in blocks:
            n, width = block.shape
            runs = by_runs(partial(self._first, block), n, n * width * self._W.shape[1])
            for places, proven in runs:
                self._lacking -= proven
                step = _step(width, _PART_NUMBERS)
                for start in range(0, len(places), step):
                    rows = block[places[start : start + step]]
                    if (near := self._later(rows)).shape[0]:
                        yield near

    def _first(
        self, block: Rows, run: slice
    ) -> tuple[Int[Array, " l"], Float[Array, "q q"]]:
        """Return the places of a run's rows that the first stage does not clear.

        And the cross-product matrix of the run by which the scatter is proven.
        """
        step, width = _step(block.shape[1], _CACHE_NUMBERS), block.shape[1]
        single = self.is_single and not hasattr(block, "indptr")
        places, proven = [np.zeros(0, int)], np.zeros_like(self._lacking)
        rounded = np.empty((min(step, run.stop - run.start), width), np.float32)
        # Cells beyond single precision become infinite, and their rows are not cleared.
        # Set in every thread.
        with np.errstate(over="ignore", invalid="ignore"):
            for start in range(run.start, run.stop, step):
                rows = block[start : min(start + step, run.stop)]
                if single:
                    Z, lost = self._rounded(rows, rounded[: len(rows)])
                else:
                    Z, lost = rows @ self._W, np.zeros(rows.shape[0])
                Z = Z - self._shift
                proving = Z[:, :_PROVING]
                proven += proving.T @ proving
                # Not by its opposite: where a cell is missing, no comparison holds.
                cleared = np.sqrt(row_squares(Z)) + lost <= self._root
                places.append(start + np.flatnonzero(~cleared))
        return np.concatenate(places), proven

    def _rounded(
        self, rows: Float[Array, "n p"], rounded: Array
    ) -> tuple[Array, Float[Array, " n"]]:
        """Return ``rows @ W`` in single precision, and what that may take of each row.

        Parameters
        ----------
        rounded : (n, p) array
            Space for the rows in single precision.
        """
        np.copyto(rounded, rows, casting="same_kind")
        Z = np.empty((len(rows), self._W.shape[1]), np.float32)
        rows_times(rounded, self._single, out=Z)
        lost = np.full(len(rows), self._lost)
        if self._by_row:
            lost *= np.abs(rounded, out=rounded) @ self._lengths
        return Z, lost

    def _later(self, rows: Rows) -> Rows:
        """Return those of some rows that no later stage clears."""
        if self._exactly >= rows.shape[0] or not self._stages[1:]:
            self._exactly -= rows.shape[0]
            return rows
        W, shift, bound = self._next
        with np.errstate(over="ignore", invalid="ignore"):
            cleared = row_squares(rows @ W - shift) <= bound
        return rows[np.flatnonzero(~cleared)]

    @cached_property
    def _next(self) -> tuple[Float[Array, "p k"], Float[Array, " k"], float]:
        """The weights of the stage after the first, its shift and its bound."""
        (k, _), (more, bound) = self._stages
        omega = self._rng.standard_normal((more - k, self._whitening.width))
        # It has the projections of the first, too.
        W = np.hstack([self._W, self._whitening.weights(omega)])
        return W, self._whitening.mean @ W, bound

    @property
    def error(self) -> float:
        """By how much the scatter of the rows that were read differs from S."""
        return float(np.linalg.norm(self._lacking)) / _PROVING


def _about_mean(
    A: Float[Array, "p p"],
    blocks: Iterator[Rows],
    rng: np.random.Generator,
) -> tuple[Float[Array, " p"], Float[Array, "p p"]]:
    """Return the mean of the rows, and A about it."""
    # In every column's own units. Two power steps turn the direction to that of a far
    # point, where across it few digits would be left.
    unit = np.sqrt(np.where(A.diagonal() > 0, A.diagonal(), 1.0))
    v = rng.standard_normal(len(A)) / unit
    for _ in range(2):
        v = (A @ v) / unit**2
    n, sums, along, sum_u = 0, np.zeros((len(A), 2)), None, 0.0
    for part in _parts(blocks, _CACHE_NUMBERS):
        weights = np.ones((part.shape[0], 2))
        u = part @ v
        # About the first rows: squares of large offsets would swallow the others.
        along = u.mean() if along is None else along
        np.subtract(u, along, out=weights[:, 1])
        n += len(u)
        sums += part.T @ weights
        sum_u += weights[:, 1].sum()
    m = sums[:, 0] / max(n, 1)
    # A v - S v = d (d v).
    beyond = A @ v - (sums[:, 1] - m * sum_u)
    square = float(v @ beyond)
    if not square > 0.0:
        return m, A.copy()
    d = beyond / np.sqrt(square)
    return m, A - np.outer(d, d)


def _are_constant(blocks: Iterator[Rows], columns: Bool[Array, " p"]) -> bool:
    first: Array | None = None
    for part in _parts(blocks, _PART_NUMBERS):
        values = dense_rows(part[:, np.flatnonzero(columns)])
        first = values[0] if first is None else first
        if not (values == first).all():
            return False
    return True


def _parts(blocks: Iterator[Rows], numbers: int) -> Iterator[Rows]:
    for block in blocks:
        step = _step(block.shape[1], numbers)
        for start in range(0, block.shape[0], step):
            yield block[start : start + step]


def _step(width: int, numbers: int) -> int:
    """Return how many rows have so many numbers, at least 32."""
    return max(numbers // max(width, 1), 32)

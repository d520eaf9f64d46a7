"""The largest leverage of rows by a scatter matrix of theirs that exists already.

    h_i = 1/n + (x_i - m) S⁻¹ (x_i - m)ᵀ,   m, S: mean of the n rows, scatter about it

A silo that forms a scatter for a release has the expensive part:

    A          given, the scatter about any one point μ:  A = S + d dᵀ,  d = √n (m - μ)
    reading 1  m, and S v for one direction v ── A v - S v tells d ──> S = L Lᵀ
    reading 2  W = L⁻ᵀ Ωᵀ, few random columns ── ‖(x_i - m) W‖² of all rows;
               rows that these do not clear are projected on more columns;
               what is left has its leverage computed

Reading 2 costs 2 n p k operations for k projections, 2 k / p of what the scatter took.
It also proves S: the projected rows have the cross-product matrix Ω Ωᵀ if, and for
random Ω only if, S is the scatter of these very rows.

**Why no row above the limit is cleared.** With Gaussian Ω the projected squared norm of
a row is its own times χ² over its k degrees of freedom. So it falls below the share
`_SHARES[k]` of its own once in 2.5e9 times, and rows are cleared only where it is at
most that share of the limit, less what rounding may hide.

**Single precision.** Most of the time is that of the projections, so rows are rounded
before. In units of the columns' spreads let R be S, W the weights of the projections
and m + x a row. A sum of p rounded products differs from the true one by at most
γ (‖x‖ + ‖m‖) ‖W‖ with γ = 2 (p + 4) ε, whatever the order of the additions (Higham,
Accuracy and Stability of Numerical Algorithms, 2002, section 3.1), and
‖x‖² ≤ ‖R‖ x R⁻¹ xᵀ. So the projected norm of a row with leverage h is at least
(√share - ρ) √h - γ ‖m‖ ‖W‖ with ρ = γ ‖R‖^½ ‖W‖. Where rounding is no small part of
that, rows are projected in double precision.

References
----------
Drineas, Magdon-Ismail, Mahoney and Woodruff, Fast approximation of matrix coherence and
statistical leverage, JMLR 13, 2012, Algorithm 1: the random projections. Their sketch
of the rows is the factor of the scatter itself here, whose error is none.
"""

from collections.abc import Callable, Iterator
from typing import Any, final

import numpy as np

from unpooled.arrays import Array, Bool, Float, Int
from unpooled.linalg.crossproduct import blas
from unpooled.linalg.leverage import (
    Leverage,
    dense_rows,
    heaviest,
    row_squares,
    triangular_solution,
)
from unpooled.linalg.moments import Rows

# Numbers of projections, and the share of its true value below which a projected norm,
# squared, falls with a probability of 4e-10: a quantile of χ² over degrees of freedom.
_SHARES = {16: 0.0323, 24: 0.0779, 32: 0.1233, 64: 0.2616, 128: 0.4116}
_MOST = 128
# Projections are enough where the mean leverage is this share of what they clear.
_MEAN = 0.4
# Rounding of a leverage. One so close to a limit is left to another method.
_MARGIN = 1e-3
# Relative error of S in its own metric, which is that of leverages. The projections see
# at least a share of it, so that leverages are wrong by less than the margin. Columns
# that nearly depend on each other show here, too: rounding is large in this metric.
_TOLERANCE = 1e-4
# A column whose squares about the mean are below this share of those about another
# point has lost its digits, unless it is constant.
_LOST = 1e-10
# The part of a share's root that rounding may take in single precision.
_ROUNDED = 0.1
# Multiplications of a product up to which OpenBLAS copies no operand, on processors for
# which it has such products: half of the time. Elsewhere so small ones take twice to
# three times as long as large ones.
_UNCOPIED = 10**6
_COPY_NOTHING = ("SkylakeX", "Cooperlake", "SapphireRapids")
# Numbers of rows that stay in the processor's cache; of rows that are mapped at once.
_CACHE_NUMBERS, _PART_NUMBERS = 2**16, 2**20


def leverage_by_scatter(
    A: Float[Array, "p p"],
    blocks: Callable[[], Iterator[Rows]],
    n: int,
    limit: float,
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
        Above 0 and at most 1. Leverages below it are not told apart.

    Returns
    -------
    Leverage or None
        None where it is not known: A is something else, cells are missing, or columns
        are linear combinations of others or nearly so. "At most the limit" is wrong
        with a probability of 1e-9 for each row above it.
    """
    if not np.isfinite(A).all():
        return None
    rng = np.random.default_rng(0)
    m, S = _about_mean(A, blocks(), rng)
    if not (np.isfinite(m).all() and np.isfinite(S).all()):
        return None
    lost = S.diagonal() <= _LOST * np.maximum(A.diagonal(), n * m**2)
    if lost.any() and not _are_constant(blocks(), lost):
        return None
    try:
        whitening = _Whitening(S, m, ~lost)
    except np.linalg.LinAlgError:
        return None
    # Of a row's leverage less 1/n.
    clear = max(limit - _MARGIN - 1.0 / n, 0.0)
    wanted = len(A) / n / _MEAN
    enough = [k for k, share in _SHARES.items() if share * clear >= wanted]
    projections = _Projections(whitening, min(enough, default=_MOST), clear, rng)
    largest, columns = 0.0, np.zeros(0, int)
    for rows in projections.not_cleared(blocks()):
        Y = whitening.of_rows(rows)
        squares = row_squares(Y)
        if squares.max() > largest:
            largest = float(squares.max())
            columns = whitening.heaviest(Y[squares.argmax()])
    if not projections.error <= _TOLERANCE:
        return None
    largest += 1.0 / n
    if largest + _MARGIN <= limit:
        return Leverage(0.0, limit, np.zeros(0, int))
    return Leverage(max(largest - _MARGIN, 0.0), min(largest + _MARGIN, 1.0), columns)


@final
class _Whitening:
    """The map under which columns with a given scatter are orthonormal.

    Parameters
    ----------
    S : (p, p) array
        The scatter about m.
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
        S = S if there.all() else S[np.ix_(there, there)]
        self.mean, self._there, self._scale = m, there, np.sqrt(S.diagonal())
        R = S / self._scale / self._scale[:, None]
        self._L = np.linalg.cholesky(R)
        # Its norm is at most the largest sum of a column.
        self._root_norm = float(np.sqrt(np.abs(R).sum(axis=0).max(initial=0.0)))
        self.width = len(self._L)

    def weights(self, directions: Float[Array, "k l"]) -> Float[Array, "p k"]:
        """Return W with ``(X - m) W = whitened(X) directionsᵀ``."""
        solved = triangular_solution(self._L, directions.T, lower=True, trans="T")
        weights = np.zeros((len(self._there), len(directions)))
        weights[self._there] = solved / self._scale[:, None]
        return weights

    def rounding(
        self, W: Float[Array, "p k"], clear: float, precision: np.dtype[Any]
    ) -> float:
        """Return how far rounding may take the projected norm of a row below.

        Of a row with a leverage of 1/n and `clear`. That of a row with more is no
        larger a part of its norm.
        """
        gamma = 2.0 * (self.width + 4) * float(np.finfo(precision).eps)
        size = np.linalg.norm(W[self._there] * self._scale[:, None])
        mean = np.linalg.norm(self.mean[self._there] / self._scale)
        return gamma * float(size * (self._root_norm * np.sqrt(clear) + mean))

    def of_rows(self, rows: Rows) -> Float[Array, "n l"]:
        """Return rows whitened: their squared norms are leverages less 1/n."""
        Y = (dense_rows(rows) - self.mean)[:, self._there] / self._scale
        return triangular_solution(self._L, Y.T, lower=True).T

    def heaviest(self, direction: Float[Array, " l"]) -> Int[Array, " q"]:
        """Return the columns with large weights in a direction of whitened rows."""
        solved = triangular_solution(self._L, direction[:, None], lower=True, trans="T")
        return np.flatnonzero(self._there)[heaviest(solved[:, 0])]


@final
class _Projections:
    """Random projections of whitened rows, by which most of them are cleared.

    Parameters
    ----------
    whitening : _Whitening
        Of the rows.
    k : int
        Number of projections of every row.
    clear : float
        Rows with whitened squared norms up to this one may be cleared.
    """

    def __init__(
        self, whitening: _Whitening, k: int, clear: float, rng: np.random.Generator
    ) -> None:
        self._precision = np.dtype(np.float64)
        draws = [
            rng.standard_normal((k, whitening.width)) / np.sqrt(k)
            for k in sorted({k, _MOST})
        ]
        self._W = [whitening.weights(omega) for omega in draws]
        self._shifts = [whitening.mean @ W for W in self._W]
        self._bounds = [_SHARES[len(omega)] * clear for omega in draws]
        root, single = float(np.sqrt(self._bounds[0])), np.dtype(np.float32)
        rounding = whitening.rounding(self._W[0], clear, single)
        if rounding <= _ROUNDED * root:
            self._precision, self._bounds[0] = single, (root - rounding) ** 2
        # What the projected rows' cross-product matrix lacks yet.
        self._lacking = draws[0] @ draws[0].T

    def not_cleared(self, blocks: Iterator[Rows]) -> Iterator[Rows]:
        """Yield rows that may be above the limit."""
        stages = list(zip(self._W, self._shifts, self._bounds, strict=True))
        (W, shift, bound), later = stages[0], stages[1:]
        for part in _parts(blocks, _PART_NUMBERS):
            if self._precision.itemsize < W.itemsize and not hasattr(part, "indptr"):
                Z = _rounded_product(part, W.astype(self._precision))
            else:
                Z = _product(part, W)
            Z -= shift
            self._lacking -= Z.T @ Z
            # Not by its opposite: where a cell is missing, no comparison holds.
            high = ~(row_squares(Z) <= bound)
            if not high.any():
                continue
            near = part[high]
            for W_more, shift_more, bound_more in later:
                near = near[~(row_squares(near @ W_more - shift_more) <= bound_more)]
            if near.shape[0]:
                yield near

    @property
    def error(self) -> float:
        """By how much the scatter of the rows that were read differs from S."""
        return float(np.linalg.norm(self._lacking))


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
        return m, A
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
        step = max(numbers // max(block.shape[1], 1), 32)
        for start in range(0, block.shape[0], step):
            yield block[start : start + step]


def _rounded_product(
    rows: Float[Array, "n p"], W: Float[Array, "p k"]
) -> Float[Array, "n k"]:
    """Return ``rows @ W``, of rows rounded to the precision of W."""
    Z, start = np.empty((len(rows), W.shape[1])), 0
    # Cells beyond that precision become infinite, and their rows are not cleared.
    with np.errstate(over="ignore", invalid="ignore"):
        for part in _parts(iter([rows]), _CACHE_NUMBERS):
            stop = start + len(part)
            Z[start:stop] = part.astype(W.dtype) @ W
            start = stop
    return Z


def _product(rows: Rows, W: Float[Array, "p k"]) -> Float[Array, "n k"]:
    """Return ``rows @ W``."""
    if hasattr(rows, "indptr"):
        return rows @ W
    Z = np.empty((len(rows), W.shape[1]))
    step = max(_UNCOPIED // max(W.size, 1), 8)
    if not any(used.get("architecture") in _COPY_NOTHING for used in blas().info()):
        step = max(len(rows), 1)
    for start in range(0, len(rows), step):
        np.matmul(rows[start : start + step], W, out=Z[start : start + step])
    return Z

"""Clearing rows of large leverages by a scatter matrix of theirs that exists already.

    h_i = 1/n + (x_i - m) S⁻¹ (x_i - m)ᵀ,   m, S: mean of the n rows, scatter about it

A silo that forms a scatter for a release has the expensive part:

    A        given, the scatter about any one point μ:  A = S + n (m - μ)(m - μ)ᵀ
    pass 1   S v for one direction v ── A v - S v tells μ ──> S = L Lᵀ
    pass 2   ‖(x_i - m) L⁻ᵀ Ωᵀ‖² with few rows in Ω: random projections of all rows;
             the rows that these do not clear have their leverage computed

Pass 2 costs 2 n p k operations for k projections, 2 k / p of what the scatter took. It
also proves S: the projected rows have the cross-product matrix Ω Ωᵀ if, and for random
Ω only if, S is the scatter of these very rows.
"""

from collections.abc import Callable, Iterator

import numpy as np

from unpooled.arrays import Array, Bool, Float
from unpooled.linalg.moments import Rows

# Projections of all rows, then of those that are not cleared. The squared norm of a
# projected row falls below this share of the true one with a probability of 4e-10 (χ²
# over its degrees of freedom), so that both together miss a row once in 1e9 times.
_STAGES = ((32, 0.12), (128, 0.41))
# A leverage so close to the limit is left to the exact method.
_MARGIN = 1e-3
# Relative error of S in its own metric, which is that of leverages. The projections see
# at least 0.12 of it, so that leverages are wrong by less than the margin. Columns that
# nearly depend on each other show here, too: rounding is large in this metric.
_TOLERANCE = 1e-4
# A column whose squares about the mean are below this share of those about another
# point has lost its digits, unless it is constant.
_LOST = 1e-10
# Rows that are mapped at once: they stay in the processor's cache.
_CACHE_NUMBERS = 2**18


def clears_rows(
    A: Float[Array, "p p"], blocks: Callable[[], Iterator[Rows]], limit: float
) -> bool:
    """Whether every row's leverage is known to be below a limit.

    Parameters
    ----------
    A : (p, p) array
        Believed to be the scatter of the rows about one point. If it is something
        else, no row is cleared.
    blocks : callable
        Returns all rows once more, in blocks of dense or CSR rows of p columns.
    limit : float
        Above 0 and at most 1.

    Returns
    -------
    bool
        False where it is not known: a row is above the limit or within 0.001 of it,
        cells are missing, or columns are linear combinations of others or nearly so.
        True is wrong with a probability of 1e-9 for each row above the limit.
    """
    if not np.isfinite(A).all():
        return False
    rng = np.random.default_rng(0)
    n, m, S = _about_mean(A, blocks, rng.standard_normal(len(A)))
    squares = S.diagonal()
    lost = squares <= _LOST * np.maximum(A.diagonal(), n * m**2)
    if lost.any() and not _are_constant(blocks(), lost):
        return False
    there = ~lost
    scale = np.sqrt(squares[there])
    try:
        S = S if there.all() else S[np.ix_(there, there)]
        L = np.linalg.cholesky(S / scale / scale[:, None])
    except np.linalg.LinAlgError:
        return False

    def mapped(directions: Float[Array, "k q"]) -> Float[Array, "p k"]:
        weights = np.zeros((len(A), len(directions)))
        weights[there] = _solved(L, directions.T, trans="T") / scale[:, None]
        return weights

    draws = [rng.standard_normal((k, len(L))) / np.sqrt(k) for k, _ in _STAGES]
    (first, low), (second, high) = [
        (mapped(omega), share * (limit - _MARGIN - 1.0 / n))
        for omega, (_, share) in zip(draws, _STAGES, strict=True)
    ]
    products = np.zeros((len(draws[0]),) * 2)
    for part in _parts(blocks()):
        Z = part @ first - m @ first
        products += Z.T @ Z
        near = part[~(_squares(Z) <= low)]
        near = near[~(_squares(near @ second - m @ second) <= high)]
        if near.shape[0]:
            Y = (_dense(near)[:, there] - m[there]) / scale
            if not _squares(_solved(L, Y.T).T).max() < limit - _MARGIN - 1.0 / n:
                return False
    error = np.linalg.norm(products - draws[0] @ draws[0].T)
    return bool(error <= _TOLERANCE)


def _about_mean(
    A: Float[Array, "p p"],
    blocks: Callable[[], Iterator[Rows]],
    random: Float[Array, " p"],
) -> tuple[int, Float[Array, " p"], Float[Array, "p p"]]:
    """Return the number of rows, their mean, and A about it."""
    # In every column's own units. Two power steps turn the direction to that of a far
    # point, where across it few digits would be left.
    unit = np.sqrt(np.where(A.diagonal() > 0, A.diagonal(), 1.0))
    v = random / unit
    for _ in range(2):
        v = (A @ v) / unit**2
    n, total, along, image, sum_u = 0, np.zeros(len(A)), None, np.zeros(len(A)), 0.0
    for part in _parts(blocks()):
        u = part @ v
        # About the first rows: squares of large offsets would swallow the others.
        along = u.mean() if along is None else along
        u -= along
        n += len(u)
        total += part.T @ np.ones(len(u))
        image += part.T @ u
        sum_u += u.sum()
    m = total / max(n, 1)
    # With d = √n (m - μ): A v - S v = d (d v).
    beyond = A @ v - (image - m * sum_u)
    square = float(v @ beyond)
    if not square > 0.0:
        return n, m, A
    d = beyond / np.sqrt(square)
    return n, m, A - np.outer(d, d)


def _are_constant(blocks: Iterator[Rows], columns: Bool[Array, " p"]) -> bool:
    first: Array | None = None
    for part in _parts(blocks):
        values = _dense(part[:, np.flatnonzero(columns)])
        first = values[0] if first is None else first
        if not (values == first).all():
            return False
    return True


def _parts(blocks: Iterator[Rows]) -> Iterator[Rows]:
    for block in blocks:
        step = max(_CACHE_NUMBERS // max(block.shape[1], 1), 64)
        for start in range(0, block.shape[0], step):
            yield block[start : start + step]


def _squares(rows: Float[Array, "n k"]) -> Float[Array, " n"]:
    return np.einsum("ij,ij->i", rows, rows)


def _dense(part: Rows) -> Float[Array, "n q"]:
    return part.toarray() if hasattr(part, "toarray") else part


def _solved(L: Array, B: Array, trans: str = "N") -> Array:
    # SciPy takes long to import, and simulations need it only here.
    from scipy.linalg import solve_triangular

    return solve_triangular(L, B, lower=True, trans=trans, check_finite=False)

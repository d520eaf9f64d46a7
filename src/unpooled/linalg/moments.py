"""Sums and scatters of rows, computed so that digits survive.

A scatter is formed about a given mean, never as the difference of two large sums: at
1e6 ± 10 raw squares lose 4e-9, at 1e8 ± 1 they lose 4e-3.
"""

import numpy as np

from unpooled.arrays import Array, Float, Int

# Rows of a centred copy that stays in the processor's cache while `syrk` reads it.
_CACHE_BYTES = 2**22
# Rows added one after the other before their sums are added: bounds the rounding error
# of a column sum by about (_RUN + n / _RUN) units instead of n.
_RUN = 256


def column_sums(X: Float[Array, "n p"]) -> Float[Array, " p"]:
    """Return the sum of each column.

    numpy adds the rows of a C-ordered array one by one; summing runs of rows first
    keeps the mean good to round-off for any number of rows.
    """
    if len(X) <= _RUN:
        return X.sum(axis=0)
    return np.add.reduceat(X, np.arange(0, len(X), _RUN), axis=0).sum(axis=0)


def observed_sums(
    X: Float[Array, "n p"],
) -> tuple[Int[Array, " p"], Float[Array, " p"]]:
    """Return how many cells of each column are there, and their sum.

    Returns
    -------
    count : (p,) int array
        Cells that are not NaN.
    total : (p,) array
        Their sum, 0 where there are none.
    """
    total = column_sums(X)
    if not np.isnan(total).any():
        return np.full(X.shape[1], len(X)), total
    missing = np.isnan(X)
    return len(X) - missing.sum(axis=0), column_sums(np.where(missing, 0.0, X))


def squared_deviations(
    X: Float[Array, "n p"], mean: Float[Array, " p"]
) -> Float[Array, " p"]:
    """Return the sum of squares of each column about `mean`, missing cells left out."""
    centred = X - mean
    squares = np.einsum("ij,ij->j", centred, centred)
    if np.isnan(squares).any():
        np.nan_to_num(centred, copy=False, nan=0.0, posinf=np.inf, neginf=-np.inf)
        squares = np.einsum("ij,ij->j", centred, centred)
    return squares


def scatter(X: Float[Array, "n p"], mean: Float[Array, " p"]) -> Float[Array, "p p"]:
    """Return the upper triangle of ``(X - mean).T @ (X - mean)``; zeros below.

    A cache-sized block of rows is centred at a time, and LAPACK's `syrk` adds its
    products, so no centred copy of all rows exists and half the products are saved.
    """
    from scipy.linalg.blas import dsyrk

    n, p = X.shape
    # Fortran order with the lower triangle is C order with the upper one.
    total = np.zeros((p, p), order="F")
    rows = max(_CACHE_BYTES // (8 * p), 256)
    for start in range(0, n, rows):
        centred = np.subtract(X[start : start + rows], mean, order="C")
        total = dsyrk(1.0, centred.T, beta=1.0, c=total, overwrite_c=1, lower=1)
    return total.T


def pack(S: Float[Array, "p p"]) -> Float[Array, " d"]:
    """Return the upper triangle row by row, p (p + 1) / 2 numbers."""
    p = len(S)
    packed = np.empty(p * (p + 1) // 2)
    start = 0
    for i in range(p):
        packed[start : start + p - i] = S[i, i:]
        start += p - i
    return packed


def unpack(packed: Float[Array, " d"], p: int) -> Float[Array, "p p"]:
    """Return the symmetric matrix whose upper triangle `pack` returned."""
    S = np.empty((p, p))
    start = 0
    for i in range(p):
        S[i, i:] = packed[start : start + p - i]
        S[i:, i] = S[i, i:]
        start += p - i
    return S

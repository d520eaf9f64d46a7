"""Sums and scatters of rows, computed so that digits survive.

A scatter is formed about a given mean, never as the difference of two large sums: at
1e6 ± 10 raw squares lose 4e-9, at 1e8 ± 1 they lose 4e-3.
"""

from typing import Any

import numpy as np

from unpooled.arrays import Array, Float, Int
from unpooled.linalg.crossproduct import shifted_crossproduct

Rows = Any  # (n, p): a NumPy array, or a SciPy array in CSR form
# Of the columns of X, where somebody has added them up already.
Sums = Float[Array, " p"] | None

# Rows of a centred copy that stays in the processor's cache while `syrk` reads it.
_CACHE_BYTES = 2**22
# Rows added one after the other before their sums are added: bounds the rounding error
# of a column sum by about (_RUN + n / _RUN) units instead of n.
_RUN = 512
# Raw products may stand in for centred ones while they are at most this many times as
# large: the difference then keeps all but one of float64's sixteen digits. At 100 times
# two equal columns would no longer be seen to be equal.
_RAW_RATIO = 8.0
# Rows looked at before choosing.
_SAMPLE = 64


def column_sums(X: Rows) -> Float[Array, " p"]:
    """Return the sum of each column of an (n, p) array, dense or sparse.

    numpy adds the rows of a C-ordered array one by one; summing runs of rows first
    keeps the mean good to round-off for any number of rows.
    """
    n, p = X.shape
    ones = np.ones(_RUN)
    runs = (X[start : start + _RUN] for start in range(0, n, _RUN))
    sums = [ones[: run.shape[0]] @ run for run in runs]
    return np.sum(sums, axis=0) if sums else np.zeros(p)


def has_missing(X: Rows) -> bool:
    """Whether a cell of an (n, p) array, dense or sparse, is NaN."""
    return bool(np.isnan(X.data if hasattr(X, "indptr") else X).any())


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


def squared_deviations(X: Rows, mean: Float[Array, " p"]) -> Float[Array, " p"]:
    """Return the sum of squares of each column about `mean`, missing cells left out.

    Parameters
    ----------
    X : (n, p) array, or CSR array
        Of a sparse one the cells that are not stored are zeros, not missing.
    mean : (p,) array
        What to centre about.
    """
    if hasattr(X, "indptr"):
        return _sparse_deviations(X, mean)
    n, p = X.shape
    step = max(1, _CACHE_BYTES // (8 * p))
    squares = np.zeros(p)
    for start in range(0, n, step):
        centred = X[start : start + step] - mean
        part = np.einsum("ij,ij->j", centred, centred)
        if np.isnan(part).any():
            np.nan_to_num(centred, copy=False, nan=0.0, posinf=np.inf, neginf=-np.inf)
            part = np.einsum("ij,ij->j", centred, centred)
        squares += part
    return squares


def _sparse_deviations(X: Rows, mean: Float[Array, " p"]) -> Float[Array, " p"]:
    """Add squares of the stored cells, and of the zeros that are not: all positive."""
    n, p = X.shape
    deviations = X.data - mean[X.indices]
    there = ~np.isnan(deviations)
    squares = np.bincount(X.indices[there], deviations[there] ** 2, minlength=p)
    return squares + (n - np.bincount(X.indices, minlength=p)) * mean**2


def scatter(
    X: Float[Array, "n p"], mean: Float[Array, " p"], sums: Sums = None
) -> Float[Array, "p p"]:
    """Return the upper triangle of ``(X - mean).T @ (X - mean)``.

    Anything may be below it.

    `sums` spares adding the columns up again, where somebody has.

    Where means are no larger than a few spreads, raw products are formed and corrected,
    which reads the rows once and copies none; elsewhere the correction would cost
    digits, and a cache-sized block of rows is centred at a time.
    """
    if _raw_is_safe(X[:: len(X) // _SAMPLE + 1], mean):
        S = _raw_scatter(X, mean, sums)
        # The sample may have been unlucky: judge by the result itself.
        raw = S.diagonal() + len(X) * mean**2
        if (raw <= _RAW_RATIO * S.diagonal()).all():
            return S
    return _centred_scatter(X, mean)


def _raw_is_safe(sample: Float[Array, "n p"], mean: Float[Array, " p"]) -> bool:
    centred = sample - mean
    squares = np.einsum("ij,ij->j", centred, centred)
    return bool((len(sample) * mean**2 <= 0.5 * _RAW_RATIO * squares).all())


def _raw_scatter(
    X: Float[Array, "n p"], mean: Float[Array, " p"], sums: Sums = None
) -> Float[Array, "p p"]:
    # Σ(x - m)(x - m)ᵀ = Σxxᵀ - t mᵀ - m tᵀ with t = Σx - n m / 2.
    t = (column_sums(X) if sums is None else sums) - 0.5 * len(X) * mean
    return shifted_crossproduct(X, t, mean)


def _centred_scatter(
    X: Float[Array, "n p"], mean: Float[Array, " p"]
) -> Float[Array, "p p"]:
    from scipy.linalg.blas import dsyrk

    n, p = X.shape
    S = np.zeros((p, p), order="F")
    rows = max(_CACHE_BYTES // (8 * p), 256)
    buffer = np.empty((min(rows, n), p))
    for start in range(0, n, rows):
        part = X[start : start + rows]
        centred = np.subtract(part, mean, out=buffer[: len(part)])
        S = dsyrk(1.0, centred.T, beta=1.0, c=S, overwrite_c=1, lower=1)
    return S.T


def pack(S: Float[Array, "p p"]) -> Float[Array, " d"]:
    """Return the upper triangle row by row, p (p + 1) / 2 numbers."""
    from scipy.linalg.lapack import dtrttp

    # In C order, as LAPACK sees the columns of the lower one.
    return dtrttp(S.T, uplo="L")[0]


def packed_square(x: Float[Array, " p"]) -> Float[Array, " d"]:
    """Return ``pack(outer(x, x))`` without the square."""
    from scipy.linalg.blas import dspr

    p = len(x)
    zeros = np.zeros(p * (p + 1) // 2)
    return dspr(p, 1.0, x, zeros, lower=1, overwrite_ap=1)


def unpack(packed: Float[Array, " d"], p: int) -> Float[Array, "p p"]:
    """Return the symmetric matrix whose upper triangle `pack` returned."""
    S = np.empty((p, p))
    start = 0
    for i in range(p):
        S[i, i:] = packed[start : start + p - i]
        S[i:, i] = S[i, i:]
        start += p - i
    return S

"""Column sums, sums of squares and scatter matrices without cancellation.

A scatter matrix is formed about a given mean, never as the difference of two large
sums, whose relative error would be 4e-9 at 1e6 ± 10 and 4e-3 at 1e8 ± 1.
"""

from typing import Any

import numpy as np

from unpooled.arrays import Array, Float, Int, Shaped
from unpooled.linalg.crossproduct import shifted_crossproduct, whole_crossproduct

Rows = Any  # (n, p): a NumPy array, or a SciPy array in CSR form
# Column sums of X, where the caller has them already.
Sums = Float[Array, " p"] | None

# Rows of a centred copy that stays in the processor's cache while `syrk` reads it.
_CACHE_BYTES = 2**22
# Rows that are added one after another before the partial sums are added: the rounding
# error of a column sum is then bounded by about (_RUN + n / _RUN) units, not by n.
_RUN = 512
# Raw products may replace centred ones while they are at most this many times as large:
# their difference then keeps all but one of float64's sixteen digits. At 100 times, two
# equal columns would no longer appear equal.
_RAW_RATIO = 8.0
# Rows inspected before the choice.
_SAMPLE = 64


def column_sums(X: Rows) -> Float[Array, " p"]:
    """Return the sum of each column of an (n, p) array, dense or sparse.

    NumPy adds the rows of a C-ordered array one by one. Adding runs of rows first keeps
    the mean accurate to rounding for any number of rows.
    """
    n, p = X.shape
    ones = np.ones(_RUN)
    runs = (X[start : start + _RUN] for start in range(0, n, _RUN))
    sums = [ones[: run.shape[0]] @ run for run in runs]
    return np.sum(sums, axis=0) if sums else np.zeros(p)


def dense_rows(part: Rows) -> Shaped[Array, "n q"]:
    """Return dense or CSR rows as dense ones."""
    return part.toarray() if hasattr(part, "toarray") else part


def has_missing(X: Rows) -> bool:
    """Whether any cell of an (n, p) array, dense or sparse, is NaN."""
    return bool(np.isnan(X.data if hasattr(X, "indptr") else X).any())


def observed_sums(
    X: Float[Array, "n p"],
) -> tuple[Int[Array, " p"], Float[Array, " p"]]:
    """Return the count and the sum of the observed cells of each column.

    Returns
    -------
    count : (p,) int array
        Cells that are not NaN.
    total : (p,) array
        Their sum; 0 where there are none.
    """
    total = column_sums(X)
    if not np.isnan(total).any():
        return np.full(X.shape[1], len(X)), total
    missing = np.isnan(X)
    return len(X) - missing.sum(axis=0), column_sums(np.where(missing, 0.0, X))


def squared_deviations(X: Rows, mean: Float[Array, " p"]) -> Float[Array, " p"]:
    """Return the sum of squares of each column about `mean`, without missing cells.

    Parameters
    ----------
    X : (n, p) array, or CSR array
        Cells that a sparse array does not store are zeros, not missing.
    mean : (p,) array
        The values to centre about.
    """
    if hasattr(X, "indptr"):
        return _sparse_deviations(X, mean)
    n, p = X.shape
    step = max(1, _CACHE_BYTES // (8 * max(p, 1)))
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
    """Add the squares of the stored cells and those of the zeros; no term cancels."""
    n, p = X.shape
    deviations = X.data - mean[X.indices]
    there = ~np.isnan(deviations)
    squares = np.bincount(X.indices[there], deviations[there] ** 2, minlength=p)
    return squares + (n - np.bincount(X.indices, minlength=p)) * mean**2


def scatter(
    X: Float[Array, "n p"], mean: Float[Array, " p"], sums: Sums = None
) -> Float[Array, "p p"]:
    """Return the upper triangle of ``(X - mean).T @ (X - mean)``.

    Where means are at most a few standard deviations, raw products are formed and
    corrected, which reads the rows once without a copy. Elsewhere the correction would
    lose digits, and one cache-sized block of rows after another is centred. Small whole
    numbers have exact products about whole numbers next to the means.

    Parameters
    ----------
    X : (n, p) array
        Rows without missing cells.
    mean : (p,) array
        The values to centre about.
    sums : (p,) array, optional
        Column sums of X; they are computed when omitted.

    Returns
    -------
    (p, p) array
        Its entries below the diagonal are arbitrary.
    """
    if (S := _whole_scatter(X, mean, sums)) is not None:
        return S
    if _raw_is_safe(X[:: len(X) // _SAMPLE + 1], mean):
        S = _raw_scatter(X, mean, sums)
        # The sample may be unrepresentative: the result itself decides.
        raw = S.diagonal() + len(X) * mean**2
        if (raw <= _RAW_RATIO * S.diagonal()).all():
            return S
    return _centred_scatter(X, mean)


def _whole_scatter(
    X: Float[Array, "n p"], mean: Float[Array, " p"], sums: Sums
) -> Float[Array, "p p"] | None:
    from scipy.linalg.blas import dsyr2

    c = np.rint(mean)
    if (S := whole_crossproduct(X, c)) is None:
        return None
    # No digits are lost: |m| is at most 1/2 and y = x - c whole, so that (y - m)² is at
    # least y² / 4.
    m = mean - c
    t = (column_sums(X) if sums is None else sums) - len(X) * (c + 0.5 * m)
    return dsyr2(-1.0, t, m, a=S.T, lower=1, overwrite_a=1).T


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
    """Return the upper triangle of S row by row, p (p + 1) / 2 numbers."""
    from scipy.linalg.lapack import dtrttp

    # Rows of the upper triangle in C order are columns of the lower one to LAPACK.
    return dtrttp(S.T, uplo="L")[0]


def packed_square(x: Float[Array, " p"]) -> Float[Array, " d"]:
    """Return ``pack(outer(x, x))`` without forming the p × p matrix."""
    from scipy.linalg.blas import dspr

    p = len(x)
    zeros = np.zeros(p * (p + 1) // 2)
    return dspr(p, 1.0, x, zeros, lower=1, overwrite_ap=1)


def unpack(packed: Float[Array, " d"], p: int) -> Float[Array, "p p"]:
    """Return the symmetric matrix of which `pack` returned the upper triangle."""
    S = np.empty((p, p))
    start = 0
    for i in range(p):
        S[i, i:] = packed[start : start + p - i]
        S[i:, i] = S[i, i:]
        start += p - i
    return S

"""The cross-product matrix ``X.T @ X``, with the rows divided among threads.

BLAS divides one product among its threads, which synchronise at every panel. With many
rows, each thread can multiply rows of its own instead and synchronise once, at the end:
on two cores, 12,000 × 784 rows take 0.8 of the time.

Small whole numbers (pixels, counts, codes, 0 and 1) are multiplied in single precision,
twice as fast, and exactly. Of a few rows about whole numbers near the columns' means,
let every sum of squares be below 2²⁴. By Cauchy and Schwarz no sum of some of their
products then reaches it, and single precision holds all whole numbers up to there: no
addition rounds, in whatever order. A computed sum of squares below 2²⁴ shows the true
one to be, since sums of numbers that are not negative only grow, rounded or not.
"""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.linalg.threads import one_thread, threads

# Fewest rows per column for one thread: its product then takes at most a quarter of the
# memory of its rows, and adding the products takes a negligible time.
_ROWS_PER_COLUMN = 4
# Multiplications below which starting a thread costs more than it saves.
_LEAST_WORK = 10**8
# Whole numbers up to here are single precision's own.
_EXACT = 2.0**24
# Rows of whole numbers that are multiplied at once, at most and at least.
_WHOLE_ROWS, _FEWEST_ROWS = 1024, 64
# Rows inspected before all are; numbers that stay in the processor's cache.
_SAMPLE, _CACHE_NUMBERS = 64, 2**15
# Products of runs, one at a time: each uses all threads.
_alone = threading.Lock()


def shifted_crossproduct(
    X: Float[Array, "n p"], t: Float[Array, " p"], m: Float[Array, " p"]
) -> Float[Array, "p p"]:
    """Return the upper triangle of ``X.T @ X - outer(t, m) - outer(m, t)``.

    The result is in C order, with arbitrary entries below the diagonal. As many threads
    work as BLAS is allowed to use.
    """
    from scipy.linalg.blas import dsyr2

    if not X.flags.f_contiguous:
        X = np.ascontiguousarray(X)
    with _alone:
        runs = _runs_for(*X.shape)
        # The limit also holds for `dsyr2`, whose threads would spin on the cores that
        # the next product needs.
        with one_thread() if runs > 1 else nullcontext():
            S = _by_runs(X, runs) if runs > 1 else _at_once(X)
            # C order with the upper triangle is Fortran order with the lower one.
            return dsyr2(-1.0, t, m, a=S.T, lower=1, overwrite_a=1).T


def whole_crossproduct(
    X: Float[Array, "n p"], c: Float[Array, " p"]
) -> Float[Array, "p p"] | None:
    """Return the upper triangle of ``(X - c).T @ (X - c)`` for small whole numbers.

    Parameters
    ----------
    X : (n, p) array
        Any numbers.
    c : (p,) array
        Whole numbers.

    Returns
    -------
    (p, p) array
        Exact while its entries are below 2⁵³, in C order, arbitrary below the diagonal.
    None
        Where X has other numbers, too large ones, or so few that nothing is gained.
    """
    from scipy.linalg.blas import ssyrk

    n, p = X.shape
    sample = X[:: n // _SAMPLE + 1]
    if n * p * p < _LEAST_WORK or not (np.rint(sample) == sample).all():
        return None
    rows, start = _WHOLE_ROWS, 0
    S, P = np.zeros((p, p), order="F"), np.empty((p, p), np.float32, order="F")
    about = np.empty((rows, p), np.float32)
    while start < n:
        part = X[start : start + rows]
        if not _whole_differences(part, c, out=about[: len(part)]):
            return None
        P = ssyrk(1.0, about[: len(part)].T, beta=0.0, c=P, lower=1, overwrite_c=1)
        if P.diagonal().max() < _EXACT:
            S += P
            start += len(part)
        elif (rows := rows // 2) < _FEWEST_ROWS:
            return None
    return S.T


def _whole_differences(
    X: Float[Array, "n p"], c: Float[Array, " p"], out: Array
) -> bool:
    """Write ``X - c`` in single precision; return whether all of X is whole."""
    step = max(_CACHE_NUMBERS // X.shape[1], 1)
    # Made once: the system clears the pages of every large array.
    numbers = np.empty((min(step, len(X)), X.shape[1]))
    equal = np.empty(numbers.shape, bool)
    for start in range(0, len(X), step):
        part = X[start : start + step]
        whole, same = numbers[: len(part)], equal[: len(part)]
        np.rint(part, out=whole)
        if not np.equal(whole, part, out=same).all():
            return False
        np.subtract(whole, c, out=whole)
        # Entries that become infinite have too large a square.
        with np.errstate(over="ignore"):
            np.copyto(out[start : start + step], whole, casting="same_kind")
    return True


def _runs_for(n: int, p: int) -> int:
    """Return into how many runs to divide n rows; 1 leaves the product to BLAS."""
    if n * p * p < _LEAST_WORK:
        return 1
    most = threads()
    return most if n >= most * _ROWS_PER_COLUMN * p else 1


def _at_once(X: Float[Array, "n p"]) -> Float[Array, "p p"]:
    from scipy.linalg.blas import dsyrk

    if not len(X):
        # The leading dimension of an array without rows is 0, which BLAS refuses: it
        # prints a message, and leaves the result as it finds it.
        return np.zeros((X.shape[1], X.shape[1]))
    # Either memory order is passed on without a copy.
    if X.flags.f_contiguous:
        return dsyrk(1.0, X, trans=1, lower=1).T
    return dsyrk(1.0, X.T, lower=1).T


def _by_runs(X: Float[Array, "n p"], runs: int) -> Float[Array, "p p"]:
    # NumPy's product releases the interpreter's lock; SciPy's `syrk` holds it, and its
    # `dot` would copy runs of columns.
    first, *rest = np.array_split(X, runs)
    p = X.shape[1]
    with ThreadPoolExecutor(runs - 1) as pool:
        # Allocated here: memory that another thread allocates stays with that thread.
        spaces = [np.empty((p, p)) for _ in rest]
        products = [
            pool.submit(np.matmul, run.T, run, out=space)
            for run, space in zip(rest, spaces, strict=True)
        ]
        S = first.T @ first
        for product in products:
            S += product.result()
    return S

"""The cross-product matrix ``X.T @ X``, with the rows divided among threads.

BLAS divides one product among its threads, which synchronise at every panel. With many
rows, each thread can multiply rows of its own instead and synchronise once, at the end:
on two cores, 12,000 × 784 rows take 0.8 of the time.
"""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import cache
from typing import Any

import numpy as np

from unpooled.arrays import Array, Float

# Fewest rows per column for one thread: its product then takes at most a quarter of the
# memory of its rows, and adding the products takes a negligible time.
_ROWS_PER_COLUMN = 4
# Multiplications below which starting a thread costs more than it saves.
_LEAST_WORK = 10**8
# The number of threads of BLAS is one setting for the whole process.
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
        threads = _threads_for(*X.shape)
        # The limit also holds for `dsyr2`: BLAS threads keep spinning for a while after
        # a product, on the cores that the next product needs.
        with blas().limit(limits=1) if threads > 1 else nullcontext():
            S = _by_runs(X, threads) if threads > 1 else _at_once(X)
            # C order with the upper triangle is Fortran order with the lower one.
            return dsyr2(-1.0, t, m, a=S.T, lower=1, overwrite_a=1).T


def _threads_for(n: int, p: int) -> int:
    """Return into how many runs to divide n rows; 1 leaves the product to BLAS."""
    if n * p * p < _LEAST_WORK:
        return 1
    threads = min((used["num_threads"] for used in blas().info()), default=1)
    return threads if n >= threads * _ROWS_PER_COLUMN * p else 1


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


def _by_runs(X: Float[Array, "n p"], threads: int) -> Float[Array, "p p"]:
    # NumPy's product releases the interpreter's lock; SciPy's `syrk` holds it, and its
    # `dot` would copy runs of columns.
    first, *rest = np.array_split(X, threads)
    p = X.shape[1]
    with ThreadPoolExecutor(threads - 1) as pool:
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


@cache
def blas() -> Any:
    """Return the controller of the process's BLAS libraries and their threads."""
    # The controller lists the libraries loaded when it is made. By then SciPy's BLAS,
    # which may differ from NumPy's, is loaded.
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")

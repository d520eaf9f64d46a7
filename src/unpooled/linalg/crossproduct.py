"""``X.T @ X`` by runs of rows, each on a thread of its own.

BLAS divides one product among its threads and has them wait for each other at every
panel. With many rows each thread can have rows of its own instead, and wait once, at
the end: on two cores 12,000 x 784 take 0.8 of the time.
"""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import cache
from typing import Any

import numpy as np

from unpooled.arrays import Array, Float

# Rows per column that a thread must get: its product then takes a quarter of the room
# of its rows at most, and adding it up next to no time.
_ROWS_PER_COLUMN = 4
# Multiplications below which starting a thread costs more than it spares.
_LEAST_WORK = 10**8
# How many threads BLAS uses is one setting of the whole process.
_alone = threading.Lock()


def shifted_crossproduct(
    X: Float[Array, "n p"], t: Float[Array, " p"], m: Float[Array, " p"]
) -> Float[Array, "p p"]:
    """Return the upper triangle of ``X.T @ X - outer(t, m) - outer(m, t)``.

    In C order; anything may be below. As many threads work as BLAS may use.
    """
    from scipy.linalg.blas import dsyr2

    if not X.flags.f_contiguous:
        X = np.ascontiguousarray(X)
    with _alone:
        threads = _threads_for(*X.shape)
        # Also for what follows: threads that BLAS has woken go on spinning for a while,
        # on the cores that the next product needs.
        with _blas().limit(limits=1) if threads > 1 else nullcontext():
            S = _by_runs(X, threads) if threads > 1 else _at_once(X)
            # C order with the upper triangle is Fortran order with the lower one.
            return dsyr2(-1.0, t, m, a=S.T, lower=1, overwrite_a=1).T


def _threads_for(n: int, p: int) -> int:
    """Return how many runs to make of n rows; 1 leaves the product to BLAS."""
    if n * p * p < _LEAST_WORK:
        return 1
    threads = min((used["num_threads"] for used in _blas().info()), default=1)
    return threads if n >= threads * _ROWS_PER_COLUMN * p else 1


def _at_once(X: Float[Array, "n p"]) -> Float[Array, "p p"]:
    from scipy.linalg.blas import dsyrk

    # Of columns from a table, or of rows; neither is copied.
    if X.flags.f_contiguous:
        return dsyrk(1.0, X, trans=1, lower=1).T
    return dsyrk(1.0, X.T, lower=1).T


def _by_runs(X: Float[Array, "n p"], threads: int) -> Float[Array, "p p"]:
    # numpy multiplies without holding Python's lock; scipy's `syrk` holds it. Its `dot`
    # would copy runs of columns.
    own, *others = np.array_split(X, threads)
    p = X.shape[1]
    with ThreadPoolExecutor(threads - 1) as pool:
        # Made here: pages that another thread asks for do not come back to this one.
        spaces = [np.empty((p, p)) for _ in others]
        products = [
            pool.submit(np.matmul, run.T, run, out=space)
            for run, space in zip(others, spaces, strict=True)
        ]
        S = own.T @ own
        for product in products:
            S += product.result()
    return S


@cache
def _blas() -> Any:
    # It knows what is loaded when it is made: scipy's BLAS, which may be another than
    # numpy's, has been by then.
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")

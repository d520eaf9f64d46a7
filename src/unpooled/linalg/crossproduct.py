"""``X.T @ X`` by runs of rows, each on a thread of its own.

BLAS divides one product among its threads and has them wait for each other at every
panel. With many rows each thread can have rows of its own instead, and wait once, at
the end: on two cores 12,000 x 784 take 0.8 of the time.
"""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
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
    with _threads_for(X) as threads:
        S = _at_once(X) if threads == 1 else _by_runs(X, threads)
        # C order with the upper triangle is Fortran order with the lower one.
        return dsyr2(-1.0, t, m, a=S.T, lower=1, overwrite_a=1).T


@contextmanager
def _threads_for(X: Float[Array, "n p"]) -> Iterator[int]:
    """Say how many runs to make of X; BLAS is held to one thread where many."""
    n, p = X.shape
    if n * p * p < _LEAST_WORK:
        yield 1
        return
    with _alone:
        used = [library["num_threads"] for library in _blas().info()]
        threads = min(used, default=1)
        if threads == 1 or n < threads * _ROWS_PER_COLUMN * p:
            yield 1
            return
        # Also for what follows: threads that BLAS has woken go on spinning for a while,
        # on the cores that the next product needs.
        with _blas().limit(limits=1):
            yield threads


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
    # numpy and scipy may each bring a BLAS of their own; both must be loaded.
    import scipy.linalg  # noqa: F401
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")

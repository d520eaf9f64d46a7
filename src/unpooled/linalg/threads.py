"""How many threads BLAS uses.

It divides every product among its threads, which wait for each other, and spin for a
while afterwards on the cores that the next lines need. That pays where much is computed
with every number that is read, as in a product of two large matrices. It does not where
a long block of few columns is multiplied, rotated or decomposed: on two cores, a PCA of
the columns of 20,000 people takes 1.7 s if these use both, and 1.1 s if they use one.
"""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from typing import Any, TypeVar

Result = TypeVar("Result")
# Multiplications below which starting a thread costs more than it saves.
_LEAST_WORK = 2 * 10**7
# The lock of the thread that keeps BLAS to one thread, and the number before.
_keeping = threading.RLock()
_before: list[int] = []


def threads() -> int:
    """Return the number of threads of BLAS outside of `one_thread`."""
    if before := _before[:1]:
        return before[0]
    return min((used["num_threads"] for used in _blas().info()), default=1)


@contextmanager
def one_thread() -> Iterator[None]:
    """Keep BLAS to one thread meanwhile; a decorator, too."""
    if not _keeping.acquire(blocking=False):
        # Another thread of Python has set the limit, which holds for all of them. Two
        # that set it and set it back in turn could leave it set.
        yield
        return
    try:
        _before.append(threads())
        with _blas().limit(limits=1):
            yield
    finally:
        _before.pop()
        _keeping.release()


def by_runs(
    work: Callable[[slice], Result], n: int, multiplications: int
) -> list[Result]:
    """Return the results of a function for runs of rows, each in a thread of its own.

    Parameters
    ----------
    work : callable
        Given a slice of the rows.
    n : int
        Number of rows.
    multiplications : int
        About, in all; one thread does less than 2e7.
    """
    most = threads() if multiplications >= _LEAST_WORK else 1
    ends = [n * i // most for i in range(most + 1)]
    first, *rest = (slice(*run) for run in pairwise(ends))
    with one_thread(), ThreadPoolExecutor(most) as pool:
        later = [pool.submit(work, run) for run in rest]
        return [work(first), *(one.result() for one in later)]


@cache
def _blas() -> Any:
    """Return the controller of the process's BLAS libraries and their threads."""
    # It lists those that are loaded: NumPy's, and SciPy's, which may differ from it.
    import scipy.linalg  # noqa: F401
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")

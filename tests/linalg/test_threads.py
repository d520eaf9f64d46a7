"""How many threads BLAS uses, and work on runs of rows."""

import threading

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from unpooled.linalg.centred_products import coordinates, gram_image, products
from unpooled.linalg.threads import by_runs, one_thread, threads


def used():
    """Return how many threads each BLAS of this process uses."""
    return {
        library["num_threads"]
        for library in threadpool_info()
        if library["user_api"] == "blas"
    }


def test_blas_has_its_threads_back():
    threads()  # SciPy's BLAS is loaded now, and not later with threads of its own
    with threadpool_limits(2, "blas"):
        with one_thread(), one_thread():
            assert used() == {1}
            assert threads() == 2
        assert used() == {2}
        with pytest.raises(ValueError, match="inside"), one_thread():
            raise ValueError("inside")
        assert used() == {2}


@pytest.mark.parametrize("last", ["this thread", "the other"])
def test_threads_of_python_that_overlap_do_not_leave_the_limit(last):
    entered, may_leave = threading.Event(), threading.Event()

    def inside():
        with one_thread():
            entered.set()
            may_leave.wait()

    with threadpool_limits(2, "blas"):
        other = threading.Thread(target=inside)
        with one_thread():
            other.start()
            entered.wait()
            assert used() == {1}
            if last == "this thread":
                may_leave.set()
                other.join()
                assert used() == {1}
        may_leave.set()
        other.join()
        assert used() == {2}


@pytest.mark.parametrize("n", [0, 1, 2, 7])
@pytest.mark.parametrize("most", [1, 2, 3])
def test_runs_cover_every_row_once(n, most):
    with threadpool_limits(most, "blas"):
        runs = by_runs(lambda run: list(range(n))[run], n, 10**9)
    assert [row for run in runs for row in run] == list(range(n))
    assert len(runs) == most


def test_work_that_fails_in_another_thread_fails_here():
    def work(run):
        if run.start:
            raise ValueError("in the second run")

    with threadpool_limits(2, "blas"), pytest.raises(ValueError, match="second"):
        by_runs(work, 10, 10**9)


@pytest.mark.parametrize("most", [1, 2])
@pytest.mark.parametrize("offset", [0.0, 1e6], ids=["near zero", "one column far"])
def test_products_by_runs_are_those_of_centred_rows(most, offset, monkeypatch):
    """With a column far from zero, the rows are centred before they are multiplied."""
    monkeypatch.setattr("unpooled.linalg.threads._LEAST_WORK", 0)
    rng = np.random.default_rng(0)
    # Longer than two stretches of 256 rows, and not divided evenly.
    X, V, W = (rng.standard_normal(shape) for shape in ((1301, 5), (1301, 3), (5, 2)))
    X[:, 2] += offset
    mean = X.mean(axis=0)
    C = X - mean
    with threadpool_limits(most, "blas"):
        found = products(X, mean, V), coordinates(X, mean, W), gram_image(X, mean, V)
    # At most 1,301 additions of terms below 4² = 16 in magnitude, or of sums of them.
    for one, truth in zip(found, (C.T @ V, C @ W, C @ (C.T @ V)), strict=True):
        np.testing.assert_allclose(one, truth, rtol=0, atol=1e-9)

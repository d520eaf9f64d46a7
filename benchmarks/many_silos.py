"""What many silos cost: a scaler and a PCA that silos follow, and the rule on leverage.

    python benchmarks/many_silos.py

Four measurements, all in this process, in processor time:

- 200 and 1,000 silos of 200 rows and 50 columns: `PCA(10)`;
- 40 silos of 1,000 rows and 400 columns, followed: `StandardScaler -> PCA` against the
  PCA alone, and the bytes that a silo receives;
- 200 silos of 100 rows and 50 columns: `StandardScaler -> PCA`, with the peak memory;
- the largest leverage of 60,000 x 784, 50,000 x 300 and 12,000 x 784 rows against their
  scatter.

Ratios say more than seconds, which depend on the machine and on what else runs there.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import resource
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.pipeline import make_pipeline

import unpooled as up
from unpooled.linalg.crossproduct import shifted_crossproduct
from unpooled.linalg.leverage_by_scatter import leverage_by_scatter

OPEN = {"max_feature_ratio": 10.0, "max_released_share": 10.0, "max_leverage": 1.0}


def processor_seconds(work: Callable[[], Any], times: int = 3) -> float:
    """Return the least processor time of some runs."""
    seconds = []
    for _ in range(times):
        began = time.process_time()
        work()
        seconds.append(time.process_time() - began)
    return min(seconds)


def federation(silos: int, n: int, p: int, *, follow: bool) -> up.Federation:
    rng = np.random.default_rng(0)
    tables = {f"silo{i}": rng.standard_normal((n, p)) for i in range(silos)}
    return up.simulate(tables, policy=OPEN, follow=follow)


def bytes_received(here: up.Federation) -> int:
    """Return the bytes of messages that went into a silo, on average."""
    return sum(record.bytes_in for record in here.rounds)


def followed() -> None:
    """A scaler before the PCA, over 40 silos that follow."""
    models: dict[str, Callable[[], Any]] = {
        "PCA": lambda: up.PCA(10),
        "StandardScaler -> PCA": lambda: make_pipeline(up.StandardScaler(), up.PCA(10)),
    }
    seconds, silos = dict[str, float](), 40
    for name, model in models.items():
        taken, received = list[float](), 0
        for _ in range(3):
            here = federation(silos, 1000, 400, follow=True)
            began = time.process_time()
            model().fit(here)
            taken.append(time.process_time() - began)
            received = bytes_received(here)
        seconds[name] = min(taken)
        print(f"40 silos, p = 400, {name}: {seconds[name]:.2f} s of processor time, "
              f"{received / 1e6:.2f} MB into each silo")  # fmt: skip
    ratio = seconds["StandardScaler -> PCA"] / seconds["PCA"]
    print(f"with the scaler {ratio:.2f} times the PCA alone")


def many() -> None:
    """200 small silos in one process."""
    here = federation(200, 100, 50, follow=False)
    wall, began = time.perf_counter(), time.process_time()
    make_pipeline(up.StandardScaler(), up.PCA(10)).fit(here)
    seconds = time.process_time() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"200 silos of 100 rows, p = 50: {seconds:.1f} s of processor time, "
          f"{time.perf_counter() - wall:.1f} s, peak memory {peak:.2f} GB")  # fmt: skip


def more_and_more() -> None:
    """The same PCA over a growing number of silos in one process."""
    for silos in (50, 100, 200, 1000):
        here = federation(silos, 200, 50, follow=False)
        began = time.process_time()
        up.PCA(10).fit(here)
        print(f"{silos} silos of 200 rows, p = 50, PCA(10): "
              f"{time.process_time() - began:.1f} s of processor time")  # fmt: skip


def leverages(n: int, p: int) -> None:
    """The largest leverage against the scatter that it is derived from."""
    X, mean = np.random.default_rng(0).standard_normal((n, p)), np.full(p, 0.1)
    A = (X - mean).T @ (X - mean)
    own = X.mean(axis=0)  # as the silo knows it from its column sums
    t = X.sum(axis=0) - 0.5 * n * mean
    scatter = processor_seconds(lambda: shifted_crossproduct(X, t, mean))

    def judged(limit: float) -> None:
        leverage_by_scatter(
            A, lambda: iter([X]), n, limit, noteworthy=0.5, mean=own, about=mean
        )

    for limit in (0.95, 0.5):
        taken = processor_seconds(partial(judged, limit))
        print(f"{n:,} x {p}: scatter {scatter:.2f} s, leverage above {limit}: "
              f"{taken:.3f} s, {taken / scatter:.2f} of it")  # fmt: skip


if __name__ == "__main__":
    many()  # first: the peak is that of the process
    followed()
    more_and_more()
    leverages(60_000, 784)
    leverages(50_000, 300)
    leverages(12_000, 784)

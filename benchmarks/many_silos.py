"""What many silos cost: a scaler and a PCA that silos follow, and the rule on leverage.

    python benchmarks/many_silos.py            # four minutes; writes the table
    python benchmarks/many_silos.py --quick    # up to 20 silos, prints only

Four measurements, all in this process, in processor time:

- 50 to 1,000 silos of 200 rows and 50 columns: `PCA(10)`, and how that grows;
- 40 silos of 1,000 rows and 400 columns, followed: `PCA`, `StandardScaler -> PCA` and
  `PCA -> StandardScaler`, and the bytes that a silo receives;
- 200 silos of 100 rows and 50 columns: `StandardScaler -> PCA`, with the peak memory;
- the largest leverage of 60,000 x 784, 50,000 x 300 and 12,000 x 784 rows against their
  scatter.

Processor time (user and system, of one thread) does not count what other work takes of
the machine, and so is valid beside it; caches and memory that are shared still make it
longer, by a third when five others worked there. Ratios are of runs that alternate.
"""

import argparse
import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import platform
import resource
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.pipeline import make_pipeline

import unpooled as up
from unpooled.linalg.crossproduct import shifted_crossproduct
from unpooled.linalg.leverage_by_scatter import leverage_by_scatter

OPEN = {"max_feature_ratio": 10.0, "max_released_share": 10.0, "max_leverage": 1.0}
# Numbers of silos, with how often each is fitted.
GROWTH = {50: 5, 100: 5, 200: 5, 400: 3, 1000: 1}
QUICK = {5: 1, 20: 1}
FOLLOWED: dict[str, Callable[[], Any]] = {
    "PCA": lambda: up.PCA(10),
    "StandardScaler -> PCA": lambda: make_pipeline(up.StandardScaler(), up.PCA(10)),
    "PCA -> StandardScaler": lambda: make_pipeline(up.PCA(10), up.StandardScaler()),
}


def federation(silos: int, n: int, p: int, *, follow: bool) -> up.Federation:
    rng = np.random.default_rng(0)
    tables = {f"silo{i}": rng.standard_normal((n, p)) for i in range(silos)}
    return up.simulate(tables, policy=OPEN, follow=follow)


def fitted(
    model: Callable[[], Any], silos: int, n: int, p: int, *, follow: bool = False
) -> tuple[float, int]:
    """Return processor seconds of a fit, and the bytes that went into a silo."""
    here = federation(silos, n, p, follow=follow)
    began = time.process_time()
    model().fit(here)
    seconds = time.process_time() - began
    return seconds, sum(record.bytes_in for record in here.rounds)


def spread(seconds: list[float]) -> str:
    """Return minimum, median and maximum."""
    if len(seconds) == 1:
        return f"{seconds[0]:.2f}"
    middle = statistics.median(seconds)
    return f"{min(seconds):.2f} ({middle:.2f}, {max(seconds):.2f})"


def growing(numbers: dict[int, int]) -> list[str]:
    """Return a table of the same PCA over more and more silos."""
    lines = [
        "## More and more silos",
        "",
        "`PCA(10)` of 200 rows of 50 columns in each silo, not followed.",
        "",
        "| silos | fits | processor seconds, least (median, most) | ms a silo "
        "| MB into a silo |",
        "|---|---|---|---|---|",
    ]
    least = dict[int, float]()
    for silos, times in numbers.items():
        runs = [fitted(FOLLOWED["PCA"], silos, 200, 50) for _ in range(times)]
        seconds = [taken for taken, _ in runs]
        least[silos] = min(seconds)
        lines.append(
            f"| {silos:,} | {times} | {spread(seconds)} "
            f"| {1e3 * least[silos] / silos:.1f} | {runs[0][1] / 1e6:.2f} |"
        )
        print(lines[-1], flush=True)
    for first, last in ((min(least), 100), (100, max(least))):
        some = {m: s for m, s in least.items() if first <= m <= last}
        if len(some) > 1:
            sizes, taken = np.log(list(some)), np.log(list(some.values()))
            power = np.polyfit(sizes, taken, 1)[0]
            lines.append(f"| {first} to {last:,} | | **m^{power:.2f}** | | |")
    return [*lines, ""]


def followed(silos: int, times: int) -> list[str]:
    """Return a table of a scaler beside the PCA, over silos that follow."""
    runs = {name: list[tuple[float, int]]() for name in FOLLOWED}
    for _ in range(times):
        for name, model in FOLLOWED.items():
            runs[name].append(fitted(model, silos, 1000, 400, follow=True))
    lines = [
        "## A scaler beside the PCA, followed",
        "",
        f"{silos} silos of 1,000 rows and 400 columns, which run the program "
        f"themselves.",
        "",
        "| model | processor seconds, least (median, most) | times the PCA "
        "| MB into a silo |",
        "|---|---|---|---|",
    ]
    for name, own in runs.items():
        pairs = zip(own, runs["PCA"], strict=True)
        ratio = statistics.median(one[0] / alone[0] for one, alone in pairs)
        seconds = [taken for taken, _ in own]
        lines.append(
            f"| {name} | {spread(seconds)} | {ratio:.2f} | {own[0][1] / 1e6:.2f} |"
        )
        print(lines[-1], flush=True)
    return [*lines, ""]


def memory(silos: int) -> list[str]:
    """Return what many small silos take in one process."""
    seconds, _ = fitted(FOLLOWED["StandardScaler -> PCA"], silos, 100, 50)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    line = (
        f"`StandardScaler -> PCA` over {silos} silos of 100 rows and 50 columns, once: "
        f"{seconds:.2f} s of processor time, peak memory of the process {peak:.2f} GB."
    )
    print(line, flush=True)
    return ["## Memory", "", line, ""]


def processor_seconds(work: Callable[[], Any], times: int) -> float:
    """Return the least processor time of some runs."""
    seconds = []
    for _ in range(times):
        began = time.process_time()
        work()
        seconds.append(time.process_time() - began)
    return min(seconds)


def leverages(shapes: list[tuple[int, int]], times: int) -> list[str]:
    """Return a table of the largest leverage against the scatter it is derived from."""
    lines = [
        "## The rule on leverage",
        "",
        "Least processor time of the largest leverage, against that of the scatter "
        "that it is derived from.",
        "",
        "| rows | scatter, s | leverage above 0.95, s | share | above 0.5, s | share |",
        "|---|---|---|---|---|---|",
    ]
    for n, p in shapes:
        X, mean = np.random.default_rng(0).standard_normal((n, p)), np.full(p, 0.1)
        A = (X - mean).T @ (X - mean)
        own = X.mean(axis=0)  # as the silo knows it from its column sums
        t = X.sum(axis=0) - 0.5 * n * mean
        scatter = processor_seconds(partial(shifted_crossproduct, X, t, mean), times)
        cells = list[str]()
        for limit in (0.95, 0.5):
            judged = partial(
                leverage_by_scatter,
                *(A, lambda X=X: iter([X]), n, limit),
                noteworthy=0.5,
                mean=own,
                about=mean,
            )
            taken = processor_seconds(judged, times)
            cells.append(f"{taken:.3f} | {taken / scatter:.2f}")
        lines.append(f"| {n:,} x {p} | {scatter:.3f} | {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    return [*lines, ""]


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    before = os.getloadavg()[0]
    # Libraries load before the clock starts.
    fitted(FOLLOWED["StandardScaler -> PCA"], 3, 100, 20)
    # First: the peak is that of the process.
    parts = [memory(20 if quick else 200)]
    of_followed = followed(5, 1) if quick else followed(40, 5)
    parts = [growing(QUICK if quick else GROWTH), of_followed, *parts]
    shapes = [(60_000, 784), (50_000, 300), (12_000, 784)]
    few = [(5_000, 100)]
    parts.append(leverages(few, 1) if quick else leverages(shapes, 7))
    import cryptography
    import scipy

    head = [
        "# Many silos in one process",
        "",
        f"One thread of {os.cpu_count()} cores, Python {platform.python_version()}, "
        f"numpy {np.__version__}, scipy {scipy.__version__}, cryptography "
        f"{cryptography.__version__}. Load average {before:.1f} before and "
        f"{os.getloadavg()[0]:.1f} after: all times are processor times, valid "
        f"beside other work, which lengthened them by up to a third.",
        "",
    ]
    text = "\n".join([*head, *(line for part in parts for line in part)])
    if quick:
        print(text)
    else:
        results = Path(__file__).parent / "results" / "many_silos.md"
        results.write_text(text.rstrip() + "\n")


if __name__ == "__main__":
    main()

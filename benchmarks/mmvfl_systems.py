"""MMVFL's weights: the smaller of two systems against the paper's p x p one.

    python benchmarks/mmvfl_systems.py           # writes the table
    python benchmarks/mmvfl_systems.py --quick   # small sizes, prints only

A pass of the inner iteration of paper 004, equation (8), at the sizes of Caltech7 (140
rows, 10 kinds of columns' numbers up to 1,984) and of Handwritten (1,600 rows). Both
give the same weights; times are medians of runs side by side.
"""

import argparse
import os
import platform
import statistics
import time
from pathlib import Path

import numpy as np
import scipy
import scipy.linalg

from unpooled.linalg.row_sparse import EPSILON, row_norms, row_sparse_weights

SIZES = ((140, 254), (140, 512), (140, 928), (140, 1984), (1600, 76), (1600, 240))
QUICK = ((40, 120), (200, 30))


def as_printed(X: np.ndarray, Z: np.ndarray, beta: float, W: np.ndarray) -> np.ndarray:
    """Return a pass by (7) and (8): a system of all columns, p x p."""
    A = np.diag(1.0 / (2.0 * (row_norms(W) + EPSILON)))
    return scipy.linalg.solve(X.T @ X + beta * A, X.T @ Z, assume_a="pos")


def ours(X: np.ndarray, Z: np.ndarray, beta: float, W: np.ndarray) -> np.ndarray:
    """Return the same pass by whichever system is smaller."""
    return row_sparse_weights(X, Z, beta, start=W, max_iter=1)


def seconds(solve, *problem: np.ndarray | float) -> float:
    """Time one pass."""
    started = time.perf_counter()
    solve(*problem)
    return time.perf_counter() - started


def row(N: int, p: int, runs: int) -> str:
    """Return a line of the table."""
    rng = np.random.default_rng(0)
    X, Z = rng.random((N, p)), np.eye(7)[rng.integers(7, size=N)]
    problem = (X, Z, 0.1, rng.standard_normal((p, 7)))
    theirs, mine = as_printed(*problem), ours(*problem)
    difference = np.abs(theirs - mine).max() / np.abs(theirs).max()
    pairs = [
        (seconds(as_printed, *problem), seconds(ours, *problem)) for _ in range(runs)
    ]
    printed, fast = (statistics.median(times) for times in zip(*pairs, strict=True))
    ratio = statistics.median(a / b for a, b in pairs)
    return (
        f"| {N} | {p} | {1e3 * printed:.2f} | {1e3 * fast:.2f} | {ratio:.0f} "
        f"| {difference:.0e} |"
    )


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--runs", type=int, default=15)
    asked = parser.parse_args()
    lines = [
        "# A pass of MMVFL's weights",
        "",
        f"Medians of {asked.runs} runs side by side; {os.cpu_count()} cores, Python "
        f"{platform.python_version()}, numpy {np.__version__}, scipy "
        f"{scipy.__version__}.",
        "",
        "| N | p | as printed, ms | ours, ms | times faster | difference |",
        "|---|---|---|---|---|---|",
        *(row(N, p, asked.runs) for N, p in (QUICK if asked.quick else SIZES)),
    ]
    page = "\n".join(lines) + "\n"
    print(page)
    if not asked.quick:
        (Path(__file__).parent / "results" / "mmvfl_systems.md").write_text(page)


if __name__ == "__main__":
    main()

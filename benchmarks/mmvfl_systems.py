"""Time of MMVFL's weights: the smaller of two systems, and the paper's p x p one.

    python benchmarks/mmvfl_systems.py           # writes the table
    python benchmarks/mmvfl_systems.py --quick   # small sizes, prints only

A pass is paper 004's inner iteration, equations (7) and (8), at the sizes of Caltech7
(140 rows, up to 1,984 columns) and of Handwritten (1,600 rows). As printed it inverts a
p x p matrix; the second column solves that system by Cholesky instead, which is the
best that can be done without changing its size. All give the same weights. Each time is
a tenth of that of ten passes, for ours with the objective after each; medians of
alternating runs.
"""

import argparse
import os
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import scipy
import scipy.linalg

from unpooled.linalg.row_sparse import EPSILON, row_norms, row_sparse_weights

SIZES = ((140, 254), (140, 512), (140, 928), (140, 1984), (1600, 76), (1600, 240))
QUICK = ((40, 120), (200, 30))


PASSES = 10
BETA = 0.1
Method = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]


def as_printed(X: np.ndarray, Z: np.ndarray, W: np.ndarray) -> np.ndarray:
    """Return the weights after ten passes by (8), an inverse of p x p in each."""
    gram, image = X.T @ X, X.T @ Z
    for _ in range(PASSES):
        A = np.diag(1.0 / (2.0 * (row_norms(W) + EPSILON)))
        W = np.linalg.inv(gram + BETA * A) @ image
    return W


def by_cholesky(X: np.ndarray, Z: np.ndarray, W: np.ndarray) -> np.ndarray:
    """Return the same by solving the system of p x p."""
    gram, image = X.T @ X, X.T @ Z
    for _ in range(PASSES):
        A = np.diag(1.0 / (2.0 * (row_norms(W) + EPSILON)))
        W = scipy.linalg.cho_solve(
            scipy.linalg.cho_factor(gram + BETA * A, overwrite_a=True), image
        )
    return W


def ours(X: np.ndarray, Z: np.ndarray, W: np.ndarray) -> np.ndarray:
    """Return the same by whichever system is smaller."""
    return row_sparse_weights(X, Z, BETA, start=W, tol=-1.0, max_iter=PASSES)


def seconds(solve: Method, *problem: np.ndarray) -> float:
    """Time a pass."""
    started = time.perf_counter()
    solve(*problem)
    return (time.perf_counter() - started) / PASSES


def row(N: int, p: int, runs: int) -> str:
    """Return a line of the table."""
    rng = np.random.default_rng(0)
    X, Z = rng.random((N, p)), np.eye(7)[rng.integers(7, size=N)]
    problem = (X, Z, rng.standard_normal((p, 7)))
    methods = (as_printed, by_cholesky, ours)
    theirs, mine = as_printed(*problem), ours(*problem)
    # By what is predicted: rows of W that tend to zero have no digits in common.
    difference = np.abs(X @ (theirs - mine)).max() / np.abs(X @ theirs).max()
    taken = [[seconds(method, *problem) for method in methods] for _ in range(runs)]
    printed, solved, fast = (
        statistics.median(times) for times in zip(*taken, strict=True)
    )
    against = [statistics.median(t[k] / t[2] for t in taken) for k in (0, 1)]
    return (
        f"| {N} | {p} | {1e3 * printed:.2f} | {1e3 * solved:.2f} | {1e3 * fast:.2f} "
        f"| {against[0]:.1f} | {against[1]:.1f} | {difference:.0e} |"
    )


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--runs", type=int, default=5)
    asked = parser.parse_args()
    lines = [
        "# A pass of MMVFL's weights",
        "",
        f"Medians of {asked.runs} runs side by side; {os.cpu_count()} cores, Python "
        f"{platform.python_version()}, numpy {np.__version__}, scipy "
        f"{scipy.__version__}.",
        "",
        "As printed: a p x p inverse. Ours: the smaller of p x p and N x N. Times are "
        "of one pass; the difference is of the predictions X W after ten.",
        "",
        "| N | p | as printed, ms | p x p by Cholesky, ms | ours, ms "
        "| times faster than printed | than Cholesky | difference |",
        "|---|---|---|---|---|---|---|---|",
        *(row(N, p, asked.runs) for N, p in (QUICK if asked.quick else SIZES)),
    ]
    page = "\n".join(lines) + "\n"
    print(page)
    if not asked.quick:
        (Path(__file__).parent / "results" / "mmvfl_systems.md").write_text(page)


if __name__ == "__main__":
    main()

"""How the time of PCA grows with rows, columns and silos, compared with its peers.

    python benchmarks/pca_scaling.py                 # everything, writes the table
    python benchmarks/pca_scaling.py --quick         # one small size, here, prints only

One of n, p and m grows while the others are fixed; the exponent is the slope of a line
through the logarithms of median times. Peers: scikit-learn's `PCA` and `IncrementalPCA`
on pooled rows, dask-ml's where it installs, and FedSVD's own log (80 to 129 s, 938 MB a
silo, for 10 silos of 1,000 rows and 1,000 columns), whose code is not run here. Every
measurement is a process of its own, in turn, and imports are not timed.
"""

import argparse
import importlib.util
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

K = 10
METHODS = ("ours", "ours krylov", "PCA", "IncrementalPCA", "dask-ml")
BASE = {"n": 20_000, "p": 400, "m": 5}
GROWING = {
    "n": [10_000, 20_000, 40_000, 80_000, 160_000],
    "p": [200, 400, 800, 1_600],
    "m": [3, 5, 10, 20, 40],
}
QUICK = {"n": [2_000]}
FEDSVD = {"n": 10_000, "p": 1_000, "m": 10}


def rows(n: int, p: int) -> np.ndarray:
    """Return correlated rows with a decaying spectrum."""
    rng = np.random.default_rng(3)
    axes = rng.standard_normal((2 * K, p)) / np.sqrt(1.0 + np.arange(2 * K))[:, None]
    return rng.standard_normal((n, 2 * K)) @ axes + 0.1 * rng.standard_normal((n, p))


def fit(method: str, X: np.ndarray, m: int) -> tuple[float, np.ndarray, int]:
    """Return seconds, components and the bytes that a silo sends."""
    from sklearn import decomposition

    if method.startswith("ours"):
        return fit_ours(method, X, m)
    if method == "dask-ml":
        import dask.array as da
        from dask_ml.decomposition import PCA

        model, data = PCA(K, svd_solver="full"), da.from_array(X, (len(X) // m, -1))
    elif method == "IncrementalPCA":
        model, data = decomposition.IncrementalPCA(K, batch_size=len(X) // m), X
    else:
        model, data = decomposition.PCA(K, svd_solver="covariance_eigh"), X
    started = time.perf_counter()
    model.fit(data)
    return time.perf_counter() - started, np.asarray(model.components_), 0


def fit_ours(method: str, X: np.ndarray, m: int) -> tuple[float, np.ndarray, int]:
    """Fit under masks, after a first fit that loads the libraries."""
    import unpooled as up

    solver = "krylov" if "krylov" in method else "covariance_eigh"
    small = up.partition_rows(X[:300, :5], 3)
    up.PCA(2, svd_solver=solver).fit(up.simulate(small, policy=up.Policy.open()))
    federation = up.simulate(up.partition_rows(X, m), policy=up.Policy.open())
    started = time.perf_counter()
    model = up.PCA(K, svd_solver=solver, random_state=0).fit(federation)
    seconds = time.perf_counter() - started
    return seconds, model.components_, federation.ledger.bytes_out("silo1")


def measured(method: str, n: int, p: int, m: int) -> dict:
    """Run one method once, and return what was measured."""
    import scipy.linalg

    X = rows(n, p)
    seconds, components, sent = fit(method, X, m)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    exact = np.linalg.eigh(np.cov(X.T))[1][:, -K:]
    angle = scipy.linalg.subspace_angles(components.T, exact).max()
    figures = {"seconds": seconds, "peak_mb": peak, "sent": sent}
    return figures | {"degrees": float(np.degrees(angle))}


def measure(method: str, sizes: dict[str, int], runs: int) -> dict:
    """Run a method several times, each in a process of its own; here, if 0 times."""
    numbers = [str(sizes[axis]) for axis in "npm"]
    command = [sys.executable, __file__, "--child", method, *numbers]
    seen = []
    for _ in range(runs):
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
        seen.append(json.loads(done.stdout))
    if not runs:
        seen.append(measured(method, *(sizes[axis] for axis in "npm")))
    times = [one["seconds"] for one in seen]
    middle = {"seconds": statistics.median(times), "spread": (min(times), max(times))}
    return seen[0] | middle | sizes | {"method": method}


def exponent(found: list[dict], axis: str) -> float:
    """Return the slope of log seconds over log size."""
    sizes = np.log([one[axis] for one in found])
    return float(np.polyfit(sizes, np.log([one["seconds"] for one in found]), 1)[0])


def table(found: dict[str, dict[str, list[dict]]], runs: int) -> str:
    """Return the results as Markdown."""
    import sklearn

    lines = [
        f"# How PCA({K}) grows",
        "",
        f"Medians of {runs} runs (least to most); {os.cpu_count()} cores, Python "
        f"{platform.python_version()}, numpy {np.__version__}, scikit-learn "
        f"{sklearn.__version__}. Where they do not grow: {BASE['n']:,} rows, "
        f"{BASE['p']} columns, {BASE['m']} silos. Ours runs all silos in one process, "
        f"masked; the others have the pooled rows. Angles are to `numpy.linalg.eigh` "
        f"of the pooled covariance.",
    ]
    if importlib.util.find_spec("dask_ml") is None:
        lines += ["", "dask-ml is not installed, and left out."]
    for axis, by_method in found.items():
        head = f"| {axis} | method | seconds | peak MB | MB a silo sends | degrees |"
        lines += ["", f"## {axis}", "", head, "|---|---|---|---|---|---|"]
        for method, ones in by_method.items():
            lines += [row(one, axis) for one in ones]
            if len(ones) > 1:
                power = f"{axis}^{exponent(ones, axis):.2f}"
                lines.append(f"| fit | {method} | **{power}** | | | |")
    return "\n".join(lines) + "\n"


def row(one: dict, axis: str) -> str:
    """Return a line of the table."""
    low, high = one["spread"]
    sent = f"{one['sent'] / 1e6:.2f}" if one["sent"] else "all rows"
    size = one[axis] if axis in one else f"{one['n']:,} × {one['p']:,}, {one['m']}"
    return (
        f"| {size} | {one['method']} | {one['seconds']:.3f} ({low:.3f}-{high:.3f}) "
        f"| {one['peak_mb']:.0f} | {sent} | {one['degrees']:.0e} |"
    )


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--child", nargs=4, metavar=("METHOD", "N", "P", "M"))
    asked = parser.parse_args()
    if asked.child:
        method, *sizes = asked.child
        print(json.dumps(measured(method, *map(int, sizes))))
        return
    runs = 0 if asked.quick else asked.runs
    has_dask_ml = importlib.util.find_spec("dask_ml") is not None
    methods = [method for method in METHODS if method != "dask-ml" or has_dask_ml]
    base = BASE | ({"n": 4_000, "p": 100} if asked.quick else {})
    found: dict[str, dict[str, list[dict]]] = {}
    for axis, sizes in (QUICK if asked.quick else GROWING).items():
        # Only ours has silos; to the others m is a number of batches.
        found[axis] = {
            method: [measure(method, base | {axis: size}, runs) for size in sizes]
            for method in methods
        }
        print(table(found, runs), flush=True)
    if not asked.quick:
        found["FedSVD's case"] = {m: [measure(m, FEDSVD, runs)] for m in methods}
        results = Path(__file__).parent / "results" / "pca_scaling.md"
        results.write_text(table(found, runs))


if __name__ == "__main__":
    main()

"""PCA of rows in five silos: ours masked, scikit-learn pooled, P-COV in clear.

    python benchmarks/pca_rows.py                    # everything, writes the table
    python benchmarks/pca_rows.py --quick            # small, once and here, prints only

Each method runs several times, in processes of its own that alternate. Wall times are
medians over runs, and ratios are medians of the ratios of neighbouring runs, so that a
machine whose speed drifts does not favour either side. All use float64 and the same
BLAS threads. Peak memory is the operating system's figure for the process, data
included; every process makes its data in the same way.

P-COV is the method of paper 003 as published: each silo sends its count, mean and
covariance in clear, and all eigenvectors of the pooled covariance are computed.
"""

import argparse
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

N_SILOS = 5
K = 50
# Rows and columns of a fit before the clock starts, on every side: libraries load, and
# BLAS starts its threads.
WARM = N_SILOS * 1_000, 400
METHODS = ("pooled", "ours", "p-cov")


def data(name: str, folder: Path) -> np.ndarray:
    """Return the rows of a case as float64."""
    if name == "mnist":
        with np.load(folder / "mnist_full.npz") as file:
            return file["X_train"].astype(np.float64)
    n, p = map(int, name.split("x"))
    rng = np.random.default_rng(3)
    # A decaying spectrum over correlated columns, like images.
    spectrum = 1.0 / np.sqrt(1.0 + np.arange(64))
    mixing = rng.standard_normal((64, p)) * spectrum[:, None]
    X = rng.standard_normal((n, p))
    X *= 0.3
    for start in range(0, n, 1000):
        part = X[start : start + 1000]
        part += rng.standard_normal((len(part), 64)) @ mixing
    X += rng.uniform(0.0, 2.0, p)
    return X


def p_cov(silos: list[np.ndarray], k: int) -> np.ndarray:
    """Return the components by paper 003, section 4.1, everything sent in clear."""
    sent = []
    for X in silos:
        mean = X.mean(axis=0)
        centred = X - mean
        sent.append((len(X), mean, centred.T @ centred / len(X)))
    total = sum(n for n, _, _ in sent)
    mean = sum(n * m for n, m, _ in sent) / total
    C = np.zeros((len(mean), len(mean)))
    for n, m, covariance in sent:
        C += n * (covariance + np.outer(m - mean, m - mean))
    values, vectors = np.linalg.eigh(C / total)
    return vectors[:, np.argsort(values)[::-1][:k]].T


def fit(method: str, X: np.ndarray) -> tuple[float, np.ndarray, int]:
    """Return seconds, components, and bytes sent by a silo (0 where nobody counts)."""
    silos = np.array_split(X, N_SILOS)
    if method == "pooled":
        from sklearn.decomposition import PCA

        started = time.perf_counter()
        model = PCA(K, svd_solver="covariance_eigh").fit(X)
        return time.perf_counter() - started, model.components_, 0
    if method == "p-cov":
        started = time.perf_counter()
        components = p_cov(silos, K)
        p = X.shape[1]
        return time.perf_counter() - started, components, 8 * (1 + p + p * p)
    import unpooled as up

    parties = {f"silo{i + 1}": part for i, part in enumerate(silos)}
    federation = up.simulate(parties, secure_sum="masked", policy=up.Policy.open())
    few = {
        name: part[: WARM[0] // N_SILOS, : WARM[1]] for name, part in parties.items()
    }
    up.PCA(2, svd_solver="covariance_eigh").fit(
        up.simulate(few, policy=up.Policy.open())
    )
    started = time.perf_counter()
    model = up.PCA(K, svd_solver="covariance_eigh").fit(federation)
    seconds = time.perf_counter() - started
    return seconds, model.components_, federation.ledger.bytes_out("silo1")


def measured(method: str, case: str, folder: Path, out: Path) -> dict:
    """Run one method once, write its components, and return what was measured."""
    X = data(case, folder)
    if method != "ours":
        from sklearn.decomposition import PCA

        PCA(2, svd_solver="covariance_eigh").fit(X[: WARM[0], : WARM[1]])
    seconds, components, sent = fit(method, X)
    np.save(out, components)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"seconds": seconds, "peak_mb": peak, "sent": sent}


def measure(case: str, folder: Path, runs: int, scratch: Path) -> list[dict]:
    """Run all methods in turn, `runs` times after one run that is not counted.

    With 0 runs each runs once, in this process.
    """
    from scipy.linalg import subspace_angles

    seen = {method: [] for method in METHODS}
    for run in range(runs + 1):
        for method in METHODS:
            out = scratch / f"{method}.npy"
            if not runs:
                seen[method].append(measured(method, case, folder, out))
                continue
            command = [sys.executable, __file__, "--child", method, case]
            command += ["--data", str(folder), "--out", str(out)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            if run:
                seen[method].append(json.loads(done.stdout))
    pooled = np.load(scratch / "pooled.npy")
    rows = []
    for method in METHODS:
        pairs = zip(seen[method], seen["pooled"], strict=True)
        angle = subspace_angles(np.load(scratch / f"{method}.npy").T, pooled.T).max()
        seconds = [s["seconds"] for s in seen[method]]
        rows.append(
            {
                "case": case,
                "method": method,
                "seconds": statistics.median(seconds),
                "spread": (min(seconds), max(seconds)),
                "ratio": statistics.median(
                    a["seconds"] / b["seconds"] for a, b in pairs
                ),
                "peak": statistics.median(s["peak_mb"] for s in seen[method]),
                "sent": seen[method][0]["sent"],
                "angle": float(np.degrees(angle)),
            }
        )
    for row in rows:
        row["peak_ratio"] = row["peak"] / rows[0]["peak"]
    return rows


def table(rows: list[dict], runs: int) -> str:
    """Return the results as Markdown."""
    import scipy
    import sklearn

    lines = [
        "# PCA(50) over five silos",
        "",
        f"Medians of {runs} paired runs; {os.cpu_count()} cores, Python "
        f"{platform.python_version()}, numpy {np.__version__}, scipy "
        f"{scipy.__version__}, scikit-learn {sklearn.__version__}.",
        "",
        'Pooled is scikit-learn\'s `PCA(svd_solver="covariance_eigh")` on all rows; '
        "P-COV sends each silo's moments in clear; ours opens totals only.",
        "",
        "| rows | method | seconds (min-max) | x pooled | peak MB | x pooled "
        "| MB a silo sends | angle to pooled (degrees) |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        low, high = row["spread"]
        sent = f"{row['sent'] / 1e6:.2f}" if row["sent"] else "all rows"
        lines.append(
            f"| {row['case']} | {row['method']} | {row['seconds']:.3f} "
            f"({low:.3f}-{high:.3f}) | {row['ratio']:.2f} | {row['peak']:.0f} "
            f"| {row['peak_ratio']:.2f} | {sent} | {row['angle']:.1e} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    default = Path(os.environ.get("UNPOOLED_DATA", "../shared/data"))
    parser.add_argument("--data", type=Path, default=default, help="folder of MNIST")
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--child", nargs=2, metavar=("METHOD", "CASE"))
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    if asked.child:
        print(json.dumps(measured(*asked.child, asked.data, asked.out)))
        return
    cases = ["5000x200"] if asked.quick else ["mnist", "50000x3072"]
    if "mnist" in cases and not (asked.data / "mnist_full.npz").exists():
        print(f"mnist_full.npz is not in {asked.data}: left out", file=sys.stderr)
        cases.remove("mnist")
    import tempfile

    runs = 0 if asked.quick else asked.runs
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        for case in cases:
            rows += measure(case, asked.data, runs, Path(scratch))
            print(table(rows, runs))
    if not asked.quick:
        results = Path(__file__).parent / "results" / "pca_rows.md"
        results.write_text(table(rows, runs))


if __name__ == "__main__":
    main()

"""Error of Nystroem and Fourier features against exact kernel PCA, and bytes sent.

    python experiments/kernel_approximations.py [--quick]

The 1,797 handwritten digits of scikit-learn, their 64 columns at three parties, an RBF
kernel. The error is that of the centred kernel matrix, ``‖K - K'‖ / ‖K‖`` in the
Frobenius norm, with K' from all components of the approximation; the table also has the
largest relative error of the first five eigenvalues. Results go to experiments/results.
"""

import argparse
import os
import platform
import time
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import sklearn
from sklearn.datasets import load_digits

import unpooled as up

mpl.use("Agg")
import matplotlib.pyplot as plt

RESULTS = Path(os.environ.get("UNPOOLED_RESULTS", Path(__file__).parent / "results"))
PARTIES, FIRST = 3, 5


def fitted(X: np.ndarray, **how: Any) -> tuple[up.KernelPCA, int, float]:
    """Return a model, the bytes from each party, and the seconds."""
    parts = up.partition_columns(X, PARTIES)
    open_policy = up.Policy.open()
    federation = up.simulate(parts, partition="columns", policy=open_policy)
    began = time.perf_counter()
    model = up.KernelPCA(gamma=gamma_of(X), **how).fit(federation)
    seconds = time.perf_counter() - began
    return model, federation.ledger.bytes_out(), seconds


def gamma_of(X: np.ndarray) -> float:
    """Return scikit-learn's "scale": 1 / (p var)."""
    return 1.0 / (X.shape[1] * X.var())


def kernel_of(model: up.KernelPCA) -> np.ndarray:
    """Return the centred kernel matrix that a model has axes of."""
    return model.eigenvectors_ * model.eigenvalues_ @ model.eigenvectors_.T


def errors(exact: up.KernelPCA, K: np.ndarray, near: up.KernelPCA) -> list[float]:
    """Return the error of the kernel matrix, and that of the first eigenvalues."""
    first = near.eigenvalues_[:FIRST] / exact.eigenvalues_[:FIRST]
    error = np.linalg.norm(K - kernel_of(near)) / np.linalg.norm(K)
    return [float(error), float(np.abs(first - 1.0).max())]


def measured(
    X: np.ndarray, sizes: list[int], seeds: int
) -> tuple[list[tuple], dict[str, list[tuple[int, float]]]]:
    """Return the rows of the table, and (bytes, error) by approximation."""
    exact, sent, seconds = fitted(X)
    K = kernel_of(exact)
    rows = [("exact", len(X), f"{sent:,}", f"{seconds:.1f}", "0", "0")]
    drawn: dict[str, list[tuple[int, float]]] = {"nystroem": [], "fourier": []}
    for approximation, points in drawn.items():
        for size in sizes:
            how = {"approximation": approximation, "n_landmarks": size}
            runs = [fitted(X, **how, random_state=seed) for seed in range(seeds)]
            found = np.array([errors(exact, K, model) for model, _, _ in runs])
            mean, worst = found.mean(axis=0), found.max(axis=0)
            took = np.mean([run[2] for run in runs])
            rows.append(
                (
                    approximation,
                    size,
                    f"{runs[0][1]:,}",
                    f"{took:.1f}",
                    f"{mean[0]:.1e} (at most {worst[0]:.1e})",
                    f"{mean[1]:.1e}",
                )
            )
            points.append((runs[0][1], float(mean[0])))
    return rows, drawn


def pictured(drawn: dict[str, list[tuple[int, float]]], whole: int, name: str) -> None:
    """Draw the error against what each party sends."""
    figure, axes = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
    for (label, points), mark in zip(drawn.items(), "os", strict=True):
        sizes, error = np.array(points).T
        axes.loglog(sizes / 1e6, error, marker=mark, label=label)
    axes.axvline(whole / 1e6, color="grey", linewidth=1, label="exact: error 0")
    axes.set_xlabel("MB from each party")
    axes.set_ylabel("error of the kernel matrix")
    axes.legend(frameon=False)
    axes.grid(alpha=0.2)
    figure.savefig(RESULTS / f"{name}.png", dpi=120)


def main() -> None:
    """Write the table and the picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few people, two seeds")
    quick = parser.parse_args().quick
    X = load_digits().data[: 300 if quick else None]
    sizes = [20, 40, 80] if quick else [25, 50, 100, 200, 400, 800]
    seeds = 2 if quick else 5
    rows, drawn = measured(X, sizes, seeds)
    RESULTS.mkdir(exist_ok=True)
    name = f"kernel_approximations{'-quick' if quick else ''}"
    pictured(drawn, int(rows[0][2].replace(",", "")), name)
    head = (
        "approximation",
        "l",
        "bytes from each party",
        "s",
        "error of the kernel matrix",
        f"of the first {FIRST} eigenvalues",
    )
    lines = [head, tuple("---" for _ in head), *rows]
    table = "\n".join("| " + " | ".join(map(str, row)) + " |" for row in lines)
    text = f"""# Approximations of kernel PCA

{len(X):,} handwritten digits, {X.shape[1]} columns at {PARTIES} parties, RBF kernel
with gamma = 1 / (p var). Means over {seeds} seeds. Python {platform.python_version()},
numpy {np.__version__}, scikit-learn {sklearn.__version__}. Seconds are of one process
that holds all parties and the coordinator, on two cores that other jobs used too.

{table}

![Error against bytes]({name}.png)

Fourier features err like 1 / sqrt(l) whatever the data; Nystroem's error follows the
eigenvalues that it leaves out, and is 0 with all rows as landmarks.
"""
    (RESULTS / f"{name}.md").write_text(text, "utf-8")
    print(text)


if __name__ == "__main__":
    main()

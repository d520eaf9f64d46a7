"""PCA of N aligned people whose columns lie at m parties, beside scikit-learn's.

    python benchmarks/pca_columns.py [--quick]

Prints a Markdown table: seconds, rounds, bytes from each party, and the largest angle
to scikit-learn's components on the joined columns. With 784 columns the rows are those
of mnist_full.npz in the folder UNPOOLED_DATA, tiled with noise up to N; without it, and
with other columns, they are drawn with a decaying spectrum.
"""

import argparse
import os
import time
from pathlib import Path

import numpy as np
import scipy.linalg
import sklearn.decomposition

import unpooled as up

SIZES = [(2_000, 784, 4), (20_000, 784, 4), (20_000, 784, 8), (100_000, 784, 4)]
QUICK = [(500, 64, 2), (2_000, 64, 4)]
K = 10


def rows_of(N: int, p: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    file = Path(os.environ.get("UNPOOLED_DATA", "")) / "mnist_full.npz"
    if p == 784 and file.is_file():
        content = np.load(file)
        X = content[content.files[0]].reshape(-1, 784).astype(float) / 255.0
        X = X[np.arange(N) % len(X)]
        return X + 0.01 * rng.standard_normal(X.shape)
    scales = 1.0 / np.arange(1, p + 1)
    return (
        rng.standard_normal((N, p))
        * scales
        @ np.linalg.qr(rng.standard_normal((p, p)))[0]
    )


def measured(N: int, p: int, m: int, solver: str) -> str:
    X = rows_of(N, p)
    parties = up.partition_columns(X, m)
    open_policy = up.Policy.open()
    federation = up.simulate(parties, partition="columns", policy=open_policy)
    began = time.perf_counter()
    model = up.PCA(K, svd_solver=solver, tol=1e-8, random_state=0).fit(federation)
    seconds = time.perf_counter() - began
    rounds = len({line.round for line in federation.ledger})
    size = federation.ledger.bytes_out() / 1e6
    began = time.perf_counter()
    twin = sklearn.decomposition.PCA(K, svd_solver="covariance_eigh").fit(X)
    theirs = time.perf_counter() - began
    angles = scipy.linalg.subspace_angles(model.components_.T, twin.components_.T)
    return (
        f"| {N:,} | {p} | {m} | {solver} | {seconds:.1f} | {theirs:.1f} | {rounds} | "
        f"{size:.1f} | {angles[0]:.0e} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes only")
    sizes = QUICK if parser.parse_args().quick else SIZES
    print(f"numpy {np.__version__}, scikit-learn {sklearn.__version__}, one run each\n")
    print("| N | p | parties | solver | s | s, joined | rounds | MB out | angle |")
    print("|---|---|---|---|---|---|---|---|---|")
    for N, p, m in sizes:
        for solver in ["krylov", *(["gram"] if N <= 2_000 else [])]:
            print(measured(N, p, m, solver), flush=True)


if __name__ == "__main__":
    main()

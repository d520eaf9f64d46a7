"""PCA of N aligned people whose columns are at m parties, compared with other methods.

    python benchmarks/pca_columns.py [--quick]

Prints a Markdown table: seconds, rounds, megabytes from each party, and the error, the
sine of the largest angle between the scores' span and that of scikit-learn on the
joined columns. Every method runs through the same messages, masks and codes:

    krylov, gram       `PCA`, exact
    masked SVD         FedSVD's protocol, from its paper (fedsvd.py)
    VFedPCA            the algorithm of its paper: ten rounds for each component
    kernel, nystroem   `KernelPCA`, RBF; error against scikit-learn's KernelPCA, or its
                       Nystroem of as many rows and then PCA
    matching           10⁵ ids at each of three parties: finding the common ones

With 784 columns the rows are those of mnist_full.npz in the folder UNPOOLED_DATA, tiled
with noise up to N; without it, and with other columns, they are drawn with a decaying
spectrum.
"""

import argparse
import functools
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.linalg
import sklearn.decomposition
from fedsvd import masked_svd
from sklearn.kernel_approximation import Nystroem
from sklearn.pipeline import make_pipeline

import unpooled as up

# N, p, m: each grows by itself.
SIZES = [
    (2_000, 784, 4),
    (20_000, 784, 4),
    (100_000, 784, 4),
    (2_000, 196, 4),
    (2_000, 3_072, 4),
    (20_000, 784, 2),
    (20_000, 784, 8),
]
QUICK = [(300, 48, 3)]
K, LANDMARKS = 10, 200
# Beyond these a method takes what this machine does not have: N × N numbers, or N × p
# of each party, in memory at once; or, with 200 rounds of power iterations, hours.
MOST_GRAM, MOST_LOCAL = 4_000, 2 * 10**7
IDS, COMMON = 100_000, 60_000


def rows_of(N: int, p: int) -> np.ndarray:
    """Return joined columns."""
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


def linear(X: np.ndarray) -> np.ndarray:
    """Return scikit-learn's scores on the joined columns."""
    wide = X.shape[1] > len(X)
    solver = "full" if wide else "covariance_eigh"
    return sklearn.decomposition.PCA(K, svd_solver=solver).fit_transform(X)


def gamma_of(X: np.ndarray) -> float:
    """Return scikit-learn's "scale"."""
    return 1.0 / (X.shape[1] * float(X.var()))


def kernel(X: np.ndarray) -> np.ndarray:
    """Return the scores of scikit-learn's KernelPCA on the joined columns."""
    how = {"kernel": "rbf", "gamma": gamma_of(X), "eigen_solver": "dense"}
    return sklearn.decomposition.KernelPCA(K, **how).fit_transform(X)


def landmarks(X: np.ndarray) -> np.ndarray:
    """Return the scores of scikit-learn's Nystroem and PCA on the joined columns."""
    features = Nystroem(gamma=gamma_of(X), n_components=LANDMARKS, random_state=0)
    pca = sklearn.decomposition.PCA(K, svd_solver="full")
    return make_pipeline(features, pca).fit_transform(X)


def solved(solver: str, federation: up.Federation, X: np.ndarray) -> Any:
    """Fit `PCA`; the returned function, called untimed, gives the scores."""
    model = up.PCA(K, svd_solver=solver, tol=1e-8, random_state=0).fit(federation)
    return lambda: model.transform(federation)


def masked(federation: up.Federation, X: np.ndarray) -> Any:
    """Run FedSVD's protocol."""
    U, _ = masked_svd(federation, K)
    return lambda: U


def published(federation: up.Federation, X: np.ndarray) -> Any:
    """Fit `VFedPCA`, with the options that help it most."""
    how = {"warm_start": True, "align_signs": True, "random_state": 0}
    model = up.VFedPCA(K, rounds=10, **how).fit(federation)
    return lambda: model.u_


def kernelled(approximation: str | None, federation: up.Federation, X: Any) -> Any:
    """Fit `KernelPCA`."""
    how = {"approximation": approximation, "n_landmarks": LANDMARKS, "random_state": 0}
    model = up.KernelPCA(K, gamma=gamma_of(X), **how).fit(federation)
    return lambda: model.eigenvectors_


Method = tuple[Callable[[up.Federation, np.ndarray], Any], Callable[[Any], np.ndarray]]
METHODS: dict[str, Method] = {
    "krylov": (functools.partial(solved, "krylov"), linear),
    "gram": (functools.partial(solved, "gram"), linear),
    "masked SVD": (masked, linear),
    "VFedPCA": (published, linear),
    "kernel": (functools.partial(kernelled, None), kernel),
    "nystroem": (functools.partial(kernelled, "nystroem"), landmarks),
}


def fits(name: str, N: int, p: int) -> bool:
    """Whether a method has the memory, and the time, that it takes."""
    if name in ("gram", "kernel"):
        return N <= MOST_GRAM
    return name not in ("masked SVD", "VFedPCA") or N * p <= MOST_LOCAL


def measured(X: np.ndarray, m: int, name: str) -> str:
    """Return a row of the table."""
    fit, twin = METHODS[name]
    parties, policy = up.partition_columns(X, m), up.Policy.open()
    federation = up.simulate(parties, partition="columns", policy=policy)
    began = time.perf_counter()
    scores = fit(federation, X)
    seconds = time.perf_counter() - began
    rounds = len({line.round for line in federation.ledger})
    size = federation.ledger.bytes_out() / 1e6
    began = time.perf_counter()
    theirs = twin(X)
    joined = time.perf_counter() - began
    error = np.sin(scipy.linalg.subspace_angles(scores(), theirs)[0])
    return (
        f"| {len(X):,} | {X.shape[1]:,} | {m} | {name} | {seconds:.1f} | {joined:.1f} "
        f"| {rounds} | {size:.1f} | {error:.0e} |"
    )


def matched(n: int, common: int, m: int) -> str:
    """Return a row for finding the people that m parties with n ids each share."""
    rng = np.random.default_rng(0)
    tables, first = {}, common
    for party in range(m):
        own = np.r_[np.arange(common), np.arange(first, first + n - common)]
        first += n - common
        rng.shuffle(own)
        ids = [f"person {i}" for i in own]
        tables[f"silo{party}"] = pd.DataFrame({"id": ids, f"c{party}": own * 1.0})
    policy = up.Policy.open()
    began = time.perf_counter()
    federation = up.simulate(tables, partition="columns", ids="id", policy=policy)
    seconds = time.perf_counter() - began
    found = federation.n_rows
    rounds = len({line.round for line in federation.ledger})
    size = federation.ledger.bytes_out() / 1e6
    return (
        f"| {n:,} | 1 | {m} | matching | {seconds:.1f} | | {rounds} | {size:.1f} | "
        f"{found:,} found of {common:,} |"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one small size")
    quick = parser.parse_args().quick
    print(f"numpy {np.__version__}, scikit-learn {sklearn.__version__}, one run each\n")
    print("| N | p | parties | method | s | s, joined | rounds | MB out | error |")
    print("|---|---|---|---|---|---|---|---|---|")
    for N, p, m in QUICK if quick else SIZES:
        X = rows_of(N, p)
        for name in METHODS:
            if fits(name, N, p):
                print(measured(X, m, name), flush=True)
    print(matched(*((500, 300) if quick else (IDS, COMMON)), 3), flush=True)


if __name__ == "__main__":
    main()

"""PCA without pooling by the algorithms of others, beside this library's exact ones.

    python benchmarks/rivals.py [--quick]

Prints two Markdown tables, one for silos with the same columns about different people
and one for silos with different columns of the same people: the error, rounds,
megabytes from each silo, seconds of computing, and what becomes known to whom. The
error is the sine of the largest angle between the subspace of k components, at the silo
that is furthest off, and the pooled data's.

    VFedPCA    `up.VFedPCA`, ten rounds for each component; as published it has one
    FedSVD     its protocol (fedsvd.py)
    DeEPCA     power iteration with gradient tracking and mixing along a ring
    FedPG      consensus by ADMM with gradient steps on the Grassmann manifold

DeEPCA and FedPG are published for silos with the same columns: each multiplies a block
by its own A_i = X_iᵀ X_i. With other columns of the same people A_i = X_i X_iᵀ, and the
block is of scores. They are run here in plain arrays, each message counted as float64
without any protection, and stopped at the first round whose error is at most 1e-8, by
comparison with the pooled answer, which no silo could do. DeEPCA takes the number of
steps of mixing that serves it best, and FedPG the length of its steps and the penalty
that do.

References
----------
Cheung, Jiang, Yu, Lou, Vertical federated principal component analysis and its kernel
extension on feature-wise distributed data, algorithms 2 and 3.
Chai et al., Practical lossless federated singular vector decomposition over
billion-scale data, KDD 2022.
Ye and Zhang, DeEPCA: Decentralized exact PCA with linear convergence rate, JMLR 22
(2021), algorithms 1 and 2.
Nguyen et al., Federated PCA on Grassmann manifold for IoT anomaly detection,
arXiv 2407.07421, FedPG.
"""

import argparse
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import scipy.linalg
from fedsvd import masked_svd

import unpooled as up
from unpooled.arrays import Array
from unpooled.linalg.gossip import laplacian

K, M, TOL = 5, 4, 1e-8
# Rounds after which a method is stopped.
MOST, MOST_QUICK = 1_000, 20
# N, p of made data: a decaying spectrum, and one that hardly decays.
MADE = {"decaying": (2_000, 100, 0.8), "flat": (2_000, 100, 0.98)}
QUICK = {"decaying": (200, 30, 0.8)}
Operator = Callable[[Array], Array]
# Masks hide a silo's own direction, which Algorithm 2 sends to the server.
VFEDPCA_SHOWS = (
    "the silos' directions over the people, summed, to everybody; as published, every "
    "silo's own, to the server"
)


def data(quick: bool) -> dict[str, Array]:
    """Return the rows of each data set, columns centred."""
    rng = np.random.default_rng(0)
    found = {}
    for name, (N, p, rate) in (QUICK if quick else MADE).items():
        X = rng.standard_normal((N, p)) * rate ** np.arange(p)
        found[name] = X @ np.linalg.qr(rng.standard_normal((p, p)))[0]
    file = Path(os.environ.get("UNPOOLED_DATA", "")) / "mnist_full.npz"
    if file.is_file() and not quick:
        content = np.load(file)
        rows = content[content.files[0]].reshape(-1, 784)[:2_000] / 255.0
        found["MNIST"] = rows
    return {name: X - X.mean(axis=0) for name, X in found.items()}


def off(blocks: Sequence[Array], wanted: Array) -> float:
    """Return the sine of the largest angle between any silo's span and the answer."""
    angles = [scipy.linalg.subspace_angles(own, wanted)[0] for own in blocks]
    return float(np.sin(max(angles)))


def ring(m: int) -> tuple[Array, float]:
    """Return the mixing matrix of a ring, and its second largest eigenvalue."""
    L = laplacian([((i - 1) % m, (i + 1) % m) for i in range(m)])
    mixing = np.eye(m) - L / np.linalg.eigvalsh(L)[-1]
    return mixing, float(np.linalg.eigvalsh(mixing)[-2])


def deepca(
    products: Sequence[Operator], start: Array, wanted: Array, steps: int, most: int
) -> tuple[float, int, float]:
    """Run DeEPCA; return its error, rounds, and megabytes from each silo."""
    m = len(products)
    mixing, second = ring(m)
    root = np.sqrt(1.0 - second**2)
    momentum = (1.0 - root) / (1.0 + root)
    tracked = bases = images = np.array([start] * m)
    error, rounds = 1.0, 0
    while rounds < most:
        rounds += steps
        before = images
        images = np.array([A(W) for A, W in zip(products, bases, strict=True)])
        last = tracked = tracked + images - before
        for _ in range(steps):
            mixed = (1.0 + momentum) * np.tensordot(mixing, tracked, 1)
            last, tracked = tracked, mixed - momentum * last
        bases = np.array([np.linalg.qr(S)[0] for S in tracked])
        bases *= np.where((bases * start).sum(axis=1) < 0, -1.0, 1.0)[:, None]
        error = off(bases, wanted)
        if not np.isfinite(tracked).all() or error <= TOL:
            break
    # To each of two neighbours in every step of mixing.
    return error, rounds, rounds * 2 * start.nbytes / 1e6


def retracted(V: Array) -> Array:
    """Return the orthonormal factor whose triangular one has a positive diagonal."""
    Q, R = np.linalg.qr(V)
    return Q * np.where(R.diagonal() < 0, -1.0, 1.0)


def fedpg(
    products: Sequence[Operator],
    start: Array,
    wanted: Array,
    length: float,
    ρ: float,
    most: int,
) -> tuple[float, int, float]:
    """Run FedPG with ten local steps; return error, rounds, megabytes."""
    m, error, rounds = len(products), 1.0, 0
    bases, dual = [start] * m, [np.zeros_like(start)] * m
    while rounds < most:
        rounds += 1
        shared = np.mean(bases, axis=0)
        error = off([shared], wanted)
        if error <= TOL:
            break
        dual = [Y + ρ * (U - shared) for Y, U in zip(dual, bases, strict=True)]
        moved = []
        for A, U, Y in zip(products, bases, dual, strict=True):
            for _ in range(10):
                slope = -2.0 * A(U) + Y + ρ * (U - shared)
                U = retracted(U - length * (slope - U @ (U.T @ slope)))
            moved.append(U)
        bases = moved
    return error, rounds, rounds * start.nbytes / 1e6


def timed(run: Callable[[], tuple[float, int, float]]) -> str:
    """Return the cells of a run in plain arrays."""
    began = time.perf_counter()
    error, rounds, size = run()
    return row(error, rounds, size, time.perf_counter() - began)


def plain(
    operators: Sequence[Operator], size: int, wanted: Array, most: int
) -> list[str]:
    """Return the cells of DeEPCA's and FedPG's rows, but for what becomes known."""
    start = np.linalg.qr(np.random.default_rng(1).standard_normal((size, K)))[0]
    # Of their mean the largest eigenvalue is 1: steps have no unit.
    scale = np.linalg.norm(sum(A(wanted) for A in operators), 2) / len(operators)
    scaled = [lambda V, A=A: A(V) / scale for A in operators]
    # Fewest rounds, or, where none converges in time, the smallest error.
    of_steps = {s: deepca(scaled, start, wanted, s, most)[:2] for s in (1, 2, 3, 5)}
    steps = min(of_steps, key=lambda s: (max(of_steps[s][0], TOL), of_steps[s][1]))
    tried = {
        (s, ρ): fedpg(scaled, start, wanted, s, ρ, most)[0]
        for s in (0.03, 0.1)
        for ρ in (1.0, 3.0, 10.0)
    }
    length, ρ = min(tried, key=tried.__getitem__)
    return [
        timed(lambda: deepca(scaled, start, wanted, steps, most)),
        timed(lambda: fedpg(scaled, start, wanted, length, ρ, most)),
    ]


def row(error: float, rounds: int, size: float, seconds: float) -> str:
    """Return the cells of a method."""
    return f"{error:.0e} | {rounds:,} | {size:,.2f} | {seconds:.2f}"


def ours(federation: up.Federation, fit: Callable[[], Array], wanted: Array) -> str:
    """Return the cells of a method that runs through this library's messages."""
    began = time.perf_counter()
    basis = fit()
    seconds = time.perf_counter() - began
    rounds = len({line.round for line in federation.ledger})
    size = federation.ledger.bytes_out() / 1e6
    return row(off([basis], wanted), rounds, size, seconds)


def by_rows(X: Array, most: int) -> list[tuple[str, str, str]]:
    """Return the rows of the table for silos with the same columns."""
    parts = np.array_split(X, M)
    wanted = np.linalg.svd(X, full_matrices=False)[2][:K].T
    silos = {f"silo{i}": part for i, part in enumerate(parts)}
    federation = up.simulate(silos, policy=up.Policy.open())
    exact = ours(federation, lambda: up.PCA(K).fit(federation).components_.T, wanted)
    others = plain(
        [lambda V, P=P: P.T @ (P @ V) for P in parts], X.shape[1], wanted, most
    )
    return [
        ("`PCA`", exact, "the covariance matrix of all rows, to everybody"),
        (
            "DeEPCA",
            others[0],
            "to two neighbours: images of every block under the silo's own scatter, "
            "which p / k of them determine",
        ),
        ("FedPG", others[1], "to the server: every silo's own components"),
    ]


def by_columns(X: Array, most: int) -> list[tuple[str, str, str]]:
    """Return the rows of the table for silos with other columns of the same people."""
    wanted = np.linalg.svd(X, full_matrices=False)[0][:, :K]
    parties = up.partition_columns(X, M)

    def measured(fit: Callable[[up.Federation], Array], k: int = K) -> str:
        federation = up.simulate(parties, partition="columns", policy=up.Policy.open())
        return ours(federation, lambda: fit(federation), wanted[:, :k])

    def scores(**how: object) -> Callable[[up.Federation], Array]:
        def fit(federation: up.Federation) -> Array:
            model = up.PCA(K, tol=TOL, random_state=0, **how).fit(federation)
            return np.asarray(model.transform(federation))

        return fit

    def published(federation: up.Federation) -> Array:
        return up.VFedPCA(K, rounds=10, random_state=0).fit(federation).u_

    def first(federation: up.Federation) -> Array:
        return up.VFedPCA(1, rounds=10, random_state=0).fit(federation).u_

    parts = np.array_split(X, M, axis=1)
    others = plain([lambda V, P=P: P @ (P.T @ V) for P in parts], len(X), wanted, most)
    return [
        (
            '`PCA`, "krylov"',
            measured(scores(svd_solver="krylov")),
            "sums over all silos of images of blocks of people's numbers, to everybody",
        ),
        (
            '`PCA`, "gram"',
            measured(scores(svd_solver="gram")),
            "the Gram matrix of all people, summed over silos, to everybody",
        ),
        (
            "FedSVD",
            measured(lambda federation: masked_svd(federation, K)[0]),
            "the singular values to the server, the scores to the silos; the seed of "
            "the rotations is trusted to somebody",
        ),
        ("VFedPCA", measured(published), VFEDPCA_SHOWS),
        ("VFedPCA, the first component", measured(first, 1), "the same"),
        (
            "DeEPCA",
            others[0],
            "to two neighbours: images of every block under the silo's own Gram matrix",
        ),
        ("FedPG", others[1], "to the server: every silo's own scores"),
    ]


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few rows and rounds")
    quick = parser.parse_args().quick
    sets, most = data(quick), MOST_QUICK if quick else MOST
    head = "| data | N x p | method | error | rounds | MB | s | what becomes known |"
    for title, table in (
        ("Silos with the same columns", by_rows),
        ("Silos with other columns of the same people", by_columns),
    ):
        print(f"## {title}\n\n{head}\n|{'---|' * 8}", flush=True)
        for name, X in sets.items():
            size = f"{X.shape[0]:,} x {X.shape[1]}"
            for method, cells, known in table(X, most):
                print(f"| {name} | {size} | {method} | {cells} | {known} |", flush=True)
        print()


if __name__ == "__main__":
    main()

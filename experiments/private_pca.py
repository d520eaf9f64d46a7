"""PCA with differential privacy: the mechanisms beside each other, at the same ε and δ.

    python experiments/private_pca.py [--data FOLDER] [--quick]

FOLDER holds mnist_full.npz and cifar10_10k.npz. Writes private_pca.md into
experiments/results. The noise is drawn from the operating system, so that no two runs
agree in the last digits. What is said of two papers of 2025 and 2026 is what could be
read of them: abstracts, the first part of one, and a list of the other's algorithms.
"""

import argparse
import os
import resource
import sys
import time
from pathlib import Path

import numpy as np
import scipy.linalg
import sklearn.decomposition
from fetch import at_hand, held

import unpooled as up

RESULTS = Path(os.environ.get("UNPOOLED_RESULTS", Path(__file__).parent / "results"))
DELTA, SILOS, SEED = 1e-5, 10, 42
# Public constants: pixels are between 0 and 1.
NORM, CENTRE = 10.0, 0.0
# Pictures in grey, 16 x 16, about the middle of the scale.
GREY = (8.0, 0.5)
# Of the table of many columns: rows, columns, silos, and the components' shares of the
# variance; rows are about 1 long.
WIDE, SHARES, ABOUT_ONE = (8000, 10_000, 4), (0.4, 0.25, 0.15), 2.0
HEAD = [
    "ε",
    "mechanism",
    "mean angle (noisy)",
    "largest angle (noisy)",
    "noise edge (noisy)",
    "rounds",
    "a silo sends, MB",
    "processor s",
]
WIDE_HEAD = [
    "ε",
    "rounds of products",
    "mean angle (noisy)",
    "largest angle (noisy)",
    "noise edge (noisy)",
    "a silo sends, MB",
    "memory beyond rows, MB",
    "processor s",
]
PAGE = """# PCA with differential privacy: three mechanisms

unpooled {version}; MNIST, {rows} rows, {columns} pixels divided by 255, {silos} silos,
k = {k}, δ = {delta:g}, `row_norm` {norm:g} and `centre` {centre:g} about which rows are
clipped; neighbours differ in one row more or less. One run each; the noise has no
seed.{quick}

Angles are the principal angles to scikit-learn's pooled components, in degrees. The
noise edge is the largest variance that noise alone shows; variance {k} is {last:.3f}.

{table}
"scatter" is one round (Dwork et al., 2014, algorithm 1). "preconditioned" spends the
same ε and δ in three: 4 % of ρ on the mean and a length, 20 % on a first covariance
matrix, 76 % on the products of rows that the first two have shortened. Both matrices
count, weighted by their noise, and columns that show noise alone are shrunk: here the
margins of the pictures. Where noise matters rows are clipped to their root mean square
length, or 0.7 of it, and variances are scaled to add up to the mean square length; the
first is {first}.

"power" never forms p × p numbers: 6 % of ρ on the mean and a length, and the rest in
four rounds of products with blocks of k + 5 directions (Hardt and Price, 2014,
algorithm 1), with scores clipped as well. It is for thousands of columns; of these few,
products of all columns take less noise.

## The same constants on other data

CIFAR-10, {grey_rows} rows, {grey_columns} pixels (squares of four, in grey),
k = {grey_k}, `row_norm` {grey_norm:g} and `centre` {grey_centre:g}. All columns vary
alike here, so that none is shrunk.

{grey}
The constants of "preconditioned" (shares of ρ, 0.7, floors) are in the program, with
the arguments for them in `unpooled.models.pca.private`. A fit chooses by totals alone
for which it has paid. Among the variants that the arguments left, simulations on MNIST,
on CIFAR-10 and on four sets of made data decided, so that these tables are no fresh
test of them.

## Ten thousand columns

Made data: {wide_rows} rows, {wide_columns} columns, {wide_silos} silos; {wide_k}
components with {shares} of the variance, the rest spread over all directions; mechanism
"power". A matrix of products of all columns would be {pairs} numbers from each silo.
Memory is the highest of the whole process, silos included, less that before the first
fit.

{wide}
## Two later papers

- Nguyen, Ene and Nguyen, "Adaptive power iteration method for differentially private
  PCA" (arXiv 2602.11454). Read: the abstract and the beginning of section 1 (version
  3), and a summary by others. One component by power iterations, with a filter of rows
  that adapts to their coherence; by the summary, the sparse vector technique decides in
  each iteration which rows pass. Not read: the algorithm, its thresholds, its proof. So
  nothing here has its name. "power" has the idea in another form, with a proof of its
  own (`unpooled.models.pca.private_power`): the scores of a row along the block are
  clipped to a norm that earlier noisy products give, and the noise is in proportion to
  that norm. No row is left out, and k components are found together.
- Düngler and Sanyal, "An iterative algorithm for differentially private k-PCA with
  adaptive noise" (arXiv 2508.10879, NeurIPS 2025). Read: the abstract, the beginning of
  section 1, the names of its seven algorithms and the caption of Figure 1, and the
  abstract of the work that it extends (Liu et al., "DP-PCA", NeurIPS 2022): a single
  pass of gradient steps on small batches, with private means whose noise adapts to a
  batch. Not read: the algorithms, their proofs, the numbers of Figure 1. Not
  implemented.
"""


def load(folder, quick):
    raw = held("mnist_full", folder, ("X_train", "y_train"))
    X, y = raw["X_train"] / 255.0, raw["y_train"]
    if quick:
        # Every seventh pixel: a quick run tests the program, not the numbers.
        X, y = X[:3000, ::7], y[:3000]
    return np.ascontiguousarray(X), y


def load_grey(folder, quick):
    raw = held("cifar10_10k", folder, ("X_train", "y_train"))
    if raw["X_train"].shape[1:] != (3072,):
        sys.exit("X_train of cifar10_10k is to have 32 x 32 x 3 columns.")
    # Pixels by rows, three colours of each: colours and squares of four are averaged.
    X = raw["X_train"].reshape(len(raw["X_train"]), 16, 2, 16, 2, 3) / 255.0
    X = X.mean(axis=(2, 4, 5)).reshape(len(X), -1)
    if quick:
        X = X[:2000, ::4]
    return np.ascontiguousarray(X), raw["y_train"][: len(X)]


def fitted(epsilon, mechanism, k, data, exact, clipped=(NORM, CENTRE)):
    """Return the line of one fit, and its model."""
    silos = up.partition_rows(data[0], SILOS, y=data[1], random_state=SEED)
    federation = up.simulate(silos, policy=up.Policy.open())
    privacy = up.GaussianPrivacy(epsilon, DELTA, *clipped, mechanism)
    started = time.process_time()
    model = up.PCA(k, privacy=privacy).fit(federation)
    took = time.process_time() - started
    off = np.degrees(
        scipy.linalg.subspace_angles(model.components_.T, exact.components_.T)
    )
    sent = sum(x.bytes for x in federation.ledger if x.direction == "out")
    line = [
        epsilon,
        mechanism,
        f"{off.mean():.1f}",
        f"{off.max():.1f}",
        f"{model.privacy_['noise_edge']:.3f}",
        max(x.round for x in federation.ledger),
        f"{sent / 1e6:.2f}",
        f"{took:.0f}",
    ]
    print(*line, flush=True)
    return line, model


def wide_silos(N, p, m):
    """Return the rows of silos with many columns."""
    rng, k = np.random.default_rng(SEED), len(SHARES)
    axes = np.linalg.qr(rng.standard_normal((p, k)))[0].T * np.sqrt(SHARES)[:, None]
    rest = np.sqrt((1.0 - sum(SHARES)) / p)
    found = {}
    for i in range(m):
        X = rng.standard_normal((N // m, p))
        X *= rest
        for j in range(k):
            # By blocks of rows: no second array of that size.
            for rows in np.array_split(X, 20):
                rows += rng.standard_normal((len(rows), 1)) * axes[j]
        found[f"silo{i + 1}"] = X
    return found


def wide_lines(size, epsilons):
    """Return the lines of fits to many columns."""
    silos, k, lines, models = wide_silos(*size), len(SHARES), [], []
    for epsilon in epsilons:
        for rounds in (2, 4):
            federation = up.simulate(silos, policy=up.Policy.open())
            privacy = up.GaussianPrivacy(
                epsilon, DELTA, ABOUT_ONE, mechanism="power", rounds=rounds
            )
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            started = time.process_time()
            model = up.PCA(k, privacy=privacy, random_state=SEED).fit(federation)
            took = time.process_time() - started
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            sent = sum(x.bytes for x in federation.ledger if x.direction == "out")
            more = f"{(peak - before) / 1024:.0f}" if not lines else "no more"
            lines.append([epsilon, rounds, sent, more, f"{took:.0f}"])
            models.append(model)
    pooled = np.concatenate(list(silos.values()))
    exact = sklearn.decomposition.PCA(k, svd_solver="arpack", random_state=0)
    axes = exact.fit(pooled).components_.T
    made = []
    for (epsilon, rounds, sent, more, took), model in zip(lines, models, strict=True):
        off = np.degrees(scipy.linalg.subspace_angles(model.components_.T, axes))
        edge = model.privacy_["noise_edge"]
        made.append(
            [epsilon, rounds, f"{off.mean():.1f}", f"{off.max():.1f}", f"{edge:.3f}",
             f"{sent / 1e6:.2f}", more, took]
        )  # fmt: skip
        print(*made[-1], flush=True)
    return made


def table(head, lines):
    rows = ["| " + " | ".join(map(str, row)) + " |" for row in [head, *lines]]
    return "\n".join([rows[0], "|" + "---|" * len(head), *rows[1:], ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--data", type=Path, help="by default that of UNPOOLED_DATA")
    parser.add_argument("--quick", action="store_true", help="few rows and columns")
    args = parser.parse_args()
    RESULTS.mkdir(exist_ok=True)
    # First, since memory is measured by its highest.
    size = (1600, 600, 4) if args.quick else WIDE
    wide = wide_lines(size, (4.0,) if args.quick else (1.0, 3.0))
    data = load(args.data, args.quick)
    k = 5 if args.quick else 50
    if min(data[0].shape) < k:
        rows, columns = data[0].shape
        sys.exit(f"mnist_full has {rows} rows and {columns} columns, for k = {k}.")
    exact = sklearn.decomposition.PCA(k, svd_solver="covariance_eigh").fit(data[0])
    lines, first = [], ""
    for epsilon in (1.0,) if args.quick else (1.0, 0.3):
        for mechanism in ("scatter", "preconditioned", "power"):
            line, model = fitted(epsilon, mechanism, k, data, exact)
            lines.append(line)
            if mechanism == "preconditioned":
                first = (
                    f"{model.explained_variance_[0]:.2f} at ε = {epsilon:g}, and "
                    f"{exact.explained_variance_[0]:.2f} without noise"
                )
    grey_k, grey_shape, grey_lines = 3 if args.quick else 10, (0, 256), []
    if at_hand("cifar10_10k", args.data):
        grey = load_grey(args.data, args.quick)
        of_grey = sklearn.decomposition.PCA(grey_k, svd_solver="covariance_eigh")
        of_grey.fit(grey[0])
        grey_shape = grey[0].shape
        grey_lines = [
            fitted(epsilon, mechanism, grey_k, grey, of_grey, GREY)[0]
            for epsilon in (3.0, 1.0)[: 1 if args.quick else 2]
            for mechanism in ("scatter", "preconditioned", "power")
        ]
    page = PAGE.format(
        version=up.__version__,
        rows=len(data[0]),
        columns=data[0].shape[1],
        silos=SILOS,
        k=k,
        delta=DELTA,
        norm=NORM,
        centre=CENTRE,
        quick=" A QUICK run on few rows." if args.quick else "",
        last=exact.explained_variance_[-1],
        table=table(HEAD, lines),
        first=first,
        grey=table(HEAD, grey_lines),
        grey_rows=grey_shape[0],
        grey_columns=grey_shape[1],
        grey_k=grey_k,
        grey_norm=GREY[0],
        grey_centre=GREY[1],
        wide=table(WIDE_HEAD, wide),
        wide_rows=size[0],
        wide_columns=size[1],
        wide_silos=size[2],
        wide_k=len(SHARES),
        shares=", ".join(f"{share:.0%}" for share in SHARES),
        pairs=f"{size[1] * (size[1] + 1) // 2:,}",
    )
    (RESULTS / "private_pca.md").write_text(page, "utf-8")


if __name__ == "__main__":
    main()

"""PCA with differential privacy: the mechanisms beside each other, at the same ε and δ.

    python experiments/private_pca.py --data FOLDER [--quick]

FOLDER holds mnist_full.npz. Writes private_pca.md into experiments/results. The noise
is drawn from the operating system, so that no two runs agree in the last digits.
"""

import argparse
import os
import time
from pathlib import Path

import numpy as np
import scipy.linalg
import sklearn.decomposition

import unpooled as up

RESULTS = Path(os.environ.get("UNPOOLED_RESULTS", Path(__file__).parent / "results"))
DELTA, SILOS, SEED = 1e-5, 10, 42
# Public constants: pixels are between 0 and 1.
NORM, CENTRE = 10.0, 0.0
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
PAGE = """# PCA with differential privacy: three mechanisms

unpooled {version}; MNIST, {rows} rows, {columns} pixels divided by 255, {silos} silos,
k = {k}, δ = {delta:g}, `row_norm` {norm:g} and `centre` {centre:g} about which rows are
clipped; neighbours differ in one row more or less. One run each; the noise has no
seed.{quick}

Angles are the principal angles to scikit-learn's pooled components, in degrees. The
noise edge is the largest variance that noise alone shows; variance {k} is {last:.3f}.

{table}
"scatter" is one round (Dwork et al., 2014). "preconditioned" spends the same ε and δ in
three: 4 % of ρ on the mean and a length, 20 % on a first covariance matrix, 76 % on the
products of rows that the first two have shortened. Its variances are too small, because
rows are clipped to their root mean square length where noise is large: the first is
{shrunk}.

"power" never forms p × p numbers: 6 % of ρ on the mean and a length, and the rest in
four rounds of products with blocks of k + 5 directions (Hardt and Price, 2014), with
scores clipped as well. It is for thousands of columns; of these few, products of all
columns take less noise.
"""


def load(path, quick):
    raw = np.load(path)
    X, y = raw["X_train"] / 255.0, raw["y_train"]
    if quick:
        # Every seventh pixel: a quick run tests the program, not the numbers.
        X, y = X[:3000, ::7], y[:3000]
    return np.ascontiguousarray(X), y


def fitted(epsilon, mechanism, k, data, exact):
    """Return the line of one fit, and its model."""
    silos = up.partition_rows(data[0], SILOS, y=data[1], random_state=SEED)
    federation = up.simulate(silos, policy=up.Policy.open())
    privacy = up.GaussianPrivacy(epsilon, DELTA, NORM, CENTRE, mechanism)
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


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--quick", action="store_true", help="few rows and columns")
    args = parser.parse_args()
    RESULTS.mkdir(exist_ok=True)
    data = load(args.data / "mnist_full.npz", args.quick)
    k = 5 if args.quick else 50
    exact = sklearn.decomposition.PCA(k, svd_solver="covariance_eigh").fit(data[0])
    lines, shrunk = [], ""
    for epsilon in (1.0,) if args.quick else (1.0, 0.3):
        for mechanism in ("scatter", "preconditioned", "power"):
            line, model = fitted(epsilon, mechanism, k, data, exact)
            lines.append(line)
            if epsilon == 1.0 and mechanism == "preconditioned":
                first = model.explained_variance_[0]
                shrunk = (
                    f"{first:.2f} at ε = 1, and {exact.explained_variance_[0]:.2f} "
                    f"without noise"
                )
    rows = ["| " + " | ".join(map(str, row)) + " |" for row in [HEAD, *lines]]
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
        table="\n".join([rows[0], "|" + "---|" * len(HEAD), *rows[1:], ""]),
        shrunk=shrunk,
    )
    (RESULTS / "private_pca.md").write_text(page, "utf-8")


if __name__ == "__main__":
    main()

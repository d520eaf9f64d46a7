"""Paper 002, SecureFedYJ: its claims on real data, on hard data, and what it costs.

    python experiments/securefedyj.py            # everything, writes results/
    python experiments/securefedyj.py --quick    # fewer features, prints only

Marchand et al., SecureFedYJ: a safe feature Gaussianization protocol for Federated
Learning, NeurIPS 2022. UNPOOLED_DATA names the folder with TCGA counts by site; without
it that part is left out.
"""

import argparse
import os
import platform
import sys
import time
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import matplotlib.pyplot as plt
import numpy as np
import scipy
import scipy.stats
import sklearn
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import StandardScaler

import unpooled as up
from hard_columns import REAL, made_up, real
from optima import is_optimal
from unpooled.linalg import yeo_johnson

HERE = Path(__file__).resolve().parent
PAPER_ROUNDS = 726


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    warnings.simplefilter("ignore")
    names = ("iris", "wine") if quick else REAL
    text = [head(), convergence(names, quick), hard(), splits(quick), silos(quick)]
    text += [downstream(), costs(quick)]
    report = "\n".join(text)
    print(report)
    if not quick:
        (HERE / "results").mkdir(exist_ok=True)
        (HERE / "results" / "securefedyj.md").write_text(report)


def head() -> str:
    return (
        "# SecureFedYJ\n\n"
        f"Python {platform.python_version()}, NumPy {np.__version__}, SciPy "
        f"{scipy.__version__}, scikit-learn {sklearn.__version__}, "
        f"{os.cpu_count()} processors shared with other work: seconds are upper "
        "bounds. "
        "One run of each.\n"
    )


def convergence(names: tuple[str, ...], quick: bool) -> str:
    """Figure 2: distance from the optimum after each iteration, and scipy's end."""
    columns = [x for name in names for x in real(name).T]
    ours, theirs, wrong = [], [], [0, 0]
    for x in columns:
        best, history = yeo_johnson.optimal(x)
        unit = max(1.0 / np.std(yeo_johnson.log_size(x)), abs(best))
        ours.append(np.abs(np.array(history) - best)[:30] / unit)
        try:
            brent = float(scipy.stats.yeojohnson(x)[1])
        except Exception:
            brent = np.nan
        theirs.append(abs(brent - best) / unit)
        wrong[0] += not is_optimal(x, best, 1e-7)
        wrong[1] += not (np.isfinite(brent) and is_optimal(x, brent, 1e-6))
    if not quick:
        draw(ours, theirs)
    return (
        f"## Figure 2: convergence\n\n{len(columns)} features that vary, of "
        f"{', '.join(names)}. Against the optimum in 60 digits, ExpYJ in safe numbers "
        f"is off by more than 1e-7 max(1/σ, |λ|) on {wrong[0]}, scipy's Brent search "
        f"by more than 1e-6 of it on {wrong[1]}. Bisection takes "
        f"{max(map(len, ours))} iterations at most for 2^-30 (the paper stops at 40).\n"
        + ("" if quick else "\n![Distance from the optimum](securefedyj.png)\n")
    )


def draw(ours: list, theirs: list) -> None:
    figure, axes = plt.subplots(figsize=(6, 3.6), layout="constrained")
    width = min(map(len, ours))
    table = np.maximum([row[:width] for row in ours], 1e-12)
    steps = np.arange(1, width + 1)
    axes.semilogy(steps, np.median(table, axis=0), label="ExpYJ, median feature")
    low, high = np.quantile(table, [0.0, 1.0], axis=0)
    axes.fill_between(steps, low, high, alpha=0.2, label="ExpYJ, all features")
    ends = np.maximum(np.nan_to_num(theirs, nan=1.0), 1e-12)
    axes.plot(
        np.full(len(ends), width + 1.5), ends, "x", ms=4, label="scipy at its end"
    )
    axes.set(xlabel="iterations", ylabel="|λ - λ*| / max(1/σ, |λ*|)")
    axes.legend(frameon=False)
    (HERE / "results").mkdir(exist_ok=True)
    figure.savefig(HERE / "results" / "securefedyj.png", dpi=130)


def hard() -> str:
    """Where variance vanishes: adversarial columns, ours beside scipy."""
    lines = ["## Hard columns\n"]
    lines += ["| column | λ, ours | within 1e-7 | λ, scipy | within 1e-6 |"]
    lines += ["|---|---|---|---|---|"]
    for name, x in made_up().items():
        lam, _ = yeo_johnson.optimal(x)
        try:
            brent = float(scipy.stats.yeojohnson(x[~np.isnan(x)])[1])
            said = "yes" if is_optimal(x, brent, 1e-6) else "no"
            shown = f"{brent:.6g}"
        except Exception as wrong:
            shown, said = type(wrong).__name__, "no"
        good = "yes" if is_optimal(x, lam, 1e-7) else "no"
        lines.append(f"| {name} | {lam:.9g} | {good} | {shown} | {said} |")
    lines += [
        "\nThe paper says that ExpYJ is numerically stable because it needs only the "
        "sign of the derivative. A sign is only as good as what it is the sign of: "
        "columns like these, where ψ overflows or its variance vanishes, need the "
        "public reference (Xu and Cormode, arXiv 2510.04995, discuss such "
        "columns; we did not "
        "repeat their experiments, nor run the paper's own code).\n"
    ]
    return "\n".join(lines)


def splits(quick: bool) -> str:
    """The same λ however rows are split, one row at a silo included."""
    X = real("wine")[:, : 3 if quick else 13]
    rng, found = np.random.default_rng(0), []
    for cuts in ([60, 120], [1, 2], [1, 176], [20, 40, 60, 80, 100]):
        pieces = np.split(X[rng.permutation(len(X))], cuts)
        silos = {f"silo{i}": piece for i, piece in enumerate(pieces)}
        model = up.PowerTransformer(comparison="summed")
        found.append(model.fit(up.simulate(silos, policy=up.Policy.open())).lambdas_)
    sigma = np.std(yeo_johnson.log_size(X), axis=0)
    off = np.ptp(found, axis=0) * sigma / np.maximum(1, np.abs(found[0]) * sigma)
    return (
        f"## Splits\n\nWine, {X.shape[1]} features, four splits of three to six silos, "
        f"two of them with one row at a silo: λ differ by at most {off.max():.1e} "
        f"max(1, |λσ|) (2^-26 is {2.0**-26:.1e}).\n"
    )


def silos(quick: bool) -> str:
    """Silos of different kinds: what each would fit alone, beside the pooled λ."""
    X = real("wine")[:, : 3 if quick else 13]
    parts = np.array_split(np.argsort(X[:, 0]), 3)
    alone = np.array([[yeo_johnson.optimal(x)[0] for x in X[rows].T] for rows in parts])
    federation = up.simulate({f"silo{i}": X[r] for i, r in enumerate(parts)})
    pooled = up.PowerTransformer(comparison="summed").fit(federation).lambdas_
    off = np.abs(alone - pooled)
    return (
        f"## Silos of different kinds\n\nWine sorted by its first column into three "
        f"silos. A silo's own λ differs from the pooled one by {np.median(off):.2f} in "
        f"the median and {off.max():.2f} at most; the federated λ differs by nothing.\n"
    )


def downstream() -> str:
    """Tumour or normal from counts at held-out sites, with and without λ."""
    folder = os.environ.get("UNPOOLED_DATA")
    path = Path(folder or ".") / "tcga_brca_rnaseqv2_counts.npz"
    if not path.is_file():
        return "## TCGA by site\n\nLeft out: UNPOOLED_DATA names no such file.\n"
    with np.load(path) as data:
        X, y, site = data["X"][:, :30].astype(float), data["y"], data["site"]
    large = [s for s in np.unique(site) if (site == s).sum() >= 40]
    train, test = large[::2], large[1::2]
    federation = up.simulate({str(s): X[site == s] for s in train})
    model = up.PowerTransformer(comparison="summed").fit(federation)
    inside, outside = np.isin(site, train), np.isin(site, test)
    scaler = StandardScaler().fit(X[inside])
    scores = []
    for apply in (scaler.transform, model.transform):
        fitted = LogisticRegression(max_iter=2000).fit(apply(X[inside]), y[inside])
        chance = fitted.predict_proba(apply(X[outside]))[:, 1]
        scores.append(roc_auc_score(y[outside], chance))
    return (
        f"## TCGA by site\n\nTumour or normal from the first 30 genes' counts; "
        f"{len(train)} sites as silos, {len(test)} others held out, one fit. Area "
        f"under the curve with standardised counts {scores[0]:.4f}, with "
        f"Gaussianised ones "
        f"{scores[1]:.4f}.\n"
    )


def costs(quick: bool) -> str:
    """Rounds, bytes and seconds of secure comparisons, beside the paper's rounds."""
    lines = ["## Cost\n", "Three silos in one process, breast_cancer.\n"]
    lines += ["| features | comparison | rounds | MB a party | seconds | paper |"]
    lines += ["|---|---|---|---|---|---|"]
    X = real("breast_cancer")
    for d, kind in [(1, "summed"), (30, "summed"), (1, "mpc"), (30, "mpc")]:
        if quick and kind == "mpc":
            continue
        federation = up.simulate(up.partition_rows(X[:, :d], 3))
        began = time.perf_counter()
        up.PowerTransformer(comparison=kind).fit(federation)
        took = time.perf_counter() - began
        rounds = [record for record in federation.rounds if record.round]
        size = sum(record.bytes_out for record in federation.rounds) / 1e6
        lines.append(
            f"| {d} | {kind} | {len(rounds)} | {size:.1f} | {took:.1f} | "
            f"{PAPER_ROUNDS} |"
        )
    lines += ["\nStarting MPyC's processes and their self-test are in the seconds.\n"]
    return "\n".join(lines)


if __name__ == "__main__":
    main()

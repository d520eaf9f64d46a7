"""Time and bytes of generalised eigenproblems, compared with the pooled computation.

    python benchmarks/gep.py            # everything, writes the table
    python benchmarks/gep.py --quick    # small sizes, prints only

Discriminants, CCA and PLS over masked silos in one process are compared with
scikit-learn and cca_zoo on the pooled rows, for growing numbers of columns p, rows N
and silos m; then CCA and PLS of two or more parties that have p columns each about N
people. Each figure is the median of alternating runs.
"""

import argparse
import importlib.metadata
import os
import platform
import statistics
import time
from functools import partial
from pathlib import Path

import numpy as np
import sklearn
import sklearn.cross_decomposition
import sklearn.discriminant_analysis
from cca_zoo.linear import GCCA, MCCA, RidgeCCA

import unpooled as up

HERE = Path(__file__).resolve().parent
# Columns grow, then rows, then silos.
GRID = [
    {"p": 20, "N": 5_000, "m": 4},
    {"p": 200, "N": 5_000, "m": 4},
    {"p": 1_000, "N": 5_000, "m": 4},
    {"p": 200, "N": 20_000, "m": 4},
    {"p": 200, "N": 50_000, "m": 4},
    {"p": 200, "N": 20_000, "m": 16},
]

# Parties with p columns each, of the same N people.
PEOPLE = [
    {"p": 20, "N": 1_000, "m": 2},
    {"p": 20, "N": 10_000, "m": 2},
    {"p": 20, "N": 100_000, "m": 2},
    {"p": 200, "N": 10_000, "m": 2},
    {"p": 20, "N": 1_000, "m": 5},
    {"p": 20, "N": 10_000, "m": 5},
]

QUICK = [{"p": 20, "N": 1_000, "m": 3}]
QUICK_PEOPLE = [{"p": 5, "N": 500, "m": 2}, {"p": 5, "N": 500, "m": 3}]


def rows(p, N):
    rng = np.random.default_rng(0)
    y = np.arange(N) % 4
    X = rng.standard_normal((N, p)) + rng.standard_normal((4, p))[y]
    half = p // 2
    X[:, half : half + 5] += X[:, :5]
    return X, y


def problems(X, y):
    """Return name -> (our model, what it is fitted to, the peer's fit)."""
    p = X.shape[1]
    half = p // 2
    second = [f"x{j}" for j in range(half, p)]
    views = X[:, :half], X[:, half:]
    lda = sklearn.discriminant_analysis.LinearDiscriminantAnalysis
    pls = sklearn.cross_decomposition.PLSRegression
    return {
        "discriminants, scikit-learn": (
            up.LinearDiscriminantAnalysis(),
            f"x{p}",
            lambda: lda(solver="eigen").fit(X, y),
        ),
        "CCA(3), cca_zoo": (
            up.CCA(3),
            second,
            lambda: RidgeCCA(3).fit(list(views)),
        ),
        "PLSRegression(3), scikit-learn": (
            up.PLSRegression(3),
            second,
            lambda: pls(3).fit(*views),
        ),
    }


def views(p, N, m):
    rng = np.random.default_rng(0)
    common = rng.standard_normal((N, 4)) * [4.0, 3.0, 2.0, 1.0]
    return {
        f"party{i}": common @ rng.standard_normal((4, p)) + rng.standard_normal((N, p))
        for i in range(m)
    }


def people_problems(own):
    """Return name -> (our model, the peer's fit), of parties' own columns."""
    if len(own) > 2:
        joint = up.CCA(3, criterion="sumcor", regularisation=0.1)
        return {
            "CCA(3), cca_zoo GCCA": (up.CCA(3), lambda: GCCA(3).fit(own)),
            "CCA(3) sumcor with a ridge, cca_zoo MCCA": (
                joint,
                lambda: MCCA(3, shrinkage=0.1).fit(own),
            ),
        }
    theirs = sklearn.cross_decomposition
    return {
        "CCA(3), cca_zoo": (up.CCA(3), lambda: RidgeCCA(3).fit(own)),
        "PLSCanonical(3), scikit-learn": (
            up.PLSCanonical(3),
            lambda: theirs.PLSCanonical(3, algorithm="svd").fit(*own),
        ),
        "PLSRegression(3), scikit-learn": (
            up.PLSRegression(3),
            lambda: theirs.PLSRegression(3).fit(*own),
        ),
    }


def measured_people(p, N, m, repeats):
    parts, policy, lines = views(p, N, m), up.Policy.open(), []
    for name, (model, peer) in people_problems(list(parts.values())).items():
        ours, theirs = [], []
        for _ in range(repeats):
            federation = up.simulate(parts, partition="columns", policy=policy)
            ours.append(seconds(partial(model.fit, federation)))
            theirs.append(seconds(peer))
        sizes = f"{p} | {N:,} | {m}"
        lines.append(line_of(name, sizes, federation.ledger, ours, theirs))
    return lines


def line_of(name, sizes, ledger, ours, theirs):
    sent = sum(line.bytes for line in ledger if line.direction == "out")
    rounds = max(line.round for line in ledger)
    a, b = statistics.median(ours), statistics.median(theirs)
    return (
        f"| {name} | {sizes} | {a:.3f} | {b:.3f} | {a / b:.1f} | {rounds} | {sent:,} |"
    )


def seconds(run):
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def measured(p, N, m, repeats):
    X, y = rows(p, N)
    order = np.array_split(np.arange(N), m)
    label = f"x{p}"
    policy = up.Policy.open()
    lines = []
    for name, (model, target, peer) in problems(X, y).items():
        data = np.column_stack([X, y]) if isinstance(target, str) else X
        silos = {f"silo{i}": data[own] for i, own in enumerate(order)}
        ours, theirs = [], []
        for _ in range(repeats):
            named = label if isinstance(target, str) else None
            federation = up.simulate(silos, label=named, policy=policy)
            ours.append(seconds(partial(model.fit, federation, target)))
            theirs.append(seconds(peer))
        sizes = f"{p} | {N:,} | {m}"
        lines.append(line_of(name, sizes, federation.ledger, ours, theirs))
    return lines


HEAD = (
    "| problem, peer | p | N | m | ours, s | pooled, s | ratio | rounds "
    "| bytes a silo sends |",
    "|---" * 9 + "|",
)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer and smaller")
    quick = parser.parse_args().quick
    grid, repeats = (QUICK, 1) if quick else (GRID, 5)
    people = QUICK_PEOPLE if quick else PEOPLE
    lines = [line for size in grid for line in measured(**size, repeats=repeats)]
    others = [x for size in people for x in measured_people(**size, repeats=repeats)]
    text = [
        "# Generalised eigenproblems",
        "",
        f"`benchmarks/gep.py`, median of {repeats} runs, masked sums, all silos in one "
        f"process on {os.cpu_count()} cores; Python {platform.python_version()}, NumPy "
        f"{np.__version__}, scikit-learn {sklearn.__version__}, cca_zoo "
        f"{importlib.metadata.version('cca-zoo')}. The peers have all data in one "
        f"place and protect nothing.",
        "",
        "Silos with rows of their own, of p columns together:",
        "",
        *HEAD,
        *lines,
        "",
        "Parties with p columns each of the same N people:",
        "",
        *HEAD,
        *others,
        "",
    ]
    page = "\n".join(text)
    print(page)
    if not quick:
        (HERE / "results" / "gep.md").write_text(page)


if __name__ == "__main__":
    main()

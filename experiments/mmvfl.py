"""Paper 004 (MMVFL): figures 3 and 4 and table 2, on the available data.

    python experiments/mmvfl.py            # both data sets, about an hour
    python experiments/mmvfl.py --starts 10 --only caltech7   # further starts alone
    python experiments/mmvfl.py --quick    # one fold, one beta, fewer percentages

Handwritten has the paper's five views. The Caltech7 features were extracted anew from
the same images, so trends can be compared with the paper's, and numbers cannot. Every
fit runs over a federation with masks, one silo per view and the labels at the first.

As in the paper: 5 folds; for each percentage, fold and view the beta with the best
validation accuracy; a view keeps its top columns, and predicts by argmax X_k W_k.
"""

import argparse
import json
import multiprocessing
import os
import platform
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from fetch import at_hand, held
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold

import unpooled as up
from unpooled.linalg.row_sparse import row_norms, row_sparse_weights

BETAS = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)
PERCENT = (2, 4, 6, 8, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100)
# Mean over percentages of MMVFL's accuracy less the baseline's, in points (table 2).
PAPER = {
    "handwritten": {
        "supFL": (1.46, -2.39, 0.76, 6.48, 0.77, 1.42),
        "supMVLFL": (1.99, -2.31, 1.03, 9.67, 1.16, 2.31),
    },
    "caltech7": {
        "supFL": (0.69, 2.16, 1.55, -1.22, -6.29, -4.12, -1.21),
        "supMVLFL": (0.41, 2.82, 2.61, -1.18, -5.71, -4.20, -0.88),
    },
}
FILES = {
    "handwritten": ("handwritten_mfeat", ("pix", "fou", "fac", "zer", "kar")),
    "caltech7": (
        "caltech7_reextracted",
        ("gabor", "wavelet_moments", "centrist", "hog", "gist", "lbp"),
    ),
}
# Rows of each class: all that Handwritten has (Table 1 has 160), and Table 1's 25.
PER_CLASS = {"handwritten": 200, "caltech7": 25}
METHODS = ("MMVFL", "MMVFL, 10 rounds", "supFL")
TEN_ROUNDS = {"tol": 0.0, "max_iter": 10}
# First pseudo-labels are random, and ten rounds do not forget them.
STARTS = 10
RESULTS = Path(os.environ.get("UNPOOLED_RESULTS", Path(__file__).parent / "results"))


def views_of(name: str, folder: Path) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return the views by name and the labels, as many rows of each class."""
    file, wanted = FILES[name]
    data = held(file, folder, ("y",))
    views = {
        key.split("_", 1)[1]: data[key].astype(float)
        for key in data
        if key.startswith("view") and data[key].ndim == 2
    }
    if absent := set(wanted) - set(views):
        sys.exit(f"{file}.npz has no view {', '.join(sorted(absent))}.")
    y = data["y"].astype(int)
    rng = np.random.default_rng(0)
    rows = np.concatenate(
        [
            rng.permutation(np.flatnonzero(y == k))[: PER_CLASS[name]]
            for k in np.unique(y)
        ]
    )
    return {view: views[view][rows] for view in wanted}, y[rows]


def federated_weights(
    views: dict[str, np.ndarray], y: np.ndarray, beta: float, **how: float
) -> tuple[dict[str, np.ndarray], dict[str, float]]:
    """Fit over silos; return the weights by view, and what it took."""
    import pandas as pd

    tables = {
        view: pd.DataFrame(X, columns=[f"{view}{j}" for j in range(X.shape[1])])
        for view, X in views.items()
    }
    tables[next(iter(tables))]["class"] = y
    federation = up.simulate(
        tables, partition="columns", label="class", policy=up.Policy.open()
    )
    with warnings.catch_warnings():
        # Stopping after ten rounds is what is studied here.
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = up.MMVFL(beta, **how).fit(federation, y="class")
    cost = {
        "iterations": model.n_iter_,
        "rounds": len({line.round for line in federation.ledger}),
        "bytes": federation.ledger.bytes_out(next(iter(tables))),
    }
    return model.coef_, cost


def accuracies(
    W: np.ndarray, X: np.ndarray, y: np.ndarray, percentages: tuple[int, ...]
) -> list[float]:
    """Return the accuracy of the top columns alone, at each percentage."""
    order = np.argsort(-row_norms(W), kind="stable")
    found = []
    for percent in percentages:
        top = order[: max(int(np.ceil(percent * len(order) / 100)), 1)]
        found.append(float((np.argmax(X[:, top] @ W[top], axis=1) == y).mean()))
    return found


def fold(job: tuple) -> dict:
    """Fit all methods and betas on one fold."""
    started = time.process_time()
    name, folder, train, test, betas, percentages = job
    views, y = views_of(name, folder)
    held = {view: X[train] for view, X in views.items()}
    Y = np.eye(y.max() + 1)[y[train]]
    scores: dict[str, list] = {method: [] for method in METHODS}
    costs: dict[str, list] = {method: [] for method in METHODS}
    for beta in betas:
        weights = {}
        for method, how in {
            "MMVFL": {"tol": 1e-3},
            "MMVFL, 10 rounds": TEN_ROUNDS,
        }.items():
            weights[method], cost = federated_weights(held, y[train], beta, **how)
            costs[method].append(cost)
        weights["supFL"] = {
            view: row_sparse_weights(X, Y, beta) for view, X in held.items()
        }
        for method in METHODS:
            scores[method].append(
                [
                    accuracies(weights[method][v], views[v][test], y[test], percentages)
                    for v in views
                ]
            )
    return {
        "scores": scores,
        "costs": costs,
        "processor": time.process_time() - started,
    }


def start(job: tuple) -> list:
    """Fit ten rounds from one start on one fold; return the best beta's accuracies."""
    name, folder, train, test, betas, percentages, seed = job
    views, y = views_of(name, folder)
    held = {view: X[train] for view, X in views.items()}
    scores = []
    for beta in betas:
        W, _ = federated_weights(held, y[train], beta, random_state=seed, **TEN_ROUNDS)
        scores.append(
            [accuracies(W[v], views[v][test], y[test], percentages) for v in views]
        )
    return np.max(scores, axis=0).tolist()


def starts(name: str, folder: Path, quick: bool, number: int) -> Iterator[list]:
    """Yield the mean accuracies by view and percentage of one start after another."""
    jobs = folds(name, folder, quick)
    each = [(*job, seed) for seed in range(number) for job in jobs]
    with mapping(quick) as mapped:
        done = iter(mapped(start, each))
        for _ in range(number):
            yield np.mean([next(done) for _ in jobs], axis=0).tolist()


@contextmanager
def mapping(quick: bool) -> Iterator[Callable]:
    """Yield what maps a function over jobs: one process for each core.

    A quick run has one job or two, and a process imports the library for longer than
    such a job takes: they run here.
    """
    if quick:
        yield map
        return
    # Fresh processes, which read how many threads the linear algebra may have.
    fresh = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(os.cpu_count(), fresh) as pool:
        yield pool.map


def folds(name: str, folder: Path, quick: bool) -> list[tuple]:
    """Return the jobs of a data set: a fold's rows, the betas and the percentages."""
    betas = BETAS[3:4] if quick else BETAS
    percentages = (*PERCENT[::4], 100) if quick else PERCENT
    _, y = views_of(name, folder)
    split = list(StratifiedKFold(5, shuffle=True, random_state=0).split(y, y))
    jobs = [(name, folder, *rows, betas, percentages) for rows in split]
    return jobs[:1] if quick else jobs


def run(name: str, folder: Path, quick: bool) -> dict:
    """Return mean accuracies by method, view and percentage, and what fits took."""
    views, _ = views_of(name, folder)
    jobs = folds(name, folder, quick)
    started = time.perf_counter()
    with mapping(quick) as mapped:
        done = list(mapped(fold, jobs))
    best = {
        # The best beta for each fold, view and percentage; then the mean over folds.
        method: np.mean([np.max(one["scores"][method], axis=0) for one in done], axis=0)
        for method in METHODS
    }
    costs = {
        method: {
            key: float(
                np.median([c[key] for one in done for c in one["costs"][method]])
            )
            for key in ("iterations", "rounds", "bytes")
        }
        for method in METHODS[:2]
    }
    return {
        "views": {view: X.shape[1] for view, X in views.items()},
        "rows": len(jobs[0][2]),
        "percent": jobs[0][-1],
        "accuracy": {m: a.tolist() for m, a in best.items()},
        "costs": costs,
        "seconds": time.perf_counter() - started,
        "processor": sum(one["processor"] for one in done),
    }


def figure(name: str, result: dict, path: Path) -> None:
    """Draw accuracy against percentage, a panel for each participant."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    views = list(result["views"])
    fig, axes = plt.subplots(
        1,
        len(views),
        figsize=(2.6 * len(views), 3.0),
        sharey=True,
        layout="constrained",
    )
    styles = {"MMVFL": "-o", "MMVFL, 10 rounds": "--s", "supFL": ":^"}
    for k, (view, axis) in enumerate(zip(views, axes, strict=True)):
        for method in METHODS:
            axis.plot(
                result["percent"],
                100 * np.array(result["accuracy"][method][k]),
                styles[method],
                markersize=3,
                linewidth=1.2,
                label=method,
            )
        axis.set_title(f"{view} ({result['views'][view]} columns)", fontsize=9)
        axis.set_xlabel("columns kept (%)", fontsize=8)
        axis.tick_params(labelsize=7)
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("accuracy on held-out rows (%)", fontsize=8)
    handles, labels = axes[0].get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside lower center", ncols=3, fontsize=8)
    fig.suptitle(
        f"{name}: every participant alone, by its own top columns", fontsize=10
    )
    fig.savefig(path, dpi=150)
    plt.close(fig)


def gains(result: dict) -> np.ndarray:
    """Return points over supFL after ten rounds, (starts, views and their mean)."""
    base = np.array(result["accuracy"]["supFL"])
    points = 100 * (np.array(result["starts"]) - base).mean(axis=2)
    return np.column_stack([points, points.mean(axis=1)])


def verdict(name: str, result: dict) -> str:
    """Return how often starts of ten rounds have the sign of the paper's figures."""
    runs, paper = gains(result), np.array(PAPER[name]["supFL"])
    same = np.sign(runs) == np.sign(paper)
    views = np.sign(runs.mean(axis=0)) == np.sign(paper)
    return (
        f"- {name}: after ten rounds the mean over views has the paper's sign in "
        f"{same[:, -1].sum()} of {len(runs)} starts ({runs[:, -1].mean():+.2f} on "
        f"average, {runs[:, -1].min():+.2f} to {runs[:, -1].max():+.2f}; the paper "
        f"{paper[-1]:+.2f}), and {views[:-1].sum()} of {len(views) - 1} views have it "
        f"on average over starts."
    )


def table(name: str, result: dict) -> list[str]:
    """Return the lines of table 2 for one data set, ours beside the paper's."""
    views = list(result["views"])
    head = f"| {name}: MMVFL less | " + " | ".join(views) + " | mean |"
    lines = [head, "|---" * (len(views) + 2) + "|"]

    def row(title: str, values: list[float]) -> None:
        lines.append(f"| {title} | " + " | ".join(f"{v:+.2f}" for v in values) + " |")

    base = np.array(result["accuracy"]["supFL"])
    points = 100 * (np.array(result["accuracy"][METHODS[0]]) - base).mean(axis=1)
    row("supFL, ours, converged", [*points, points.mean()])
    runs = gains(result)
    row(f"supFL, ours, 10 rounds, mean of {len(runs)} starts", list(runs.mean(axis=0)))
    for title, values in {
        "least": runs.min(axis=0),
        "greatest": runs.max(axis=0),
        "standard deviation": runs.std(axis=0, ddof=1),
    }.items():
        row(f"10 rounds, {title} over starts", list(values))
    for baseline, values in PAPER[name].items():
        row(f"{baseline}, paper", list(values))
    return lines


def report(results: dict[str, dict], quick: bool) -> str:
    """Return the whole page."""
    lines = [
        "# MMVFL: figures 3 and 4, table 2 of paper 004",
        "",
        "Mean difference in accuracy, in points, over all percentages of columns kept: "
        "each participant alone. A positive number means that MMVFL is better.",
        "",
    ]
    if quick:
        lines += ["**A quick run: one fold, one beta and few percentages.**", ""]
    for name, result in results.items():
        lines += [*table(name, result), "", f"![{name}](mmvfl_{name}.png)", ""]
        for method, cost in result["costs"].items():
            lines.append(
                f"- {method}: {cost['iterations']:.0f} iterations, "
                f"{cost['rounds']:.0f} rounds, {cost['bytes'] / 1e6:.1f} MB from each "
                f"silo (medians over folds and betas), {result['rows']} rows."
            )
        # Results of earlier runs have no processor time.
        busy = result.get("processor")
        more = f", with {busy:.0f} s of processor time" if busy else ""
        lines += [
            f"- Fits of {name} from the first start: {result['seconds']:.0f} s{more}.",
            "",
        ]
    lines += [
        "## Beside the paper",
        "",
        *(verdict(name, result) for name, result in results.items()),
        "",
        "*Converged* means that the objective (4) falls by at most 1e-3 of it in an "
        "iteration, `tol=1e-3`. Section 4.4 iterates until the objective converges or "
        "a largest number of iterations is reached, and gives neither a tolerance nor "
        "that number. *10 rounds* is our guess at where the paper stopped, chosen "
        "since it comes nearest to Table 2. "
        "Algorithm 1 starts from random pseudo-labels, which ten rounds do not forget: "
        "the rows over starts show how much of a figure is the start's. Other rows, "
        "and the pictures, are of one start.",
        "",
        "Section 6.3 speaks of five parts of which four train, Table 1 of 120 training "
        "and 40 validation rows a class of Handwritten, which is three to one. Ours "
        "has all 200 rows a class in five parts, 160 and 40. Caltech7 has the paper's "
        "20 and 5.",
        "",
        "The beta of each fold, view and percentage is the one that is best on the "
        "validation rows themselves, as section 6.3 has it, so that all accuracies are "
        "a little high, for all methods. Every class has as many "
        "rows (6.1).",
        "",
        "supMVLFL as printed in (16) is a sum over participants that share nothing, so "
        "its minimum is supFL's: there is no separate column for ours. Its figures in "
        "the paper differ from supFL's, so more than (16) was done there. Section 6.4 "
        "adds that supMVLFL beside supFL shows that learning from many views helps; "
        "by Table 2 supMVLFL is on average the worse of the two, by 0.89 points on "
        "Handwritten and 0.33 on Caltech7.",
        "",
        "Caltech7: same images, features extracted anew, so numbers differ from the "
        "paper's by the features as well. Table 1 prints 912 and 528 columns for the "
        "last two views; ours have 512 and 928, of the same sum, as in the set that "
        "others publish by these names.",
        "",
        f"Python {platform.python_version()}, numpy {np.__version__}, "
        f"{os.cpu_count()} cores; masked sums, one process for all silos.",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="by default that of UNPOOLED_DATA")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", choices=tuple(FILES))
    parser.add_argument("--starts", type=int, help="renew the starts alone, so many")
    asked = parser.parse_args()
    # One process per core: threads of the linear algebra would only get in the way.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    all_sets = (name for name in FILES if at_hand(FILES[name][0], asked.data))
    names = (asked.only,) if asked.only else tuple(all_sets)
    kept = RESULTS / "mmvfl.json"
    results = json.loads(kept.read_text()) if asked.starts is not None else {}
    for name in names:
        if asked.starts is None:
            results[name] = run(name, asked.data, asked.quick)
        number = asked.starts or (2 if asked.quick else STARTS)
        results[name]["starts"] = list(starts(name, asked.data, asked.quick, number))
        print("\n".join(table(name, results[name])), flush=True)
    page = report(results, asked.quick)
    print(page)
    if not asked.quick and set(results) == set(FILES):
        RESULTS.mkdir(exist_ok=True)
        for name, result in results.items():
            figure(name, result, RESULTS / f"mmvfl_{name}.png")
        (RESULTS / "mmvfl.md").write_text(page)
        kept.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()

"""Coverage of the 95 % intervals of a principal component analysis.

    python experiments/uncertainty.py [--quick] [--processes N]

``PCA(standard_errors=True)`` gives standard errors of loadings and variances. An
interval at 95 % is the estimate ± 1.96 of them, for loadings ``components_ci_factor_``
of them. Samples are drawn again and again, from populations whose components are known,
and from the rows of real data as if they were the population (the bootstrap: N rows
with replacement). The share of intervals that have the population's value is the
coverage. Results go to experiments/results, and the plot into the documentation too.
"""

import argparse
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
import numpy as np
import sklearn.datasets

import unpooled as up
from unpooled.data import heart_disease

mpl.use("Agg")
import matplotlib.pyplot as plt

HERE = Path(__file__).resolve().parent
RESULTS = Path(os.environ.get("UNPOOLED_RESULTS", HERE / "results"))
# The plot of the documentation; not of a run that is only compared.
DOCS = None if "UNPOOLED_RESULTS" in os.environ else HERE.parent / "docs" / "assets"
COMPONENTS, NORMAL, SEED = 3, 1.959964, 42
# Neighbours are apart where their variances differ by this share of the larger.
GAP = 0.2
CHUNK = 250
HEAD = ["rows", "N", "p", "columns", "component 1", "component 2", "component 3"]
HEAD += ["variance 1", "variance 2", "variance 3", "determined"]
PAGE = """# Coverage of 95 % intervals of principal components

unpooled {version}; {made:,} samples of each population, {drawn:,} bootstrap samples of
each table of data.{quick}

"Component" is the share of the intervals of its loadings that have the loading of the
population, averaged over the columns; "variance" that of the intervals of its variance.
A component of the population that is not apart from its neighbours by a gap of 0.2 of
its variance has none. "Determined" is the share of samples in which the fit found the
components of the population that are apart so too; the others give no standard errors
of loadings, and do not count. Columns are "as given", or "standardised" in each sample.

## Repeated samples from known populations

Ten columns, rotated, of independent factors with variances 8, 5.6, 3.9 and so on, each
0.7 of the one before. "t (10)" has finite eighth moments, "t (5)" has not.

{populations}
## Bootstrap samples of real data

The rows are taken for the population, and N of them are drawn with replacement.

{data}
Within 93 and 97 %: {within} of the {asked} coverages of loadings where the population
has finite eighth moments and N is 1,000 or more.

![Coverage of the intervals of loadings](uncertainty.png)
"""


@dataclass(frozen=True)
class Setting:
    """Where samples come from: a law of factors, or the rows of a table."""

    name: str
    n_rows: int
    standardised: bool
    seed: int

    @property
    def is_population(self) -> bool:
        """Whether its components are known by construction."""
        return self.name in LAWS


def normal(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """Return factors of a normal law."""
    return rng.standard_normal(shape)


def heavy(degrees: int) -> Callable[..., np.ndarray]:
    """Return a law of factors: Student's t, of unit variance."""

    def drawn(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
        return rng.standard_t(degrees, shape) * np.sqrt((degrees - 2) / degrees)

    return drawn


def skewed(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """Return factors of an exponential law about its mean."""
    return rng.exponential(size=shape) - 1.0


LAWS = {"normal": normal, "exponential": skewed, "t (10)": heavy(10), "t (5)": heavy(5)}


def mixing() -> np.ndarray:
    """Return the (p, p) matrix that makes columns of independent factors."""
    Q = np.linalg.qr(np.random.default_rng(SEED).standard_normal((10, 10)))[0]
    return np.sqrt(8.0 * 0.7 ** np.arange(10))[:, None] * Q.T


def heart() -> np.ndarray:
    """Return the rows of the four hospitals, missing cells filled with means."""
    frames = [table.to_pandas() for table in heart_disease.load().values()]
    X = np.concatenate([f.drop(columns="num").to_numpy(float) for f in frames])
    return np.where(np.isnan(X), np.nanmean(X, axis=0), X)


def table(name: str) -> np.ndarray:
    """Return the rows of real data."""
    if name == "heart disease":
        return heart()
    if name == "breast cancer":
        return sklearn.datasets.load_breast_cancer().data
    return sklearn.datasets.load_wine().data


TABLES = ("heart disease", "breast cancer", "wine")


def settings() -> tuple[list[Setting], list[Setting]]:
    """Return the populations, and the tables of data."""
    cases = [
        (law, N, standardised)
        for standardised in (False, True)
        for law in LAWS
        for N in (300, 1000, 3000)
    ]
    made = [Setting(*case, seed=i) for i, case in enumerate(cases)]
    drawn = [
        Setting(name, len(table(name)), True, seed=1000 + i)
        for i, name in enumerate(TABLES)
    ]
    return made, drawn


def sampler(setting: Setting) -> Callable[[np.random.Generator], np.ndarray]:
    """Return what draws the rows of a sample."""
    if setting.is_population:
        law, M = LAWS[setting.name], mixing()
        return lambda rng: law(rng, (setting.n_rows, len(M))) @ M
    X = table(setting.name)
    return lambda rng: X[rng.integers(0, len(X), len(X))]


def truth(setting: Setting) -> tuple[np.ndarray, np.ndarray]:
    """Return all variances and components, as rows, of the population."""
    if setting.is_population:
        S = mixing().T @ mixing()
    else:
        S = np.cov(table(setting.name), rowvar=False)
    if setting.standardised:
        size = np.sqrt(S.diagonal())
        S = S / np.outer(size, size)
    values, axes = np.linalg.eigh(S)
    return values[::-1], axes.T[::-1]


def are_apart(values: np.ndarray) -> np.ndarray:
    """Return which components are apart from both neighbours, (k,)."""
    apart = values[:-1] - values[1:] >= GAP * values[:-1]
    return np.array([apart[j] and (j == 0 or apart[j - 1]) for j in range(COMPONENTS)])


def hits(setting: Setting, start: int, n: int) -> np.ndarray:
    """Return (3, k) sums over n samples.

    By component: samples that determine it, shares of its loadings whose interval has
    the population's, and intervals of its variance that have it.
    """
    draw, (values, axes) = sampler(setting), truth(setting)
    found = np.zeros((3, COMPONENTS))
    for sample in range(start, start + n):
        X = draw(np.random.default_rng([SEED, setting.seed, sample]))
        unit = 1.0
        if setting.standardised:
            X = (X - X.mean(axis=0)) / X.std(axis=0)
            unit = (len(X) - 1) / len(X)
        # How rows are split changes nothing: one silo is the quickest.
        one = up.simulate({"all": X}, policy=up.Policy.open(), secure_sum="plain")
        pca = up.PCA(COMPONENTS, standard_errors=True).fit(one)
        signs = np.sign((pca.components_ * axes[:COMPONENTS]).sum(axis=1))
        off = np.abs(pca.components_ * signs[:, None] - axes[:COMPONENTS])
        known = ~np.isnan(pca.components_se_).any(axis=1)
        half = pca.components_ci_factor_[:, None] * pca.components_se_
        within = (off <= np.nan_to_num(half)).mean(axis=1)
        found[0] += known
        found[1] += np.where(known, within, 0.0)
        wrong = np.abs(pca.explained_variance_ * unit - values[:COMPONENTS])
        found[2] += wrong <= NORMAL * pca.explained_variance_se_ * unit
    return found


def tasks(chosen: list[Setting], n: int) -> Iterator[tuple[Setting, int, int]]:
    """Yield the parts of all settings' samples."""
    for setting in chosen:
        for start in range(0, n, CHUNK):
            yield setting, start, min(CHUNK, n - start)


def coverages(
    pool: ProcessPoolExecutor, chosen: list[Setting], n: int
) -> dict[Setting, np.ndarray]:
    """Return (3, k) for each setting: shares determined, coverage of both kinds."""
    sums = {setting: np.zeros((3, COMPONENTS)) for setting in chosen}
    parts = list(tasks(chosen, n))
    for part, found in zip(
        parts, pool.map(hits, *zip(*parts, strict=True)), strict=True
    ):
        sums[part[0]] += found
        print(part[0].name, part[0].n_rows, part[1] + part[2], flush=True)
    made = {}
    for setting, (known, loadings, variances) in sums.items():
        shares = np.divide(loadings, known, out=np.full(COMPONENTS, np.nan),
                           where=known > 0)  # fmt: skip
        shares[~are_apart(truth(setting)[0])] = np.nan
        made[setting] = np.array([known / n, shares, variances / n])
    return made


def line(setting: Setting, found: np.ndarray) -> list[str]:
    """Return the line of a setting."""
    known, loadings, variances = found
    apart = are_apart(truth(setting)[0])
    cells = [f"{c:.3f}" if a else "" for c, a in zip(loadings, apart, strict=True)]
    return [
        setting.name,
        f"{setting.n_rows:,}",
        str(truth(setting)[1].shape[1]),
        "standardised" if setting.standardised else "as given",
        *cells,
        *(f"{c:.3f}" for c in variances),
        f"{known[apart].mean():.3f}" if apart.any() else "",
    ]


def written(lines: list[list[str]]) -> str:
    """Return a Markdown table."""
    rows = ["| " + " | ".join(row) + " |" for row in [HEAD, *lines]]
    return "\n".join([rows[0], "|" + "---|" * len(HEAD), *rows[1:], ""])


def plot(found: dict[Setting, np.ndarray]) -> None:
    """Draw the coverage of loadings, a line for each setting."""
    names = [
        f"{s.name}, N = {s.n_rows:,}{', standardised' if s.standardised else ''}"
        for s in found
    ]
    figure, axes = plt.subplots(figsize=(7.0, 0.24 * len(names) + 1.2), dpi=110)
    axes.axvspan(0.93, 0.97, color="0.9", label="93 to 97 %")
    axes.axvline(0.95, color="0.6", lw=1)
    for j, mark in zip(range(COMPONENTS), "os^", strict=True):
        at = [own[1][j] for own in found.values()]
        axes.plot(at, range(len(names)), mark, ms=5, label=f"component {j + 1}")
    axes.set(
        yticks=range(len(names)),
        yticklabels=names,
        xlabel="coverage of 95 % intervals of loadings",
        xlim=(min(0.8, np.nanmin([own[1] for own in found.values()]) - 0.01), 1.0),
    )
    axes.invert_yaxis()
    axes.legend(loc="lower left", fontsize=8)
    figure.tight_layout()
    for folder in filter(None, (RESULTS, DOCS)):
        # Without the version of matplotlib, which would change the file.
        name = "uncertainty.png" if folder == RESULTS else "coverage.png"
        figure.savefig(folder / name, metadata={"Software": None})


def main() -> None:
    """Draw all samples, and write the page and the plot."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--quick", action="store_true", help="few samples")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    args = parser.parse_args()
    RESULTS.mkdir(exist_ok=True)
    made, drawn = settings()
    n_made, n_drawn = (10, 10) if args.quick else (1000, 10000)
    with ProcessPoolExecutor(args.processes) as pool:
        populations = coverages(pool, made, n_made)
        data = coverages(pool, drawn, n_drawn)
    asked = np.concatenate([
        own[1] for setting, own in populations.items()
        if setting.n_rows >= 1000 and setting.name != "t (5)"
    ])  # fmt: skip
    asked = asked[~np.isnan(asked)]
    page = PAGE.format(
        version=up.__version__,
        made=n_made,
        drawn=n_drawn,
        quick=" A QUICK run with few samples." if args.quick else "",
        populations=written([line(*pair) for pair in populations.items()]),
        data=written([line(*pair) for pair in data.items()]),
        within=int(((asked >= 0.93) & (asked <= 0.97)).sum()),
        asked=len(asked),
    )
    (RESULTS / "uncertainty.md").write_text(page, "utf-8")
    if not args.quick:
        plot(populations | data)


if __name__ == "__main__":
    main()

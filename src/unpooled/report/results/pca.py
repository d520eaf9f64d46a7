"""What principal components say: variances, loadings, and what is noise in them."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.report.exhibit import Exhibit
from unpooled.report.exhibits import (
    Table,
    left_out,
    number,
    per_cent,
    probability,
    signed,
)
from unpooled.report.plots import svg as figures
from unpooled.report.text.phrases import counted

MANY_COLUMNS = 30  # beyond this, only the largest loadings of a component are shown
TOP = 15
MANY_COMPONENTS = 6  # panels and columns of loadings
MANY_SHARES = 30  # bars and rows of explained variance


def variance(model: Any, name: str) -> Exhibit:
    """Return how much of the variance each component explains, with a picture."""
    if "explained_variance_ratio_" not in vars(model):
        return _merged(model)
    shares = np.asarray(model.explained_variance_ratio_)
    k = min(len(shares), MANY_SHARES)
    together = np.cumsum(shares)
    rows = [
        (f"{i + 1}", number(v), per_cent(s), per_cent(t))
        for i, (v, s, t) in enumerate(
            zip(model.explained_variance_[:k], shares[:k], together[:k], strict=True)
        )
    ]
    table = Table(
        "",
        ("Component", "Variance", "Share", "Together"),
        rows,
        left_out(k, len(shares), "components", "first"),
    )
    text = (
        f"{counted(len(shares), 'component')} together "
        f"{'explains' if len(shares) == 1 else 'explain'} {per_cent(together[-1])} of "
        f"the variance of all columns. Variances are divided by one less than "
        f"the number of rows."
    )
    if hasattr(model, "residuals_"):
        text += (
            f" They were found in {counted(model.n_iter_, 'round')} of products; the "
            f"largest residual is {_of_gap(model)} of the gap to the next variance, "
            f"which bounds the error of their directions."
        )
    picture = figures.scree(
        shares[:k],
        name,
        f"Bars: share of variance of components 1 to {k}, from {per_cent(shares[0])} "
        f"down to {per_cent(shares[k - 1])}. Line: share of all components up to each, "
        f"ending at {per_cent(together[k - 1])}. The numbers are in the table below.",
    )
    return Exhibit("Explained variance", text, [table], picture)


def _merged(model: Any) -> Exhibit:
    """Return the variances along directions that were merged, not fitted together."""
    table = _by_component(model.explained_variance_, "Variance")
    text = (
        f"Variance of all columns along directions merged from the silos’ own in "
        f"{counted(len(model.history_), 'round')}, divided by one less than the number "
        f"of people. This is the published approximation: PCA on the same silos gives "
        f"the principal components of all columns together. The variance of all "
        f"columns was not released, so the directions’ shares of it are not known."
    )
    return Exhibit("Variance along merged directions", text, [table])


def signal(model: Any) -> Exhibit:
    """Return how far the variances of a private fit stand out of its noise."""
    table = _by_component(model.signal_to_noise_, "Signal to noise")
    text = (
        "Variances hold noise, added for privacy. This is each one divided by the "
        "largest variance that noise alone shows: near 1 a component is chance."
    )
    return Exhibit("Signal and noise", text, [table])


def _by_component(values: Float[Array, " k"], heading: str) -> Table:
    """Return one number for each component, the first of many."""
    k = min(len(values), MANY_SHARES)
    rows = [(f"{i + 1}", number(value)) for i, value in enumerate(values[:k])]
    note = left_out(k, len(values), "components", "first")
    return Table("", ("Component", heading), rows, note)


def _of_gap(model: Any) -> str:
    if model.gap_ <= 0:
        return "more than all"
    return probability(float(np.max(model.residuals_)) / model.gap_)


def loadings(
    components: Float[Array, "k p"], columns: Sequence[str], name: str
) -> list[Exhibit]:
    """Return how much each column weighs, with a picture; of many, the largest."""
    k, p = components.shape
    shown = min(k, MANY_COMPONENTS)
    text = (
        "How much each column weighs in each component: bars to the right are "
        "positive, to the left negative. Within a component the squares add up to 1."
    )
    if p > MANY_COLUMNS:
        return _largest(components[:shown], k, columns, name, text)
    titles = [_component(i, shown) for i in range(shown)]
    picture = figures.loadings(
        components[:shown], columns, titles, name, _described(components[0], columns)
    )
    table = Table(
        "",
        ("Column", *[f"{i + 1}" for i in range(shown)]),
        [
            (column, *map(signed, components[:shown, j]))
            for j, column in enumerate(columns)
        ],
        left_out(shown, k, "components", "first"),
    )
    return [Exhibit("Loadings", text, [table], picture)]


def _largest(
    components: Float[Array, "l p"],
    k: int,
    columns: Sequence[str],
    name: str,
    text: str,
) -> list[Exhibit]:
    """Return an exhibit for each component with its largest loadings only."""
    p = components.shape[1]
    text += (
        f" Of the {p:,} columns, the {TOP} with the largest loadings are shown for "
        f"each component. {left_out(len(components), k, 'components', 'first')}"
    )
    found = []
    for i, values in enumerate(components):
        order = np.argsort(-np.abs(values), kind="stable")[:TOP]
        some: list[str] = [columns[int(j)] for j in order]
        picture = figures.loadings(
            values[None, order], some, [""], f"{name}-{i}", _described(values, columns)
        )
        share = float(np.sum(values[order] ** 2))
        table = Table(
            "",
            ("Column", "Loading"),
            [(columns[int(j)], signed(float(values[j]))) for j in order],
            f"Their squares add up to {share:.3f}.",
        )
        heading = f"Loadings of component {i + 1}"
        found.append(Exhibit(heading, "" if i else text.strip(), [table], picture))
    return found


def _described(values: Float[Array, " p"], columns: Sequence[str]) -> str:
    order = np.argsort(-np.abs(values), kind="stable")[:3]
    largest = ", ".join(f"{columns[int(j)]} {signed(float(values[j]))}" for j in order)
    return (
        f"Bars of loadings by column. The largest of the first component drawn are "
        f"{largest}. The numbers are in the table below."
    )


def _component(i: int, shown: int) -> str:
    return f"component {i + 1}" if shown < 4 else f"{i + 1}"

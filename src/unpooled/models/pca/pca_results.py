"""Results of principal component analysis: variances, loadings, and signal to noise."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.results.exhibits import MOST_ROWS, Column, Exhibit, Picture, Table
from unpooled.results.fitted_attributes import by_column, by_component
from unpooled.results.formats import counted, left_out, number, per_cent, signed
from unpooled.results.plots import charts

if TYPE_CHECKING:
    from unpooled.models.pca.pca import PCA

MANY_COLUMNS = 30  # beyond this, only the largest loadings of a component are shown
TOP = 15
MANY_COMPONENTS = 6  # panels and columns of loadings


def pca_exhibits(model: "PCA", columns: Sequence[str]) -> list[Exhibit]:
    """Return the exhibits of a fitted PCA."""
    # Not `hasattr`, here and below: silos would be asked for what they keep.
    if "explained_variance_ratio_" not in vars(model):
        return []
    exhibits = [_variance(model)]
    if "signal_to_noise_" in vars(model):
        exhibits.append(_signal(model))
    if "components_" in vars(model):
        exhibits += loadings(model.components_, columns)
    if "mean_" in vars(model) and not _standardised(model):
        table = by_column("means", columns, {"Mean": model.mean_})
        exhibits.append(Exhibit("Columns, over all silos", "", [table]))
    return exhibits


def _standardised(model: "PCA") -> bool:
    """Whether columns were standardised before: their means are rounding errors."""
    deviation = np.sqrt(np.max(model.explained_variance_))
    return bool(np.abs(model.mean_).max() <= 1e-9 * deviation)


def _variance(model: "PCA") -> Exhibit:
    shares = np.asarray(model.explained_variance_ratio_)
    k = min(len(shares), MOST_ROWS)
    cumulative = np.cumsum(shares)
    names = [f"{i + 1}" for i in range(len(shares))]
    table = Table(
        "explained_variance",
        (
            Column("Component"),
            Column("Variance", "number"),
            Column("Share", "share", bar=True),
            Column("Cumulative share", "share"),
        ),
        list(zip(names, model.explained_variance_, shares, cumulative, strict=True)),
        items="components",
    )
    text = (
        f"{counted(len(shares), 'component')} "
        f"{'explains' if len(shares) == 1 else 'explain'} {per_cent(cumulative[-1])} "
        f"of the total variance (the sum of the variances of all columns). Variances "
        f"have the denominator N − 1, one less than the number of rows."
    )
    if "residuals_" in vars(model):
        text += (
            f" The components were computed in {counted(model.n_iter_, 'round')} of "
            f"products (block Krylov); the largest residual is {_share_of_gap(model)} "
            f"of the gap to the next variance, which bounds the error of their "
            f"directions."
        )
    picture = Picture(
        "scree",
        "Share of variance by component",
        f"Bars: share of variance of components 1 to {k}, from {per_cent(shares[0])} "
        f"down to {per_cent(shares[k - 1])}. Line: cumulative share, ending at "
        f"{per_cent(cumulative[k - 1])}. The numbers are in the table below.",
        partial(charts.scree, shares[:k]),
        (table.name,),
    )
    return Exhibit("Explained variance", text, [table], picture)


def _share_of_gap(model: "PCA") -> str:
    if model.gap_ <= 0:
        return "more than all"
    return number(float(np.max(model.residuals_)) / model.gap_)


def _signal(model: "PCA") -> Exhibit:
    text = (
        "The variances contain noise, which was added for differential privacy. The "
        "signal-to-noise ratio is a component’s variance divided by the largest "
        "variance that noise alone gives: a component with a ratio near 1 may be noise."
    )
    table = by_component(
        "signal_to_noise", "Signal-to-noise ratio", model.signal_to_noise_
    )
    return Exhibit("Signal and noise", text, [table])


def loadings(components: Float[Array, "k p"], columns: Sequence[str]) -> list[Exhibit]:
    """Return the loadings of components, with a picture; of many, the largest."""
    k, p = components.shape
    shown = min(k, MANY_COMPONENTS)
    text = (
        "Loadings are the weights of the columns in each component: bars to the right "
        "are positive, to the left negative. Within a component the squares add up to "
        "1."
    )
    table = Table(
        "loadings",
        (
            Column("Column"),
            *(Column(f"{i + 1}", "signed", f"component_{i + 1}") for i in range(k)),
        ),
        [(name, *components[:, j]) for j, name in enumerate(columns)],
        items="columns",
    )
    if p > MANY_COLUMNS:
        return _largest(components[:shown], columns, text, table)
    titles = [f"component {i + 1}" if shown < 4 else f"{i + 1}" for i in range(shown)]
    tables = [table]
    if shown < k:
        note = left_out(shown, k, "components", "first")
        tables = table.excerpt(columns=range(1 + shown), note=note)
    picture = _picture("loadings", components[:shown], columns, titles)
    return [Exhibit("Loadings", text, tables, picture)]


def _largest(
    components: Float[Array, "l p"], columns: Sequence[str], text: str, table: Table
) -> list[Exhibit]:
    """Return one exhibit for each component, with its largest loadings only."""
    p, k = len(columns), len(table.columns) - 1
    text += (
        f" Of the {p:,} columns, the {TOP} with the largest loadings are shown for "
        f"each component. {left_out(len(components), k, 'components', 'first')}"
    )
    exhibits = []
    for i, values in enumerate(components):
        order: list[int] = np.argsort(-np.abs(values), kind="stable")[:TOP].tolist()
        names = [columns[j] for j in order]
        note = f"Their squares add up to {np.sum(values[order] ** 2):.3f}."
        whole, part = table.excerpt(rows=order, columns=(0, i + 1), note=note)
        name = f"loadings_{i + 1}"
        picture = _picture(name, values[None, order], names, [""])
        # The whole table is in one file: it stands with the first component.
        tables = [part] if i else [whole, part]
        heading = f"Loadings of component {i + 1}"
        exhibits.append(Exhibit(heading, "" if i else text.strip(), tables, picture))
    return exhibits


def _picture(
    name: str,
    components: Float[Array, "k p"],
    columns: Sequence[str],
    titles: Sequence[str],
) -> Picture:
    first = components[0]
    order = np.argsort(-np.abs(first), kind="stable")[:3]
    largest = ", ".join(f"{columns[int(j)]} {signed(float(first[j]))}" for j in order)
    return Picture(
        name,
        "Loadings by component",
        f"Bars of loadings by column. The largest of the first component drawn are "
        f"{largest}. The numbers are in the table below.",
        partial(charts.loadings, components, columns, titles),
        ("loadings",),
    )

"""Results of principal component analysis: variances, loadings, and signal to noise."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.models.pca.pca import PCA
from unpooled.report.exhibits import Exhibit, Picture, Table
from unpooled.report.plots import charts
from unpooled.report.results.describe import (
    MOST_ROWS,
    by_component,
    describe,
    fitted_attributes,
)
from unpooled.report.results.preprocessing import by_column
from unpooled.report.text.phrases import (
    counted,
    left_out,
    number,
    per_cent,
    probability,
    signed,
)

MANY_COLUMNS = 30  # beyond this, only the largest loadings of a component are shown
TOP = 15
MANY_COMPONENTS = 6  # panels and columns of loadings


@describe.register
def _pca(model: PCA, columns: Sequence[str]) -> list[Exhibit]:
    # Not `hasattr`, here and below: silos would be asked for what they keep.
    if "explained_variance_ratio_" not in vars(model):
        return fitted_attributes(model, columns)
    exhibits = [_variance(model)]
    if "signal_to_noise_" in vars(model):
        exhibits.append(_signal(model))
    if "components_" in vars(model):
        exhibits += loadings(model.components_, columns)
    if "mean_" in vars(model) and not _standardised(model):
        table = by_column(columns, {"Mean": model.mean_})
        exhibits.append(Exhibit("Columns, over all silos", "", [table]))
    return exhibits


def _standardised(model: PCA) -> bool:
    """Whether columns were standardised before: their means are rounding errors."""
    deviation = np.sqrt(np.max(model.explained_variance_))
    return bool(np.abs(model.mean_).max() <= 1e-9 * deviation)


def _variance(model: PCA) -> Exhibit:
    shares = np.asarray(model.explained_variance_ratio_)
    k = min(len(shares), MOST_ROWS)
    cumulative = np.cumsum(shares)
    rows = [
        (f"{i + 1}", number(v), per_cent(s), per_cent(t))
        for i, (v, s, t) in enumerate(
            zip(model.explained_variance_[:k], shares[:k], cumulative[:k], strict=True)
        )
    ]
    table = Table(
        "",
        ("Component", "Variance", "Share", "Cumulative share"),
        rows,
        left_out(k, len(shares), "components", "first"),
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
        "Share of variance by component",
        f"Bars: share of variance of components 1 to {k}, from {per_cent(shares[0])} "
        f"down to {per_cent(shares[k - 1])}. Line: cumulative share, ending at "
        f"{per_cent(cumulative[k - 1])}. The numbers are in the table below.",
        partial(charts.scree, shares[:k]),
    )
    return Exhibit("Explained variance", text, [table], picture)


def _share_of_gap(model: Any) -> str:
    if model.gap_ <= 0:
        return "more than all"
    return probability(float(np.max(model.residuals_)) / model.gap_)


def _signal(model: PCA) -> Exhibit:
    text = (
        "The variances contain noise, which was added for differential privacy. The "
        "signal-to-noise ratio is a component’s variance divided by the largest "
        "variance that noise alone gives: a component with a ratio near 1 may be noise."
    )
    table = by_component("Signal-to-noise ratio", model.signal_to_noise_)
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
    if p > MANY_COLUMNS:
        return _largest(components[:shown], k, columns, text)
    titles = [f"component {i + 1}" if shown < 4 else f"{i + 1}" for i in range(shown)]
    table = Table(
        "",
        ("Column", *[f"{i + 1}" for i in range(shown)]),
        [
            (column, *map(signed, components[:shown, j]))
            for j, column in enumerate(columns)
        ],
        left_out(shown, k, "components", "first"),
    )
    picture = _picture(components[:shown], columns, titles)
    return [Exhibit("Loadings", text, [table], picture)]


def _largest(
    components: Float[Array, "l p"], k: int, columns: Sequence[str], text: str
) -> list[Exhibit]:
    """Return one exhibit for each component, with its largest loadings only."""
    p = components.shape[1]
    text += (
        f" Of the {p:,} columns, the {TOP} with the largest loadings are shown for "
        f"each component. {left_out(len(components), k, 'components', 'first')}"
    )
    exhibits = []
    for i, values in enumerate(components):
        order = np.argsort(-np.abs(values), kind="stable")[:TOP]
        names = [columns[int(j)] for j in order]
        share = float(np.sum(values[order] ** 2))
        table = Table(
            "",
            ("Column", "Loading"),
            [(columns[int(j)], signed(float(values[j]))) for j in order],
            f"Their squares add up to {share:.3f}.",
        )
        picture = _picture(values[None, order], names, [""])
        heading = f"Loadings of component {i + 1}"
        exhibits.append(Exhibit(heading, "" if i else text.strip(), [table], picture))
    return exhibits


def _picture(
    components: Float[Array, "k p"], columns: Sequence[str], titles: Sequence[str]
) -> Picture:
    first = components[0]
    order = np.argsort(-np.abs(first), kind="stable")[:3]
    largest = ", ".join(f"{columns[int(j)]} {signed(float(first[j]))}" for j in order)
    return Picture(
        "Loadings by component",
        f"Bars of loadings by column. The largest of the first component drawn are "
        f"{largest}. The numbers are in the table below.",
        partial(charts.loadings, components, columns, titles),
    )

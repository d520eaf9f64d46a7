"""Results of factor analysis: loadings, unique variances, correlations of factors."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from unpooled.results.exhibits import Column, Exhibit, Picture, ResultTable
from unpooled.results.fitted_attributes import columns_by, numbered, ordinals
from unpooled.results.formats import counted, number, per_cent, probability
from unpooled.results.plots.heatmap import heatmap

if TYPE_CHECKING:
    from unpooled.models.factor_analysis.factor_analysis import FactorAnalysis

_MOST_DRAWN = 40


def factor_exhibits(model: "FactorAnalysis", columns: Sequence[str]) -> list[Exhibit]:
    """Return the exhibits of a fitted factor analysis."""
    exhibits = [_loadings(model, columns), _factors(model)]
    if len(model.components_) > 1 and model.rotation == "promax":
        exhibits.append(_correlations(model))
    return exhibits


def _loadings(model: "FactorAnalysis", columns: Sequence[str]) -> Exhibit:
    k = len(model.components_)
    own = np.sqrt(model.noise_variance_ / model.uniqueness_)
    L = (model.components_ / own).T
    cells = numbered(L, "signed", "factor")
    cells[Column("Uniqueness", "share")] = model.uniqueness_
    tables = columns_by("loadings", columns, cells)
    turned = f", after a {model.rotation} rotation" if model.rotation else ""
    text = (
        f"Loadings of the columns in {counted(k, 'factor')}, in units of the columns’ "
        f"standard deviations{turned}. The uniqueness is the share of a column’s "
        f"variance that the factors do not explain."
    )
    if model.heywood_:
        text += (
            f" Heywood cases: {', '.join(model.heywood_)}. Their uniqueness is at the "
            f"smallest value allowed ({model.min_uniqueness:g}), which means that the "
            f"number of factors does not suit them; look at fewer factors."
        )
    if len(columns) > _MOST_DRAWN:
        return Exhibit("Loadings", text, tables)
    text += " In the picture blue is positive and orange negative."
    j, i = np.unravel_index(np.abs(L).argmax(), L.shape)
    picture = Picture(
        "loadings",
        "Loadings by factor",
        f"Coloured cells of loadings, blue above zero and orange below. The largest is "
        f"{number(float(L[j, i]))}, of {columns[int(j)]} in factor {int(i) + 1}. The "
        f"numbers are in the table below.",
        partial(heatmap, L, list(columns), [f"factor {i + 1}" for i in range(k)]),
        ("loadings",),
    )
    return Exhibit("Loadings", text, tables, picture)


def _factors(model: "FactorAnalysis") -> Exhibit:
    shares = model.explained_variance_ratio_
    test = model.chi_square_
    text = (
        f"The test of the hypothesis that {counted(len(shares), 'factor')} "
        f"{'suffices' if len(shares) == 1 else 'suffice'}, over {model.n_samples_:,} "
        f"rows: χ² = {number(test['statistic'])} with {test['dof']} degrees of freedom"
    )
    if test["p_value"] is None:
        text += ", so that it cannot be tested."
    else:
        shown = probability(test["p_value"])
        text += f", p {shown if shown.startswith('<') else f'= {shown}'}."
        if test["p_value"] < 0.05:
            text += (
                " By this test more factors are needed; with many rows it says so of "
                "small departures too."
            )
    if model.rotation == "promax":
        text += " Shares of correlated factors overlap."
    else:
        one = len(shares) == 1
        text += (
            f" {'It explains' if one else 'Together they explain'} "
            f"{per_cent(shares.sum())} of the variance of the columns, each "
            f"standardised."
        )
    table = ResultTable.of(
        "factors",
        {
            Column("Factor"): ordinals(len(shares)),
            Column("Share of variance", "share", bar=True): shares,
            Column("Cumulative share", "share"): np.cumsum(shares),
        },
        items="factors",
    )
    tables = [table]
    if model.rotation == "promax":
        tables = table.excerpt(columns=range(2))
    return Exhibit("Factors", text, tables)


def _correlations(model: "FactorAnalysis") -> Exhibit:
    R = model.factor_correlation_
    names = {Column("Factor"): ordinals(len(R))}
    table = ResultTable.of(
        "factor_correlations", names | numbered(R, "signed", "factor")
    )
    return Exhibit("Correlations of the factors", "", [table])

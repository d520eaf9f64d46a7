"""Results of a meta-analysis: combined coefficients, each silo's own, forest plots."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from unpooled.arrays import Array, Bool, Float
from unpooled.results.exhibits import Column, Exhibit, Picture, Table
from unpooled.results.formats import listed, number
from unpooled.results.plots.forest import MOST_TERMS, forests

if TYPE_CHECKING:
    from unpooled.models.regression.meta_analysis import MetaAnalysis

# Normal quantile of 95 % intervals of the silos' own estimates.
_REACH = 1.959963984540054
_NAMES = {
    "pooled": "pooled rows",
    "fixed": "fixed effect",
    "random": "random effects",
    "hartung-knapp": "Hartung-Knapp",
}


def meta_analysis_exhibits(
    model: "MetaAnalysis", columns: Sequence[str]
) -> list[Exhibit]:
    """Return the exhibits of a fitted meta-analysis."""
    if "pooled_" not in vars(model):
        return []
    left_out = [
        site
        for site, fitted in zip(model.sites_, model.fitted_.tolist(), strict=True)
        if not fitted
    ]
    text = (
        f"Coefficients of the regression of {model.response_} on the pooled rows, "
        f"beside those that the {int(model.fitted_.sum())} silos' own regressions give "
        f"when they are combined by inverse variances: with one effect for all "
        f"(fixed), and with effects that vary between silos with variance τ² "
        f"(DerSimonian and Laird). I² is the share of the estimates' variation that is "
        f"not of their own variances, p that of Cochran's Q."
    )
    if left_out:
        text += (
            f" Without a regression of their own, and so left out by a meta-analysis: "
            f"{listed(left_out)}."
        )
    drawn, predictors = min(len(model.terms_) - 1, MOST_TERMS), len(model.terms_) - 1
    if drawn < predictors:
        text += f" The picture has the first {drawn} of {predictors} columns."
    return [
        Exhibit(
            "Pooled rows and meta-analysis",
            text.replace("'", "’"),
            [_shown(model), _combined(model), _sites(model)],
            _picture(model),
        )
    ]


def _shown(model: "MetaAnalysis") -> Table:
    """Return estimates with their 95 % intervals, as they are printed."""
    heads = [Column("Term")]
    cells: list[list[str]] = []
    for method in ("pooled", "fixed", "hartung-knapp"):
        estimate = {"pooled": model.pooled_, "fixed": model.fixed_}
        name = _NAMES[method].capitalize()
        if method == "hartung-knapp":
            name = "Random, Hartung-Knapp"
        heads.append(Column(name, "figures", f"{method}_shown".replace("-", "_")))
        cells.append(
            [
                "–"
                if np.isnan(theta)
                else f"{number(theta)} [{number(low)}, {number(high)}]"
                for theta, (low, high) in zip(
                    estimate.get(method, model.random_).tolist(),
                    model.conf_int(method).tolist(),
                    strict=True,
                )
            ]
        )
    heads += [Column("I²", "share", "i2"), Column("p", "p-value", "q_p_value")]
    rows = zip(
        model.terms_, *cells, model.i2_.tolist(), model.q_p_value_.tolist(), strict=True
    )
    return Table("combined", heads, list(rows), items="terms")


def _combined(model: "MetaAnalysis") -> Table:
    heads = [Column("Term")]
    cells: list[list[float]] = []
    for method, name in _NAMES.items():
        key = method.replace("-", "_")
        low, high = model.conf_int(method).T
        if method != "hartung-knapp":
            heads.append(Column(name.capitalize(), "number", key))
            estimate = {"pooled": model.pooled_, "fixed": model.fixed_}
            cells.append(estimate.get(method, model.random_).tolist())
        head = "95 % from" if method != "hartung-knapp" else f"{name}: 95 % from"
        heads += [
            Column(head, "number", f"{key}_low"),
            Column("to", "number", f"{key}_high"),
        ]
        cells += [low.tolist(), high.tolist()]
    heads += [
        Column("τ²", "number", "tau2"),
        Column("I²", "share", "i2"),
        Column("p", "p-value", "q_p_value"),
    ]
    cells += [a.tolist() for a in (model.tau2_, model.i2_, model.q_p_value_)]
    rows = list(zip(model.terms_, *cells, strict=True))
    return Table("meta_analysis", heads, rows, items="terms", place="files")


def _sites(model: "MetaAnalysis") -> Table:
    heads = (
        Column("Term"),
        Column("Silo"),
        Column("Estimate", "number"),
        Column("Standard error", "number"),
        Column("Weight, fixed", "share", "weight_fixed"),
        Column("Weight, random", "share", "weight_random"),
    )
    with np.errstate(invalid="ignore"):
        v = model.standard_errors_**2
        fixed = _shares(1.0 / v)
        random = _shares(1.0 / (v + model.tau2_))
    rows = [
        (
            term,
            site,
            *(
                None if np.isnan(array[i, j]) else float(array[i, j])
                for array in (model.estimates_, model.standard_errors_, fixed, random)
            ),
        )
        for j, term in enumerate(model.terms_)
        for i, site in enumerate(model.sites_)
    ]
    return Table("sites", heads, rows, items="estimates")


def _shares(weights: Float[Array, "m c"]) -> Float[Array, "m c"]:
    return weights / np.nansum(weights, axis=0)


def lines_of(
    model: "MetaAnalysis", j: int
) -> tuple[list[str], Float[Array, "l 3"], Bool[Array, " l"]]:
    """Return names, estimates with intervals, and which are combined, of a term."""
    names, lines, combined = list[str](), list[list[float]](), list[bool]()
    for i in np.flatnonzero(model.fitted_).tolist():
        theta = float(model.estimates_[i, j])
        reach = _REACH * float(model.standard_errors_[i, j])
        names.append(model.sites_[i])
        lines.append([theta, theta - reach, theta + reach])
        combined.append(False)
    for method in ("fixed", "hartung-knapp", "pooled"):
        low, high = model.conf_int(method)[j].tolist()
        names.append(
            "random, Hartung-Knapp" if method == "hartung-knapp" else _NAMES[method]
        )
        lines.append([(low + high) / 2.0, low, high])
        combined.append(True)
    return names, np.array(lines), np.array(combined)


def _picture(model: "MetaAnalysis") -> Picture:
    # The intercept is of no interest, where there is a predictor.
    places = list(range(1, len(model.terms_)))[:MOST_TERMS]
    terms = [model.terms_[j] for j in places]
    return Picture(
        "forest",
        "Forest plots",
        f"For {listed(terms)}: the estimate of each silo with its 95 % interval, and "
        f"below them those of the meta-analysis and of the pooled rows.",
        partial(forests, terms, [lines_of(model, j) for j in places]),
        ("combined", "sites"),
    )

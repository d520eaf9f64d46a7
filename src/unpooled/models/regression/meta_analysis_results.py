"""Results of a meta-analysis: combined coefficients, each silo's own, forest plots."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from unpooled.arrays import Array, Bool, Float
from unpooled.results.exhibits import Column, Exhibit, Picture, ResultTable
from unpooled.results.formats import listed, number
from unpooled.results.plots.forest import MOST_TERMS, forests

if TYPE_CHECKING:
    from unpooled.models.regression.meta_analysis import MetaAnalysis

# Normal quantile of 95 % intervals of the silos’ own estimates.
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
        f"beside those that the {int(model.fitted_.sum())} silos’ own regressions give "
        f"when they are combined by inverse variances: with one effect for all "
        f"(fixed), and with effects that vary between silos with variance τ² "
        f"(DerSimonian and Laird). Brackets and lines are 95 % confidence intervals. "
        f"I² is the share of the estimates’ variation that sampling error does not "
        f"explain, the p-value that of Cochran’s Q: whether silos differ at all."
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
            text,
            [_shown(model), _combined(model), _sites(model)],
            _picture(model),
        )
    ]


def _shown(model: "MetaAnalysis") -> ResultTable:
    """Return estimates with their 95 % intervals, as they are printed."""
    cells: dict[Column, Any] = {Column("Term"): model.terms_}
    for method in ("pooled", "fixed", "hartung-knapp"):
        name = _NAMES[method].capitalize()
        if method == "hartung-knapp":
            name = "Random, Hartung-Knapp"
        head = Column(name, "figures", f"{method}_shown".replace("-", "_"))
        estimates, ends = _estimates(model, method), model.conf_int(method)
        cells[head] = [
            "–"
            if np.isnan(theta)
            else f"{number(theta)} [{number(low)}, {number(high)}]"
            for theta, (low, high) in zip(
                estimates.tolist(), ends.tolist(), strict=True
            )
        ]
    return ResultTable.of("combined", cells | _variation(model), items="terms")


def _combined(model: "MetaAnalysis") -> ResultTable:
    cells: dict[Column, Any] = {Column("Term"): model.terms_}
    for method, name in _NAMES.items():
        key = method.replace("-", "_")
        low, high = model.conf_int(method).T
        head = f"{name}: 95 % from"
        if method != "hartung-knapp":
            head = "95 % from"
            cells[Column(name.capitalize(), "number", key)] = _estimates(model, method)
        cells[Column(head, "number", f"{key}_low")] = low
        cells[Column("to", "number", f"{key}_high")] = high
    cells[Column("τ²", "number", "tau2")] = model.tau2_
    cells |= _variation(model)
    return ResultTable.of("meta_analysis", cells, items="terms", place="files")


def _estimates(model: "MetaAnalysis", method: str) -> Array:
    own = {"pooled": model.pooled_, "fixed": model.fixed_}
    return own.get(method, model.random_)


def _variation(model: "MetaAnalysis") -> dict[Column, Array]:
    """Return the columns on how much the silos' estimates vary."""
    return {
        Column("I²", "share", "i2"): model.i2_,
        Column("p-value", "p-value", "q_p_value"): model.q_p_value_,
    }


def _sites(model: "MetaAnalysis") -> ResultTable:
    with np.errstate(invalid="ignore"):
        v = model.standard_errors_**2
        fixed = _shares(1.0 / v)
        random = _shares(1.0 / (v + model.tau2_))
    cells = {
        # By term, and then by silo.
        Column("Term"): np.repeat(model.terms_, len(model.sites_)),
        Column("Silo"): np.tile(model.sites_, len(model.terms_)),
        Column("Estimate", "number"): model.estimates_.T.ravel(),
        Column("Standard error", "number"): model.standard_errors_.T.ravel(),
        Column("Weight, fixed", "share", "weight_fixed"): fixed.T.ravel(),
        Column("Weight, random", "share", "weight_random"): random.T.ravel(),
    }
    return ResultTable.of("sites", cells, items="estimates")


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

"""Results of regressions: coefficients with errors, a forest plot, goodness of fit."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.models.regression.clusters import FEW
from unpooled.models.regression.inference import (
    against_class,
    class_names,
    column_names,
    has_intercept,
    parameter_names,
    reference_class,
    side_by_side,
)
from unpooled.results.exhibits import MOST_ROWS, Column, Exhibit, Picture, ResultTable
from unpooled.results.fitted_attributes import columns_by, without_rounding
from unpooled.results.formats import (
    counted,
    left_out,
    per_cent,
    probability,
)
from unpooled.results.plots import charts

_LEVEL = 0.05
_P_OF_F = "p of the F test"
_COVARIANCES = {
    "nonrobust": "",
    "HC0": " They are robust against unequal variances (HC0).",
    "HC1": " They are robust against unequal variances (HC1).",
    "cluster": " They are robust against rows of a cluster that resemble each other.",
}
# By the family of a GLM.
_RATIOS = {
    "binomial": "Odds ratio",
    "poisson": "Rate ratio",
    "gamma": "Ratio of means",
}


def regression_exhibits(model: Any, columns: Sequence[str]) -> list[Exhibit]:
    """Return the exhibits of a fitted regression of this folder."""
    if "coef_" in vars(model):
        return [_coefficients(model), _goodness(model)]
    # On a column partition the silos keep the coefficients until they are read.
    return [_goodness(model)] if "kept_" in vars(model) else []


def _coefficients(model: Any) -> Exhibit:
    names, functions = parameter_names(model), class_names(model)
    values = _sign(model) * side_by_side(model, "coef_", "intercept_")
    if has_intercept(model) and "rmse_" in vars(model):
        # With centred columns and a centred response the intercept is 0 up to rounding.
        values[:, 0] = without_rounding(values[:, 0], model.rmse_)
    has_errors, half = "coef_se_" in vars(model), np.zeros(0)
    several = len(functions) > 1
    of_class = dict[Column, Any]()
    if several or _compared(model):
        # With two classes there is one function, which is about one of them.
        classes = functions if several else _compared(model)[:1]
        of_class = {Column("Class"): np.repeat(classes, len(names))}
    cells = of_class | {
        Column("Column"): np.tile(names, len(functions)),
        Column("Coefficient", "number"): values.ravel(),
    }
    if has_errors:
        se = side_by_side(model, "coef_se_", "intercept_se_")
        half = model.half_widths(_LEVEL)
        with np.errstate(divide="ignore", invalid="ignore"):
            statistics = values / se
        p = side_by_side(model, "p_values_", "intercept_p_value_")
        statistic = "t" if np.isfinite(model.dof_) else "z"
        cells |= {
            Column("Standard error", "number"): se.ravel(),
            Column(statistic, "number", "statistic"): statistics.ravel(),
            Column("p-value", "p-value", "p"): p.ravel(),
            Column("95 % from", "number", "low"): (values - half).ravel(),
            Column("95 % to", "number", "high"): (values + half).ravel(),
        }
    without_ratio = {c: own for c, own in cells.items() if several or c.key != "class"}
    if ratio := _ratio(model):
        cells[Column(ratio, "ratio")] = _exponential(values).ravel()
    table = ResultTable.of("coefficients", cells, items="coefficients")
    tables = [table]
    if several:
        # A row for each column, with the tests that other programs print.
        tables = _by_class(column_names(model), names, functions, values)
        tables.append(replace(table, place="files"))
        if has_errors:
            tables.append(_against_reference(model))
    elif ratio and has_errors:
        # The ratios have a table of their own, with their intervals: pages and
        # terminals need them once.
        shown = ResultTable.of(
            "shown", without_ratio, items="coefficients", place="pages"
        )
        tables = [
            replace(table, place="files"),
            replace(shown, caption=_of_odds(model)),
            _ratios(ratio, names, values[0], half[0], _compared(model)),
        ]
    return Exhibit("Coefficients", _sentences(model), tables, _forest(model, functions))


def _compared(model: Any) -> tuple[str, ...]:
    """Return the names of two classes, the one that odds are of before the other."""
    if "classes_" not in vars(model) or len(model.classes_) != 2:
        return ()
    first, second = (str(value) for value in model.classes_.tolist())
    return (first, second) if reference_class(model) == 1 else (second, first)


def _of_odds(model: Any) -> str:
    """Name the odds that two classes' coefficients are about; empty for a response."""
    between = " against ".join(map(repr, _compared(model)))
    return f"Of the logarithm of the odds of {between}" if between else ""


def _ratios(
    ratio: str,
    names: Sequence[str],
    values: Float[Array, " q"],
    half: Array,
    of_classes: Sequence[str],
) -> ResultTable:
    """Return exponentials of the columns' coefficients, with their intervals."""
    between = " against ".join(map(repr, of_classes))
    of = f" of {between}" if between else ""
    some = [j for j, name in enumerate(names) if name != "intercept"]
    return ResultTable.of(
        ratio.lower().replace(" ", "_"),
        {
            Column("Column"): [names[j] for j in some],
            Column(ratio, "ratio", "ratio"): _exponential(values)[some],
            Column("95 % from", "ratio", "low"): _exponential(values - half)[some],
            Column("95 % to", "ratio", "high"): _exponential(values + half)[some],
        },
        caption=f"{ratio}{of} for one unit of the column",
        note="A unit is the column’s as the model read it: after a StandardScaler one "
        "standard deviation.",
        items="ratios",
    )


def _sign(model: Any) -> int:
    """Return -1 where results of two classes are about the first one, else 1."""
    return -1 if _compared(model) and reference_class(model) == 1 else 1


def _against_reference(model: Any) -> ResultTable:
    """Return the other classes' coefficients against one, with odds ratios."""
    names, place = parameter_names(model), reference_class(model)
    classes = [str(value) for value in model.classes_.tolist()]
    against = classes.pop(place)
    found = against_class(model, place, _LEVEL)
    return ResultTable.of(
        "contrasts",
        {
            Column("Class"): np.repeat(classes, len(names)),
            Column("Column"): np.tile(names, len(classes)),
            Column("Coefficient", "number"): found["coefficient"],
            Column("Standard error", "number"): found["standard_error"],
            Column("p-value", "p-value", "p"): found["p"],
            Column("Odds ratio", "ratio"): _exponential(found["coefficient"]),
            Column("95 % from", "ratio", "low"): _exponential(found["low"]),
            Column("95 % to", "ratio", "high"): _exponential(found["high"]),
        },
        caption=f"Coefficients and odds ratios against the class {against!r}",
        items="coefficients",
    )


def _by_class(
    columns: Sequence[str],
    names: Sequence[str],
    functions: Sequence[str],
    values: Float[Array, "c q"],
) -> list[ResultTable]:
    """Return the coefficients with a column for each class."""
    above = len(names) - len(columns)
    cells = {
        Column(name, "number", f"class_{name}"): own[above:]
        for name, own in zip(functions, values, strict=True)
    }
    return columns_by(
        "coefficients_by_class",
        columns,
        cells,
        above=("intercept", *values[:, 0].tolist()) if above else None,
        caption="Coefficients by class",
    )


def _ratio(model: Any) -> str:
    """Name the exponentials of coefficients; empty where they have no meaning."""
    if "classes_" in vars(model):
        return "Odds ratio" if len(model.classes_) == 2 else ""
    return _RATIOS.get(getattr(model, "family", ""), "")


def _exponential(values: Array) -> Array:
    return np.exp(np.clip(values, -700, 700))


def _sentences(model: Any) -> str:
    fitted = vars(model)
    if "classes_" in fitted:
        compared, c = " against ".join(map(repr, _compared(model))), len(model.classes_)
        text = (
            f"Logistic regression of the class {compared}. A coefficient is the change "
            f"of the logarithm of the odds for one unit of the column, the others "
            f"unchanged; its exponential is the odds ratio."
            if compared
            else f"Multinomial logistic regression of {c} classes: the "
            f"difference of two classes’ coefficients is the change of the logarithm "
            f"of their odds for one unit of the column. Over the classes the "
            f"coefficients add up to 0."
        )
    else:
        link = {"poisson": "logarithm", "gamma": "logarithm", "binomial": "log odds"}
        family = getattr(model, "family", "gaussian")
        # As the names are written: one is a person's.
        proper = family.replace("poisson", "Poisson")
        named = f", by a {proper} model" if family in link else ""
        what = f"the {link[family]} of the mean of " if family in link else ""
        text = (
            f"The response is {model.response_}{named}. A coefficient is the change of "
            f"{what}the response for one unit of the column, the others unchanged"
        )
        ratio = _ratio(model).lower()
        text += f"; its exponential is the {ratio}." if ratio else "."
    if not has_intercept(model):
        text += (
            " Each silo has an intercept of its own, which it keeps; the coefficients "
            "are of differences within silos."
        )
    if "coef_se_" not in fitted:
        return (
            f"{text} The penalty biases the coefficients by an amount that the rows do "
            f"not show, so that there are no standard errors."
        )
    reference = (
        f"Student’s t distribution with {model.dof_:,.0f} degrees of freedom"
        if np.isfinite(model.dof_)
        else "the normal distribution"
    )
    kind = _COVARIANCES[getattr(model, "cov_type", "nonrobust")]
    if "n_clusters_" in fitted and model.n_clusters_ < FEW:
        kind += (
            f" There are only {model.n_clusters_} clusters: with few of them "
            f"standard errors tend to be too small, and tests reject too often."
        )
    return (
        f"{text} Tests and intervals are by {reference}.{kind} The picture has each "
        f"coefficient in units of its standard error, so that columns of different "
        f"units share a scale: where the thin line crosses 0, the coefficient is not "
        f"distinguishable from 0 at the 5 % level."
    )


def _forest(model: Any, functions: Sequence[str]) -> Picture:
    """Return coefficients with intervals, each in standard errors of its column."""
    names: list[str] = column_names(model)
    coef = _sign(model) * np.atleast_2d(model.coef_)
    if "coef_se_" in vars(model):
        # Columns have different units: in standard errors they share a scale.
        se = np.atleast_2d(model.coef_se_)
        half = model.half_widths(_LEVEL)[:, -coef.shape[1] :]
        # Without any error, as of a constant response, there is no such unit.
        there = se > 0.0
        shown = np.divide(coef, se, out=np.zeros_like(coef), where=there)
        errors = np.divide(half, se, out=np.zeros_like(coef), where=there)
        title = "coefficient divided by its standard error, with its 95 % interval"
        label = "coefficient / standard error"
    else:
        shown, errors, title = coef, None, "coefficient"
        label = title
    order = _largest(shown)
    note = left_out(len(order), len(names), "columns", "largest")
    titles = [""] if len(functions) == 1 else list(functions)
    most = min(len(titles), 6)
    return Picture(
        "coefficients",
        "Coefficients",
        f"Bars by column: {title}. {note} The numbers are in the table below.".replace(
            "  ", " "
        ),
        partial(
            charts.loadings,
            shown[:most, order],
            [names[j] for j in order],
            titles[:most],
            None if errors is None else errors[:most, order],
            word="class",
            label=label if most == 1 else "",
        ),
        ("coefficients",),
    )


def _largest(shown: Float[Array, "q p"]) -> list[int]:
    """Return the columns that a picture has room for, in their own order."""
    size = np.nan_to_num(np.abs(shown)).max(axis=0)
    order = np.argsort(-size, kind="stable")[:MOST_ROWS]
    return sorted(int(j) for j in order)


def _goodness(model: Any) -> Exhibit:
    fitted: dict[str, Any] = vars(model)
    rows: list[tuple[str, Any]] = [("sample size", int(model.n_samples_))]
    labels: dict[str, str] = {
        "r2_": "R²",
        "r2_within_": "R² within silos",
        "adjusted_r2_": "R², adjusted",
        "rmse_": "root mean squared residual",
        "sigma_": "residual standard deviation",
        "f_statistic_": "F statistic of all coefficients",
        "f_p_value_": _P_OF_F,
        "n_clusters_": "clusters",
        "n_intercepts_": "intercepts, each a silo’s own",
        "null_deviance_": "deviance without predictors",
        "deviance_": "sum of squared residuals" if "r2_" in fitted else "deviance",
        "dispersion_": "dispersion",
        "log_likelihood_": "log-likelihood",
        "aic_": "AIC",
        "bic_": "BIC",
        "n_iter_": "rounds of the search",
    }
    rows += [(label, fitted[name]) for name, label in labels.items() if name in fitted]
    rows = [(label, value) for label, value in rows if value == value]
    table = ResultTable(
        "goodness_of_fit", (Column("Measure"), Column("Value", "measure")), rows
    )
    tables, tested = [table], dict(rows).get(_P_OF_F)
    if tested is not None:
        # As people write a p-value; the file has its digits.
        others = [i for i, (label, _) in enumerate(rows) if label != _P_OF_F]
        note = f"The F test, that all coefficients are 0, has p {_compared_p(tested)}."
        tables = table.excerpt(rows=others, note=note)
    text = "On the rows of the fit, which flatters every model; judge it on new rows."
    if "coef_" not in fitted and "response_" in fitted:
        text = f"The response is {model.response_}. {text}"
    if "null_deviance_" in fitted and model.null_deviance_ > 0:
        share = 1.0 - model.deviance_ / model.null_deviance_
        text += f" The predictors explain {per_cent(share)} of the deviance"
        logistic = "classes_" in fitted or fitted.get("family") == "binomial"
        text += " (McFadden’s R²)." if logistic else "."
    if "n_iter_" in fitted:
        text += f" The search took {counted(int(model.n_iter_), 'round')}."
    return Exhibit("Goodness of fit", text, tables)


def _compared_p(p: float) -> str:
    """Return "< 0.001" or "= 0.012"."""
    text = probability(p)
    return text if text.startswith("<") else f"= {text}"

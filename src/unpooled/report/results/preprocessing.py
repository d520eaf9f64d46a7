"""Results of imputer, scaler and power transform: numbers for each column."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from unpooled.models.preprocessing.imputer import SimpleImputer
from unpooled.models.preprocessing.power import PowerTransformer
from unpooled.models.preprocessing.scaler import StandardScaler
from unpooled.report.exhibits import Exhibit, Table
from unpooled.report.results.describe import MOST_ROWS, describe, fitted_attributes
from unpooled.report.text.phrases import left_out, number

_YEO_JOHNSON = (
    "The exponent λ of each column’s Yeo-Johnson transform, by maximum likelihood: 1 "
    "leaves the column as it is, less than 1 compresses large values, more than 1 "
    "spreads them out."
)
_STANDARDISED = (
    " Transformed columns are then standardised: their mean is subtracted, and they "
    "are divided by their standard deviation."
)
_SCALED = (
    "A column’s mean is subtracted, and the column is divided by its scale: the "
    "standard deviation (denominator N), or 1 for a column that never varies."
)


@describe.register
def _imputer(model: SimpleImputer, columns: Sequence[str]) -> list[Exhibit]:
    return _columns(model, columns, {"Value filled in": "statistics_"})


@describe.register
def _scaler(model: StandardScaler, columns: Sequence[str]) -> list[Exhibit]:
    text = _SCALED if model.with_mean and model.with_std else ""
    return _columns(model, columns, {"Mean": "mean_", "Scale": "scale_"}, text)


@describe.register
def _power(model: PowerTransformer, columns: Sequence[str]) -> list[Exhibit]:
    if vars(model).get("mean_") is None:
        return _columns(model, columns, {"Exponent": "lambdas_"}, _YEO_JOHNSON)
    table = by_column(
        columns,
        {
            "Exponent": model.lambdas_,
            "Mean, transformed": model.mean_,
            "Standard deviation, transformed": np.sqrt(model.var_),
        },
        count=vars(model).get("n_samples_seen_"),
    )
    return [_exhibit(_YEO_JOHNSON + _STANDARDISED, table)]


def _columns(
    model: Any, columns: Sequence[str], heads: dict[str, str], text: str = ""
) -> list[Exhibit]:
    """Return a table of the attributes that the model has here."""
    fitted = {
        head: vars(model)[name]
        for head, name in heads.items()
        if vars(model).get(name) is not None
    }
    if not fitted:
        return fitted_attributes(model, columns)
    count = vars(model).get("n_samples_seen_")
    return [_exhibit(text, by_column(columns, fitted, count))]


def _exhibit(text: str, table: Table) -> Exhibit:
    return Exhibit("Columns, over all silos", text, [table])


def by_column(
    columns: Sequence[str], values: dict[str, Any], count: Any = None
) -> Table:
    """Return one row for each column, of many the first.

    Parameters
    ----------
    columns : sequence of str
        Names of the p columns.
    values : dict of str to (p,) array
        By heading.
    count : (p,) array of int, optional
        How many cells of each column have a value, where cells are missing.
    """
    writers: list[Callable[[Any], str]] = [number] * len(values)
    if np.ndim(count) == 1:
        values = {**values, "Cells with a value": count}
        writers.append(lambda n: f"{n:,.0f}")
    shown = min(len(columns), MOST_ROWS)
    rows = [
        (
            columns[j],
            *(
                write(float(v[j]))
                for write, v in zip(writers, values.values(), strict=True)
            ),
        )
        for j in range(shown)
    ]
    note = left_out(shown, len(columns), "columns", "first")
    return Table("", ("Column", *values), rows, note)

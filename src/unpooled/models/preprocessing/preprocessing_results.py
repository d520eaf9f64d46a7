"""Results of imputer, scaler and power transform: numbers for each column."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from unpooled.results.exhibits import Exhibit
from unpooled.results.fitted_attributes import by_column

if TYPE_CHECKING:
    from unpooled.models.preprocessing.imputer import SimpleImputer
    from unpooled.models.preprocessing.power import PowerTransformer
    from unpooled.models.preprocessing.scaler import StandardScaler

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
_COUNTED = "Cells with a value"


def imputer_exhibits(model: "SimpleImputer", columns: Sequence[str]) -> list[Exhibit]:
    """Return the exhibits of a fitted imputer."""
    values = {"Value filled in": vars(model).get("statistics_")}
    return _exhibits(model, columns, values, "")


def scaler_exhibits(model: "StandardScaler", columns: Sequence[str]) -> list[Exhibit]:
    """Return the exhibits of a fitted scaler."""
    text = _SCALED if model.with_mean and model.with_std else ""
    values = {"Mean": vars(model).get("mean_"), "Scale": vars(model).get("scale_")}
    return _exhibits(model, columns, values, text)


def power_exhibits(model: "PowerTransformer", columns: Sequence[str]) -> list[Exhibit]:
    """Return the exhibits of a fitted power transform."""
    values, text = {"Exponent": vars(model).get("lambdas_")}, _YEO_JOHNSON
    if vars(model).get("mean_") is not None:
        values["Mean, transformed"] = model.mean_
        values["Standard deviation, transformed"] = np.sqrt(model.var_)
        text += _STANDARDISED
    return _exhibits(model, columns, values, text)


def _exhibits(
    model: Any, columns: Sequence[str], values: Mapping[str, Any], text: str
) -> list[Exhibit]:
    """Return a table of the attributes that the model has here."""
    fitted = {head: value for head, value in values.items() if value is not None}
    if not fitted:
        return []
    count = vars(model).get("n_samples_seen_")
    # One number where no cell is missing: then it says nothing about columns.
    if np.ndim(count) == 1:
        fitted[_COUNTED] = count
    table = by_column("columns", columns, fitted, {_COUNTED: "count"})
    return [Exhibit("Columns, over all silos", text, [table])]

"""What a fitted model found: a description by its class, and one for all others.

`describe` dispatches on the class of the model. Each family of models registers its
descriptions in a module of this package that is named as its folder in
`unpooled.models`. An estimator of a user may register one too; without, its fitted
attributes are listed.
"""

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from unpooled.models.base import fitted_names
from unpooled.report.exhibits import Exhibit, Table
from unpooled.report.text.phrases import left_out, number

# Shown elsewhere in the report, or of no use to its reader.
_SHOWN_ELSEWHERE = ("kept_", "n_features_in_", "feature_names_in_", "n_samples_")
_FEW = 12  # numbers of an array that are printed one by one
MOST_ROWS = 30


@functools.singledispatch
def describe(model: Any, columns: Sequence[str]) -> list[Exhibit]:
    """Return the exhibits of a fitted model, without asking the silos for anything.

    Parameters
    ----------
    model : estimator
        Fitted.
    columns : sequence of str
        Names of the columns that it was fitted on.

    Returns
    -------
    list of Exhibit
        For a class without a description of its own, one table of the fitted
        attributes.
    """
    if not _rows(model) and "kept_" in vars(model):
        return [kept_in_silos()]
    text = (
        "Fitted attributes by their names in the program. Of a large array only the "
        "shape is given."
    )
    table = Table("", ("Attribute", "Value"), _rows(model))
    return [Exhibit("Fitted attributes", text, [table])]


def fitted_attributes(model: Any, columns: Sequence[str]) -> list[Exhibit]:
    """Return the table of fitted attributes, whatever the class of the model.

    For descriptions of a family, where a fit left what they describe in the silos.
    """
    return describe.dispatch(object)(model, columns)


def kept_in_silos() -> Exhibit:
    """Return what stands in the place of results that no silo disclosed."""
    text = (
        "Each silo keeps the results for its own columns. They were not requested from "
        "the silos, so they are not in this report."
    )
    return Exhibit("Kept in the silos", text)


def by_component(heading: str, values: Any, first: str = "Component") -> Table:
    """Return a table with one number for each component; of many, the first."""
    shown = values[:MOST_ROWS]
    rows = [(f"{i + 1}", number(float(value))) for i, value in enumerate(shown)]
    note = left_out(len(shown), len(values), "components", "first")
    return Table("", (first, heading), rows, note)


def _rows(model: Any) -> list[tuple[str, str]]:
    values = {name: vars(model)[name] for name in sorted(fitted_names(model))}
    return [
        (name, text)
        for name, value in values.items()
        if name not in _SHOWN_ELSEWHERE and (text := _value(value))
    ]


def _value(value: Any) -> str:
    """Return a fitted attribute as text; empty where it is neither number nor text."""
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, int | np.integer):
        return f"{value:,}"
    if isinstance(value, float | np.floating):
        return number(float(value))
    if isinstance(value, str):
        return value
    if isinstance(value, list | tuple) and all(isinstance(x, str) for x in value):
        value = np.array(value)
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "biufUSO":
        return ""
    if value.size == 1:
        return _value(value.item())
    if value.ndim == 1 and value.size <= _FEW:
        return ", ".join(_value(x) for x in value.tolist())
    shape = " × ".join(f"{size:,}" for size in value.shape)
    return f"{shape} {'numbers' if value.dtype.kind in 'iuf' else 'values'}"

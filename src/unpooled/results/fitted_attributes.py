"""Fitted attributes as results, for models that have no description of their own.

Also what stands where results stay in the silos, and tables that many models share.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from unpooled.arrays import Array
from unpooled.results.exhibits import Column, Exhibit, Kind, Table, Value

# Shown elsewhere in the report, or of no use to its reader.
_SHOWN_ELSEWHERE = ("kept_", "n_features_in_", "feature_names_in_", "n_samples_")
_FEW = 12  # numbers of an array that are printed one by one
_MOST_CELLS = 100_000  # of an array in a file; larger ones are in the model's own file


def fitted_attributes(fitted: Mapping[str, Any]) -> list[Exhibit]:
    """Return the exhibits of a model by its fitted attributes, given by their names."""
    rows = [
        (name, _value(value))
        for name, value in sorted(fitted.items())
        if name not in _SHOWN_ELSEWHERE
    ]
    rows = [(name, value) for name, value in rows if value not in (None, "")]
    if not rows:
        return []
    text = (
        "Fitted attributes by their names in the program. Of a large array only the "
        "shape is given."
    )
    columns = (Column("Attribute"), Column("Value", "setting"))
    people = fitted.get("n_samples_")
    arrays = [
        table
        for name, value in sorted(fitted.items())
        # What has an entry for each person is in the model's own file alone.
        if name not in _SHOWN_ELSEWHERE and people not in getattr(value, "shape", ())
        if (table := _array(name, value)) is not None
    ]
    tables = [Table("fitted_attributes", columns, rows), *arrays]
    return [Exhibit("Fitted attributes", text, tables)]


def kept_in_silos() -> Exhibit:
    """Return what stands in the place of results that no silo disclosed."""
    text = (
        "Each silo keeps the results for its own columns. They were not requested from "
        "the silos, so they are not among these results."
    )
    return Exhibit("Kept in the silos", text)


def by_component(
    name: str, heading: str, values: Any, first: str = "Component"
) -> Table:
    """Return a table with one number for each component."""
    rows = [(f"{i + 1}", float(value)) for i, value in enumerate(values)]
    columns = (Column(first), Column(heading, "number"))
    return Table(name, columns, rows, items="components")


def by_column(
    name: str,
    columns: Sequence[str],
    values: Mapping[str, Any],
    kinds: Mapping[str, Kind] | None = None,
) -> Table:
    """Return a table with one row for each column of the data.

    Parameters
    ----------
    name : str
        The table's.
    columns : sequence of str
        Names of the p columns.
    values : mapping of str to (p,) array
        By heading.
    kinds : mapping of str to Kind, optional
        By heading; "number" where there is none.
    """
    heads = [Column(head, (kinds or {}).get(head, "number")) for head in values]
    rows = list(zip(columns, *values.values(), strict=True))
    return Table(name, (Column("Column"), *heads), rows, items="columns")


def _value(value: Any) -> Value:
    """Return a fitted attribute as one value; None if neither number nor text."""
    if hasattr(value, "item") and np.size(value) == 1:
        value = value.item()
    if isinstance(value, str | int | float):
        return value
    if isinstance(value, list | tuple) and all(isinstance(x, str) for x in value):
        value = np.array(value)
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "biufUSO":
        return None
    if value.ndim == 1 and value.size <= _FEW:
        setting = Column("", "setting")
        return ", ".join(setting.text(_value(x)) for x in value.tolist())
    shape = " × ".join(f"{size:,}" for size in value.shape)
    return f"{shape} {'numbers' if value.dtype.kind in 'iuf' else 'values'}"


def _array(name: str, value: Any) -> Table | None:
    """Return an array of numbers as a table for files."""
    if not isinstance(value, Array) or value.dtype.kind not in "iuf":
        return None
    if value.ndim not in (1, 2) or not 1 < value.size <= _MOST_CELLS:
        return None
    grid = value[:, None] if value.ndim == 1 else value
    heads = [Column(f"{j + 1}", "number") for j in range(grid.shape[1])]
    if value.ndim == 1:
        heads = [Column("Value", "number")]
    rows = [(f"{i + 1}", *row) for i, row in enumerate(grid.tolist())]
    return Table(name.strip("_"), (Column("Row"), *heads), rows, place="files")

"""Fitted attributes as results, for models that have no description of their own.

Also what stands where results stay in the silos, and tables that many models share.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.results.exhibits import MOST_ROWS, Column, Exhibit, Kind, Table, Value
from unpooled.results.formats import left_out

# Shown elsewhere in the report, or of no use to its reader.
_SHOWN_ELSEWHERE = ("kept_", "n_features_in_", "feature_names_in_", "n_samples_")
MOST_ACROSS = 6  # columns of numbers that a page shows
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
        "Each silo keeps results of its own. They were not requested from the silos, "
        "so they are not among these results. Where silos have different columns, a "
        "study file requests them by the key disclose; each silo finds its own in its "
        "folder of results."
    )
    return Exhibit("Kept in the silos", text)


def numbered(k: int, kind: Kind = "number", key: str = "component") -> list[Column]:
    """Return the heads of k columns of numbers: "1", with the key "component_1", ..."""
    return [Column(f"{j + 1}", kind, f"{key}_{j + 1}") for j in range(k)]


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
    *,
    note: str = "",
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
    note : str
        Of the table.
    """
    heads = [Column(head, (kinds or {}).get(head, "number")) for head in values]
    rows = list(zip(columns, *values.values(), strict=True))
    heads = (Column("Column"), *heads)
    return Table(name, heads, rows, note=note, items="columns")


def columns_by(
    name: str,
    columns: Sequence[str],
    heads: Sequence[Column],
    values: Float[Array, "p k"],
    *,
    first: Sequence[Any] | None = None,
    largest: bool = True,
    caption: str = "",
    place: Literal["everywhere", "files"] = "everywhere",
) -> list[Table]:
    """Return a table with a row for each column of the data, and an excerpt if large.

    Parameters
    ----------
    name : str
        The table's.
    columns : sequence of str
        Names of the p columns of the data.
    heads : sequence of Column
        Of the k columns of the table.
    values : (p, k) array
        The cells.
    first : sequence, optional
        Cells of a row above the others, with its name, such as an intercept.
    largest : bool
        Of more columns than a page shows, whether it shows those with the largest
        values or the first.
    caption : str
        What the table shows.
    place : {"everywhere", "files"}
        Where it stands.
    """
    above = [] if first is None else [first]
    rows = [*above, *((c, *v) for c, v in zip(columns, values.tolist(), strict=True))]
    table = Table(
        name,
        (Column("Column"), *heads),
        rows,
        caption=caption,
        items="columns",
        place=place,
    )
    p, k = values.shape
    if place == "files" or (p <= MOST_ROWS and k <= MOST_ACROSS):
        return [table]
    order = np.arange(p)
    if p > MOST_ROWS and largest:
        order = np.argsort(-np.abs(np.nan_to_num(values)).max(axis=1), kind="stable")
    down = np.arange(len(above)).tolist() + (order[:MOST_ROWS] + len(above)).tolist()
    notes = [
        left_out(min(k, MOST_ACROSS), k, "columns of numbers", "first"),
        left_out(
            min(p, MOST_ROWS), p, "columns", "largest by magnitude" * largest or "first"
        ),
    ]
    return table.excerpt(
        rows=down,
        columns=range(1 + min(k, MOST_ACROSS)),
        note=" ".join(filter(None, notes)),
    )


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

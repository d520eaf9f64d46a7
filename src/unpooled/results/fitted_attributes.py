"""Fitted attributes as results, for models that have no description of their own.

Also what stands where results stay in the silos, and tables that many models share.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.results.exhibits import (
    MOST_ROWS,
    Column,
    Exhibit,
    Kind,
    ResultTable,
    Value,
)
from unpooled.results.formats import counted, left_out

# Shown elsewhere in the report, or of no use to its reader.
_SHOWN_ELSEWHERE = ("kept_", "n_features_in_", "feature_names_in_", "n_samples_")
MOST_ACROSS = 6  # columns of numbers that a page shows
_MOST_ASKED = 4  # attributes that a sentence on what silos keep names
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
    people = fitted.get("n_samples_")
    arrays = [
        table
        for name, value in sorted(fitted.items())
        # Attributes with an entry for each person are in the model's own file alone.
        if name not in _SHOWN_ELSEWHERE and people not in getattr(value, "shape", ())
        if (table := _array(name, value)) is not None
    ]
    columns = (Column("Attribute"), Column("Value", "setting"))
    tables = [ResultTable("fitted_attributes", columns, rows), *arrays]
    return [Exhibit("Fitted attributes", text, tables)]


def kept_in_silos(
    disclosable: Sequence[str], *, in_files: bool, part: bool = False
) -> Exhibit:
    """Return the exhibit in place of results that no silo disclosed.

    Parameters
    ----------
    disclosable : sequence of str
        Names of those that can be asked for.
    in_files : bool
        Whether study files can, where silos have different columns; Python always can.
    part : bool
        Whether they do so in the table of a part of a model.
    """
    text = (
        "Each silo keeps results of its own, and finds them in its folder of results. "
    )
    if disclosable:
        named = ", ".join(f'"{name}"' for name in disclosable[:_MOST_ASKED])
        others = len(disclosable) - _MOST_ASKED
        more = counted(others, "other", "others")
        how = "In Python, reading an attribute requests it: "
        if in_files:
            how = (
                "Where silos have different columns, a study file requests them by the "
                "key disclose = "
            )
            named = f"[{named}]"
        text += (
            f"They were not requested from the silos, so they are not among these "
            f"results. {how}{named}{f' or {more}' if others > 0 else ''}"
            f"{' in the table of this part' * part}, which every silo must allow."
        )
    else:
        text += "No silo shows them to anybody else."
    return Exhibit("Kept in the silos", text)


def ordinals(k: int) -> list[str]:
    """Return "1", "2", ...: the names of k components, pairs or directions."""
    return [f"{j + 1}" for j in range(k)]


def numbered(
    values: Float[Array, "n k"], kind: Kind = "number", key: str = "component"
) -> dict[Column, Float[Array, " n"]]:
    """Return k columns of numbers: "1", with the key "component_1", ..."""
    return {
        Column(name, kind, f"{key}_{name}"): own
        for name, own in zip(ordinals(len(values.T)), values.T, strict=True)
    }


def by_column(
    name: str, columns: Sequence[str], cells: Mapping[Column, Any], **about: Any
) -> ResultTable:
    """Return a table with a row for each column of the data, as of `ResultTable.of`."""
    return ResultTable.of(
        name, {Column("Column"): columns, **cells}, items="columns", **about
    )


def columns_by(
    name: str,
    columns: Sequence[str],
    cells: Mapping[Column, Float[Array, " p"]],
    *,
    above: Sequence[Any] | None = None,
    largest: bool = True,
    **about: Any,
) -> list[ResultTable]:
    """Return a table with a row for each column of the data, and an excerpt if large.

    Parameters
    ----------
    name : str
        The table's.
    columns : sequence of str
        Names of the p columns of the data.
    cells : mapping of Column to (p,) array
        As of `ResultTable.of`.
    above : sequence, optional
        Cells of a row above the others, with its name, such as an intercept.
    largest : bool
        With more columns than a page shows, whether it shows those with the largest
        values or the first.
    **about
        Other attributes of the table.
    """
    table = by_column(name, columns, cells, **about)
    if above is not None:
        table = replace(table, rows=[above, *table.rows])
    sizes = np.abs(np.nan_to_num(np.column_stack(list(cells.values()))))
    weight = sizes.max(axis=1) if largest else None
    return fitting(table, range(1, 1 + len(cells)), "columns of numbers", weight)


def fitting(
    table: ResultTable,
    numbers: range,
    what: str,
    weight: Float[Array, " p"] | None = None,
    most: int = MOST_ROWS,
) -> list[ResultTable]:
    """Return a table, and an excerpt of it where a page has no room for all.

    Parameters
    ----------
    table : ResultTable
        With p rows, and perhaps others above them.
    numbers : range
        Positions of the columns of which a page has room for some, the first.
    what : str
        What these columns are.
    weight : (p,) array, optional
        With too many rows those with the largest are shown; the first when omitted.
    most : int
        How many rows are shown of too many.
    """
    if table.place == "files":
        return [table]
    n, shown = len(table.rows), numbers[:MOST_ACROSS]
    p = n if weight is None else len(weight)
    rows = list(range(n))
    if weight is not None and p > MOST_ROWS:
        order = np.argsort(-weight, kind="stable")[:most] + n - p
        rows = [*range(n - p), *order.tolist()]
    left = set(numbers) - set(shown)
    if not left and len(rows) == n:
        return [table]
    notes = (
        left_out(len(rows) - n + p, p, table.items, "largest"),
        left_out(len(shown), len(numbers), what, "first"),
    )
    return table.excerpt(
        rows=rows,
        columns=[j for j in range(len(table.columns)) if j not in left],
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


def _array(name: str, value: Any) -> ResultTable | None:
    """Return an array of numbers as a table for files."""
    if not isinstance(value, Array) or value.dtype.kind not in "iuf":
        return None
    if value.ndim not in (1, 2) or not 1 < value.size <= _MOST_CELLS:
        return None
    cells: dict[Column, Any] = {Column("Row"): ordinals(len(value))}
    if value.ndim == 1:
        cells[Column("Value", "number")] = value
    else:
        heads = (Column(name, "number") for name in ordinals(value.shape[1]))
        cells |= zip(heads, value.T, strict=True)
    return ResultTable.of(name.strip("_"), cells, place="files")


def without_rounding(values: Array, scale: float | Array) -> Array:
    """Return numbers, with 0 for those that are rounding errors beside `scale`.

    A mean of centred columns is 3e-16, which a reader takes for a result.
    """
    return np.where(np.abs(values) <= 1e-13 * np.abs(scale), 0.0, values)

"""Ranges that a silo declares plausible for its columns, checked when it is opened.

A height of 1.7 among centimetres, or a code such as -999 that nobody named, changes
every total, and no other silo can see why. The silo can: nothing of this leaves it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from unpooled.data.columns import check_known
from unpooled.data.table import Table
from unpooled.errors import DataError

_SHOWN = 5  # rows that an error names for each column


def check_plausible(table: Table, ranges: Mapping[str, Any]) -> None:
    """Raise when cells lie outside of their column's range; missing ones do not.

    Parameters
    ----------
    table : Table
        With its codes for missing cells replaced.
    ranges : mapping of str to (low, high)
        For feature columns, the smallest and the largest plausible value.

    Raises
    ------
    DataError
        With columns and rows, in the silo alone: it is raised before a request comes.
    """
    limits = {name: _limits(name, given) for name, given in ranges.items()}
    check_known(list(limits), table.columns, "Among its features, the table")
    names = list(limits)
    low, high = np.array(list(limits.values()), float).reshape(-1, 2).T
    rows: dict[str, list[int]] = {name: [] for name in names}
    counts = np.zeros(len(names), int)
    for block in table.blocks(names):
        outside = (block.X < low) | (block.X > high)
        counts += outside.sum(axis=0)
        for j in np.flatnonzero(outside.any(axis=0)):
            found = np.flatnonzero(outside[:, j])[: _SHOWN - len(rows[names[j]])]
            rows[names[j]] += (table.source_rows(block.start + found) + 1).tolist()
    wrong = [
        f"{count:,} of {name!r} outside of {limits[name][0]:g} to {limits[name][1]:g} "
        f"(data rows {', '.join(map(str, rows[name]))}{', ...' * (count > _SHOWN)})"
        for name, count in zip(names, counts.tolist(), strict=True)
        if count
    ]
    if wrong:
        raise DataError(
            f"Cells are not plausible, by the ranges declared for this source: "
            f"{'; '.join(wrong)}. Correct them, name their codes as missing (missing), "
            f"or widen the range (plausible)."
        )


def _limits(name: str, given: Any) -> tuple[float, float]:
    pair = list(given) if isinstance(given, Sequence | np.ndarray) else []
    numbers = all(isinstance(v, int | float | np.number) for v in pair)
    if isinstance(given, str) or len(pair) != 2 or not numbers or not pair[0] < pair[1]:
        raise DataError(
            f"plausible[{name!r}] is {given!r}; give the smallest and the largest "
            f"plausible value, such as [100, 230]."
        )
    return float(pair[0]), float(pair[1])

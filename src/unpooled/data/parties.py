"""Opening the sources of all parties of a simulation, so that they fit together."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from unpooled.data.numbered import NumberedTable
from unpooled.data.sources.open_source import open_source
from unpooled.data.table import Table
from unpooled.errors import DataError


def open_parties(
    parties: Mapping[str, Any],
    partition: str,
    label: str | None,
    ids: str | None,
    block_mb: float | int | None = None,
    columns: Sequence[str] | None = None,
) -> dict[str, Table]:
    """Open every party's source as a table.

    On a column partition one party has the label, for all, and columns without names
    are numbered on from party to party.
    """
    if partition == "rows":
        return {
            name: _opened(name, source, label, ids, block_mb, columns)
            for name, source in parties.items()
        }
    if columns is not None:
        raise DataError(
            "On a column partition every silo has columns of its own: leave out what "
            "is not wanted in each source, or select from the federation."
        )
    where = {name: has_label(source, label) for name, source in parties.items()}
    if label is not None and not any(where.values()):
        raise DataError(f"No silo has a column {label!r}, which is to be the label.")
    tables = {
        name: _opened(name, source, label if where[name] else None, ids, block_mb)
        for name, source in parties.items()
    }
    if all(table.named for table in tables.values()):
        return tables
    starts = np.cumsum([0, *(len(table.columns) for table in tables.values())])
    return {
        name: NumberedTable(table, int(start))
        for (name, table), start in zip(tables.items(), starts, strict=False)
    }


def _opened(
    name: str,
    source: Any,
    label: str | None,
    ids: str | None,
    block_mb: float | int | None,
    columns: Sequence[str] | None = None,
) -> Table:
    how = {"label": label, "ids": ids, "block_mb": block_mb, "columns": columns}
    try:
        return open_source(source, **how)
    except DataError as wrong:
        raise DataError(f"Silo {name!r}: {wrong}") from wrong


def has_label(source: Any, label: str | None) -> bool:
    """Whether a source has the label among its columns."""
    if label is None or isinstance(source, Table):
        return label is not None and source.label == label
    try:
        open_source(source, label=label)
    except DataError:
        # Another fault of the source shows when it is opened without its label.
        return False
    return True

"""Tables of all parties of a simulation, opened from their sources."""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, final

import numpy as np

from unpooled.data.columns import check_known, listing
from unpooled.data.row_blocks import Block
from unpooled.data.row_labels import aligned_by_label
from unpooled.data.sources.open_source import open_source
from unpooled.data.table import Table, WrappedTable
from unpooled.errors import DataError


def open_parties(
    parties: Mapping[str, Any],
    partition: str,
    label: str | None,
    ids: str | None,
    block_mb: float | int | None = None,
    columns: Sequence[str] | None = None,
    exclude: Sequence[str] | None = None,
    categorical: Sequence[str] | None = None,
) -> dict[str, Table]:
    """Open every party's source as a table.

    On a column partition, one party has the label for all, and columns without names
    are numbered consecutively over the parties.

    Parameters
    ----------
    parties : mapping of str to source
        The source of each party, as of `open_source`.
    partition : {"rows", "columns"}
        What is divided among the parties.
    label, ids, block_mb, columns, exclude, categorical
        As of `open_source`.

    Raises
    ------
    DataError
        When a source cannot be opened; the message names the silo.
    """
    if partition == "rows":
        options = {"columns": columns, "exclude": exclude, "categorical": categorical}
        return {
            name: _opened(name, source, label, ids, block_mb, **options)
            for name, source in parties.items()
        }
    if columns is not None or exclude:
        raise DataError(
            "On a column partition every silo has columns of its own: leave out "
            "columns in the sources (unpooled.open_source), or select columns of the "
            "federation."
        )
    if ids is None:
        parties = aligned_by_label(parties)
    labelled = {name: has_label(source, label, ids) for name, source in parties.items()}
    if label is not None and not any(labelled.values()):
        raise DataError(f"No silo has the label column {label!r}.")
    coded = categorical_of(parties, categorical or (), ids)
    tables = {
        name: _opened(
            name,
            source,
            label if labelled[name] else None,
            ids,
            block_mb,
            categorical=coded[name],
        )
        for name, source in parties.items()
    }
    if all(table.named for table in tables.values()):
        return tables
    if any(table.categorical for table in tables.values()):
        raise DataError(
            "A silo's columns have no names, and columns of categories are named. Give "
            "each silo's table names for its columns."
        )
    starts = np.cumsum([0, *(len(table.columns) for table in tables.values())])
    return {
        name: NumberedTable(table, int(start))
        for (name, table), start in zip(tables.items(), starts, strict=False)
    }


@final
class NumberedTable(WrappedTable):
    """A table whose columns are called x<start>, x<start + 1>, ...

    Each array without names calls its columns x0, x1, ...; on a column partition, a
    number must mean one column.

    Parameters
    ----------
    table : Table
        The rows.
    start : int
        Number of the first column.
    """

    def __init__(self, table: Table, start: int) -> None:
        self._table, self.block_bytes = table, table.block_bytes
        names = [f"x{start + j}" for j in range(len(table.columns))]
        self._own = dict(zip(names, table.columns, strict=True))
        self.columns = tuple(names)
        self.label, self.ids, self.named = table.label, table.ids, False

    def blocks(
        self, columns: Sequence[str], extra: Sequence[str] = (), rows: int | None = None
    ) -> Iterator[Block]:
        """Read the table from the first row to the last; see `Table.blocks`."""
        check_known(columns, self.columns, "The table")
        return self._table.blocks([self._own[name] for name in columns], extra, rows)


def _opened(
    name: str,
    source: Any,
    label: str | None,
    ids: str | None,
    block_mb: float | int | None,
    **options: Any,
) -> Table:
    try:
        return open_source(source, label=label, ids=ids, block_mb=block_mb, **options)
    except DataError as wrong:
        raise DataError(f"Silo {name!r}: {wrong}") from wrong


def categorical_of(
    sources: Mapping[str, Any],
    named: Sequence[str],
    ids: str | None = None,
    forms: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
) -> dict[str, list[str]]:
    """Return which columns of categories each silo of a column partition has.

    Parameters
    ----------
    sources : mapping of str to source
        The source of each party, as of `open_source`. In tables that are open already
        columns of categories were named before.
    named : sequence of str
        Columns of all silos.
    ids : str or None
        As of `open_source`.
    forms : mapping of str to mapping
        The format of each party's file, as of `open_source`.

    Raises
    ------
    DataError
        For a column that no silo has.
    """
    if isinstance(named, str):
        raise DataError(f"categorical={named!r} is one string; write [{named!r}].")
    found = {
        party: []
        if isinstance(source, Table)
        else [
            name
            for name in named
            if has_label(source, name, ids, **forms.get(party, {}))
        ]
        for party, source in sources.items()
    }
    known = {name for own in found.values() for name in own}
    if unknown := [name for name in named if name not in known]:
        raise DataError(
            f"No silo has {listing(unknown)}, named as columns of categories "
            f"(categorical). Of tables that are open already they are named where "
            f"these are opened: open_source(source, categorical=[...]).",
            rule="unknown_columns",
        )
    return found


def has_label(
    source: Any, label: str | None, ids: str | None = None, **form: Any
) -> bool:
    """Whether a source has the label among its columns.

    Parameters
    ----------
    source
        As of `open_source`.
    label, ids : str or None
        Both are named as the source is opened: as features they would have to be
        numbers.
    **form
        The format of a file, as of `open_source`.
    """
    if label is None or isinstance(source, Table):
        return label is not None and source.label == label
    try:
        open_source(source, label=label, ids=ids, **form)
    except DataError as wrong:
        # Any other fault of the source is reported when it is opened for the study.
        return wrong.rule != "unknown_columns"
    return True

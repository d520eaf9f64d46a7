"""Columns without names of their own, numbered on over the silos of a study."""

from collections.abc import Iterator, Sequence
from typing import final

from unpooled.data.columns import check_known
from unpooled.data.table import Block, Table


@final
class NumberedTable(Table):
    """A table whose columns are called x<start>, x<start + 1>, ...

    Bare arrays call their columns x0, x1, ... each; side by side, a number must mean
    one column.

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

    @property
    def n_rows(self) -> int:
        """Rows of the table."""
        return self._table.n_rows

    def blocks(
        self, columns: Sequence[str], extra: Sequence[str] = (), rows: int | None = None
    ) -> Iterator[Block]:
        """Read the table from the first row to the last; see `Table.blocks`."""
        check_known(columns, self.columns, "The table")
        return self._table.blocks([self._own[name] for name in columns], extra, rows)

"""A table restricted to the rows common to all silos, in their common order."""

import tempfile
from collections.abc import Iterator
from typing import final

import numpy as np

from unpooled.arrays import Array, Float, Int, Shaped
from unpooled.data.row_blocks import Block
from unpooled.data.table import SlicedTable, Table

# Above this size, reordered rows are kept in a file instead of memory.
_MOST_BYTES = 2**28


@final
class AlignedTable(SlicedTable):
    """Some rows of a table in another order.

    Each column is read from its source once, as a whole, since adjacent rows here may
    be anywhere there. Large tables are reordered in a temporary file, which is deleted
    with the last reference to it.

    Parameters
    ----------
    table : Table
        The silo's rows.
    rows : (N,) array of int
        Indices of the rows in their new order, each at most once.
    """

    def __init__(self, table: Table, rows: Int[Array, " N"]) -> None:
        self._table, self.rows = table, rows
        self.columns, self.named = table.columns, table.named
        self.label, self.ids = table.label, table.ids
        self.categorical = table.categorical
        # New position of each row of the table; -1 where it is left out.
        self._place = np.full(table.n_rows, -1, np.int64)
        self._place[rows] = np.arange(len(rows))
        self._X: Float[Array, "N p"] | None = None
        self._extra: dict[str, Shaped[Array, " N"]] = {}

    @property
    def dictionary(self) -> dict[float, str]:
        """The names of the silo's categories by their codes."""
        return getattr(self._table, "dictionary", {})

    @property
    def n_rows(self) -> int:
        """Number of rows common to all silos."""
        return len(self.rows)

    def _blocks(
        self, columns: list[str], extra: list[str], rows: int
    ) -> Iterator[Block]:
        if columns and self._X is None:
            self._X = self._reordered()
        others = {name: self._other(name) for name in extra}
        position = {name: j for j, name in enumerate(self.columns)}
        wanted = [position[name] for name in columns]
        whole = tuple(columns) == self.columns
        for start in range(0, self.n_rows, rows):
            part = slice(start, start + rows)
            X = np.empty((min(rows, self.n_rows - start), 0))
            if self._X is not None and columns:
                X = self._X[part] if whole else self._X[part][:, wanted]
            yield Block(start, X, {name: v[part] for name, v in others.items()})

    def source_rows(self, rows: Int[Array, " l"]) -> Int[Array, " l"]:
        """Return the places of rows in the silo's own order."""
        return self._table.source_rows(self.rows[rows])

    def _reordered(self) -> Float[Array, "N p"]:
        shape = (self.n_rows, len(self.columns))
        X: Float[Array, "N p"]
        if 8 * shape[0] * shape[1] > _MOST_BYTES:
            # The mapping keeps the file alive, which has no name to open it by.
            with tempfile.TemporaryFile() as file:
                X = np.memmap(file, np.float64, "w+", shape=shape)
        else:
            X = np.empty(shape)
        for block in self._table.blocks(self.columns):
            place = self._place[block.start : block.start + len(block.X)]
            X[place[place >= 0]] = block.X[place >= 0]
        X.flags.writeable = False
        return X

    def _other(self, name: str) -> Shaped[Array, " N"]:
        if name not in self._extra:
            blocks = self._table.blocks((), [name])
            values = np.concatenate([block.extra[name] for block in blocks])
            self._extra[name] = values[self.rows]
        return self._extra[name]

"""A table's rows that all silos have, in the order that all silos agreed on."""

import tempfile
from collections.abc import Iterator
from typing import final

import numpy as np

from unpooled.arrays import Array, Float, Int, Shaped
from unpooled.data.table import Block, SlicedTable, Table

# Above this, reordered rows wait in a file instead of memory.
_MOST_BYTES = 2**28


@final
class AlignedTable(SlicedTable):
    """Some rows of a table in another order.

    A column is read from its source once, as a whole: rows that lie next to each other
    here may lie anywhere there. Large tables are reordered in a file that is deleted
    as soon as nothing reads it any more.

    Parameters
    ----------
    table : Table
        The silo's rows.
    rows : (N,) array of int
        Which of its rows, each at most once, in the new order.
    """

    def __init__(self, table: Table, rows: Int[Array, " N"]) -> None:
        self._table, self.rows = table, rows
        self.columns, self.named = table.columns, table.named
        self.label, self.ids = table.label, table.ids
        # -1 where a row of the table is not wanted.
        self._place = np.full(table.n_rows, -1, np.int64)
        self._place[rows] = np.arange(len(rows))
        self._X: Float[Array, "N p"] | None = None
        self._extra: dict[str, Shaped[Array, " N"]] = {}

    @property
    def n_rows(self) -> int:
        """Rows that all silos have."""
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

    def _reordered(self) -> Float[Array, "N p"]:
        shape = (self.n_rows, len(self.columns))
        X: Float[Array, "N p"]
        if 8 * shape[0] * shape[1] > _MOST_BYTES:
            # The mapping keeps the file, which has no name that anybody could open.
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

"""A table with a selection of columns, and with codes for missing cells."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import final

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.data.columns import check_known
from unpooled.data.row_blocks import Block
from unpooled.data.table import Table, WrappedTable, rows_per_block


@final
class RecodedTable(WrappedTable):
    """A table with fewer feature columns, or with codes that mean a missing cell.

    Parameters
    ----------
    table : Table
        The table underneath.
    columns : sequence of str, optional
        The only feature columns to keep.
    exclude : sequence of str
        Feature columns to leave out.
    missing : mapping of str to a sequence of numbers, optional
        For each feature column, the values that stand for missing cells.
    """

    def __init__(
        self,
        table: Table,
        *,
        columns: Sequence[str] | None = None,
        exclude: Sequence[str] = (),
        missing: Mapping[str, Sequence[int | float]] | None = None,
    ) -> None:
        names = [*table.columns, *table.roles.others]
        roles = replace(table.roles, columns=columns, exclude=exclude)
        self.columns = roles.features(names, "The table")
        self.label, self.ids, self.named = table.label, table.ids, table.named
        self.also = roles.beside(self.columns).also
        self._table, self.block_bytes = table, table.block_bytes
        self._codes = _codes(missing or {}, self.columns)

    def blocks(
        self, columns: Sequence[str], extra: Sequence[str] = (), rows: int | None = None
    ) -> Iterator[Block]:
        """Read the table underneath, codes replaced by NaN; see `Table.blocks`."""
        rows = rows_per_block(self, columns, extra, rows)
        blocks = self._table.blocks(columns, extra, rows)
        if not self._codes.keys() & {*columns, *extra}:
            return blocks  # no codes to replace, so views stay views
        return (self._recoded(block, list(columns)) for block in blocks)

    def sparse_blocks(
        self, columns: Sequence[str], extra: Sequence[str] = ()
    ) -> Iterator[Block]:
        """Read the table underneath; see `Table.sparse_blocks`."""
        if self._codes.keys() & {*columns, *extra}:
            return self.blocks(columns, extra)
        return self._table.sparse_blocks(columns, extra)

    def over_parts(
        self, work: Callable[[Table], dict[str, Array]]
    ) -> dict[str, Array] | None:
        """Apply work to recoded parts of the table; see `Table.over_parts`."""
        again = partial(_recoded_part, work, list(self.columns), self._codes)
        return self._table.over_parts(again)

    def _recoded(self, block: Block, columns: list[str]) -> Block:
        X = block.X.copy()
        for j, name in enumerate(columns):
            if name in self._codes:
                X[:, j] = _blanked(X[:, j], self._codes[name])
        values = {
            name: _blanked(column, self._codes[name]) if name in self._codes else column
            for name, column in block.extra.items()
        }
        return replace(block, X=X, extra=values)


def _recoded_part(
    work: Callable[[Table], dict[str, Array]],
    columns: Sequence[str],
    codes: Mapping[str, list[float]],
    part: Table,
) -> dict[str, Array]:
    return work(RecodedTable(part, columns=columns, missing=codes))


def _codes(
    missing: Mapping[str, Sequence[int | float]], columns: Sequence[str]
) -> dict[str, list[float]]:
    check_known(list(missing), columns, "Among its features, the table")
    return {name: [float(v) for v in values] for name, values in missing.items()}


def _blanked(values: Float[Array, " n"], codes: Sequence[float]) -> Float[Array, " n"]:
    return np.where(np.isin(values, codes), np.nan, values)

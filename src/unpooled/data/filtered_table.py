"""A table with some of the rows of another.

They are those that a silo's own file chooses, or those that are complete in the columns
of a view.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import final

import numpy as np

from unpooled.arrays import Array, Bool, Int
from unpooled.data.row_blocks import Block
from unpooled.data.row_filter import Condition, is_missing
from unpooled.data.table import Table
from unpooled.errors import DataError


@final
class FilteredTable(Table):
    """The rows of a table that fulfil a condition, have a label, or are complete.

    They are found in one pass when the table is opened; later passes read the table
    underneath and leave the others out.

    Parameters
    ----------
    table : Table
        Opened with the condition's columns among its own or its `also`.
    condition : Condition, optional
        Which rows stay.
    labelled : bool, default False
        Whether rows without a label are left out.
    complete : sequence of str, optional
        Columns; rows without a value in one of them are left out.
    of_part : bool, default False
        Whether the table is a part of a larger one, and may have none of the rows.

    Raises
    ------
    DataError
        When no row is left, or the table has no label.
    """

    def __init__(
        self,
        table: Table,
        condition: Condition | None = None,
        *,
        labelled: bool = False,
        complete: Sequence[str] = (),
        of_part: bool = False,
    ) -> None:
        if labelled and table.label is None:
            raise DataError(
                'unlabelled = "drop" leaves out rows without a label, and the table '
                "has no label. Name the label, or leave the key out."
            )
        self._table, self._condition, self._labelled = table, condition, labelled
        self._complete = tuple(complete)
        self.columns, self.named = table.columns, table.named
        self.label, self.ids, self.also = table.label, table.ids, table.also
        self.block_bytes = table.block_bytes
        blocks = [self._chosen(block) for block in table.blocks((), self._read())]
        self._kept: Bool[Array, " N"] = np.concatenate(blocks)
        self._places = np.flatnonzero(self._kept)
        if not len(self._places) and not of_part:
            raise DataError(
                "No row of the source is left by its conditions (where, unlabelled)."
            )

    @property
    def n_rows(self) -> int:
        """Number of rows that are left."""
        return len(self._places)

    @property
    def n_source_rows(self) -> int:
        """Number of rows of the table underneath."""
        return len(self._kept)

    def blocks(
        self, columns: Sequence[str], extra: Sequence[str] = (), rows: int | None = None
    ) -> Iterator[Block]:
        """Read the rows that are left, in blocks of at most `rows`; see `Table`."""
        self._sync()
        return self._left(self._table.blocks(columns, extra, rows))

    def sparse_blocks(
        self, columns: Sequence[str], extra: Sequence[str] = ()
    ) -> Iterator[Block]:
        """Read the rows that are left; see `Table.sparse_blocks`."""
        self._sync()
        return self._left(self._table.sparse_blocks(columns, extra))

    def source_rows(self, rows: Int[Array, " l"]) -> Int[Array, " l"]:
        """Return the places of rows in the source."""
        return self._table.source_rows(self._places[rows])

    def over_parts(
        self, work: Callable[[Table], dict[str, Array]]
    ) -> dict[str, Array] | None:
        """Apply work to the rows that are left of each part; see `Table.over_parts`."""
        # As a text: what reads it cannot be sent to another machine.
        text = None if self._condition is None else self._condition.text
        again = partial(_filtered_part, work, text, self._labelled, self._complete)
        return self._table.over_parts(again)

    def _sync(self) -> None:
        # Set on this table, where it is opened, and used by the one underneath.
        self._table.block_bytes = self.block_bytes

    def _read(self) -> list[str]:
        """Return the columns that the choice of rows reads."""
        of_condition = [] if self._condition is None else self._condition.columns
        label = [self._table.label] if self._labelled else []
        read = [*of_condition, *filter(None, label), *self._complete]
        return list(dict.fromkeys(read))

    def _chosen(self, block: Block) -> Bool[Array, " n"]:
        chosen = np.ones(block.X.shape[0], bool)
        if self._condition is not None:
            chosen &= self._condition.fulfilled(block.extra)
        if self._labelled and self._table.label is not None:
            chosen &= ~is_missing(block.extra[self._table.label])
        for column in self._complete:
            chosen &= ~is_missing(block.extra[column])
        return chosen

    def _left(self, blocks: Iterator[Block]) -> Iterator[Block]:
        read = left = 0
        empty: Block | None = None
        for block in blocks:
            n = block.X.shape[0]
            kept = self._kept[read : read + n]
            read += n
            here = int(kept.sum())
            if here == n:
                yield replace(block, start=left)
            elif here or empty is None:
                extra = {name: values[kept] for name, values in block.extra.items()}
                some = Block(left, block.X[kept], extra)
                if here:
                    yield some
                else:
                    empty = some
            left += here
        if not left and empty is not None:
            yield empty  # a table has at least one block


def complete_rows(table: Table, columns: Sequence[str]) -> Table:
    """Return the rows with a value in each of some columns; the same table each time.

    It is the table itself where no cell of these columns is missing.

    Parameters
    ----------
    table : Table
        A table of any rows.
    columns : sequence of str
        Some of its columns.
    """
    key = tuple(sorted(columns))
    if key not in table.complete:
        left = FilteredTable(table, complete=key, of_part=True)
        table.complete[key] = table if left.n_rows == table.n_rows else left
    return table.complete[key]


def _filtered_part(
    work: Callable[[Table], dict[str, Array]],
    text: str | None,
    labelled: bool,
    complete: tuple[str, ...],
    part: Table,
) -> dict[str, Array]:
    condition = None if text is None else Condition.of(text)
    return work(
        FilteredTable(
            part, condition, labelled=labelled, complete=complete, of_part=True
        )
    )

"""Views: a silo's table seen through a chain of operations, block by block.

A view travels as data (which columns, which rows, which fitted transform with which
arrays) and is evaluated inside the silo when a step reads it. Nothing is stored.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, final

import numpy as np

from unpooled.arrays import Array, Bool, Float
from unpooled.data.table import Block, Table, rows_per_block
from unpooled.errors import DataError
from unpooled.party.dominance import largest_row_share
from unpooled.party.step import find_step
from unpooled.secure.message import digest

# Rows are dealt to folds within stretches of this length, so that the memory for it
# does not grow with the table.
_STRETCH = 10_000


@final
@dataclass(frozen=True)
class Select:
    """Keep some columns, in this order."""

    columns: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """Return the operation as it travels."""
        return {"operation": "select", "columns": list(self.columns)}


@final
@dataclass(frozen=True)
class Rows:
    """Keep the rows whose rank in their stretch, after shuffling, is in one part.

    Attributes
    ----------
    fold, of : int
        With ``of > 0``: ranks equal to `fold` modulo `of` are the part.
    share : float
        With ``of == 0``: the first ``ceil(share * length)`` ranks are the part.
    complement : bool
        Keep the other rows.
    seed : int
        Of the shuffle; -1 keeps the table's order.
    """

    fold: int
    of: int
    share: float
    complement: bool
    seed: int

    def as_json(self) -> dict[str, Any]:
        """Return the operation as it travels."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {"operation": "rows", **values}

    def chosen(self, start: int, stop: int, n_rows: int) -> Bool[Array, " n"]:
        """Return which of the rows from `start` to `stop` are kept."""
        parts = []
        for stretch in range(start // _STRETCH, math.ceil(stop / _STRETCH)):
            first = stretch * _STRETCH
            kept = self._of_stretch(stretch, min(_STRETCH, n_rows - first))
            parts.append(kept[max(start - first, 0) : stop - first])
        return np.concatenate(parts) if parts else np.zeros(0, bool)

    def count(self, n_rows: int) -> int:
        """Return how many of n rows are kept."""
        full, rest = divmod(n_rows, _STRETCH)
        return sum(
            times * int(self._of_stretch(0, length).sum())
            for times, length in ((full, _STRETCH), (1, rest))
            if times and length
        )

    def _of_stretch(self, stretch: int, length: int) -> Bool[Array, " n"]:
        ranks = np.arange(length)
        if self.seed >= 0:
            ranks = np.random.default_rng([self.seed, stretch]).permutation(length)
        if self.of:
            part = ranks % self.of == self.fold
        else:
            part = ranks < math.ceil(self.share * length)
        return ~part if self.complement else part


@final
@dataclass(frozen=True)
class Derive:
    """Apply a fitted transform: a derived step with its public arguments."""

    step: str
    columns: tuple[str, ...]
    public: Mapping[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Return the operation as it travels; arrays by digest, sent on the side."""
        public = {
            name: {"array": array_digest(value)}
            if isinstance(value, np.ndarray)
            else value
            for name, value in self.public.items()
        }
        return {
            "operation": "derive",
            "step": self.step,
            "columns": list(self.columns),
            "public": public,
        }

    def arrays(self) -> dict[str, Array]:
        """Return the array arguments by name, sorted: JSON keeps no other order."""
        arrays = {n: v for n, v in self.public.items() if isinstance(v, np.ndarray)}
        return dict(sorted(arrays.items()))


Operation = Select | Rows | Derive


def array_digest(array: Array) -> str:
    """Return the SHA-256 of an array's bytes in C order, hexadecimal."""
    return digest(np.ascontiguousarray(array).data)


def array_key(position: int, name: str, content: str) -> str:
    """Name an array of a transform: its place in the chain, argument and digest.

    The place belongs to it, so that two transforms with equal numbers (means that
    filled no cell, and the means of a scaler after it) are two arrays on the wire and
    two lines in the ledger, as the plan said before anybody knew the numbers.
    """
    return f"{position}.{name}.{content}"


def operation_from_json(
    record: Mapping[str, Any], position: int, arrays: Mapping[str, Array]
) -> Operation:
    """Read an operation as it travels; `arrays` holds its arrays by `array_key`."""
    kind = record["operation"]
    if kind == "select":
        return Select(tuple(map(str, record["columns"])))
    if kind == "rows":
        rows = Rows(**{n: record[n] for n in Rows.__dataclass_fields__})
        whole = all(type(n) is int for n in (rows.fold, rows.of, rows.seed))
        if not whole or type(rows.complement) is not bool:
            raise TypeError("rows")
        if not (0 <= rows.fold < max(rows.of, 1) <= 2**31 and 0 <= rows.share <= 1):
            raise ValueError("rows")
        return rows
    if kind != "derive":
        raise ValueError("operation")
    public = {
        str(name): arrays[array_key(position, name, value["array"])]
        if isinstance(value, dict)
        else value
        for name, value in record["public"].items()
    }
    return Derive(str(record["step"]), tuple(map(str, record["columns"])), public)


@final
class View:
    """What a step reads: the table after the operations.

    Parameters
    ----------
    table : Table
        The silo's rows.
    operations : sequence of Operation
        Applied in order.

    Attributes
    ----------
    columns : tuple of str
        The features a step sees as the columns of X.
    source_columns : tuple of str
        The table's columns that are read for it.
    left_out : list of int
        Rows that each `Rows` operation leaves out.
    """

    def __init__(self, table: Table, operations: Sequence[Operation]) -> None:
        self._table = table
        self.source_columns = tuple(table.columns)
        while operations and isinstance(operations[0], Select):
            # Unread columns of a file larger than memory are never loaded.
            self.source_columns = _known(self.source_columns, operations[0].columns)
            operations = operations[1:]
        self._operations = list(operations)
        self.columns, self.n_rows = self.source_columns, table.n_rows
        self.left_out: list[int] = []
        self._counts = []
        for operation in self._operations:
            self._counts.append(self.n_rows)
            if isinstance(operation, Select):
                self.columns = _known(self.columns, operation.columns)
            elif isinstance(operation, Derive):
                _check_arguments(operation, len(self.columns))
                self.columns = operation.columns
            else:
                kept = operation.count(self.n_rows)
                self.left_out.append(self.n_rows - kept)
                self.n_rows = kept

    @property
    def transforms(self) -> list[str]:
        """The names of the derived steps in the chain."""
        return [o.step for o in self._operations if isinstance(o, Derive)]

    def rows(self) -> Bool[Array, " N"]:
        """Return which of the table's rows the view keeps."""
        kept = np.ones(self._table.n_rows, bool)
        for operation in self._operations:
            if isinstance(operation, Rows):
                n_rows = int(kept.sum())
                kept[np.flatnonzero(kept)] = operation.chosen(0, n_rows, n_rows)
        return kept

    def source(self) -> "View":
        """Return the same rows of the source columns, before any transform."""
        rows = [o for o in self._operations if isinstance(o, Rows)]
        return View(self._table, [Select(self.source_columns), *rows])

    def blocks(
        self, extra: Sequence[str] = (), *, sparse: bool = False
    ) -> Iterator[Block]:
        """Yield the rows; at least one block, which may be empty.

        With `sparse` those of a sparse source stay as they are, unless a transform
        reads them.
        """
        columns, table = self.source_columns, self._table
        if sparse and not self.transforms:
            blocks = table.sparse_blocks(columns, extra)
        else:
            # Operations copy what they read: not the whole of an array in memory.
            rows = rows_per_block(table, columns, extra, None)
            blocks = table.blocks(columns, extra, rows if self._operations else None)
        for operation, n_rows in zip(self._operations, self._counts, strict=True):
            if isinstance(operation, Rows):
                blocks = _kept_rows(operation, blocks, n_rows)
                continue
            if isinstance(operation, Derive):
                blocks = _derived(operation, blocks)
            else:
                blocks = _selected(operation, blocks, columns)
            columns = operation.columns
        return blocks

    def largest_row_share(self) -> float:
        """Return the largest share of any column's scatter that one row carries."""
        return largest_row_share(self.blocks(), len(self.columns))


def _check_arguments(operation: Derive, n_features: int) -> None:
    # An array with an axis over rows, where one over columns is declared, would weigh
    # single rows; with infinities and zeros a chain of transforms can pick rows out.
    find_step(operation.step).sizes(n_features, operation.public)
    if any(np.isinf(array).any() for array in operation.arrays().values()):
        raise DataError("A transform's argument is infinite.", rule="arguments")


def _derived(operation: Derive, blocks: Iterator[Block]) -> Iterator[Block]:
    step, public = find_step(operation.step), dict(operation.public)
    for block in blocks:
        with np.errstate(all="ignore"):
            X: Float[Array, "n q"] = step(block.X, **public)
            # A sum is cheap and not finite if a cell is not; NaN may be a missing cell.
            if not np.isfinite(X.sum()) and np.isinf(X).any():
                raise DataError("A derived cell is infinite.", rule="infinite_values")
        if X.shape != (len(block.X), len(operation.columns)):
            raise ValueError("a derived block does not fit its declaration")
        yield replace(block, X=X)


def _selected(
    operation: Select, blocks: Iterator[Block], columns: Sequence[str]
) -> Iterator[Block]:
    picked = [columns.index(column) for column in operation.columns]
    for block in blocks:
        yield replace(block, X=block.X[:, picked])


def _kept_rows(
    operation: Rows, blocks: Iterator[Block], n_rows: int
) -> Iterator[Block]:
    read = kept = 0
    for block in blocks:
        n = block.X.shape[0]
        chosen = operation.chosen(read, read + n, n_rows)
        extra = {name: values[chosen] for name, values in block.extra.items()}
        yield Block(kept, block.X[chosen], extra)
        read += n
        kept += int(chosen.sum())


def _known(columns: Sequence[str], wanted: Sequence[str]) -> tuple[str, ...]:
    if not wanted or not set(wanted) <= set(columns) or len(set(wanted)) != len(wanted):
        raise LookupError("unknown_columns")
    return tuple(wanted)

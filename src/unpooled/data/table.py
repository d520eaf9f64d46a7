"""Tables: named numeric columns that are read in blocks of rows.

        columns          label   ids
      ┌───────────────┬───────┬──────┐
      │ block 0       │       │      │   X: float64, missing cells are NaN
      ├───────────────┼───────┼──────┤
      │ block 1       │ extra │extra │   extra: label and id values as they are
      └───────────────┴───────┴──────┘

A sum over rows needs one block in memory at a time, so additive steps run over arrays,
DataFrames and files larger than memory.
"""

import abc
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any, final

import numpy as np

from unpooled.arrays import Array, Int, Shaped
from unpooled.data.columns import NO_ROLES, Roles, check_known
from unpooled.data.row_blocks import Block, rows_in_a_block
from unpooled.data.sources.npy import MappedRows
from unpooled.errors import DataError
from unpooled.linalg.moments import dense_rows

# A NumPy array, a SciPy sparse array (SciPy is not imported here) or `MappedRows`.
Matrix = Any


class Table(abc.ABC):
    """Rows with named numeric columns and optionally a label and ids.

    Attributes
    ----------
    columns : tuple of str
        Feature columns in the order of the source; never the label or the ids.
    label, ids : str or None
        Columns that are not features.
    also : tuple of str
        Columns of any type that are read to choose rows, or as categories.
    categorical : tuple of str
        Feature columns whose cells are codes of categories (`unpooled.data.categories`)
        and no numbers.
    named : bool
        False when the source had no names and the columns are called x0, x1, ...
    block_bytes : int or None
        Maximum size of a block as float64; None stands for `BLOCK_BYTES`.
    """

    columns: tuple[str, ...]
    label: str | None
    ids: str | None
    also: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    named: bool
    block_bytes: int | None = None

    def __repr__(self) -> str:
        """For whoever opened the rows: how many there are, and of what."""
        of_text = f" ({len(self.categorical)} of categories)" * bool(self.categorical)
        named = [
            f", {role} {name!r}"
            for role, name in (("label", self.label), ("ids", self.ids))
            if name is not None
        ]
        return (
            f"<Table: {self.n_rows:,} rows, {len(self.columns):,} columns"
            f"{of_text}{''.join(named)}>"
        )

    @property
    def roles(self) -> Roles:
        """The label and the ids, with no choice of feature columns."""
        return Roles(self.label, self.ids, also=self.also)

    @cached_property
    def complete(self) -> "dict[tuple[str, ...], Table]":
        """Tables of its rows that are complete in some columns, as they were made."""
        return {}

    @property
    @abc.abstractmethod
    def n_rows(self) -> int:
        """Number of rows, counted without loading them."""

    @abc.abstractmethod
    def blocks(
        self, columns: Sequence[str], extra: Sequence[str] = (), rows: int | None = None
    ) -> Iterator[Block]:
        """Read the table from the first row to the last.

        Parameters
        ----------
        columns : sequence of str
            Feature columns to read, in any order.
        extra : sequence of str
            Columns to read as they are, such as the label and the ids; feature columns
            are float64.
        rows : int, optional
            Rows per block; the last block may have fewer. By default as many as fit
            into `block_bytes`, at least `FEWEST_ROWS`.

        Yields
        ------
        Block
            Consecutive blocks, which together are the table.
        """

    def sparse_blocks(
        self, columns: Sequence[str], extra: Sequence[str] = ()
    ) -> Iterator[Block]:
        """Read the table in sparse blocks if its source is sparse.

        For steps that accept both: `Block.X` is in CSR format where the source is
        sparse, and as from `blocks` otherwise.
        """
        return self.blocks(columns, extra)

    @property
    def n_source_rows(self) -> int:
        """Number of rows of the source, of which the table may have chosen some."""
        return self.n_rows

    def source_rows(self, rows: Int[Array, " l"]) -> Int[Array, " l"]:
        """Return the places in the source, counted from 0, of rows of the table."""
        return rows

    def over_parts(
        self, work: "Callable[[Table], dict[str, Array]]"
    ) -> dict[str, Array] | None:
        """Apply work that is additive over rows to every part; return the sum.

        For tables whose parts are on several machines. None for other tables, which the
        caller reads in blocks.

        Parameters
        ----------
        work : callable
            Maps a table of some of the rows to arrays by name.
        """
        return None


def rows_per_block(
    table: Table, columns: Sequence[str], extra: Sequence[str], rows: int | None
) -> int:
    """Check the arguments of `Table.blocks` and return the rows per block."""
    check_known(columns, table.columns, "The table")
    if extra:
        check_known(extra, [*table.columns, *table.roles.others], "The table")
    return rows_in_a_block(8 * len(columns), table.block_bytes, rows)


class WrappedTable(Table):
    """A table with the rows of another one, read in another form."""

    _table: Table

    @property
    def n_rows(self) -> int:
        """Number of rows of the table underneath."""
        return self._table.n_rows

    @property
    def n_source_rows(self) -> int:
        """Number of rows of the source of the table underneath."""
        return self._table.n_source_rows

    def source_rows(self, rows: Int[Array, " l"]) -> Int[Array, " l"]:
        """Return the places of rows in the source of the table underneath."""
        return self._table.source_rows(rows)


class SlicedTable(Table):
    """A table whose blocks have exactly the requested number of rows, or fewer."""

    def blocks(
        self, columns: Sequence[str], extra: Sequence[str] = (), rows: int | None = None
    ) -> Iterator[Block]:
        """Read the table from the first row to the last; see `Table.blocks`."""
        rows = rows_per_block(self, columns, extra, rows)
        return self._blocks(list(columns), list(extra), rows)

    @abc.abstractmethod
    def _blocks(
        self, columns: list[str], extra: list[str], rows: int
    ) -> Iterator[Block]:
        """Read these columns, whose names are checked, in blocks of `rows` rows."""


@final
class ArrayTable(Table):
    """A 2-D array of real numbers, dense or sparse, converted block by block.

    Parameters
    ----------
    X : (n, p) array, SciPy sparse array or MappedRows
        Any real dtype or bool. Dense float64 is not copied: blocks of adjacent
        columns are read-only views. Entries that a sparse array does not store are
        zeros, not missing.
    roles : Roles, optional
        Roles of columns by their names x0, x1, ...
    """

    def __init__(self, X: Matrix, roles: Roles = NO_ROLES) -> None:
        self._X = _real_matrix(X)
        names = [f"x{j}" for j in range(self._X.shape[1])]
        self._position = {name: j for j, name in enumerate(names)}
        self.columns = roles.features(names, "The array")
        self.label, self.ids, self.named = roles.label, roles.ids, False
        self.also = roles.beside(self.columns).also

    @property
    def n_rows(self) -> int:
        """Number of rows of the array."""
        return self._X.shape[0]

    def blocks(
        self, columns: Sequence[str], extra: Sequence[str] = (), rows: int | None = None
    ) -> Iterator[Block]:
        """Read the array from the first row to the last; see `Table.blocks`."""
        chosen = self._chosen(columns)
        in_memory = isinstance(self._X, np.ndarray) and self._X.dtype == np.float64
        whole = rows is None and in_memory and isinstance(chosen, slice)
        rows = rows_per_block(self, columns, extra, rows)
        # Views convert and copy nothing, so that smaller blocks would save no memory.
        rows = self.n_rows if whole else rows
        return self._blocks(chosen, list(extra), rows)

    def sparse_blocks(
        self, columns: Sequence[str], extra: Sequence[str] = ()
    ) -> Iterator[Block]:
        """Read the array; see `Table.sparse_blocks`."""
        if not hasattr(self._X, "tocsr"):
            return self.blocks(columns, extra)
        rows_per_block(self, columns, extra, None)
        # Value and column index of the stored cells, averaged over the rows.
        row_bytes = 12 * self._X.nnz // self.n_rows
        rows = rows_in_a_block(row_bytes, self.block_bytes)
        chosen = self._chosen(columns)
        return self._blocks(chosen, list(extra), rows, dense=False)

    def _chosen(self, columns: Sequence[str]) -> slice | list[int]:
        # All of them, as in every round of most fits: without a look at each.
        if len(columns) == len(self._position) and tuple(columns) == self.columns:
            return slice(0, len(columns))
        return _adjacent([self._position[name] for name in columns])

    def _blocks(
        self, chosen: slice | list[int], extra: list[str], rows: int, dense: bool = True
    ) -> Iterator[Block]:
        everything = chosen == slice(0, self._X.shape[1])
        for start in range(0, self.n_rows, rows):
            part = self._X[start : start + rows]
            values = {name: self._column(part, name) for name in extra}
            X = part if everything else part[:, chosen]
            if dense:
                X = _read_only(np.asarray(dense_rows(X), np.float64))
            else:
                X = X.astype(np.float64, copy=False)
            yield Block(start, X, values)

    def _column(self, part: Matrix, name: str) -> Shaped[Array, " n"]:
        j = self._position[name]
        values = dense_rows(part[:, j : j + 1])[:, 0]
        return _read_only(values.astype(float) if name in self.columns else values)


def _real_matrix(X: Matrix) -> Matrix:
    """Return X without a copy; raise unless it is a matrix of real numbers."""
    if isinstance(X, np.ma.MaskedArray):
        raise DataError(
            "The array is masked, and its mask would be lost. Pass "
            "X.astype(float).filled(numpy.nan)."
        )
    # Among sparse formats, only CSR has efficient row slices.
    if hasattr(X, "tocsr"):
        X = X.tocsr()
    elif not isinstance(X, MappedRows):
        X = np.asarray(X)
    if X.ndim != 2:
        raise DataError(
            f"The array has {X.ndim} axes; two are needed, rows and columns. Reshape a "
            f"single column with X.reshape(-1, 1), or images with "
            f"X.reshape(len(X), -1)."
        )
    if X.dtype.kind not in "biuf":
        raise DataError(
            f"The array has dtype {X.dtype}; real numbers are needed. Encode text and "
            f"dates as numbers and convert with X.astype(float)."
        )
    if 0 in X.shape:
        raise DataError(
            f"The array has shape {X.shape}; at least one row and one column are "
            f"needed. Leave a silo without data out of the study."
        )
    return X


def _adjacent(positions: list[int]) -> slice | list[int]:
    """Return consecutive positions as a slice, for which NumPy returns a view."""
    if not positions or positions != list(
        range(positions[0], positions[0] + len(positions))
    ):
        return positions
    return slice(positions[0], positions[0] + len(positions))


def _read_only(values: Array) -> Array:
    # Writing into a view would change the owner's data.
    view = values.view()
    view.flags.writeable = False
    return view

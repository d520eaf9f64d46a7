"""Columns of categories, such as text: read as codes that are the same in every silo.

    cell ──> name ──> code, a hash of the name ──> block.X, beside the numbers
                 └──> "other" where a single row of the silo has the name

A code is a whole number below 2^52, which float64 holds exactly. Silos that never met
agree on the code of a name, so that a transform which compares codes does the same in
every silo, also in one that lacks a category. Codes mean nothing as numbers: a step
reads them only if it says so (`cells` in place of `X`).

A sum by category would tell about a person who is alone in a category. So a name that
fewer of a silo's rows have than its policy asks for (`min_own_cells`, 2 by default) is
read as "other" before any study sees the table, and so are missing cells where they are
that few. Where all these cells together are still too few (most often a single one)
they are read as missing, if more cells are, and otherwise as the column's most frequent
name: one cell is changed so that nobody is alone.
"""

import hashlib
import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, final

import numpy as np

from unpooled.arrays import Array, Float, Shaped
from unpooled.data.columns import check_known, listing
from unpooled.data.row_blocks import Block
from unpooled.data.table import Table, WrappedTable, rows_per_block
from unpooled.errors import DataError

# The most categories of a column, over all silos and in each.
MOST_CATEGORIES = 1000
# The longest name in UTF-8: its words must fit into one row of an array.
MOST_BYTES = 119
# The code of cells whose name too few of the silo's rows have. No hash is negative.
OTHER = -1.0
# The code of missing cells where codes are arguments, which have no NaN.
MISSING = -2.0

_WHOLE = re.compile(r"[-+]?\d+\.0*")


def category_name(value: Any) -> str | None:
    """Return the name of a cell's category; None where the cell is missing.

    Files and databases write the same code as 1, 1.0 or the text "1": all three are the
    name "1". Other texts stay as they are, without white space around them.
    """
    if isinstance(value, str):
        text = value.strip()
        return text.partition(".")[0] if _WHOLE.fullmatch(text) else text or None
    if value is None or value != value:
        return None
    if isinstance(value, bool):
        return str(value)
    number = float(value)
    if not math.isfinite(number):
        raise DataError("A category is infinite.", rule="infinite_values")
    return str(int(number)) if number.is_integer() else repr(number)


def category_code(name: str) -> float:
    """Return the code of a category's name, the same in every silo.

    Two of 1,000 names have the same code with a probability of 1e-10.
    """
    hashed = hashlib.blake2b(name.encode(), digest_size=8, person=b"category").digest()
    return float(int.from_bytes(hashed) >> 12)


@final
class CategoricalTable(WrappedTable):
    """A table with columns of categories behind its columns of numbers.

    Parameters
    ----------
    table : Table
        Opened with the columns of categories among its `also`.
    categorical : sequence of str
        These columns.
    missing : mapping of str to a collection of str
        For some of these columns, names that mean a missing cell.

    Attributes
    ----------
    dictionary : dict of float to str
        The names that the silo has, by their codes. It stays in the silo.

    Raises
    ------
    DataError
        For a column with more than `MOST_CATEGORIES` names, with dates, or with a name
        that is longer than `MOST_BYTES`.
    """

    def __init__(
        self,
        table: Table,
        categorical: Sequence[str],
        missing: Mapping[str, Collection[str]] = MappingProxyType({}),
    ) -> None:
        check_known(list(missing), categorical, "Among its categories, the table")
        self._missing = missing
        self._table, self.categorical = table, tuple(categorical)
        self.columns = (*table.columns, *self.categorical)
        self.label, self.ids, self.named = table.label, table.ids, table.named
        self.also = tuple(n for n in table.also if n not in self.categorical)
        self.block_bytes = table.block_bytes
        self._counts = _counted(table, self.categorical, missing)
        self._codes = self._codes_of(0)

    def merging_rare(self, fewest: int) -> "CategoricalTable":
        """Return the table with names of fewer rows than `fewest` read as "other"."""
        merged = CategoricalTable.__new__(CategoricalTable)
        vars(merged).update(vars(self))
        merged._codes = self._codes_of(fewest)
        return merged

    def _codes_of(self, fewest: int) -> dict[str, dict[str | None, float]]:
        """Return the codes of each column's names; see `_codes`."""
        found = {name: _codes(counts, fewest) for name, counts in self._counts.items()}
        for name, texts in self._missing.items():
            found[name] |= dict.fromkeys(texts, found[name][None])
        return found

    @property
    def dictionary(self) -> dict[float, str]:
        """The names of the silo's categories by their codes."""
        every = [pair for codes in self._codes.values() for pair in codes.items()]
        return {
            code: name
            for name, code in every
            if name is not None and code == category_code(name)
        }

    def blocks(
        self, columns: Sequence[str], extra: Sequence[str] = (), rows: int | None = None
    ) -> Iterator[Block]:
        """Read the table from the first row to the last; see `Table.blocks`."""
        rows = rows_per_block(self, columns, extra, rows)
        numbers = [name for name in columns if name not in self._codes]
        texts = [name for name in columns if name in self._codes]
        self._table.block_bytes = self.block_bytes
        if not texts:
            return self._table.blocks(numbers, extra, rows)
        others = list(dict.fromkeys([*extra, *texts]))
        blocks = self._table.blocks(numbers, others, rows)
        return (self._coded(block, columns, numbers, extra) for block in blocks)

    def sparse_blocks(
        self, columns: Sequence[str], extra: Sequence[str] = ()
    ) -> Iterator[Block]:
        """Read the table; see `Table.sparse_blocks`."""
        if self._codes.keys() & {*columns}:
            return self.blocks(columns, extra)
        return self._table.sparse_blocks(columns, extra)

    def _coded(
        self,
        block: Block,
        columns: Sequence[str],
        numbers: Sequence[str],
        extra: Sequence[str],
    ) -> Block:
        X = np.empty((len(columns), len(block.X))).T
        place = {name: j for j, name in enumerate(numbers)}
        for j, name in enumerate(columns):
            if name in place:
                X[:, j] = block.X[:, place[name]]
            else:
                X[:, j] = _as_codes(block.extra[name], self._codes[name])
        return replace(block, X=X, extra={name: block.extra[name] for name in extra})


def merging_rare(table: Table, fewest: int) -> Table:
    """Return a silo's table with names of few of its rows read as "other".

    Parameters
    ----------
    table : Table
        With or without columns of categories.
    fewest : int
        Fewest rows of a name that is kept.
    """
    if isinstance(table, CategoricalTable):
        return table.merging_rare(fewest)
    return table


def coded(names: Iterable[Any]) -> Float[Array, " n"]:
    """Return the codes of cells, NaN for missing ones: for rows at hand."""
    found = [category_name(value) for value in names]
    codes = {name: np.nan if name is None else category_code(name) for name in found}
    return np.array([codes[name] for name in found], float)


def _counted(
    table: Table, categorical: Sequence[str], missing: Mapping[str, Collection[str]]
) -> dict[str, Counter[str | None]]:
    """Return how many rows have each name, by column; one pass over the rows."""
    counts = {name: Counter[str | None]() for name in categorical}
    check_known(categorical, [*table.columns, *table.roles.others], "The table")
    for block in table.blocks((), categorical):
        for column, cells in block.extra.items():
            if cells.dtype.kind == "M":
                raise DataError(
                    f"Column {column!r} holds dates, which are no categories. Leave "
                    f"it out (exclude)."
                )
            for value, count in Counter(cells.tolist()).items():
                name = category_name(value)
                name = None if name in missing.get(column, ()) else name
                counts[column][name] += count
            if len(counts[column]) > MOST_CATEGORIES + 1:
                raise DataError(
                    f"Column {column!r} has more than {MOST_CATEGORIES:,} different "
                    f"values, as free text has. Leave it out (exclude), or group its "
                    f"values first."
                )
    for column, names in counts.items():
        long = [n for n in names if n is not None and len(n.encode()) > MOST_BYTES]
        if long:
            raise DataError(
                f"Column {column!r} has {len(long):,} names of more than {MOST_BYTES} "
                f"bytes, such as {listing([long[0][:40]])}. Shorten them, or leave it "
                f"out (exclude)."
            )
    return counts


def _codes(counts: Counter[str | None], fewest: int) -> dict[str | None, float]:
    """Return the code of each name; names of fewer rows than `fewest` share one."""
    by_size = sorted((n, name) for name, n in counts.items() if name is not None)
    codes: dict[str | None, float] = {None: math.nan}
    codes |= {name: category_code(name) for _, name in by_size}
    n_rare = sum(n for n in counts.values() if n < fewest)
    read_as = OTHER
    if n_rare < fewest:
        many = counts[None] >= fewest or not by_size
        read_as = math.nan if many else codes[by_size[-1][1]]
    return codes | {name: read_as for name, n in counts.items() if n < fewest}


def _as_codes(
    cells: Shaped[Array, " n"], codes: Mapping[str | None, float]
) -> Float[Array, " n"]:
    values = cells.tolist()
    # Names are made once for each value: a column has few, and many rows.
    known = {value: codes.get(category_name(value), OTHER) for value in set(values)}
    return np.array([known[value] for value in values], float)

"""The categories of columns over all silos: their names, and how many rows have each.

    round 1    silos ── for each column, each name's count × (1, name) into three of 24
               cells ──> the names and their counts, of columns with few names
    round 2-   of the columns with more names: 24 further cells, then 48, 96, ...

The cells are an invertible Bloom lookup table (`unpooled.linalg.lookup_table`): they
are added over all silos before any is read, so that nobody learns which silo has which
name. A table is read together with the one before. All cells count in the silos'
budgets (`max_released_share`), two to four for a name. A name that few of a silo's
rows have is "other" in that silo, and no name there (`unpooled.data.categories`).
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, final

import numpy as np

from unpooled.arrays import Array, Float, Int
from unpooled.data.categories import (
    MOST_BYTES,
    MOST_CATEGORIES,
    OTHER,
    category_code,
)
from unpooled.data.columns import listing
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.linalg.lookup_table import WORD_BYTES, Words, as_bytes, as_words, names_in
from unpooled.protocol.step import public, release, summed

LOOKUP_TABLES = (
    "Goodrich MT, Mitzenmacher M. Invertible Bloom lookup tables. Allerton 2011."
)
# A byte for the kind and the name in UTF-8. Two words of a hash stand before it: the
# mean of "site 1" and "site 3" would read as "site 2".
_HASH = 6
WORDS = (_HASH + 1 + MOST_BYTES) // WORD_BYTES
SIZES = (24, 24, 48, 96, 192, 384, 768, 1536)
_PLACES = 3
# Kinds of names: a text, "other", a missing cell.
_TEXT, _OTHER, _MISSING = b"t", b"o", b"m"
# The number of categories that a plan assumes, since it does not know the names.
_PLANNED = 4

NAMES = release(
    f"p c {1 + WORDS}",
    meaning="the names of each column's categories and how many rows have them, "
    "added into the cells of a table that is read after it is added over all silos "
    "(invertible Bloom lookup table)",
    counts="names",
    # The words of a cell are its count times the words of a name.
    repeats=1 + WORDS,
)
# A number that so many of a silo's rows have is always sent by name.
MOST_SHARED = 10
LEAST_NAMED = public(
    "",
    "how many rows share a value that is named, at least",
    least="min_rows_per_class",
)


@summed(takes={"n_cells": "size c"}, names=NAMES)
def local_categories(
    cells: Float[Array, "n p"],
    dictionary: Mapping[float, str],
    *,
    n_cells: int,
    number: int,
) -> dict[str, Any]:
    """Add the names and counts of this silo's categories into the cells of a table.

    `number` is that of the table: each has other cells for a name.
    """
    return {"names": tables_of_names(cells, dictionary, n_cells, number)}


@summed(
    takes={"n_cells": "size c", "least": LEAST_NAMED},
    names=replace(
        NAMES,
        meaning="the values of each column that enough rows of a silo share, and how "
        "many rows have them, added into the cells of a table that only the silos' "
        "programs read (invertible Bloom lookup table)",
        veiled=True,
    ),
)
def local_values(
    X: Float[Array, "n p"], *, n_cells: int, number: int, least: int
) -> dict[str, Any]:
    """Add the values that some of a silo's rows share, and their counts, to a table.

    These are `least` rows, and no more than `MOST_SHARED`: what is left is "other", and
    with a limit as large as a silo is it would be all of the silo's rows. Missing cells
    are left out.
    """
    if np.isinf(X).any():
        raise DataError("A cell is infinite.", rule="infinite_values")
    tables = list[Float[Array, "c w"]]()
    for column in X.T:
        # 0 and -0 are one value.
        own, n_rows = np.unique(column[~np.isnan(column)] + 0.0, return_counts=True)
        many = n_rows >= min(least, MOST_SHARED)
        names = [_TEXT + repr(value).encode() for value in own[many].tolist()]
        counts = n_rows[many].tolist()
        if others := int(n_rows[~many].sum()):
            names, counts = [*names, _OTHER], [*counts, others]
        tables.append(_table(names, counts, n_cells, number))
    return {"names": np.array(tables)}


@final
@dataclass(frozen=True)
class Categories:
    """The categories of a column over all silos.

    Attributes
    ----------
    names : tuple of str
        In the order of text.
    counts : (k,) array of int
        Number of rows with each name.
    n_other : int
        Number of rows whose name too few of their silo's rows have.
    n_missing : int
        Number of rows with a missing cell.
    """

    names: tuple[str, ...]
    counts: Int[Array, " k"]
    n_other: int = 0
    n_missing: int = 0

    @property
    def n_rows(self) -> int:
        """Number of rows of all silos."""
        return int(self.counts.sum()) + self.n_other + self.n_missing

    @property
    def codes(self) -> Float[Array, " k"]:
        """The code of each name."""
        return np.array([category_code(name) for name in self.names], float)


def agreed_categories(federation: Federation) -> list[Categories]:
    """Return the categories of each column of a view of columns of categories.

    Parameters
    ----------
    federation : Federation
        A view whose columns all hold categories: ``federation.categorical``.

    Raises
    ------
    DataError
        Where a column holds numbers, or has more than `MOST_CATEGORIES` names.
    """
    check_categorical(federation)
    columns = federation.feature_names
    found, tables = dict[str, Categories](), dict[str, Float[Array, "l w"]]()
    for n_before, size in enumerate(SIZES):
        left = [name for name in columns if name not in found]
        if not left:
            break
        view = federation if len(left) == len(columns) else federation.select(left)
        totals = view.sum(local_categories, n_cells=size, number=n_before)["names"]
        if federation.coordinator.planned:
            return [_planned(federation.coordinator.n_rows)] * len(columns)
        # With more tables each name has more cells, and fewer of them to itself.
        numbers = range(max(n_before - 1, 0), n_before + 1)
        for name, table in zip(left, totals, strict=True):
            both = np.concatenate([*([tables[name]] if name in tables else []), table])
            if (read := categories_in(both, numbers)) is not None:
                found[name] = read
            tables[name] = table
    for name in columns:
        if name not in found or len(found[name].names) > MOST_CATEGORIES:
            raise DataError(
                f"Column {name!r} has more than {MOST_CATEGORIES:,} categories over "
                f"all silos. Leave it out, or group its names first."
            )
    return [found[name] for name in columns]


def tables_of_names(
    cells: Float[Array, "n p"],
    dictionary: Mapping[float, str],
    n_cells: int,
    number: int,
) -> Float[Array, "p c w"]:
    """Return tables with the names of each column's cells and how many have each.

    Parameters
    ----------
    cells : (n, p) array
        Codes.
    dictionary : mapping of float to str
        Their names.
    n_cells, number : int
        Size and number of each table; ``n_cells`` is ``SIZES[number]``.
    """
    tables = list[Array]()
    for column in cells.T:
        codes, counts = np.unique(column, return_counts=True)
        names = [_name_of(code, dictionary) for code in codes.tolist()]
        tables.append(_table(names, counts.tolist(), n_cells, number))
    return np.array(tables)


def categories_in(
    tables: Float[Array, "l w"], numbers: Sequence[int]
) -> Categories | None:
    """Return the categories in the totals of tables; None where they are too many.

    Parameters
    ----------
    tables : (l, w) array
        The tables of one column, each added over all silos.
    numbers : sequence of int
        The number of each table.
    """
    places = partial(_all_places, numbers=numbers)
    counts = names_in(np.rint(tables), places, _is_name)
    return None if counts is None else _categories(counts)


def words_of_name(name: str) -> list[int]:
    """Return the name of a category as whole numbers below 2^24."""
    return _words_of(_TEXT + name.encode())


def name_of_words(words: Sequence[int]) -> str:
    """Return the name of a category that is written as whole numbers.

    Raises
    ------
    ValueError
        Where they are none.
    """
    return _decoded(words)[1]


def check_categorical(federation: Federation) -> None:
    """Raise unless all columns of a view hold categories."""
    known = set(federation.categorical)
    if numbers := [name for name in federation.feature_names if name not in known]:
        raise DataError(
            f"{listing(numbers)} hold numbers, and categories are needed. Name columns "
            f"of categories where the silos' tables are opened, simulate(..., "
            f"categorical=[...]), or select such columns: federation.categorical."
        )


def _categories(counts: Mapping[Words, int]) -> Categories:
    names, others = dict[str, int](), {_OTHER: 0, _MISSING: 0}
    for words, count in counts.items():
        kind, name = _decoded(words)
        if kind == _TEXT:
            names[name] = count
        else:
            others[kind] = count
    ordered = sorted(names)
    sizes = np.array([names[name] for name in ordered], np.int64)
    return Categories(tuple(ordered), sizes, others[_OTHER], others[_MISSING])


def _planned(n_rows: int) -> Categories:
    names = tuple(f"category {k}" for k in range(1, _PLANNED + 1))
    return Categories(names, np.full(_PLANNED, max(n_rows // _PLANNED, 1)))


def _name_of(code: float, dictionary: Mapping[float, str]) -> bytes:
    """Return a code's kind and name in UTF-8."""
    if np.isnan(code):
        return _MISSING
    if code == OTHER:
        return _OTHER
    if code in dictionary:
        return _TEXT + dictionary[code].encode()
    raise DataError("A column holds numbers.", rule="categories")


def _table(
    names: Sequence[bytes], counts: Sequence[int], n_cells: int, number: int
) -> Float[Array, "c w"]:
    """Return a table's cells with names and their counts added into them."""
    table = np.zeros((n_cells, 1 + WORDS))
    for name, count in zip(names, counts, strict=True):
        words = _words_of(name)
        table[_places(words, n_cells, number)] += count * np.array([1, *words])
    return table


def _words_of(name: bytes) -> list[int]:
    """Return a name as whole numbers below 2^24."""
    return as_words(_hashed(name) + name.ljust(1 + MOST_BYTES, b"\0"))


def _decoded(words: Sequence[int]) -> tuple[bytes, str]:
    whole = as_bytes(words)
    name = whole[_HASH:].rstrip(b"\0")
    if whole[:_HASH] != _hashed(name):
        raise ValueError("not a name")
    return name[:1], name[1:].decode()


def _hashed(name: bytes) -> bytes:
    return hashlib.blake2b(name, digest_size=_HASH).digest()


def _is_name(words: Words) -> bool:
    try:
        _decoded(words)
    except (ValueError, OverflowError):
        return False
    return True


def _places(words: Sequence[int], n_cells: int, number: int) -> list[int]:
    """Return the cells of a name: one in each third of the table, so all differ."""
    name, third = as_bytes(words), n_cells // _PLACES
    third = n_cells // _PLACES
    return [
        place * third
        + int.from_bytes(
            hashlib.blake2b(
                name, digest_size=8, salt=f"{number} {place}".encode()
            ).digest()
        )
        % third
        for place in range(_PLACES)
    ]


def _all_places(words: Sequence[int], numbers: Sequence[int]) -> list[int]:
    """Return a name's cells in tables of these numbers, one behind the other."""
    starts = np.cumsum([0, *(SIZES[number] for number in numbers)]).tolist()
    return [
        start + place
        for number, start in zip(numbers, starts, strict=False)
        for place in _places(words, SIZES[number], number)
    ]

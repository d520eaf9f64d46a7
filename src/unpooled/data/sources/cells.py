"""Files whose cells come as Python values: workbooks, and files of statistics programs.

Such a file has no reliable types of columns: a column of a workbook is whatever its
cells are. One pass determines the types before blocks are read.
"""

import abc
import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, time
from typing import Any

import pyarrow as pa

from unpooled.data.columns import Roles
from unpooled.data.sources.delimited import WORDS
from unpooled.data.sources.streamed import Batches, Reader, Survey, naming_missing

# Texts of a missing cell, and the one that Excel shows for a value that is not
# available.
_MISSING = frozenset((*WORDS, "#N/A", ""))
_MOST_INTEGER = 2**53  # beyond, floats skip integers


class CellReader(Reader):
    """Reads a file in chunks of columns, each a list of Python values."""

    _with_text = ""  # a feature column that has a text

    @abc.abstractmethod
    def chunks(self, columns: Sequence[str]) -> Iterator[dict[str, list[Any]]]:
        """Yield the cells of these columns, some rows at a time."""

    def survey(self, features: Sequence[str], roles: Roles) -> Survey:
        """Read the file once; count rows and determine the types."""
        text: dict[str, str] = {}
        kinds = {name: set[pa.DataType]() for name in (*features, *roles.others)}
        has_missing = dict.fromkeys(kinds, False)
        n_rows = 0
        for chunk in self._chunks(list(kinds)):
            for name, cells in chunk.items():
                found = [_kind(cell) for cell in cells]
                kinds[name].update(kind for kind in found if kind is not None)
                has_missing[name] |= None in found
                if name in features and name not in text and pa.string() in found:
                    first = found.index(pa.string())
                    what = _word(cells[first])
                    self._with_text = name if what == "text" else self._with_text
                    text[name] = f"{what}, first in data row {n_rows + first + 1}"
            n_rows += len(next(iter(chunk.values())))
        types = {
            name: pa.float64() if name in features else _common(found)
            for name, found in kinds.items()
        }
        return Survey(n_rows, types, has_missing, text)

    def batches(self, types: Mapping[str, pa.DataType]) -> Batches:
        """Yield the chunks of these columns as these types."""
        for chunk in self._chunks(list(types)):
            arrays = {
                name: pa.array([_as(cell, types[name]) for cell in chunk[name]], kind)
                for name, kind in types.items()
            }
            yield pa.table(arrays)

    def hint(self) -> str:
        """Return how to name texts that mean a missing cell, where there are any."""
        return naming_missing(self._with_text) if self._with_text else ""

    def _chunks(self, columns: Sequence[str]) -> Iterator[dict[str, list[Any]]]:
        """Yield the chunks of these columns, texts that mean a missing cell as None."""
        for chunk in self.chunks(columns):
            for name in chunk.keys() & self.missing:
                texts = self.missing[name]
                chunk[name] = [
                    None if isinstance(cell, str) and cell.strip() in texts else cell
                    for cell in chunk[name]
                ]
            yield chunk


def _kind(cell: Any) -> pa.DataType | None:
    """Return the narrowest type of a cell, or None where it is missing."""
    if cell is None or (isinstance(cell, str) and cell.strip() in _MISSING):
        return None
    if isinstance(cell, bool):
        return pa.bool_()
    if isinstance(cell, float) and math.isnan(cell):
        return None
    if isinstance(cell, int | float):
        whole = abs(cell) <= _MOST_INTEGER and cell == int(cell)
        return pa.int64() if whole else pa.float64()
    return pa.string()


def _common(kinds: set[pa.DataType]) -> pa.DataType:
    """Return the type of a label or of ids, as a text file would have it."""
    if not kinds:
        return pa.null()
    if len(kinds) == 1:
        return next(iter(kinds))
    return pa.float64() if kinds == {pa.int64(), pa.float64()} else pa.string()


def _as(cell: Any, kind: pa.DataType) -> Any:
    found = _kind(cell)
    if found is None:
        return None
    if pa.types.is_string(kind):
        return str(int(cell) if found == pa.int64() else cell)
    if pa.types.is_integer(kind):
        return int(cell)
    return float(cell) if pa.types.is_floating(kind) else cell


def _word(cell: Any) -> str:
    return "dates" if isinstance(cell, date | datetime | time) else "text"

"""CSV and TSV files, plain or compressed, read a few megabytes at a time.

A column that begins with empty cells and has fractions later must not change its type
midway. So one pass over the file as text determines the types before blocks are read.
"""

import codecs
import csv as python_csv
import io
import json
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import final

# pyarrow makes its compute functions at import, where pyright cannot see them.
# pyright: reportAttributeAccessIssue=false
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from unpooled.data.columns import Roles
from unpooled.data.sources.streamed import Batches, Reader, Survey, naming_missing
from unpooled.errors import DataError

# Arrow reads up to 32 blocks ahead, so blocks are small. But a row must fit into a
# block, and a number takes at most 25 characters with its delimiter.
READ_BYTES, CELL_BYTES = 2**21, 32
GATHERED_BYTES = 2**24  # converted together, since each batch costs time per column
WORDS = ("NA", "N/A", "NaN", "nan", "null", "NULL", "None", "?")
# Arrow compares cells with these before it trims white space.
MISSING = [*(" " * n for n in range(9))] + [
    f"{before}{word}{after}"
    for word in WORDS
    for before in ("", " ")
    for after in ("", " ")
]
_NUMBER = re.compile(r"\s*[-+]?\d+([.,]\d*)?([eE][-+]?\d+)?\s*")
_WITH_COMMA = re.compile(r"\s*[-+]?\d+,\d+([eE][-+]?\d+)?\s*")
_HEAD_BYTES = 2**12
_WIDE_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_SEPARATORS = (";", "\t", "|", ",")
TRUE, FALSE = ["true", "True", "TRUE"], ["false", "False", "FALSE"]
Kinds = tuple[pa.DataType, ...]  # a column has the first type that fits
NUMBER_KINDS: Kinds = (pa.float64(), pa.bool_())
LABEL_KINDS: Kinds = (pa.int64(), pa.float64(), pa.bool_(), pa.string())


@final
class DelimitedReader(Reader):
    """Reads text whose first line names the columns.

    Parameters
    ----------
    path : Path
        The file; the compression, if any, follows from its extension.
    delimiter : str
        The character between two cells.
    decimal : {".", ","}, default "."
        The character before the fraction of a number.
    encoding : str, default "utf-8"
        The encoding of the text.
    """

    def __init__(
        self, path: Path, delimiter: str, decimal: str = ".", encoding: str = "utf-8"
    ) -> None:
        if delimiter == decimal:
            raise DataError(
                f"separator and decimal are both {decimal!r}. Files with a decimal "
                f'comma have another separator, most often separator=";".'
            )
        self._path, self._delimiter = path, delimiter
        self._decimal, self._encoding = decimal, encoding
        self._with_comma, self._with_text = False, ""

    def names(self) -> list[str]:
        """Return the column names from the first line of the file."""
        with (
            pa.input_stream(str(self._path)) as stream,
            io.TextIOWrapper(stream, self._codec(), newline="") as text,
        ):
            try:
                lines = python_csv.reader(text, delimiter=self._delimiter)
                names = next((line for line in lines if line), None)
            except (UnicodeError, python_csv.Error) as error:
                raise pa.ArrowInvalid(f"its first line: {error}") from error
        if names is None:
            raise pa.ArrowInvalid("it is empty")
        if are_values(names):
            raise pa.ArrowInvalid(
                "its first line holds numbers, not the names of columns"
            )
        return names

    def survey(self, features: Sequence[str], roles: Roles) -> Survey:
        """Read the file once as text; count rows and determine the types."""
        kinds: dict[str, Kinds] = dict.fromkeys(features, NUMBER_KINDS)
        kinds |= dict.fromkeys(roles.also, LABEL_KINDS)
        if roles.label is not None:
            kinds[roles.label] = LABEL_KINDS
        # As numbers, ids and codes such as 007 would lose zeros.
        kinds |= dict.fromkeys(roles.categorical, (pa.string(),))
        if roles.ids is not None:
            kinds[roles.ids] = (pa.string(),)
        text: dict[str, str] = {}
        has_missing = dict.fromkeys(kinds, False)
        n_rows = 0
        for batch in self.batches(dict.fromkeys(kinds, pa.string())):
            for name, cells in zip(batch.column_names, batch.columns, strict=True):
                has_missing[name] |= cells.null_count > 0
                left = tuple(
                    kind for kind in kinds[name] if _parses(cells, kind, self._decimal)
                )
                if kinds[name] and not left:
                    place = _first_unparsed(cells, kinds[name][0], self._decimal)
                    comma = bool(_WITH_COMMA.fullmatch(cells[place].as_py()))
                    what = "numbers with a decimal comma" if comma else "text"
                    text[name] = f"{what}, first in data row {n_rows + place + 1}"
                    self._with_comma |= comma
                    self._with_text = self._with_text if comma else name
                kinds[name] = left
            n_rows += batch.num_rows
        types = {name: left[0] if left else pa.string() for name, left in kinds.items()}
        return Survey(n_rows, types, has_missing, text)

    def batches(self, types: Mapping[str, pa.DataType]) -> Batches:
        """Yield batches of these columns as these types."""
        # A column with texts that mean a missing cell can be read as numbers only
        # after these are taken out.
        read_as = dict(types) | {n: pa.string() for n in self.missing if n in types}
        for batch in self._gathered(read_as):
            for name in read_as.keys() & self.missing:
                cells = _without(batch[name], self.missing[name])
                cells = _as(cells, types[name], self._decimal)
                place = batch.column_names.index(name)
                batch = batch.set_column(place, name, cells)
            yield batch

    def _gathered(self, types: Mapping[str, pa.DataType]) -> Batches:
        with self._open(types) as stream:
            held: list[pa.RecordBatch] = []
            n_bytes = 0
            for batch in stream:
                held.append(batch)
                n_bytes += batch.nbytes
                if n_bytes >= GATHERED_BYTES:
                    yield pa.Table.from_batches(held)
                    held, n_bytes = [], 0
            if held:
                yield pa.Table.from_batches(held)

    def hint(self) -> str:
        """Return which key of the format the file's beginning, or a cell, asks for."""
        if self._with_comma:
            return 'For numbers with a decimal comma give decimal = ",".'
        if self._with_text:
            return naming_missing(self._with_text)
        with pa.input_stream(str(self._path)) as stream:
            head = stream.read(_HEAD_BYTES)
        wide = codecs.lookup(self._encoding).name.startswith(("utf-16", "utf-32"))
        if not wide and (head[:2] in _WIDE_MARKS or b"\0" in head):
            return 'It is text in UTF-16: give encoding = "utf-16".'
        try:
            # Not final: the last character may be cut.
            text = codecs.getincrementaldecoder(self._codec())().decode(head)
        except UnicodeError:
            return (
                f"It is not text in {self._encoding}: give its encoding, in Western "
                f'Europe most often encoding = "cp1252".'
            )
        first = text.partition("\n")[0]
        for other in _SEPARATORS:
            if self._delimiter not in first and other in first:
                comma = other != "," and re.search(r"\d,\d", text)
                also = ', and decimal = ","' if comma and self._decimal == "." else ""
                return (
                    f"Its first line has no {self._delimiter!r} but {other!r}: give "
                    f"separator = {json.dumps(other)}{also}."
                )
        return ""

    def _codec(self) -> str:
        """Return the codec that also skips a byte order mark."""
        utf8 = codecs.lookup(self._encoding).name == "utf-8"
        return "utf-8-sig" if utf8 else self._encoding

    def _open(self, types: Mapping[str, pa.DataType]) -> csv.CSVStreamingReader:
        return csv.open_csv(
            self._path,
            read_options=csv.ReadOptions(
                block_size=max(READ_BYTES, CELL_BYTES * len(self.names())),
                encoding=self._encoding,
            ),
            parse_options=csv.ParseOptions(
                delimiter=self._delimiter, newlines_in_values=True
            ),
            convert_options=csv.ConvertOptions(
                include_columns=list(types),
                column_types=dict(types),
                null_values=MISSING,
                strings_can_be_null=True,
                decimal_point=self._decimal,
                true_values=TRUE,
                false_values=FALSE,
            ),
        )


def are_values(names: Sequence[str]) -> bool:
    """Whether a first line looks like data. Names leave the silo, data must not.

    Consecutive numbers (0, 1, 2, ... or 1, 2, 3, ...) pass as names, and so do integers
    among words, such as years.
    """
    if any(names == [str(j) for j in range(o, o + len(names))] for o in (0, 1)):
        return False
    numbers = [name for name in names if _NUMBER.fullmatch(name)]
    words = set(names).difference(numbers, MISSING)
    return bool(numbers) and (not words or any("." in n or "," in n for n in numbers))


def _parses(cells: pa.ChunkedArray, kind: pa.DataType, decimal: str) -> bool:
    """Whether all cells that are not missing can be read as this type."""
    if pa.types.is_string(kind):
        return True
    if pa.types.is_boolean(kind):
        known = pa.array([*TRUE, *FALSE])
        fits = pc.or_(pc.is_in(cells, known), pc.is_null(cells))
        return pc.all(fits, min_count=0).as_py()  # there may be no cells
    if decimal != "." and pa.types.is_floating(kind):
        if pc.any(pc.match_substring(cells, "."), min_count=0).as_py():
            return False  # a point is then no decimal point: 1.234 may be thousands
        cells = pc.replace_substring(cells, decimal, ".")
    try:
        pc.cast(pc.utf8_trim(cells, " \t"), kind)  # as Arrow's reader does
    except pa.ArrowInvalid:
        return False
    return True


def _without(cells: pa.ChunkedArray, texts: Collection[str]) -> pa.ChunkedArray:
    """Return cells of text with those missing that are one of some texts."""
    known = pa.array(sorted(texts), pa.string())
    is_one = pc.is_in(pc.utf8_trim(cells, " \t"), known)
    return pc.if_else(is_one, pa.scalar(None, pa.string()), cells)


def _as(cells: pa.ChunkedArray, kind: pa.DataType, decimal: str) -> pa.ChunkedArray:
    """Return cells of text, which can be read as a type (`_parses`), as this type."""
    if pa.types.is_string(kind):
        return cells
    if pa.types.is_boolean(kind):
        known = pc.is_in(cells, pa.array(TRUE))
        return pc.if_else(pc.is_null(cells), pa.scalar(None, pa.bool_()), known)
    if decimal != ".":
        cells = pc.replace_substring(cells, decimal, ".")
    return pc.cast(pc.utf8_trim(cells, " \t"), kind)


def _first_unparsed(cells: pa.ChunkedArray, kind: pa.DataType, decimal: str) -> int:
    """Return the index of the first cell that cannot be read as this type."""
    # Bisection: cells[:low] can be read, cells[:high] cannot.
    low, high = 0, len(cells)
    while high - low > 1:
        middle = (low + high) // 2
        if _parses(cells[low:middle], kind, decimal):
            low = middle
        else:
            high = middle
    return low

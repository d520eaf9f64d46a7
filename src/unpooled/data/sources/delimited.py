"""CSV and TSV files, plain or compressed, read a few megabytes at a time.

A column that begins with empty cells and has fractions later must not change its type
midway. So one pass over the file as text determines the types before blocks are read.
"""

import csv as python_csv
import io
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import final

# pyarrow makes its compute functions at import, where pyright cannot see them.
# pyright: reportAttributeAccessIssue=false
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from unpooled.data.columns import Roles
from unpooled.data.sources.streamed import Batches, Reader, Survey

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
_NUMBER = re.compile(r"\s*[-+]?\d+(\.\d*)?([eE][-+]?\d+)?\s*")
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
    """

    def __init__(self, path: Path, delimiter: str) -> None:
        self._path, self._delimiter = path, delimiter

    def names(self) -> list[str]:
        """Return the column names from the first line of the file."""
        with (
            pa.input_stream(str(self._path)) as stream,
            io.TextIOWrapper(stream, encoding="utf-8-sig", newline="") as text,
        ):
            try:
                lines = python_csv.reader(text, delimiter=self._delimiter)
                names = next((line for line in lines if line), None)
            except (UnicodeDecodeError, python_csv.Error) as error:
                raise pa.ArrowInvalid(f"its first line: {error}") from error
        if names is None:
            raise pa.ArrowInvalid("it is empty")
        if _are_values(names):
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
        if roles.ids is not None:
            # As numbers, ids such as 007 would lose zeros.
            kinds[roles.ids] = (pa.string(),)
        text: dict[str, str] = {}
        has_missing = dict.fromkeys(kinds, False)
        n_rows = 0
        for batch in self.batches(dict.fromkeys(kinds, pa.string())):
            for name, cells in zip(batch.column_names, batch.columns, strict=True):
                has_missing[name] |= cells.null_count > 0
                left = tuple(kind for kind in kinds[name] if _parses(cells, kind))
                if kinds[name] and not left:
                    row = n_rows + _first_unparsed(cells, kinds[name][0])
                    text[name] = f"text, first in data row {row + 1}"
                kinds[name] = left
            n_rows += batch.num_rows
        types = {name: left[0] if left else pa.string() for name, left in kinds.items()}
        return Survey(n_rows, types, has_missing, text)

    def batches(self, types: Mapping[str, pa.DataType]) -> Batches:
        """Yield batches of these columns as these types."""
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

    def _open(self, types: Mapping[str, pa.DataType]) -> csv.CSVStreamingReader:
        return csv.open_csv(
            self._path,
            read_options=csv.ReadOptions(
                block_size=max(READ_BYTES, CELL_BYTES * len(self.names()))
            ),
            parse_options=csv.ParseOptions(
                delimiter=self._delimiter, newlines_in_values=True
            ),
            convert_options=csv.ConvertOptions(
                include_columns=list(types),
                column_types=dict(types),
                null_values=MISSING,
                strings_can_be_null=True,
                true_values=TRUE,
                false_values=FALSE,
            ),
        )


def _are_values(names: Sequence[str]) -> bool:
    """Whether a first line looks like data. Names leave the silo, data must not.

    Consecutive numbers (0, 1, 2, ... or 1, 2, 3, ...) pass as names, and so do integers
    among words, such as years.
    """
    if any(names == [str(j) for j in range(o, o + len(names))] for o in (0, 1)):
        return False
    numbers = [name for name in names if _NUMBER.fullmatch(name)]
    words = set(names).difference(numbers, MISSING)
    return bool(numbers) and (not words or any("." in number for number in numbers))


def _parses(cells: pa.ChunkedArray, kind: pa.DataType) -> bool:
    """Whether all cells that are not missing can be read as this type."""
    if pa.types.is_string(kind):
        return True
    if pa.types.is_boolean(kind):
        known = pa.array([*TRUE, *FALSE])
        fits = pc.or_(pc.is_in(cells, known), pc.is_null(cells))
        return pc.all(fits, min_count=0).as_py()  # there may be no cells
    try:
        pc.cast(pc.utf8_trim(cells, " \t"), kind)  # as Arrow's reader does
    except pa.ArrowInvalid:
        return False
    return True


def _first_unparsed(cells: pa.ChunkedArray, kind: pa.DataType) -> int:
    """Return the index of the first cell that cannot be read as this type."""
    # Bisection: cells[:low] can be read, cells[:high] cannot.
    low, high = 0, len(cells)
    while high - low > 1:
        middle = (low + high) // 2
        if _parses(cells[low:middle], kind):
            low = middle
        else:
            high = middle
    return low

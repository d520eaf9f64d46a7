"""Tables that are read batch by batch, so that memory does not grow with the rows.

A reader returns batches of any size; the table cuts the stream into blocks of exactly
the requested number of rows.
"""

import abc
from collections.abc import (
    Collection,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import final

import numpy as np
import pyarrow as pa

from unpooled.arrays import Array, Shaped
from unpooled.data.columns import NO_ROLES, Roles, check_known, refuse_text
from unpooled.data.row_blocks import Block
from unpooled.data.sources.arrow import numbers_of, values_of
from unpooled.data.table import SlicedTable
from unpooled.data.toml import toml_text
from unpooled.errors import DataError

Batches = Generator[pa.Table, None, None]
_OTHER_NAMES = (
    "Where the file has another name for a column, rename gives it the study's: "
    'in Python {"ILL": "ill"}, in a file { ILL = "ill" }.'
)


class DamagedError(OSError):
    """A source cannot be read, whatever is asked of it: it is damaged."""


@dataclass(frozen=True)
class Survey:
    """Number of rows, and types and missing cells of columns, of a source.

    Attributes
    ----------
    n_rows : int
        Number of rows of the source.
    types : mapping of str to pyarrow.DataType
        The type as which each column is read.
    has_missing : mapping of str to bool
        Whether the label and the ids have missing cells.
    text : mapping of str to str
        What feature columns that are not numbers hold, by name.
    """

    n_rows: int
    types: Mapping[str, pa.DataType]
    has_missing: Mapping[str, bool]
    text: Mapping[str, str]


class Reader(abc.ABC):
    """Reads one kind of source.

    Reading errors are OSError or one of Arrow's exceptions; the table converts them to
    a DataError that names the source. No row can cause a ConnectionError, a
    DamagedError, or an error that has the number of a system call's (`errno`).

    Attributes
    ----------
    missing : mapping of str to a collection of str
        For feature columns, the texts that mean a missing cell, such as "n/d". Only
        readers of sources where a cell of a column of numbers may be a text obey it.
    """

    missing: Mapping[str, Collection[str]] = MappingProxyType({})

    @abc.abstractmethod
    def names(self) -> list[str]:
        """Return all column names in the order of the source, with repetitions."""

    @abc.abstractmethod
    def survey(self, features: Sequence[str], roles: Roles) -> Survey:
        """Return row count and column types, found in bounded memory."""

    @abc.abstractmethod
    def batches(self, types: Mapping[str, pa.DataType]) -> Batches:
        """Read these columns, and no others, as tables of any number of rows."""

    def hint(self) -> str:
        """Return a sentence about why a source may not fit."""
        return ""


class StreamedTable(SlicedTable):
    """A table whose rows are read from the source in every pass.

    Parameters
    ----------
    source : str
        What to call the source at the start of an error, such as "The file a.csv".
    remedy : str
        What to check when it cannot be read: a sentence without its full stop.
    reader : Reader
        Reads its kind of source.
    roles : Roles
        The label, the ids, and the only feature columns wanted.
    """

    def __init__(self, source: str, remedy: str, reader: Reader, roles: Roles) -> None:
        self._source, self._remedy, self._reader = source, remedy, reader
        try:
            self.columns = roles.features(reader.names(), source)
            named = (
                f"Among the columns that are studied, {source[:1].lower()}{source[1:]}"
            )
            unread = roles.unread(self.columns)
            texts = [name for name in reader.missing if name not in unread]
            check_known(texts, self.columns, named)
            roles = roles.beside(self.columns)
            self._survey = reader.survey(self.columns, roles)
            refuse_text(dict(self._survey.text), source)
        except (pa.ArrowException, OSError) as error:
            raise self._unreadable(error) from error
        except DataError as wrong:
            raise DataError(f"{wrong}{self._hint()}", rule=wrong.rule) from wrong
        self.label, self.ids, self.named = roles.label, roles.ids, True
        self.also = roles.also
        if not self.n_rows:
            raise DataError(
                f"{source} has no rows. Leave a silo without data out of the study."
            )

    @property
    def n_rows(self) -> int:
        """Number of rows of the source when it was opened."""
        return self._survey.n_rows

    def _blocks(
        self, columns: list[str], extra: list[str], rows: int
    ) -> Iterator[Block]:
        # Some sources need a column to count rows, even when none is requested.
        wanted = [*columns, *extra] or [*self.columns, *self.also][:1]
        types = {name: self._survey.types[name] for name in wanted}
        try:
            # closing: a pass that is abandoned must not keep a file or a database open
            # and its rows locked.
            with closing(self._reader.batches(types)) as batches:
                pieces = cut(batches, rows)
                for start in range(0, self.n_rows, rows):
                    size = min(rows, self.n_rows - start)
                    yield self._block(start, size, pieces, columns, extra)
                if next(pieces, None) is not None:
                    raise self._changed()
        except (pa.ArrowException, OSError) as error:
            raise self._unreadable(error) from error

    def _block(
        self,
        start: int,
        size: int,
        pieces: Iterator[pa.Table],
        columns: list[str],
        extra: list[str],
    ) -> Block:
        """Return a block, filled piece by piece so that there is no second copy."""
        X = np.empty((len(columns), size)).T
        values: dict[str, list[Array]] = {name: [] for name in extra}
        filled = 0
        while filled < size:
            piece = next(pieces, None)
            if piece is None or filled + len(piece) > size:
                raise self._changed()
            end = filled + len(piece)
            for j, name in enumerate(columns):
                X[filled:end, j] = numbers_of(piece[name])
            for name in extra:
                values[name].append(self._values(piece[name], name))
            filled = end
        return Block(start, X, {n: np.concatenate(v) for n, v in values.items()})

    def _values(self, column: pa.ChunkedArray, name: str) -> Shaped[Array, " n"]:
        if name in self.columns:
            return numbers_of(column)
        return values_of(column, self._survey.has_missing[name])

    def _changed(self) -> DataError:
        return DataError(
            f"{self._source} changed since it was opened, so passes over it would see "
            f"different rows. Open it again.",
            rule="source_changed",
        )

    def _unreadable(self, error: Exception) -> DataError:
        text = f"{self._source} cannot be read: {error}. {self._remedy}.{self._hint()}"
        # Neither is a refusal that depends on rows: an outage must not use those up.
        if isinstance(error, DamagedError):
            return DataError(text, rule="source_damaged")
        if isinstance(error, ConnectionError) or getattr(error, "errno", None):
            return DataError(text, rule="source_unavailable")
        return DataError(text)

    def _hint(self) -> str:
        try:
            hint = self._reader.hint()
        except (pa.ArrowException, OSError):
            return ""  # the error at hand says more
        return f" {hint}" if hint else ""


def naming_missing(column: str) -> str:
    """Return how to say which texts of a column of numbers mean a missing cell."""
    name = toml_text(column)
    return (
        f"Texts that mean a missing cell are named by missing: in Python "
        f'{{{name}: ["n/d"]}}, in a file {{ {name} = ["n/d"] }}.'
    )


@final
class FileTable(StreamedTable):
    """A table in a file, whose rows are read from the disk in every pass.

    Parameters
    ----------
    path : Path
        The file.
    reader : Reader
        Reads the format of the file.
    roles : Roles, optional
        The label, the ids, and the only feature columns wanted.
    """

    def __init__(self, path: Path, reader: Reader, roles: Roles = NO_ROLES) -> None:
        self._path, self._reader = path, reader
        self._source = f"The file {path}"
        self._remedy = (
            "Check that it is complete, that its content fits its ending, that text is "
            "UTF-8 (or name its encoding), and that this user may read it"
        )
        self._was_read, self._version = False, self._version_now()
        try:
            super().__init__(self._source, self._remedy, reader, roles)
        except DataError as wrong:
            if wrong.rule != "unknown_columns":
                raise
            raise DataError(f"{wrong} {_OTHER_NAMES}", rule=wrong.rule) from wrong
        self._was_read = True

    def blocks(
        self, columns: Sequence[str], extra: Sequence[str] = (), rows: int | None = None
    ) -> Iterator[Block]:
        """Read the file from the first row to the last; see `Table.blocks`."""
        blocks = super().blocks(columns, extra, rows)
        self._check_version()
        return blocks

    def _blocks(
        self, columns: list[str], extra: list[str], rows: int
    ) -> Iterator[Block]:
        for block in super()._blocks(columns, extra, rows):
            # Before the last block is yielded, after which the caller may stop: rows
            # that were replaced while they were read are of no one table.
            if block.start + len(block.X) == self.n_rows:
                self._check_version()
            yield block

    def _unreadable(self, error: Exception) -> DataError:
        found = super()._unreadable(error)
        if found.rule == "source_unavailable":
            return found
        if self._version_now() != self._version:
            return self._changed()
        # Its cells fitted their types when it was opened: what fails now is no cell.
        return super()._unreadable(DamagedError(error)) if self._was_read else found

    def _check_version(self) -> None:
        if self._version_now() != self._version:
            raise self._changed()

    def _version_now(self) -> tuple[int, int]:
        try:
            state = self._path.stat()
        except OSError as error:
            raise super()._unreadable(error) from error
        return state.st_size, state.st_mtime_ns


def cut(batches: Iterable[pa.Table], rows: int) -> Iterator[pa.Table]:
    """Cut a stream of batches at the multiples of `rows`."""
    start = 0
    for batch in batches:
        offset = 0
        while offset < batch.num_rows:
            length = min(rows - start % rows, batch.num_rows - offset)
            yield batch.slice(offset, length)
            offset += length
            start += length

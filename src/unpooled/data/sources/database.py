"""Tables in databases, read through ADBC as streams of Arrow batches.

                        names, types            once, on opening
    SQLite      ─┐   ┌─ COUNT(*) ...
                 ├───┤
    PostgreSQL  ─┘   └─ SELECT "age", "chol"    in every pass: only the requested
                          │                     columns, a few megabytes at a time
                          ▼
                        blocks ──> a digest of each column, the same in every pass

All passes over a table must read the same rows in the same order, or the sums of one
study would be about different people. A pass is one statement, which reads one state of
the table. Between passes, a digest of each column shows whether the state has changed.
"""

import abc
import difflib
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, final

import numpy as np
import pyarrow as pa

from unpooled.arrays import Array, Shaped
from unpooled.data.columns import Roles
from unpooled.data.row_blocks import Block
from unpooled.data.sources.database_address import DatabaseAddress
from unpooled.data.sources.streamed import (
    Batches,
    DamagedError,
    Reader,
    StreamedTable,
)

BATCH_BYTES = 2**22  # of numbers, fetched at a time
MOST_EXPRESSIONS = 500  # in one SELECT, well below the limit of either database

Cursor = Any  # adbc_driver_manager.dbapi.Cursor; the package may be absent
Connection = Any


class DatabaseReader(Reader):
    """Reads one table, or one query, of a database.

    Parameters
    ----------
    address : DatabaseAddress
        Address of the table or query.
    """

    def __init__(self, address: DatabaseAddress) -> None:
        self._address = address

    @abc.abstractmethod
    def connect(self) -> Connection:
        """Return a connection for reading only."""

    def rows(self, cursor: Cursor) -> str:
        """Return the SQL after FROM; raise when the table does not exist."""
        if self._address.query is not None:
            # On lines of its own: the query may end in a comment.
            return f"(\n{self._address.query}\n) AS rows_of_silo"
        return self.table(cursor, str(self._address.table))

    @abc.abstractmethod
    def table(self, cursor: Cursor, wanted: str) -> str:
        """Return a table's name in SQL; raise when there is no such table."""

    @abc.abstractmethod
    def batches(self, types: Mapping[str, pa.DataType]) -> Batches:
        """Yield these columns, and no others, as tables of any number of rows."""

    def names(self) -> list[str]:
        """Return the column names in the order of the table or query."""
        with self.cursor() as cursor:
            cursor.execute(f"SELECT * FROM {self.rows(cursor)} LIMIT 0")
            return cursor.fetch_arrow_table().schema.names

    @contextmanager
    def cursor(self) -> Iterator[Cursor]:
        """Open a connection for a ``with`` block; raise OSError without secrets.

        It is a ConnectionError where the database cannot be reached, or no longer, and
        a DamagedError where it is damaged.
        """
        from adbc_driver_manager import Error

        kind: type[OSError] = ConnectionError
        try:
            connection = self.connect()
            try:
                with connection.cursor() as cursor:
                    yield cursor
            except (Error, OSError, pa.ArrowException):
                # The driver says the same of a cell that cannot be converted as of a
                # server that is away, but for the words.
                with suppress(Error, OSError, pa.ArrowException):
                    kind = OSError if self.is_sound(connection) else DamagedError
                raise
            finally:
                connection.close()
        except (Error, OSError, pa.ArrowException) as error:
            # Not "from error": a driver may repeat the address with the password.
            raise kind(self._address.without_secrets(_wording(error))) from None

    def is_sound(self, connection: Connection) -> bool:
        """Whether a database is undamaged; raise where it answers nothing more."""
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
            cursor.fetchall()
        return True

    def one_row(self, cursor: Cursor, expressions: Sequence[str]) -> list[Any]:
        """Return expressions over all rows, as many at a time as a SELECT allows."""
        values: list[Any] = []
        source = self.rows(cursor)
        for start in range(0, len(expressions), MOST_EXPRESSIONS):
            some = expressions[start : start + MOST_EXPRESSIONS]
            # LIMIT, for expressions that are not aggregates.
            cursor.execute(f"SELECT {', '.join(some)} FROM {source} LIMIT 1")
            values += cursor.fetchone() or [None] * len(some)
        return values


@final
class DatabaseTable(StreamedTable):
    """A table or query whose rows are read from the database in every pass.

    Parameters
    ----------
    address : DatabaseAddress
        Address of the table or query.
    reader : DatabaseReader
        Reads its kind of database.
    roles : Roles
        The label, the ids, and the only feature columns wanted.
    """

    def __init__(
        self, address: DatabaseAddress, reader: DatabaseReader, roles: Roles
    ) -> None:
        self._digests: dict[str, int] = {}
        remedy = (
            "Check the address, that the server can be reached, and that this user may "
            "read the table"
        )
        super().__init__(address.source, remedy, reader, roles)

    def _blocks(
        self, columns: list[str], extra: list[str], rows: int
    ) -> Iterator[Block]:
        digests: dict[str, int] = {}
        for block in super()._blocks(columns, extra, rows):
            for name, values in _columns(block, columns):
                digests[name] = _digest(values, digests.get(name, 0))
            # Before the last block is yielded, after which the caller may stop.
            if block.start + len(block.X) == self.n_rows:
                self._compare(digests)
            yield block

    def _compare(self, digests: Mapping[str, int]) -> None:
        """Raise when a column differs from that of an earlier pass."""
        for name, digest in digests.items():
            if self._digests.setdefault(name, digest) != digest:
                raise self._changed()


def quoted(name: str) -> str:
    """Return a name as an SQL identifier, whatever characters it has."""
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


def configured(connection: Connection, statement: str) -> Connection:
    """Return a connection after a first statement; close it where that fails."""
    try:
        with connection.cursor() as cursor:
            cursor.execute(statement)
            cursor.fetchall()
    except BaseException:
        connection.close()
        raise
    return connection


def similar(wanted: str, known: Iterable[str]) -> str:
    """Return the question whether a similar name was meant; empty without one."""
    close = difflib.get_close_matches(wanted, list(known), n=1)
    return f"Did you mean {close[0]!r}? " if close else ""


def rows_per_batch(n_columns: int) -> int:
    """Return the number of rows fetched at a time."""
    return max(64, BATCH_BYTES // (8 * n_columns))


def _columns(
    block: Block, columns: list[str]
) -> Iterator[tuple[str, Shaped[Array, " n"]]]:
    seen = set()
    for j, name in enumerate(columns):
        if name not in seen:
            seen.add(name)
            yield name, block.X[:, j]
    # A feature may also be among the extra columns; one digest is enough.
    yield from ((n, v) for n, v in block.extra.items() if n not in seen)


def _digest(values: Shaped[Array, " n"], before: int) -> int:
    """Continue a column's digest, which does not depend on the block length."""
    if values.dtype == object:
        # A separator that no cell's repr contains.
        text = "".join(f"{value!r}\n" for value in values)
        return zlib.crc32(text.encode("utf-8", "surrogatepass"), before)
    return zlib.crc32(np.ascontiguousarray(values).view(np.uint8).data, before)


def _wording(error: Exception) -> str:
    """Return a driver's message on one line, without the SQL statement."""
    text = re.split(r"\s*\n\s*(?:query|Query was): ", str(error))[0]
    return " ".join(text.split()).rstrip(".")

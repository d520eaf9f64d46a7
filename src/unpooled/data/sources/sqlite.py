"""SQLite: a table or query of a file.

In SQLite, cells have types and columns do not. The driver takes the type of a column
from the first batch of cells, and fails when fractions follow integers. So one pass on
opening finds the types of all cells, and later passes prepend one row that has a value
of the right type in every column.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import final

import adbc_driver_sqlite.dbapi as driver
import pyarrow as pa

from unpooled.data.columns import Roles, listing
from unpooled.data.sources.database import (
    Connection,
    Cursor,
    DatabaseReader,
    configured,
    quoted,
    rows_per_batch,
    similar,
)
from unpooled.data.sources.streamed import Batches, Survey
from unpooled.errors import DataError

# The SQL type as which a column is read, and an example value of it.
CASTS = {pa.float64(): "REAL", pa.int64(): "INTEGER", pa.string(): "TEXT"}
MILLISECONDS_TO_WAIT = 30_000
EXAMPLES = {pa.float64(): "0.0", pa.int64(): "0", pa.string(): "''"}


@final
class SQLiteReader(DatabaseReader):
    """Reads a table in the order of its storage, or a query in its own order."""

    def connect(self) -> Connection:
        """Open the file for reading; it is never created or written to."""
        connection = driver.connect(f"{Path(self._address.target).as_uri()}?mode=ro")
        # Another program may write: each of its commits takes a moment.
        return configured(connection, f"PRAGMA busy_timeout = {MILLISECONDS_TO_WAIT}")

    def is_sound(self, connection: Connection) -> bool:
        """Whether SQLite finds no fault in the file, which it reads to its end."""
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA quick_check(1)")
            return cursor.fetchall() == [("ok",)]

    def table(self, cursor: Cursor, wanted: str) -> str:
        """Return a table's name in SQL; raise when there is no such table."""
        cursor.execute("SELECT name, type FROM sqlite_master WHERE name IS NOT NULL")
        kinds = {n: kind for n, kind in cursor.fetchall() if kind in ("table", "view")}
        if wanted not in kinds:
            raise DataError(
                f"{self._address.source}: there is no such table. "
                f"{similar(wanted, kinds)}The file has "
                f"{listing(tuple(kinds)) or 'no tables'}."
            )
        # An index that covers all requested columns would change the order of the rows.
        return quoted(wanted) + " NOT INDEXED" * (kinds[wanted] == "table")

    def survey(self, features: Sequence[str], roles: Roles) -> Survey:
        """Return the types of columns, and counts of rows and missing cells."""
        others = roles.others
        expressions = [
            "count(*)",
            *(_count(name, "'text', 'blob'") for name in features),
        ]
        for name in others:
            expressions += [
                _count(name, kinds)
                for kinds in ("'null'", "'text', 'blob'", "'real'", "'integer'")
            ]
        with self.cursor() as cursor:
            n_rows, *counts = (int(n or 0) for n in self.one_row(cursor, expressions))
        text = {
            name: f"text in {n} of {n_rows} rows"
            for name, n in zip(features, counts, strict=False)
            if n
        }
        types = dict.fromkeys(features, pa.float64())
        has_missing = {}
        for k, name in enumerate(others):
            start = len(features) + 4 * k
            missing, *cells = counts[start : start + 4]
            types[name] = _type(*cells)
            has_missing[name] = missing > 0
        return Survey(n_rows, types, has_missing, text)

    def batches(self, types: Mapping[str, pa.DataType]) -> Batches:
        """Yield batches of these columns."""
        examples = (f"{EXAMPLES[kind]} AS {quoted(n)}" for n, kind in types.items())
        cells = (_read_as(name, kind) for name, kind in types.items())
        with self.cursor() as cursor:
            source = self.rows(cursor)
            cursor.adbc_statement.set_options(
                **{"adbc.sqlite.query.batch_rows": str(rows_per_batch(len(types)))}
            )
            cursor.execute(
                f"SELECT {', '.join(examples)} UNION ALL "
                f"SELECT {', '.join(cells)} FROM {source}"
            )
            with cursor.fetch_record_batch() as stream:
                skipped = 1  # the row of examples
                for batch in stream:
                    yield pa.Table.from_batches([batch.slice(skipped)])
                    skipped = 0


def _count(name: str, kinds: str) -> str:
    return f"sum(typeof({quoted(name)}) IN ({kinds}))"


def _type(n_text: int, n_real: int, n_integer: int) -> pa.DataType:
    """Return the type that represents all cells of a label or of ids."""
    if n_text or not n_real + n_integer:
        return pa.string()
    return pa.float64() if n_real else pa.int64()


def _read_as(name: str, kind: pa.DataType) -> str:
    column, target = quoted(name), CASTS[kind]
    if kind != pa.float64():
        return f"CAST({column} AS {target})"
    # SQLite casts any text to a number, 'unknown' to 0. Text that was written after the
    # file was opened is passed on unchanged, and ends in an error.
    return (
        f"CASE WHEN typeof({column}) IN ('text', 'blob') THEN {column} "
        f"ELSE CAST({column} AS {target}) END"
    )

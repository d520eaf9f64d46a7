"""PostgreSQL: a table or query on a server, read as a stream.

The driver reads binary COPY output, so that neither end holds all rows in memory.
"""

from collections.abc import Mapping, Sequence
from typing import final

import adbc_driver_postgresql.dbapi as driver
import pyarrow as pa

from unpooled.data.columns import Roles, listing
from unpooled.data.sources.database import (
    BATCH_BYTES,
    Connection,
    Cursor,
    DatabaseReader,
    configured,
    quoted,
    similar,
)
from unpooled.data.sources.streamed import Batches, Survey
from unpooled.errors import DataError

# Nothing is written, and rows are read in the order in which the server stores them:
# not in that of parallel workers, not from the current position of another scan of the
# table, and not in that of an index that covers all requested columns.
SETTINGS = {
    "default_transaction_read_only": "on",
    "max_parallel_workers_per_gather": "0",
    "synchronize_seqscans": "off",
    "enable_indexonlyscan": "off",
}
NUMBERS = {
    "bool": pa.bool_(),
    "int2": pa.int16(),
    "int4": pa.int32(),
    "int8": pa.int64(),
    "float4": pa.float32(),
    "float8": pa.float64(),
    "numeric": pa.float64(),  # the driver would return text
}
# Labels and ids of these types are read as they are, all others as text.
PLAIN = NUMBERS | {
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
}
# A domain is read as the type that it restricts.
TYPE = (
    "(SELECT base.typname::text FROM pg_type own JOIN pg_type base "
    "ON base.oid = coalesce(nullif(own.typbasetype, 0), own.oid) "
    "WHERE own.oid = pg_typeof({column}))"
)


@final
class PostgreSQLReader(DatabaseReader):
    """Reads a table in the order of its storage, or a query in its own order."""

    def connect(self) -> Connection:
        """Return a connection for reading; each statement reads one state."""
        connection = driver.connect(self._address.target, autocommit=True)
        settings = ", ".join(
            f"set_config('{name}', '{value}', false)"
            for name, value in SETTINGS.items()
        )
        return configured(connection, f"SELECT {settings}")

    def table(self, cursor: Cursor, wanted: str) -> str:
        """Return a table's name in SQL; raise when there is no such table."""
        schema, dot, table = wanted.partition(".")
        spellings = [quoted(wanted)]
        # A dot may be part of the name; otherwise it separates schema and table.
        spellings += [f"{quoted(schema)}.{quoted(table)}"] if dot else []
        for name in spellings:
            cursor.execute("SELECT to_regclass($1) IS NOT NULL", [name])
            if cursor.fetchone()[0]:
                return name
        raise self._no_table(cursor, wanted)

    def survey(self, features: Sequence[str], roles: Roles) -> Survey:
        """Return types from the server, and counts of rows and values."""
        others = roles.others
        with self.cursor() as cursor:
            expressions = [TYPE.format(column=quoted(n)) for n in (*features, *others)]
            names_of_types = self.one_row(cursor, expressions)
            kinds = dict(zip((*features, *others), names_of_types, strict=True))
            odd = [name for name in features if kinds[name] not in NUMBERS]
            expressions = [
                "count(*)",
                *(f"count({quoted(n)})" for n in (*odd, *others)),
            ]
            n_rows, *counts = self.one_row(cursor, expressions)
        types = {name: PLAIN.get(kind, pa.string()) for name, kind in kinds.items()}
        types |= dict.fromkeys(odd, pa.null())
        text = {
            name: str(kinds[name])
            for name, n_values in zip(odd, counts, strict=False)
            if n_values
        }
        has_missing = {
            name: n_values < n_rows
            for name, n_values in zip(others, counts[len(odd) :], strict=True)
        }
        return Survey(n_rows, types, has_missing, text)

    def batches(self, types: Mapping[str, pa.DataType]) -> Batches:
        """Yield batches of these columns."""
        cells = (
            f"{_read_as(name, kind)} AS {quoted(name)}" for name, kind in types.items()
        )
        with self.cursor() as cursor:
            source = self.rows(cursor)
            cursor.adbc_statement.set_options(
                **{"adbc.postgresql.batch_size_hint_bytes": str(BATCH_BYTES)}
            )
            cursor.execute(f"SELECT {', '.join(cells)} FROM {source}")
            with cursor.fetch_record_batch() as stream:
                for batch in stream:
                    yield pa.Table.from_batches([batch])

    def _no_table(self, cursor: Cursor, wanted: str) -> DataError:
        cursor.execute(
            "SELECT table_schema::text, table_name::text "
            "FROM information_schema.tables "
            "WHERE table_schema NOT IN ('pg_catalog', 'information_schema') "
            "AND has_schema_privilege(table_schema, 'USAGE')"
        )
        known = [
            table if schema == "public" else f"{schema}.{table}"
            for schema, table in cursor.fetchall()
        ]
        return DataError(
            f"{self._address.source}: there is no such table, or this user may not see "
            f"it. {similar(wanted, known)}It sees "
            f"{listing(sorted(known)) or 'no tables'}."
        )


def _read_as(name: str, kind: pa.DataType) -> str:
    if pa.types.is_null(kind):
        return "NULL::float8"
    if pa.types.is_float64(kind):
        return f"{quoted(name)}::float8"
    return quoted(name) + "::text" * pa.types.is_string(kind)

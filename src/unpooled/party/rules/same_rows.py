"""Silos that were given the same rows, by keyed digests of their sorted rows.

Only where somebody asks for it: simulated silos are compared in the process, and real
ones by the people at them, who read `table_digest` to each other as they do the
roster's.
"""

import hashlib
from collections.abc import Mapping

import numpy as np

from unpooled.data.table import Table
from unpooled.errors import DataError
from unpooled.party.rules.row_digests import row_digests


def table_digest(table: Table, key: bytes) -> str:
    """Return a digest of a table's rows, whatever their order and that of the columns.

    Parameters
    ----------
    table : Table
        Features and label count, and ids do not.
    key : bytes
        At most 64. Who has it can test a guess of the whole table, and of nothing less.

    Returns
    -------
    str
        32 hexadecimal digits.
    """
    rows = np.sort(row_digests(table, table.columns, table.label or "", key))
    return hashlib.blake2b(rows.tobytes(), digest_size=16, key=key).hexdigest()


def check_distinct(tables: Mapping[str, Table], key: bytes) -> None:
    """Raise when two of the tables have the same rows.

    Raises
    ------
    DataError
        With the names of the silos.
    """
    seen: dict[str, str] = {}
    for name, table in tables.items():
        first = seen.setdefault(table_digest(table, key), name)
        if first != name:
            raise DataError(
                f"Silos {first!r} and {name!r} have the same rows: every one of them "
                f"would count twice. Give each silo its own source."
            )

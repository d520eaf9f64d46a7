"""How a silo's table changed between two answers: totals before and after subtract.

A row is known by a digest under a key of the silo's own, so that a log that somebody
reads tells how many rows changed and not which. What is compared are the columns that
were answered about; a change elsewhere in a row does not count.
"""

import hashlib
from collections.abc import Sequence
from typing import final

import numpy as np

from unpooled.arrays import Array, UInt64
from unpooled.data.table import Table
from unpooled.party.memory.audit_log import AuditLog
from unpooled.party.rules.policy import Policy
from unpooled.protocol.refusal import Refusal

# Odd numbers that spread the bits of a float64, whose low ones are mostly zero.
_SPREAD = (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53)


@final
class TableVersions:
    """The versions of a table that a silo answered about.

    Parameters
    ----------
    key : bytes
        Of the digests, the same after a restart.
    journal : AuditLog, optional
        Keeps the digests; without it the tables themselves are, while the party lives.
    """

    def __init__(self, key: bytes, journal: AuditLog | None = None) -> None:
        self._key, self._journal = key, journal
        self._tables: list[tuple[tuple[str, ...], Table]] = []
        # Of the present table, by columns: it is read once for each set of them.
        self._present: dict[tuple[str, ...], UInt64[Array, " n"]] = {}
        self._table: Table | None = None

    def check(self, policy: Policy, table: Table, columns: Sequence[str]) -> None:
        """Refuse to answer when the table differs from an earlier one in few rows."""
        if not policy.min_changed_rows:
            return
        for told, before in self._told(table):
            if not set(told) & set(columns) or not set(told) <= set(table.columns):
                continue
            changed = _changed(before, self._digests(table, told))
            if 0 < changed < policy.min_changed_rows:
                raise Refusal("min_changed_rows")

    def record(self, table: Table, columns: Sequence[str]) -> None:
        """Remember which rows an answer was about."""
        names = tuple(sorted(columns))
        if self._journal is None:
            if not any(names == n and table is t for n, t in self._tables):
                self._tables.append((names, table))
            return
        digests = self._digests(table, names).tobytes().hex()
        self._journal.note("version", {"columns": list(names), "rows": digests})

    def _told(self, table: Table) -> list[tuple[tuple[str, ...], UInt64[Array, " n"]]]:
        if self._journal is None:
            others = [(n, t) for n, t in self._tables if t is not table]
            return [(names, row_digests(t, names, self._key)) for names, t in others]
        return [
            (tuple(told["columns"]), np.frombuffer(bytes.fromhex(told["rows"]), "<u8"))
            for told in self._journal.notes("version")
        ]

    def _digests(self, table: Table, names: tuple[str, ...]) -> UInt64[Array, " n"]:
        if table is not self._table:
            self._present, self._table = {}, table
        if names not in self._present:
            self._present[names] = row_digests(table, names, self._key)
        return self._present[names]


def row_digests(
    table: Table, columns: Sequence[str], key: bytes
) -> UInt64[Array, " n"]:
    """Return a 64-bit digest of each row's cells in these columns, sorted."""
    weights = np.array([_weight(key, column) for column in columns], np.uint64)
    parts = [np.zeros(0, np.uint64)]
    for block in table.blocks(tuple(columns)):
        # One form for zero and one for cells that are missing.
        cells = np.where(np.isnan(block.X), np.nan, block.X + 0.0).view(np.uint64)
        for spread in _SPREAD:
            cells ^= cells >> np.uint64(33)
            cells *= np.uint64(spread)
        cells ^= cells >> np.uint64(33)
        parts.append((cells * weights).sum(axis=1, dtype=np.uint64))
    return np.sort(np.concatenate(parts))


def _weight(key: bytes, column: str) -> int:
    said = hashlib.blake2b(column.encode(), digest_size=8, key=key).digest()
    return int.from_bytes(said, "little") | 1


def _changed(before: UInt64[Array, " n"], now: UInt64[Array, " l"]) -> int:
    """Return how many rows left, or how many came, whichever is more."""
    rows, where = np.unique(np.concatenate([before, now]), return_inverse=True)
    counts = np.bincount(where[len(before) :], minlength=len(rows))
    counts = counts - np.bincount(where[: len(before)], minlength=len(rows))
    return int(max(counts.clip(min=0).sum(), -counts.clip(max=0).sum()))

"""Changes of a silo's table between two answers: the difference of two totals.

Rows are compared by digests under a key of the silo's own, so that a reader of the log
learns how many rows changed and not which. Only the columns of the earlier answer are
compared; a change elsewhere in a row does not count.
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
    audit_log : AuditLog
        Keeps the digests.
    """

    def __init__(self, key: bytes, audit_log: AuditLog) -> None:
        self._key, self._audit_log = key, audit_log
        # Answers whose digests are not in the log yet: a log in memory needs them only
        # once the table is replaced, and they take a pass over all rows.
        self._pending: dict[tuple[tuple[str, ...], int], Table] = {}
        # Of the present table, by columns: it is read once for each set of them.
        self._present: dict[tuple[str, ...], UInt64[Array, " n"]] = {}
        self._table: Table | None = None

    def check(self, policy: Policy, table: Table, columns: Sequence[str]) -> None:
        """Refuse to answer when the table differs from an earlier one in few rows."""
        if not policy.min_changed_rows:
            return
        if any(pending is not table for pending in self._pending.values()):
            self._write_pending()
        for version in self._audit_log.notes("version"):
            names = tuple(version["columns"])
            if not set(names) & set(columns) or not set(names) <= set(table.columns):
                continue
            before = np.frombuffer(bytes.fromhex(version["rows"]), "<u8")
            changed = _changed(before, self._digests(table, names))
            if 0 < changed < policy.min_changed_rows:
                raise Refusal("min_changed_rows")

    def record(self, table: Table, columns: Sequence[str]) -> None:
        """Remember which rows an answer was about."""
        self._pending[tuple(sorted(columns)), id(table)] = table
        if self._audit_log.path is not None:
            self._write_pending()

    def _write_pending(self) -> None:
        for (names, _), table in self._pending.items():
            digests = self._digests(table, names).tobytes().hex()
            note = {"columns": list(names), "rows": digests}
            self._audit_log.note("version", note)
        self._pending.clear()

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
    hashed = hashlib.blake2b(column.encode(), digest_size=8, key=key).digest()
    return int.from_bytes(hashed, "little") | 1


def _changed(before: UInt64[Array, " n"], now: UInt64[Array, " l"]) -> int:
    """Return how many rows left, or how many came, whichever is more."""
    if np.array_equal(before, now):
        return 0
    rows, places = np.unique(np.concatenate([before, now]), return_inverse=True)
    counts = np.bincount(places[len(before) :], minlength=len(rows))
    counts = counts - np.bincount(places[: len(before)], minlength=len(rows))
    return int(max(counts.clip(min=0).sum(), -counts.clip(max=0).sum()))

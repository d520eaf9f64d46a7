"""Versions of a silo's table: which rows an answer was about, and how many changed.

A version is all rows of all columns that studies may read, and the label. The log has
a keyed digest of each row (`unpooled.party.rules.row_digests`), in no order. Two
versions are compared by these, so that a silo knows how many rows changed; the names of
versions tell all other rules which table an answer was about.
"""

import base64
import hashlib
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from unpooled.arrays import Array, Bool, Shaped, UInt64
from unpooled.data.table import Table
from unpooled.ledger import canonical
from unpooled.party.memory.audit_log import AuditLog, Note
from unpooled.party.memory.audit_state import TableVersion
from unpooled.party.rules.combined_rows import fewest_left
from unpooled.party.rules.policy import Policy
from unpooled.party.rules.row_digests import (
    class_counts,
    former_digests,
    row_digests,
)
from unpooled.protocol.refusal import Refusal

# A log in memory names its first version so: nothing is there to compare it with.
_FIRST = "first"


@final
@dataclass(frozen=True)
class Change:
    """How another version differs from the present table.

    Attributes
    ----------
    n_rows : int
        How many rows left, or how many came, whichever is more.
    overlaps : bool
        Whether any row is in both.
    """

    n_rows: int
    overlaps: bool


@final
class TableVersions:
    """The versions of a table that a silo answered about.

    Parameters
    ----------
    key : bytes
        Key of the digests, at most 64; the same after a restart.
    audit_log : AuditLog
        Keeps the versions.
    policy : Policy
        The silo's rules.
    """

    def __init__(self, key: bytes, audit_log: AuditLog, policy: Policy) -> None:
        self._key, self._audit_log, self._policy = key, audit_log, policy
        # Tables of this process with their versions. A log in memory has no digests:
        # they take a pass over all rows, and are wanted once the table is replaced.
        self._known: list[tuple[Table, str, TableVersion]] = []
        # By place in `_known`, columns and label: each is read once.
        self._rows: dict[tuple[int, tuple[str, ...], str], UInt64[Array, " n"]] = {}
        self._changes: dict[tuple[str, str | int], Change | None] = {}
        # By name of a version and of earlier ones.
        self._combined: dict[tuple[str, tuple[str, ...]], bool] = {}
        # By place in `_known` and name of a version.
        self._came: dict[tuple[int, str], Bool[Array, " n"]] = {}
        self._left: dict[tuple[int, str], Bool[Array, " n"]] = {}
        self._former: dict[tuple[int, tuple[str, ...]], UInt64[Array, " n"]] = {}

    def name(self, table: Table) -> str:
        """Return the name of the version that a table is."""
        return self._find(table)[1]

    def names(self, table: Table) -> list[str]:
        """Return the names of all answered versions with the same rows as a table.

        A table that got a further column has the rows that it had.
        """
        name = self.name(table)
        others = set(self._audit_log.state().tables) - {name}
        changes = {other: self._change(table, other) for other in others}
        same = [other for other, change in changes.items() if _is_nothing(change)]
        return [name, *sorted(same)]

    def check(self, table: Table, *, only_ids: bool = False) -> None:
        """Refuse to answer when the table differs from an earlier one in few rows.

        Parameters
        ----------
        only_ids : bool, default False
            Whether its ids are to be matched: how many are common would tell of the few
            rows whether they are.
        """
        if not self._policy.min_changed_rows:
            return
        name = self.name(table)
        former = range(len(self._audit_log.state().notes["version"]))
        found = [self._former_change(table, number) for number in former]
        for other, version in self._audit_log.state().tables.items():
            # Matched rows may be all but a few of those whose ids were compared.
            if other != name and (only_ids or not version.only_ids):
                found.append(self._change(table, other))
        few = any(c and 0 < c.n_rows < self._policy.min_changed_rows for c in found)
        if few or (not only_ids and self._few_combined(table)):
            # Whatever is asked, the verdict is about this version of the table.
            raise Refusal("min_changed_rows", about=["version", name])

    def overlaps(self, table: Table, name: str) -> bool:
        """Whether a table has a row of a version, or cannot be compared with it."""
        present = self.name(table)
        if name == present or name not in self._audit_log.state().tables:
            return True
        change = self._change(table, name)
        return change is None or change.overlaps

    def came(self, table: Table) -> dict[str, Bool[Array, " n"]]:
        """Return which rows of a table each answered version lacks, by its name.

        Versions that cannot be compared with it are left out, as are those with the
        same rows.
        """
        place, name, _ = self._find(table)
        found = dict[str, Bool[Array, " n"]]()
        for other, version in self._audit_log.state().tables.items():
            if other == name or version.only_ids:
                continue
            if not (change := self._change(table, other)):
                continue
            if change.n_rows:
                if (place, other) not in self._came:
                    now = row_digests(table, version.columns, version.label, self._key)
                    self._came[place, other] = _came(self._rows_of(other, version), now)
                found[other] = self._came[place, other]
        return found

    def left(self, table: Table, whole: Table) -> dict[str, Bool[Array, " n"]]:
        """Return which rows of the silo's table a choice of them lacks.

        Those that an answered version has, by its name.
        """
        if table is whole:
            return {}
        place, name, _ = self._find(table)
        found = dict[str, Bool[Array, " n"]]()
        for other, version in self._audit_log.state().tables.items():
            if other == name or version.only_ids or not self._change(table, other):
                continue
            if (place, other) not in self._left:
                every, chosen = (
                    t.source_rows(np.arange(t.n_rows)) for t in (whole, table)
                )
                rows = row_digests(whole, version.columns, version.label, self._key)
                had = ~_came(self._rows_of(other, version), rows)
                self._left[place, other] = had & ~np.isin(every, chosen)
            found[other] = self._left[place, other]
        return found

    def gone_by_class(self, table: Table) -> dict[str, list[int]]:
        """Return how many rows of each class left since each answered version.

        A row whose label changed left its class. By the version's name; those that had
        another label are left out, and so are classes that all rows left: an answer
        about what was all of a class was judged when it was given.
        """
        if not table.label:
            return {}
        now, labels = None, np.zeros(0)
        found = dict[str, list[int]]()
        for other, came in self.came(table).items():
            version = self._audit_log.state().tables[other]
            before = self._classes_of(other, version)
            if before is None or version.label != table.label:
                continue
            if now is None:
                labels = _labels(table)
                now = class_counts(labels, self._key)
            added = class_counts(labels[came], self._key)
            stayed = {one: now.get(one, 0) - added.get(one, 0) for one in before}
            found[other] = [n - stayed[one] for one, n in before.items() if stayed[one]]
        return found

    def notes(self, table: Table, *, only_ids: bool = False) -> list[Note]:
        """Return a note of a table's rows, the first time that it is answered about."""
        place, name, version = self._find(table)
        known = self._audit_log.state().tables.get(name)
        if known is not None and known.only_ids <= only_ids:
            return []
        record = {"name": name, "columns": list(version.columns)}
        record |= {"label": version.label}
        record |= {"only_ids": True} if only_ids else {}
        if self._audit_log.path is not None:
            rows = self._digests(place, version.columns, version.label)
            record["rows"] = base64.b64encode(rows.tobytes()).decode()
            if table.label:
                record["classes"] = class_counts(_labels(table), self._key)
        return [("table", record)]

    def _find(self, table: Table) -> tuple[int, str, TableVersion]:
        # The present one is the last.
        for place in reversed(range(len(self._known))):
            known, name, version = self._known[place]
            if known is table:
                return place, name, version
        columns = tuple(table.columns)
        if self._policy.allowed_columns is not None:
            columns = tuple(filter(self._policy.allows_column, columns))
        version, place = (
            TableVersion(columns, table.label or "", None),
            len(self._known),
        )
        self._known.append((table, _FIRST, version))
        in_memory = self._audit_log.path is None
        if not in_memory or place:
            name = self._name_of(place, version)
            # The first table of a log in memory has a name that is no digest.
            if in_memory and name == self._name_of(0, self._known[0][2]):
                name = _FIRST
            self._known[place] = (table, name, version)
        return place, self._known[place][1], version

    def _name_of(self, place: int, version: TableVersion) -> str:
        rows = self._digests(place, version.columns, version.label)
        about = canonical([list(version.columns), version.label])
        hashed = hashlib.blake2b(about, digest_size=16, key=self._key)
        hashed.update(rows.tobytes())
        return hashed.hexdigest()

    def _digests(
        self, place: int, columns: tuple[str, ...], label: str
    ) -> UInt64[Array, " n"]:
        if (place, columns, label) not in self._rows:
            table = self._known[place][0]
            rows = row_digests(table, columns, label, self._key)
            self._rows[place, columns, label] = np.sort(rows)
        return self._rows[place, columns, label]

    def _change(self, table: Table, other: str) -> Change | None:
        """Return how an answered version differs; None where columns are gone."""
        place, name, _ = self._find(table)
        if (name, other) not in self._changes:
            version = self._audit_log.state().tables[other]
            # What was a column may be the label now, and the other way round.
            had = {*version.columns, version.label} - {""}
            if not had <= {*table.columns, table.label}:
                self._changes[name, other] = None
            else:
                before = self._rows_of(other, version)
                now = self._digests(place, version.columns, version.label)
                self._changes[name, other] = _compared(before, now)
        return self._changes[name, other]

    def _few_combined(self, table: Table) -> bool:
        """Whether sums over this and earlier versions combine to those of a few rows.

        Versions with the same columns and label are compared.
        """
        place, name, version = self._find(table)
        others = tuple(
            other
            for other, one in self._audit_log.state().tables.items()
            if other != name and not one.only_ids and _has_cells_of(one, version)
        )
        if len(others) < 2:
            return False
        if (name, others) not in self._combined:
            tables = self._audit_log.state().tables
            rows = [self._rows_of(other, tables[other]) for other in others]
            rows.append(self._digests(place, version.columns, version.label))
            least = self._policy.min_changed_rows
            self._combined[name, others] = _fewest_combined(rows, least) < least
        return self._combined[name, others]

    def _rows_of(self, name: str, version: TableVersion) -> UInt64[Array, " n"]:
        if version.rows is not None:
            return version.rows
        place = next(p for p, known in enumerate(self._known) if known[1] == name)
        return self._digests(place, version.columns, version.label)

    def _classes_of(self, name: str, version: TableVersion) -> Mapping[str, int] | None:
        if version.rows is not None:
            return version.classes
        table = next(known[0] for known in self._known if known[1] == name)
        return class_counts(_labels(table), self._key) if table.label else None

    def _former_change(self, table: Table, number: int) -> Change | None:
        """Return the change since a version that an earlier library noted."""
        place, name, _ = self._find(table)
        if (name, number) not in self._changes:
            note = self._audit_log.state().notes["version"][number]
            columns, change = tuple(note["columns"]), None
            if set(columns) <= set(table.columns):
                before = np.frombuffer(bytes.fromhex(note["rows"]), "<u8")
                if (place, columns) not in self._former:
                    digests = former_digests(table, columns, self._key)
                    self._former[place, columns] = np.sort(digests)
                change = _compared(before, self._former[place, columns])
            self._changes[name, number] = change
        return self._changes[name, number]


def _labels(table: Table) -> Shaped[Array, " n"]:
    label = table.label or ""
    parts = [block.extra[label] for block in table.blocks((), [label])]
    return np.concatenate(parts) if parts else np.zeros(0)


def _compared(before: UInt64[Array, " n"], now: UInt64[Array, " l"]) -> Change:
    if np.array_equal(before, now):
        return Change(0, overlaps=True)
    rows, places = np.unique(np.concatenate([before, now]), return_inverse=True)
    came = np.bincount(places[len(before) :], minlength=len(rows))
    left = np.bincount(places[: len(before)], minlength=len(rows))
    overlaps = bool(np.minimum(came, left).any())
    difference = came - left
    n_rows = max(difference.clip(min=0).sum(), -difference.clip(max=0).sum())
    return Change(int(n_rows), overlaps)


def _has_cells_of(one: TableVersion, other: TableVersion) -> bool:
    return set(one.columns) == set(other.columns) and one.label == other.label


def _fewest_combined(versions: Sequence[UInt64[Array, "..."]], least: int) -> int:
    """Return the fewest rows that sums over three or four versions combine to."""
    every, places = np.unique(np.concatenate(versions), return_inverse=True)
    starts = np.cumsum([0, *map(len, versions)])
    sets = np.stack(
        [
            np.bincount(places[start:end], minlength=len(every))
            for start, end in itertools.pairwise(starts.tolist())
        ],
        axis=1,
    )
    kinds, sizes = np.unique(sets, axis=0, return_counts=True)
    return fewest_left(kinds, sizes, least)


def _came(before: UInt64[Array, " n"], now: UInt64[Array, " l"]) -> Bool[Array, " l"]:
    """Return which rows are new; of equal ones the last, as many as there are more."""
    order = np.argsort(now, kind="stable")
    rows, first = np.unique(now[order], return_index=True)
    had = np.searchsorted(before, rows, "right") - np.searchsorted(before, rows, "left")
    rank = np.arange(len(now)) - np.repeat(first, np.diff([*first, len(now)]))
    came = np.zeros(len(now), bool)
    came[order] = rank >= np.repeat(had, np.diff([*first, len(now)]))
    return came


def _is_nothing(change: Change | None) -> bool:
    return change is not None and change.n_rows == 0

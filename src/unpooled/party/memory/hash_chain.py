"""An append-only file of entries in SQLite, each with the hash of all before it.

    entry t: body_t ── hash_t = SHA-256(hash_{t-1} ‖ body_t) ── signature, at times

A transaction is on the disk before `append` returns, so a process killed at any point
leaves all of it or nothing. Triggers refuse edits; an edit around them breaks the
chain, and only the silo's key can sign a chain that is computed anew.
"""

import hashlib
import json
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from unpooled.errors import StudyError
from unpooled.ledger import canonical
from unpooled.secure.keys.roster import Identity

_GENESIS = "0" * 64
# Another process may be writing: one job each, and a person's decision.
_SECONDS_TO_WAIT = 30.0
_SCHEMA = """
CREATE TABLE IF NOT EXISTS entries (
    number INTEGER PRIMARY KEY, time TEXT NOT NULL, kind TEXT NOT NULL,
    study TEXT NOT NULL, record TEXT NOT NULL, hash TEXT NOT NULL,
    signature TEXT NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS entries_of_a_study ON entries (study, kind, number);
CREATE TRIGGER IF NOT EXISTS entries_stay BEFORE UPDATE ON entries
    BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;
CREATE TRIGGER IF NOT EXISTS entries_remain BEFORE DELETE ON entries
    BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;
CREATE TRIGGER IF NOT EXISTS entries_follow BEFORE INSERT ON entries
    WHEN NEW.number IS NOT (SELECT COALESCE(MAX(number), 0) + 1 FROM entries)
    BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;
"""
_COLUMNS = "number, time, kind, study, record, hash, signature"
_INSERT = f"INSERT INTO entries ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)"


@final
@dataclass(frozen=True)
class Entry:
    """One entry of an audit log.

    Attributes
    ----------
    number : int
        From 1, without gaps.
    time : str
        By the silo's own clock, ISO 8601 in UTC. Nothing depends on it.
    kind, study : str
        The kind of event, and its study.
    record : dict
        The particulars, JSON values.
    hash : str
        The chain up to and with this entry.
    signature : str
        Key and signature of the silo's identity under `hash`, hexadecimal, where a
        party wrote the entry last in a transaction; else empty.
    """

    number: int
    time: str
    kind: str
    study: str
    record: dict[str, Any]
    hash: str
    signature: str


@final
class HashChain:
    """The file.

    Parameters
    ----------
    path : Path or None
        Made when absent, for the silo's own user alone. None keeps the entries in
        memory, as long as the process lives.
    max_pages : int or None
        SQLite's limit on the file, in pages.
    seen : callable
        Called with each entry in turn, of this process or of another.
    """

    def __init__(
        self, path: Path | None, max_pages: int | None, seen: Callable[[Entry], None]
    ) -> None:
        self._path, self._seen = path or "in memory", seen
        # No other process writes there.
        self._in_memory = path is None
        self._number, self._head = 0, _GENESIS
        self._lock = threading.RLock()
        try:
            # Only where it is not there: closing any handle of a file takes away the
            # locks that this process's other connections to it have.
            if path is not None:
                with suppress(FileExistsError):
                    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
            self._database = sqlite3.connect(
                path or ":memory:",
                timeout=_SECONDS_TO_WAIT,
                isolation_level=None,
                check_same_thread=False,
            )
            self._database.execute("PRAGMA journal_mode = WAL")
            # A commit is on the disk before the reply leaves.
            self._database.execute("PRAGMA synchronous = FULL")
            self._database.executescript(_SCHEMA)
            if max_pages is not None:
                self._database.execute(f"PRAGMA max_page_count = {int(max_pages)}")
        except (OSError, sqlite3.Error) as wrong:
            raise unusable(self._path, wrong) from wrong
        weakref.finalize(self, self._database.close)

    @property
    def number(self) -> int:
        """Number of the last entry that `seen` was called with."""
        return self._number

    def entries(self) -> Iterator[Entry]:
        """Yield the entries in order, each checked against the chain.

        Raises
        ------
        StudyError
            At the first that was edited, dropped or reordered.
        """
        return self._checked(0, _GENESIS)

    def catch_up(self) -> None:
        """Show `seen` the entries that other processes wrote since."""
        if self._in_memory:
            return
        with self._lock:
            for entry in self._checked(self._number, self._head):
                self._show(entry)

    def _show(self, entry: Entry) -> None:
        self._number, self._head = entry.number, entry.hash
        try:
            self._seen(entry)
        except (KeyError, TypeError, ValueError) as wrong:
            raise self._broken(entry.number) from wrong

    def append(
        self,
        entries: Sequence[tuple[str, str, dict[str, Any]]],
        identity: Identity | None = None,
        check: Callable[[], None] = lambda: None,
    ) -> str:
        """Write entries (kind, study, record), all of them or none.

        Parameters
        ----------
        identity : Identity, optional
            Signs the chain up to and with the last of them.
        check : callable, optional
            Called when no other process can write any more; an exception stops the
            write.

        Returns
        -------
        str
            The hash of the chain up to and with the last of them.

        Raises
        ------
        StudyError
            Under the rule "audit_log", when SQLite cannot write.
        """
        written: list[Entry] = []
        with self._lock:
            with self._transaction():
                self.catch_up()
                check()
                number, head = self._number, self._head
                time = now()
                for position, (kind, study, record) in enumerate(entries, 1):
                    number += 1
                    text = canonical(record).decode()
                    body = _body(number, time, kind, study, text)
                    head = hashlib.sha256(head.encode() + body).hexdigest()
                    signature = ""
                    if identity is not None and position == len(entries):
                        signature = identity.sign(_statement(head)).hex()
                        signature = identity.public.hex() + signature
                    self._database.execute(
                        _INSERT,
                        (number, time, kind, study, text, head, signature),
                    )
                    written.append(
                        Entry(number, time, kind, study, record, head, signature)
                    )
            # Only now do they stand in the file; they need not be read from it.
            for entry in written:
                self._show(entry)
            return head

    def records(self, kind: str, study: str) -> list[dict[str, Any]]:
        """Return the records of a study's entries of one kind, in their order."""
        query = (
            "SELECT record FROM entries WHERE study = ? AND kind = ? ORDER BY number"
        )
        return [json.loads(row[0]) for row in self._rows(query, study, kind)]

    def check_file(self) -> None:
        """Have SQLite check its own pages and indexes."""
        answers = self._rows("PRAGMA integrity_check")
        if answers != [("ok",)]:
            raise unusable(self._path, f"SQLite found {answers[0][0]}")

    def check_writable(self) -> None:
        """Raise a `StudyError` where the file is read-only."""
        with self._lock, self._transaction():
            # SQLite begins a transaction on a file that it can only read, too.
            self._database.execute("DELETE FROM entries WHERE FALSE")

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._database.close()

    def _checked(self, number: int, head: str) -> Iterator[Entry]:
        query = f"SELECT {_COLUMNS} FROM entries WHERE number > ? ORDER BY number"
        try:
            rows = self._database.execute(query, (number,))
            for found, time, kind, study, record, end, signature in rows:
                number += 1
                body = _body(found, time, kind, study, record)
                head = hashlib.sha256(head.encode() + body).hexdigest()
                if found != number or end != head:
                    raise self._broken(number)
                yield Entry(
                    number, time, kind, study, json.loads(record), head, signature
                )
        except (sqlite3.Error, ValueError) as wrong:
            raise unusable(self._path, wrong) from wrong

    def _rows(self, query: str, *values: str) -> list[Any]:
        with self._lock:
            try:
                return self._database.execute(query, values).fetchall()
            except (sqlite3.Error, UnicodeError) as wrong:
                raise unusable(self._path, wrong) from wrong

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._lock:
            try:
                self._database.execute("BEGIN IMMEDIATE")
                yield
                self._database.execute("COMMIT")
            # A text that is not Unicode cannot be written either.
            except (sqlite3.Error, UnicodeError) as wrong:
                self._roll_back()
                raise unusable(self._path, wrong) from wrong
            except BaseException:
                self._roll_back()
                raise

    def _roll_back(self) -> None:
        try:
            if self._database.in_transaction:
                self._database.execute("ROLLBACK")
        except sqlite3.Error:
            # The next writer finds the file as it was before the transaction.
            self._database.close()

    def _broken(self, number: int) -> StudyError:
        return StudyError(
            f"Entry {number} of the audit log {self._path} was altered, or entries "
            f"before it were removed or reordered. Keep the file as evidence, and go "
            f"on from a backup.",
            rule="audit_log",
        )


def now() -> str:
    """Return the time by this machine's clock."""
    return datetime.fromtimestamp(time.time(), UTC).isoformat(timespec="milliseconds")


def is_signed(entry: Entry, keys: Sequence[bytes] | None) -> bool:
    """Whether the chain up to an entry is signed, under one of the keys if given."""
    try:
        key, signature = bytes.fromhex(entry.signature[:64]), entry.signature[64:]
        if keys is not None and key not in keys:
            return False
        public = Ed25519PublicKey.from_public_bytes(key)
        public.verify(bytes.fromhex(signature), _statement(entry.hash))
    except (ValueError, InvalidSignature):
        return False
    return True


def _statement(head: str) -> bytes:
    return b"unpooled audit log\0" + head.encode()


def unusable(path: Path | str, wrong: object) -> StudyError:
    """Return the error of a file that SQLite cannot read or write."""
    return StudyError(
        f"The audit log {path} cannot be used: {wrong}. Nothing leaves this silo until "
        f"it can: see that the user of this process may write it, and its folder, make "
        f"room on the disk, or restore the file from a backup.",
        rule="audit_log",
    )


def _body(number: int, time: str, kind: str, study: str, record: str) -> bytes:
    return canonical([number, time, kind, study, record])

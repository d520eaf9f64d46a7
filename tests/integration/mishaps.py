"""Doing harm at a moment that a silo's own log tells, and seeing that nothing hangs."""

import contextlib
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from integration.consortium import Consortium
from unpooled.party.memory.audit_log import AuditLog

# The error after va's process has ended. It names va if the others were asked meanwhile
# whether they are there, and otherwise all silos whose answers were cut off.
LOST = r"va did not answer|was ended before|ended \("


def entries(consortium: Consortium, silo: str, study: str, kind: str = "round") -> int:
    """Count what a silo has written of a study: its rounds, or another kind."""
    path = consortium.kit(silo) / "state" / "audit.sqlite"
    query = "SELECT COUNT(*) FROM entries WHERE study = ? AND kind = ?"
    try:
        database = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)
        with contextlib.closing(database):
            return database.execute(query, (study, kind)).fetchone()[0]
    except sqlite3.Error:
        return 0  # not made yet


@contextlib.contextmanager
def as_soon_as(
    holds: Callable[[], object], act: Callable[[], object]
) -> Iterator[None]:
    """Do something once something holds, while the body runs."""
    over, problems, acted = threading.Event(), list[BaseException](), list[bool]()

    def watch() -> None:
        try:
            while not over.is_set():
                if holds():
                    act()
                    acted.append(True)
                    return
                time.sleep(0.005)
        except BaseException as problem:
            problems.append(problem)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
    if problems:
        raise problems[0]
    assert acted, "it was over before the moment came"


def within(seconds: float, do: Callable[..., Any], *given: Any, **options: Any) -> Any:
    """Return what a call returns, or raises; one that hangs fails the test."""
    results, problems = [], []

    def call() -> None:
        try:
            results.append(do(*given, **options))
        except BaseException as problem:
            problems.append(problem)

    caller = threading.Thread(target=call, daemon=True)
    caller.start()
    caller.join(seconds)
    assert not caller.is_alive(), f"it still hangs after {seconds} s"
    if problems:
        raise problems[0]
    return results[0]


def assert_ledger_tells_what_left(
    consortium: Consortium, study: str, ledger, silos: tuple[str, ...] = ()
) -> None:
    """Every line that a silo wrote is in the ledger, and the other way round."""
    assert ledger.verify()
    for silo in silos or consortium.silos:
        journal = AuditLog(consortium.kit(silo) / "state" / "audit.sqlite")
        assert journal.verify()
        assert journal.check_against(ledger, silo) == 0, silo
        own = [line for line in ledger if silo in line.seals]
        assert len(own) == len(journal.ledger(study)), silo

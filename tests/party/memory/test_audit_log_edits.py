"""The silo's audit log under edits: refused, or found afterwards."""

import json
import sqlite3
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logged_silos import IDENTITIES, QUICK, TEXT, a_round, counted, place
from unpooled.errors import StudyError
from unpooled.party.memory.audit_log import AuditLog

# A fixture of another module.
__all__ = ["place"]


def _raw(path: Path, *statements: str) -> None:
    """Edit a log around its triggers, as somebody with the file can."""
    database = sqlite3.connect(path)
    for trigger in ("stay", "remain", "follow"):
        database.execute(f"DROP TRIGGER entries_{trigger}")
    for statement in statements:
        database.execute(statement)
    database.commit()
    database.close()


def test_lines_cut_at_the_end_show_against_the_ledger(place):
    federation = place.federation()
    federation.sum(counted)
    federation.sum(counted)
    _raw(place.log("a"), "DELETE FROM entries WHERE number > 3")
    journal = AuditLog(place.log("a"))
    assert journal.verify()
    with pytest.raises(StudyError, match="lacks it: the log was cut"):
        journal.check_against(federation.ledger, "a")
    # The other way round: lines that a coordinator left out.
    b = AuditLog(place.log("b"))
    assert b.check_against(federation.ledger[:1], "b") == 1


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE entries SET record = '{}' WHERE number = 1",
        "DELETE FROM entries WHERE number = 1",
        "INSERT OR REPLACE INTO entries SELECT 1, time, kind, study, record, hash, "
        "signature FROM entries WHERE number = 2",
        "INSERT INTO entries VALUES (99, '', 'line', 's', '{}', '', '')",
        "INSERT INTO entries VALUES (1, '', 'line', 's', '{}', '', '')",
    ],
)
def test_the_file_refuses_edits(place, statement):
    a_round(AuditLog(place.log("a")))
    database = sqlite3.connect(place.log("a"))
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        database.execute(statement)
    database.close()
    assert AuditLog(place.log("a")).verify()


COLUMNS_OF_ENTRIES = ("time", "kind", "study", "record", "hash", "signature")


@pytest.mark.slow
@QUICK
@given(
    number=st.integers(1, 8),
    column=st.sampled_from(COLUMNS_OF_ENTRIES),
    value=st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=9),
)
def test_any_edited_cell_is_found(tmp_path_factory, number, column, value):
    path = tmp_path_factory.mktemp("log") / "a.sqlite"
    journal = AuditLog(path)
    for _ in range(2):
        a_round(journal)
    journal.announced("s", TEXT)
    journal.decided("s", approved=True, steps=["*"])
    assert journal.verify()
    value = value.replace("'", "''")
    _raw(path, f"UPDATE entries SET {column} = '{value}' WHERE number = {number}")
    after = sqlite3.connect(path).execute(
        f"SELECT {column} = '{value}' FROM entries WHERE number = {number}"
    )
    assert after.fetchone() == (1,)
    if column == "signature" and number not in (3, 6) and value == "":
        assert journal.verify()  # there was none
        return
    with pytest.raises(StudyError, match="audit log"):
        journal.verify()
    # A party that reads it from the start lets nothing leave.
    if column != "signature":
        with pytest.raises(StudyError, match=f"Entry {number}|audit log"):
            AuditLog(path)


@pytest.mark.parametrize(
    "edit",
    [
        "DELETE FROM entries WHERE number = 4",
        "DELETE FROM entries WHERE number = 1",
        "UPDATE entries SET number = number + 1000 WHERE number = 5; ",
        "UPDATE entries SET number = -number WHERE number = 2",
    ],
)
def test_dropped_and_moved_rows_are_found(place, edit):
    journal = AuditLog(place.log("a"))
    for _ in range(2):
        a_round(journal)
    _raw(place.log("a"), edit)
    with pytest.raises(StudyError, match="audit log"):
        journal.verify()
    with pytest.raises(StudyError, match="altered"):
        AuditLog(place.log("a"))


def test_a_chain_computed_anew_is_not_signed(place):
    """Whoever has the file, and not the key, cannot invent what a round was about."""
    import hashlib

    journal = AuditLog(place.log("a"))
    a_round(journal)
    head, statements = "0" * 64, []
    for entry in journal.entries():
        record = {**entry.record}
        if entry.kind == "round":
            record["parties"] = ["a", "b", "mallory"]
        text = json.dumps(record, sort_keys=True, separators=(",", ":"))
        body = json.dumps(
            [entry.number, entry.time, entry.kind, entry.study, text],
            separators=(",", ":"),
        )
        head = hashlib.sha256(head.encode() + body.encode()).hexdigest()
        statements.append(
            f"UPDATE entries SET record = '{text}', hash = '{head}' "
            f"WHERE number = {entry.number}"
        )
    _raw(place.log("a"), *statements)
    again = AuditLog(place.log("a"))
    rosters = again.state().rosters
    assert rosters.others(("a", "b", "mallory"), "", None) == set()
    assert rosters.others(("a", "b", "c"), "", None) == {"table"}
    with pytest.raises(StudyError, match=r"Entry 3 .* is not signed"):
        again.verify()


def test_another_silos_log_does_not_verify_under_this_key(place):
    journal = AuditLog(place.log("a"))
    a_round(journal)
    assert journal.verify([IDENTITIES["b"].public, IDENTITIES["a"].public])
    with pytest.raises(StudyError, match="none of this silo"):
        journal.verify([IDENTITIES["b"].public])


def test_a_party_with_an_edited_log_lets_nothing_leave(place):
    place.federation().sum(counted)
    _raw(place.log("a"), "UPDATE entries SET study = 't' WHERE number = 2")
    with pytest.raises(StudyError, match="Entry 2 of the audit log"):
        place.restart("a")

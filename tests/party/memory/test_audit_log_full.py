"""The silo's audit log when it cannot be written: nothing leaves."""

import sqlite3

import pytest

from logged_silos import IDENTITIES, counted, place
from unpooled.errors import ReleaseRefusedError, StudyError
from unpooled.federation.federation import Federation
from unpooled.party.memory.audit_log import AuditLog
from unpooled.protocol.message import decode

# A fixture of another module.
__all__ = ["place"]


def _many_rounds(federation: Federation) -> None:
    for _ in range(200):
        federation.sum(counted)


@pytest.mark.slow
def test_a_full_log_stops_the_release(place):
    place.restart("a", max_pages=8)
    federation = place.federation()
    with pytest.raises(ReleaseRefusedError, match=r"a refused .*audit_log") as wrong:
        _many_rounds(federation)
    assert str(place.folder) not in str(wrong.value)
    said = [
        decode(data) for party, data in federation.coordinator.channel.received
        if party == "a"
    ]  # fmt: skip
    assert said[-1].header["kind"] == "refused" or said[-2].header["kind"] == "refused"
    released = sum(message.header["kind"] == "released" for message in said)
    journal = AuditLog(place.log("a"))
    assert journal.verify()
    # What left is written, and what could not be written did not leave.
    assert len(journal.ledger("s")) == released
    assert len(place.parties["a"].studies["s"].ledger) == released
    assert released < 200
    # Room again: the silo goes on where its log ends.
    place.restart("a")
    again = place.federation(ledger=federation.ledger, first_round=500)
    again.sum(counted)
    assert again.ledger.verify({n: i.public for n, i in IDENTITIES.items()})


def test_a_log_that_cannot_be_opened_is_told_at_home(tmp_path):
    (tmp_path / "text.sqlite").write_text("not a database, but long enough" * 40)
    for path in (tmp_path / "text.sqlite", tmp_path / "absent" / "x", tmp_path):
        with pytest.raises(StudyError, match=r"audit log .* cannot be used") as wrong:
            AuditLog(path)
        assert wrong.value.rule == "audit_log"


def test_a_failing_disk_stops_the_release(place, monkeypatch):
    federation = place.federation()
    federation.sum(counted)

    class Failing:
        """SQLite over a disk that fails when a transaction is committed."""

        def __init__(self, real):
            self.real = real

        def __getattr__(self, name):
            return getattr(self.real, name)

        def execute(self, query, *rest):
            if query == "COMMIT":
                raise sqlite3.OperationalError("disk I/O error")
            return self.real.execute(query, *rest)

    chain = place.parties["a"]._studies._audit_log._chain
    real = chain._database
    monkeypatch.setattr(chain, "_database", Failing(real))
    with pytest.raises(ReleaseRefusedError, match="audit_log"):
        federation.sum(counted)
    monkeypatch.setattr(chain, "_database", real)
    assert len(AuditLog(place.log("a")).ledger("s")) == 1
    assert len(place.parties["a"].studies["s"].ledger) == 1

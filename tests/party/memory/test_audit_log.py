"""The silo's audit log: whole rounds of what left, even after a kill."""

import os
import random
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import scribe
from logged_silos import IDENTITIES, QUICK, TEXT, a_round, place
from unpooled import PCA
from unpooled.errors import StudyError
from unpooled.party.memory.audit_log import AuditLog

# A fixture of another module.
__all__ = ["place"]


def test_what_a_silo_writes_is_what_the_coordinator_wrote(place):
    federation = place.federation()
    PCA(2).fit(federation)
    for name in "abc":
        journal = AuditLog(place.log(name))
        assert journal.verify([IDENTITIES[name].public])
        assert journal.studies() == ["s"]
        own = journal.ledger("s")
        assert own == place.parties[name].studies["s"].ledger
        assert [line.seals[name] for line in own] == [
            line.seals[name] for line in federation.ledger
        ]
        assert journal.check_against(federation.ledger, name) == 0


def test_pinned_keys_are_written_once_in_a_session(place):
    PCA(2).fit(place.federation())
    journal = AuditLog(place.log("a"))
    keys = {name: IDENTITIES[name].public.hex() for name in "abc"}
    entries = {e.kind: e.record for e in journal.entries()}
    assert entries["joined"]["keys"] == keys
    assert "keys" not in entries["round"]["answered"]
    answered = list(journal.answered())
    assert answered
    assert all(one.keys == keys for one in answered)


def test_a_round_of_another_session_has_its_own_keys(tmp_path):
    """As earlier versions of the library wrote every round."""
    journal = AuditLog(tmp_path / "log.sqlite")
    a_round(journal)
    (record,) = (e.record for e in journal.entries() if e.kind == "round")
    assert record["answered"]["keys"] == {"a": IDENTITIES["a"].public.hex()}
    again = AuditLog(tmp_path / "log.sqlite")
    assert [one.keys for one in again.answered()] == [record["answered"]["keys"]]


def test_the_file_is_for_the_silos_own_user(place):
    assert place.log("a").stat().st_mode & 0o777 == 0o600


@pytest.mark.slow
def test_clocks_an_hour_apart_change_nothing(place, monkeypatch):
    shift = {"a": -3600, "b": 0, "c": 3600}
    current = ["b"]

    class Clock(datetime):
        @classmethod
        def now(cls, tz=None):
            away = timedelta(seconds=shift.get(current[0], 0))
            return datetime.now(tz or UTC) + away

    clock = SimpleNamespace(time=lambda: Clock.now().timestamp())
    monkeypatch.setattr("unpooled.ledger.datetime", Clock)
    monkeypatch.setattr("unpooled.party.memory.hash_chain.time", clock)
    federation = place.federation()
    for name, party in place.parties.items():
        handle = party.handle

        def at_its_time(data, name=name, handle=handle):
            current[0] = name
            try:
                return handle(data)
            finally:
                current[0] = "coordinator"

        federation.coordinator.channel._inner._doors[name] = at_its_time  # type: ignore[attr-defined]
    PCA(2).fit(federation)
    assert federation.ledger.verify({n: i.public for n, i in IDENTITIES.items()})
    ends = {}
    for name in "abc":
        journal = AuditLog(place.log(name))
        assert journal.verify()
        ends[name] = datetime.fromisoformat(journal.entries()[-1].time)
    assert timedelta(hours=1.9) < ends["c"] - ends["a"] < timedelta(hours=2.1)
    # And a clock that goes back: nothing is ordered by it.
    shift["b"] = -86_400
    PCA(2).fit(place.federation(study="later"))
    assert AuditLog(place.log("b")).verify()


@pytest.mark.slow
@QUICK
@given(data=st.data())
def test_any_order_of_events_is_remembered(tmp_path_factory, data):
    """A journal opened anew says what the one that wrote it says."""
    path = tmp_path_factory.mktemp("log") / "a.sqlite"
    journal, joined = AuditLog(path), 0
    names = st.sampled_from(["s", "t", "ü ✓"])
    for _ in range(data.draw(st.integers(0, 12))):
        study = data.draw(names)
        event = data.draw(st.integers(0, 6))
        if event == 0:
            a_round(journal, study, lines=data.draw(st.integers(1, 3)))
        elif event == 1:
            joined += 1
            journal.joined(IDENTITIES["a"], study, f"session {joined}", {"a": "0a"})
        elif event == 2:
            journal.announced(study, data.draw(st.text("xyz", min_size=1, max_size=2)))
        elif event == 3 and journal.study(study).text:
            journal.decided(study, approved=data.draw(st.booleans()), steps=["x.*"])
        elif event == 4:
            journal.delivered(study, data.draw(st.text("mn", max_size=1)), "00", 5)
        elif event == 5:
            journal.forgotten(study, [])
        else:
            journal.refused(study, data.draw(st.text(max_size=3)), "min_rows")
    again = AuditLog(path)
    assert again.verify()
    assert again.studies() == journal.studies()
    for study in journal.studies():
        assert vars(again.study(study)) == vars(journal.study(study))
        assert len(again.ledger(study)) == journal.study(study).lines
    assert again.entries() == journal.entries()


def test_a_decision_is_on_a_text(tmp_path):
    journal = AuditLog(tmp_path / "log")
    with pytest.raises(StudyError, match="No study s was announced"):
        journal.decided("s", approved=True)
    journal.announced("s", TEXT)
    assert journal.study("s").approval == "waiting"
    journal.decided("s", approved=True, steps=["pca.*"])
    assert journal.study("s").approval == "approved"
    assert journal.study("s").approves("pca.local_total")
    assert not journal.study("s").approves("scaler.local_total")
    journal.announced("s", TEXT)
    assert journal.study("s").approval == "approved"
    journal.announced("s", TEXT + "# more\n")
    assert journal.study("s").approval == "waiting"
    assert not journal.study("s").approves("pca.local_total")
    journal.decided("s", approved=False)
    assert journal.study("s").approval == "denied"
    assert journal.study("t").approval == "unknown"


def test_refusals_are_written_once_and_cannot_fill_the_disk(tmp_path):
    journal = AuditLog(tmp_path / "log")
    for _ in range(5):
        journal.refused("s", "pca.local_total", "min_rows")
    assert len(journal.entries()) == 1
    for number in range(1000):
        journal.refused("s" * 1000, f"{number}" * 1000, "allowed_steps")
    assert len(journal.entries()) == 256
    assert (tmp_path / "log").stat().st_size < 2**20


@pytest.mark.slow
@pytest.mark.parametrize("kills", [6, 60])
def test_killed_at_any_point_the_log_holds_whole_rounds(tmp_path, kills):
    path, told = tmp_path / "log.sqlite", 0
    key = IDENTITIES["a"].private_bytes().hex()
    chance = random.Random(5)
    for number in range(kills):
        process = subprocess.Popen(
            [sys.executable, scribe.__file__, path, key],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            time.sleep(chance.uniform(0.0, 0.25))
            process.send_signal(signal.SIGKILL)
            lines = process.stdout.read().split()
        finally:
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()
        told = max([told, *map(int, lines[-1:])])
        journal = AuditLog(path)
        # All signatures so far, six times: thousands of them by the sixtieth kill.
        if number % (kills // 6) == kills // 6 - 1:
            assert journal.verify([IDENTITIES["a"].public])
        kinds = [entry.kind for entry in journal.entries()]
        assert kinds == ["line", "line", "line", "round"] * (len(kinds) // 4)
        # At most one more than was told: written, and killed before telling.
        assert journal.study("s").lines in (told, told + 3)
        told = journal.study("s").lines
        journal.close()
    assert told > 0

"""The silo's audit log: whole rounds or nothing, edits found, a full file stops all."""

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import scribe
from unpooled import PCA, Policy
from unpooled.data.sources import open_source
from unpooled.errors import AggregationError, ReleaseRefusedError, StudyError
from unpooled.federation.base import Federation
from unpooled.federation.layout import Layout
from unpooled.federation.local import LocalChannel
from unpooled.federation.rounds import Coordinator
from unpooled.ledger import Ledger
from unpooled.party.dealings import forget_kept
from unpooled.party.journal import Journal
from unpooled.party.runtime import Party
from unpooled.party.step import kept, summed
from unpooled.secure.message import Message, decode, encode
from unpooled.secure.roster import Identity, Roster
from wire import COLUMNS, Wire, rows

QUICK = settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
NAMES = "abcd"
IDENTITIES = {name: Identity() for name in NAMES}
TEXT = '[study]\nname = "s"\n'


@summed(out="")
def counted(X: np.ndarray) -> dict[str, np.ndarray]:
    return {"out": np.array(float(len(X)))}


@kept(out="p")
def stays_here(X: np.ndarray) -> dict[str, np.ndarray]:
    return {"out": X.sum(axis=0)}


@summed(out="p")
def reads_kept(X: np.ndarray, kept: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {"out": kept["out"] * len(X)}


@dataclass
class Place:
    """Silos with audit logs in a folder; `start` is a restart of all of them."""

    folder: Path
    parties: dict[str, Party]

    def start(self, **options) -> "Place":
        for name in NAMES:
            self.restart(name, **options)
        return self

    def restart(self, name: str, **options) -> None:
        roster = Roster({n: i.public for n, i in IDENTITIES.items()})
        pages = options.pop("max_pages", None)
        self.parties[name] = Party(
            name,
            open_source(rows(seed=ord(name))),
            options.pop("policy", Policy()),
            IDENTITIES[name],
            roster,
            journal=Journal(self.log(name), max_pages=pages),
            models=self.folder / f"{name}-models",
            **options,
        )

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.sqlite"

    def federation(self, names: str = "abc", study: str = "s", **more) -> Federation:
        channel = LocalChannel({n: self.parties[n].handle for n in names})
        roster = Roster({n: IDENTITIES[n].public for n in names})
        coordinator = Coordinator(Wire(channel), roster, study=study, **more)
        layout = Layout.of_rows(names, COLUMNS)
        return Federation(coordinator, layout=layout, named=False, label=None)

    def say(self, name: str, header: dict, arrays: dict | None = None) -> Message:
        return decode(self.parties[name].handle(encode(header, arrays or {})))


@pytest.fixture
def place(tmp_path_factory) -> Place:
    return Place(tmp_path_factory.mktemp("silos"), {}).start()


def a_round(journal: Journal, study: str = "s", lines: int = 2) -> None:
    scribe.a_round(journal, IDENTITIES["a"], study, lines)


def test_what_a_silo_writes_is_what_the_coordinator_wrote(place):
    federation = place.federation()
    PCA(2).fit(federation)
    for name in "abc":
        journal = Journal(place.log(name))
        assert journal.verify([IDENTITIES[name].public])
        assert journal.studies() == ["s"]
        own = journal.ledger("s")
        assert own == place.parties[name].studies["s"].ledger
        assert [line.seals[name] for line in own] == [
            line.seals[name] for line in federation.ledger
        ]
        assert journal.check_against(federation.ledger, name) == 0


def test_the_file_is_for_the_silos_own_user(place):
    assert place.log("a").stat().st_mode & 0o777 == 0o600


def test_a_party_goes_on_after_a_restart(place):
    federation = place.federation()
    federation.sum(counted)
    before = len(federation.ledger)
    place.start()
    # The new process knows the study, and its seals go on without a gap.
    assert len(place.parties["a"].studies["s"].ledger) == before
    again = place.federation(ledger=federation.ledger, first_round=2)
    again.sum(counted)
    assert again.ledger.verify({n: i.public for n, i in IDENTITIES.items()})
    counts = [line.seals["a"].sequence for line in again.ledger]
    assert counts == list(range(len(counts)))
    assert Journal(place.log("a")).verify()


def test_transforms_fitted_before_a_restart_are_still_known(place):
    from unpooled import StandardScaler

    federation = place.federation()
    scaler = StandardScaler().fit(federation)
    place.start()
    again = place.federation(ledger=federation.ledger, first_round=9)
    # Silos know what they answered, never what it gave: that they must be shown.
    with pytest.raises(ReleaseRefusedError, match="transform_not_fitted"):
        PCA(2).fit(scaler.transform(again))
    again.coordinator.proofs = federation.coordinator.proofs
    whole = PCA(2).fit(scaler.transform(again))
    assert whole.n_samples_ == 90
    stranger = place.federation(study="other")
    stranger.coordinator.proofs = federation.coordinator.proofs
    with pytest.raises(ReleaseRefusedError, match="transform_not_fitted"):
        PCA(2).fit(scaler.transform(stranger))


def test_what_a_step_kept_outlives_the_process_until_it_is_forgotten(place):
    federation = place.federation()
    federation.keep(stays_here)
    told = federation.sum(reads_kept)["out"]
    place.start()
    again = place.federation(ledger=federation.ledger, first_round=3)
    assert (again.sum(reads_kept)["out"] == told).all()
    other = place.federation(study="other")
    with pytest.raises(ReleaseRefusedError, match="nothing_kept"):
        other.sum(reads_kept)
    # Even where the files are still there: they belong to what was forgotten.
    Journal(place.log("a")).forgotten("s", [])
    place.start()
    once_more = place.federation(ledger=again.ledger, first_round=5)
    with pytest.raises(ReleaseRefusedError, match=r"a refused .*nothing_kept"):
        once_more.sum(reads_kept)
    assert (place.folder / "a.kept" / "s").exists()
    forget_kept(Journal(place.log("a")), "s")
    assert not (place.folder / "a.kept" / "s").exists()


@pytest.mark.parametrize("when", ["same process", "restarted"])
def test_a_second_study_without_one_silo_is_refused(place, when):
    PCA(2).fit(place.federation("abcd", "first"))
    if when == "restarted":
        place.start()
    with pytest.raises(ReleaseRefusedError, match="allow_roster_change"):
        PCA(2).fit(place.federation("abc", "second"))
    # The same parties may ask again, and a silo may say otherwise.
    PCA(2).fit(place.federation("abcd", "third"))
    place.start(policy=Policy(allow_roster_change=True))
    PCA(2).fit(place.federation("abc", "fourth"))


def test_another_selection_of_columns_is_no_way_round(place):
    place.federation("abcd", "first").select(["x0", "x1"]).sum(counted)
    place.start()
    federation = place.federation("abc", "second")
    with pytest.raises(ReleaseRefusedError, match="allow_roster_change"):
        federation.select(["x1", "x2"]).sum(counted)
    federation.select(["x2"]).sum(counted)


def test_a_process_that_started_earlier_knows_what_another_answered(place):
    """Two jobs at once: the rule is on the file, not on a process."""
    earlier = dict(place.parties)
    place.start()
    place.federation("abcd", "first").sum(counted)
    place.parties = earlier
    with pytest.raises(ReleaseRefusedError, match="allow_roster_change"):
        place.federation("abc", "second").sum(counted)


def test_three_studies_that_combine_to_one_silo_are_refused(place):
    """A+B+C and A+B+D give C - D, though no two studies differ by one silo."""
    place.federation("abc", "first").sum(counted)
    place.start()
    for names in ("abd", "bcd", "acd"):
        with pytest.raises(ReleaseRefusedError, match="allow_roster_change"):
            place.federation(names, f"with {names}").sum(counted)
        place.start()
    # Silo d answered nobody else, and what it masked opens nothing alone.
    lines = {name: Journal(place.log(name)).ledger("with abd") for name in NAMES}
    assert [len(lines[name]) for name in NAMES] == [0, 0, 0, 1]


def test_a_new_key_counts_its_own_lines(place, monkeypatch):
    federation = place.federation()
    federation.sum(counted)
    old = IDENTITIES["a"]
    monkeypatch.setitem(IDENTITIES, "a", Identity())
    place.start()
    again = place.federation(ledger=federation.ledger, first_round=2)
    again.sum(counted)
    assert again.ledger.verify()
    assert [line.seals["a"].sequence for line in again.ledger] == [0, 0]
    assert [line.seals["b"].sequence for line in again.ledger] == [0, 1]
    journal = Journal(place.log("a"))
    assert journal.verify([IDENTITIES["a"].public, old.public])
    with pytest.raises(StudyError, match="not signed"):
        journal.verify([IDENTITIES["a"].public])
    assert len(place.parties["a"].studies["s"].ledger) == 2


def test_two_processes_do_not_write_the_same_line_twice(place):
    federation = place.federation()
    federation.coordinator.enter()
    federation.sum(counted)
    other = Journal(place.log("a"))
    a_round(other, lines=1)
    with pytest.raises(ReleaseRefusedError, match=r"a refused .*out_of_order"):
        federation.sum(counted)
    assert other.verify()


def test_a_session_is_joined_once_ever(place):
    federation = place.federation()
    federation.sum(counted)
    wire = federation.coordinator.channel
    join = next(
        d for p, d in wire.sent if p == "a" and decode(d).header["kind"] == "join"
    )
    place.start()
    reply = decode(place.parties["a"].handle(join))
    assert (reply.header["kind"], reply.header["rule"]) == ("refused", "replayed")


def test_replies_that_got_lost_come_into_the_ledger_after_a_resume(place):
    federation = place.federation()
    federation.sum(counted)
    wire = federation.coordinator.channel
    saved = Ledger(federation.ledger)
    federation.sum(counted)
    federation.sum(counted)
    # Killed before it wrote the last two rounds.
    place.start()
    again = place.federation(ledger=saved, first_round=2)
    again.sum(counted)
    assert [line.round for line in again.ledger] == [1, 2, 3, 4]
    assert again.ledger.verify({n: i.public for n, i in IDENTITIES.items()})
    assert wire is not again.coordinator.channel


def test_a_coordinator_notices_a_log_that_was_cut(place):
    federation = place.federation()
    federation.sum(counted)
    for path in place.folder.glob("b.sqlite*"):
        path.unlink()
    place.start()
    again = place.federation(ledger=federation.ledger, first_round=2)
    with pytest.raises(AggregationError, match="b's audit log has fewer lines"):
        again.sum(counted)


def test_lines_cut_at_the_end_show_against_the_ledger(place):
    federation = place.federation()
    federation.sum(counted)
    federation.sum(counted)
    _raw(place.log("a"), "DELETE FROM entries WHERE number > 3")
    journal = Journal(place.log("a"))
    assert journal.verify()
    with pytest.raises(StudyError, match="lacks it: the log was cut"):
        journal.check_against(federation.ledger, "a")
    # The other way round: lines that a coordinator left out.
    b = Journal(place.log("b"))
    assert b.check_against(federation.ledger[:1], "b") == 1


def _raw(path: Path, *statements: str) -> None:
    """Edit a log around its triggers, as somebody with the file can."""
    database = sqlite3.connect(path)
    for trigger in ("stay", "remain", "follow"):
        database.execute(f"DROP TRIGGER entries_{trigger}")
    for statement in statements:
        database.execute(statement)
    database.commit()
    database.close()


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
    a_round(Journal(place.log("a")))
    database = sqlite3.connect(place.log("a"))
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        database.execute(statement)
    database.close()
    assert Journal(place.log("a")).verify()


COLUMNS_OF_ENTRIES = ("time", "kind", "study", "record", "hash", "signature")


@QUICK
@given(
    number=st.integers(1, 8),
    column=st.sampled_from(COLUMNS_OF_ENTRIES),
    value=st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=9),
)
def test_any_edited_cell_is_found(tmp_path_factory, number, column, value):
    path = tmp_path_factory.mktemp("log") / "a.sqlite"
    journal = Journal(path)
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
            Journal(path)


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
    journal = Journal(place.log("a"))
    for _ in range(2):
        a_round(journal)
    _raw(place.log("a"), edit)
    with pytest.raises(StudyError, match="audit log"):
        journal.verify()
    with pytest.raises(StudyError, match="altered"):
        Journal(place.log("a"))


def test_a_chain_computed_anew_is_not_signed(place):
    """Whoever has the file, and not the key, cannot invent what a round was about."""
    import hashlib

    journal = Journal(place.log("a"))
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
    again = Journal(place.log("a"))
    assert again.roster("x0") == ("a", "b", "mallory")
    with pytest.raises(StudyError, match=r"Entry 3 .* is not signed"):
        again.verify()


def test_another_silos_log_does_not_verify_under_this_key(place):
    journal = Journal(place.log("a"))
    a_round(journal)
    assert journal.verify([IDENTITIES["b"].public, IDENTITIES["a"].public])
    with pytest.raises(StudyError, match="not signed"):
        journal.verify([IDENTITIES["b"].public])


def test_a_party_with_an_edited_log_lets_nothing_leave(place):
    place.federation().sum(counted)
    _raw(place.log("a"), "UPDATE entries SET study = 't' WHERE number = 2")
    with pytest.raises(StudyError, match="Entry 2 of the audit log"):
        place.restart("a")


def _many_rounds(federation: Federation) -> None:
    for _ in range(200):
        federation.sum(counted)


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
    journal = Journal(place.log("a"))
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
            Journal(path)
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

    chain = place.parties["a"]._dealings._journal._chain  # type: ignore[union-attr]
    real = chain._database
    monkeypatch.setattr(chain, "_database", Failing(real))
    with pytest.raises(ReleaseRefusedError, match="audit_log"):
        federation.sum(counted)
    monkeypatch.setattr(chain, "_database", real)
    assert len(Journal(place.log("a")).ledger("s")) == 1
    assert len(place.parties["a"].studies["s"].ledger) == 1


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
    monkeypatch.setattr("unpooled.party.chain.time", clock)
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
        journal = Journal(place.log(name))
        assert journal.verify()
        ends[name] = datetime.fromisoformat(journal.entries()[-1].time)
    assert timedelta(hours=1.9) < ends["c"] - ends["a"] < timedelta(hours=2.1)
    # And a clock that goes back: nothing is ordered by it.
    shift["b"] = -86_400
    PCA(2).fit(place.federation(study="later"))
    assert Journal(place.log("b")).verify()


@QUICK
@given(data=st.data())
def test_any_order_of_events_is_remembered(tmp_path_factory, data):
    """A journal opened anew says what the one that wrote it says."""
    path = tmp_path_factory.mktemp("log") / "a.sqlite"
    journal, joined = Journal(path), 0
    names = st.sampled_from(["s", "t", "ü ✓"])
    for _ in range(data.draw(st.integers(0, 12))):
        study = data.draw(names)
        event = data.draw(st.integers(0, 6))
        if event == 0:
            a_round(journal, study, lines=data.draw(st.integers(1, 3)))
        elif event == 1:
            joined += 1
            journal.joined(IDENTITIES["a"], study, f"session {joined}", ["a", "b"])
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
    again = Journal(path)
    assert again.verify()
    assert again.studies() == journal.studies()
    for study in journal.studies():
        assert vars(again.study(study)) == vars(journal.study(study))
        assert len(again.ledger(study)) == journal.study(study).lines
    assert again.entries() == journal.entries()


def test_a_decision_is_on_a_text(tmp_path):
    journal = Journal(tmp_path / "log")
    with pytest.raises(StudyError, match="No study 's' was announced"):
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
    journal = Journal(tmp_path / "log")
    for _ in range(5):
        journal.refused("s", "pca.local_total", "min_rows")
    assert len(journal.entries()) == 1
    for number in range(1000):
        journal.refused("s" * 1000, f"{number}" * 1000, "allowed_steps")
    assert len(journal.entries()) == 256
    assert (tmp_path / "log").stat().st_size < 2**20


@pytest.mark.parametrize("kills", [6, pytest.param(60, marks=pytest.mark.slow)])
def test_killed_at_any_point_the_log_holds_whole_rounds(tmp_path, kills):
    path, told = tmp_path / "log.sqlite", 0
    key = IDENTITIES["a"].private_bytes().hex()
    chance = random.Random(5)
    for _ in range(kills):
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
        journal = Journal(path)
        assert journal.verify([IDENTITIES["a"].public])
        kinds = [entry.kind for entry in journal.entries()]
        assert kinds == ["line", "line", "line", "round"] * (len(kinds) // 4)
        # At most one more than was told: written, and killed before telling.
        assert journal.study("s").lines in (told, told + 3)
        told = journal.study("s").lines
        journal.close()
    assert told > 0

"""The silo's audit log across restarts: what was answered and kept is still known."""

import numpy as np
import pytest

from logged_silos import IDENTITIES, NAMES, a_round, counted, place
from unpooled import PCA, Policy
from unpooled.errors import AggregationError, ReleaseRefusedError, StudyError
from unpooled.ledger import Ledger
from unpooled.party.memory.audit_log import AuditLog
from unpooled.party.memory.studies import forget_kept
from unpooled.protocol.message import decode
from unpooled.protocol.step import kept, summed
from unpooled.secure.keys.roster import Identity

# A fixture of another module.
__all__ = ["place"]


@kept(out="p")
def stays_here(X: np.ndarray) -> dict[str, np.ndarray]:
    return {"out": X.sum(axis=0)}


@summed(out="p")
def reads_kept(X: np.ndarray, kept: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {"out": kept["out"] * len(X)}


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
    assert AuditLog(place.log("a")).verify()


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
    AuditLog(place.log("a")).forgotten("s", [])
    place.start()
    once_more = place.federation(ledger=again.ledger, first_round=5)
    with pytest.raises(ReleaseRefusedError, match=r"a refused .*nothing_kept"):
        once_more.sum(reads_kept)
    assert (place.folder / "a.kept" / "s").exists()
    forget_kept(AuditLog(place.log("a")), "s", place.folder / "results")
    assert not (place.folder / "a.kept" / "s").exists()


@pytest.mark.slow
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
    for columns in (["x1", "x2"], ["x2"]):
        with pytest.raises(ReleaseRefusedError, match="allow_roster_change"):
            federation.select(columns).sum(counted)


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
    lines = {name: AuditLog(place.log(name)).ledger("with abd") for name in NAMES}
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
    journal = AuditLog(place.log("a"))
    assert journal.verify([IDENTITIES["a"].public, old.public])
    with pytest.raises(StudyError, match="none of this silo"):
        journal.verify([IDENTITIES["a"].public])
    assert len(place.parties["a"].studies["s"].ledger) == 2


def test_two_processes_do_not_write_the_same_line_twice(place):
    federation = place.federation()
    federation.coordinator.enter()
    federation.sum(counted)
    other = AuditLog(place.log("a"))
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

"""Attacks on a silo's memory: an older copy of its audit log, put back."""

import shutil
import sqlite3

import numpy as np
import pytest

import logged_silos
import unpooled as up
from logged_silos import Place, place
from unpooled.errors import AggregationError, UnpooledError
from unpooled.party.memory.audit_log import AuditLog
from unpooled.secure.keys.roster import Identity
from wire import Rogue, Silos, Wire

# A fixture of another module.
__all__ = ["place"]


def copied(place: Place, name: str) -> None:
    """Take a copy of a log, as a backup does."""
    with (
        sqlite3.connect(place.log(name)) as log,
        sqlite3.connect(place.folder / "copy.sqlite") as copy,
    ):
        log.backup(copy)


def put_back(place: Place, name: str) -> None:
    """Stop a silo, put the copy in place of its log, and start the silo again."""
    for file in place.folder.glob(f"{name}.sqlite*"):
        file.unlink()
    shutil.copy(place.folder / "copy.sqlite", place.log(name))
    place.restart(name)


def fit(place: Place, study: str) -> up.StandardScaler:
    return up.StandardScaler().fit(place.federation("abc", study))


def refused(place: Place, study: str) -> str:
    with pytest.raises(UnpooledError) as wrong:
        fit(place, study)
    assert not place.parties["a"].studies[study].ledger
    return str(wrong.value.rule)


@pytest.mark.slow
def test_an_older_log_is_noticed_in_a_study_of_its_own(place):
    fit(place, "one")
    copied(place, "b")
    fit(place, "two")
    put_back(place, "b")
    # Nothing of study two, and nobody but the two others knows that it was there.
    assert "two" not in AuditLog(place.log("b")).studies()
    assert refused(place, "three") == "audit_log_rolled_back"


@pytest.mark.slow
def test_an_older_log_is_noticed_when_it_has_grown_again(place):
    fit(place, "one")
    copied(place, "b")
    fit(place, "two")
    length = AuditLog(place.log("b")).n_entries
    put_back(place, "b")
    log, entry = AuditLog(place.log("b")), 0
    while log.n_entries <= length:
        log.announced("other", f"text {(entry := entry + 1)}")
    assert refused(place, "three") == "audit_log_rolled_back"


def test_an_empty_log_is_an_older_one(place):
    AuditLog(place.folder / "copy.sqlite")
    fit(place, "one")
    put_back(place, "c")
    assert refused(place, "two") == "audit_log_rolled_back"


@pytest.mark.slow
def test_a_coordinator_that_hides_what_others_saw_opens_nothing(place):
    fit(place, "one")
    copied(place, "b")
    fit(place, "two")
    put_back(place, "b")
    federation = place.federation("abc", "three")
    wire = federation.coordinator.channel
    assert isinstance(wire, Wire)
    here = Silos(federation, place.parties, wire, federation.coordinator.roster)
    rogue = Rogue(here, "abc", study="three")
    offers = rogue.join()
    assert set(offers["a"].header["pinned"]) == {"b", "c"}
    for reply in offers.values():
        reply.header["pinned"].clear()
    told = rogue.agree(offers)
    assert {reply.header["kind"] for reply in told.values()} == {"agreed"}
    # b has other keys than a and c now, so the masks do not cancel.
    try:
        count = rogue.totals("scaler.local_counts")["count"]
    except AggregationError:
        return
    assert (np.abs(count - 90.0) > 1.0).all()


@pytest.mark.slow
def test_a_silo_whose_log_is_lost_goes_on_under_a_new_key(place, monkeypatch):
    fit(place, "one")
    for file in place.folder.glob("b.sqlite*"):
        file.unlink()
    place.restart("b")
    assert refused(place, "two") == "audit_log_rolled_back"
    # Its people tell the others, who pin the new key by hand.
    monkeypatch.setitem(logged_silos.IDENTITIES, "b", Identity())
    place.start()
    fit(place, "three")


def test_control_a_log_that_grows_is_no_older_one(place):
    for study in ("one", "two"):
        fit(place, study)
        place.start()
    # Two processes of a silo write to one log.
    before = place.parties["a"]
    place.restart("a")
    fit(place, "four")
    place.parties["a"] = before
    fit(place, "five")

"""After a period a silo may answer about its table for another set of parties."""

import time

import pytest

from logged_silos import Place, counted
from unpooled import Policy
from unpooled.errors import ReleaseRefusedError, StudyError
from unpooled.party.memory.audit_log import AuditLog
from unpooled.party.rules.answered_rosters import UNKNOWN, AnsweredRosters
from wire import Rogue, rows, silos

DAY = 86_400.0
PERIOD = Policy(roster_period_days=30.0)
TABLES = {name: rows(seed=i) for i, name in enumerate("abcd")}


class Clock:
    """The silos' own clock, which a test puts forward."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.days, self._began = 0.0, time.time()
        monkeypatch.setattr("time.time", lambda: self._began + DAY * self.days)


@pytest.fixture
def clock(monkeypatch):
    return Clock(monkeypatch)


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path, {}).start(policy=PERIOD)


def rules(here, names, study):
    return set(
        Rogue(here, names, study=study).enter().rules("pca.local_total").values()
    )


def test_another_roster_waits_for_the_period(clock):
    here = silos(TABLES, policy={"roster_period_days": 30.0})
    assert rules(here, "abcd", "first") == {""}
    clock.days = 29.9
    assert rules(here, "abc", "second") == {"allow_roster_change"}
    clock.days = 30.1
    assert rules(here, "abc", "third") == {""}
    # Now the table is the new roster's, for as long.
    clock.days = 59.0
    assert rules(here, "abcd", "fourth") == {"allow_roster_change", ""}
    clock.days = 60.2
    assert rules(here, "abcd", "fifth") == {""}


def test_control_without_a_period_no_time_is_long_enough(clock):
    here = silos(TABLES)
    assert rules(here, "abcd", "first") == {""}
    clock.days = 10_000.0
    assert rules(here, "abc", "second") == {"allow_roster_change"}


def test_every_answer_begins_the_period_anew(clock):
    here = silos(TABLES, policy={"roster_period_days": 30.0})
    for clock.days in (0.0, 20.0):
        assert rules(here, "abcd", f"day {clock.days}") == {""}
    clock.days = 40.0
    assert rules(here, "abc", "second") == {"allow_roster_change"}


def test_a_log_knows_the_time_over_restarts(clock, place):
    place.federation("abcd", "first").sum(counted)
    clock.days = 20.0
    place.start(policy=PERIOD)
    with pytest.raises(ReleaseRefusedError, match="allow_roster_change"):
        place.federation("abc", "second").sum(counted)
    clock.days = 31.0
    place.start(policy=PERIOD)
    assert place.federation("abc", "third").sum(counted)["out"] == 90.0
    rosters = AuditLog(place.log("a")).state().rosters
    assert rosters.others(("a", "b", "c"), "", None) == set()
    assert len(rosters.others(("a", "b"), "", None)) == 1
    assert AuditLog(place.log("a")).verify()


def test_a_clock_that_was_put_back_frees_nothing():
    told = AnsweredRosters()
    told.see("table", ("a", "b"), "2026-06-01T00:00:00+00:00")
    for days, day, others in (
        (1.0, "2026-01-01", {"table"}),
        (1.0, "2026-06-03", set()),
        (None, "2030-06-03", {"table"}),
    ):
        assert told.others(("a",), f"{day}T00:00:00+00:00", days) == others
        assert told.others(("a", "b"), f"{day}T00:00:00+00:00", days) == set()


def test_an_earlier_librarys_roster_counts_until_the_first_answer():
    told = AnsweredRosters()
    told.see(UNKNOWN, ("a", "b"), "2026-06-01T00:00:00+00:00")
    assert told.others(("a",), "", None) == {UNKNOWN}
    told.see("table", ("a",), "2026-06-02T00:00:00+00:00")
    assert told.others(("a",), "", None) == set()


def test_an_earlier_librarys_roster_is_about_every_table():
    here = silos(TABLES)
    for party in here.parties.values():
        rosters = party._studies._audit_log.state().rosters
        rosters.see(UNKNOWN, ("x", "y"), "2026-06-01T00:00:00+00:00")
    assert rules(here, "abcd", "first") == {"allow_roster_change"}


@pytest.mark.parametrize("days", [-1.0, "30", True])
def test_a_period_is_a_number_of_days(days):
    with pytest.raises(StudyError, match="roster_period_days"):
        Policy.of({"roster_period_days": days})

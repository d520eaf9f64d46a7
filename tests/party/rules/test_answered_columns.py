"""After a period a silo may answer about a column for another set of parties."""

import time

import pytest

from logged_silos import Place, counted
from unpooled import Policy
from unpooled.errors import ReleaseRefusedError, StudyError
from unpooled.party.memory.audit_log import AuditLog
from unpooled.party.rules.answered_columns import AnsweredColumns
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
    # Now the column is the new roster's, for as long.
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
    assert AuditLog(place.log("a")).answered_columns().rosters(("x0",), "", None) == {
        ("a", "b", "c")
    }
    assert AuditLog(place.log("a")).verify()


def test_a_clock_that_was_put_back_frees_nothing():
    told = AnsweredColumns()
    told.see(("x0",), ("a", "b"), "2026-06-01T00:00:00+00:00", {})
    before = told.rosters(("x0",), "2026-01-01T00:00:00+00:00", 1.0)
    assert before == {("a", "b")}
    assert told.rosters(("x0",), "2026-06-03T00:00:00+00:00", 1.0) == set()
    assert told.rosters(("x0",), "2030-06-03T00:00:00+00:00", None) == {("a", "b")}


@pytest.mark.parametrize("days", [-1.0, "30", True])
def test_a_period_is_a_number_of_days(days):
    with pytest.raises(StudyError, match="roster_period_days"):
        Policy.of({"roster_period_days": days})

"""Refusals are answers: a silo gives few of them in a period, over all studies."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from unpooled import Policy
from unpooled.errors import DATA_RULES, RULES
from unpooled.party.memory.audit_log import AuditLog
from unpooled.party.rules.refusal_limit import (
    Refusals,
    bounds_tried,
    check_refusals,
    question_of,
)
from unpooled.protocol.answered import Answered
from unpooled.protocol.refusal import Refusal
from unpooled.protocol.view_operations import Rows, Select
from wire import COLUMNS, Rogue, rows, silos

TABLES = {name: rows(seed=i) for i, name in enumerate("abc")}
NOW = "2026-05-01T12:00:00+00:00"


# A silo that is too small for its own policy: each set of columns is a question.
SMALL = {**TABLES, "a": rows(9)}
SETS = [("x0",), ("x1",), ("x2",), ("x0", "x1"), ("x0", "x2"), ("x1", "x2"), COLUMNS]


def rule(rogue: Rogue, *chain: Select | Rows, step="imputer.local_counts") -> str:
    return rogue.rules(step, None, chain)["a"]


def test_bisecting_ends_for_all_studies():
    here = silos(SMALL, policy={})
    asked = [rule(Rogue(here).enter(), Select(columns)) for columns in SETS[:5]]
    assert asked == ["min_rows"] * 3 + ["refusals"] * 2
    # Nor is what was allowed before, nor in another study, nor in a plan.
    other = Rogue(here, study="other").enter()
    assert rule(other, Select(COLUMNS)) == "refusals"
    assert planned(other) == "refusals"


def planned(rogue: Rogue, *chain: Select | Rows) -> str:
    request = rogue.request("imputer.local_counts", None, chain or None)
    header, _ = request.as_message()
    header |= {"kind": "plan", "parties": list(TABLES)}
    return rogue.say("a", header).header["rule"]


def test_the_same_question_counts_once():
    """A person who mistypes plans it, runs it, and tries another model."""
    here = silos(SMALL, policy={})
    for study in ("one", "two"):
        rogue = Rogue(here, study=study).enter()
        for columns in (COLUMNS, COLUMNS[::-1]):
            assert planned(rogue, Select(columns)) == "min_rows"
            for step in ("imputer.local_counts", "pca.local_total"):
                assert rule(rogue, Select(columns), step=step) == "min_rows"
    assert rule(Rogue(here).enter(), Select(("x0",))) == "min_rows"


def test_plans_count():
    rogue = Rogue(silos(SMALL, policy={})).enter()
    said = [planned(rogue, Select(columns)) for columns in SETS[:4]]
    assert said == ["min_rows"] * 3 + ["refusals"]


def test_refusals_that_say_nothing_of_rows_do_not_count():
    rogue = Rogue(silos(TABLES, policy={})).enter()
    for _ in range(5):
        assert set(rogue.rules("no.step").values()) == {"allowed_steps"}
    assert np.isfinite(rogue.observed("imputer")["total"]).all()


def test_a_silo_may_allow_more_of_them_or_any():
    for most in (5, float("inf")):
        rogue = Rogue(silos(SMALL, policy={"max_refusals": most})).enter()
        said = [rule(rogue, Select(columns)) for columns in SETS]
        assert said.count("min_rows") == min(most, 7)


def test_a_log_counts_over_restarts_until_a_person_forgets(tmp_path):
    log = AuditLog(tmp_path / "log")
    for k in range(3):
        log.refused(f"s{k}", "x.y", "min_rows", question=f"question {k}")
    for again in (log, AuditLog(tmp_path / "log")):
        with pytest.raises(Refusal, match="refusals"):
            check_refusals(Policy(), again.state().refusals, (), now())
    AuditLog(tmp_path / "log").pardoned("somebody")
    check_refusals(Policy(), log.state().refusals, (), now())
    assert log.verify()


def now() -> str:
    return datetime.now(UTC).isoformat()


def test_a_period_ends():
    refusals = Refusals()
    for k in range(3):
        refusals.see(f"question {k}", "min_rows", NOW)
    later = datetime.fromisoformat(NOW)
    for days in (-1, 0, 29.9):  # a clock that was put back frees nothing
        at = (later + timedelta(days=days)).isoformat()
        with pytest.raises(Refusal):
            check_refusals(Policy(), refusals, (), at)
    after = (later + timedelta(days=30.1)).isoformat()
    check_refusals(Policy(), refusals, (), after)
    short = Policy(refusal_period_days=2.0)
    check_refusals(short, refusals, (), (later + timedelta(days=3)).isoformat())


def test_refusals_of_an_earlier_version_count_by_step_and_rule():
    old = {"asked": "x.y", "telling": True}
    refusals = Refusals()
    for name in ("min_rows", "min_rows", "public_bound"):
        refusals.see(f"{old['asked']} {name}", name, NOW)
    assert sorted(refusals.rules(NOW, 1.0).values()) == ["min_rows", "public_bound"]


def test_every_rule_says_what_its_verdict_depends_on():
    assert set(DATA_RULES) <= set(RULES)
    assert set(DATA_RULES.values()) == {"selection", "view", "request"}
    header = {"study": "s", "session": "t", "round": 3, "step": "x", "view": []}
    again = header | {"study": "u", "session": "v", "round": 9}
    for name in RULES:
        question = question_of(name, header, {})
        assert bool(question) == (name in DATA_RULES)
        assert question == question_of(name, again, {})
    # Another argument is another question.
    for name in ("public_bound", "singular", "fixed_point_range"):
        assert question_of(name, header, {}) != question_of(name, header, {"a": "b"})
    # Anything may come from outside.
    for view in (None, 3, [{}], [{"operation": []}], [{"operation": "select"}]):
        assert question_of("min_rows", {"view": view}, {})


def about(rogue: Rogue, bound: float, mean: float = 0.0) -> str:
    """Ask whether b's products of columns stay within a bound."""
    rogue.totals("pca.local_squares", {"mean": np.full(3, mean)})
    rule = rogue.rules("pca.local_scatter", {"squares": np.full(3, bound)})["b"]
    return rule


@pytest.mark.slow
def test_bounds_that_were_answered_count_once_one_was_exceeded():
    """From above in small steps, one refusal would tell any number of digits."""
    here = silos(TABLES, policy={})
    said = [about(Rogue(here).enter(), 1e6 - k) for k in range(5)]
    assert said == [""] * 5
    about(Rogue(here).enter(), 1.0)
    rogue = Rogue(here).enter()
    assert rogue.rules("pca.local_total")["b"] == "refusals"


def test_the_same_bound_again_tells_nothing_new():
    """An honest study that is resumed, fit by fit, after a silo's rows changed."""
    here = silos(TABLES, policy={})
    about(Rogue(here).enter(), 1.0)
    for _ in range(5):
        assert about(Rogue(here).enter(), 1.0) == ""


@pytest.mark.parametrize("step", ["describe.local_columns", "histogram.local_inside"])
def test_counts_have_no_bound_to_try(step):
    """They are below the same bound in every request."""
    asked = Answered(
        study="s",
        session="s",
        round=1,
        step=step,
        view="v",
        features="f",
        rows="r",
        n_features=3,
        public={},
        keys={},
        protection="masked",
    )
    assert bounds_tried([asked, replace(asked, public={"edges": 2.0})]) == 0

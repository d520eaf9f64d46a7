"""Refusals are answers: a study that collects them is over."""

import numpy as np
import pytest

from unpooled.party.memory.audit_log import AuditLog
from unpooled.party.rules.refusal_limit import (
    MOST_REFUSALS,
    check_refusals,
    record_refusal,
)
from unpooled.protocol.refusal import Refusal
from unpooled.protocol.view_operations import Rows, Select
from wire import COLUMNS, Rogue, rows, silos

TABLES = {name: rows(seed=i) for i, name in enumerate("abc")}


def split(share: float) -> tuple[Select, Rows]:
    return Select(COLUMNS), Rows(0, 0, share, False, -1)


def test_bisecting_ends_with_the_study():
    here = silos({**TABLES, "a": rows(9)}, policy={"min_rows": 10})
    rogue = Rogue(here).enter()
    asked = [
        rogue.rules("imputer.local_observed", None, split(0.1))["a"]
        for _ in range(MOST_REFUSALS + 2)
    ]
    assert asked == ["min_rows"] * MOST_REFUSALS + ["refusals"] * 2
    # Nor is what was allowed before, nor in another session of the study.
    whole = (Select(COLUMNS),)
    assert Rogue(here).enter().rules("imputer.local_observed", None, whole)["a"]


@pytest.mark.parametrize("share", [0.0, 0.01, 0.1, 0.3, 0.5, 0.99, 1.0])
def test_no_share_of_a_split_is_refused(share):
    """The share at which ten of thirty rows are left out told the number of rows."""
    rogue = Rogue(silos(TABLES)).enter()
    said = rogue.rules("imputer.local_observed", None, split(share))
    assert set(said.values()) == {""}


def test_plans_count():
    here = silos({**TABLES, "a": rows(5)}, policy={"min_rows": 10})
    rogue = Rogue(here).enter()
    header, _ = rogue.request("imputer.local_observed").as_message()
    header |= {"kind": "plan", "parties": list(TABLES)}
    said = [rogue.say("a", header).header["rule"] for _ in range(MOST_REFUSALS + 1)]
    assert said == ["min_rows"] * MOST_REFUSALS + ["refusals"]


def test_refusals_that_say_nothing_of_rows_do_not_count():
    rogue = Rogue(silos(TABLES)).enter()
    for _ in range(MOST_REFUSALS + 1):
        assert set(rogue.rules("no.step").values()) == {"allowed_steps"}
    assert np.isfinite(rogue.totals("imputer.local_observed")["total"]).all()


def test_a_log_counts_over_restarts(tmp_path):
    first = AuditLog(tmp_path / "log")
    for _ in range(MOST_REFUSALS):
        check_refusals(first.study("s"))
        record_refusal(first, "s", "x.y", "min_rows")
    again = AuditLog(tmp_path / "log")
    check_refusals(again.study("other"))
    with pytest.raises(Refusal, match="refusals"):
        check_refusals(again.study("s"))


def about(rogue: Rogue, bound: float, mean: float = 0.0) -> str:
    """Ask whether b's products of columns stay within a bound."""
    rogue.totals("pca.local_squares", {"mean": np.full(3, mean)})
    rule = rogue.rules("pca.local_scatter", {"squares": np.full(3, bound)})["b"]
    return rule


def test_bounds_that_were_answered_count_once_one_was_refused():
    """From above in small steps, one refusal would tell any number of digits."""
    here = silos(TABLES)
    said = [about(Rogue(here).enter(), 1e6 - k) for k in range(MOST_REFUSALS)]
    assert said == [""] * MOST_REFUSALS
    assert about(Rogue(here).enter(), 1.0) == "public_bound"
    rogue = Rogue(here).enter()
    assert rogue.rules("pca.local_total")["b"] == "refusals"


def test_the_same_bound_again_tells_nothing_new():
    """An honest study that is resumed, fit by fit, after a silo said no once."""
    here = silos(TABLES)
    assert about(Rogue(here).enter(), 1.0) == "public_bound"
    for _ in range(MOST_REFUSALS + 1):
        assert about(Rogue(here).enter(), 1e6) == ""

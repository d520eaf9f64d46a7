"""The account of a silo's table: numbers opened, rosters, refusals, and its rules."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import final

from unpooled.desk.history import RefusedRequest, day_of
from unpooled.errors import DATA_RULES
from unpooled.party.memory.audit_state import AuditState
from unpooled.party.memory.hash_chain import now
from unpooled.party.rules.policy import Policy
from unpooled.party.rules.released_share import BEFORE_COUNTED
from unpooled.report.text.policies import DESCRIPTIONS, loosened, value_text
from unpooled.results.exhibits import Column, ResultTable
from unpooled.results.formats import counted, listed, minute, plain_number


def budget(state: AuditState, policy: Policy) -> list[str]:
    """Return in sentences how much of the budgets is used."""
    opened, most = state.opened, policy.max_released_share
    limit = "without a limit" if math.isinf(most) else f"of at most {most:g}"
    said = [
        f"{opened.total:,.0f} numbers were opened that this table is part of, equal "
        f"ones counted once. Of the column that most of them are about, they are a "
        f"share of {opened.share:.2g} of its cells in all silos, {limit}."
    ]
    if not math.isinf(most):
        said.append(BEFORE_COUNTED)
    if opened.people:
        said.append(
            f"{counted(opened.people, 'number')} more stood in arrays with entries for "
            f"single people."
        )
    else:
        said.append("No array had an entry for a single person.")
    if state.spent:
        budget = plain_number(policy.privacy_budget)
        said.append(
            f"ρ = {state.spent:.3g} was spent on noisy totals; the budget is ε = "
            f"{budget} at δ = {policy.privacy_delta:g}."
        )
    return said


def used(state: AuditState, policy: Policy) -> float | None:
    """Return the used part of the budget of numbers, from 0 to 1; None without one."""
    most = policy.max_released_share
    if math.isinf(most) or most <= 0:
        return None
    return min(state.opened.share / most, 1.0)


def columns_table(state: AuditState) -> ResultTable:
    """Return how many numbers were opened about each column."""
    rows = sorted(state.opened.of_column.items(), key=lambda one: (-one[1], one[0]))
    return ResultTable(
        "columns",
        (Column("Column"), Column("Numbers opened about it", "number")),
        rows,
        items="columns",
        which="largest",
    )


def rosters_table(state: AuditState) -> ResultTable:
    """Return for which silos the table was answered about last."""
    rows = [
        (f"{table[:8] or 'unknown'}", listed(parties), day_of(time).isoformat())
        for table, (parties, time) in state.rosters.last.items()
    ]
    return ResultTable(
        "rosters",
        (Column("Version of the table"), Column("Silos"), Column("Last answered")),
        rows,
        items="versions",
    )


def refusals_left(state: AuditState, policy: Policy) -> str:
    """Return how many refusals that tell of the rows the silo gave, and may give."""
    days = policy.refusal_period_days
    given = len(state.refusals.rules(now(), days))
    most = value_text("max_refusals", policy.max_refusals)
    said = (
        f"{counted(given, 'refusal')} in the last {days:g} days depended on the rows, "
        f"of at most {most}. Each such refusal is an answer, too."
    )
    if given >= policy.max_refusals:
        said += " This silo answers nothing now, until the period ends."
    return said


def refusals_table(refused: Iterable[RefusedRequest]) -> ResultTable:
    """Return the refusals, the last one first."""
    rows = [
        (
            minute(one.time),
            one.study,
            one.asked,
            f"{one.sentence[:1].upper()}{one.sentence[1:]} ({one.rule}).",
            "yes" if one.rule in DATA_RULES else "no",
        )
        for one in reversed(list(refused))
    ]
    heads = ("When (UTC)", "Study", "What was asked", "Why not", "Depends on rows")
    return ResultTable("refusals", [Column(h) for h in heads], rows, items="refusals")


@final
@dataclass(frozen=True)
class Rule:
    """A rule of the silo, in words.

    Attributes
    ----------
    key, words, here : str
        Its key, what it says, and its value.
    note : str
        How it differs from the default, if it does.
    looser : bool
        Whether it allows more than the default.
    """

    key: str
    words: str
    here: str
    note: str
    looser: bool


def rules(policy: Policy) -> list[Rule]:
    """Return every rule of the silo."""
    values, defaults = policy.as_dict(), Policy().as_dict()
    looser, found = loosened(values), list[Rule]()
    for key, value in values.items():
        note = ""
        if value != defaults[key]:
            how = "allows more than" if key in looser else "differs from"
            note = f"It {how} the default, {value_text(key, defaults[key])}."
        words = DESCRIPTIONS.get(key, key)
        here = value_text(key, value)
        found.append(Rule(key, words, here, note, key in looser))
    return found

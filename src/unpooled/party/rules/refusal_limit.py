"""How many refusals a silo gives: one that depends on its rows is an answer too.

Anyone who tries one bound after another, or one split after another, and notes which
are refused finds a number of the silo by bisection. So a silo gives few such refusals
in a period, over all studies and plans; then it answers nothing until the period ends,
or a person at the silo forgets them. Once a bound was exceeded, every bound that was
accepted for the same step counts as well: in small steps from above a single refusal
would be enough.

A refusal is counted by its question, so that an honest study that is planned, run and
resumed meets it once: permuted columns, another step on the same rows or another study
repeat the verdict and tell nothing new. But where a step counts by numbers that a study
chooses, such as the rows between two edges, other numbers are another question.
"""

import dataclasses
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, final

from unpooled.errors import DATA_RULES, ReleaseRefusedError
from unpooled.ledger import canonical
from unpooled.party.rules.answered_rosters import days_between
from unpooled.party.rules.policy import Policy
from unpooled.protocol.answered import Answered
from unpooled.protocol.message import digest
from unpooled.protocol.refusal import Refusal
from unpooled.protocol.step import Step, find_step

# Exceeded by a value of the silo that an argument of the request bounds.
BOUNDS = ("public_bound", "fixed_point_range")
# What names a message, and not what it asks.
_NAMES = ("study", "session", "round", "kind", "parties", "partition", "to", "evidence")


@final
class Refusals:
    """The refusals of a silo that depended on its rows, over all studies."""

    def __init__(self) -> None:
        # By question: when it was refused last, and by which rule.
        self._last: dict[str, tuple[str, str]] = {}

    def see(self, question: str, rule: str, time: str) -> None:
        """Take in a refusal, at a time of the silo's own clock."""
        self._last[question] = time, rule

    def forget(self) -> None:
        """Forget all refusals, as a person at the silo decided."""
        self._last.clear()

    def rules(self, now: str, days: float) -> dict[str, str]:
        """Return the rule of each question that was refused within `days` days."""
        return {
            question: rule
            for question, (time, rule) in self._last.items()
            if days_between(time, now) < days
        }


def check_refusals(
    policy: Policy,
    refusals: Refusals,
    answered: Iterable[Answered],
    now: str,
    besides: str = "",
) -> None:
    """Refuse to answer at all once the silo has given as many refusals as it may.

    `answered` are the rounds of all studies, for the bounds that they tried; the
    question `besides` does not count.
    """
    rules = refusals.rules(now, policy.refusal_period_days)
    rules.pop(besides, None)
    # Nearly always no bound was exceeded, and then bounds reveal nothing.
    bounds = bounds_tried(answered) if set(rules.values()) & set(BOUNDS) else 0
    if rules and len(rules) + bounds >= policy.max_refusals:
        raise Refusal("refusals")


def question_of(
    rule: str,
    header: Mapping[str, Any],
    digests: Mapping[str, str],
    *,
    of_table: bool = False,
    about: Any = None,
) -> str:
    """Return a name for the question that a refusal answers; empty if about no rows.

    Parameters
    ----------
    header : mapping
        Header of the refused message, from anybody.
    digests : mapping of str to str
        SHA-256 of the message's arrays.
    of_table : bool, default False
        Whether the verdict is about cells of the rows that are selected, whatever the
        message asks: of a plan, which says of each column whether it has missing or
        infinite cells. The verdicts about all columns are one question, so that a plan
        of a table with several faults is no series of attempts.
    about : JSON value, optional
        What the verdict is about, where that is not what the rule is about elsewhere.
    """
    depends = DATA_RULES.get(rule)
    if depends is None:
        return ""
    if about is not None:
        return digest(canonical([rule, about]))
    view = header.get("view", [])
    if of_table:
        return digest(canonical(["cells", _selected_rows(view)]))
    if depends == "selection":
        chosen = _chosen(header, digests)
        about = [view, chosen] if chosen else _selection(view)
    elif depends == "view":
        about = view
    else:
        about = [{n: v for n, v in header.items() if n not in _NAMES}, dict(digests)]
    return digest(canonical([rule, about]))


def _chosen(header: Mapping[str, Any], digests: Mapping[str, str]) -> dict[str, Any]:
    """Return the numbers that a step counts by, and that a study chooses.

    Those of its settings, and all of a step that counts what the silo makes of its own
    columns.
    """
    found, asked = dict[str, Any](), header.get("step")
    with suppress(ReleaseRefusedError, Refusal, AttributeError, TypeError):
        step = find_step(asked)  # pyright: ignore[reportArgumentType]
        public = header["public"] if "public" in header else {}
        counts = step.verb == "kept" and any(d.counts for d in step.declared.values())
        names = public if counts else {name.split(".")[0] for name in step.settings}
        for name in sorted(names):
            found[name] = [public.get(name), digests.get(f"public.{name}", "")]
    return found


def bounds_tried(answered: Iterable[Answered]) -> int:
    """Return how many further bounds were tried on the same step, of any view."""
    tried: dict[str, set[bytes]] = {}
    for asked in answered:
        # A stage of matching is no step, and one of an earlier version may be gone.
        with suppress(ReleaseRefusedError):
            names = _bounds(find_step(asked.step))
            bounds = canonical([asked.public.get(name) for name in names])
            if names:
                tried.setdefault(asked.step, set()).add(bounds)
    return sum(len(bounds) - 1 for bounds in tried.values())


def _bounds(step: Step) -> list[str]:
    """Return the arguments that bound what leaves, as the bounds name them first."""
    bounds = [
        d.bound for d in step.leaves.values() if dataclasses.is_dataclass(d.bound)
    ]
    # A bound without any, as that of counts, is the same in every request.
    firsts = [getattr(b, one.name) for b in bounds for one in dataclasses.fields(b)[:1]]
    return sorted({first for first in firsts if isinstance(first, str)})


def _selected_rows(view: Any) -> Any:
    try:
        if any(one["operation"] == "complete" for one in view):
            return view  # each choice of columns is a question about missing cells
        return [one for one in view if one["operation"] == "rows"]
    except (KeyError, TypeError):
        return view


def _selection(view: Any) -> Any:
    """Return the columns in no order, how many a step reads, and the selected rows."""
    columns, width, rows = list[str](), 0, list[Any]()
    try:
        for operation in view:
            if operation["operation"] == "complete":
                return view
            if operation["operation"] == "rows":
                rows.append(operation)
            elif operation["columns"]:
                width = len(operation["columns"])
            if operation["operation"] == "select":
                columns = columns or sorted(map(str, operation["columns"]))
    except (KeyError, TypeError):
        return view
    return [columns, width, rows]

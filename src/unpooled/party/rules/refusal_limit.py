"""How many refusals a study may collect: one that depends on rows is an answer too.

Anyone who tries one bound after another, or one split after another, and notes which
are refused finds a number of the silo by bisection. After some such refusals a study
ends. Once a bound was refused, every bound that was accepted counts as well: in small
steps from above a single refusal would be enough.
"""

import dataclasses
from collections.abc import Iterable
from contextlib import suppress

from unpooled.errors import ReleaseRefusedError
from unpooled.ledger import canonical
from unpooled.party.memory.audit_log import AuditLog
from unpooled.party.memory.audit_state import LoggedStudy
from unpooled.protocol.answered import Answered
from unpooled.protocol.refusal import Refusal
from unpooled.protocol.step import Step, find_step

# Rules whose verdict depends on rows, not only on the request and the policy.
TELLING = frozenset(
    {
        "min_rows",
        "min_rows_per_class",
        "max_feature_ratio",
        "max_leverage",
        "min_changed_rows",
        "another_filling",
        "public_bound",
        "fixed_point_range",
        "infinite_values",
        "missing_values",
    }
)
# An honest study meets one or two; bisection learns a bit from each.
MOST_REFUSALS = 20


def check_refusals(study: LoggedStudy) -> None:
    """Refuse to answer at all in a study that has used up its allowance."""
    # Nearly all studies end without a refusal, and then bounds reveal nothing.
    tried = bounds_tried(study.answered.values()) if study.refusals else 0
    if study.refusals and study.refusals + tried >= MOST_REFUSALS:
        raise Refusal("refusals")


def record_refusal(audit_log: AuditLog, study: str, asked: str, rule: str) -> None:
    """Write a refusal; one that depends on rows is written every time."""
    audit_log.refused(study, asked, rule, each=rule in TELLING)


def bounds_tried(answered: Iterable[Answered]) -> int:
    """Return how many further bounds were tried on the same step and view."""
    tried: dict[tuple[str, str], set[bytes]] = {}
    for asked in answered:
        # A stage of matching is no step, and one of an earlier version may be gone.
        with suppress(ReleaseRefusedError):
            names = _bounds(find_step(asked.step))
            bounds = canonical([asked.public.get(name) for name in names])
            if names:
                tried.setdefault((asked.step, asked.view), set()).add(bounds)
    return sum(len(bounds) - 1 for bounds in tried.values())


def _bounds(step: Step) -> list[str]:
    """Return the arguments that bound what leaves, as the bounds name them first."""
    bounds = [
        d.bound for d in step.leaves.values() if dataclasses.is_dataclass(d.bound)
    ]
    firsts = [getattr(b, dataclasses.fields(b)[0].name) for b in bounds]
    return sorted({first for first in firsts if isinstance(first, str)})

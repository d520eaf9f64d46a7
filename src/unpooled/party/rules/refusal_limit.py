"""How often a silo may say no: a refusal that depends on its rows is an answer too.

Whoever tries one bound after the other, or one split, and notes which is refused,
closes in on a number of the silo's by halves. After some such refusals a study ends.
Once one bound was refused, each that was answered has told as much: coming from above
in small steps, a single refusal would do.
"""

import dataclasses
from collections.abc import Iterable
from contextlib import suppress
from typing import final

from unpooled.errors import ReleaseRefusedError
from unpooled.ledger import canonical
from unpooled.party.memory.audit_log import AuditLog
from unpooled.protocol.answered import Answered
from unpooled.protocol.refusal import Refusal
from unpooled.protocol.step import Step, find_step

# Rules whose verdict depends on rows, not on the request and the policy alone.
TELLING = frozenset(
    {
        "min_rows",
        "min_rows_per_class",
        "max_feature_ratio",
        "max_row_share",
        "min_changed_rows",
        "another_filling",
        "public_bound",
        "fixed_point_range",
        "infinite_values",
        "missing_values",
    }
)
# An honest study meets one or two; halving tells a bit each time.
MOST_REFUSALS = 20


@final
class RefusalLimit:
    """What a silo's refusals told, by study.

    Parameters
    ----------
    journal : AuditLog, optional
        Knows them over restarts and in every process.
    """

    def __init__(self, journal: AuditLog | None = None) -> None:
        self._journal = journal
        self._told: dict[str, int] = {}

    def check(self, study: str, answered: Iterable[Answered] = ()) -> None:
        """Refuse to answer at all in a study that was refused too often.

        `answered` are its rounds that were.
        """
        told = self._told.get(study, 0)
        if self._journal is not None:
            told = max(told, self._journal.study(study).refusals)
        # Nearly all studies end without a refusal, and then bounds told nothing.
        if told and told + bounds_tried(answered) >= MOST_REFUSALS:
            raise Refusal("refusals")

    def record(self, study: str, asked: str, rule: str) -> None:
        """Count a refusal; one that tells of rows is written every time."""
        telling = rule in TELLING
        if telling:
            self._told[study] = self._told.get(study, 0) + 1
        if self._journal is not None:
            self._journal.refused(study, asked, rule, each=telling)


def bounds_tried(answered: Iterable[Answered]) -> int:
    """Return with how many bounds beside the first the same was asked of the same."""
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

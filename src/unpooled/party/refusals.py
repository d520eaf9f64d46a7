"""How often a silo may say no: a refusal that depends on its rows is an answer too.

Whoever tries one bound after the other, or one split, and notes which is refused,
closes in on a number of the silo's by halves. After some such refusals a study ends.
"""

from typing import final

from unpooled.party.journal import Journal
from unpooled.party.policy import Refusal

# Rules whose verdict depends on rows, not on the request and the policy alone.
TELLING = frozenset(
    {
        "min_rows",
        "min_rows_per_class",
        "max_feature_ratio",
        "max_row_share",
        "min_changed_rows",
        "public_bound",
        "fixed_point_range",
        "infinite_values",
        "missing_values",
    }
)
# An honest study meets one or two; halving tells a bit each time.
MOST_REFUSALS = 20


@final
class Refusals:
    """What a silo's refusals told, by study.

    Parameters
    ----------
    journal : Journal, optional
        Knows them over restarts and in every process.
    """

    def __init__(self, journal: Journal | None = None) -> None:
        self._journal = journal
        self._told: dict[str, int] = {}

    def check(self, study: str) -> None:
        """Refuse to answer at all in a study that was refused too often."""
        told = self._told.get(study, 0)
        if self._journal is not None:
            told = max(told, self._journal.study(study).refusals)
        if told >= MOST_REFUSALS:
            raise Refusal("refusals")

    def record(self, study: str, asked: str, rule: str) -> None:
        """Count a refusal; one that tells of rows is written every time."""
        telling = rule in TELLING
        if telling:
            self._told[study] = self._told.get(study, 0) + 1
        if self._journal is not None:
            self._journal.refused(study, asked, rule, each=telling)

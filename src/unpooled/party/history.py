"""What a silo answered before, so that two totals cannot be subtracted.

Totals over overlapping rosters combine to one silo's own value even when no silo sees
both (A+B+C, C+D+E and A+B+D+E give C twice). So each silo answers a step about given
columns for one set of parties only, whatever the study or the public arguments.
"""

from collections.abc import Sequence
from typing import final

from unpooled.party.journal import Journal
from unpooled.party.policy import Policy, Refusal
from unpooled.party.request import Request


@final
class History:
    """The rosters for which a silo answered each step.

    Parameters
    ----------
    journal : Journal, optional
        Knows them over restarts and in every process; without it they are known while
        the party lives.
    """

    def __init__(self, journal: Journal | None = None) -> None:
        self._journal = journal
        # By column, so that another selection with a column in common is no way round.
        self._rosters: dict[tuple[str, str], tuple[str, ...]] = {}

    def check(
        self,
        policy: Policy,
        request: Request,
        columns: Sequence[str],
        parties: tuple[str, ...],
    ) -> None:
        """Refuse a step that was answered for another set of parties before."""
        before = {self._before(request.step, column) for column in columns}
        if before - {parties, None} and not policy.allow_roster_change:
            raise Refusal("allow_roster_change")

    def record(
        self, request: Request, columns: Sequence[str], parties: tuple[str, ...]
    ) -> None:
        """Remember that the step was answered; a journal has it from its round."""
        self._rosters |= {(request.step, column): parties for column in columns}

    def _before(self, step: str, column: str) -> tuple[str, ...] | None:
        if self._journal is not None:
            return self._journal.roster(step, column)
        return self._rosters.get((step, column))

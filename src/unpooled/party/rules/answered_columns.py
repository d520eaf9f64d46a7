"""The answers of a silo by column: for which parties, when, and in which mixtures."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import final

_SECONDS_PER_DAY = 86_400.0


@final
class AnsweredColumns:
    """The record of all answered rounds with which later requests are compared.

    It is by column alone, so neither another selection with a column in common nor
    another step that releases the same sums circumvents the rule.
    """

    def __init__(self) -> None:
        self._rosters: dict[str, tuple[tuple[str, ...], str]] = {}
        # By name: number of mixtures, and their columns.
        self._mixtures: dict[str, tuple[int, frozenset[str]]] = {}

    def see(
        self,
        columns: Sequence[str],
        parties: Sequence[str],
        time: str,
        mixtures: Mapping[str, int],
    ) -> None:
        """Remember one round, answered at a time of the silo's own clock."""
        self._rosters |= dict.fromkeys(columns, (tuple(parties), time))
        if mixtures:
            of = frozenset(columns)
            self._mixtures |= {name: (size, of) for name, size in mixtures.items()}

    def rosters(
        self, columns: Iterable[str], now: str, days: float | None
    ) -> set[tuple[str, ...]]:
        """Return the rosters for which columns were last answered within `days` days.

        A time in the future counts as now: a clock that was put back frees nothing.
        """
        entries = list(map(self._rosters.get, columns))
        # The columns of a round share one entry, which need not be hashed for each.
        distinct = dict(zip(map(id, entries), entries, strict=True)).values()
        last = [entry for entry in distinct if entry is not None]
        return {
            parties
            for parties, time in last
            if days is None or days_between(time, now) < days
        }

    def mixtures(self, columns: Sequence[str]) -> dict[str, int]:
        """Return the answered mixtures that have any of the columns."""
        return {
            name: size
            for name, (size, of) in self._mixtures.items()
            if not of.isdisjoint(columns)
        }


def days_between(since: str, now: str) -> float:
    """Return the days from one time of the silo's clock to another."""
    apart = datetime.fromisoformat(now) - datetime.fromisoformat(since)
    return apart.total_seconds() / _SECONDS_PER_DAY

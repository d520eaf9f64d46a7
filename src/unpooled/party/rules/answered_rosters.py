"""For which parties a silo answered about its table, and when it last did."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import final

_SECONDS_PER_DAY = 86_400.0
# An earlier version of the library did not say which table it was.
UNKNOWN = ""


@final
class AnsweredRosters:
    """The last roster of each version of the table.

    It is of the table and not of a column: two rosters on columns without one in
    common subtract to a silo's number of rows and to the sizes of its classes.
    """

    def __init__(self) -> None:
        self._last: dict[str, tuple[tuple[str, ...], str]] = {}

    def see(self, table: str, parties: Sequence[str], time: str) -> None:
        """Remember one round, answered at a time of the silo's own clock."""
        if table != UNKNOWN:
            # It was compared with the earlier library's, or the silo allowed it.
            self._last.pop(UNKNOWN, None)
        self._last[table] = (tuple(parties), time)

    @property
    def last(self) -> Mapping[str, tuple[tuple[str, ...], str]]:
        """By version of the table: for which parties, and when it was last answered."""
        return dict(self._last)

    def others(
        self, parties: tuple[str, ...], now: str, days: float | None
    ) -> set[str]:
        """Return the versions last answered for other parties, within `days` days.

        A time in the future counts as now: a clock that was put back frees nothing.
        """
        return {
            table
            for table, (last, time) in self._last.items()
            if last != parties and (days is None or days_between(time, now) < days)
        }


def days_between(since: str, now: str) -> float:
    """Return the days from one time to another, both as the log has them."""
    apart = datetime.fromisoformat(now) - datetime.fromisoformat(since)
    return apart.total_seconds() / _SECONDS_PER_DAY

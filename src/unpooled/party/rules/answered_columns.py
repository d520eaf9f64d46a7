"""The mixtures of columns that a silo answered about."""

from collections.abc import Mapping, Sequence
from typing import final


@final
class AnsweredColumns:
    """The mixtures of columns in all answered rounds.

    It is by column, so neither another selection with a column in common nor another
    step circumvents the rule.
    """

    def __init__(self) -> None:
        # By name: number of mixtures, and their columns.
        self._mixtures: dict[str, tuple[int, frozenset[str]]] = {}

    def see(self, columns: Sequence[str], mixtures: Mapping[str, int]) -> None:
        """Remember one round."""
        if mixtures:
            of = frozenset(columns)
            self._mixtures |= {name: (size, of) for name, size in mixtures.items()}

    def mixtures(self, columns: Sequence[str]) -> dict[str, int]:
        """Return the answered mixtures that have any of the columns."""
        return {
            name: size
            for name, (size, of) in self._mixtures.items()
            if not of.isdisjoint(columns)
        }

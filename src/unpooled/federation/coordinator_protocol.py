"""What a federation has at its other end: rounds, run or planned."""

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from unpooled.coordinator.round_cost import RoundRecord
from unpooled.ledger import Ledger
from unpooled.protocol.sizes import ViewSize
from unpooled.protocol.step import Step
from unpooled.protocol.topology import Graph
from unpooled.protocol.view_operations import Operation


@runtime_checkable
class Rounds(Protocol):
    """What runs rounds for a federation: a coordinator, or a plan of one."""

    ledger: Ledger
    records: list[RoundRecord]
    study: str
    protection: str
    planned: bool  # then answers are placeholders
    notes: list[str]  # why models chose what they do

    @property
    def parties(self) -> tuple[str, ...]:
        """The parties, in the study's order."""
        ...

    def enter(self) -> None:
        """Begin a fit."""
        ...

    def exit(self) -> None:
        """End a fit."""
        ...

    def begin_computing(self, allow_coordinator_party: bool = False) -> None:
        """Make ready for comparisons in this fit; a third helps two, if declared."""
        ...

    def ask(
        self,
        step: Step,
        operations: tuple[Operation, ...],
        extents: Mapping[str, ViewSize],
        to: str,
        public: Mapping[str, Any],
        kept_of: str = "",
        topology: Graph | None = None,
    ) -> dict[str, Any]:
        """Run a step at every party."""
        ...

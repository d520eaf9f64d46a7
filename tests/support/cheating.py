"""A coordinator that makes the announced call, and changes what it asks or tells."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from unpooled.coordinator.coordinator import Coordinator
from unpooled.coordinator.step_call import RoundRunner, StepCall
from unpooled.federation.federation import Federation
from unpooled.protocol.following import Call, OpenedRound

Change = Callable[[StepCall], StepCall]


class _Cheating(RoundRunner):
    """Runs rounds over a coordinator, with other requests than the program's."""

    def __init__(self, coordinator: RoundRunner, change: Change) -> None:
        self._coordinator, self._change = coordinator, change
        self.parties, self.study = coordinator.parties, coordinator.study
        self.protection, self.planned = coordinator.protection, False
        self.ledger, self.records = coordinator.ledger, coordinator.records
        self.notes, self.follows = coordinator.notes, True

    def enter(self, call: Callable[[], Call] | None = None) -> None:
        self._coordinator.enter(call)

    def exit(self) -> None:
        self._coordinator.exit()

    def seed(self) -> int:
        return self._coordinator.seed()

    def begin_computing(self, allow_coordinator_party: bool = False) -> None:
        self._coordinator.begin_computing(allow_coordinator_party)

    def run_step(self, call: StepCall) -> dict[str, Any]:
        return self._coordinator.run_step(self._change(call))


def asking(federation: Federation, step: str, **other: Any) -> Federation:
    """Return a federation whose coordinator asks a step with other arguments.

    Arguments that are functions take the honest argument.
    """

    def change(call: StepCall) -> StepCall:
        if call.step.name != step:
            return call
        public = dict(call.public)
        for name, value in other.items():
            public[name] = value(public[name]) if callable(value) else value
        return replace(call, public=public)

    return federation.over(_Cheating(federation.coordinator, change))


def instead(federation: Federation, change: Change) -> Federation:
    """Return a federation whose coordinator changes its requests."""
    return federation.over(_Cheating(federation.coordinator, change))


def telling(
    federation: Federation, monkeypatch: Any, lie: Callable[[OpenedRound], OpenedRound]
) -> None:
    """Have the coordinator tell something else than what the rounds gave."""
    coordinator = federation.coordinator
    assert isinstance(coordinator, Coordinator)
    opened = coordinator._opened_rounds.due

    def due(session: str, step: str) -> Mapping[str, Any]:
        honest = opened(session, step)
        return honest | {"opened": tuple(map(lie, honest.get("opened", ())))}

    monkeypatch.setattr(coordinator._opened_rounds, "due", due)

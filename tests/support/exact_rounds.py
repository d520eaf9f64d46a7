"""Rounds whose comparisons are made on pooled integers: what MPyC must compute.

The steps, the rounding to integers and the polynomials are the library's own; only the
sharing is left out. It answers in milliseconds, so every hard column can be tried.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from unpooled.coordinator.step_call import RoundRunner, StepCall
from unpooled.federation.federation import Federation
from unpooled.federation.layout import Layout
from unpooled.ledger import Ledger
from unpooled.protocol.following import Call


class ExactRounds(RoundRunner):
    """The coordinator's end of rounds over parts of rows in this process."""

    def __init__(self, parts: list[Any]) -> None:
        self.parts = parts
        self.ledger, self.records, self.notes = Ledger(), [], []
        self.study, self.protection, self.planned = "exact", "plain", False
        self.follows = False
        self.parties = tuple(f"silo{i}" for i in range(len(parts)))
        self.rounds = 0

    def enter(self, call: Callable[[], Call] | None = None) -> None:
        """Nothing to begin."""

    def exit(self) -> None:
        """Nothing to end."""

    def begin_computing(self, allow_coordinator_party: bool = False) -> None:
        """Nobody computes but this process."""

    def seed(self) -> int:
        """The same seed in every run."""
        return 0

    def run_step(self, call: StepCall) -> dict[str, Any]:
        """Run the step on each part, and add in the clear."""
        step = call.step
        with np.errstate(all="ignore"):
            found = [step(part, **call.public) for part in self.parts]
        if step.computation is None:
            self.rounds += 1
            return {name: sum(f[name] for f in found) for name in found[0]}
        self.rounds += step.computation.rounds(3)
        integers = [step.computation.integers(f) for f in found]
        totals = [
            [sum(entries) for entries in zip(*rows, strict=True)]
            for rows in zip(*integers, strict=True)
        ]
        return {name: _negative(step.computation, totals) for name in step.declared}


def _negative(polynomial: Any, totals: list[list[int]]) -> Any:
    signs = []
    for entry in zip(*totals, strict=True):
        value = 0
        for coefficient, factors in polynomial.scaled_terms():
            term = coefficient
            for i in factors:
                term *= entry[i]
            value += term
        # Beyond the ring MPyC's sign would be an accident.
        assert abs(value) < 2 ** (polynomial.bits - 1)
        signs.append(value < 0)
    return np.array(signs)


def exactly(parts: list[Any]) -> tuple[Federation, Any]:
    """Return a federation over such rounds, and the rounds."""
    columns = tuple(f"x{j}" for j in range(parts[0].shape[1]))
    rounds: Any = ExactRounds(parts)
    layout = Layout.of_rows(rounds.parties, columns)
    return Federation(rounds, layout=layout, named=False), rounds

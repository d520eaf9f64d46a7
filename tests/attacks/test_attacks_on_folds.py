"""Attacks by a coordinator on cross-validation, whose folds come in one message.

Silos that follow know which steps a round has. The adversary leaves one out, changes
one, puts them in another order, adds one, or tells other totals of one of them.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import unpooled as up
from cheating import telling
from unpooled.coordinator.step_call import StepCall
from unpooled.errors import AggregationError, ReleaseRefusedError
from unpooled.federation.federation import Federation
from unpooled.protocol.following import OpenedRound
from unpooled.protocol.view_operations import Derive, Rows

Change = Callable[[Sequence[StepCall]], Sequence[StepCall]]


def federation() -> Federation:
    rng = np.random.default_rng(0)
    tables = {
        name: pd.DataFrame(rng.standard_normal((60, 3)), columns=list("uvw")).assign(
            ill=np.arange(60) % 2
        )
        for name in "abc"
    }
    return up.simulate(tables, label="ill", follow=True, random_state=0)


def sending(here: Federation, monkeypatch: Any, step: str, change: Change) -> None:
    """Have the coordinator send other steps in the rounds of a step."""
    coordinator = here.coordinator
    honest = coordinator.run_steps

    def run_steps(calls: Sequence[StepCall]) -> list[dict[str, Any]]:
        if calls[0].step.name != step:
            return honest(calls)
        return honest(change(calls))

    monkeypatch.setattr(coordinator, "run_steps", run_steps)


def other_fold(call: StepCall) -> StepCall:
    """The same step of other rows: those of the fold's complement."""
    operations = tuple(
        replace(one, complement=not one.complement) if isinstance(one, Rows) else one
        for one in call.operations
    )
    return replace(call, operations=operations)


CHANGES: dict[str, Change] = {
    "one left out": lambda calls: calls[:-1],
    "another order": lambda calls: calls[::-1],
    "other rows of one": lambda calls: [*calls[:-1], other_fold(calls[-1])],
    "one more": lambda calls: [*calls, other_fold(calls[0])],
}


@pytest.mark.slow
@pytest.mark.parametrize("change", CHANGES)
def test_other_steps_than_the_programs(monkeypatch, change):
    here = federation()
    sending(here, monkeypatch, "discriminant.local_class_totals", CHANGES[change])

    with pytest.raises(ReleaseRefusedError, match="not_followed"):
        up.cross_validate(up.LinearDiscriminantAnalysis(), here, "ill", cv=3)
    assert "discriminant.local_class_totals" not in {x.step for x in here.ledger}


@pytest.mark.slow
def test_other_coefficients_at_the_metric(monkeypatch):
    """A decision function of one column counts people by that column's value."""
    here = federation()

    def looking(calls: Sequence[StepCall]) -> list[StepCall]:
        first, *others = calls
        *before, last = first.operations
        assert isinstance(last, Derive)
        chosen = {**last.public, "coef": np.array([[1.0, 0.0, 0.0]])}
        asked = (*before, replace(last, public=chosen))
        return [replace(first, operations=asked), *others]

    sending(here, monkeypatch, "classification.local_confusion", looking)

    with pytest.raises(ReleaseRefusedError, match="not_followed"):
        up.cross_validate(up.LinearDiscriminantAnalysis(), here, "ill", cv=3)


@pytest.mark.slow
def test_other_totals_of_one_fold(monkeypatch):
    here, opened_rounds = federation(), list[OpenedRound]()

    def lie(opened: OpenedRound) -> OpenedRound:
        words = {name: array.copy() for name, array in opened.words.items()}
        if opened.step == "discriminant.local_class_totals":
            opened_rounds.append(opened)
        # Of the second of three folds alone.
        if len(opened_rounds) == 2 and opened is opened_rounds[-1]:
            words["total"].reshape(-1).view(np.uint64)[0] ^= np.uint64(2**40)
        return replace(opened, words=words)

    telling(here, monkeypatch, lie)

    with pytest.raises(AggregationError, match="wrong_total"):
        up.cross_validate(up.LinearDiscriminantAnalysis(), here, "ill", cv=3)
    assert len(opened_rounds) == 3

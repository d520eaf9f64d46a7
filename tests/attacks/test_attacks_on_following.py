"""Attacks by whatever the coordinator may choose, on silos that follow the program.

Each silo runs the study's program itself. The adversary is the coordinator: it makes
the announced call, and then asks with other arguments, or tells other totals, than its
program has. Every attack here gave a row, or a silo's own part, before silos followed.
"""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

import unpooled as up
from cheating import asking, instead, telling
from integration.rows import SILOS
from server_end import ServerEnd
from unpooled.arrays import Array
from unpooled.coordinator.step_call import StepCall
from unpooled.errors import AggregationError, ReleaseRefusedError
from unpooled.federation.federation import Federation
from unpooled.protocol.following import OpenedRound
from unpooled.protocol.message import decode, encode
from unpooled.protocol.view_operations import Rows, Select
from unpooled.study import server_job
from unpooled.study.job_messages import error_of
from wire import Rogue, rows, silos

TABLES = {name: rows(seed=i) for i, name in enumerate("abc")}
NAMES = ["u", "v", "w"]


def federation(**options) -> Federation:
    tables = {
        name: pd.DataFrame(X, columns=NAMES).assign(ill=np.arange(len(X)) % 2)
        for name, X in TABLES.items()
    }
    options = {"label": "ill", "random_state": 0} | options
    return up.simulate(tables, follow=True, **options)


# --- requests that no program makes ---------------------------------------------------


@pytest.mark.parametrize(
    "step", ["pca.local_total", "scaler.local_observed", "power.local_slopes"]
)
def test_a_request_without_a_program_is_refused(step):
    rogue = Rogue(silos(TABLES, follow=True)).enter()

    assert set(rogue.rules(step).values()) == {"not_followed"}


# --- (1) poles by many ridges, (5) chosen means and axes, (16) any exponent -----------


@pytest.mark.thinned(1)
@pytest.mark.parametrize("ridge", [0.1 + 1e-13, 1.0, 1e6])
def test_own_scatters_by_ridges(ridge):
    """(1) Each silo's own scatter is a pole of the total as a function of the ridge."""
    view = asking(federation(), "discriminant.local_whitened", ridge=ridge)
    model = up.LinearDiscriminantAnalysis(1, solver="dgep-eigh", ridge=0.1)

    with pytest.raises(ReleaseRefusedError, match="not_followed"):
        model.fit(view, "ill")


@pytest.mark.slow
@pytest.mark.parametrize("argument", ["mean", "scale", "axes"])
def test_a_record_by_thresholds(argument):
    """(5) |a · (x - own - d)| has its kink at a person's value."""

    def moved(honest: Array) -> Array:
        return honest + 1e-13 * np.maximum(np.abs(honest), 1.0)

    view = asking(federation(), "heterogeneity.local_distances", **{argument: moved})

    with pytest.raises(ReleaseRefusedError, match="not_followed"):
        up.Heterogeneity(2).fit(view)


def test_a_columns_largest_value_by_a_large_exponent():
    """(16) Of any λ, the transformed column's total is its largest value's."""
    view = asking(federation(), "power.local_slopes", lam=lambda honest: honest + 300.0)

    with pytest.raises(ReleaseRefusedError, match="not_followed"):
        up.PowerTransformer(comparison="summed", tol=0.01).fit(view)


# --- (3) other rows, (2) the same program on rows that differ by a few ----------------


def test_other_rows_than_the_calls():
    def with_fewer(call: StepCall) -> StepCall:
        rest = Rows(0, 0, 0.5, True, 7)
        return replace(call, operations=(*call.operations, rest))

    view = instead(federation(), with_fewer)

    with pytest.raises(ReleaseRefusedError, match="not_followed"):
        up.PCA(2).fit(view)


def test_other_columns_than_the_calls():
    def one_less(call: StepCall) -> StepCall:
        return replace(call, operations=(Select(tuple(NAMES[:2])),))

    with pytest.raises((ReleaseRefusedError, AggregationError)):
        up.StandardScaler().fit(instead(federation(), one_less))


# --- transforms that nobody fitted ----------------------------------------------------


@pytest.mark.slow
def test_a_view_by_a_transform_that_nobody_fitted():
    model = up.StandardScaler().fit(federation())
    here = federation()
    model.scale_ = model.scale_ * np.array([1.0, 1.0, 1e6])

    with pytest.raises(ReleaseRefusedError, match="transform_not_fitted"):
        up.PCA(2).fit(model.transform(here))


@pytest.mark.slow
@pytest.mark.parametrize("moved", [1e-13, 1e-9, 1e-3])
def test_a_fitted_transform_moved_by_a_little(moved):
    """(21) Two fillings that differ by eps subtract to eps × a person's row."""
    here = federation()
    model = up.StandardScaler().fit(here)
    up.PCA(2).fit(model.transform(here))
    model.mean_ = model.mean_ * (1.0 + moved)

    with pytest.raises(ReleaseRefusedError, match="transform_not_fitted"):
        up.PCA(2).fit(model.transform(here))


@pytest.mark.slow
def test_a_made_up_projection_on_a_person():
    here = federation()
    model = up.PCA(1).fit(here)
    model.components_ = np.eye(1, 3)

    with pytest.raises(ReleaseRefusedError, match="transform_not_fitted"):
        up.StandardScaler().fit(model.transform(here))


# --- false totals ---------------------------------------------------------------------


def wrong_by(difference: int, step: str = "pca.local_squares"):
    def lie(opened: OpenedRound) -> OpenedRound:
        words = {name: array.copy() for name, array in opened.words.items()}
        if opened.step == step:
            for array in words.values():
                flat = array.reshape(-1).view(np.uint64)
                flat[0] += np.uint64(difference)
        return replace(opened, words=words)

    return lie


@pytest.mark.thinned(1)
@pytest.mark.parametrize("power", [0, 1, 31, 62, 63])
def test_a_total_that_is_wrong_in_one_word(monkeypatch, power):
    here = federation()
    telling(here, monkeypatch, wrong_by(2**power))

    with pytest.raises(AggregationError, match="wrong_total"):
        up.PCA(2).fit(here)


def without_seals(opened: OpenedRound) -> OpenedRound:
    return replace(opened, sealed={p: s for p, s in opened.sealed.items() if p != "a"})


def of_another_round(opened: OpenedRound) -> OpenedRound:
    return replace(opened, round=opened.round - 1)


def forgotten(opened: OpenedRound) -> OpenedRound:
    return replace(opened, words={}, sealed={})


@pytest.mark.thinned(1)
@pytest.mark.parametrize("lie", [without_seals, of_another_round, forgotten])
def test_a_total_whose_parts_nobody_committed_to(monkeypatch, lie):
    here = federation()
    telling(here, monkeypatch, lie)

    with pytest.raises(
        (AggregationError, ReleaseRefusedError), match=r"_total|_follow"
    ):
        up.PCA(2).fit(here)


def bent(by: float) -> Callable[[OpenedRound], OpenedRound]:
    """Return a lie about decompositions: turned by a small angle."""

    def lie(opened: OpenedRound) -> OpenedRound:
        hints = []
        for hint in opened.hints:
            ((name, arrays),) = hint.items()
            changed = {key: np.array(value) for key, value in arrays.items()}
            for value in changed.values():
                if value.ndim == 2 and value.shape[1] > 1:
                    a, b = value[:, 0].copy(), value[:, 1].copy()
                    value[:, 0] = np.cos(by) * a - np.sin(by) * b
                    value[:, 1] = np.sin(by) * a + np.cos(by) * b
            hints.append({name: changed})
        return replace(opened, hints=tuple(hints))

    return lie


def test_axes_that_the_coordinator_turned(monkeypatch):
    """Turned axes leave the scores' totals a choice; a silo solves for them itself."""
    here = federation()
    telling(here, monkeypatch, bent(1e-6))
    model = up.PCA(2).fit(here)

    # A silo that could not follow the fit applies nothing that it gave.
    with pytest.raises(ReleaseRefusedError, match="transform_not_fitted"):
        up.StandardScaler().fit(model.transform(here))


def test_different_totals_for_different_silos(caplog):
    """A silo that is sent something else refuses it, and need not ask the others."""
    here = silos(TABLES, follow=True, random_state=0)

    def other(party: str, data: bytes) -> bytes:
        message = decode(data)
        if party != "b" or "opened" not in message.header:
            return data
        arrays = {name: array.copy() for name, array in message.arrays.items()}
        for name, array in arrays.items():
            if name.startswith("opened."):
                array.reshape(-1).view(np.uint64)[0] ^= np.uint64(2**40)
        return encode(message.header, arrays)

    here.wire.on_request = other

    # A coordinator that lies does not complain that the reply is to another request.
    with caplog.at_level("INFO", "unpooled.party"), pytest.raises(AggregationError):
        up.PCA(2).fit(here.federation)
    assert "A total is not the sum of what the parties sent" in caplog.text


# --- (14) approval of one text, questions of another ----------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    "other",
    [
        'model = "StandardScaler"',
        'model = "PCA"\nn_components = 3',
        'model = "PCA"\nn_components = 2\nsvd_solver = "krylov"',
    ],
)
def test_approval_of_one_text_and_questions_of_another(tmp_path, monkeypatch, other):
    server = ServerEnd(tmp_path)
    approved = two_steps('model = "PCA"\nn_components = 2')
    # The coordinator announces the approved text, and runs another.
    announce = server_job._announce
    monkeypatch.setattr(
        server_job,
        "_announce",
        lambda study, coordinator: announce(replace(study, text=approved), coordinator),
    )

    outcome, _ = server.ask("run", two_steps(other))

    reason = error_of(outcome["error"])
    assert isinstance(reason, ReleaseRefusedError)
    assert reason.rule == "not_followed"


def two_steps(last: str) -> str:
    parties = "\n".join(f"[parties.{silo}]" for silo in SILOS)
    return (
        f'[study]\nname = "approved"\nlabel = "num"\n{parties}\n'
        f'[[steps]]\nmodel = "SimpleImputer"\n[[steps]]\n{last}\n'
        f"[outputs]\nreport = false\n"
    )


# --- controls -------------------------------------------------------------------------


def test_control_an_honest_coordinator_is_answered():
    # A budget of numbers for few rows and many fits.
    here = federation(policy={"max_released_share": 10.0})
    model = up.StandardScaler().fit(here)
    up.PCA(2).fit(model.transform(here))
    up.LinearDiscriminantAnalysis(1, solver="dgep-eigh", ridge=0.1).fit(here, "ill")
    up.Heterogeneity(2).fit(here)
    train, test = here.train_test_split(test_size=0.5, random_state=0)
    model = up.StandardScaler().fit(train)
    up.PCA(2).fit(model.transform(test))


def test_control_a_silo_that_does_not_follow_answers_the_ridges():
    tables = {
        name: pd.DataFrame(X, columns=NAMES).assign(ill=np.arange(len(X)) % 2)
        for name, X in TABLES.items()
    }
    alone = up.simulate(tables, label="ill")
    view = asking(alone, "discriminant.local_whitened", ridge=1.0)

    up.LinearDiscriminantAnalysis(1, solver="dgep-eigh", ridge=0.1).fit(view, "ill")


@pytest.mark.slow
def test_a_search_continues_from_a_state_that_was_followed_and_from_no_other():
    """A made-up state would choose λ: totals at any λ tell the largest values."""
    rng = np.random.default_rng(0)
    tables = {name: np.exp(rng.standard_normal((60, 2))) for name in "abc"}
    here = up.simulate(tables, follow=True, policy={"max_released_share": 5.0})

    def power() -> up.PowerTransformer:
        return up.PowerTransformer(comparison="summed")

    states = list[dict[str, Any]]()
    whole = power().continuing(None, states.append).fit(here)
    moved = json.loads(json.dumps(states[2]))
    moved["lo"][0] = (float.fromhex(moved["lo"][0]) + 1e-13).hex()
    with pytest.raises(ReleaseRefusedError, match="model_not_followed"):
        power().continuing(moved, states.append).fit(here)
    n_lines = len(here.ledger)
    again = power().continuing(states[2], states.append).fit(here)
    assert_array_equal(again.lambdas_, whole.lambdas_)
    asked = [x for x in here.ledger[n_lines:] if x.step == "power.local_slopes"]
    batches = sum(x.name == "lam" and x.direction == "in" for x in asked)
    assert batches == whole.n_iter_ - 2

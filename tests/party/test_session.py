"""A fit as a party sees it: arguments and results are those declared."""

from typing import Any

import numpy as np
import pytest

from session_silos import POOLED, TABLES, block_sizes, here, keeps_for_the_fit, projects
from unpooled.arrays import Array
from unpooled.errors import AggregationError, DataError, ReleaseRefusedError
from unpooled.models.moments import local_squares
from unpooled.models.preprocessing.imputer import imputed
from unpooled.protocol.message import decode
from unpooled.protocol.request import Veiled
from unpooled.protocol.step import disclosed, release, stays, summed
from wire import Rogue, Silos, silos

# Fixtures of another module.
__all__ = ["here"]


def refuses(here: Silos, step: Any, rule: str, **public: Any) -> None:
    with pytest.raises((ReleaseRefusedError, DataError), match=rule):
        here.federation.sum(step, **public)
    assert not here.wire.of_kind("released")
    assert len(here.ledger) == 0


# --- a step's result against its declaration ------------------------------------------


@summed(total="p")
def more_than_declared(X: Array) -> dict[str, Array]:
    return {"total": X.sum(axis=0), "rows": X}


@summed(total="p", count="")
def less_than_declared(X: Array) -> dict[str, Array]:
    return {"total": X.sum(axis=0)}


@summed(total="p")
def one_row_per_person(X: Array) -> dict[str, Array]:
    return {"total": X}


@summed(total="")
def a_vector_for_a_number(X: Array) -> dict[str, Array]:
    return {"total": X[0]}


@summed(total="p p")
def transposed_shape(X: Array) -> dict[str, Array]:
    return {"total": np.zeros((3, 4))}


@summed(total="p")
def nothing(X: Array) -> dict[str, Array]:
    return {}


@summed(total="4")
def fixed_size(X: Array) -> dict[str, Array]:
    return {"total": np.zeros(5)}


@summed(total="p", kept=stays("p"))
def kept_of_another_shape(X: Array) -> dict[str, Array]:
    return {"total": X.sum(axis=0), "kept": X}


@pytest.mark.parametrize(
    "step",
    [
        more_than_declared,
        less_than_declared,
        one_row_per_person,
        a_vector_for_a_number,
        transposed_shape,
        nothing,
        fixed_size,
        kept_of_another_shape,
    ],
)
def test_a_result_that_is_not_declared_does_not_leave(here, step):
    refuses(here, step, "declaration")


@summed(total="p")
def not_finite(X: Array, *, value: float) -> dict[str, Array]:
    total = X.sum(axis=0)
    total[1] = value
    return {"total": total}


@pytest.mark.parametrize("code", [1.0, 2.0**126, -(2.0**125)])
def test_values_without_a_word_make_the_total_noise(here, code):
    for value in (code * 1e300, -code * 1e300) if abs(code) == 1 else (code,):
        with pytest.raises(AggregationError, match="fixed_point_range"):
            here.federation.sum(not_finite, value=value)


@summed(total="p")
def nan_total(X: Array) -> dict[str, Array]:
    return {"total": X.sum(axis=0) * np.nan}


@summed(total="p")
def inf_total(X: Array) -> dict[str, Array]:
    return {"total": X.sum(axis=0) * np.inf}


@pytest.mark.parametrize("step", [nan_total, inf_total])
@pytest.mark.parametrize("secure_sum", ["masked", "plain"])
def test_nan_and_infinity_do_not_leave(step, secure_sum):
    here = silos(TABLES, secure_sum=secure_sum)
    with pytest.raises(AggregationError, match="fixed_point_range"):
        here.federation.sum(step)
    # In clear a silo's own values would show, so it refuses; a masked part is noise.
    assert bool(here.wire.of_kind("released")) == (secure_sum == "masked")


# --- arguments ------------------------------------------------------------------------


def test_argument_axes_bind_the_sizes_of_results(here):
    axes = np.arange(6.0).reshape(2, 3)
    mean = np.ones(3)
    totals = here.federation.sum(projects, mean=mean, axes=axes, power=1)
    expected = (POOLED - mean) @ axes.T
    np.testing.assert_allclose(totals["out"], expected.sum(axis=0), rtol=1e-13)
    np.testing.assert_allclose(totals["square"], expected.T @ expected, rtol=1e-13)


@pytest.mark.parametrize(
    "wrong",
    [
        {"mean": np.ones(4)},
        {"mean": np.ones((1, 3))},
        {"mean": 1.0},
        {"mean": [1.0, 1.0, 1.0]},
        {"axes": np.ones((2, 4))},
        {"axes": np.ones(3)},
        {"axes": np.ones((3, 2))},
        {"power": np.ones(1)},
        {"mean": np.array([1.0, np.nan, 1.0])},
        {"axes": np.full((2, 3), np.inf)},
        {"more": 1},
    ],
)
def test_other_arguments_are_refused_at_the_party_too(here, wrong):
    good = {"mean": np.ones(3), "axes": np.ones((2, 3)), "power": 1}
    rogue = Rogue(here).enter()
    rules = rogue.rules("session_silos.projects", {**good, **wrong})
    assert set(rules.values()) == {"arguments"}
    assert set(rogue.rules("session_silos.projects", {"power": 1}).values()) == {
        "arguments"
    }


# --- verbs ----------------------------------------------------------------------------


@disclosed(total="p")
def shown(X: Array) -> dict[str, Array]:
    return {"total": X.sum(axis=0)}


def test_verbs_are_for_steps_declared_with_them(here):
    federation = here.federation
    for verb, step in [
        (federation.sum, shown),
        (federation.sum, keeps_for_the_fit),
        (federation.collect, block_sizes),
        (federation.keep, block_sizes),
        (federation.sum, imputed),
    ]:
        with pytest.raises(DataError, match="is declared"):
            verb(step)
    with pytest.raises(DataError, match='choose "coordinator" or "parties"'):
        federation.sum(block_sizes, to="everybody")
    with pytest.raises(DataError, match="is declared summed, not derived"):
        federation.derive(block_sizes, ["x"])
    assert not here.wire.sent


def test_disclosed_values_come_by_party_and_as_they_are():
    here = silos(TABLES, policy={"allow_disclosed": True})
    shows = here.federation.collect(shown)
    assert list(shows) == ["a", "b", "c"]
    for name, X in TABLES.items():
        assert (shows[name]["total"] == X.sum(axis=0)).all()
    (line,) = here.ledger
    assert (line.visibility, line.dtype, line.bytes) == ("disclosed", "float64", 24)


# --- veiled totals as an oracle -------------------------------------------------------


@summed(total=release("p"))
def secret_total(X: Array) -> dict[str, Array]:
    return {"total": X.sum(axis=0)}


@pytest.mark.xfail(
    raises=(AssertionError, pytest.fail.Exception),
    reason="a total that only the parties may open is opened by any step with an "
    "argument of its shape: squares about it tell it to the coordinator",
)
def test_a_veiled_total_cannot_be_had_from_another_step(here):
    """Two sums of squares, about 0 and about the veiled total, give the total away."""
    federation = here.federation
    with federation.fitting():
        veiled = federation.sum(secret_total, to="parties")["total"]
        assert isinstance(veiled, Veiled)
        N = 90
        zero = federation.sum(local_squares, mean=np.zeros(3))["squares"]
        one = federation.sum(local_squares, mean=np.ones(3))["squares"]
        try:
            at_total = federation.sum(local_squares, mean=veiled)["squares"]
        except ReleaseRefusedError:
            return
    # sum (x - v)^2 = s2 - 2 v s1 + N v^2, with s1 from the first two.
    s1 = (zero - one + N) / 2
    v = (s1 + np.sqrt(s1**2 - N * (zero - at_total))) / N
    assert not np.allclose(v, POOLED.sum(axis=0))


# --- transforms -----------------------------------------------------------------------


def test_messages_of_a_round_hold_no_rows_and_no_counts(here):
    with here.federation.fitting():
        here.federation.sum(block_sizes)
    for _, data in here.wire.received:
        message = decode(data)
        for array in message.arrays.values():
            assert array.dtype == np.uint64
        assert "30" not in {str(v) for v in message.header.values()}

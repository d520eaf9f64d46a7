"""What silos keep is bound to how each was asked to keep it, however it is read."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from unpooled import Policy
from unpooled.arrays import Array
from unpooled.coordinator.relay import Relay
from unpooled.errors import AggregationError
from unpooled.party.memory.kept_arrays import KeptStore, Origins
from unpooled.protocol.message import Message
from unpooled.protocol.step import Step, derived, exchanged, kept, stays, summed
from unpooled.protocol.topology import graph_of
from unpooled.protocol.view_operations import Derive, kept_address
from unpooled.protocol.wire_format import WireFormat
from unpooled.secure.sums.masking import MaskedSum
from wire import Rogue, Silos, kind, rows, silos

TABLES = {name: rows(p=2, seed=i) for i, name in enumerate("abc")}
VICTIM = "b"
OWN = {name: np.full(3, X.sum()) for name, X in TABLES.items()}
TOTAL = np.sum(list(OWN.values()), axis=0)
HERE = kept_address("study", ())


@kept(base=stays("3", until="study"))
def own_base(X: Array, *, times: float) -> dict[str, Array]:
    return {"base": np.full(3, times * X.sum())}


@kept(more=stays("3", until="fit"))
def own_more(kept: Any) -> dict[str, Array]:
    return {"more": kept["base"] * 2.0}


@summed(base="3")
def base_of(kept: Any) -> dict[str, Array]:
    return {"base": kept["base"]}


@summed(base="3")
def half_of(kept: Any) -> dict[str, Array]:
    return {"base": kept["more"] / 2.0}


@derived(fitted_by=("test_origins.own_base",))
def filled(X: Array, kept: Any) -> Array:
    return np.full(X.shape, kept["base"][0])


@summed(by="party", base="3")
def cell_of(X: Array) -> dict[str, Array]:
    return {"base": np.full(3, X[0, 0])}


@exchanged(by="party", base="3")
def told_base(kept: Any) -> dict[str, Array]:
    return {"base": kept["base"]}


@summed(by="party", base="3")
def heard_of(inbox: Any) -> dict[str, Array]:
    return {"base": inbox.own["base"]}


@summed(base="3")
def base_of_one(kept: Any, party: str) -> dict[str, Array]:
    # As no step must: it reads what it keeps at one silo alone.
    return {"base": kept["base"] if party == VICTIM else np.zeros(3)}


def by_columns(**options: Any) -> Silos:
    return silos(TABLES, partition="columns", policy=Policy.open(), **options)


# --- a coordinator that has the others keep something else ----------------------------


def ask(
    rogue: Rogue,
    step: Step,
    others: Mapping[str, Any] | None = None,
    own: Mapping[str, Any] | None = None,
    **more: Any,
) -> dict[str, Message]:
    """Ask the victim with its `own` arguments, and the others with theirs."""
    about = replace(rogue.request(step.name, own, ()), **more)
    asked = dict.fromkeys(rogue.names, replace(about, public=others or own or {}))
    asked[VICTIM] = about
    return {party: rogue.say(party, *asked[party].as_message()) for party in asked}


def opened(replies: Mapping[str, Message]) -> Array:
    for reply in replies.values():
        if reply.header["kind"] == "refused":
            raise AggregationError("refused", rule=reply.header["rule"])
    code = WireFormat(base_of.declared["base"], (), {}).code(len(replies))
    words = [reply.arrays["base"] for reply in replies.values()]
    return code.decode(MaskedSum().added(words, code))


def after_keeping(times: float) -> Rogue:
    """Have the victim keep its own, and the others so many times theirs."""
    rogue = Rogue(by_columns(), partition="columns").enter()
    replies = ask(rogue, own_base, {"times": times}, {"times": 1.0})
    assert {reply.header["kind"] for reply in replies.values()} == {"released"}
    return rogue


def assert_noise(attack: Callable[[], Array]) -> None:
    # Three random words of 256 bits; one in eight times all are numbers of the code.
    try:
        seen = attack()
    except AggregationError:
        return
    assert np.abs(seen).max() > 1e30


def directly(rogue: Rogue) -> Array:
    return opened(ask(rogue, base_of))


def by_another_array(rogue: Rogue) -> Array:
    ask(rogue, own_more)
    return opened(ask(rogue, half_of))


def in_another_fit(rogue: Rogue) -> Array:
    later = Rogue(rogue.silos, partition="columns").enter()
    return opened(ask(later, base_of, kept_of=HERE))


def in_a_transform(rogue: Rogue) -> Array:
    view = (Derive("test_origins.filled", (), {}, HERE),)
    return opened(ask(rogue, cell_of, operations=view))


def told_to_neighbours(rogue: Rogue) -> Array:
    graph, relay = graph_of("complete", tuple(TABLES)), Relay()
    replies = ask(rogue, told_base, topology=graph)
    relay.carry(told_base, graph, {p: {} for p in TABLES}, replies)
    inboxes, request = relay.deliver(heard_of), rogue.request(heard_of.name, {}, ())
    asked = {p: replace(request, inbox=inbox) for p, inbox in inboxes.items()}
    return opened({p: rogue.say(p, *asked[p].as_message()) for p in asked})


WAYS = [directly, by_another_array, in_another_fit, in_a_transform, told_to_neighbours]


@pytest.mark.parametrize("way", WAYS)
def test_nothing_opens_where_silos_kept_by_different_arguments(
    way: Callable[[Rogue], Array],
):
    assert_noise(lambda: way(after_keeping(times=0.0)))


@pytest.mark.parametrize("way", WAYS)
def test_control_without_origins_one_silo_answers_alone(
    way: Callable[[Rogue], Array], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(Origins, "bound", lambda self, context: context)
    assert_allclose(way(after_keeping(times=0.0)), OWN[VICTIM])


@pytest.mark.parametrize("way", WAYS)
def test_totals_open_where_silos_kept_alike(way: Callable[[Rogue], Array]):
    assert_allclose(way(after_keeping(times=1.0)), TOTAL)


def test_nothing_opens_where_one_silo_was_left_out_of_a_round_that_kept():
    rogue = after_keeping(times=1.0)
    again = rogue.request(own_base.name, {"times": 0.0}, ())
    for party in set(TABLES) - {VICTIM}:
        rogue.say(party, *again.as_message())
    assert_noise(lambda: directly(rogue))


# --- honest fits ----------------------------------------------------------------------


def test_what_an_earlier_process_kept_opens(tmp_path):
    here = by_columns()
    first = Rogue(here, partition="columns").enter()
    for turn in (first, Rogue(here, partition="columns").enter()):
        for name, party in here.parties.items():
            party.studies["study"].kept = KeptStore(tmp_path / name)
        if turn is first:
            ask(first, own_base, own={"times": 1.0})
        else:
            assert_allclose(opened(ask(turn, base_of, kept_of=HERE)), TOTAL)


@pytest.mark.parametrize("secure_sum", ["masked", "plain"])
def test_after_a_fit_that_was_stopped_half_way_the_next_one_opens(secure_sum):
    here = by_columns(secure_sum=secure_sum)
    federation = here.federation
    with federation.fitting():
        federation.keep(own_base, times=1.0)
    here.wire.on_request = lambda party, data: (
        None if party == "c" and kind(data) == "step" else data
    )
    with federation.fitting(), pytest.raises(AggregationError, match="did not answer"):
        federation.keep(own_base, times=1.0)
    here.wire.on_request = lambda party, data: data

    # Two silos keep arrays of the second fit, and one that of the first: 64 bits of
    # noise could look like a total.
    with (
        federation.fitting(),
        pytest.raises(AggregationError, match="not keep in the same rounds"),
    ):
        federation.sum(base_of)
    with federation.fitting():
        federation.keep(own_base, times=1.0)
        assert_allclose(federation.sum(base_of)["base"], TOTAL)


@pytest.mark.parametrize("secure_sum", ["masked", "plain"])
def test_a_step_that_reads_at_one_silo_alone_is_noticed(secure_sum):
    federation = by_columns(secure_sum=secure_sum).federation
    with federation.fitting():
        federation.keep(own_base, times=1.0)
        with pytest.raises(AggregationError, match="not keep in the same rounds"):
            federation.sum(base_of_one)


def test_arrays_of_two_studies_under_one_name_are_told_apart():
    one, other = Origins(), Origins()
    for origin in ("first", "second"):
        one.read("view", "mean", origin)
    other.read("view", "mean", "second")
    assert one.digest() != other.digest()
    assert other.bound(b"context") != b"context"
    assert Origins().bound(b"context") == b"context"

"""Requests that are altered on their way: every one ends the round."""

from typing import Any

import numpy as np
import pytest

from unpooled.errors import AggregationError, ReleaseRefusedError
from unpooled.protocol.message import decode, encode
from unpooled.secure.keys.roster import Identity
from wire import Silos, kind
from wire_faults import (
    STAGES,
    STEP,
    echo,
    fails,
    flipped,
    front,
    picky,
    stage_of,
    three_silos,
    works,
)


@pytest.fixture
def here() -> Silos:
    return three_silos()


def altered_to(here: Silos, party: str, stage: str, change: Any) -> None:
    def on_request(name: str, data: bytes) -> bytes | None:
        hit = name == party and stage_of(here.wire) == stage
        return change(data) if hit else data

    here.wire.on_request = on_request


REQUEST_FAULTS = {
    "flipped magic": lambda data: flipped(data, 3),
    "flipped length": lambda data: flipped(data, 9),
    "flipped header": lambda data: flipped(data, 30),
    "flipped end of header": lambda data: flipped(data, front(data) - 3),
    "flipped signature": lambda data: flipped(data, front(data) + 3),
    "truncated": lambda data: data[:-1],
    "longer": lambda data: data + bytes(64),
    "empty": lambda data: b"",
}


@pytest.mark.thinned(1)
@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("fault", REQUEST_FAULTS)
def test_an_altered_request_ends_the_round(here, stage, fault):
    party = "a" if stage == "offer group key" else "b"
    altered_to(here, party, stage, REQUEST_FAULTS[fault])

    # Whatever the party made of it, its reply is tied to what it got.
    assert fails(here).rule == "out_of_order"
    if stage == "agree":
        works(here)


@pytest.mark.slow
def test_every_byte_of_a_step_request_counts(here):
    federation = here.federation
    with federation.fitting():
        federation.sum(echo)
        length = len(here.wire.sent[-1][1])
        for place in range(0, length, 23):
            altered_to(here, "b", STEP, lambda data, p=place: flipped(data, p))
            assert fails(here, to="coordinator").rule == "out_of_order"


def test_an_argument_altered_on_its_way(here):
    """The relay sends one party another mean: the total would be another."""

    def change(data: bytes) -> bytes:
        message = decode(data)
        return encode(message.header, {"public.mean": np.ones(3)})

    altered_to(here, "b", "wire_faults.picky", change)
    with pytest.raises(AggregationError, match="belongs to another request"):
        here.federation.sum(picky, mean=np.zeros(3))


def test_an_old_request_in_place_of_the_new_one(here):
    federation = here.federation
    with federation.fitting():
        federation.sum(echo)
        (old,) = {data for _, data in here.wire.sent if kind(data) == "step"}
        altered_to(here, "b", STEP, lambda data: old)
        assert fails(here, to="coordinator").rule == "out_of_order"
        # The party answered the old round with the bytes of the old round.
        replies = [data for p, data in here.wire.of_kind("released") if p == "b"]
        assert replies[0] == replies[1]


def _swap_keys(message: Any, mallory: Any) -> dict[str, Any]:
    public, *_ = mallory.offer()
    offers = dict(message.header["offers"])
    offers["a"] = [public.hex(), *offers["a"][1:]]
    return {**message.header, "offers": offers}


def _swap_offer(message: Any, mallory: Any) -> dict[str, Any]:
    public, signature, head = mallory.offer()
    offers = {**message.header["offers"], "a": [public.hex(), signature.hex(), head]}
    return {**message.header, "offers": offers}


def _drop_offer(message: Any, mallory: Any) -> dict[str, Any]:
    offers = {k: v for k, v in message.header["offers"].items() if k != "a"}
    return {**message.header, "offers": offers}


@pytest.mark.thinned(1)
@pytest.mark.parametrize("swap", [_swap_keys, _swap_offer, _drop_offer])
@pytest.mark.parametrize("victims", ["b", "bc"])
def test_a_relay_that_swaps_ephemeral_keys(here, swap, victims):
    """The man in the middle of every key agreement; identities are pinned."""
    from unpooled.ledger import canonical
    from unpooled.secure.keys.agreement import Agreement

    refusals = []

    def on_request(name: str, data: bytes) -> bytes:
        if name not in victims or kind(data) != "agree":
            return data
        message = decode(data)
        session = canonical([message.header["study"], message.header["session"]])
        mallory = Agreement("a", Identity(), here.roster, session)
        altered = encode(swap(message, mallory), {})
        refusals.append(decode(here.parties[name].handle(altered)).header["rule"])
        return altered

    here.wire.on_request = on_request
    assert fails(here).rule == "out_of_order"
    assert set(refusals) <= {"wrong_signature", "wrong_roster"}
    assert len(refusals) == len(victims)
    works(here)


def test_a_roster_with_a_stranger_is_refused(here):
    coordinator = here.federation.coordinator
    send = coordinator.send

    def with_mallory(header: dict[str, Any], **rest: Any) -> Any:
        if header["kind"] == "join":
            header = {**header, "parties": [*header["parties"], "mallory"]}
        return send(header, **rest)

    coordinator.send = with_mallory
    with pytest.raises(ReleaseRefusedError, match="wrong_roster"):
        here.federation.sum(echo)

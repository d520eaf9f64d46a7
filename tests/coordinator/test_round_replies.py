"""Replies that are altered, late, swapped or missing: every one ends the round."""

import pytest

from unpooled.errors import AggregationError
from unpooled.protocol.message import decode, digest
from wire import Silos, kind
from wire_faults import (
    REPLY_FAULTS,
    STAGES,
    STEP,
    Reply,
    at,
    echo,
    fails,
    stage_of,
    three_silos,
    works,
)


@pytest.fixture
def here() -> Silos:
    return three_silos()


@pytest.mark.thinned(1)
@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("fault", REPLY_FAULTS)
def test_a_faulty_reply_ends_the_round(here, stage, fault):
    at(stage, here, REPLY_FAULTS[fault])

    error = fails(here)

    assert isinstance(error, AggregationError)
    if stage == STEP:
        works(here)


@pytest.mark.parametrize("stage", ["join", "agree", STEP])
def test_replies_swapped_between_parties(here, stage):
    def swap(replies: list[Reply]) -> list[Reply]:
        (a, one), (b, two), *rest = replies
        return [(a, two), (b, one), *rest]

    at(stage, here, swap)
    assert fails(here).rule == "wrong_signature"
    works(here)


def test_replies_in_another_order_are_no_fault(here):
    here.wire.on_replies = lambda replies: replies[::-1]
    with here.federation.fitting():
        here.federation.sum(echo, to="parties")
        backwards = here.federation.sum(echo)["total"]
    works(here)
    assert (here.federation.sum(echo)["total"] == backwards).all()
    assert here.ledger.verify(here.roster)


@pytest.mark.parametrize("stage", STAGES)
def test_a_reply_of_an_earlier_fit_comes_late(here, stage):
    """The same party's honest, signed reply to the same question, one fit before."""
    with here.federation.fitting():
        here.federation.sum(echo, to="parties")
    earlier = {}
    asked: dict[str, str] = {}
    for _, data in here.wire.sent:
        header = decode(data).header
        asked[digest(data)] = header.get("step", header["kind"])
    for party, data in here.wire.received:
        earlier[asked[decode(data).header["request"]], party] = data

    def fault(replies: list[Reply]) -> list[Reply]:
        return [(party, earlier[stage, party]) for party, _ in replies]

    at(stage, here, fault)
    with here.federation.fitting():
        assert fails(here).rule == "out_of_order"


def test_a_reply_of_an_earlier_round_comes_late(here):
    federation = here.federation
    with federation.fitting():
        federation.sum(echo)
        late = dict(here.wire.of_kind("released"))
        at(STEP, here, lambda replies: [*replies[:-1], ("c", late["c"])])
        assert fails(here, to="coordinator").rule == "out_of_order"
        # And next to the right one, it is a second answer.
        at(STEP, here, lambda replies: [*replies, ("c", late["c"])])
        assert "twice" in str(fails(here, to="coordinator"))


@pytest.mark.thinned(1)
@pytest.mark.parametrize("party", "abc")
@pytest.mark.parametrize("stage", STAGES)
def test_a_party_that_is_not_there(here, stage, party):
    def on_request(name: str, data: bytes) -> bytes | None:
        return None if name == party and stage_of(here.wire) == stage else data

    here.wire.on_request = on_request
    if (stage, party) in {
        ("offer group key", "b"),
        ("offer group key", "c"),
        ("accept group key", "a"),
    }:
        here.federation.sum(echo, to="parties")  # nobody asked it there
        return
    error = fails(here)
    assert str(error).startswith(f"{party} did not answer {stage}")
    assert "run the fit again" in str(error)
    works(here)


def test_a_party_that_leaves_without_a_word_does_no_harm(here):
    here.wire.on_request = lambda name, data: None if kind(data) == "leave" else data
    with here.federation.fitting():
        here.federation.sum(echo)
    works(here)

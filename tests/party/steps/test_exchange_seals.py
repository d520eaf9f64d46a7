"""A relay between neighbours cannot read, change, cut, swap or repeat a message."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from test_exchange import OPEN, PARTIES, PATH, sums, tables

import wire
from unpooled.errors import AggregationError, ReleaseRefusedError, UnpooledError
from unpooled.party.steps.neighbours import Neighbours
from unpooled.protocol.message import decode, encode
from unpooled.protocol.neighbour_messages import Exchange, Inbox, Sealed, sealed_size
from unpooled.protocol.refusal import Refusal
from unpooled.protocol.step import find_step
from unpooled.protocol.topology import graph_of

N = 20
SIZE = sealed_size((N,))


def run(silos):
    import test_exchange as steps

    with silos.federation.fitting():
        silos.federation.exchange(steps.told, "ring", turn=0)
        silos.federation.exchange(steps.told_on, "ring")
        silos.federation.keep(steps.heard)
        return silos.federation.collect(steps.shown)


def on_wire():
    return wire.silos(tables(), partition="columns", policy=OPEN)


def rules_of(silos):
    refused = [decode(data).header["rule"] for _, data in silos.wire.of_kind("refused")]
    return set(refused)


def altering(change):
    """Change what comes into b's inbox."""

    def on_request(party, data):
        message = decode(data)
        if party != "b" or "inbox.total" not in message.arrays:
            return data
        words = change(message.header["round"], message.arrays["inbox.total"].copy())
        arrays = {n: v for n, v in message.arrays.items() if n != "inbox.total"}
        if words is not None:
            arrays["inbox.total"] = words
        return encode(message.header, arrays)

    return on_request


def flipped(place):
    def change(_, words):
        words[place] ^= 1
        return words

    return change


class Earlier:
    """Deliver again what was delivered in the round before."""

    def __init__(self):
        self.last = None

    def __call__(self, _, words):
        last, self.last = self.last, words.copy()
        return words if last is None else last


CHANGES = {
    "first bit": flipped(0),
    "middle bit": flipped(SIZE // 2),
    "last bit": flipped(-1),
    "cut": lambda _, words: words[:-1],
    "one neighbour only": lambda _, words: words[:SIZE],
    "nothing": lambda _, words: words[:0],
    "no inbox": lambda _, words: None,
    "longer": lambda _, words: np.append(words, np.uint8(0)),
    "swapped": lambda _, words: np.concatenate([words[SIZE:], words[:SIZE]]),
    "one for all": lambda _, words: np.concatenate([words[:SIZE], words[:SIZE]]),
    "repeated": Earlier(),
}


@pytest.mark.slow
def test_control_an_honest_relay_delivers():
    silos = on_wire()
    silos.wire.on_request = altering(lambda _, words: words)
    found = run(silos)
    own = {p: sums()[p] for p in PARTIES}
    ring = graph_of("ring", PARTIES)
    once = {p: own[p] + sum(own[q] for q in ring[p]) for p in PARTIES}
    twice = once["b"] + sum(once[q] for q in ring["b"])
    np.testing.assert_allclose(found["b"]["heard"], twice, atol=1e-13)


@pytest.mark.thinned(1)
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_a_relay_changed_is_refused(change):
    silos = on_wire()
    silos.wire.on_request = altering(change)
    # The coordinator, if it is not the relay, sees that b answered something else.
    with pytest.raises(UnpooledError, match="another request"):
        run(silos)
    assert rules_of(silos) == {"sealed_message"}


def test_another_fit_s_messages_are_refused():
    silos = on_wire()
    kept = []
    silos.wire.on_request = altering(lambda n, words: kept.append(words) or words)
    run(silos)
    silos.wire.on_request = altering(lambda n, words: kept[0])
    with pytest.raises(AggregationError, match="another request"):
        run(silos)
    assert rules_of(silos) == {"sealed_message"}


def graph_header(graph):
    return [[party, list(peers)] for party, peers in graph.items()]


def test_a_relay_that_draws_each_another_graph_is_noticed():
    """b is told that all hear all; what it seals opens in no other graph."""
    silos = on_wire()

    def on_request(party, data):
        message = decode(data)
        if party != "b" or "topology" not in message.header:
            return data
        complete = graph_header(graph_of("complete", PARTIES))
        return encode({**message.header, "topology": complete}, message.arrays)

    silos.wire.on_request = on_request
    with pytest.raises(UnpooledError):
        run(silos)


@pytest.mark.parametrize(
    ("topology", "rule"),
    [
        (None, "malformed_message"),
        ([["a", ["b"]], ["b", ["a"]]], "wrong_roster"),
        ([["a", ["b"]], ["b", ["a"]], ["c", ["d"]], ["d", ["c"]]], "malformed_message"),
        ([["a", ["b"]], ["b", []]], "malformed_message"),
        ([["a", ["b"]], ["a", ["b"]]], "malformed_message"),
        ({"a": 3}, "malformed_message"),
        ("ring", "malformed_message"),
        ([1], "malformed_message"),
    ],
)
def test_a_silo_checks_the_graph(topology, rule):
    silos = on_wire()
    rogue = wire.Rogue(silos, partition="columns").enter()
    request = rogue.request("test_exchange.told", {"turn": 0}, operations=())
    header, arrays = request.as_message()
    header |= {} if topology is None else {"topology": topology}
    reply = rogue.say("a", header, arrays)
    assert reply.header["rule"] == rule


def test_a_silo_takes_no_graph_with_neighbours_that_it_shares_no_key_with():
    rogue = wire.Rogue(on_wire(), partition="columns").enter()
    request = rogue.request("test_exchange.told", {"turn": 0}, operations=())
    asked = replace(request, topology=graph_of("ring", PARTIES))
    step, neighbours = find_step("test_exchange.told"), Neighbours("a", PARTIES)
    neighbours.check(step, asked, {"b", "d"})
    with pytest.raises(Refusal, match="malformed_message"):
        neighbours.check(step, asked, {"b", "c"})


def test_a_silo_takes_no_graph_and_no_inbox_where_none_is_read():
    silos = on_wire()
    rogue = wire.Rogue(silos, partition="columns").enter()
    graph = graph_header(graph_of(PATH, PARTIES))
    request = rogue.request("vfedpca.local_weighted", operations=())
    header, arrays = request.as_message()
    reply = rogue.say("a", {**header, "topology": graph}, arrays)
    assert reply.header["rule"] == "malformed_message"
    request = rogue.request("test_exchange.told", {"turn": 0}, operations=())
    header, arrays = request.as_message()
    header["topology"] = graph
    reply = rogue.say("a", header, {**arrays, "inbox.x": np.zeros(3, np.uint8)})
    assert reply.header["rule"] == "malformed_message"
    # Nobody told anything before.
    request = rogue.request("test_exchange.heard", operations=())
    header, arrays = request.as_message()
    reply = rogue.say("a", header, {**arrays, "inbox.x": np.zeros(3, np.uint8)})
    assert reply.header["rule"] == "sealed_message"


def test_a_relay_that_drops_an_inbox_is_noticed():
    silos = on_wire()
    rogue = wire.Rogue(silos, partition="columns").enter()
    told = rogue.request("test_exchange.told", {"turn": 0}, operations=())
    header, arrays = told.as_message()
    header["topology"] = graph_header(graph_of(PATH, PARTIES))
    assert rogue.say("a", header, arrays).header["kind"] == "released"
    rules = rogue.rules("test_exchange.heard", operations=())
    assert rules["a"] == "sealed_message"


# --- The decoder ---------------------------------------------------------------------

KEYS = {"b": bytes(range(32)), "c": bytes(range(1, 33))}
STAR = graph_of("star", ("a", "b", "c"))


def end(party="a", context=b"[1]", graph=STAR, **values):
    own = values or {"v": np.arange(6.0).reshape(2, 3)}
    keys = KEYS if party == "a" else {"a": KEYS[party], "c": bytes(32), "b": bytes(32)}
    return Exchange(party, keys, graph, dict.fromkeys(own, context), own)


def delivered(*senders):
    words = np.concatenate([sender.sealed("v") for sender in senders])
    return {"v": Sealed((), (), words)}


def opened(exchange, inbox):
    return exchange.opened(exchange.described(inbox))


def test_seals_open_at_the_one_that_they_are_for():
    b, c = end("b"), end("c", v=np.ones((2, 3)))
    inbox = opened(end("a"), delivered(b, c))
    assert list(inbox) == ["a", "b", "c"]
    assert_array_equal(inbox["b"]["v"], b.own["v"])
    assert_array_equal(inbox["c"]["v"], 1.0)
    assert_array_equal(inbox.own["v"], end("a").own["v"])
    assert len(Inbox("a")) == 0


@pytest.mark.parametrize(
    "sender",
    [
        end("b", context=b"[2]"),
        end("b", graph=graph_of("complete", ("a", "b", "c"))),
        end("b", v=np.full((2, 3), np.nan)),
    ],
    ids=["other round", "other graph", "not finite"],
)
def test_seals_open_in_one_place_only(sender):
    words = np.concatenate([sender.sealed("v")[:SIZE_OF_V], end("c").sealed("v")])
    with pytest.raises((AggregationError, Refusal), match=r"sealed|altered"):
        opened(end("a"), {"v": Sealed((), (), words)})


SIZE_OF_V = sealed_size((2, 3))


@given(st.binary(max_size=3 * SIZE_OF_V))
def test_bytes_from_anywhere_are_refused(data):
    words = np.frombuffer(data, np.uint8)
    with pytest.raises((AggregationError, Refusal)):
        opened(end("a"), {"v": Sealed((), (), words)})


@given(st.data())
def test_any_change_is_refused(data):
    words = delivered(end("b"), end("c"))["v"].words.copy()
    place = data.draw(st.integers(0, len(words) - 1))
    words[place] ^= data.draw(st.integers(1, 255))
    with pytest.raises(AggregationError, match="altered"):
        opened(end("a"), {"v": Sealed((), (), words)})


@given(st.dictionaries(st.text(max_size=3), st.integers(0, 200), max_size=3))
def test_other_arrays_than_awaited_are_refused(sizes):
    inbox = {n: Sealed((), (), np.zeros(s, np.uint8)) for n, s in sizes.items()}
    with pytest.raises((AggregationError, Refusal)):
        opened(end("a"), inbox)


def test_refusals_say_what_to_do():
    with pytest.raises(ReleaseRefusedError, match="messages are altered on the way"):
        raise ReleaseRefusedError("b", "a step", "sealed_message")

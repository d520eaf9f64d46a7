"""MPyC's streams through a relay that shuffles, repeats, alters and drops messages."""

import queue
import random
import threading
import time
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unpooled.errors import AggregationError
from unpooled.secure.comparison.polynomial import Polynomial
from unpooled.secure.comparison.protocol import Computation
from unpooled.secure.comparison.relayed_streams import Sealer, Tunnel

KEY = bytes(range(32))
NAMES = ("a", "b", "c")
CUBE = Polynomial({("x", "x", "x"): 1.0}, {"x": 1}, fraction=10, bits=63)


def ends():
    return Sealer(KEY, "a", "b"), Sealer(KEY, "a", "b")


@given(st.permutations(range(12)))
def test_messages_are_read_in_order_and_once_whatever_the_relay_does(order):
    sender, receiver = ends()
    sealed = [sender.seal(bytes([65 + n])) for n in range(12)]
    read = []
    for n in order:
        read += receiver.opened(sealed[n])
        read += receiver.opened(sealed[n])
    assert b"".join(read) == bytes(range(65, 65 + 12))
    assert [receiver.opened(one) for one in sealed] == [[]] * 12


def test_what_stops_is_told_before_what_is_under_way():
    sender, receiver = ends()
    sender.seal(b"lost")
    assert receiver.opened(sender.seal(b"")) == [b""]


@given(st.integers(0, 8 * (8 + 5 + 16) - 1))
def test_a_message_is_altered_by_no_bit(bit):
    sender, receiver = ends()
    message = bytearray(sender.seal(b"hello"))
    message[bit // 8] ^= 1 << bit % 8
    with pytest.raises(AggregationError, match="altered on its way"):
        receiver.opened(bytes(message))


@pytest.mark.parametrize(
    "other",
    [
        Sealer(KEY, "b", "a"),  # the other direction: a message sent back
        Sealer(KEY, "a", "c"),
        Sealer(KEY[::-1], "a", "b"),  # another session
    ],
)
@pytest.mark.parametrize("message", [None, b"", b"short", bytes(24)])
def test_a_message_of_another_stream_is_refused(other, message):
    sealed = Sealer(KEY, "a", "b").seal(b"hello") if message is None else message
    with pytest.raises(AggregationError, match="altered on its way"):
        other.opened(sealed)


def test_too_large_a_gap_is_a_loss():
    sender, receiver = ends()
    sealed = [sender.seal(b"x") for _ in range(1025)]
    receiver.opened(sealed[1023])
    with pytest.raises(AggregationError, match="lost"):
        receiver.opened(sealed[1024])


class Relay:
    """Hands messages over from several threads, in no order at all."""

    def __init__(self) -> None:
        self.tunnels: dict[str, Tunnel] = {}
        self.change: Callable[[str, str, bytes], list[bytes]] = lambda s, r, m: [m]
        self.seen: list[bytes] = []
        self._queue: queue.SimpleQueue = queue.SimpleQueue()
        for _ in range(3):
            threading.Thread(target=self._work, daemon=True).start()

    def carry(self, sender: str) -> Callable[[str, bytes], None]:
        return lambda receiver, message: self._queue.put((sender, receiver, message))

    def _work(self) -> None:
        while True:
            sender, receiver, message = self._queue.get()
            time.sleep(random.random() * 0.004)
            self.seen.append(message)
            for one in self.change(sender, receiver, message):
                try:
                    self.tunnels[receiver].arrived(sender, one)
                except AggregationError:
                    pass  # the silo's end logs it


@pytest.fixture
def relay():
    return Relay()


@pytest.fixture
def parties(relay):
    pytest.importorskip("mpyc")
    keys = {frozenset(pair): bytes([ord(pair[0]), ord(pair[1])] * 16)
            for pair in ("ab", "ac", "bc")}  # fmt: skip
    made = [Computation(i, 3) for i in range(3)]
    for name, one in zip(NAMES, made, strict=True):
        own = {peer: keys[frozenset(name + peer)] for peer in NAMES if peer != name}
        about = name, NAMES, own, one.port, relay.carry(name), one.kill
        relay.tunnels[name] = Tunnel(*about)
    yield made
    for one in (*relay.tunnels.values(), *made):
        one.close()


def begin(relay, parties):
    certificates = [one.certificate for one in parties]
    for name, one in zip(NAMES, parties, strict=True):
        one.begin(relay.tunnels[name].addresses, certificates)
    for one in parties:
        one.tested(timeout=60.0)


def signs(parties, x):
    for number, one in enumerate(parties):
        own = {"x": x if number == 0 else np.zeros_like(x)}
        one.ask(CUBE, CUBE.integers(own))
    found = [one.found(timeout=60.0)[0] for one in parties]
    return [CUBE.opened(words, ["sign"])["sign"].tolist() for words in found]


@pytest.mark.slow
def test_real_processes_compute_through_it(relay, parties):
    relay.change = lambda s, r, message: [message, message]
    begin(relay, parties)
    x = np.linspace(-2.0, 2.0, 9)

    assert signs(parties, x) == [(x < 0).tolist()] * 3

    assert all(b"party" not in message for message in relay.seen)


@pytest.mark.slow
@pytest.mark.parametrize("harm", ["alters", "kills"])
def test_whatever_breaks_ends_at_all_parties_soon(relay, parties, harm):
    begin(relay, parties)
    if harm == "alters":
        relay.change = lambda s, r, message: [message[:-1] + b"\0"]
    else:
        parties[1].kill()
    began = time.monotonic()

    for number, one in enumerate(parties):
        one.ask(CUBE, CUBE.integers({"x": np.full(3, float(number))}))
        with pytest.raises(AggregationError, match="stopped computing"):
            one.found(timeout=60.0)

    assert time.monotonic() - began < 30.0


@pytest.mark.slow
def test_silence_is_noticed(relay, parties):
    begin(relay, parties)
    relay.change = lambda s, r, message: []
    tunnel = relay.tunnels["a"]
    for one in parties:
        one.ask(CUBE, CUBE.integers({"x": np.ones(3)}))

    with pytest.raises(AggregationError, match="stopped computing"):
        parties[0].found(timeout=60.0, lost=lambda: tunnel.silent_for > 2.0)

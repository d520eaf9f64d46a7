"""Bytes stay the same, whichever way the engine takes them."""

import queue

import numpy as np
import pytest

pytestmark = pytest.mark.filterwarnings("ignore")  # the engine's own affairs


@pytest.fixture
def ends():
    pytest.importorskip("nvflare", reason="nvflare absent")
    from unpooled.federation.nvflare import channel as nvflare

    return nvflare


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_small_messages_travel_within_the_call(ends, more):
    data = np.random.default_rng(0).bytes(ends._INLINE + more)

    packed = ends._packed(data)

    assert isinstance(packed, np.ndarray if more > 0 else bytes)
    assert ends._unpacked(packed) == data


def test_pieces_travel_apart(ends):
    pieces = [b"front", memoryview(bytes(ends._INLINE + 1)), memoryview(b"few")]

    packed = ends._packed(pieces)

    assert [type(piece) for piece in packed] == [bytes, np.ndarray, bytes]
    assert ends._framed(packed) == pieces


def test_an_empty_reply_stays_empty(ends):
    assert ends._unpacked(ends._packed(b"")) == b""


class Replies(list):
    """What a call of the engine gives: replies, and why there are not more."""

    def __init__(self, replies, failures=()):
        super().__init__(replies)
        self.failures = dict(failures)


class Failure:
    cause_type = "ValueError"

    def __str__(self):
        return "Mrs Smith, at /srv/rows"


def test_a_silo_without_a_reply_is_passed_on_as_missing(ends, caplog):
    arrived = queue.SimpleQueue()

    ends._pass_on(Replies([("a", b"yes")], {"b": Failure()}), arrived, ["a", "b", "c"])

    got = dict(arrived.get_nowait() for _ in range(3))
    assert got == {"a": b"yes", "b": None, "c": None}
    assert "b did not answer: ValueError" in caplog.text
    # What the silo's engine said of it stays out of the coordinator's log.
    assert "Smith" not in caplog.text


def test_an_engine_that_fails_in_the_middle_leaves_nobody_waiting(ends):
    arrived = queue.SimpleQueue()

    class Broken(Replies):
        def __iter__(self):
            yield "a", b"yes"
            raise RuntimeError("gone")

    with pytest.raises(RuntimeError, match="gone"):
        ends._pass_on(Broken([]), arrived, ["a", "b"])

    assert dict(arrived.get_nowait() for _ in range(2)) == {"a": b"yes", "b": None}

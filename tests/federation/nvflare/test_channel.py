"""Replies over NVFlare: each arrives once, and a silo without one is known."""

import queue
from types import SimpleNamespace

import pytest

from unpooled.errors import AggregationError

pytestmark = pytest.mark.filterwarnings("ignore")  # the engine's own affairs


@pytest.fixture
def channel():
    pytest.importorskip("nvflare", reason="nvflare absent")
    from unpooled.federation.nvflare import channel

    return channel


class Replies(list):
    """What a call of the engine gives: replies, and why there are not more."""

    def __init__(self, replies, failures=()):
        super().__init__(replies)
        self.failures = dict(failures)


class Failure:
    cause_type = "ValueError"

    def __str__(self):
        return "Mrs Smith, at /srv/rows"


def test_a_silo_without_a_reply_is_passed_on_as_missing(channel, caplog):
    arrived = queue.SimpleQueue()

    channel._pass_on(
        Replies([("a", b"yes")], {"b": Failure()}), arrived, ["a", "b", "c"]
    )

    got = dict(arrived.get_nowait() for _ in range(3))
    assert got == {"a": b"yes", "b": None, "c": None}
    assert "b did not answer: ValueError" in caplog.text
    # What the silo's engine said of it stays out of the coordinator's log.
    assert "Smith" not in caplog.text


def test_an_engine_that_fails_in_the_middle_leaves_nobody_waiting(channel):
    arrived = queue.SimpleQueue()

    class Broken(Replies):
        def __iter__(self):
            yield "a", b"yes"
            raise RuntimeError("gone")

    with pytest.raises(RuntimeError, match="gone"):
        channel._pass_on(Broken([]), arrived, ["a", "b"])

    assert dict(arrived.get_nowait() for _ in range(2)) == {"a": b"yes", "b": None}


def test_a_silo_that_could_not_open_its_rows_is_waited_for(channel, monkeypatch):
    """As one whose database was away when the job began."""
    call = SimpleNamespace(answer=lambda request: Replies([("va", b"")]))
    engine = SimpleNamespace(clients=(), get_clients=lambda names: lambda **_: call)
    monkeypatch.setattr(channel, "collab", engine)
    monkeypatch.setattr(channel, "one_way", lambda ends: None)

    with pytest.raises(AggregationError, match="va could not open") as ended:
        list(channel.NVFlareChannel(["va"], 5.0).exchange({"va": b"request"}))

    assert ended.value.rule == "absent"


def test_of_several_silent_silos_those_are_named_that_were_asked_twice(channel):
    """Under load a silo that is there once missed the question, and was blamed."""

    def silent(*names):
        return {name: SimpleNamespace(cause_type="TimeoutError") for name in names}

    pulse = channel._Pulse({"a", "b", "c"})
    pulse._see(Replies([("a", True)], silent("b", "c")))
    assert pulse.silent == set()
    pulse._see(Replies([("a", True)], silent("b", "c")))
    assert pulse.silent == {"b", "c"}
    pulse._see(Replies([("a", True), ("b", True)], silent("c")))
    assert pulse.silent == {"c"}
    # Nobody answers once the job has ended for all.
    pulse._see(Replies([], silent("a", "b", "c")))
    assert pulse.silent == {"c"}

"""Bytes stay the same, whichever way the engine takes them."""

import importlib.util

import numpy as np
import pytest

pytestmark = pytest.mark.filterwarnings("ignore")  # the engine's own affairs


@pytest.fixture
def engine():
    pytest.importorskip("nvflare", reason="nvflare absent")
    from unpooled.federation.nvflare import engine_messages

    return engine_messages


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_small_messages_travel_within_the_call(engine, more):
    data = np.random.default_rng(0).bytes(engine.INLINE_BYTES + more)

    packed = engine.packed(data)

    assert isinstance(packed, np.ndarray if more > 0 else bytes)
    assert engine.unpacked(packed) == data


def test_pieces_travel_apart(engine):
    large = memoryview(bytes(engine.INLINE_BYTES + 1))
    pieces = [b"front", large, memoryview(b"few")]

    packed = engine.packed(pieces)

    assert [type(piece) for piece in packed] == [bytes, np.ndarray, bytes]
    assert engine.unpacked(packed) == pieces


def test_an_empty_reply_stays_empty(engine):
    assert engine.unpacked(engine.packed(b"")) == b""


def test_what_is_loaded_in_advance_exists(engine):
    from unpooled.federation.nvflare import coordinator_end, silo_end

    for name in (*silo_end.LOADED, *coordinator_end.LOADED):
        assert importlib.util.find_spec(name) is not None, name

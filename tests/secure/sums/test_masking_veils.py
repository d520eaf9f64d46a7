"""Totals that only the parties can open."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from masked_parties import CODES, UNIFORM, added, conceal_all, masked_sums, unevenness
from unpooled.arrays import Array
from unpooled.errors import AggregationError
from unpooled.protocol.message import decode
from unpooled.protocol.request import Veiled
from unpooled.protocol.step import release, summed
from unpooled.secure.sums.fixed_point import WideCode
from unpooled.secure.sums.masking import unveil, veil
from wire import Rogue, Silos, silos


@CODES
def test_a_veil_hides_the_total_and_comes_off(make):
    code, key = make(5), b"k" * 32
    values = np.full((5, 5000), 0.01)
    parts = conceal_all(masked_sums(), values, code)
    veil(parts[0], code, key, b"context")

    total = added(parts, code)

    assert unevenness(total) < UNIFORM
    before = total.copy()
    opened = unveil(total, code, key, b"context")
    np.testing.assert_allclose(opened, 0.05, atol=1e-15)
    assert (total == before).all()
    for wrong_key, context in ((b"K" * 32, b"context"), (key, b"another")):
        with pytest.raises(AggregationError):
            unveil(total, code, wrong_key, context)


SIZE = 600
_opened_in_silos: list[Array] = []


@summed(total=release(str(SIZE)))
def wide_constant(X: Array) -> dict[str, Array]:
    return {"total": np.full(SIZE, float(len(X)))}


@summed(takes={"total": "r"}, echo=release(""))
def uses_a_total(X: Array, *, total: Array) -> dict[str, Array]:
    _opened_in_silos.append(total)
    return {"echo": np.array(float(total.sum()))}


@pytest.fixture
def three() -> Silos:
    return silos()


def test_totals_for_the_parties_end_to_end(three):
    _opened_in_silos.clear()
    federation = three.federation
    with federation.fitting():
        veiled = federation.sum(wide_constant, to="parties")["total"]
        assert isinstance(veiled, Veiled)
        assert veiled.shape == (SIZE,)
        # To the coordinator, and to all that heard every message, it is noise ...
        assert unevenness(veiled.words) < UNIFORM
        parts = [
            decode(data).arrays["total"] for _, data in three.wire.of_kind("released")
        ]
        code = WideCode(3)
        for k in (1, 2, 3):
            for some in itertools.combinations(parts, k):
                assert unevenness(added(list(some), code)) < UNIFORM
        # ... and the parties open it when they are asked to use it.
        echo = federation.sum(uses_a_total, total=veiled)["echo"]
    assert [o.tolist() for o in _opened_in_silos] == 3 * [[90.0] * SIZE]
    assert echo == 3 * 90.0 * SIZE
    assert three.ledger.verify(three.roster)
    assert [(x.name, x.visibility, x.direction) for x in three.ledger] == [
        ("total", "veiled", "out"),
        ("total", "veiled", "in"),
        ("echo", "summed", "out"),
    ]


def test_the_same_step_twice_on_the_wire(three):
    """Everything of round 1 and the opened totals say nothing of c in round 2."""
    federation = three.federation
    with federation.fitting():
        for _ in range(2):
            assert (federation.sum(wide_constant)["total"] == 90.0).all()
    with federation.fitting():
        federation.sum(wide_constant)
    heard = [(p, decode(data).arrays) for p, data in three.wire.of_kind("released")]
    rounds = [dict(heard[start : start + 3]) for start in (0, 3, 6)]
    code = WideCode(3)
    for earlier, later in itertools.combinations(rounds, 2):
        for sign in (code.add, code.subtract):
            for helper in (earlier["c"], earlier["a"], later["a"], later["b"]):
                guess = later["c"]["total"].copy()
                sign(guess, helper["total"])
                assert unevenness(guess) < UNIFORM


def test_a_veiled_total_serves_one_fit_and_one_name(three):
    federation = three.federation
    with federation.fitting():
        veiled = federation.sum(wide_constant, to="parties")["total"]
    with federation.fitting(), pytest.raises(Exception, match="out_of_order"):
        federation.sum(uses_a_total, total=veiled)
    with federation.fitting():
        veiled = federation.sum(wide_constant, to="parties")["total"]
        with pytest.raises(Exception, match="out_of_order"):
            federation.sum(uses_a_total, total=replace(veiled, release="another"))
        altered = veiled.words.copy()
        altered[0, 3] ^= np.uint64(2**62)
        with pytest.raises(AggregationError):
            federation.sum(
                uses_a_total,
                total=replace(veiled, words=altered),
            )


def test_without_the_group_key_nothing_is_veiled(three):
    # A coordinator that skips the group key gets a refusal, not an open total.
    rogue = Rogue(three).enter()

    rules = rogue.rules("test_masking_veils.wide_constant", to="parties")

    assert rules["a"] == "out_of_order"
    assert rules["b"] == rules["c"] == ""


def test_the_group_key_passes_the_relay_sealed(three):
    federation = three.federation
    with federation.fitting():
        federation.sum(wide_constant, to="parties")
    offers = [decode(data) for _, data in three.wire.of_kind("group")]
    assert len(offers) == 1
    sealed = offers[0].header["sealed"]
    assert set(sealed) == {"b", "c"}
    assert len(set(sealed.values())) == 2
    # 12 bytes of nonce, 32 of key, 16 of tag.
    assert {len(bytes.fromhex(text)) for text in sealed.values()} == {60}

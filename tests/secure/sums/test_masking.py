"""Masked sums: all together open the total, and fewer learn nothing."""

import itertools

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from chance import deviation
from masked_parties import (
    CODES,
    NAMES,
    UNIFORM,
    added,
    conceal_all,
    masked_sums,
    unevenness,
)
from unpooled.arrays import Array
from unpooled.errors import AggregationError
from unpooled.secure.sums.fixed_point import WideCode
from unpooled.secure.sums.masking import MaskedSum


@CODES
def test_all_together_open_the_total(make):
    values = np.random.default_rng(1).uniform(-0.2, 0.2, (5, 1000))
    code = make(5)

    parts = conceal_all(masked_sums(), values, code)

    for order in (parts, parts[::-1], parts[2:] + parts[:2]):
        total = code.decode(MaskedSum().added(iter(order), code))
        np.testing.assert_allclose(total, values.sum(axis=0), atol=1e-15)


@CODES
@pytest.mark.parametrize(
    "subset", [s for k in range(1, 5) for s in itertools.combinations(range(5), k)]
)
def test_totals_of_strict_subsets_look_uniform(make, subset):
    # Zeros are the worst case: without masks every byte is 0.
    code = make(5)
    parts = conceal_all(masked_sums(), np.zeros((5, 5000)), code)

    assert unevenness(added([parts[i] for i in subset], code)) < UNIFORM


@CODES
def test_differences_and_single_limbs_look_uniform(make):
    code = make(5)
    parts = conceal_all(masked_sums(), np.full((5, 20_000), 0.125), code)

    first, second = parts[0].copy(), parts[1]
    code.subtract(first, second)
    assert unevenness(first) < UNIFORM
    for column in np.atleast_2d(parts[0].T):
        assert unevenness(column) < UNIFORM
    # Neighbours on the wire are independent too.
    assert unevenness(np.diff(parts[0], axis=0)) < UNIFORM


@CODES
def test_view_without_the_last_party_tells_nothing(make):
    """A game: which of two inputs did the parties have? Nobody beats a coin."""
    trials = 600
    rng = np.random.default_rng(5)
    code = make(5)
    inputs = [np.full((5, 8), 0.19), np.full((5, 8), -0.01)]
    plain = [added([code.encode(v) for v in x[:4]], code) for x in inputs]
    wins: dict[str, int] = dict.fromkeys(
        ("nearest", "top bit", "bytes", "xor", "chosen mask"), 0
    )
    for _ in range(trials):
        secret = int(rng.integers(2))
        sums = masked_sums(int(rng.integers(2**62)))
        # The other inputs are the adversary's choice; four of five messages arrive.
        seen = added(conceal_all(sums, inputs[secret], code)[:4], code)
        guesses = {
            "nearest": _distance(seen, plain[0]) > _distance(seen, plain[1]),
            "top bit": (seen >> np.uint64(63)).sum() > seen.size / 2,
            "bytes": seen.view(np.uint8).mean() > 127.5,
            "xor": int(np.bitwise_xor.reduce(seen, axis=None)) % 2 == 1,
            "chosen mask": bool((seen & np.uint64(1)).sum() % 2),
        }
        for name, guess in guesses.items():
            wins[name] += int(guess) == secret
    off = {name: abs(won / trials - 0.5) for name, won in wins.items()}
    assert max(off.values()) <= deviation(trials, len(wins)), wins
    # The game can be won: with the last message the inputs are told apart at once.
    whole = added(conceal_all(masked_sums(), inputs[0], code), code)
    assert code.decode(whole) == pytest.approx(5 * 0.19)


def _distance(seen: Array, expected: Array) -> float:
    difference = (seen - expected).astype(np.int64).astype(float)
    return float(np.abs(difference).sum())


@pytest.mark.parametrize("colluding", [1, 2, 3])
def test_colluding_parties_learn_the_sum_of_the_others_only(colluding):
    """c parties hand their keys over; the others stay hidden in their sum."""
    code, n = WideCode(5), 4000
    sums = masked_sums()
    parts = conceal_all(sums, np.zeros((5, n)), code)
    # Keys of the colluders take their masks off the honest messages.
    for honest in range(colluding, 5):
        for traitor in range(colluding):
            alone = MaskedSum(
                NAMES[honest], {NAMES[traitor]: sums[traitor]._keys[NAMES[honest]]}
            )
            code.subtract(parts[honest], alone.conceal(np.zeros(n), code, b"context"))
    # Guard words are known: 1 of each party, 1 taken off with each mask.
    honest_parts = [part[:-1] for part in parts[colluding:]]

    assert not added(honest_parts, code).any()
    for k in range(1, len(honest_parts)):
        for some in itertools.combinations(honest_parts, k):
            assert unevenness(added(list(some), code)) < UNIFORM


# --- contexts -------------------------------------------------------------------------


@CODES
def test_masks_are_the_pairs_stream_from_the_place_of_the_context(make):
    """Against HKDF and AES of another implementation's names: RFC 5869, SP 800-38A."""
    code, key, context = make(2), bytes(range(32)), b"study session round"
    first, second = (MaskedSum(me, {peer: key}) for me, peer in ("ab", "ba"))
    place = HKDFExpand(SHA256(), 32, context).derive(key)[:16]
    stream_key = HKDFExpand(SHA256(), 32, b"mask stream").derive(key)
    ecb = Cipher(algorithms.AES(stream_key), modes.ECB()).encryptor()
    start = int.from_bytes(place, "big")
    values = np.zeros(5000)
    n_blocks = code.bytes(5000) // 16
    blocks = ((start + i) % 2**128 for i in range(n_blocks))
    mask = ecb.update(b"".join(block.to_bytes(16, "big") for block in blocks))
    expected = code.encode(values)
    code.add(expected, np.frombuffer(mask, code.word).reshape(expected.shape))

    assert (first.conceal(values, code, context) == expected).all()
    total = added([expected, second.conceal(values, code, context)], code)
    assert not code.decode(total).any()


def test_a_place_does_not_depend_on_what_was_masked_before():
    code, party = WideCode(2), MaskedSum("a", {"b": b"k" * 32})
    before = party.conceal(np.zeros(300), code, b"one")
    party.conceal(np.zeros(7), code, b"two")
    assert (party.conceal(np.zeros(300), code, b"one") == before).all()


@CODES
def test_a_foreign_part_spoils_the_total(make):
    code = make(5)
    sums, values = masked_sums(), np.full((5, 64), 0.01)
    parts = conceal_all(sums, values, code)
    other_round = sums[4].conceal(values[4], code, b"another round")

    for wrong in (parts[:4], [*parts[:4], other_round], [*parts, parts[0]]):
        # 64 random words are all in the range with probability at most 2^-64.
        with pytest.raises(AggregationError, match="masks did not cancel"):
            code.decode(MaskedSum().added(wrong, code))


def test_a_party_alone_has_no_masks():
    with pytest.raises(AggregationError, match="at least two") as refused:
        MaskedSum("a", {}).conceal(np.ones(3), WideCode(1), b"context")
    assert refused.value.rule == "min_parties"

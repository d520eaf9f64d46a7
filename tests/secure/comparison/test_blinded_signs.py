"""Signs by three parties: right for exact integers, and what each party receives."""

import asyncio
import hashlib
import itertools
import random
from typing import final

import numpy as np
import pytest
import scipy.stats
from numpy.testing import assert_array_equal

from unpooled.secure.comparison import blinded_signs as protocol
from unpooled.secure.comparison.blinded_signs import (
    MOST_BITS,
    ROUNDS,
    Link,
    blinded_signs,
)

PRIME = 2**521 - 1
# Tests of noise are at this level; draws are the same in every run.
LEVEL = 1e-3


@final
class Wire(Link):
    """Queues between parties of one process, which keep what each receives."""

    def __init__(self, party, n_parties, queues, run):
        self.party, self.n_parties, self.modulus = party, n_parties, PRIME
        self.rounds, self.received = 0, {}
        self._queues, self._run = queues, run

    def seeds(self):
        return {
            absent: hashlib.sha256(f"{self._run} {absent}".encode()).digest()
            for absent in range(3)
            if absent != self.party
        }

    async def swapped(self, sent, senders=()):
        self.rounds += 1
        for party, message in sent.items():
            self._queues[self.party, party].put_nowait((self.rounds, message))
        found = []
        for sender in senders:
            sent_in, message = await self._queues[sender, self.party].get()
            assert sent_in == self.rounds, "a message of another round"
            self.received[self.rounds, sender] = message
            found.append(message)
        return found


def parts_of(values, n_parties):
    """Return parts that add up to integers and are no noise; a fourth is left out."""
    each = [(5, 7, v - 12, 3) for v in values]
    return [np.array([e[i] for e in each], dtype=object) for i in range(n_parties)]


def run(values, bits, n_parties=3, number=0):
    """Return the signs that each party finds, and the parties' wires."""
    pairs = itertools.permutations(range(n_parties), 2)
    queues = {pair: asyncio.Queue() for pair in pairs}
    wires = [Wire(i, n_parties, queues, number) for i in range(n_parties)]
    parts = parts_of(values, n_parties)

    async def together():
        both = zip(wires, parts, strict=True)
        return await asyncio.gather(*(blinded_signs(w, s, bits) for w, s in both))

    return asyncio.run(together()), wires


def hard(bits):
    """Return numbers about zero, about powers of two, and at the ends."""
    most = 2 ** (bits - 1) - 1
    rng = random.Random(bits)
    near = [s * 2**e + d for e in range(bits - 1) for s in (1, -1) for d in (-1, 0, 1)]
    drawn = [rng.randint(-most, most) for _ in range(50)]
    return [v for v in [0, 1, -1, most, -most, *near, *drawn] if abs(v) <= most]


@pytest.mark.thinned(1)
@pytest.mark.parametrize("n_parties", [3, 4])
@pytest.mark.parametrize("bits", [2, 7, 8, 63, 127, 207, MOST_BITS])
def test_every_sign_is_that_of_exact_integers(bits, n_parties):
    values = hard(bits)

    found, wires = run(values, bits, n_parties)

    for signs in found:
        assert_array_equal(signs, [v < 0 for v in values])
    assert {wire.rounds for wire in wires} == {ROUNDS}


@pytest.mark.parametrize("edge", [0, 1, -1])
def test_masks_at_the_ends_of_their_range_change_no_sign(monkeypatch, edge):
    """Where r has ones alone, or zeros, c and r differ in no bit or in the last."""
    monkeypatch.setattr(
        protocol.secrets, "randbits", lambda bits: edge if edge >= 0 else 2**bits - 1
    )
    values = hard(16)
    for signs in run(values, 16)[0]:
        assert_array_equal(signs, [v < 0 for v in values])


def test_no_numbers_have_no_signs():
    assert [signs.tolist() for signs in run([], 63)[0]] == [[], [], []]


def test_what_is_too_long_for_the_small_prime_is_refused():
    with pytest.raises(ValueError, match="bits=250: choose from 2 to 249"):
        run([1], MOST_BITS + 1)


def differences(value, number, n=400, bits=15):
    """Return what party 2 adds up of the two others' messages, n times for a value."""
    _, wires = run([value] * n, bits, number=number)
    first, second = (wires[2].received[2, sender][: n * bits] for sender in (0, 1))
    each = [np.frombuffer(x, np.uint8).reshape(n, bits) for x in (first, second)]
    return each, np.add.reduce(each, dtype=int) % 251


@pytest.fixture
def drawn(monkeypatch):
    """Make the masks of party 2 the same in every run of a test."""
    rng = random.Random(5)
    monkeypatch.setattr(protocol.secrets, "randbits", rng.getrandbits)


@pytest.mark.parametrize("value", [2**14 - 1, 0, -1, 1 - 2**14])
def test_party_2_receives_one_zero_or_none_by_a_coin(drawn, value):
    _, w = differences(value, number=value)
    zeros = (w == 0).sum(axis=1)
    assert zeros.max() == 1
    assert scipy.stats.binomtest(int(zeros.sum()), len(w)).pvalue > LEVEL
    # Its place is uniform, and so are the numbers other than 0.
    places = np.bincount(np.nonzero(w == 0)[1], minlength=w.shape[1])
    assert scipy.stats.chisquare(places).pvalue > LEVEL
    counts = np.bincount(w[w > 0], minlength=251)[1:]
    assert scipy.stats.chisquare(counts).pvalue > LEVEL


@pytest.mark.parametrize("value", [2**14 - 1, -1])
def test_party_2_receives_noise_from_each(drawn, value):
    """It knows the shares of bits, so a multiple of what is made of them would tell."""
    for share in differences(value, number=7 - value)[0]:
        for place in range(share.shape[1]):
            tens = np.bincount(share[:, place] // 26, minlength=10)
            expected = np.bincount(np.arange(251) // 26) * len(share) / 251
            # One of 30 places may fall below the level of a single test.
            assert scipy.stats.chisquare(tens, expected).pvalue > LEVEL / 30


@pytest.mark.parametrize("value", [2**14 - 1, -1])
@pytest.mark.parametrize("party", [0, 1])
def test_parties_0_and_1_receive_noise(drawn, party, value):
    n, bits = 400, 15
    _, wires = run([value] * n, bits, number=11 - value)
    parts = [
        protocol._numbers(wires[party].received[1, sender][: n * 66], 66)
        for sender in (1 - party, 2)
    ]
    for part in parts:
        level = np.array([float(v / PRIME) for v in part])
        assert scipy.stats.kstest(level, "uniform").pvalue > LEVEL
    own = protocol._under_zeros(
        wires[party],
        parts_of([value] * n, 3)[party],
        {
            absent: protocol.key_cipher(key, b"signs")
            for absent, key in wires[party].seeds().items()
        },
    )
    c = (own + parts[0] + parts[1] + 2**14) % PRIME
    assert max(c) < 2 ** (bits + 64) + 2**bits
    level = np.array([float(v / 2 ** (bits + 64)) for v in c])
    assert scipy.stats.kstest(level, "uniform").pvalue > LEVEL
    if party == 1:
        dealt = np.frombuffer(wires[1].received[1, 2][n * 66 :], np.uint8)
        counts = np.bincount(dealt, minlength=251)
        assert scipy.stats.chisquare(counts).pvalue > LEVEL


def test_no_share_of_a_difference_tells_its_bit(drawn):
    """Party 2 knows the shares of bits of r, so it could divide by what it guesses."""
    n, value = 400, -1
    (first, second), w = differences(value, number=3, n=n, bits=2)
    _, wires = run([value] * n, 2, number=3)
    dealt = np.frombuffer(wires[1].received[1, 2][n * 66 :], np.uint8)
    theirs = dealt.reshape(n, 2).astype(int)[:, 1]
    cipher = protocol.key_cipher(wires[2].seeds()[1], b"signs")
    protocol._drawn(cipher, PRIME, n)
    own = protocol._uniform(cipher, 251, (n, 2))[:, 1]
    first, second, found = first.astype(int), second.astype(int), np.zeros(n, bool)
    # At the highest place there is no bit above, so shares are those of a bit of c.
    for d, bit, place in itertools.product((1, -1), (0, 1), (0, 1)):
        parts = 1 + d * bit - d * own, -d * theirs
        product = first[:, place] * parts[1] - second[:, place] * parts[0]
        found |= product % 251 == 0
    # A 0 is known to be one. Elsewhere eight guesses are right by chance.
    found = found[(w != 0).all(axis=1)]
    assert len(found) > n / 3
    assert scipy.stats.binomtest(int(found.sum()), len(found), 8 / 251).pvalue > LEVEL


def test_numbers_other_than_0_are_uniform():
    cipher = protocol.key_cipher(bytes(32), b"uniform")
    for below in (2, 250, 251):
        counts = np.bincount(protocol._uniform(cipher, below, (50_000,)).ravel())
        assert len(counts) == below
        assert scipy.stats.chisquare(counts).pvalue > LEVEL

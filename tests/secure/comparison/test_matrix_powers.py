"""Eigenpairs by powers of a matrix: against LAPACK, on integers in the clear."""

import asyncio
import math
from typing import final

import numpy as np
import pytest
import scipy.linalg
from numpy.testing import assert_allclose

from unpooled.errors import AggregationError
from unpooled.linalg.moments import pack
from unpooled.secure.comparison.matrix_powers import (
    _public_direction,
    leading_eigenpairs,
)
from unpooled.secure.comparison.shared_eigenpairs import (
    BITS,
    CLOSEST,
    FRACTION,
    SQUARINGS,
    SharedEigenpairs,
)
from unpooled.secure.comparison.shared_fixed_point import FixedPoint

DECLARED = SharedEigenpairs("scatter", vectors="vectors", values="values")


@final
class Clear(FixedPoint):
    """The arithmetic of shares on the values themselves; keeps what is opened."""

    def __init__(self, worst=0):
        self.modulus = 2 ** (BITS + 100) - 75
        self.opened_numbers, self.signs, self.largest = [], 0, 0
        self.rounds, self._worst = 0, worst

    def _signed(self, x):
        return np.where(x > self.modulus // 2, x - self.modulus, x)

    async def shifted(self, x, shift):
        self.rounds += 1
        value = self._signed(np.asarray(x, dtype=object))
        self.largest = max(self.largest, *(abs(int(v)) for v in value))
        # As with shares of three parties: up to some units of the last place off.
        return ((value >> shift) + self._worst) % self.modulus

    async def opened(self, x):
        values = [int(v) for v in self._signed(np.asarray(x, dtype=object))]
        self.opened_numbers.append(values)
        return values

    async def is_negative(self, x, bits):
        value = int(self._signed(np.array([x % self.modulus], dtype=object))[0])
        assert abs(value) < 1 << (bits - 1)
        self.signs += 1
        return value < 0


def leading(arithmetic, triangle, k):
    return asyncio.run(leading_eigenpairs(arithmetic, triangle, k))


def eigenpairs(S, k, arithmetic=None):
    S = S / S.trace()
    (row,) = DECLARED.integers({"scatter": pack(S)})
    q = (arithmetic := arithmetic or Clear()).modulus
    triangle = np.array([x % q for x in row], dtype=object)
    found = leading(arithmetic, triangle, k)
    words = DECLARED.words(found)
    return words["values"], words["vectors"]


def with_spectrum(values, seed=0):
    rng = np.random.default_rng(seed)
    Q = np.linalg.qr(rng.standard_normal((len(values), len(values))))[0]
    return (Q * values) @ Q.T


def assert_leading(S, k, values, vectors, atol=1e-9):
    exact, V = scipy.linalg.eigh(S / S.trace())
    exact, V = exact[::-1], V[:, ::-1]
    assert_allclose(values, exact[:k], rtol=1e-12, atol=2.0**-49)
    # An angle a has cosine 1 - a²/2, so that sines are compared.
    along = np.sum(V[:, :k] * vectors.T, axis=0)
    sines = np.linalg.norm(vectors.T - V[:, :k] * along, axis=0)
    assert_allclose(sines, 0.0, atol=atol)


# Rounding of 2^-64 over a gap δ turns a vector by 2^-64 sqrt(p) / δ, a unit of the
# sketch's last place by 2^-48 sqrt(p) / |v·r|: below 1e-9 down to δ = 3e-4.
@pytest.mark.thinned(1)
@pytest.mark.parametrize("worst", [-2, 0, 2])
@pytest.mark.parametrize(
    "spectrum",
    [
        0.7 ** np.arange(4),
        0.99 ** np.arange(12),
        np.r_[1.0, 1.0 - 3e-4, np.full(8, 0.5)],
        np.r_[1.0, 1e-2, 1e-3, 1e-4, np.full(3, 1e-5)],
        np.r_[3.0, 2.0, 1.0, np.zeros(5)],
    ],
    ids=["few", "slow", "close", "steep", "low rank"],
)
def test_leading_pairs_are_those_of_lapack(spectrum, worst):
    S, k = with_spectrum(spectrum), 2
    assert_leading(S, k, *eigenpairs(S, k, Clear(worst)))


@pytest.mark.slow
@pytest.mark.parametrize("p", [1, 2, 3, 25])
def test_sizes_and_all_of_few_components(p):
    S = with_spectrum(0.5 ** np.arange(p))
    k = min(p, 3)
    assert_leading(S, k, *eigenpairs(S, k))


@pytest.mark.slow
def test_vectors_are_orthonormal_and_values_descend():
    S = with_spectrum(np.linspace(2.0, 1.0, 10))
    values, vectors = eigenpairs(S, 10)
    # Each vector is rounded to 2^-56.
    assert_allclose(vectors @ vectors.T, np.eye(10), atol=1e-14)
    assert (np.diff(values) < 0).all()
    assert_allclose(values.sum(), 1.0, rtol=1e-12)


def test_a_tie_is_not_opened_and_ends_the_search():
    S = with_spectrum([4.0, 2.0, 2.0 * (1 - CLOSEST / 10), 1.0])
    arithmetic = Clear()
    values, vectors = eigenpairs(S, 3, arithmetic)
    assert_allclose(values[0], 4.0 / S.trace(), rtol=1e-12)
    assert not values[1:].any()
    assert not vectors[1:].any()
    # The sketch and the quotient of the first; of the second a bit.
    trace, *others = arithmetic.opened_numbers
    assert trace == pytest.approx([2.0**32])
    assert [len(numbers) for numbers in others] == [4, 1]
    assert arithmetic.signs == 2


@pytest.mark.parametrize(
    ("gap", "opens"), [(CLOSEST / 2, False), (1.2 * CLOSEST, True)]
)
def test_the_declared_closest_gap_is_the_one_that_is_opened(gap, opens):
    values, _ = eigenpairs(with_spectrum([1.0, 1.0 - gap, 0.1]), 1)
    assert bool(values[0] > 0) is opens


def test_nothing_is_opened_of_uncorrelated_columns():
    arithmetic = Clear()
    values, _ = eigenpairs(np.eye(5), 2, arithmetic)
    assert not values.any()
    assert arithmetic.opened_numbers == [pytest.approx([2.0**32])]


def test_the_rest_below_a_millionth_is_not_decomposed():
    values, _ = eigenpairs(with_spectrum([1.0, 1e-7, 1e-9]), 2)
    assert values[0] > 0
    assert values[1] == 0


def test_what_is_opened_follows_from_vectors_and_values():
    """A sketch is (v·r) v to 2^-40: its length tells nothing beside v."""
    S = with_spectrum([3.0, 2.0, 1.0, 0.5])
    arithmetic = Clear()
    _, vectors = eigenpairs(S, 2, arithmetic)
    sketches = [x for x in arithmetic.opened_numbers if len(x) == 4]
    for place, (sketch, v) in enumerate(zip(sketches, vectors, strict=True)):
        r = _public_direction(place, 4).astype(float) * 2.0**-24
        expected = v * (v @ r)
        assert_allclose(np.array(sketch, float) * 2.0**-48, expected, atol=2.0**-39)


@pytest.mark.parametrize("p", [1, 8, pytest.param(100, marks=pytest.mark.slow)])
def test_products_stay_within_the_bits(p):
    arithmetic = Clear()
    eigenpairs(with_spectrum(np.r_[np.ones(p - 1), 1.5]), 1, arithmetic)
    assert arithmetic.largest < 1 << (BITS - 2)
    # As planned, without the messages of the comparison.
    planned = DECLARED.messages("vectors", (1, p))
    assert 0 <= planned - arithmetic.rounds <= 25


@pytest.mark.parametrize("part", [np.nan, np.inf, 3.0])
def test_a_part_that_cannot_be_is_refused(part):
    with pytest.raises(AggregationError, match="not finite, or larger"):
        DECLARED.integers({"scatter": np.array([part])})


@pytest.mark.parametrize("wrong", [0.0, 0.99, 2.0**70])
def test_nothing_is_computed_of_parts_that_do_not_belong_together(wrong):
    """Where masks do not cancel, the trace is not the one that is known."""
    arithmetic = Clear()
    q = arithmetic.modulus
    triangle = pack(wrong * np.diag([0.5, 0.3, 0.2]))
    integers = np.array([int(x * 2.0**FRACTION) % q for x in triangle], dtype=object)
    found = leading(arithmetic, integers, 2)
    assert (arithmetic.signs, len(arithmetic.opened_numbers)) == (0, 1)
    with pytest.raises(AggregationError, match="do not add up"):
        DECLARED.words(found)


def test_closest_is_what_the_powers_tell_apart():
    assert 41 * math.log(2) / 2**SQUARINGS == pytest.approx(CLOSEST, rel=0.02)
    assert FRACTION == 64

"""Eigenpairs of a matrix in secret sharing, one after the other, by its powers.

    A / tr A    its trace is opened, which is known: parts that are about different
                requests have masks that do not cancel, and end here
    A / tr A ── squared 18 times, each time over its trace ──> B = v vᵀ
    in secret   is tr B² within 2^-40 of (tr B)²?   if not: end, nothing more is opened
    opened      B r, a multiple of v, for a public random r;  then λ = vᵀ A v
    next        (1 - V Vᵀ) A (1 - V Vᵀ), over its trace, which is 1 - Σ λ

B's own trace is 1 when B r is opened, so that its length |v·r| is known from v: nothing
but v and λ is opened. Products of matrices are one round. Between them the trace of B²,
which may be as small as 1/p, is inverted in secret, roughly: it only has to keep the
trace of the next B within a fifth of 1. With Chebyshev polynomials,

    1/x ≈ (1 - T_n(u) / T_n(u_0)) / x,   u = u_0 - β x,   n a power of two,

and both T_2n = 2 T_n² - 1 and the quotient (T_2n(u_0) - T_2n(u)) / x, which is that of
n times 2 (T_n(u_0) + T_n(u)), are one round.

All public numbers are integers, the same on every processor.

References
----------
Froelicher et al., Scalable and privacy-preserving federated principal component
analysis (SF-PCA), IEEE S&P 2023: components are all that is opened. There under
multiparty homomorphic encryption, with all parties but one colluding at most; here in
secret sharing, with fewer than half.
"""

import hashlib
import math
from fractions import Fraction
from typing import Any, final

import numpy as np

from unpooled.arrays import Array
from unpooled.secure.comparison.joint_computation import HIDING_BITS
from unpooled.secure.comparison.shared_eigenpairs import (
    BITS,
    FRACTION,
    LEAST_LEFT,
    SQUARINGS,
    VALUE_BITS,
    VECTOR_BITS,
)
from unpooled.secure.comparison.shared_fixed_point import FixedPoint, SharedFixedPoint

_ONE = 1 << FRACTION
# The trace of each power is within this of 1.
_SPREAD = Fraction(1, 5)
# Bits after the point of the reciprocal's constants.
_ROUGH = 12
# After so many squarings of the error, which is a fifth, a trace is 1 to 2^-64.
_REFINEMENTS = 5
# B is a single direction where (tr B)² - tr B² is below 2^-40.
_SINGLE = 1 << (FRACTION - 40)
# Bits after the point of B r, of r, and of Rayleigh quotients' vectors.
_SKETCH_BITS, _DIRECTION_BITS = 48, 24


async def eigenpairs(mpc: Any, batch: dict[str, Any]) -> dict[str, Any]:
    """Return the vectors and values that are opened, as integers.

    Parameters
    ----------
    mpc : object
        MPyC's runtime, connected to the peers.
    batch : dict
        "values", a row with this party's integers, and "n_vectors".
    """
    arithmetic = SharedFixedPoint(mpc, BITS, HIDING_BITS)
    (row,) = batch["values"]
    triangle = await arithmetic.total(list(map(int, row)))
    return await leading_eigenpairs(arithmetic, triangle, int(batch["n_vectors"]))


async def leading_eigenpairs(
    arithmetic: FixedPoint, triangle: Array, k: int
) -> dict[str, Any]:
    """Return the k largest eigenvalues of a shared matrix and their vectors.

    Parameters
    ----------
    arithmetic : FixedPoint
        Multiplies shares.
    triangle : (p (p + 1) / 2,) array of int
        Shares of the matrix, whose trace is 1, with `FRACTION` bits after the point.
    k : int
        Number of pairs. From the first that is not determined on, zeros are returned.

    Returns
    -------
    dict
        "vectors" and "values"; None where the trace is not 1, because the parties'
        parts do not belong together.
    """
    powers = _Powers(arithmetic, triangle)
    if not await powers.has_known_trace():
        return {"vectors": None, "values": None}
    p = powers.p
    vectors, values = list[list[int]](), list[int]()
    for place in range(k):
        left = (1 << VALUE_BITS) - sum(values)
        if left < LEAST_LEFT * 2.0**VALUE_BITS:
            break
        B = await powers.highest(await powers.without(vectors, left))
        if not await powers.is_single(B):
            break
        vectors.append(await powers.direction(B, place, vectors))
        values.append(await powers.quotient(vectors[-1]))
    missing = k - len(values)
    return {
        "vectors": [*vectors, *([[0] * p] * missing)],
        "values": [*values, *([0] * missing)],
    }


@final
class _Powers:
    """Products of one symmetric matrix in secret sharing."""

    def __init__(self, arithmetic: FixedPoint, triangle: Array) -> None:
        self._arithmetic = arithmetic
        self.p = (math.isqrt(8 * len(triangle) + 1) - 1) // 2
        self._places = np.triu_indices(self.p)
        self._A = self._whole(triangle)
        self._inverse = _Reciprocal.of(self.p)

    async def has_known_trace(self) -> bool:
        """Return whether the trace is 1, which everybody knows, to a millionth."""
        trace = np.array([int(self._A.trace())], dtype=object)
        return await self._arithmetic.are_known(self._mod(trace), FRACTION, (1,))

    async def without(self, vectors: list[list[int]], left: int) -> Array:
        """Return the matrix off the vectors, over its trace `left`."""
        if not vectors:
            return self._A
        V = np.array(vectors, dtype=object)
        P = -((V.T @ V) >> VECTOR_BITS)
        P[np.diag_indices(self.p)] += 1 << VECTOR_BITS
        H = await self._arithmetic.shifted(self._mod(self._A @ P).ravel(), VECTOR_BITS)
        scaled = (P << VALUE_BITS) // left
        G = self._mod(scaled @ H.reshape(P.shape))
        return await self._shifted(G, VECTOR_BITS)

    async def highest(self, B: Array) -> Array:
        """Return a power of a matrix of trace about 1, with a trace of 1."""
        for _ in range(SQUARINGS):
            B = await self._square(B)
        # y = 1 / tr B = (1 + e) (1 + e²) (1 + e⁴) ..., with e = 1 - tr B.
        e = _ONE - int(B.trace())
        y = _ONE + e
        e = await self._product(e, e)
        for _ in range(_REFINEMENTS - 1):
            both = np.array([y * (_ONE + e), e * e], dtype=object)
            y, e = await self._arithmetic.shifted(self._mod(both), FRACTION)
        y = await self._product(y, _ONE + e)
        return await self._shifted(self._mod(B * y), FRACTION)

    async def is_single(self, B: Array) -> bool:
        """Return whether B has one direction only; one bit is opened."""
        trace = int(B.trace())
        other = await self._product_of(trace * trace - int((B * B).sum()))
        # A difference of numbers about 1.
        bits = FRACTION + 8
        return await self._arithmetic.is_negative(other - _SINGLE, bits)

    async def direction(
        self, B: Array, place: int, before: list[list[int]]
    ) -> list[int]:
        """Return the unit vector of B = v vᵀ, orthogonal to those before; opened."""
        r = _public_direction(place, self.p)
        shift = FRACTION + _DIRECTION_BITS - _SKETCH_BITS
        sketch = await self._arithmetic.shifted(self._mod(B @ r), shift)
        opened = await self._arithmetic.opened(sketch)
        w = np.array(opened, dtype=object) << VECTOR_BITS
        for earlier in before:
            u = np.array(earlier, dtype=object)
            w = w - ((((w @ u) >> VECTOR_BITS) * u) >> VECTOR_BITS)
        length = math.isqrt(int(w @ w))
        return [(int(x) << VECTOR_BITS) // max(length, 1) for x in w]

    async def quotient(self, vector: list[int]) -> int:
        """Return vᵀ A v; opened."""
        v = np.array(vector, dtype=object)
        Av = await self._arithmetic.shifted(self._mod(self._A @ v), VECTOR_BITS)
        shift = FRACTION + VECTOR_BITS - VALUE_BITS
        product = np.array([int(Av @ v) % self._arithmetic.modulus], dtype=object)
        (value,) = await self._arithmetic.opened(
            await self._arithmetic.shifted(product, shift)
        )
        return value

    async def _square(self, B: Array) -> Array:
        """Return B² with a trace within a fifth of 1."""
        inverse, arithmetic = self._inverse, self._arithmetic
        C = self._mod(B @ B)
        # β tr B² travels with B².
        scaled = int(C.trace()) * inverse.beta % arithmetic.modulus
        both = np.append(C[self._places], scaled)
        shifts = np.full(len(both), FRACTION, dtype=object)
        shifts[-1] += _ROUGH
        *triangle, x = await arithmetic.shifted(both, shifts)
        C = self._whole(np.array(triangle, dtype=object))
        T = inverse.start - x
        quotient, shift = inverse.beta, 0
        for c, factor in inverse.doublings:
            pair = np.array([T * T, quotient * (T + c) * factor], dtype=object)
            # The first quotient is β, a public number.
            shift = FRACTION + _ROUGH if shift else 2 * _ROUGH
            shifts = np.array([FRACTION, shift], dtype=object)
            squared, quotient = await arithmetic.shifted(self._mod(pair), shifts)
            T = 2 * squared - _ONE
        return await self._shifted(self._mod(C * quotient), FRACTION)

    async def _shifted(self, M: Array, shift: int) -> Array:
        """Return a symmetric matrix over 2^shift; its triangle travels."""
        return self._whole(await self._arithmetic.shifted(M[self._places], shift))

    async def _product(self, x: int, y: int) -> int:
        return await self._product_of(x * y)

    async def _product_of(self, product: int) -> int:
        value = np.array([product % self._arithmetic.modulus], dtype=object)
        return int((await self._arithmetic.shifted(value, FRACTION))[0])

    def _mod(self, M: Array) -> Array:
        return M % self._arithmetic.modulus

    def _whole(self, triangle: Array) -> Array:
        M = np.empty((self.p, self.p), dtype=object)
        M[self._places] = triangle
        M.T[self._places] = triangle
        return M


@final
class _Reciprocal:
    """The public integers of the Chebyshev polynomials, for one size of matrix.

    Attributes
    ----------
    beta, start : int
        β, and u_0.
    doublings : list of (int, int)
        T_n(u_0) for n = 1, 2, 4, ..., and the factor of the quotient.
    """

    def __init__(self, beta: int, start: int, doublings: list[tuple[int, int]]) -> None:
        self.beta, self.start, self.doublings = beta, start, doublings

    @classmethod
    def of(cls, p: int) -> "_Reciprocal":
        """Return the constants: tr B² is between (1 - 1/5)² / p and (1 + 1/5)²."""
        low, high = (1 - _SPREAD) ** 2 / p, (1 + _SPREAD) ** 2
        beta = math.floor(2 / (high - low) * 2**_ROUGH)
        start = _fixed(1 + Fraction(beta, 2**_ROUGH) * low, FRACTION)
        u = Fraction(start, _ONE)
        heights = [u]
        # |T_n(u)| <= 1 there, so that 1 / T_n(u_0) is the largest relative error.
        while heights[-1] < 1 / _SPREAD:
            heights.append(_rounded(2 * heights[-1] ** 2 - 1))
        factors = [Fraction(2)] * (len(heights) - 1)
        factors[-1] /= heights[-1]
        return cls(
            beta,
            start,
            [
                (_fixed(height, FRACTION), _fixed(factor, _ROUGH))
                for height, factor in zip(heights, factors, strict=False)
            ],
        )


def _fixed(value: Fraction, bits: int) -> int:
    return round(value * 2**bits)


def _rounded(value: Fraction) -> Fraction:
    return Fraction(_fixed(value, FRACTION), _ONE)


def _public_direction(place: int, p: int) -> Array:
    """Return integers about 0 that do not depend on the matrix."""
    width = _DIRECTION_BITS // 8
    stream = hashlib.shake_128(b"direction %d" % place).digest(width * p)
    pieces = [stream[i : i + width] for i in range(0, width * p, width)]
    half = 1 << (_DIRECTION_BITS - 1)
    return np.array([int.from_bytes(one, "little") - half for one in pieces], object)

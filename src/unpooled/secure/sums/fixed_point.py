"""Numbers as words of a ring, so that they can be added under masks.

Nothing is ever clipped. A total outside the range is refused, and so is one
of which a silo's part has no code: the silo sends noise in its place, and which silo
did so does not show. There are three codes, the last in `low_precision_code`:

    WideCode     256 bits, quantum 2^-128, range ±2^126, for totals of unknown size
                 (counts, sums and squares: p numbers). 32 bytes a number.
    BoundedCode  64 bits, for values already divided by a public bound on the total, so
                 that they lie in [-1, 1]; quantum 2^-62 times the number of parties,
                 rounded up to a power of 2. 8 bytes a number.
    LowPrecisionCode  8, 16 or 32 bits for such values, where fewer bytes are worth
                 fewer digits: rounded with a dither, so that the error has mean zero.

Adding residues adds the signed values as long as the total stays in the ring. Each
party's share of the headroom ensures that: parties which exceed the bound only in total
get a refusal too, not a wrapped total. The few bits of a LowPrecisionCode have no such
headroom.

Every array ends with guard words of known values, which a single part of noise, or
masks that did not cancel, alter but for a chance of 2^-128.
"""

import abc
import math
import secrets
from typing import final

import numpy as np

from unpooled.arrays import Array, Float, Shaped, UInt64
from unpooled.errors import AggregationError

_WIDE_FRACTION = 128
_WIDE_RANGE = 2.0**126
_LIMBS = 4
# Half a limb: the sum of so many halves does not overflow a word.
_HALF, _LOW = np.uint64(32), np.uint64(2**32 - 1)
# Bytes of guard words, at least.
GUARD = 16
# A party's part may exceed the bound on the total by rounding, since both are computed
# in float64. A larger excess means that the bound does not hold.
SLACK = 1.0 + 2.0**-20
# Numbers encoded at a time, so that intermediate arrays stay in the cache.
CHUNK = 2**15


class Code(abc.ABC):
    """Maps numbers to unsigned words that are added modulo a power of 2.

    Attributes
    ----------
    bytes_per_number : int
        Bytes of a number on the wire.
    dtype : str
        Type of the numbers, as the ledger names it.
    word : str
        Type of the words, as NumPy names it.
    """

    bytes_per_number: int
    dtype: str
    word: str = "uint64"

    @abc.abstractmethod
    def encode(self, values: Float[Array, " d"]) -> Shaped[Array, "..."]:
        """Return the words of `values`, or raise `AggregationError`."""

    @abc.abstractmethod
    def decode(self, words: Shaped[Array, "..."]) -> Float[Array, " d"]:
        """Return the values of summed words, or raise `AggregationError`."""

    def add(self, total: Shaped[Array, "..."], words: Shaped[Array, "..."]) -> None:
        """Add `words` into `total` in the ring, in place."""
        np.add(total, words, out=total)

    def subtract(
        self, total: Shaped[Array, "..."], words: Shaped[Array, "..."]
    ) -> None:
        """Subtract `words` from `total` in the ring, in place."""
        np.subtract(total, words, out=total)

    def summed(self, parts: Shaped[Array, "m ..."]) -> Shaped[Array, "..."]:
        """Return the sum in the ring of the words of m arrays of equal shapes."""
        return parts[0] if len(parts) == 1 else parts.sum(axis=0, dtype=parts.dtype)

    @abc.abstractmethod
    def shape(self, d: int) -> tuple[int, ...]:
        """Return the shape of the words of d numbers."""

    def noise(self, d: int) -> Shaped[Array, "..."]:
        """Return uniform words: the part of a silo whose d numbers have no code.

        The total is then uniform too. It shows neither whose part is noise, nor the
        total of the others' parts, as a word that stands for "too large" would.
        """
        words = np.frombuffer(secrets.token_bytes(self.bytes(d)), self.word)
        return words.reshape(self.shape(d)).copy()

    def bytes(self, d: int) -> int:
        """Return the bytes of d numbers on the wire."""
        return math.prod(self.shape(d)) * np.dtype(self.word).itemsize


@final
class WideCode(Code):
    """256-bit two's complement in four 64-bit limbs, least significant first.

    Parameters
    ----------
    n_parties : int
        Each party may contribute at most 1 / n_parties of the range.
    """

    bytes_per_number = 8 * _LIMBS
    dtype = "uint256"

    def __init__(self, n_parties: int) -> None:
        self.n_parties = n_parties

    def encode(self, values: Float[Array, " d"]) -> UInt64[Array, "w 4"]:
        """Round to multiples of 2^-128; a float64 above 2^-75 is exact."""
        # `not (… <)` rather than `>=`: a NaN must fail here, not turn into a number.
        if not (np.abs(values) < _WIDE_RANGE / self.n_parties).all():
            raise AggregationError(
                f"A value is not finite or exceeds ±{_WIDE_RANGE / self.n_parties:.3g},"
                f" the range of the wide code for {self.n_parties} parties.",
                rule="fixed_point_range",
            )
        rest = np.abs(np.rint(np.ldexp(values, _WIDE_FRACTION)))
        guarded = np.zeros(self.shape(len(values)), np.uint64)
        guarded[-1, 0], words = 1, guarded[:-1]
        for limb in reversed(range(_LIMBS)):
            # Exact: a float64 minus its own leading bits is a float64.
            part = np.floor(np.ldexp(rest, -64 * limb))
            rest -= np.ldexp(part, 64 * limb)
            words[:, limb] = part.astype(np.uint64)
        negative = values < 0
        words[negative] = _negated(words[negative])
        return guarded

    def decode(self, words: Shaped[Array, "w 4"]) -> Float[Array, " d"]:
        """Return the values, accurate to two units in the last place."""
        if words[-1].tolist() != [self.n_parties, *[0] * (_LIMBS - 1)]:
            raise AggregationError(OUTSIDE, rule="fixed_point_range")
        words = words[:-1]
        negative = (words[:, -1] >> np.uint64(63)).astype(bool)
        magnitude = words.copy()
        magnitude[negative] = _negated(words[negative])
        values = np.zeros(len(words))
        for limb in reversed(range(_LIMBS)):
            values += np.ldexp(
                magnitude[:, limb].astype(float), 64 * limb - _WIDE_FRACTION
            )
        if (values > _WIDE_RANGE).any():
            raise AggregationError(OUTSIDE, rule="fixed_point_range")
        return np.where(negative, -values, values)

    def add(self, total: Shaped[Array, "w 4"], words: Shaped[Array, "w 4"]) -> None:
        """Add limb by limb with carries, modulo 2^256."""
        carry = np.zeros(len(total), np.uint64)
        for limb in range(_LIMBS):
            # At most one of the two additions overflows.
            first = total[:, limb] + words[:, limb]
            second = first + carry
            carry = ((first < words[:, limb]) | (second < first)).astype(np.uint64)
            total[:, limb] = second

    def subtract(
        self, total: Shaped[Array, "w 4"], words: Shaped[Array, "w 4"]
    ) -> None:
        """Add the negation."""
        self.add(total, _negated(words))

    def summed(self, parts: Shaped[Array, "m w 4"]) -> Shaped[Array, "w 4"]:
        """Add half limbs of all arrays, and carry once."""
        if len(parts) == 1:
            return parts[0]
        halves = np.ascontiguousarray(parts, "<u8").reshape(len(parts), -1).view("<u4")
        added = halves.sum(axis=0, dtype=np.uint64).reshape(-1, _LIMBS, 2)
        low, high = added[..., 0], added[..., 1]
        total, carry = np.empty_like(parts[0]), np.zeros(len(low), np.uint64)
        for limb in range(_LIMBS):
            lower = low[:, limb] + carry
            upper = high[:, limb] + (lower >> _HALF)
            total[:, limb] = (lower & _LOW) | (upper << _HALF)
            carry = upper >> _HALF
        return total

    def shape(self, d: int) -> tuple[int, ...]:
        """Return (d + 1, 4)."""
        return (d + 1, _LIMBS)


@final
class BoundedCode(Code):
    """64-bit two's complement for values divided by a public bound on the total.

    Parameters
    ----------
    n_parties : int
        Each party's part may reach the bound, although the total must not exceed it.
    """

    bytes_per_number = 8
    dtype = "uint64"

    def __init__(self, n_parties: int) -> None:
        self.n_parties = n_parties
        # A power of 2 scales without rounding.
        self._scale = 2.0 ** (62 - (n_parties - 1).bit_length())

    def encode(self, values: Float[Array, " d"]) -> UInt64[Array, " w"]:
        """Round to multiples of the quantum."""
        words, scaled = np.ones(self.shape(len(values)), np.int64), np.empty(CHUNK)
        for start in range(0, len(values), CHUNK):
            part = values[start : start + CHUNK]
            units = scaled[: len(part)]
            # `not (… <=)` rather than `>`: a NaN must fail here.
            if not np.abs(part, out=units).max() <= SLACK:
                raise AggregationError(
                    "A value is not finite or exceeds its public bound.",
                    rule="public_bound",
                )
            np.multiply(part, self._scale, out=units)
            words[start : start + len(part)] = np.rint(units, out=units)
        return words.view(np.uint64)

    def decode(self, words: Shaped[Array, " w"]) -> Float[Array, " d"]:
        """Return the total in units of the bound."""
        if (words[-_GUARDS:] != self.n_parties).any():
            raise AggregationError(OUTSIDE, rule="fixed_point_range")
        signed = words[:-_GUARDS].view(np.int64)
        values = np.empty(len(signed))
        for start in range(0, len(values), CHUNK):
            part = values[start : start + CHUNK]
            np.divide(signed[start : start + CHUNK], self._scale, out=part)
            if (np.abs(part) > SLACK).any():
                raise AggregationError(OUTSIDE, rule="fixed_point_range")
        return values

    def shape(self, d: int) -> tuple[int, ...]:
        """Return (d + 2,)."""
        return (d + _GUARDS,)


_GUARDS = GUARD // 8
OUTSIDE = (
    "The total lies outside the range that its code allows (fixed_point_range). Either "
    "a silo has a value that is not finite, or too large for the code or for the bound "
    "that follows from earlier totals: its own log says so, and nothing else does. Or "
    "the masks did not cancel: a party is missing, answered for another round, or does "
    "not share the others' keys. Nothing was learned: rescale columns beyond 1e15, or "
    "run the fit again with fresh keys."
)


def _negated(words: UInt64[Array, "w 4"]) -> UInt64[Array, "w 4"]:
    flipped = ~words
    carry = np.ones(len(words), np.uint64)
    for limb in range(_LIMBS):
        flipped[:, limb] += carry
        carry = carry & (flipped[:, limb] == 0).astype(np.uint64)
    return flipped

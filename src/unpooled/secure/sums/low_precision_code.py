"""Bounded numbers in 8, 16 or 32 bits, rounded with a subtractive dither.

Each party rounds its value in [-1, 1], times the number of codes, plus a dither. The
words are added under masks, and the decoder subtracts all dithers from the total.
"""

import hashlib
from collections.abc import Iterator
from typing import Any, final

import numpy as np

from unpooled.arrays import Array, Float, Shaped
from unpooled.errors import AggregationError
from unpooled.secure.sums.fixed_point import CHUNK, GUARD, OUTSIDE, SLACK, Code


@final
class LowPrecisionCode(Code):
    """8, 16 or 32 bits for values divided by a public bound on the total.

    Parameters
    ----------
    n_parties : int
        Each party's rounding may move the total one code beyond the bound, so each
        reserves one code at either end of the range.
    bits : {8, 16, 32}
        Size of a word. Other values, which may come over the wire, are refused.
    context : bytes
        Names the release; the dithers are derived from it.
    party : int
        This party's position in the roster, for encoding.

    Notes
    -----
    A party adds a dither, uniform on ±1/2 codes, before it rounds to the nearest code,
    and the decoder subtracts the sum of all dithers. The error of the total then has
    mean zero and variance ``m / 12`` codes squared, whatever the values are.

    The dithers follow from the context, which both ends know. They need not be secret,
    because the values they belong to are masked or summed. Fresh dithers would make a
    second encoding under the same mask disclose the difference of two roundings;
    derived ones make it the same bytes.

    Parties whose parts exceed the bound only in total wrap around unseen: so few bits
    have no headroom for it, as the other codes have. It takes a bound that does not
    hold, whereas bounds follow from totals that were opened before.

    At least half of all words are possible totals, so masks that did not cancel would
    go unnoticed but for the guard words.

    References
    ----------
    Schuchman, Dither signals and their effect on quantization noise, IEEE Trans.
    Commun. Technol. 12 (1964).
    """

    def __init__(
        self, n_parties: int, bits: Any, context: bytes = b"", party: int = 0
    ) -> None:
        if type(bits) is not int or bits not in (8, 16, 32):
            raise AggregationError(
                f"bits={bits!r}; numbers travel in 8, 16, 32 or 64.", rule="arguments"
            )
        self.n_parties, self.bytes_per_number = n_parties, bits // 8
        self._context, self._party = context, party
        self.dtype = self.word = f"uint{bits}"
        self._guards = GUARD // self.bytes_per_number
        # A code more, and in 32 bits those within SLACK, for values that float64
        # rounding moved beyond the bound: nothing is clipped.
        self._scale = 2 ** (bits - 1) - 2 - n_parties - (2**bits >> 21)
        if self._scale < n_parties:
            raise AggregationError(
                f"{bits} bits have no room for the rounding of {n_parties} parties; "
                f"use {2 * bits}.",
                rule="arguments",
            )

    def encode(self, values: Float[Array, " d"]) -> Shaped[Array, " w"]:
        """Round to multiples of the quantum, after adding this party's dither."""
        dither = self._dither(self._party)
        signed = np.dtype(f"int{8 * self.bytes_per_number}")
        words = np.ones(len(values) + self._guards, signed)
        for start in range(0, len(values), CHUNK):
            part = values[start : start + CHUNK]
            if not (np.abs(part) <= SLACK).all():
                raise AggregationError(
                    "A value is not finite or exceeds its public bound.",
                    rule="public_bound",
                )
            units = part * self._scale + next(dither)[: len(part)]
            words[start : start + len(part)] = np.rint(units)
        return words.view(self.word)

    def decode(self, words: Shaped[Array, " w"]) -> Float[Array, " d"]:
        """Return the total in units of the bound."""
        if (words[-self._guards :] != self.n_parties).any():
            raise AggregationError(OUTSIDE, rule="fixed_point_range")
        signed = words[: -self._guards].view(f"int{8 * self.bytes_per_number}")
        values = signed.astype(float)
        for party in range(self.n_parties):
            dither = self._dither(party)
            for start in range(0, len(values), CHUNK):
                part = values[start : start + CHUNK]
                part -= next(dither)[: len(part)]
        values /= self._scale
        if (np.abs(values) > SLACK + (self.n_parties + 1) / self._scale).any():
            raise AggregationError(OUTSIDE, rule="fixed_point_range")
        return values

    def shape(self, d: int) -> tuple[int, ...]:
        """Return the words of d numbers and of what is known in advance."""
        return (d + self._guards,)

    def _dither(self, party: int) -> Iterator[Float[Array, " c"]]:
        """Yield a party's dither in units of a code, a chunk at a time."""
        seed = hashlib.sha256(b"dither" + party.to_bytes(8, "big") + self._context)
        words = np.frombuffer(seed.digest(), np.uint32)
        rng = np.random.Generator(np.random.SFC64(np.random.SeedSequence(words)))
        while True:
            yield rng.random(CHUNK) - 0.5

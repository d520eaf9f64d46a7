"""Polynomials of totals, as integers that a ring holds exactly."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

import numpy as np

from unpooled.arrays import Array
from unpooled.errors import AggregationError

# Bits by which what is opened in between differs from noise.
STATISTICAL_BITS = 64
# Rounds beside the products of the polynomial and the tree over the bits: shares of the
# input, random bits, opened differences, and the signs.
_OTHER_ROUNDS = 4


@final
@dataclass(frozen=True)
class Polynomial:
    """What is compared with zero, declared beside a step.

    Attributes
    ----------
    terms : mapping of tuple of str to float
        Coefficients by the names that are multiplied; the empty tuple is a constant.
    weights : mapping of str to int
        How many times `fraction` bits each name's totals are rounded to.
    fraction : int
        Bits after the point of a total of weight 1.
    bits : int
        The ring's: totals and their polynomial lie below 2^(bits - 1).
    """

    terms: Mapping[tuple[str, ...], float]
    weights: Mapping[str, int]
    fraction: int
    bits: int

    @property
    def names(self) -> tuple[str, ...]:
        """The totals, in their order."""
        return tuple(self.weights)

    @property
    def rounds(self) -> int:
        """Rounds that a batch of comparisons takes, however many they are."""
        degree = max(len(names) for names in self.terms)
        tree = math.ceil(math.log2(self.bits + 1))
        return _OTHER_ROUNDS + tree + math.ceil(math.log2(max(degree, 1)))

    def bytes(self, numbers: int, n_parties: int) -> int:
        """Return what a party sends in all for a batch: about, for plan and ledger."""
        # For each bit a random one, its square, and a node of the tree: about two field
        # elements for each peer, as measured.
        element = (self.bits + STATISTICAL_BITS + 9) // 8
        return 2 * numbers * (n_parties - 1) * element * self.bits

    def integers(self, totals: Mapping[str, Array]) -> list[list[int]]:
        """Return this party's part of the totals as integers, name by name."""
        rows = []
        for name, weight in self.weights.items():
            values = np.asarray(totals[name], dtype=float)
            if not np.isfinite(values).all():
                raise AggregationError(
                    "A value to be compared is not finite.", rule="fixed_point_range"
                )
            shift = self.fraction * weight
            rows.append([_rounded(float(value), shift) for value in values])
        return rows

    def scaled_terms(self) -> list[tuple[int, list[int]]]:
        """Return coefficients and factors (positions), all of one scale."""
        place = {name: i for i, name in enumerate(self.names)}
        weigh = {t: sum(self.weights[name] for name in t) for t in self.terms}
        top = max(weigh.values())
        return [
            (_rounded(c, self.fraction * (top - weigh[t])), [place[n] for n in t])
            for t, c in self.terms.items()
        ]


def _rounded(value: float, shift: int) -> int:
    return round(math.ldexp(value, shift))

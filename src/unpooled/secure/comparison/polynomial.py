"""Polynomials of totals, as integers that a ring represents exactly.

Rounding or overflow in the ring would change a sign, so the declaration of a comparison
states the bits after the point and the size of the ring.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from unpooled.arrays import Array
from unpooled.errors import AggregationError
from unpooled.secure.comparison.blinded_signs import MOST_BITS, ROUNDS
from unpooled.secure.comparison.joint_computation import (
    STATISTICAL_BITS,
    JointComputation,
    Rows,
    Shape,
    Shapes,
    Sizes,
)

# The array of signs in a reply of a party that computes.
_SIGNS = "negative"
# Rounds of MPyC's comparison besides the products of the polynomial and the tree over
# the bits: shares of the input, random bits, opened differences, and the signs.
_OTHER_ROUNDS = 4


@final
@dataclass(frozen=True)
class Polynomial(JointComputation):
    """The polynomial that is compared with zero, declared with a step.

    Attributes
    ----------
    terms : mapping of tuple of str to float
        Coefficient of each product of names; the empty tuple is the constant term.
    weights : mapping of str to int
        For each name, the multiple of `fraction` bits that its totals keep.
    fraction : int
        Bits after the binary point of a total of weight 1.
    bits : int
        Bits of the ring, at most 249: totals and their polynomial are below
        2^(bits - 1).
    """

    terms: Mapping[tuple[str, ...], float]
    weights: Mapping[str, int]
    fraction: int
    bits: int
    verb = "compared"

    def __post_init__(self) -> None:
        """Refuse more bits than three parties compare.

        Raises
        ------
        ValueError
            When a declaration has more than 249 bits.
        """
        if self.bits > MOST_BITS:
            raise ValueError(f"bits={self.bits}: at most {MOST_BITS}")

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the totals, in order."""
        return tuple(self.weights)

    def rounds(self, n_computing: int) -> int:
        """Return the rounds of a batch of comparisons, whatever their number."""
        if _is_blinded(n_computing):
            return rounds_before(self._degree, n_computing) + ROUNDS
        tree = math.ceil(math.log2(self.bits + 1))
        return _OTHER_ROUNDS + tree + math.ceil(math.log2(max(self._degree, 1)))

    def bytes(self, name: str, shape: Shape, n_computing: int, sizes: Sizes) -> int:
        """Return roughly the bytes that a party sends in a round of a batch."""
        n, peers = math.prod(shape), n_computing - 1
        element = (self.bits + STATISTICAL_BITS + 9) // 8
        if _is_blinded(n_computing):
            # For the party that sends most: shares, its parts of c, and shares of bits.
            products = sum(max(len(names) - 2, 0) for names in self.terms)
            shared = (len(self.weights) + products) * peers
            if not rounds_before(self._degree, n_computing):
                shared = 0
            batch = n * ((shared + 2) * element + self.bits)
        else:
            # For each bit a random bit, its square, and a node of the tree: about two
            # field elements for each peer, as measured.
            batch = 2 * n * peers * element * self.bits
        return batch // self.rounds(n_computing)

    @property
    def _degree(self) -> int:
        return max(len(names) for names in self.terms)

    def input_shape(self, shapes: Shapes, sizes: Sizes) -> Shape:
        """Return the shape of each total: that of the signs."""
        return next(iter(shapes.values()))

    def integers(self, totals: Mapping[str, Array]) -> Rows:
        """Return this party's part of the totals as integers, one list per name."""
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

    def job(self, rows: Rows, shapes: Shapes) -> dict[str, Any]:
        """Return the message for the process: integers and terms."""
        return {
            "computation": "signs",
            "bits": self.bits,
            "values": [list(map(str, row)) for row in rows],
            "terms": [[str(c), factors] for c, factors in self.scaled_terms()],
        }

    def words(self, found: Mapping[str, Any]) -> dict[str, Array]:
        """Return the signs as the reply has them."""
        return {_SIGNS: np.array(found[_SIGNS], dtype=bool).astype(np.uint8)}

    def forms(self, shapes: Shapes) -> dict[str, tuple[Shape, np.dtype[Any]]]:
        """Return shape and type of the signs in a reply."""
        return {_SIGNS: (next(iter(shapes.values())), np.dtype(np.uint8))}

    def opened(
        self, words: Mapping[str, Array], names: Sequence[str]
    ) -> dict[str, Array]:
        """Return the signs under their declared name."""
        (name,) = names
        return {name: words[_SIGNS].astype(bool)}

    def placeholders(self, shapes: Shapes) -> dict[str, Array]:
        """Return signs for a plan: none is negative."""
        return {name: np.zeros(shape, bool) for name, shape in shapes.items()}

    def scaled_terms(self) -> list[tuple[int, list[int]]]:
        """Return (coefficient, positions of the factors) of each term, on one scale."""
        place = {name: i for i, name in enumerate(self.names)}
        weigh = {t: sum(self.weights[name] for name in t) for t in self.terms}
        top = max(weigh.values())
        return [
            (_rounded(c, self.fraction * (top - weigh[t])), [place[n] for n in t])
            for t, c in self.terms.items()
        ]


def _rounded(value: float, shift: int) -> int:
    return round(math.ldexp(value, shift))


def rounds_before(degree: int, n_computing: int) -> int:
    """Return the rounds after which three parties have parts of a polynomial.

    One is for shares of the totals, and others for products but the last. None is
    needed where the totals are not multiplied and are those of three parties alone.
    """
    return 0 if degree <= 1 and n_computing == 3 else max(degree - 1, 1)


def _is_blinded(n_computing: int) -> bool:
    """Return whether `blinded_signs` protects from as many parties as shares do."""
    return (n_computing - 1) // 2 == 1

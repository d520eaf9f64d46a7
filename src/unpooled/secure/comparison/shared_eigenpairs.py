"""Leading eigenpairs of a symmetric total that stays in secret sharing.

    each party   the triangle of its part, in units of the total's trace, as integers
    processes    v_1, λ_1, v_2, λ_2, ...   by `unpooled.secure.comparison.matrix_powers`
    opened       unit vectors and eigenvalues, up to the first that is not determined

The total is positive semidefinite, its trace is public and 1. An eigenvector is opened
only after a comparison in secret has shown that the power of the matrix has a single
direction left. So of neighbouring eigenvalues that are too close nothing is opened.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from unpooled.arrays import Array
from unpooled.errors import AggregationError
from unpooled.secure.comparison.joint_computation import (
    ComputedTotal,
    Rows,
    Shape,
    Shapes,
    Sizes,
)

# Bits after the point of the matrix; of opened vectors; of opened eigenvalues.
FRACTION, VECTOR_BITS, VALUE_BITS = 64, 56, 50
# Bits for products of two matrices, for the reciprocal of a trace, and for the sign.
BITS = 2 * FRACTION + 32
# The matrix is squared so many times: two eigenvalues count as different where the
# smaller one's power, over the larger's, is below 2^-40.
SQUARINGS = 18
# Largest difference of neighbouring eigenvalues, over the larger one, at which they may
# be taken for equal: 41 ln 2 / 2^18.
CLOSEST = 1.1e-4
# Share of the trace below which what is left is not decomposed: rounding would show.
LEAST_LEFT = 2.0**-20


@final
@dataclass(frozen=True)
class SharedEigenpairs(ComputedTotal):
    """The k largest eigenvalues of a total and their vectors, declared with a step.

    Attributes
    ----------
    name : str
        Name of the total: the packed upper triangle of a matrix whose trace is 1.
    vectors, values : str
        Names of the two declared arrays, (k, p) and (k,). Rows of zeros stand for
        eigenvectors that are not determined.
    """

    name: str
    vectors: str
    values: str
    bits = BITS
    # A part of a total with trace 1 has no entry above 1.
    fraction, largest = FRACTION, 2.0
    too_large = "A part of a matrix is not finite, or larger than the total can be."

    @property
    def declares(self) -> frozenset[str]:
        """Names of vectors and values."""
        return frozenset({self.vectors, self.values})

    def bytes(self, name: str, shape: Shape, n_computing: int, sizes: Sizes) -> int:
        """Return roughly the bytes that a party sends: most of them for the vectors."""
        element = self.element_bytes
        if name != self.vectors:
            # The last product of each quotient, and its value.
            return 2 * shape[0] * element * (n_computing - 1)
        k, p = shape
        of_powers = (2 * SQUARINGS + 2) * p * (p + 1) // 2 + p * p
        # Other messages have two numbers; a comparison two for each bit.
        others = 2 * self.messages(name, shape) // k + 2 * FRACTION
        return k * (of_powers + others) * element * (n_computing - 1)

    def messages(self, name: str, shape: Shape) -> int:
        """Return the number of messages to each peer; all count for the vectors."""
        if name != self.vectors:
            return 0
        k, p = shape
        # A square, its trace's reciprocal and their product; then about 25 for the
        # trace, the comparison, the vector and its value.
        doublings = max(math.ceil(math.log2(1.72 * math.sqrt(p))), 1)
        return k * (SQUARINGS * (2 + doublings) + 25)

    def input_shape(self, shapes: Shapes, sizes: Sizes) -> Shape:
        """Return the shape of the triangle."""
        p = shapes[self.vectors][1]
        return (p * (p + 1) // 2,)

    def job(self, rows: Rows, shapes: Shapes) -> dict[str, Any]:
        """Return the message for the process: integers and the number of vectors."""
        return {
            "computation": "eigenpairs",
            "values": [list(map(str, row)) for row in rows],
            "n_vectors": shapes[self.vectors][0],
        }

    def words(self, found: Mapping[str, Any]) -> dict[str, Array]:
        """Return vectors and values as floats, from integers."""
        if found["vectors"] is None:
            raise AggregationError(
                "The silos' parts do not add up to a matrix of the known trace.",
                rule="wrong_total",
            )
        vectors = [
            [math.ldexp(int(entry), -VECTOR_BITS) for entry in row]
            for row in found["vectors"]
        ]
        values = [math.ldexp(int(value), -VALUE_BITS) for value in found["values"]]
        return {self.vectors: np.array(vectors), self.values: np.array(values)}

    def placeholders(self, shapes: Shapes) -> dict[str, Array]:
        """Return unit vectors and equal values, for a plan."""
        k, p = shapes[self.vectors]
        return {self.vectors: np.eye(k, p), self.values: np.full(k, 1.0 / p)}

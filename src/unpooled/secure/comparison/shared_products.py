"""Products of every two columns of a table whose cells stay in secret sharing.

    each party   its own columns, each of length 1, in their places, as integers; zeros
                 in the places of the others' columns
    processes    Zᵀ Z, by local products of shares
    in secret    is each entry of its diagonal 1, or 0?  if not: end, nothing is opened
    opened       Zᵀ Z, rounded to units that are 256 times those of the cells

The silos of a column partition learn the products of their columns this way and nothing
else. Sums over silos cannot give them: what one silo adds of another's column is a
product, and a total of each silo's own image of all people has the Gram matrix in it,
which together with the products determines every cell but for signs.

The rounding hides how the cells were rounded: exact products with a column of ones and
zeros would tell, by their last digits, where the ones are.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from unpooled.arrays import Array
from unpooled.errors import AggregationError
from unpooled.secure.comparison.joint_computation import (
    HIDING_BITS,
    ComputedTotal,
    Rows,
    Shape,
    Shapes,
    Sizes,
)
from unpooled.secure.comparison.shared_fixed_point import FixedPoint, SharedFixedPoint

# Bits after the point of cells, and of opened products.
FRACTION, PRODUCT_BITS = 52, 44
# Bits for products of two cells, and for the sign.
BITS = 2 * FRACTION + 8


@final
@dataclass(frozen=True)
class SharedProducts(ComputedTotal):
    """Products of the columns of a total, declared with a step.

    Attributes
    ----------
    name : str
        Name of the total, (N q): the cells of N rows of q columns, one row after the
        other. Every column has length 1, or is 0.
    products : str
        Name of the declared array, (q, q).
    """

    name: str
    products: str
    bits = BITS
    fraction, largest = FRACTION, 1.0
    too_large = "A cell is not finite, or larger than that of a column of length 1."
    shares_people = True

    @property
    def declares(self) -> frozenset[str]:
        """The name of the products."""
        return frozenset({self.products})

    def bytes(self, name: str, shape: Shape, n_computing: int, sizes: Sizes) -> int:
        """Return roughly the bytes that a party sends: most of them for the cells."""
        element, q = self.element_bytes, shape[0]
        n = sizes.get("N", 0) * q + 2 * (q + q * (q + 1) // 2)
        return n * element * (n_computing - 1)

    def messages(self, name: str, shape: Shape) -> int:
        """Return the number of messages to each peer."""
        # The cells; the diagonal and the products, each shifted, and each opened by
        # shares of half of the peers.
        return 4

    def input_shape(self, shapes: Shapes, sizes: Sizes) -> Shape:
        """Return the number of cells."""
        # On a row partition nobody knows N, and no part has this shape.
        return (sizes.get("N", 0) * shapes[self.products][0],)

    def job(self, rows: Rows, shapes: Shapes) -> dict[str, Any]:
        """Return the message for the process: integers and the number of columns."""
        return {
            "computation": "products",
            "values": [list(map(str, row)) for row in rows],
            "n_columns": shapes[self.products][0],
        }

    def words(self, found: Mapping[str, Any]) -> dict[str, Array]:
        """Return the products as floats, from integers."""
        if found["products"] is None:
            raise AggregationError(
                "The silos' parts do not add up to columns of length 1.",
                rule="wrong_total",
            )
        triangle = [math.ldexp(int(x), -PRODUCT_BITS) for x in found["products"]]
        q = (math.isqrt(8 * len(triangle) + 1) - 1) // 2
        products = np.empty((q, q))
        products[np.triu_indices(q)] = triangle
        products.T[np.triu_indices(q)] = triangle
        return {self.products: products}

    def placeholders(self, shapes: Shapes) -> dict[str, Array]:
        """Return the products of uncorrelated columns, for a plan."""
        return {self.products: np.eye(shapes[self.products][0])}


async def products(mpc: Any, batch: dict[str, Any]) -> dict[str, Any]:
    """Return the products that are opened, as integers.

    Parameters
    ----------
    mpc : object
        MPyC's runtime, connected to the peers.
    batch : dict
        "values", a row with this party's integers, and "n_columns".
    """
    arithmetic = SharedFixedPoint(mpc, BITS, HIDING_BITS)
    (row,) = batch["values"]
    cells = await arithmetic.total(list(map(int, row)))
    return await column_products(arithmetic, cells, int(batch["n_columns"]))


async def column_products(
    arithmetic: FixedPoint, cells: Array, q: int
) -> dict[str, Any]:
    """Return the products of every two columns of shared cells.

    Parameters
    ----------
    arithmetic : FixedPoint
        Multiplies shares.
    cells : (N q,) array of int
        Shares of the cells, row by row, with `FRACTION` bits after the point.
    q : int
        Number of columns.

    Returns
    -------
    dict
        "products", the upper triangle row by row; None where a column's length is
        neither 1 nor 0, because the parties' parts do not belong together.
    """
    Z = cells.reshape(-1, q)
    S = (Z.T @ Z) % arithmetic.modulus
    if not await arithmetic.are_known(S.diagonal(), 2 * FRACTION, (0, 1)):
        return {"products": None}
    triangle = S[np.triu_indices(q)]
    shifted = await arithmetic.shifted(triangle, 2 * FRACTION - PRODUCT_BITS)
    return {"products": await arithmetic.opened(shifted)}

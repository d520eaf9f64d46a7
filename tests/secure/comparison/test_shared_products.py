"""Products of columns in secret sharing: against NumPy, on integers in the clear."""

import asyncio

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from test_matrix_powers import Clear

from unpooled.errors import AggregationError
from unpooled.secure.comparison.shared_products import (
    BITS,
    PRODUCT_BITS,
    SharedProducts,
    column_products,
)

DECLARED = SharedProducts("cells", products="correlations")


def unit_columns(N, q, seed=0):
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((N, q)) @ rng.standard_normal((q, q))
    return Z / np.linalg.norm(Z, axis=0)


def computed(Z, arithmetic):
    (row,) = DECLARED.integers({"cells": Z.ravel()})
    cells = np.array([x % arithmetic.modulus for x in row], dtype=object)
    return asyncio.run(column_products(arithmetic, cells, Z.shape[1]))


# Quotients of shares are some units of the last place off, of 2^-44.
@pytest.mark.parametrize("worst", [-2, 0, 2])
@pytest.mark.parametrize(("N", "q"), [(4, 1), (30, 5), (2000, 3)])
def test_products_are_numpys(N, q, worst):
    Z, arithmetic = unit_columns(N, q), Clear(worst)
    words = DECLARED.words(computed(Z, arithmetic))
    found = DECLARED.opened(words, ["correlations"])["correlations"]
    assert_allclose(found, Z.T @ Z, atol=4 * 2.0**-PRODUCT_BITS)
    assert_array_equal(found, found.T)
    # Nothing that is multiplied, or opened, leaves the room of the integers.
    assert arithmetic.largest < 2 ** (BITS - 1)
    # The squares are known but for how cells are rounded, which is cut off.
    squares, triangle = arithmetic.opened_numbers
    assert_allclose(squares, 2.0**32, atol=4)
    assert len(triangle) == q * (q + 1) // 2


def test_a_constant_column_is_zeros():
    Z = unit_columns(20, 3)
    Z[:, 1] = 0.0
    found = DECLARED.words(computed(Z, Clear(1)))["correlations"]
    assert_allclose(found, Z.T @ Z, atol=2.0**-42)


@pytest.mark.parametrize("factor", [0.5, 0.999, 1.001])
def test_columns_of_another_length_are_not_multiplied_for_anybody(factor):
    """So with parts that are about different requests, whose masks are left."""
    Z, arithmetic = unit_columns(20, 3), Clear()
    Z[:, 2] *= factor
    with pytest.raises(AggregationError, match="do not add up to columns of length 1"):
        DECLARED.words(computed(Z, arithmetic))
    # Only the squares were opened.
    assert len(arithmetic.opened_numbers) == 1


def test_cells_of_one_are_the_largest():
    """A column in which one person alone has a value has length 1 there."""
    ((low, high),) = DECLARED.integers({"cells": np.array([-1.0, 1.0])})
    assert -low == high == 2**DECLARED.fraction


@pytest.mark.parametrize("cell", [np.nan, np.inf, 1.5, np.nextafter(1.0, 2.0)])
def test_cells_beyond_one_are_refused(cell):
    with pytest.raises(AggregationError, match="larger than that of a column"):
        DECLARED.integers({"cells": np.array([0.0, cell])})

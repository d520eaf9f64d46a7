"""Matrices that private rows are multiplied by: whole numbers of bounded length."""

import numpy as np
import pytest

from unpooled.models.private_rows import multiplied
from unpooled.protocol.bounds import LATTICE
from unpooled.protocol.refusal import Refusal

X = np.random.default_rng(0).standard_normal((20, 2))


def products(matrix, norm=1.0):
    return multiplied(X, np.zeros(2), 3.0, np.array(matrix, float), norm)


def test_rows_and_products_stay_on_the_lattice():
    for part in products([[2.0**30, 1.0, 0.0], [0.0, -7.0, 2.0**20]]):
        np.testing.assert_array_equal(part, np.rint(part))
        assert np.einsum("ij,ij->i", part, part).max() <= LATTICE**2


@pytest.mark.parametrize(
    "column", [[2.0**30, 2.0**15], [2.0**30 + 1, 0.0], [0.5, 0.0], [np.inf, 0.0]]
)
def test_other_matrices_are_refused(column):
    with pytest.raises(Refusal, match="arguments"):
        products(np.column_stack([column, [1.0, 0.0]]))


@pytest.mark.parametrize("norm", [0.0, -1.0, np.nan, np.inf])
def test_other_norms_are_refused(norm):
    with pytest.raises(Refusal, match="arguments"):
        products([[1.0], [1.0]], norm)

"""Products with few columns, some rows at a time: exact sums are the oracle."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from unpooled.linalg.narrow_products import columns_times, rows_times


# Pieces of 1,000,000 / (p k) rows, or of 64 and some columns where too few.
@pytest.mark.parametrize("n", [0, 1, 499, 500, 501, 1024, 2049])
@pytest.mark.parametrize(("p", "k"), [(0, 2), (1, 1), (100, 20), (400, 64)])
@pytest.mark.parametrize("order", ["C", "F", "strided"])
def test_products_are_those_of_all_rows_at_once(n, p, k, order):
    rng = np.random.default_rng(0)
    # Small whole numbers: no sum of their products is rounded.
    X = rng.integers(-9, 10, (n, 2 * p)).astype(float)
    X = X[:, ::2] if order == "strided" else np.array(X[:, ::2], order=order)
    V, W = (rng.integers(-9, 10, (m, k)).astype(float) for m in (n, p))
    image = np.full((n, k), np.nan)
    assert rows_times(X, W, out=image) is image
    assert_allclose(image, X @ W, rtol=0, atol=0)
    assert_allclose(columns_times(X, V), X.T @ V, rtol=0, atol=0)


def test_products_stay_in_single_precision():
    X, W = np.ones((600, 3), np.float32), np.ones((3, 2), np.float32)
    image = rows_times(X, W, out=np.empty((600, 2), np.float32))
    assert image.dtype == np.float32
    assert (image == 3.0).all()

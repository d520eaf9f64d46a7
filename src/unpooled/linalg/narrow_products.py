"""Products of rows with few columns, some rows and columns at a time.

BLAS copies the factors of a product into another order before it multiplies. That pays
where every number is multiplied many times. It does not with few columns: the copy of
the rows then takes as long as the product. OpenBLAS multiplies small matrices as they
are (on processors with AVX-512), so the rows are passed to it in pieces that it takes
for small: 100,000 × 196 rows by 20 columns take 0.6 of the time, and as long as before
on other processors.
"""

import numpy as np

from unpooled.arrays import Array, Float

# Multiplications of a product that OpenBLAS takes for small.
_SMALL = 10**6
# Rows of a piece with all columns, at least; and of one with some of them.
_FEWEST, _ROWS = 48, 64


def rows_times(
    X: Float[Array, "n p"], W: Float[Array, "p k"], out: Float[Array, "n k"]
) -> Float[Array, "n k"]:
    """Write ``X @ W`` for few columns k; return it."""
    (n, p), k = X.shape, W.shape[1]
    rows, columns = _SMALL // max(W.size, 1), max(p, 1)
    if rows < _FEWEST:
        if X.strides[1] != X.itemsize:
            # Some columns of some rows would not lie together.
            return np.matmul(X, W, out=out)
        rows = min(_ROWS, n)
        columns = max(_SMALL // max(rows * k, 1), 1)
    for start in range(0, n, max(rows, 1)):
        part, image = X[start : start + rows], out[start : start + rows]
        np.matmul(part[:, :columns], W[:columns], out=image)
        for first in range(columns, p, columns):
            others = slice(first, first + columns)
            image += part[:, others] @ W[others]
    return out


def columns_times(
    X: Float[Array, "n p"], V: Float[Array, "n k"]
) -> Float[Array, "p k"]:
    """Return ``X.T @ V`` for few columns k."""
    # BLAS takes half the time for few rows by X that it takes for Xᵀ by few columns.
    return (V.T @ X).T

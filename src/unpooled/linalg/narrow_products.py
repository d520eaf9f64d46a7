"""Products of many rows with few columns, some rows at a time.

BLAS copies the factors of a product into another order before it multiplies. That pays
where every number is multiplied many times. It does not with few columns: the copy of
the rows then takes as long as the product. OpenBLAS multiplies small matrices as they
are (on processors with AVX-512), so the rows are passed to it in pieces that it takes
for small: 100,000 × 196 rows by 20 columns take 0.6 of the time, and as long as before
on other processors.
"""

from collections.abc import Iterator

import numpy as np

from unpooled.arrays import Array, Float

# Multiplications of a product that OpenBLAS takes for small.
_SMALL = 10**6
# Rows of a piece where small ones would have fewer than the second.
_PIECE, _FEWEST = 1024, 48


def rows_times(
    X: Float[Array, "n p"], W: Float[Array, "p k"], out: Float[Array, "n k"]
) -> Float[Array, "n k"]:
    """Write ``X @ W`` for few columns k; return it."""
    for piece in _pieces(len(X), W.size):
        np.matmul(X[piece], W, out=out[piece])
    return out


def columns_times(
    X: Float[Array, "n p"], V: Float[Array, "n k"]
) -> Float[Array, "p k"]:
    """Return ``X.T @ V`` for few columns k."""
    total = np.zeros((X.shape[1], V.shape[1]))
    for piece in _pieces(len(X), total.size):
        total += X[piece].T @ V[piece]
    return total


def _pieces(n: int, work: int) -> Iterator[slice]:
    """Yield runs of n rows, of so many multiplications each."""
    rows = _SMALL // max(work, 1)
    rows = rows if rows >= _FEWEST else _PIECE
    return (slice(start, start + rows) for start in range(0, n, rows))

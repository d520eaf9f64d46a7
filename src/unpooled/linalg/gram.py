"""Products of centred rows with their transpose, a stretch of rows at a time.

    X_c = X - 1 mᵀ      images X_c (X_cᵀ V), coordinates X_c W, products X_cᵀ U

Each stretch is centred before it is multiplied: a column far from zero keeps its
digits, and no copy of all rows is made.
"""

from collections.abc import Iterator

import numpy as np

from unpooled.arrays import Array, Float

# A centred stretch that stays in the processor's cache while it is multiplied.
_CACHE_BYTES = 2**22


def gram_image(
    X: Float[Array, "N p"], mean: Float[Array, " p"], V: Float[Array, "N l"]
) -> Float[Array, "N l"]:
    """Return ``X_c @ (X_c.T @ V)``; the N × N matrix is never formed."""
    return coordinates(X, mean, products(X, mean, V))


def products(
    X: Float[Array, "N p"], mean: Float[Array, " p"], V: Float[Array, "N l"]
) -> Float[Array, "p l"]:
    """Return ``X_c.T @ V``."""
    total = np.zeros((X.shape[1], V.shape[1]))
    for rows, centred in _stretches(X, mean):
        total += centred.T @ V[rows]
    return total


def coordinates(
    X: Float[Array, "N p"], mean: Float[Array, " p"], W: Float[Array, "p l"]
) -> Float[Array, "N l"]:
    """Return ``X_c @ W``."""
    image = np.empty((len(X), W.shape[1]))
    for rows, centred in _stretches(X, mean):
        np.matmul(centred, W, out=image[rows])
    return image


def _stretches(
    X: Float[Array, "N p"], mean: Float[Array, " p"]
) -> Iterator[tuple[slice, Float[Array, "n p"]]]:
    step = max(_CACHE_BYTES // (8 * X.shape[1]), 256)
    for start in range(0, len(X), step):
        rows = slice(start, min(start + step, len(X)))
        yield rows, X[rows] - mean

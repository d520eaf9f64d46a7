"""Products of centred rows with a block of vectors, without a centred copy.

With X_c = X - 1 mᵀ, for N rows, column means m, and blocks V (N × l) and W (p × l):

    dense rows             X_c W,  X_cᵀ V  and  X_c X_cᵀ V
    dense or sparse rows   X_cᵀ X_c W

by the expansions

        X_c W  = X W - 1 (mᵀ W)
        X_cᵀ T = Xᵀ T - m (1ᵀ T)

They read X as it is, so a sparse X is never filled in. They lose digits in columns
whose mean is large compared with their standard deviation. Those columns are centred
explicitly, a few rows at a time; of dense rows all columns, where there is one.
"""

from collections.abc import Iterator

import numpy as np
from scipy.linalg.blas import dger

from unpooled.arrays import Array, Bool, Float
from unpooled.linalg.moments import Rows, column_sums, dense_rows
from unpooled.linalg.narrow_products import columns_times, rows_times
from unpooled.linalg.threads import by_runs, one_thread

# A centred slice that stays in the processor's cache while it is multiplied.
_CACHE_BYTES = 2**20
# Raw squares may replace centred ones while they are at most this many times as large,
# as in `unpooled.linalg.moments`.
_RAW_RATIO = 8.0
# Rows by which dense columns are judged.
_SAMPLE = 512
# Memory that a centred copy of some columns of some rows may take.
_COPY_BYTES = 2**25


def gram_image(
    X: Float[Array, "N p"], mean: Float[Array, " p"], V: Float[Array, "N l"]
) -> Float[Array, "N l"]:
    """Return ``X_c @ (X_c.T @ V)``; the N × N matrix is never formed."""
    return coordinates(X, mean, products(X, mean, V))


def products(
    X: Float[Array, "N p"], mean: Float[Array, " p"], V: Float[Array, "N l"]
) -> Float[Array, "p l"]:
    """Return ``X_c.T @ V``."""
    is_near = _is_near_zero(X, mean)

    def added(run: slice) -> Float[Array, "p l"]:
        if is_near:
            total = columns_times(X[run], V[run])
            return total - np.outer(mean, column_sums(V[run]))
        total = np.zeros((X.shape[1], V.shape[1]))
        for rows, centred in _stretches(X, mean, run):
            total += columns_times(centred, V[rows])
        return total

    total, *others = by_runs(added, len(X), X.size * V.shape[1])
    for other in others:
        total += other
    return total


def coordinates(
    X: Float[Array, "N p"], mean: Float[Array, " p"], W: Float[Array, "p l"]
) -> Float[Array, "N l"]:
    """Return ``X_c @ W``."""
    image = np.empty((len(X), W.shape[1]))
    is_near, offset = _is_near_zero(X, mean), mean @ W

    def multiplied(run: slice) -> None:
        if is_near:
            rows_times(X[run], W, out=image[run])
            image[run] -= offset
            return
        for rows, centred in _stretches(X, mean, run):
            rows_times(centred, W, out=image[rows])

    by_runs(multiplied, len(X), X.size * W.shape[1])
    return image


def far_columns(
    mean: Float[Array, " p"], squares: Float[Array, " p"], N: int
) -> Bool[Array, " p"]:
    """Return the columns that must be centred before they are multiplied.

    Parameters
    ----------
    mean, squares : (p,) array
        Column means of all rows, and sums of squared deviations from them.
    N : int
        Number of rows.
    """
    return N * mean**2 > (_RAW_RATIO - 1.0) * squares


@one_thread()  # two would wait for each other longer than products with `mean` take
def scatter_image(
    X: Rows, mean: Float[Array, " p"], V: Float[Array, "p l"], far: Bool[Array, " p"]
) -> Float[Array, "p l"]:
    """Return ``(X - mean).T @ ((X - mean) @ V)``.

    Parameters
    ----------
    X : (n, p) array, or CSR array
        Some rows.
    mean : (p,) array
        The values to centre about.
    V : (p, l) array
        The block of vectors.
    far : (p,) bool array
        Columns to centre explicitly; see `far_columns`.
    """
    chosen = np.flatnonzero(far)
    # With their rows of V and their means set to 0, far columns do not enter the raw
    # products.
    near_V = np.where(far[:, None], 0.0, V) if len(chosen) else V
    near_mean = np.where(far, 0.0, mean)
    offset = near_mean @ near_V
    far_image = np.zeros((len(chosen), V.shape[1]))
    step = max(1, _COPY_BYTES // (8 * len(chosen))) if len(chosen) else X.shape[0]
    image: Float[Array, "p l"] | None = None
    for start in range(0, max(X.shape[0], 1), max(step, 1)):
        part = X[start : start + step]
        T = _times(part, near_V) - offset
        if len(chosen):
            centred = dense_rows(part[:, chosen]) - mean[chosen]
            T += centred @ V[chosen]
            far_image += columns_times(centred, T)
        raw = _columns_times(part, T)
        # Less the outer product of mean and sums, in place.
        own = dger(-1.0, near_mean, T.sum(axis=0), a=raw, overwrite_a=True)
        image = own if image is None else np.add(image, own, out=image)
    assert image is not None
    image[chosen] = far_image
    return image


def _times(part: Rows, V: Float[Array, "p l"]) -> Float[Array, "n l"]:
    """Return ``part @ V``."""
    n, p = part.shape
    product = np.empty((n, V.shape[1]))

    def multiplied(run: slice) -> None:
        # SciPy uses one thread.
        product[run] = part[run] @ V

    def added(run: slice) -> Float[Array, "n l"]:
        return rows_times(part[:, run], V[run], out=np.empty(product.shape))

    if not isinstance(part, np.ndarray):
        by_runs(multiplied, n, len(part.data) * V.shape[1])
        return product
    product, *others = by_runs(added, p, part.size * V.shape[1])
    for other in others:
        product += other
    return product


def _columns_times(part: Rows, T: Float[Array, "n l"]) -> Float[Array, "p l"]:
    """Return ``part.T @ T``, whose transpose lies in rows."""
    if isinstance(part, np.ndarray):
        return columns_times(part, T)
    image = np.empty((T.shape[1], part.shape[1]))

    def multiplied(run: slice) -> None:
        image[run] = (part.T @ np.ascontiguousarray(T[:, run])).T

    by_runs(multiplied, len(image), len(part.data) * len(image))
    return image.T


def _is_near_zero(X: Float[Array, "N p"], mean: Float[Array, " p"]) -> bool:
    """Whether no column need be centred before, judged by some of the rows."""
    rows = X
    if len(X) > _SAMPLE:
        # At random: were one row in a hundred thousand far out and in the sample, its
        # column's squares would appear a hundred times as large, for a digit less.
        rows = X[np.random.default_rng(0).choice(len(X), _SAMPLE, replace=False)]
    squares = np.square(rows - mean).sum(axis=0)
    return not far_columns(mean, squares, len(rows)).any()


def _stretches(
    X: Float[Array, "N p"], mean: Float[Array, " p"], run: slice
) -> Iterator[tuple[slice, Float[Array, "n p"]]]:
    """Yield stretches of rows, centred."""
    step = max(_CACHE_BYTES // (8 * X.shape[1]), 256)
    # One buffer: fresh pages for every slice would cost more than the centring.
    buffer = np.empty((min(step, run.stop - run.start), X.shape[1]))
    for start in range(run.start, run.stop, step):
        rows = slice(start, min(start + step, run.stop))
        yield rows, np.subtract(X[rows], mean, out=buffer[: rows.stop - start])

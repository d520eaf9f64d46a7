"""The largest share of a column's scatter that one row carries.

A column made up by a coordinator may depend on one person alone.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.data.row_blocks import Block


@np.errstate(all="ignore")
def row_shares(blocks: Iterator[Block], n_columns: int) -> Float[Array, " p"]:
    """Return the largest share of each column's scatter that one row carries.

    About the silo's own mean, and infinite where squares overflow, so that no transform
    can hide behind that. One pass over the rows: the largest deviation from a mean is
    at a column's minimum or maximum.
    """
    n: Any = np.zeros(n_columns)
    total, squares = 0.0, 0.0
    low: Any = np.inf
    high: Any = -np.inf
    origin = np.full(n_columns, np.nan)
    for block in blocks:
        if not len(block.X):
            continue
        there = ~np.isnan(block.X)
        # Shifted by some value of its own, a column's squares keep their digits.
        first = np.take_along_axis(block.X, there.argmax(axis=0)[None], axis=0)[0]
        origin = np.where(np.isnan(origin), first, origin)
        X = block.X - origin
        low = np.fmin(low, np.fmin.reduce(X))
        high = np.fmax(high, np.fmax.reduce(X))
        n = n + there.sum(axis=0)
        total = total + np.nansum(X, axis=0)
        squares = squares + np.nansum(X * X, axis=0)
    # Exactly constant: under any tolerance a large offset would hide a person.
    varies = (n > 0) & (high > low)
    mean = total / np.maximum(n, 1)
    scatter = np.where(varies, squares - n * mean * mean, 1.0)
    share = np.maximum(mean - low, high - mean) ** 2 / scatter
    share = np.where(np.isfinite(share) & (scatter > 0), share, np.inf)
    return np.where(varies, share, 0.0)

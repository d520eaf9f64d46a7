"""Folds and train/test splits of every silo's rows, as operations of a view."""

from typing import Any

import numpy as np

from unpooled.errors import DataError
from unpooled.protocol.shared_blocks import MOST_BLOCKS
from unpooled.protocol.view_operations import Rows


def checked_seed(seed: Any) -> int:
    """Return the seed of a shuffle as an int, or raise DataError."""
    if not isinstance(seed, int | np.integer) or seed < 0:
        raise DataError(f"random_state={seed!r}; choose a whole number >= 0.")
    return int(seed)


def fold_rows(n: Any, seed: int) -> list[tuple[Rows, Rows]]:
    """Return (train, test) for each of n folds; seed -1 deals blocks in their order."""
    whole = isinstance(n, int | float | np.number) and int(n) == n
    if not whole or not 2 <= n <= MOST_BLOCKS:
        raise DataError(
            f"n={n!r} folds; choose a whole number of at least 2 and at most "
            f"{MOST_BLOCKS}, the number of blocks that a silo cuts its rows into. The "
            f"silos make the folds, stratified by the label; no splitter does."
        )
    n = int(n)
    return [
        (Rows(k, n, 0.0, True, seed), Rows(k, n, 0.0, False, seed)) for k in range(n)
    ]


def split_rows(
    test_size: float | None, train_size: float | None, seed: int
) -> tuple[Rows, Rows]:
    """Return (train, test) rows, by the size of one of them."""
    if test_size is not None and train_size is not None:
        raise DataError(
            "Give test_size or train_size, not both: every row is in one view."
        )
    name, size = "train_size", train_size
    if size is None:
        name, size = "test_size", 0.25 if test_size is None else test_size
    if not 0.0 < size < 1.0:
        raise DataError(f"{name}={size!r}; choose a share between 0 and 1.")
    # Rounded, so that 0.7 of ten blocks leaves three of them.
    share = size if train_size is None else round(1.0 - size, 12)
    return Rows(0, 0, share, True, seed), Rows(0, 0, share, False, seed)

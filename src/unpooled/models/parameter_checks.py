"""Checks of constructor parameters, with the same errors for all models."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from unpooled.errors import DataError


def check_choice(name: str, value: Any, allowed: Sequence[Any]) -> None:
    """Refuse a value that is not among the allowed ones."""
    if value not in allowed:
        raise DataError(f"{name}={value!r}; choose one of {allowed}.")


def check_share(name: str, value: float) -> None:
    """Refuse a number outside [0, 1]."""
    if not 0.0 <= value <= 1.0:
        raise DataError(f"{name}={value!r}; choose a number in [0, 1].")


def component_count(k: Any, most: int) -> int:
    """Return the number of components; refuse all but whole numbers up to `most`."""
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or not 1 <= k <= most:
        raise DataError(
            f"n_components={k!r}; `n_components` upper bound is {most}. Choose a whole "
            f"number from 1 to {most}."
        )
    return int(k)

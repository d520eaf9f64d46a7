"""Public arguments of a step: what can travel to the silos, and as what."""

from typing import Any

import numpy as np

from unpooled.errors import DataError
from unpooled.protocol.request import Veiled


def as_argument(value: Any) -> Any:
    """Return an argument as it travels: JSON values, float64 arrays, veiled totals."""
    if isinstance(value, np.generic) or (
        isinstance(value, np.ndarray) and value.ndim == 0
    ):
        return value.item()
    if isinstance(value, np.ndarray):
        kind = np.int64 if value.dtype.kind in "iub" else np.float64
        return np.ascontiguousarray(value, dtype=kind)
    if isinstance(value, Veiled | int | float | str | bool | list | dict | None):
        return value
    raise DataError(
        f"A public argument is {type(value).__name__}; numbers, texts and arrays of "
        f"numbers can travel."
    )

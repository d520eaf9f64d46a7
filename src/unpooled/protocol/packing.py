"""Arrays as they travel: flat, symmetric ones as a triangle, bounded ones in units."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.linalg.moments import pack, unpack
from unpooled.protocol.refusal import Refusal
from unpooled.protocol.step import Declared


def flattened(
    value: Float[Array, "..."], declared: Declared, public: Mapping[str, Any]
) -> Float[Array, " d"]:
    """Return the numbers that travel, in units of their bound where there is one."""
    if declared.symmetric and value.ndim == 2:
        value = pack(value)
    if declared.bound is not None:
        value = declared.bound.divide(value, public)
    return np.ravel(value)


def restored(
    flat: Float[Array, " d"],
    declared: Declared,
    shape: tuple[int, ...],
    public: Mapping[str, Any],
) -> Float[Array, "..."]:
    """Return the array whose `flattened` form is given."""
    value = flat if declared.symmetric else flat.reshape(shape)
    if declared.bound is not None:
        value = declared.bound.multiply(value, public)
    return unpack(value, shape[0]) if declared.symmetric else value


def declared_array(
    totals: Mapping[str, Any], name: str, declared: Declared, shape: tuple[int, ...]
) -> Array:
    """Check a step's result again before it leaves: the declaration is a promise.

    A symmetric one may come as its triangle.
    """
    if name not in totals:
        raise Refusal("declaration")
    value = np.asarray(totals[name], dtype=float)
    triangle = declared.symmetric and value.shape == (declared.numbers(shape),)
    if value.shape != shape and not triangle:
        raise Refusal("declaration")
    return value

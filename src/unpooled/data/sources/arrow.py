"""Arrow columns as NumPy arrays: features as numbers, other columns as they are."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from unpooled.arrays import Array, Float, Shaped


def is_number(kind: pa.DataType) -> bool:
    """Whether cells of this type are numbers: integers, floats, decimals, booleans.

    A column of type null, without any value, is accepted: other silos may have values.
    """
    return any(
        test(kind)
        for test in (
            pa.types.is_integer,
            pa.types.is_floating,
            pa.types.is_decimal,
            pa.types.is_boolean,
            pa.types.is_null,
        )
    )


def numbers_of(column: pa.ChunkedArray) -> Float[Array, " n"]:
    """Return cells as float64, missing ones as NaN.

    A column without any value is NaN, whatever its type.
    """
    if column.null_count == len(column):
        return np.full(len(column), np.nan)
    if column.type != pa.float64():
        # safe=False: integers beyond 2⁵³ round to the nearest float64, as in NumPy.
        column = pc.cast(column, pa.float64(), safe=False)
    return column.to_numpy()


def values_of(column: pa.ChunkedArray, has_missing: bool) -> Shaped[Array, " n"]:
    """Return label or id cells: text as objects, numbers as numbers.

    Parameters
    ----------
    column : pyarrow.ChunkedArray
        Some rows of the label or ids.
    has_missing : bool
        Whether the whole column has missing cells. Integers and booleans are then
        float64 with NaN in every block, so that all blocks have one dtype.
    """
    kind = column.type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
        column = pc.cast(column, kind)
    if pa.types.is_null(kind):
        return np.full(len(column), None, object)
    if pa.types.is_decimal(kind):
        return numbers_of(column)
    if has_missing and (pa.types.is_integer(kind) or pa.types.is_boolean(kind)):
        return numbers_of(column)
    if _is_text(kind):
        column = pc.cast(column, pa.large_string())
    return column.to_numpy()


def _is_text(kind: pa.DataType) -> bool:
    return (
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_string_view(kind)
    )

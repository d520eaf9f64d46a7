"""Array types for annotations, and the letters of their axes.

    n rows of a party     N rows of all       m parties     p, q features
    k components          c classes           l landmarks   d numbers on the wire

Tests check the shapes in annotations, by jaxtyping and beartype. The library runs
without them: if jaxtyping is not installed, the names below accept any subscript.
"""

from typing import TYPE_CHECKING, Any

from numpy import ndarray as Array

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int, Shaped, UInt8, UInt64
else:
    try:
        from jaxtyping import Bool, Float, Int, Shaped, UInt8, UInt64
    except ImportError:

        class _AnyShape:
            """Replaces a jaxtyping dtype: every subscript is a plain array."""

            def __class_getitem__(cls, item: Any) -> type[Array]:
                return Array

        Bool = Float = Int = Shaped = UInt8 = UInt64 = _AnyShape

__all__ = ["Array", "Bool", "Float", "Int", "Shaped", "UInt8", "UInt64"]

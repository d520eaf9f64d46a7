"""How one declared array travels: flat, in units of its bound, in a code."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, final

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.linalg.moments import pack, unpack
from unpooled.protocol.declaration import Declared
from unpooled.protocol.refusal import Refusal
from unpooled.secure.sums.fixed_point import BoundedCode, Code, WideCode
from unpooled.secure.sums.low_precision_code import LowPrecisionCode


@final
@dataclass(frozen=True, eq=False)
class WireFormat:
    """The form in which one array of a step travels, the same at both ends.

    Attributes
    ----------
    declared : Declared
        The step's declaration of the array.
    shape : tuple of int
        Shape of the array itself.
    public : mapping
        Public arguments of the step; a bound and a number of bits refer to them.
    """

    declared: Declared
    shape: tuple[int, ...]
    public: Mapping[str, Any]

    @classmethod
    def of(
        cls, declared: Declared, sizes: Mapping[str, int], public: Mapping[str, Any]
    ) -> "WireFormat":
        """Return the format of an array under the given sizes of the axis letters."""
        return cls(declared, declared.shape(sizes), public)

    @property
    def n_numbers(self) -> int:
        """How many numbers travel; of a symmetric array those of its triangle."""
        return self.declared.numbers(self.shape)

    def code(self, n_parties: int, context: bytes = b"", party: int = 0) -> Code:
        """Return the code of a total: narrower where a public bound is declared.

        Parameters
        ----------
        n_parties : int
            Number of parties behind the total.
        context : bytes
            Context of the release (`Request.context`); codes that round draw from it.
        party : int
            Place of the encoding party in the roster, likewise.
        """
        if self.declared.bound is None:
            return WideCode(n_parties)
        bits = self.public.get(self.declared.bits, 64)
        if bits == 64:
            return BoundedCode(n_parties)
        return LowPrecisionCode(n_parties, bits, context, party)

    def words(self, code: Code | None) -> tuple[tuple[int, ...], np.dtype[Any]]:
        """Return shape and type of the array on the wire; without a code, in clear."""
        if code is None:
            return (self.n_numbers,), np.dtype(np.float64)
        return code.shape(self.n_numbers), np.dtype(code.word)

    def checked(self, value: Any) -> Array:
        """Return a step's result as floats if it is what the step declares.

        The declaration is a promise to the silo, so it is checked before the array
        leaves. A symmetric array may come as its triangle.

        Raises
        ------
        Refusal
            With "declaration", when it has another shape.
        """
        value = np.asarray(value, dtype=float)
        triangle = self.declared.symmetric and value.shape == (self.n_numbers,)
        if value.shape != self.shape and not triangle:
            raise Refusal("declaration")
        return value

    def flattened(self, value: Float[Array, "..."]) -> Float[Array, " d"]:
        """Return the numbers that travel, in units of their bound where there is one.

        A symmetric array travels as its upper triangle, a stack of them one by one.
        """
        if self.declared.symmetric and value.ndim >= 2:
            packed = [pack(S) for S in value.reshape(-1, *value.shape[-2:])]
            value = packed[0] if len(packed) == 1 else np.concatenate(packed)
        if self.declared.bound is not None:
            value = self.declared.bound.divide(value, self.public)
        return np.ravel(value)

    def restored(self, flat: Float[Array, " d"]) -> Float[Array, "..."]:
        """Return the array whose `flattened` form is given."""
        value = flat if self.declared.symmetric else flat.reshape(self.shape)
        if self.declared.bound is not None:
            value = self.declared.bound.multiply(value, self.public)
        if not self.declared.symmetric:
            return value
        triangles = value.reshape(prod(self.shape[:-2]), -1)
        squares = [unpack(one, self.shape[-1]) for one in triangles]
        whole = squares[0] if len(squares) == 1 else np.stack(squares)
        return whole.reshape(self.shape)

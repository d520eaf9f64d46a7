"""What a secure sum is, to those who call it."""

import abc
from collections.abc import Iterable

from unpooled.arrays import Array, Float, Shaped
from unpooled.secure.sums.fixed_point import Code


class SecureSum(abc.ABC):
    """Add one vector per party so that only the total is learned.

    `conceal` runs in the silo and `reveal` at the coordinator. They share a class
    because neither can be read, or changed, without the other.
    """

    @abc.abstractmethod
    def conceal(
        self, values: Float[Array, " d"], code: Code, context: bytes
    ) -> Shaped[Array, "..."]:
        """Return what may leave: uniform noise to anyone without the other parts.

        Parameters
        ----------
        values : (d,) array
            This party's part of the total, in the units of `code`.
        code : Code
            How numbers become words of a ring; its range is checked, never clipped.
        context : bytes
            Study, session, round and release. One context conceals one vector: a
            second vector under it would share its masks, and their difference show.
        """

    @abc.abstractmethod
    def added(
        self, concealed: Iterable[Shaped[Array, "..."]], code: Code
    ) -> Shaped[Array, "..."]:
        """Return the total as it travels, for those who may open it elsewhere."""

    @abc.abstractmethod
    def reveal(
        self, concealed: Iterable[Shaped[Array, "..."]], code: Code
    ) -> Float[Array, " d"]:
        """Open the total of a round in which every party took part."""

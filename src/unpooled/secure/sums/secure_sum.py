"""The interface of a secure sum."""

import abc
from collections.abc import Iterable

from unpooled.arrays import Array, Float, Shaped
from unpooled.secure.sums.fixed_point import Code


class SecureSum(abc.ABC):
    """Adds one vector per party so that only the total is learned.

    `conceal` runs in the silo and `added` at the coordinator, which decodes the sum by
    the same code. They share a class because neither can be read, or changed, without
    the other.
    """

    @abc.abstractmethod
    def conceal(
        self, values: Float[Array, " d"], code: Code, context: bytes
    ) -> Shaped[Array, "..."]:
        """Return the words that may leave, uniform noise without the others' words.

        Parameters
        ----------
        values : (d,) array
            This party's part of the total, in the units of `code`.
        code : Code
            Maps numbers to words of a ring; values out of its range are refused.
        context : bytes
            Names study, session, round and release. A context conceals one vector: a
            second one would have the same masks, and the difference would be visible.
        """

    @abc.abstractmethod
    def added(
        self, concealed: Iterable[Shaped[Array, "..."]], code: Code
    ) -> Shaped[Array, "..."]:
        """Return the words of the total of a round in which every party took part."""

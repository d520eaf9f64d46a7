"""Fixed-point arithmetic on Shamir shares, one message to each peer per product.

    shares of x, y ── local product ──> shares of x y, of twice the degree
    x y + r        ── opened ──> c;  shares of x y / 2^f = c / 2^f - shares of r / 2^f

The mask r is the sum of a pseudorandom number r_A for each set A of parties that lacks
t of them, which has a key in common (Cramer, Damgård and Ishai). Shares of r, and of
Σ floor(r_A / 2^f), are functions of the keys that a party has, so that they cost no
message; any t parties lack one r_A, which is 2^88 times larger than x y. The quotient
is at most as many units of the last place too small as there are sets, less their mean.

A value is an array of Python integers, this party's shares.

References
----------
Cramer, Damgård and Ishai, Share conversion, pseudorandom secret-sharing and
applications to secure computation, TCC 2005. Catrina and Saxena, Secure computation
with fixed-point numbers, FC 2010, protocol 3.1 (TruncPr), where r / 2^f is made of
random bits.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, final

import numpy as np

from unpooled.arrays import Array

# Bits after the point of numbers that are opened to see whether they are known.
_COARSE = 32


class FixedPoint(ABC):
    """Fixed-point arithmetic in a field, on shares or in the clear.

    Attributes
    ----------
    modulus : int
        The field's prime.
    """

    modulus: int

    @abstractmethod
    async def shifted(self, x: Array, shift: Any) -> Array:
        """Return x / 2^shift, rounded; one round.

        Parameters
        ----------
        x : (l,) array of int
            Shares, of the single or the double degree.
        shift : int or (l,) array of int
            Public.
        """

    @abstractmethod
    async def opened(self, x: Array) -> list[int]:
        """Return the integers of which x are shares; one round."""

    @abstractmethod
    async def is_negative(self, x: int, bits: int) -> bool:
        """Return whether a number below 2^(bits - 1) is negative; one bit is opened."""

    async def are_known(self, x: Array, fraction: int, known: Sequence[int]) -> bool:
        """Return whether each number is one of those known, to a millionth.

        Masks cancel only where all parties received one request: of anything else
        nothing is computed, where this is asked first.

        Parameters
        ----------
        x : (l,) array of int
            Shares of the numbers.
        fraction : int
            Bits after their point; the last ones, which are not opened, would show how
            parts were rounded.
        known : sequence of int
            What each of them may be.
        """
        near = 1 << (_COARSE - 20)
        return all(
            min(abs(number - (one << _COARSE)) for one in known) < near
            for number in await self.opened(await self.shifted(x, fraction - _COARSE))
        )


@final
class SharedFixedPoint(FixedPoint):
    """The arithmetic of one party's process.

    Parameters
    ----------
    mpc : object
        MPyC's runtime, connected to the peers.
    bits : int
        All products are below 2^(bits - 1).
    hiding : int
        Bits by which masks are longer.

    Attributes
    ----------
    integer : type
        MPyC's secure integers of the same field, for inputs and comparisons.
    modulus : int
        The field's prime.
    """

    def __init__(self, mpc: Any, bits: int, hiding: int) -> None:
        self._mpc, self._bits = mpc, bits
        self._m, self._t = len(mpc.parties), mpc.threshold
        n_sets = math.comb(self._m, self._t)
        self._range = 1 << (bits + hiding)
        # Room for the sum of the masks, which may not wrap around.
        room = bits + hiding + n_sets.bit_length() + 1
        # MPyC finds a prime with `sec_param` bits beside those of the integers.
        self.integer = mpc.SecInt(room - mpc.options.sec_param)
        self._field = self.integer.field
        self.modulus = int(self._field.modulus)
        assert self.modulus > 1 << room
        # Each set's floor loses half a unit on average, and so does that of c.
        self._mean_loss = (n_sets - 1) // 2

    async def total(self, integers: list[int]) -> Array:
        """Return shares of the sum of all parties' integers."""
        own = self._field.array([x % self.modulus for x in integers])
        shared = self._mpc.input(self.integer.array(own))
        return (await self._mpc.gather(sum(shared[1:], shared[0]))).value

    async def shifted(self, x: Array, shift: Any) -> Array:
        """Return shares of x / 2^shift, rounded; one round."""
        drawn = self._drawn(self._range, (len(x),))
        mask = self._combined(drawn)
        quotient = self._combined({s: r >> shift for s, r in drawn.items()})
        offset = 1 << (self._bits - 1)
        opened = await self._opened(x + mask + offset, 2 * self._t)
        back = (opened >> shift) - quotient - (offset >> shift) - self._mean_loss
        return back % self.modulus

    async def opened(self, x: Array) -> list[int]:
        """Return the integers of which x are shares; one round."""
        half = self.modulus // 2
        values = await self._opened(x, self._t)
        return [int(v) if v <= half else int(v) - self.modulus for v in values]

    async def is_negative(self, x: int, bits: int) -> bool:
        """Return whether the number of which x is a share is negative."""
        kind = self._mpc.SecInt(bits, p=self.modulus)
        number = kind.array(self._field.array([x % self.modulus]))
        sign = await self._mpc.output(self._mpc.np_sgn(number, LT=True))
        return int(np.asarray(sign).reshape(-1)[0]) != 0

    async def _opened(self, x: Array, degree: int) -> Array:
        """Return the values of shares, in a sharing that is random but for these."""
        if degree > self._t:
            # Products of shares are no random shares; a random sharing of 0 is added.
            drawn = self._drawn(self.modulus, (len(x), self._t))
            powers = [pow(self._mpc.pid + 1, j) for j in range(1, self._t + 1)]
            factors = np.array(powers, dtype=object)
            x = x + self._combined({s: r @ factors for s, r in drawn.items()})
        shares = self._field.array(x % self.modulus, check=False)
        return (await self._mpc.output(shares, threshold=degree)).value

    def _drawn(self, bound: int, shape: tuple[int, ...]) -> Mapping[Any, Array]:
        """Return numbers below a bound by set of parties, equal at all of the set."""
        # MPyC's counter is the same at all parties, and used once.
        counter = self._mpc._prss_uci()
        of_sets = self._mpc.prfs(bound)
        return {members: prf(counter, shape) for members, prf in of_sets.items()}

    def _combined(self, drawn: Mapping[Any, Array]) -> Array:
        """Return shares of the sum over all sets, from those that this party is in."""
        parts = [r * self._weight(members) for members, r in drawn.items()]
        return np.add.reduce(parts)

    def _weight(self, members: Any) -> int:
        """Return this party's share of 1, of which parties outside of a set have 0."""
        q, x = self.modulus, self._mpc.pid + 1
        others = [j + 1 for j in range(self._m) if j not in members]
        weight = 1
        for other in others:
            weight = weight * (x - other) * pow(-other, -1, q) % q
        return weight

"""Public bounds on totals, with which a large release travels in few bytes.

Both ends compute a bound from arguments that both know, so it discloses nothing.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.linalg.moments import packed_square
from unpooled.linalg.threads import one_thread

# Squares come out of the wide code in multiples of 2^-128; this covers what that and
# the rounding of a constant column's mean can hide, so that no bound is ever zero.
_QUANTUM = 2.0**-120
# Steps of a lattice to the norm of a row: products of 10⁸ rows stay below 2⁵³.
LATTICE = 2.0**13


class Bound(ABC):
    """A public bound on every entry of a total, known to both ends of a release.

    Values are in the form in which they travel: of a symmetric array the upper
    triangle, (p (p + 1) / 2,).
    """

    def divide(
        self, values: Float[Array, "..."], public: Mapping[str, Any]
    ) -> Float[Array, "..."]:
        """Return the values in units of their bounds, so within [-1, 1]."""
        scale = self._scale(public)
        # A large array of bounds has no further use: its memory takes the result.
        return np.divide(values, scale, out=_in_place(scale))

    def multiply(
        self, units: Float[Array, "..."], public: Mapping[str, Any]
    ) -> Float[Array, "..."]:
        """Return the values of which `divide` gave the units."""
        scale = self._scale(public)
        return np.multiply(units, scale, out=_in_place(scale))

    @abstractmethod
    def _scale(self, public: Mapping[str, Any]) -> Any:
        """Return the bounds: a number, or a new array with the values' shape."""


def _in_place(scale: Any) -> Array | None:
    return scale if isinstance(scale, np.ndarray) else None


class _WholeNumbers(Bound):
    """Whole numbers below 2⁵³, which float64 has exactly."""

    def divide(
        self, values: Float[Array, "..."], public: Mapping[str, Any]
    ) -> Float[Array, "..."]:
        """Return shares of 2⁵³; a power of 2, so nothing is rounded."""
        return np.asarray(values / 2.0**53)

    def multiply(
        self, units: Float[Array, "..."], public: Mapping[str, Any]
    ) -> Float[Array, "..."]:
        """Return the numbers, in units of the data."""
        return np.asarray(units * self._scale(public))


@final
@dataclass(frozen=True)
class CauchySchwarz(Bound):
    """``|S_jk| <= sqrt(S_jj S_kk)``: a scatter is bounded by its own diagonal.

    Parameters
    ----------
    squares : str
        The public argument that holds the diagonal of the total, (p,).
    """

    squares: str

    def _scale(self, public: Mapping[str, Any]) -> Float[Array, " d"]:
        # A negative sum of squares is invented; every value then exceeds its bound.
        radius = np.sqrt(np.maximum(public[self.squares], 0.0) + _QUANTUM)
        return packed_square(radius)


@final
@dataclass(frozen=True)
class CauchySchwarzImage(Bound):
    """``|(S V)_jl| <= sqrt(S_jj) Σ_i |V_il| sqrt(S_ii)``: a scatter applied to a block.

    The bound holds for every silo's part too, since its own diagonal is no larger.

    Parameters
    ----------
    squares : str
        The public argument that holds the diagonal of the total, (p,).
    block : str
        The public argument that holds V, (p, l).
    """

    squares: str
    block: str

    @one_thread()
    def _scale(self, public: Mapping[str, Any]) -> Float[Array, "p l"]:
        rows = np.sqrt(np.maximum(public[self.squares], 0.0) + _QUANTUM)
        columns = rows @ np.abs(public[self.block])
        # The image of a column of zeros is zero, within any bound.
        return rows[:, None] * np.where(columns > 0, columns, 1.0)


@final
@dataclass(frozen=True)
class Trace(Bound):
    """``|vᵀ S w| <= tr S`` for unit vectors: a scatter seen along any directions.

    Parameters
    ----------
    squares : str
        The public argument that holds the diagonal of the total, (p,), or its sum.
    """

    squares: str

    def _scale(self, public: Mapping[str, Any]) -> float:
        return float(np.maximum(public[self.squares], 0.0).sum()) + _QUANTUM


@final
@dataclass(frozen=True)
class Lattice(_WholeNumbers):
    """Whole numbers below 2⁵³, exact in float64, as multiples of a lattice step.

    Rows that were shifted by a centre and shortened to a norm are rounded to a lattice
    on which that norm has `LATTICE` steps; sums and products of them are whole numbers.

    Parameters
    ----------
    power : int
        Power of a row's entries: 0 for counts, in units of `LATTICE`; 1 for sums; 2 for
        products.
    """

    power: int

    def _scale(self, public: Mapping[str, Any]) -> float:
        if self.power == 0:
            return 2.0**53 / LATTICE
        steps = lattice_steps(len(public["centre"]))
        return 2.0**53 * (public["row_norm"] / steps) ** self.power


@final
@dataclass(frozen=True)
class LatticePair(_WholeNumbers):
    """Products of rows and of their scores along public directions, both on a lattice.

    Rows are measured by "row_norm" and scores by "score_norm"; see `Lattice`.

    Parameters
    ----------
    block : str
        The public argument that holds the directions, (p, l).
    """

    block: str

    def _scale(self, public: Mapping[str, Any]) -> float:
        p, width = public[self.block].shape
        scale = public["row_norm"] / lattice_steps(p)
        return 2.0**53 * (scale * (public["score_norm"] / lattice_steps(width)))


def lattice_steps(p: int) -> float:
    """Return the steps to a norm, fewer than `LATTICE` by the rounding of p entries."""
    return (LATTICE - 0.5 * np.sqrt(p)) * (1.0 - 2.0**-40)


@final
@dataclass(frozen=True)
class Counts(_WholeNumbers):
    """Whole numbers below 2⁵³, such as counts of rows: exact for up to 512 parties."""

    def multiply(
        self, units: Float[Array, "..."], public: Mapping[str, Any]
    ) -> Float[Array, "..."]:
        """Return the counts."""
        return np.asarray(np.rint(units * self._scale(public)))

    def _scale(self, public: Mapping[str, Any]) -> float:
        return 2.0**53


@final
@dataclass(frozen=True)
class Ceiling(Bound):
    """``|T| <= r`` in every entry, for a number r that all parties know.

    Parameters
    ----------
    radius : str
        The public argument that holds r, above 0.
    """

    radius: str

    def _scale(self, public: Mapping[str, Any]) -> float:
        return float(public[self.radius])

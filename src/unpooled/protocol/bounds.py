"""Public bounds on totals, with which a large release travels in few bytes.

Both ends compute a bound from arguments that both know, so it discloses nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, final, runtime_checkable

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.linalg.moments import packed_square

# Squares come out of the wide code in multiples of 2^-128; this covers what that and
# the rounding of a constant column's mean can hide, so that no bound is ever zero.
_QUANTUM = 2.0**-120
# Steps of a lattice to the norm of a row: products of 10⁸ rows stay below 2⁵³.
LATTICE = 2.0**13


@runtime_checkable
class Bound(Protocol):
    """A public bound on every entry of a total, known to both ends of a release.

    Values are in the form in which they travel: of a symmetric array the upper
    triangle, (p (p + 1) / 2,).
    """

    def divide(
        self, values: Float[Array, "..."], public: Mapping[str, Any]
    ) -> Float[Array, "..."]:
        """Return the values in units of their bounds, so within [-1, 1]."""
        ...

    def multiply(
        self, units: Float[Array, "..."], public: Mapping[str, Any]
    ) -> Float[Array, "..."]:
        """Return the values of which `divide` gave the units."""
        ...


@final
@dataclass(frozen=True)
class CauchySchwarz:
    """``|S_jk| <= sqrt(S_jj S_kk)``: a scatter is bounded by its own diagonal.

    Parameters
    ----------
    squares : str
        The public argument that holds the diagonal of the total, (p,).
    """

    squares: str

    def divide(
        self, values: Float[Array, " d"], public: Mapping[str, Any]
    ) -> Float[Array, " d"]:
        """Return a triangle of scatters as correlations."""
        radii = self._radii(public)
        return np.divide(values, radii, out=radii)

    def multiply(
        self, units: Float[Array, " d"], public: Mapping[str, Any]
    ) -> Float[Array, " d"]:
        """Return the triangle of scatters."""
        radii = self._radii(public)
        return np.multiply(units, radii, out=radii)

    def _radii(self, public: Mapping[str, Any]) -> Float[Array, " d"]:
        # A negative sum of squares is invented; every value then exceeds its bound.
        radius = np.sqrt(np.maximum(public[self.squares], 0.0) + _QUANTUM)
        return packed_square(radius)


@final
@dataclass(frozen=True)
class CauchySchwarzImage:
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

    def divide(
        self, values: Float[Array, "p l"], public: Mapping[str, Any]
    ) -> Float[Array, "p l"]:
        """Return an image in units of its bounds."""
        return values / self._radii(public)

    def multiply(
        self, units: Float[Array, "p l"], public: Mapping[str, Any]
    ) -> Float[Array, "p l"]:
        """Return the image."""
        return units * self._radii(public)

    def _radii(self, public: Mapping[str, Any]) -> Float[Array, "p l"]:
        rows = np.sqrt(np.maximum(public[self.squares], 0.0) + _QUANTUM)
        columns = rows @ np.abs(public[self.block])
        # The image of a column of zeros is zero, within any bound.
        return rows[:, None] * np.where(columns > 0, columns, 1.0)


@final
@dataclass(frozen=True)
class Trace:
    """``|vᵀ S w| <= tr S`` for unit vectors: a scatter seen along any directions.

    Parameters
    ----------
    squares : str
        The public argument that holds the diagonal of the total, (p,), or its sum.
    """

    squares: str

    def divide(
        self, values: Float[Array, "..."], public: Mapping[str, Any]
    ) -> Float[Array, "..."]:
        """Return shares of the trace."""
        return values / self._trace(public)

    def multiply(
        self, units: Float[Array, "..."], public: Mapping[str, Any]
    ) -> Float[Array, "..."]:
        """Return the scatter along the directions."""
        return units * self._trace(public)

    def _trace(self, public: Mapping[str, Any]) -> float:
        return float(np.maximum(public[self.squares], 0.0).sum()) + _QUANTUM


@final
@dataclass(frozen=True)
class Lattice:
    """Whole numbers below 2⁵³, exact in float64, as multiples of a lattice step.

    Rows that were shifted by a centre and shortened to a norm are rounded to a lattice
    on which that norm has `LATTICE` steps; sums and products of them are whole numbers.

    Parameters
    ----------
    power : int
        Of a row's entries: 0 for counts, in units of `LATTICE`; 1 for sums; 2 for
        products.
    """

    power: int

    def divide(
        self, values: Float[Array, "..."], public: Mapping[str, Any]
    ) -> Float[Array, "..."]:
        """Return shares of 2⁵³; a power of 2, so nothing is rounded."""
        return np.asarray(values / 2.0**53)

    def multiply(
        self, units: Float[Array, "..."], public: Mapping[str, Any]
    ) -> Float[Array, "..."]:
        """Return counts, or sums and products in units of the data."""
        if self.power == 0:
            return np.asarray(units * (2.0**53 / LATTICE))
        steps = lattice_steps(len(public["centre"]))
        # A single number stays an array.
        scale = 2.0**53 * (public["row_norm"] / steps) ** self.power
        return np.asarray(units * scale)


@final
@dataclass(frozen=True)
class LatticePair:
    """Products of rows and of their scores along public directions, both on a lattice.

    Rows are measured by "row_norm" and scores by "score_norm"; see `Lattice`.

    Parameters
    ----------
    block : str
        The public argument that holds the directions, (p, l).
    """

    block: str

    def divide(
        self, values: Float[Array, "p l"], public: Mapping[str, Any]
    ) -> Float[Array, "p l"]:
        """Return shares of 2⁵³; a power of 2, so nothing is rounded."""
        return np.asarray(values / 2.0**53)

    def multiply(
        self, units: Float[Array, "p l"], public: Mapping[str, Any]
    ) -> Float[Array, "p l"]:
        """Return products in units of the data."""
        p, width = public[self.block].shape
        scale = public["row_norm"] / lattice_steps(p)
        scale *= public["score_norm"] / lattice_steps(width)
        return np.asarray(units * (2.0**53 * scale))


def lattice_steps(p: int) -> float:
    """Return the steps to a norm, fewer than `LATTICE` by the rounding of p entries."""
    return (LATTICE - 0.5 * np.sqrt(p)) * (1.0 - 2.0**-40)


@final
@dataclass(frozen=True)
class Counts:
    """Whole numbers below 2⁵³, such as counts of rows: exact for up to 512 parties."""

    def divide(
        self, values: Float[Array, "..."], public: Mapping[str, Any]
    ) -> Float[Array, "..."]:
        """Return shares of 2⁵³; a power of 2, so nothing is rounded."""
        return np.asarray(values / 2.0**53)

    def multiply(
        self, units: Float[Array, "..."], public: Mapping[str, Any]
    ) -> Float[Array, "..."]:
        """Return the counts."""
        return np.asarray(np.rint(units * 2.0**53))


@final
@dataclass(frozen=True)
class Ceiling:
    """``|T| <= r`` in every entry, for a number r that all parties know.

    Parameters
    ----------
    radius : str
        The public argument that holds r, above 0.
    """

    radius: str

    def divide(
        self, values: Float[Array, "..."], public: Mapping[str, Any]
    ) -> Float[Array, "..."]:
        """Return shares of the ceiling."""
        return values / float(public[self.radius])

    def multiply(
        self, units: Float[Array, "..."], public: Mapping[str, Any]
    ) -> Float[Array, "..."]:
        """Return the values."""
        return units * float(public[self.radius])

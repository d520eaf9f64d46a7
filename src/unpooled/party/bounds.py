"""Public bounds on totals: what lets a large release travel in few bytes.

A bound is computed by both ends from arguments that both know, so it says nothing new.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, final, runtime_checkable

import numpy as np

from unpooled.arrays import Array, Float

# Squares come out of the wide code in multiples of 2^-128; this covers what that and
# the rounding of a constant column's mean can hide, so that no bound is ever zero.
_QUANTUM = 2.0**-120


@runtime_checkable
class Bound(Protocol):
    """A public bound on every entry of a total, known to both ends of a release."""

    def divide(
        self, values: Float[Array, "..."], public: Mapping[str, Any]
    ) -> Float[Array, "..."]:
        """Return the values in units of their bounds, so within [-1, 1]."""
        ...

    def multiply(
        self, units: Float[Array, "..."], public: Mapping[str, Any]
    ) -> Float[Array, "..."]:
        """Return what `divide` was given."""
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
        self, values: Float[Array, "p p"], public: Mapping[str, Any]
    ) -> Float[Array, "p p"]:
        """Return the upper triangle as correlations; the rest is not looked at."""
        radius = self._radius(public)
        units = values / radius
        units /= radius[:, None]
        return units

    def multiply(
        self, units: Float[Array, "p p"], public: Mapping[str, Any]
    ) -> Float[Array, "p p"]:
        """Return the scatter."""
        radius = self._radius(public)
        return units * radius * radius[:, None]

    def _radius(self, public: Mapping[str, Any]) -> Float[Array, " p"]:
        # A negative square is made up, and then every value exceeds its bound.
        return np.sqrt(np.maximum(public[self.squares], 0.0) + _QUANTUM)


@final
@dataclass(frozen=True)
class CauchySchwarzImage:
    """``|(S V)_jl| <= sqrt(S_jj) Σ_i |V_il| sqrt(S_ii)``: a scatter applied to a block.

    Every silo's part keeps the bound of the total, since its own diagonal is no larger.

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
        """Return the image in units of its bounds."""
        rows, columns = self._radii(public)
        return values / rows[:, None] / columns

    def multiply(
        self, units: Float[Array, "p l"], public: Mapping[str, Any]
    ) -> Float[Array, "p l"]:
        """Return the image."""
        rows, columns = self._radii(public)
        return units * rows[:, None] * columns

    def _radii(
        self, public: Mapping[str, Any]
    ) -> tuple[Float[Array, " p"], Float[Array, " l"]]:
        rows = np.sqrt(np.maximum(public[self.squares], 0.0) + _QUANTUM)
        # A column of zeros has an image of zeros, which any bound holds.
        columns = rows @ np.abs(public[self.block])
        return rows, np.where(columns > 0, columns, 1.0)

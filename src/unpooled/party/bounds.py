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
class Trace:
    """``|vᵀ S w| <= tr S`` for unit vectors: a scatter seen along any directions.

    Parameters
    ----------
    squares : str
        The public argument that holds the diagonal of the total, (p,).
    """

    squares: str

    def divide(
        self, values: Float[Array, "l l"], public: Mapping[str, Any]
    ) -> Float[Array, "l l"]:
        """Return shares of the trace."""
        return values / self._trace(public)

    def multiply(
        self, units: Float[Array, "l l"], public: Mapping[str, Any]
    ) -> Float[Array, "l l"]:
        """Return the scatter along the directions."""
        return units * self._trace(public)

    def _trace(self, public: Mapping[str, Any]) -> float:
        return float(np.maximum(public[self.squares], 0.0).sum()) + _QUANTUM

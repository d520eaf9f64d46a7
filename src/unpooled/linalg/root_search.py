"""Roots of decreasing functions of which only signs are known, many at a time.

    <──────────── (lo, hi) ────────────>      K candidates cut the cell into K + 1;
       +    +    +    -    -    -    -        the signs say in which of them the root is

Bisection is K = 1. A cell that is open at one side is searched outwards. The unit grows
with the distance from zero, so that a tolerance is relative for large roots and
absolute for small ones, and the first batch already spreads over several magnitudes:

    place v ── size(v) = v for |v| <= 1, else ±exp(|v| - 1) ──> candidate
"""

import math
from typing import final

import numpy as np

from unpooled.arrays import Array, Bool, Float, Int

# Places up to here stand for candidates up to 4096, where the first batch looks: one
# row of N that differs from all others has its root at sqrt(N).
FIRST = 1.0 + math.log(4096.0)
# How far one batch searches outwards, in places: candidates grow by e³, about 20.
_OUTWARDS = 3.0
# Roots beyond 2^40 are reported as being there.
LAST = 1.0 + 40.0 * math.log(2.0)


@final
class SignSearch:
    """Cells of `d` roots, narrowed from batch to batch.

    Parameters
    ----------
    d : int
        How many functions, each decreasing.
    tol : float
        Width of the last cell, relative to max(1, abs(root)).
    n_candidates : int
        K, the candidates of each function in a batch.

    Attributes
    ----------
    lo, hi : (d,) arrays
        Ends of the cells, as places; infinite before a sign was seen on that side.
    """

    def __init__(self, d: int, tol: float, n_candidates: int) -> None:
        self.tol, self.n_candidates = tol, n_candidates
        self.lo, self.hi = np.full(d, -np.inf), np.full(d, np.inf)

    @property
    def active(self) -> Int[Array, " a"]:
        """Functions whose root is not yet known to the tolerance."""
        wide = self.hi - self.lo > self.tol
        return np.flatnonzero(wide & (self.lo < LAST) & (self.hi > -LAST))

    @property
    def beyond(self) -> Bool[Array, " d"]:
        """Functions whose root lies farther out than anything that was tried."""
        return np.isinf(self.lo) | np.isinf(self.hi)

    def places(self) -> tuple[Int[Array, " q"], Float[Array, " q"]]:
        """Return the next batch: functions and places, in ascending order for each."""
        active = self.active
        cuts = [self._cuts(float(self.lo[j]), float(self.hi[j])) for j in active]
        return np.repeat(active, self.n_candidates), np.concatenate([[], *cuts])

    def narrow(
        self,
        functions: Int[Array, " q"],
        places: Float[Array, " q"],
        positive: Bool[Array, " q"],
    ) -> None:
        """Learn the signs at the places of a batch."""
        for j in np.unique(functions):
            own = functions == j
            v, above = places[own], positive[own]
            # Read outwards from the place nearest zero: rounding and saturation, which
            # could falsify a sign, are met far out only.
            start = int(np.abs(v).argmin())
            if above[start]:
                after = start + int(np.append(~above[start:], True).argmax())
            else:
                after = start - int(np.append(above[start::-1], True).argmax()) + 1
            if after > 0:
                self.lo[j] = max(self.lo[j], v[after - 1])
            if after < len(v):
                self.hi[j] = min(self.hi[j], v[after])

    def roots(self) -> Float[Array, " d"]:
        """Return the middle of each cell; the inner end of one that is open."""
        lo = np.where(np.isinf(self.lo), self.hi, self.lo)
        hi = np.where(np.isinf(self.hi), self.lo, self.hi)
        return candidate((lo + hi) / 2.0)

    def _cuts(self, lo: float, hi: float) -> Float[Array, " k"]:
        K = self.n_candidates
        if math.isinf(lo) and math.isinf(hi):
            return np.linspace(-FIRST, FIRST, K) if K > 1 else np.zeros(1)
        share = np.arange(1, K + 1) / K
        if math.isinf(hi):
            return lo + _OUTWARDS * share
        if math.isinf(lo):
            return hi - _OUTWARDS * share[::-1]
        return lo + (hi - lo) * np.arange(1, K + 1) / (K + 1)


def candidate(places: Float[Array, " q"]) -> Float[Array, " q"]:
    """Return the candidates at places: small ones themselves, large ones far apart."""
    size = np.abs(places)
    return np.where(size <= 1.0, places, np.copysign(np.exp(size - 1.0), places))


def place_of(candidates: Float[Array, " q"]) -> Float[Array, " q"]:
    """Return the places of candidates."""
    size = np.abs(candidates)
    far = 1.0 + np.log(np.maximum(size, 1.0))
    return np.where(size <= 1.0, candidates, np.copysign(far, candidates))


def candidates_for(tol: float, n_batches: int) -> int:
    """Return the smallest K with which `n_batches` reach the tolerance."""
    ratio = 2.0 * FIRST / tol
    K = 1
    while (K - 1 or 1) * float(K + 1) ** (n_batches - 1) < ratio:
        K += 1
    return K

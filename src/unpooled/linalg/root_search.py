"""Search for the roots of many decreasing functions from their signs alone.

    <──────────── (lo, hi) ────────────>      K candidates cut the cell into K + 1;
       +    +    +    -    -    -    -        the signs say in which of them the root is

K = 1 is bisection. A cell that is unbounded at one end is searched outwards. Places are
on a scale that is linear near 0 and logarithmic beyond, so that the tolerance is
absolute for small roots and relative for large ones, and the first batch already spans
several orders of magnitude:

    candidate(v) = v for |v| <= 1,  ±exp(|v| - 1) otherwise
"""

import math
from typing import final

import numpy as np

from unpooled.arrays import Array, Bool, Float, Int

# The first batch covers places up to here, candidates up to 4096: where one of N rows
# differs from all others, the root is at sqrt(N).
FIRST = 1.0 + math.log(4096.0)
# Places by which a batch moves outwards: candidates grow by e³, about 20.
_OUTWARDS = 3.0
# Roots beyond 2^40 are not searched.
LAST = 1.0 + 40.0 * math.log(2.0)


@final
class SignSearch:
    """Intervals that contain `d` roots, narrowed from batch to batch.

    Parameters
    ----------
    d : int
        Number of functions, each decreasing.
    tol : float
        Final width of a cell, relative to max(1, abs(root)).
    n_candidates : int
        K, the number of candidates per function and batch.

    Attributes
    ----------
    lo, hi : (d,) arrays
        Ends of the cells, as places; infinite until a sign on that side is known.
    """

    def __init__(self, d: int, tol: float, n_candidates: int) -> None:
        self.tol, self.n_candidates = tol, n_candidates
        self.lo, self.hi = np.full(d, -np.inf), np.full(d, np.inf)

    @property
    def active(self) -> Int[Array, " a"]:
        """Indices of functions whose root is not yet known to the tolerance."""
        wide = self.hi - self.lo > self.tol
        return np.flatnonzero(wide & (self.lo < LAST) & (self.hi > -LAST))

    @property
    def beyond(self) -> Bool[Array, " d"]:
        """Mask of functions whose root lies outside the range searched."""
        return np.isinf(self.lo) | np.isinf(self.hi)

    def places(self) -> tuple[Int[Array, " q"], Float[Array, " q"]]:
        """Return the next batch: functions and places, ascending for each function."""
        active = self.active
        cuts = [self._cuts(float(self.lo[j]), float(self.hi[j])) for j in active]
        return np.repeat(active, self.n_candidates), np.concatenate([[], *cuts])

    def narrow(
        self,
        functions: Int[Array, " q"],
        places: Float[Array, " q"],
        positive: Bool[Array, " q"],
    ) -> None:
        """Narrow the cells by the signs at the places of a batch."""
        for j in np.unique(functions):
            cell = functions == j
            v, above = places[cell], positive[cell]
            # Read outwards from the place nearest zero, because rounding and saturation
            # can falsify a sign only far from zero.
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
        """Return the middle of each cell, or the finite end of an unbounded one."""
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
    """Return the candidates at places."""
    size = np.abs(places)
    return np.where(size <= 1.0, places, np.copysign(np.exp(size - 1.0), places))


def candidates_for(tol: float, n_batches: int) -> int:
    """Return the smallest K with which `n_batches` batches reach the tolerance."""
    ratio = 2.0 * FIRST / tol
    K = 1
    while (K - 1 or 1) * float(K + 1) ** (n_batches - 1) < ratio:
        K += 1
    return K

"""Search for the roots of many decreasing functions, from their signs or their values.

    <──────────── (lo, hi) ────────────>      K candidates cut the cell into K + 1;
       +    +    +    -    -    -    -        the signs say in which of them the root is

K = 1 is bisection. A cell that is unbounded at one end is searched outwards. Places are
on a scale that is linear near 0 and logarithmic beyond, so that the tolerance is
absolute for small roots and relative for large ones, and the first batch already spans
several orders of magnitude:

    candidate(v) = v for |v| <= 1,  ±exp(|v| - 1) otherwise

Where values are known and not only signs, the candidates stand on both sides of the
root of an interpolating polynomial, as far from it as that root is uncertain. A smooth
function takes 5 batches of 2 in place of 8 of 15. Signs alone narrow the cell in either
case, so a wrong interpolation costs a batch and never the root.

References
----------
Brent, Algorithms for Minimization without Derivatives, 1973, chapter 4: inverse
interpolation, safeguarded by bisection.
"""

import math
from collections.abc import Sequence
from typing import final

import numpy as np

from unpooled.arrays import Array, Bool, Float, Int, Shaped

# The first batch covers places up to here, candidates up to 4096: where one of N rows
# differs from all others, the root is at sqrt(N).
FIRST = 1.0 + math.log(4096.0)
# Places by which a batch moves outwards: candidates grow by e³, about 20.
_OUTWARDS = 3.0
# Most points of an interpolation, those of the smallest values.
_MOST_POINTS = 5
# The uncertainty of an interpolated root: so many times its last correction.
_CAUTION = 3.0
# Share of the tolerance by which the last candidates stand off the root.
_LAST_STEP = 0.45
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
    by_values : bool, default False
        Whether `narrow` is given values, by which the candidates are interpolated.

    Attributes
    ----------
    lo, hi : (d,) arrays
        Ends of the cells, as places; infinite until a sign on that side is known.
    known : list of dict
        Finite values by place, of each function.
    slow : (d,) array of bool
        Whether the last batch narrowed a cell little, so that the next one cuts evenly.
    """

    def __init__(
        self, d: int, tol: float, n_candidates: int, *, by_values: bool = False
    ) -> None:
        self.tol, self.n_candidates, self.by_values = tol, n_candidates, by_values
        self.lo, self.hi = np.full(d, -np.inf), np.full(d, np.inf)
        self.known: list[dict[float, float]] = [{} for _ in range(d)]
        self.slow = np.zeros(d, bool)

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
        cuts = [self._cuts(int(j)) for j in active]
        return np.repeat(active, self.n_candidates), np.concatenate([[], *cuts])

    def narrow(
        self,
        functions: Int[Array, " q"],
        places: Float[Array, " q"],
        values: Shaped[Array, " q"],
    ) -> None:
        """Narrow the cells by the functions at the places of a batch.

        `values` are the functions', or say only whether these are positive (bool).
        """
        for j in np.unique(functions):
            cell, width = functions == j, self.hi[j] - self.lo[j]
            v, above = places[cell], values[cell] > 0
            new = set(v.tolist()) - set(self.known[j])
            if self.by_values:
                known = zip(v.tolist(), values[cell].tolist(), strict=True)
                self.known[j] |= {x: f for x, f in known if math.isfinite(f)}
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
            if new:  # not a batch asked again
                little = self.hi[j] - self.lo[j] > width / 8.0
                self.slow[j] = math.isfinite(width) and little and not self.slow[j]

    def roots(self) -> Float[Array, " d"]:
        """Return the middle of each cell, or the finite end of an unbounded one."""
        lo = np.where(np.isinf(self.lo), self.hi, self.lo)
        hi = np.where(np.isinf(self.hi), self.lo, self.hi)
        return candidate((lo + hi) / 2.0)

    def _cuts(self, j: int) -> Float[Array, " k"]:
        K, lo, hi = self.n_candidates, float(self.lo[j]), float(self.hi[j])
        if math.isinf(lo) and math.isinf(hi):
            reach = 1.0 if self.by_values else FIRST
            return np.linspace(-reach, reach, K) if K > 1 else np.zeros(1)
        share = np.arange(1, K + 1) / K
        if math.isinf(hi):
            return lo + _OUTWARDS * share
        if math.isinf(lo):
            return hi - _OUTWARDS * share[::-1]
        even = lo + (hi - lo) * np.arange(1, K + 1) / (K + 1)
        if not self.by_values or self.slow[j]:
            return even
        cuts = self._about_root(j, lo, hi)
        return cuts if len(cuts) == K and lo < cuts[0] and cuts[-1] < hi else even

    def _about_root(self, j: int, lo: float, hi: float) -> Float[Array, " k"]:
        """Return candidates about the interpolated root; empty where there is none."""
        nearest = sorted(self.known[j].items(), key=lambda point: abs(point[1]))
        roots = [r for r in _interpolated(nearest[:_MOST_POINTS]) if lo < r < hi]
        if not roots:
            return np.empty(0)
        off = abs(roots[-1] - roots[-2]) if len(roots) > 1 else (hi - lo) / 8.0
        off = min(max(_CAUTION * off, _LAST_STEP * self.tol), (hi - lo) / 4.0)
        return roots[-1] + off * np.linspace(-1.0, 1.0, self.n_candidates)


def _interpolated(points: Sequence[tuple[float, float]]) -> list[float]:
    """Return the roots of the inverse interpolations of the first 2, 3, ... points."""
    roots = list[float]()
    # Neville's scheme at the value 0, a diagonal for each further point.
    before = list[float]()
    for k, (place, value) in enumerate(points):
        diagonal = [place]
        for i in range(k):
            other = points[k - 1 - i][1]
            if value == other:
                return roots
            diagonal.append((value * before[i] - other * diagonal[i]) / (value - other))
        if k:
            roots.append(diagonal[-1])
        before = diagonal
    return roots


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

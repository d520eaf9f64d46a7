"""Search for the values of given ranks, from counts of the values below candidates.

    lo ├─────┼──●──┼─────┼─────┤ hi    K candidates cut a bracket into K + 1 parts; the
       counts below each of them       counts say in which part the value lies

Counts that nobody sees are followed on two ways, and the narrower bracket with enough
values is shown. One goes on with the part that has the rank; of all parts about it, cut
in halves, quarters, ..., it gives the narrowest with `least` values (`widened`). The
other joins a part with too few values with parts beside it, and cuts what they are
together anew (`regrouped`): next to 0 in large units, where equal distances of
logarithms have few values, halves would be all positive values or all negative ones.
Where signs are seen, all parts are joined until each has no value or at least `least`
(`parted`). The lowest part has all values below it too, and the highest all above it.
Candidates stand at equal distances of φ(x) = sgn(x) log(1 + |x|), so that one value of
another order of magnitude does not make the brackets of all others wide; or, to find
values to the last digit, at equal numbers of floating-point numbers.

On the scale of φ all candidates are multiples of powers of two. Brackets of several
searches, for whatever ranks and of whatever rows, therefore have ends in common: with
other ends in each search the counts below them would be those of single values between.
"""

from dataclasses import dataclass
from typing import final

import numpy as np

from unpooled.arrays import Array, Bool, Float, Int, UInt64
from unpooled.linalg.yeo_johnson import log_size

# Relative width, on the scale of φ, of the bracket of a constant column.
_NARROWEST = 2.0**-40
# The least distance of candidates, relative to the ends of a bracket: with smaller
# steps rounding would decide where they are.
_LEAST_STEP = 2.0**-46
# A power of two, right to some digits, is just above this share of it.
_BELOW_POWER = 0.99
_SIGN = np.uint64(1 << 63)


@final
@dataclass(frozen=True)
class Brackets:
    """Half-open intervals [lo, hi), each with the value of one rank.

    Attributes
    ----------
    lo, hi : (l,) arrays
        Ends.
    below_lo, below_hi : (l,) arrays
        How many values lie below them.
    """

    lo: Float[Array, " l"]
    hi: Float[Array, " l"]
    below_lo: Float[Array, " l"]
    below_hi: Float[Array, " l"]

    def part(self, which: Int[Array, " l"]) -> "Brackets":
        """Return some of the brackets."""
        own = (self.lo, self.hi, self.below_lo, self.below_hi)
        return Brackets(*(values[which] for values in own))

    def cuts(self, K: int, *, exact: bool) -> Float[Array, "l k"]:
        """Return K ascending candidates in each bracket.

        Parameters
        ----------
        K : int
            How many.
        exact : bool
            At equal numbers of floating-point numbers, rather than distances of φ.
        """
        share = np.arange(1, K + 1)
        if exact:
            lo, hi = _ordered(self.lo), _ordered(self.hi)
            parts, rest = np.divmod(hi - lo, np.uint64(K + 1))
            steps = share.astype(np.uint64)
            places = parts[:, None] * steps
            places += rest[:, None] * steps // np.uint64(K + 1)
            return _float(lo[:, None] + places)
        lo, hi = log_size(self.lo), log_size(self.hi)
        # An end is a multiple of the step, up to rounding, which is taken away, unless
        # the bracket is one of a column that hardly varies.
        step = _power_above((hi - lo) / (K + 1) * _BELOW_POWER)
        tells = step > _LEAST_STEP * np.maximum(np.abs(lo), np.abs(hi))
        lo = np.where(tells, np.rint(lo / step) * step, lo)
        step = np.where(tells, step, (hi - lo) / (K + 1))
        return np.minimum(
            size_of_log(lo[:, None] + step[:, None] * share), self.hi[:, None]
        )

    def narrowed(
        self,
        at: Float[Array, "l k"],
        below: Float[Array, "l k"],
        rank: Float[Array, " l"],
    ) -> "Brackets":
        """Return the part of each bracket that has the rank, by the counts below."""
        return self._parts(at, below, (below < rank[:, None]).sum(axis=1), 1)

    def widened(
        self,
        at: Float[Array, "l k"],
        below: Float[Array, "l k"],
        rank: Float[Array, " l"],
        least: int,
        so_far: "Brackets",
    ) -> "Brackets":
        """Return the narrowest part of each bracket with enough values.

        Parts are cut in halves, quarters, ... by the K candidates, K + 1 a power of 2.

        Parameters
        ----------
        so_far : Brackets
            The narrowest with enough, where none of the parts has.
        """
        place, width = (below < rank[:, None]).sum(axis=1), (at.shape[1] + 1) // 2
        while width:
            part = self._parts(at, below, place // width * width, width)
            enough = part.below_hi - part.below_lo >= least
            so_far, width = so_far.replaced(part, enough), width // 2
        return so_far

    def regrouped(
        self,
        at: Float[Array, "l k"],
        below: Float[Array, "l k"],
        rank: Float[Array, " l"],
        least: int,
    ) -> "Brackets":
        """Return the part of each bracket that has the rank, with enough values.

        Where the part has too few it is joined with others, as `joined` does.
        """
        lower = (below < rank[:, None]).sum(axis=1)
        edges = np.hstack([self.below_lo[:, None], below, self.below_hi[:, None]])
        counts, width = np.diff(edges, axis=1), np.ones(len(rank), np.int64)
        few = np.flatnonzero(counts[np.arange(len(rank)), lower] < least)
        if len(few):
            first, last = joined(counts[few], least)
            part = np.arange(len(few)), lower[few]
            lower[few], width[few] = first[part], last[part] - first[part] + 1
        return self._parts(at, below, lower, width)

    def replaced(self, others: "Brackets", which: Bool[Array, " l"]) -> "Brackets":
        """Return the others in the place of some brackets."""
        own, new = vars(self), vars(others)
        return Brackets(**{name: np.where(which, new[name], own[name]) for name in own})

    def _parts(
        self,
        at: Float[Array, "l k"],
        below: Float[Array, "l k"],
        lower: Int[Array, " l"],
        width: int | Int[Array, " l"],
    ) -> "Brackets":
        """Return `width` parts of each bracket as one, from the part `lower` on."""
        edges = np.hstack([self.below_lo[:, None], below, self.below_hi[:, None]])
        ends = np.hstack([self.lo[:, None], at, self.hi[:, None]])
        rows, upper = np.arange(len(lower)), lower + width
        return Brackets(
            ends[rows, lower],
            ends[rows, upper],
            edges[rows, lower],
            edges[rows, upper],
        )

    def between(
        self,
        at: Float[Array, "l k"],
        under: Bool[Array, "l k"],
        over: Bool[Array, "l k"],
    ) -> "Brackets":
        """Return each bracket between candidates below its value and those above.

        Counts below the ends stay as they are.
        """
        K, rows = at.shape[1], np.arange(len(at))
        lower = np.where(under.any(axis=1), K - under[:, ::-1].argmax(axis=1), 0)
        upper = np.where(over.any(axis=1), over.argmax(axis=1) + 1, K + 1)
        ends = np.hstack([self.lo[:, None], at, self.hi[:, None]])
        return Brackets(
            ends[rows, lower], ends[rows, upper], self.below_lo, self.below_hi
        )

    def values(
        self,
        rank: Float[Array, " l"],
        unit: Float[Array, " l"],
        finest: Bool[Array, " l"],
        *,
        exact: bool,
    ) -> tuple[Float[Array, " l"], Float[Array, " l"]]:
        """Return the values of the ranks, and the most that each can be wrong by.

        `finest` says which brackets could not be narrower.
        """
        if exact:
            return self.lo, np.zeros(len(self.lo))
        within = np.maximum(self.below_hi - self.below_lo, 1.0)
        share = np.clip((rank - self.below_lo - 0.5) / within, 0.0, 1.0)
        width = self.hi - self.lo
        step = np.where(unit > 0, unit, 1.0)
        # In a bracket with one multiple of the unit all values are equal.
        first, last = np.ceil(self.lo / step), np.ceil(self.hi / step) - 1.0
        single = (unit > 0) & (first == last)
        value = np.where(single, first * step, self.lo + share * width)
        # Many values in a bracket that could not be narrower are mostly equal.
        value = np.where(finest & ~single, roundest(self.lo, self.hi), value)
        return value, np.where(single, 0.0, width)


def first_brackets(
    centre: Float[Array, " l"],
    spread: Float[Array, " l"],
    rank: Float[Array, " l"],
    size: Float[Array, " l"],
    n_values: Float[Array, " l"],
    *,
    exact: bool,
) -> Brackets:
    """Return intervals that contain the values of the ranks, by Markov's inequality.

    Of N values whose mean square distance of φ from the centre is at most s², at most
    N s² / d² lie at a distance of d or more. As many as the rank lie at or below its
    value, and the rest at or above it, so that it lies within s sqrt(N / k). The
    interval is four times the power of two above this.

    Parameters
    ----------
    centre, spread : (l,) arrays
        Of φ, the place and s.
    rank : (l,) array
        From 1 for the smallest of the values that are ranked.
    size : (l,) array
        How many are ranked, of the N.
    n_values : (l,) array
        N.
    exact : bool
        Return all floating-point numbers: ends must not depend on the machine.
    """
    if exact:
        most = np.full(len(rank), np.finfo(float).max)
        return Brackets(-most, most, np.zeros(len(rank)), size)
    s = np.maximum(spread, _NARROWEST * np.maximum(np.abs(centre), 1.0))
    fewer = np.maximum(np.minimum(rank, size + 1.0 - rank), 1.0)
    reach = s * np.sqrt(np.maximum(n_values, 1.0) / fewer)
    unit = _power_above(reach)
    first = np.floor((centre - reach) / unit) * unit
    lo, hi = size_of_log(first), size_of_log(first + 4.0 * unit)
    return Brackets(lo, hi, np.zeros(len(rank)), size)


def _power_above(x: Float[Array, " l"]) -> Float[Array, " l"]:
    """Return the smallest power of two above each number; the same on any machine."""
    return np.ldexp(1.0, np.frexp(x)[1])


def roundest(lo: Float[Array, " l"], hi: Float[Array, " l"]) -> Float[Array, " l"]:
    """Return a number of each interval [lo, hi) with the fewest decimal digits."""
    largest = np.maximum(np.maximum(np.abs(lo), np.abs(hi)), 1e-290)
    top = np.ceil(np.log10(largest))
    found, open_ = np.where((lo <= 0) & (hi > 0), 0.0, lo), (lo > 0) | (hi <= 0)
    for digits in range(17):
        power = 10.0 ** np.abs(digits - top)
        inverse = digits < top
        # The branch that is not taken may overflow, for brackets that are still wide.
        with np.errstate(over="ignore"):
            scaled = np.ceil(np.where(inverse, lo / power, lo * power))
            number = np.where(inverse, scaled * power, scaled / power)
        inside = open_ & (number >= lo) & (number < hi)
        found, open_ = np.where(inside, number, found), open_ & ~inside
    return found


def counts_below(x: Float[Array, " n"], at: Float[Array, "l k"]) -> Float[Array, "l k"]:
    """Return how many of the values lie below each candidate; NaN count nowhere."""
    ordered = np.sort(x[~np.isnan(x)])
    return np.searchsorted(ordered, at, side="left").astype(float)


def joined(
    counts: Float[Array, "l m"], least: int
) -> tuple[Int[Array, "l m"], Int[Array, "l m"]]:
    """Return which parts each part is joined with, to have enough values together.

    A part with `least` values stays alone. Parts between two such are joined from the
    lowest until they have as many, and the rest with those before it. Where all of them
    have too few, they are joined with one that has enough beside them: the one with
    fewer values.

    Parameters
    ----------
    counts : (l, K + 1) array
        How many values each part has.
    least : int
        How many are enough.

    Returns
    -------
    first, last : (l, K + 1) arrays
        Ends of the parts that each is joined with.
    """
    n, m = counts.shape
    place = np.arange(m)
    alone = counts >= least
    first, last = np.tile(place, (n, 1)), np.tile(place, (n, 1))
    # For the parts that are being joined: where each begins, where the one before it
    # begins, and how many values it has.
    begin, before = np.zeros(n, np.int64), np.full(n, -1)
    size = np.zeros(n)
    for j in range(m + 1):
        ends = alone[:, j] if j < m else np.ones(n, bool)
        few = (size < least) & (begin < j)
        # The rest of some parts goes to those before it.
        begin = np.where(ends & few & (before >= 0), before, begin)
        of_group = (place >= begin[:, None]) & (place < j)
        whole = of_group & (ends | (size >= least))[:, None]
        first = np.where(whole, begin[:, None], first)
        last = np.where(whole, j - 1, last)
        # All of them have too few: with what stands beside them.
        lone = ends & few & (before < 0)
        left = np.where(begin > 0, counts[np.arange(n), begin - 1], np.inf)
        right = counts[:, j] if j < m else np.full(n, np.inf)
        to_left = lone & np.isfinite(left) & (left <= right)
        to_right = lone & np.isfinite(right) & (right < left)
        first -= of_group & to_left[:, None]
        last += of_group & to_right[:, None]
        if j == m:
            break
        full = size >= least
        before = np.where(ends, -1, np.where(full, begin, before))
        begin = np.where(ends, j + 1, np.where(full, j, begin))
        size = np.where(ends, 0.0, np.where(full, 0.0, size) + counts[:, j])
    return first, last


def parted(counts: Float[Array, "l m"], least: int) -> Bool[Array, "l k"]:
    """Return which ends of parts stay when parts are joined.

    Parameters
    ----------
    counts : (l, K + 1) array
        How many values each part has.
    least : int
        Joined parts have no value, or at least so many.

    Returns
    -------
    (l, K) array of bool
        For each but the last part whether its upper end stays.
    """
    if least <= 1:
        return np.ones((len(counts), counts.shape[1] - 1), bool)
    after = np.cumsum(counts[:, ::-1], axis=1)[:, ::-1]
    before = np.zeros(len(counts))
    stays = np.zeros((len(counts), counts.shape[1] - 1), bool)
    for j in range(stays.shape[1]):
        before = before + counts[:, j]
        rest = after[:, j + 1]
        enough = (before == 0) | (before >= least)
        stays[:, j] = enough & ((rest == 0) | (rest >= least))
        before = np.where(stays[:, j], 0.0, before)
    return stays


def lerp(
    low: Float[Array, "..."], high: Float[Array, "..."], share: Float[Array, "..."]
) -> Float[Array, "..."]:
    """Interpolate between two values, with the rounding of NumPy's quantiles."""
    difference = high - low
    near = low + difference * share
    return np.where(share >= 0.5, high - difference * (1.0 - share), near)


def size_of_log(phi: Float[Array, "..."]) -> Float[Array, "..."]:
    """Return x with φ(x), the inverse of `log_size`; finite."""
    # Beyond 709 e^|φ| overflows.
    return np.copysign(np.expm1(np.minimum(np.abs(phi), 709.0)), phi)


def _ordered(x: Float[Array, "..."]) -> UInt64[Array, "..."]:
    """Return whole numbers that are ordered as the floating-point numbers are."""
    bits = np.ascontiguousarray(x).view(np.uint64)
    return np.where(bits & _SIGN, ~bits, bits | _SIGN)


def _float(places: UInt64[Array, "..."]) -> Float[Array, "..."]:
    bits = np.where(places & _SIGN, places & ~_SIGN, ~places)
    return np.ascontiguousarray(bits).view(np.float64)

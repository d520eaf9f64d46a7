"""Quantiles of all columns with differential privacy, in one round.

    silos <── centre, scale, norm, ε, δ ──  cells in parts of a public range
    silos ── N, counts of parts at six widths; discrete Gaussian noise ──> counts
    solve   counts of the finest parts by least squares, quantiles along their sums

The range of a column is its public centre ± row_norm times its public scale. Its parts
are halved twice from level to level, 4, 16, ..., 4096, so that the values below any
point are the sum of a few counts (Hay et al. 2010). A value beyond the range counts in
its outermost part; a missing cell counts in none.

Sensitivity. A row adds the whole number w to one part of each of p columns at each of 6
levels, and nothing else: a vector of length ``w sqrt(6 p)``, which is at most L for ``w
= floor(L / sqrt(6 p))``. Which parts these are depends on the row and on public numbers
alone. Of the cost 3 % is spent on the number of rows.

Consistent counts. Each part is the sum of the four that it consists of. Of counts with
independent noise of one variance the least squares estimate has the least variance of
all linear unbiased ones; one pass up and one down compute it (Hay et al., theorem 3),
here for four trees beside each other. Sums of it are made monotone as the mean of their
running maximum and of their running minimum from the right.

Intervals. The rank of a point has the variance ``M q (1 - q)`` of sampling M values and
that of the noise in the sum below it, ``σ² cᵀ (AᵀA)⁻¹ c`` for the levels' counting
matrix A and weights ``c = 1[part is below] - q``, which is computed and not bounded.
The interval holds the points whose ranks are within 1.96 deviations: no density is
estimated.

References
----------
Hay, Rastogi, Miklau and Suciu, Boosting the accuracy of differentially private
histograms through consistency, PVLDB 3 (2010). Woodruff, Confidence intervals for
medians and other position measures, JASA 47 (1952), for intervals by ranks.
"""

import math
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.models.private_rows import (
    POINT,
    Clipping,
    check_single_round,
    checked_count,
    checked_point,
    deviation_of,
    in_units,
    noisy_count,
    promise,
)
from unpooled.protocol.bounds import LATTICE, Counts
from unpooled.protocol.refusal import Refusal
from unpooled.protocol.step import public, release, summed
from unpooled.results.citations import Citation
from unpooled.secure.noise import GaussianPrivacy, Noise, is_norm

_FANOUT, _LEVELS = 4, 6
_SIZES = [_FANOUT ** (level + 1) for level in range(_LEVELS)]
# Parts of all levels, one behind the other, and those of the finest.
_PARTS, _FINEST = sum(_SIZES), _SIZES[-1]
_NORMAL = 1.96
CITATION = Citation(
    "Quantiles of all rows were found from counts of values in parts of public ranges, "
    "with random noise for differential privacy.",
    (
        "Hay M, Rastogi V, Miklau G, Suciu D. Boosting the accuracy of differentially "
        "private histograms through consistency. Proceedings of the VLDB Endowment "
        "2010; 3: 1021-1032.",
    ),
    False,
)


def _weight(p: int) -> float:
    """Return w, the whole number that a row adds to each of its parts.

    Raises
    ------
    Refusal
        As "arguments", of so many columns that it would be 0.
    """
    weight = math.floor(LATTICE / math.sqrt(_LEVELS * p))
    if weight < 1:
        raise Refusal("arguments")
    return float(weight)


@summed(
    takes={
        "centre": POINT,
        "scale": public("p", "the public units in which columns are measured"),
    },
    count=noisy_count(0.03),
    parts=release(
        f"p {_PARTS}",
        bound=Counts(),
        noise=Noise(LATTICE, 0.97),
        meaning="how many values of each column lie in each part of a public range, at "
        "six widths, times a public whole number, with noise",
    ),
)
def local_private_parts(
    X: Float[Array, "n p"], *, clipping: Clipping, scale: Float[Array, " p"]
) -> dict[str, Any]:
    """Return exact counts; the silo adds the declared noise to them."""
    p, row_norm = X.shape[1], clipping.row_norm
    weight = _weight(p)
    if not is_norm(row_norm, np.zeros(p)):
        raise Refusal("arguments")
    cells = in_units(X, clipping.centre, scale)
    with np.errstate(all="ignore"):
        places = np.floor((cells / row_norm + 1.0) * (_FINEST / 2))
    # No refusal may depend on a row: an infinite cell lies beyond the range.
    places = np.clip(places, 0, _FINEST - 1)
    parts = np.empty((p, _PARTS))
    for own, column in zip(parts, places.T, strict=True):
        inside = column[~np.isnan(column)].astype(np.intp)
        counts = np.bincount(inside, minlength=_FINEST)
        levels = [counts.reshape(size, -1).sum(axis=1) for size in _SIZES]
        own[:] = np.concatenate(levels)
    return {"count": np.array(len(X) * LATTICE), "parts": weight * parts}


@final
@dataclass(frozen=True, eq=False)
class PrivateQuantiles:
    """Quantiles from counts with noise.

    Attributes
    ----------
    values : (r, p) array
        Quantiles of each column.
    widths : (p,) array
        Widths of the finest parts of each column's range.
    intervals : (2, r, p) array
        Lower and upper ends at 95 %, of sampling and noise together.
    privacy : dict
        Its parameters and cost: `privacy_`.
    """

    values: Float[Array, "r p"]
    widths: Float[Array, " p"]
    intervals: Float[Array, "2 r p"]
    privacy: dict[str, Any]


def private_quantiles(
    model: Any, federation: Federation, probabilities: Float[Array, " r"]
) -> PrivateQuantiles:
    """Return quantiles of all columns, from one round with noise.

    Parameters
    ----------
    model : estimator
        With the parameters `privacy`, `comparison` and `decimals`.
    federation : Federation
        Its columns are counted.
    probabilities : (r,) array
        Probabilities of the quantiles.

    Raises
    ------
    DataError
        Where the noise is as large as the number of rows, or of a column's values.
    """
    name, privacy = type(model).__name__, GaussianPrivacy.of(model.privacy)
    check_single_round(privacy, name)
    if model.comparison != "summed" or model.decimals is not None:
        raise DataError(
            f"With privacy a {name} counts values in parts of a public range: leave "
            f"comparison and decimals at their defaults."
        )
    step, p = local_private_parts, federation.n_features
    centre, unit = checked_point(privacy, federation, step)
    clipping = Clipping.of(privacy, centre)
    totals = federation.sum(step, scale=unit, **vars(clipping))
    N = checked_count(totals)
    deviation = deviation_of(step, "parts", clipping.rho, federation) / _weight(p)
    below = _below(totals["parts"] / _weight(p))
    if empty := [
        column
        for column, M in zip(federation.feature_names, below[:, -1], strict=True)
        if not M > 0.0
    ]:
        raise DataError(
            f"The noise is as large as the number of values in {', '.join(empty)}. Ask "
            f"for a larger epsilon, or more rows."
        )
    federation.coordinator.notes.append(_what_is_seen(N, deviation, name, privacy))
    found = np.empty((3, len(probabilities), p))
    for i, q in enumerate(probabilities.tolist()):
        for j, sums in enumerate(below):
            found[:, i, j] = _quantile_and_interval(sums, q, deviation)
    # From places in the range, 0 to 1, to the columns' units.
    reach = privacy.row_norm * unit
    values = centre + reach * (2.0 * found - 1.0)
    return PrivateQuantiles(
        values=values[0],
        widths=2.0 * reach / _FINEST,
        intervals=values[1:],
        privacy=promise(privacy, federation),
    )


def _below(parts: Float[Array, "p b"]) -> Float[Array, "p f"]:
    """Return monotone numbers of values up to the upper end of each finest part."""
    sums = np.cumsum(_consistent(parts), axis=1)
    rising = np.maximum.accumulate(sums, axis=1)
    falling = np.minimum.accumulate(sums[:, ::-1], axis=1)[:, ::-1]
    # At the last part a running maximum lies above the total.
    return np.clip(0.5 * (rising + falling), 0.0, sums[:, -1:])


def _consistent(parts: Float[Array, "p b"]) -> Float[Array, "p f"]:
    """Return the least squares estimate of the counts of the finest parts.

    Sums of four are written out: NumPy's would be added in another order on other
    processors, and silos that follow compare bits.
    """
    ends = np.cumsum(_SIZES)[:-1].tolist()
    levels = np.split(parts, ends, axis=1)
    # Up: of each part the best estimate from itself and all that it consists of.
    for level in range(_LEVELS - 2, -1, -1):
        height = _LEVELS - level
        leaves = float(_FANOUT ** (height - 1))
        own = (_FANOUT - 1.0) * leaves / (_FANOUT * leaves - 1.0)
        within = _of_four(levels[level + 1])
        levels[level] = own * levels[level] + (1.0 - own) * within
    # Down: what is missing in a part is divided among its four.
    for level in range(1, _LEVELS):
        rest = levels[level - 1] - _of_four(levels[level])
        levels[level] = levels[level] + np.repeat(rest / _FANOUT, _FANOUT, axis=1)
    return levels[-1]


def _of_four(level: Float[Array, "p b"]) -> Float[Array, "p c"]:
    first, second, third, fourth = (level[:, i::_FANOUT] for i in range(_FANOUT))
    return (first + second) + (third + fourth)


def _quantile_and_interval(
    below: Float[Array, " f"], q: float, deviation: float
) -> tuple[float, float, float]:
    """Return the place of a quantile in the range, and of the ends of its interval."""
    M = float(below[-1])
    target = q * M
    part = min(int(np.searchsorted(below, target)), _FINEST - 1)
    spread = math.sqrt(
        M * q * (1.0 - q) + deviation**2 * _variance_of_rank(part + 1, q)
    )
    ends = (target - _NORMAL * spread, target + _NORMAL * spread)
    low, high = (_place(below, min(max(end, 0.0), M)) for end in ends)
    return _place(below, target), low, high


def _place(below: Float[Array, " f"], rank: float) -> float:
    """Return where in the range, from 0 to 1, as many values lie below."""
    part = min(int(np.searchsorted(below, rank)), _FINEST - 1)
    before = float(below[part - 1]) if part else 0.0
    within = float(below[part]) - before
    share = (rank - before) / within if within > 0.0 else 0.0
    return (part + share) / _FINEST


def _variance_of_rank(n_below: int, q: float) -> float:
    """Return the variance of the values below minus q times all, for noise of 1.

    The estimate of counts of which all but the finest are 0 is ``(AᵀA)⁻¹`` times these.
    """
    weights = (np.arange(_FINEST) < n_below) - q
    observed = np.concatenate([np.zeros(_PARTS - _FINEST), weights])
    return float(weights @ _consistent(observed[None])[0])


def _what_is_seen(N: int, deviation: float, name: str, privacy: GaussianPrivacy) -> str:
    """Return a sentence on how far noise moves a quantile."""
    # Two parts at every level: the most that the noise can do near the median.
    rank = deviation * math.sqrt(_variance_of_rank(2 * _FINEST // 3, 0.5))
    return (
        f"{name} with noise: with {N:,} rows and ε = {privacy.epsilon:.3g} the median "
        f"of a column without missing cells lies between its {_near(rank, N, -1)} and "
        f"{_near(rank, N, 1)} % quantiles in 95 of 100 cases, by the noise alone."
    )


def _near(rank: float, N: int, side: int) -> str:
    share = 50.0 + 100.0 * side * _NORMAL * rank / N
    return f"{min(max(share, 0.0), 100.0):.3g}"

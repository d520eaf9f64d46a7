"""Quantiles of columns by secure comparisons: nothing but signs is opened.

    silos ── counts, and by comparisons centre and spread of φ ──> first brackets
    level by level
      has each part of a bracket few values? has it any?   ──> candidates that may stand
      do fewer values lie below a candidate than the rank? ──> narrower brackets

Which parts have values enough is compared first, so that no sign places a quantile in a
part with fewer than `least`. Centre and spread come from the comparisons of the power
transform (`unpooled.models.preprocessing.signs_in_secret`).
"""

from typing import Any

import numpy as np

from unpooled.arrays import Array, Bool, Float, Int
from unpooled.federation.federation import Federation
from unpooled.linalg.rank_search import Brackets, counts_below, parted
from unpooled.models.description.column_quantiles import LEAST, QuantileSearch, levels
from unpooled.models.moments import OBSERVED
from unpooled.models.preprocessing.signs_in_secret import COLUMN, SignsInSecret
from unpooled.protocol.step import Polynomial, compared, public, release

# A count less a rank or another number, which lies a half from any count.
_FEWER = Polynomial({("fewer",): 1.0}, {"fewer": 1}, fraction=20, bits=63)
# Every value lies between them, and a candidate is no larger.
_MOST = float(np.finfo(float).max)
# Levels of eight parts: 2^-12 of the first brackets.
_LEVELS = 4


@compared(
    _FEWER,
    takes={
        "count": OBSERVED,
        "column": COLUMN,
        "lo": public("l", "where a part of a quantile's bracket begins"),
        "hi": public("l", "where it ends"),
        "least": LEAST,
        "single": public("l", "whether one value is enough"),
    },
    searches=True,
    few=release("l", meaning="whether few values, or none, lie in a part of a bracket"),
)
def compared_parts(
    X: Float[Array, "n p"],
    *,
    count: Float[Array, " p"],
    column: Int[Array, " l"],
    lo: Float[Array, " l"],
    hi: Float[Array, " l"],
    least: Any,
    single: Int[Array, " l"],
) -> dict[str, Any]:
    """Return the silo's parts of counts, less the number that is enough."""
    enough = np.where(single > 0, 1.0, float(least))
    inside = _below(X, column, hi) - _below(X, column, lo)
    return {"fewer": inside - _part_of(enough - 0.5, X, count, column)}


@compared(
    _FEWER,
    takes={
        "count": OBSERVED,
        "column": COLUMN,
        "at": public("l", "candidates for quantiles"),
        "rank": public("l", "the rank of each value that is searched"),
        "least": LEAST,
    },
    searches=True,
    over=release(
        "l", meaning="whether fewer values lie below a candidate than a rank says"
    ),
)
def compared_ranks(
    X: Float[Array, "n p"],
    *,
    count: Float[Array, " p"],
    column: Int[Array, " l"],
    at: Float[Array, " l"],
    rank: Float[Array, " l"],
    least: Any,
) -> dict[str, Any]:
    """Return the silo's parts of counts below candidates, less ranks."""
    below = _below(X, column, at)
    return {"fewer": below - _part_of(rank - 0.5, X, count, column)}


def compared_quantiles(
    federation: Federation,
    probabilities: Float[Array, " r"],
    *,
    units: Float[Array, " p"],
    least: int,
    inward: bool = False,
) -> tuple[Float[Array, "p r"], Float[Array, "p r"]]:
    """Return quantiles and their errors, both -1 where too few values lie beyond.

    Raises
    ------
    ReleaseRefusedError
        Where a silo's policy asks for a larger `least`.
    """
    columns = SignsInSecret().references(federation)
    count = columns.count.astype(float)
    search = QuantileSearch.of(
        count[None],
        count,
        columns.centre,
        columns.spread,
        probabilities=probabilities,
        units=units,
        least=least,
        inward=inward,
    )
    # No sign is learned of what has too few values at or beyond it.
    sought = np.flatnonzero(np.repeat(search.valid.ravel(), 2))
    column = np.repeat(np.arange(len(count)), 2 * len(probabilities))
    brackets = search.first
    depth = levels(least)[1] if least <= 1 else _LEVELS
    for _ in range(depth if len(sought) else 0):
        at = search.cuts([brackets])
        stays = np.zeros(at.shape, bool)
        stays[sought] = _parts(
            federation, count, column[sought], brackets.part(sought), at[sought], least
        )
        which, place = np.nonzero(stays)
        under = np.zeros(at.shape, bool)
        if len(which):
            under[which, place] = federation.compare(
                compared_ranks,
                count=count,
                column=column[which],
                at=at[which, place],
                rank=search.rank[which],
                least=least,
            )
        brackets = brackets.between(at, stays & under, stays & ~under)
    # Nobody knows the counts at the ends: a value is taken from the middle.
    middle = Brackets(brackets.lo, brackets.hi, search.rank - 1.0, search.rank)
    value, error = search.quantiles(middle, depth)
    return value[0], error[0]


def _parts(
    federation: Federation,
    count: Float[Array, " p"],
    column: Int[Array, " l"],
    brackets: Brackets,
    at: Float[Array, "l k"],
    least: int,
) -> Bool[Array, "l k"]:
    """Return which candidates stay, so that joined parts have values enough or none."""
    if least <= 1:
        return np.ones(at.shape, bool)
    # The two values of a quantile mostly have one bracket, which is asked about once.
    _, asked, again = np.unique(
        np.stack([column, brackets.lo, brackets.hi]),
        axis=1,
        return_index=True,
        return_inverse=True,
    )
    at, column = at[asked], column[asked]
    # The outer parts have all values beyond them too.
    lo = np.hstack([np.full((len(at), 1), -_MOST), at])
    hi = np.hstack([at, np.full((len(at), 1), _MOST)])
    few = federation.compare(
        compared_parts,
        count=count,
        column=np.tile(np.repeat(column, lo.shape[1]), 2),
        lo=np.tile(lo.ravel(), 2),
        hi=np.tile(hi.ravel(), 2),
        least=least,
        single=np.repeat([0, 1], lo.size),
    ).reshape(2, *lo.shape)
    # Some parts with few values are not taken for one with enough.
    counts = np.where(few[1], 0.0, np.where(few[0], least / (2.0 * lo.shape[1]), least))
    return parted(counts, least)[again.ravel()]


def _below(
    X: Float[Array, "n p"], column: Int[Array, " l"], at: Float[Array, " l"]
) -> Float[Array, " l"]:
    """Return how many values of its column lie below each candidate."""
    below = np.zeros(len(column))
    for j in np.unique(column):
        own = column == j
        below[own] = counts_below(X[:, j], at[own])
    return below


def _part_of(
    number: Float[Array, " l"],
    X: Float[Array, "n p"],
    count: Float[Array, " p"],
    column: Int[Array, " l"],
) -> Float[Array, " l"]:
    """Return the silo's part of a number: it adds over rows, as counts do."""
    own = (~np.isnan(X)).sum(axis=0)
    return number * own[column] / count[column]

"""Bins of a column: where they end, and which value lies in which."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from unpooled.arrays import Array, Float, Int
from unpooled.errors import DataError
from unpooled.protocol.step import public

_NARROWEST, _ROUNDING = 1e-6, 1e-6
# Takes of a step on bins. Its setting is "edges": a silo answers about a column for one
# set of edges, whichever model asks.
EDGES = {
    "edges": public("k p", "the values at which each column is cut into bins"),
    "cuts": public("k p", "1 for each of these that is used, 0 for one that is not"),
}


def cuts_of(
    edges: Sequence[Float[Array, " _"]], most: int
) -> tuple[Float[Array, "k p"], Int[Array, "k p"]]:
    """Return the edges between bins, as many for each column, and which are used.

    Parameters
    ----------
    edges : sequence of arrays
        Edges of each column, ascending, with the outermost two.
    most : int
        k, whatever the columns are, so that a column's are the same in any view.
    """
    shape = (most, len(edges))
    found, used = np.zeros(shape), np.zeros(shape, np.int64)
    for j, own in enumerate(edges):
        between = own[1:-1]
        found[: len(between), j], used[: len(between), j] = between, 1
    return found, used


def bin_numbers(
    X: Float[Array, "n p"], edges: Float[Array, "k p"], cuts: Int[Array, "k p"]
) -> Float[Array, "n p"]:
    """Return how many used edges are at or below each cell; 0 for NaN."""
    found = np.zeros(X.shape)
    for edge, used in zip(edges, cuts, strict=True):
        found += (edge <= X) & (used == 1)
    return found


def ends_of(ranges: Any, names: Sequence[str]) -> Float[Array, "2 p"]:
    """Return the lowest and the highest edge of each column.

    Raises
    ------
    DataError
        Where `ranges` has not two ascending finite numbers for each column.
    """
    try:
        ends = np.array([[float(x) for x in ranges[name]] for name in names]).T
    except (KeyError, TypeError, ValueError):
        ends = np.zeros((0, 0))
    good = isinstance(ranges, Mapping) and set(ranges) == set(names)
    if not good or ends.shape != (2, len(names)) or not (ends[0] < ends[1]).all():
        raise DataError(
            f"ranges={ranges!r}; give the lowest and the highest edge of each column, "
            f'such as {{"{names[0]}": [0, 100]}}.'
        )
    if not np.isfinite(ends).all():
        raise DataError("ranges has an edge that is infinite.")
    return ends


def round_edges(
    low: float, high: float, bins: int, unit: float = 0.0
) -> Float[Array, " e"]:
    """Return edges at multiples of 1, 2, 2.5 or 5 times a power of ten.

    They cover from `low` to `high` with at most ``bins + 1`` bins; for ends that are
    equal to six digits there is one bin, with infinite edges. Where values are
    multiples of a `unit`, so are widths, and bins of one unit have its multiples in
    their middle.
    """
    if not high - low > _NARROWEST * max(abs(low), abs(high)):
        return np.array([-np.inf, np.inf])
    least = max((high - low) / bins, unit)
    leadings = (1.0, 2.0, 5.0, 10.0) if unit > 0.0 else (1.0, 2.0, 2.5, 5.0, 10.0)
    # The power is read from the decimal form, which is the same on every processor;
    # logarithms are not.
    power = int(f"{least:e}".partition("e")[2])
    # A power below zero is a divisor: 3 / 10 is 0.3, and 3 * 0.1 is not.
    scale = 10.0 ** abs(power)

    def of_scale(x: Any) -> Any:
        return x * scale if power >= 0 else x / scale

    enough = least * (1.0 - 1e-9)
    leading = next(one for one in leadings if of_scale(one) >= enough)
    step = of_scale(leading)
    # Quotients are at most 2e8 for 200 bins, and right to 1e-7.
    first = np.floor(low / step + _ROUNDING)
    last = max(np.ceil(high / step - _ROUNDING), first + 1)
    shift = 0.0
    if unit > 0.0:
        # A value at the last edge would be in a bin with one value more than others.
        last = np.floor(high / step + _ROUNDING) + 1
        shift = 0.5 if step <= unit else 0.0
    return of_scale((np.arange(first, last + 1) - shift) * leading)

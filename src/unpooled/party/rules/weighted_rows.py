"""Leverage of rows with weights: sums of which one row is nearly all of a direction.

Weights of a regression are functions of arguments and of columns, and may leave few
rows, or one: the mean of a count grows exponentially with an offset, and the variance
of a class vanishes far from the border; the terms of a score are such weights too
(`models/extrapolation.py`). So their leverage is judged for every request, unlike that
of rows as they are, and from the rows that the step itself multiplied:

    block by block   products G of all rows so far, and those rows whose leverage
                     w' G^-1 w is above the limit, a few; further rows can only lower it
    at the end       a row that is still above it: refused
    of folds         Σ over all rows - Σ over some: in each part by which selections
                     differ no row has nearly the whole weight

A part has few rows of a silo. Directions are not judged there, as of 12 rows with ten
columns one always carries some direction; but where one has nearly the whole weight,
the sum over the part is this row's record, whatever the columns are.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, final

import numpy as np

from unpooled.arrays import Array, Float, Int
from unpooled.data.columns import listing
from unpooled.linalg.leverage import largest_leverage, row_squares
from unpooled.protocol.declaration import Weighed, totals_of
from unpooled.protocol.refusal import Refusal
from unpooled.protocol.shared_blocks import MOST_BLOCKS
from unpooled.protocol.step import Step

# Ratio of eigenvalues below which products of rows do not tell leverages.
_LEAST_VALUE = 1e-9

Found = Mapping[str, Any]


@final
class WeightedRows:
    """Judges the rows with weights that one run of a step adds.

    Parameters
    ----------
    step : Step
        Whose sums are of rows with weights.
    limit : float
        Largest leverage of a row, below 1.
    columns : sequence of str, optional
        Names of those behind the intercept, and of others after them, for the silo's
        own log.
    """

    def __init__(self, step: Step, limit: float, columns: Sequence[str] = ()) -> None:
        self._limit, self._columns = limit, columns
        self._names = [name for name, one in step.declared.items() if one.weighed]
        # By the name of the sum, and which set of weights it is.
        self._sums: dict[tuple[str, int], _Sum] = {}

    def totals(self, found: Found) -> dict[str, Any]:
        """Return the sums of a block's arrays, and judge its rows among those before.

        Parameters
        ----------
        found : mapping of str to array or Weighed
            What the step returned of the block.
        """
        if not all(isinstance(found.get(name), Weighed) for name in self._names):
            raise Refusal("declaration")
        for key, rows, products in _sets(found):
            if key not in self._sums:
                period = found[key[0]].period or rows.shape[1]
                self._sums[key] = _Sum(rows.shape[1], period)
            self._sums[key].add(rows, products, self._limit)
        return totals_of(found)

    def check(self, again: Callable[[], Iterator[Found]]) -> None:
        """Refuse where one row is nearly all of a direction of a sum.

        Parameters
        ----------
        again : callable
            Returns what the step makes of every block once more, for the sums whose
            products are too few digits.
        """
        # Beyond the range of numbers, which is further than a total reaches.
        if not all(np.isfinite(one.products).all() for one in self._sums.values()):
            raise Refusal("weighted_rows")
        for key, one in self._sums.items():
            p = len(one.products)
            # With as many columns as rows every leverage is 1, whatever the weights.
            if p + 1 >= one.n_rows:
                continue
            if one.alone is None:
                rows = partial(_once_more, again, key)
                found = largest_leverage(rows, one.n_rows, p, self._limit)
                refused = found.at_least > self._limit
            else:
                refused = len(one.alone) > 0
            if refused:
                raise Refusal("weighted_rows", self._explained(one))

    def _explained(self, one: "_Sum") -> str:
        """Return a sentence on the columns that a row makes up half or more of."""
        if one.alone is None or not self._columns:
            return ""
        most = np.square(one.alone).max(axis=0, initial=0.0)
        places = np.flatnonzero(2.0 * most > one.products.diagonal()) % one.period
        named = [self._columns[place - 1] for place in {*places.tolist()} - {0}]
        return f"Here of {listing(sorted(named))}." if named else ""


def check_parts(
    step: Step, limit: float, parts: Iterable[tuple[Int[Array, "..."], Found]]
) -> None:
    """Refuse where one row of a part has nearly the whole weight of a sum over it.

    Parameters
    ----------
    step : Step
        Whose sums are of rows with weights.
    limit : float
        Largest share of a row, below 1.
    parts : iterable of (array, mapping)
        What the step returned of some rows, and the number of the part that each of
        them is in, or all of them.
    """
    shares = dict[tuple[str, int], tuple[Array, Array]]()
    for numbers, found in parts:
        for key, rows, _ in _sets(found):
            # An intercept's column, a one, has the weights, of which a sum of products
            # has the roots.
            of = found[key[0]]
            power = 2 if of.squares or step.declared[key[0]].symmetric else 1
            own = np.abs(rows[:, :: of.period or rows.shape[1] or 1]) ** power
            if key not in shares:
                nothing = np.zeros((MOST_BLOCKS, own.shape[1]))
                shares[key] = nothing, nothing.copy()
            (largest, total), at = shares[key], np.broadcast_to(numbers, len(rows))
            np.maximum.at(largest, at, own)
            np.add.at(total, at, own)
    for largest, total in shares.values():
        # What is beyond the range of numbers is no share.
        if not (np.isfinite(total) & (largest <= limit * total)).all():
            raise Refusal("weighted_rows")


def rows_weighed(found: Found) -> set[int]:
    """Return how many rows the sets of a step's arrays have."""
    return {len(rows) for _, rows, _ in _sets(found)}


@final
class _Sum:
    """The rows of one set of weights, as far as they were read.

    Attributes
    ----------
    n_rows : int
        Their number.
    period : int
        After how many columns the next intercept's stands.
    products : (p, p) array
        Products of their columns.
    alone : (l, p) array or None
        Those whose leverage among them is above the limit; None where the products did
        not tell.
    """

    def __init__(self, p: int, period: int) -> None:
        self.n_rows, self.period, self.products = 0, period, np.zeros((p, p))
        self.alone: Array | None = np.zeros((0, p))

    def add(
        self, rows: Float[Array, "n p"], products: Float[Array, "p p"], limit: float
    ) -> None:
        self.n_rows += len(rows)
        self.products += products
        if self.alone is not None:
            # Those of the first block are all that there are, as a rule.
            rows = np.concatenate([self.alone, rows]) if len(self.alone) else rows
            self.alone = _above(limit, rows, self.products)


def _sets(found: Found) -> Iterator[tuple[tuple[str, int], Array, Array]]:
    """Yield each set of rows with its key, and the products of its columns."""
    for name, value in found.items():
        if isinstance(value, Weighed):
            products = value.products or [rows.T @ rows for rows in value.rows]
            for i, (rows, G) in enumerate(zip(value.rows, products, strict=True)):
                yield (name, i), rows, G


def _once_more(
    again: Callable[[], Iterator[Found]], key: tuple[str, int]
) -> Iterator[Array]:
    name, i = key
    return (found[name].rows[i] for found in again())


def _above(
    limit: float, rows: Float[Array, "n p"], G: Float[Array, "p p"]
) -> Float[Array, "l p"] | None:
    """Return the rows of a leverage above a limit, by the products of all rows.

    None where these are of columns that depend on each other, up to rounding.
    """
    some = G.diagonal() > 0.0
    if not some.any():
        return rows[:0]
    if not np.isfinite(G).all():
        return None
    unit = np.sqrt(G.diagonal()[some])
    R = G[np.ix_(some, some)] / unit / unit[:, None]
    values = np.linalg.eigvalsh(R)
    if not values[0] > _LEAST_VALUE * values[-1]:
        return None
    # Most rows are cleared by their sizes alone, which is cheaper.
    share = np.divide(1.0, G.diagonal(), out=np.zeros(len(G)), where=some)
    high = np.flatnonzero(np.square(rows) @ share > limit * values[0])
    if not len(high):
        return rows[:0]
    values, vectors = np.linalg.eigh(R)
    mapped = rows[np.ix_(high, some)] / unit @ (vectors / np.sqrt(values))
    return rows[high[row_squares(mapped) > limit]]

"""Derived columns in which few rows of the silo differ from all others.

A product with a column that only two people have a 1 in has these two people's values
and zeros, and its sum and sum of squares are two equations for them. Whoever writes a
text can make such columns at will, so a silo answers about none in which fewer than
`min_rows_per_class` of its rows, but some, have another value than the usual one.

A ratio with a column that is next to 0 for one person is that person's value, and that
of several columns is the record. So a silo answers about no derived column either of
which one row has more than `max_leverage` of the squared deviations from the mean.
"""

from collections.abc import Sequence
from typing import final
from weakref import WeakKeyDictionary

import numpy as np

from unpooled.arrays import Array, Bool, Float, Int
from unpooled.data.columns import listing
from unpooled.data.table import Table
from unpooled.party.rules.policy import Policy
from unpooled.party.views.view import View
from unpooled.protocol.refusal import Refusal


@final
class RareDerived:
    """The silo's verdicts about derived columns, once for each table and view.

    Parameters
    ----------
    policy : Policy
        The silo's rules.
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._known = WeakKeyDictionary[Table, dict[str, tuple[int, float]]]()

    def check(self, view: View) -> None:
        """Refuse derived columns in which few rows of the silo differ from others."""
        for made, columns in view.derived_of_source:
            known = self._known.setdefault(view.table, {})
            name = made.digest()
            if name not in known:
                few = rows_that_differ(made, columns)
                fewest = int(few[few > 0].min(initial=view.table.n_rows))
                known[name] = fewest, _largest_share(made, columns)
            fewest, share = known[name]
            few = fewest < self._policy.min_rows_per_class
            if few or share > self._policy.max_leverage:
                # The refusal names the table's own columns, whatever was fitted before
                # them.
                about = ["derived", name]
                raise Refusal("derived_rows", f"Here in {listing(columns)}.", about)


def rows_that_differ(view: View, columns: Sequence[str]) -> Int[Array, " l"]:
    """Return how many rows differ from the usual value of each column."""
    places = [view.columns.index(name) for name in columns]
    usual, others = np.full(len(places), np.nan), np.zeros(len(places), int)
    for number, block in enumerate(view.blocks()):
        X = block.X[:, places]
        if number == 0:
            # A value that all but a few rows have is the most frequent one of these.
            for j, column in enumerate(X.T):
                values, counts = np.unique(column, return_counts=True)
                usual[j] = values[counts.argmax()] if len(values) else np.nan
        others += (usual != X).sum(axis=0)
    return others


def _largest_share(view: View, columns: Sequence[str]) -> float:
    """Return the largest share that one row has in a column's squared deviations."""
    places = [view.columns.index(name) for name in columns]
    n, total = np.zeros(len(places)), np.zeros(len(places))
    for block in view.blocks():
        X, there = _finite(block.X[:, places])
        n, total = n + there.sum(axis=0), total + X.sum(axis=0)
    mean = total / np.maximum(n, 1.0)
    squares, largest = np.zeros(len(places)), np.zeros(len(places))
    for block in view.blocks():
        X, there = _finite(block.X[:, places])
        own = np.where(there, X - mean, 0.0) ** 2
        squares += own.sum(axis=0)
        largest = np.maximum(largest, own.max(axis=0, initial=0.0))
    # The deviations of a constant column from its mean are rounding.
    varies = squares > (2.0**-42 * np.abs(mean)) ** 2 * np.maximum(n, 1.0)
    return float((largest[varies] / squares[varies]).max(initial=0.0))


def _finite(X: Float[Array, "n p"]) -> tuple[Float[Array, "n p"], Bool[Array, "n p"]]:
    """Return cells that are numbers, 0 for others, and which are."""
    # Others are refused by a rule of their own, when a step reads them.
    there = np.isfinite(X)
    return np.where(there, X, 0.0), there

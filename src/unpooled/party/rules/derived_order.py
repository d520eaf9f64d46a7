"""Derived columns that have the row order of one of the columns they are made of.

A product with a column that is constant, or nearly so, is the other column in another
unit, and a study can have as many of these as it likes. Searches for quantiles of them
all have other candidates, between which few values lie (`rules.one_setting`).
"""

from collections.abc import Sequence
from typing import final
from weakref import WeakKeyDictionary

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.data.table import Table
from unpooled.party.views.view import View

# Rank correlation above which values in one order tell of those in the other: the
# order of two columns whose difference has a seventh of their standard deviation.
NEAR = 0.99
# Rows that are compared, the first ones.
_ROWS = 100_000


@final
class DerivedOrder:
    """The silo's verdicts about derived columns, once for each table and column."""

    def __init__(self) -> None:
        self._known = WeakKeyDictionary[Table, dict[tuple[str, str], str]]()

    def source(self, view: View, made: str, of: Sequence[str]) -> str:
        """Return which of some columns has a derived column's order; empty if none.

        Parameters
        ----------
        view : View
            Of all rows, with all these columns.
        made : str
            The derived column.
        of : sequence of str
            Those that it is made of.
        """
        known = self._known.setdefault(view.table, {})
        key = view.digest(), made
        if key not in known:
            known[key] = _nearest(view, made, of)
        return known[key]

    def was_found(self, table: Table, columns: Sequence[str]) -> bool:
        """Whether some derived column of a table was found to have a column's order."""
        return not {*columns}.isdisjoint(self._known.get(table, {}).values())


def _nearest(view: View, made: str, of: Sequence[str]) -> str:
    places, blocks, n = [view.columns.index(name) for name in (made, *of)], [], 0
    for block in view.blocks():
        blocks.append(np.array(block.X[:, places]))
        n += len(blocks[-1])
        if n >= _ROWS:
            break
    X = np.concatenate(blocks)
    X = X[np.isfinite(X).all(axis=1)]
    ranks = np.column_stack([_centred_ranks(column) for column in X.T])
    squares = (ranks**2).sum(axis=0)
    products = np.abs(ranks[:, 1:].T @ ranks[:, 0])
    near = NEAR * np.sqrt(squares[1:] * squares[0])
    # Of a constant column all squares are 0.
    best = int(np.argmax(products - near))
    return of[best] if products[best] > near[best] else ""


def _centred_ranks(column: Float[Array, " n"]) -> Float[Array, " n"]:
    """Return the ranks of values, of equal ones the mean, less the mean of all."""
    # SciPy's take a third of a second to import.
    _, place, counts = np.unique(column, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[place] - (len(column) + 1) / 2

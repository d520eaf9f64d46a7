"""Derived columns in which few rows of the silo differ from all others.

A product with a column that only two people have a 1 in has these two people's values
and zeros, and its sum and sum of squares are two equations for them. Whoever writes a
text can make such columns at will, so a silo answers about none in which fewer than
`min_rows_per_class` of its rows, but some, have another value than the usual one.
"""

from typing import final
from weakref import WeakKeyDictionary

import numpy as np

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
        self._fewest: WeakKeyDictionary[Table, dict[str, int]] = WeakKeyDictionary()

    def check(self, view: View) -> None:
        """Refuse derived columns in which few rows of the silo differ from others."""
        for made, columns in view.derived_of_source:
            known = self._fewest.setdefault(view.table, {})
            name = made.digest()
            if name not in known:
                known[name] = _fewest(made, columns)
            if 0 < known[name] < self._policy.min_rows_per_class:
                raise Refusal("derived_rows")


def _fewest(view: View, columns: tuple[str, ...]) -> int:
    """Return the fewest rows that differ from a column's usual value; 0 if none do."""
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
    few = others[others > 0]
    return int(few.min()) if len(few) else 0

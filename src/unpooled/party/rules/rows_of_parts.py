"""Rows by which selections differ: none of them may be nearly all of a column.

    all rows - fold 1   Σ over a part of the rows: some blocks of each silo

A part has few rows of a silo, such as 12. If one of these alone has two flags together,
or a value in a bin, then this column's products with all others, over the
part, are that person's record, wherever the other silos have nobody with it in these
blocks. The cut keeps values of the table's columns together that few rows have
(`rules.table_cuts`), as far as rows can change places; of what a study makes of the
columns it knows nothing. So before products of such columns leave, each silo judges its
own rows of each part: the leverage of a row in a column,

    1 / n + (x - mean)² / Σ (x - mean)²

is at most `max_leverage`. A rotation of columns, or a prediction, hides none of them:
its variances and squared residuals over a part are products of what it was made of, so
the columns in front of it are judged too. Columns that a text derives of others are
judged in each part as in a table by itself, since few rows that differ there, or have
another flag, are as many equations for their cells. Where sums of single classes leave,
of which the cut knows no more, the rows of each class in a part are judged likewise, in
all columns: no row may have a value where all others have one and the same. Directions
of several columns are not judged: of 12 rows of ten columns one always carries some
direction. Of these `max_feature_ratio` says how many rows all silos together must have.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final
from weakref import WeakKeyDictionary

import numpy as np

from unpooled.arrays import Array, Float, Int
from unpooled.data.aligned_table import AlignedTable
from unpooled.data.table import Table
from unpooled.party.rules.leverage import tells_pairs
from unpooled.party.rules.leverage_of_products import LeverageOfProducts
from unpooled.party.rules.leverage_together import tells_missing
from unpooled.party.rules.policy import Policy
from unpooled.party.views.view import View
from unpooled.protocol.refusal import Refusal
from unpooled.protocol.step import Step

# The limit for a class. Among five rows one often has a leverage above 0.95, whatever
# the data are. Above this limit it is in 1 of 10,000 cases for normal rows: its share
# of the squares then has a beta distribution with parameters 1/2 and (n - 2) / 2.
_OF_CLASS = 0.999

# Blocks of a part of the rows.
Part = Sequence[int]


@final
class RowsOfParts:
    """The silo's verdicts about parts of its rows.

    Parameters
    ----------
    policy : Policy
        The silo's rules.
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._products = LeverageOfProducts(policy)
        self._known = WeakKeyDictionary[Table, dict[str, _BlockMoments]]()
        # By table, the steps, views and parts of derived columns that passed.
        self._passed = WeakKeyDictionary[Table, set[str]]()

    def check(self, step: Step, view: View, parts: Sequence[Part]) -> None:
        """Refuse sums over a part of which one row, or few, are nearly all of a column.

        Parameters
        ----------
        parts : sequence of sequence of int
            The blocks of each part by which answers differ.
        """
        if (limit := self._policy.max_leverage) >= 1.0:
            return
        pairs = tells_pairs(step, len(view.columns))
        for one in [*view.mixed, *([view] if pairs else [])]:
            if computed := one.computed:
                moments = self._moments(view, one)
                for part in parts:
                    if moments.leverage(part)[computed].max() > limit:
                        raise Refusal("rows_of_parts")
        judged = view.derived_arguments or tells_missing(step)
        for part in parts if judged else ():
            self._check_products(step, view, part)

    def _check_products(self, step: Step, view: View, part: Part) -> None:
        """Refuse derived columns, and pairs, that a part by itself would be refused."""
        passed = self._passed.setdefault(view.table, set())
        key = f"{step.name} {view.up_to_scale().digest()} {sorted(part)}"
        rows = np.flatnonzero(np.isin(view.blocks_of_rows, part))
        if key in passed or not len(rows):
            return
        own = view.of_rows(AlignedTable(view.table, rows))
        try:
            self._products.check(step, own)
        except Refusal as broken:
            raise Refusal("rows_of_parts", f"By {broken.rule}.") from None
        passed.add(key)

    def check_classes(self, view: View, parts: Sequence[Part]) -> None:
        """Refuse products in single classes of which one row of a part is nearly all.

        Parameters
        ----------
        parts : sequence of sequence of int
            As of `check`.
        """
        limit, label = self._policy.max_leverage, view.table.label
        if limit >= 1.0 or label is None:
            return
        limit, n_blocks = max(limit, _OF_CLASS), int(view.blocks_of_rows.max(initial=0))
        for one in [*view.mixed, view]:
            moments = self._moments(view, one, label)
            for first in range(0, len(moments.count), n_blocks + 1):
                for part in parts:
                    if moments.leverage([first + b for b in part]).max() > limit:
                        raise Refusal("rows_of_parts")

    def _moments(self, view: View, read: View, label: str = "") -> "_BlockMoments":
        """Return the moments of each block of a view, or of each class and block in it.

        Parameters
        ----------
        read : View
            The view, or one of the same rows in front of some of its transforms.
        """
        every = read.up_to_scale()
        known = self._known.setdefault(view.table, {})
        if (name := f"{label} {every.digest()}") not in known:
            groups = view.blocks_of_rows.astype(int)
            K = n_groups = int(groups.max(initial=0)) + 1
            if label:
                classes = _classes(view.table, label)
                groups += K * classes
                n_groups = K * (int(classes.max(initial=0)) + 1)
            known[name] = _moments(every, groups, n_groups)
        return known[name]


@final
@dataclass(frozen=True, eq=False)
class _BlockMoments:
    """Numbers, sums and extremes of the columns in each block, about a centre.

    Attributes
    ----------
    count, total, squares, least, most : (K, p) arrays
        Statistics of the cells that have a value.
    """

    count: Int[Array, "K p"]
    total: Float[Array, "K p"]
    squares: Float[Array, "K p"]
    least: Float[Array, "K p"]
    most: Float[Array, "K p"]

    def leverage(self, part: Part) -> Float[Array, " p"]:
        """Return the largest leverage of a row of a part in each column by itself."""
        rows = list(part)
        n, total = self.count[rows].sum(axis=0), self.total[rows].sum(axis=0)
        mean = total / np.maximum(n, 1)
        raw = self.squares[rows].sum(axis=0)
        squares = raw - n * mean**2
        far = np.maximum(
            self.most[rows].max(axis=0, initial=-np.inf) - mean,
            mean - self.least[rows].min(axis=0, initial=np.inf),
        )
        # The deviations of a column that is constant in the part are rounding.
        varies = (n > 2) & (squares > 2.0**-40 * raw)
        share = np.zeros(len(mean))
        share[varies] = far[varies] ** 2 / squares[varies] + 1.0 / n[varies]
        return share


def _classes(table: Table, label: str) -> Int[Array, " N"]:
    """Return a number for the class of each row."""
    numbers = dict[object, int]()
    found = list[int]()
    for block in table.blocks((), [label]):
        for value in block.extra[label].tolist():
            found.append(numbers.setdefault(value, len(numbers)))
    return np.array(found, int)


def _moments(view: View, groups: Int[Array, " N"], K: int) -> _BlockMoments:
    """Return the moments of each of K groups of the rows of a view of all rows."""
    p = len(view.columns)
    count = np.zeros((K, p), int)
    total, squares = np.zeros((K, p)), np.zeros((K, p))
    least, most = np.full((K, p), np.inf), np.full((K, p), -np.inf)
    centre: Array | None = None
    for block in view.blocks():
        own = groups[block.start : block.start + len(block.X)]
        # Cells that are no numbers are refused by a rule of their own.
        there = np.isfinite(block.X)
        if centre is None:
            centre = np.where(there, block.X, 0.0).sum(axis=0)
            centre /= np.maximum(there.sum(axis=0), 1)
        X = np.where(there, block.X - centre, 0.0)
        low, high = np.where(there, X, np.inf), np.where(there, X, -np.inf)
        for b in np.unique(own).tolist():
            some = own == b
            count[b] += there[some].sum(axis=0)
            total[b] += X[some].sum(axis=0)
            squares[b] += (X[some] ** 2).sum(axis=0)
            least[b] = np.minimum(least[b], low[some].min(axis=0))
            most[b] = np.maximum(most[b], high[some].max(axis=0))
    return _BlockMoments(count, total, squares, least, most)

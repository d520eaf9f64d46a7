"""Which numbers of a table by groups are withheld, by the counts over all silos.

Each silo's program decides it, from the same totals.

    counts of categories, of two values, or of values alone ─┐
    missing cells ───────────────────────────────────────────┴─> `withheld`, by column
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from unpooled.arrays import Array, Bool, Float, Int
from unpooled.errors import DataError
from unpooled.linalg.moments import observed_sums
from unpooled.linalg.small_cells import withheld
from unpooled.models.description.frequent_names import MOST
from unpooled.protocol.step import public, release

# Codes of categories are whole numbers from 0 below this; those of names may go on.
CODES = MOST
WITHHELD = -1.0
CATEGORICAL = public("s", "the columns whose values are codes of categories")
FREQUENT = public("s v", "the codes of frequent categories, and -1 for others")
CELLS = public("g s m", "how many rows of each group have each code")
FEWEST = public("", "the least count that the table shows", least="min_rows_per_class")
COUNT = public("g p", "how many values each column has in each group")
TOTAL = public("g p", "the sum of each column in each group")
# `TableTotals`, as steps take them.
TOTALS = {
    "rows": public("g", "how many rows each group has"),
    "count": COUNT,
    "total": TOTAL,
    "squares": public(
        "g p", "the squared deviations of each column from the group's mean"
    ),
    "cells": CELLS,
    "categorical": CATEGORICAL,
    "frequent": FREQUENT,
    "fewest": FEWEST,
}


def shown_columns(groups: str, categories: str) -> Mapping[str, Any]:
    """Declare what a table shows of columns; empty `groups` are all rows.

    Parameters
    ----------
    groups, categories : str
        Axis letters.
    """
    of_columns, where = f"{groups} p".strip(), ", where it is shown"
    return {
        "missing": release(of_columns, meaning=f"how many rows have no value{where}"),
        "mean": release(of_columns, meaning=f"the mean of each column{where}"),
        "variance": release(of_columns, meaning=f"the variance of each column{where}"),
        "shown_cells": release(
            f"{groups} {categories}".strip(),
            meaning=f"how many rows have each category{where}",
        ),
    }


@final
@dataclass(frozen=True, eq=False)
class TableTotals:
    """What a table follows from: totals of all silos, and limits.

    Attributes
    ----------
    rows : (g,) array
        Rows of each group; without classes there is one group.
    count, total, squares : (g, p) arrays
        For each column and group the number of values, their sum, and the squared
        deviations from the group's mean.
    cells : (g, s, m) array
        Counts of the codes of categories.
    categorical : (s,) array of int
        Which columns have them.
    frequent : (s, v) array of int
        The codes of categories that are shown, -1 for all others.
    fewest : int
        The least count, but for 0, that is shown.
    """

    rows: Float[Array, " g"]
    count: Float[Array, "g p"]
    total: Float[Array, "g p"]
    squares: Float[Array, "g p"]
    cells: Float[Array, "g s m"]
    categorical: Int[Array, " s"]
    frequent: Int[Array, "s v"]
    fewest: Any

    def of_column(self, j: int) -> tuple[Float[Array, " g"], ...]:
        """Return number of values, sum and squares of a column by group."""
        return self.count[:, j], self.total[:, j], self.squares[:, j]


@final
@dataclass(frozen=True)
class ShownTable:
    """A table of groups without the numbers that are withheld.

    Attributes
    ----------
    count : (g, p) array
        How many values; the last group has all rows.
    missing : (g, p) array
        How many missing cells; -1 where withheld.
    cells : (g, s, v) array
        Counts of categories; -1 where withheld.
    groups : (g, p) array of bool
        Whether nothing is shown of a column in a group.
    of_all : (p,) array of bool
        Whether a count over all groups is withheld.
    rounded : (p,) array of bool
        Whether the number of values over all groups is withheld, so that means and
        variances are rounded: their digits would give it back.
    categorical : (p,) array of bool
        Columns of categories, of which no mean is shown.
    """

    count: Float[Array, "g p"]
    missing: Float[Array, "g p"]
    cells: Float[Array, "g s v"]
    groups: Any
    of_all: Any
    rounded: Any
    categorical: Any

    @classmethod
    def of(cls, totals: TableTotals) -> "ShownTable":
        """Return the table that follows from totals of all silos."""
        g, p = totals.count.shape
        # Without classes the single group is all rows.
        parts = slice(None) if g == 1 else slice(0, g - 1)
        missing = totals.rows[:, None] - totals.count
        by_category = np.zeros((g, *totals.frequent.shape))
        for k, codes in enumerate(totals.frequent):
            by_category[:, k] = of_categories(totals.cells[:, k], codes)
        hidden = np.zeros((g, p), bool)
        rounded, of_all = np.zeros(p, bool), np.zeros(p, bool)
        shown_missing, shown_cells = missing.copy(), by_category.copy()
        place = {int(j): i for i, j in enumerate(totals.categorical.tolist())}
        for j in range(p):
            if j in place:
                own = by_category[:, place[j]]
            else:
                # The mean of a column of two values determines their counts.
                own = of_two_values(*totals.of_column(j))
            lines = np.hstack([own, missing[:, j : j + 1]])
            groups, small = withheld(lines[parts].T, totals.fewest)
            if g > 1:
                hidden[:-1, j] = groups
            of_all[j] = small.any()
            rounded[j] = small[-1] or (j not in place and bool(small.any()))
            lines = np.where(hidden[:, j : j + 1], WITHHELD, lines)
            lines[-1] = np.where(small, WITHHELD, lines[-1])
            shown_missing[:, j] = lines[:, -1]
            if j in place:
                shown_cells[:, place[j]] = lines[:, :-1]
        is_category = np.isin(np.arange(p), totals.categorical)
        return cls(
            *(totals.count, shown_missing, shown_cells, hidden),
            *(of_all, rounded, is_category),
        )

    def shown_cells(
        self, frequent: Int[Array, "s v"], n_categories: int
    ) -> Float[Array, "g l"]:
        """Return the counts of all columns' categories, one behind the other."""
        own = self.cells[:, places_of(frequent)]
        return np.pad(own, ((0, 0), (0, n_categories - own.shape[1])))

    def moments(
        self, totals: TableTotals, least: int
    ) -> tuple[Float[Array, "g p"], Float[Array, "g p"]]:
        """Return means and variances (denominator n - 1), 0 and -1 where withheld."""
        n = np.maximum(self.count, 1.0)
        mean = totals.total / n
        variance = np.maximum(totals.squares, 0.0) / np.maximum(n - 1.0, 1.0)
        # Where the number of values is withheld, the digits of a mean would give it
        # back: the mean of whole numbers is a fraction with this denominator.
        deviation = np.sqrt(variance)
        step = _coarse(deviation)
        rounded = np.zeros(mean.shape, bool)
        rounded[-1] = self.rounded
        mean = np.where(rounded, np.rint(mean / step) * step, mean)
        deviation = np.where(rounded, np.rint(deviation / step) * step, deviation)
        few = self.count < 2
        few[-1] |= self.count[-1] < least
        hidden = self.groups | self.categorical | few
        return (
            np.where(hidden, 0.0, mean),
            np.where(hidden, WITHHELD, np.where(rounded, deviation**2, variance)),
        )


def group_sums(
    X: Float[Array, "n p"],
    groups: Sequence[Any],
    categorical: Int[Array, " s"],
    n_cells: int = CODES + 1,
) -> dict[str, Any]:
    """Return `rows`, `count`, `total` and `cells` of groups of rows.

    Parameters
    ----------
    groups : sequence of mask or slice
        Which rows are in each.
    categorical : (s,) array of int
        The columns whose codes are counted.
    n_cells : int
        How many counts a column has: of the codes from 0, and of all other values.
    """
    if np.isinf(X).any():
        raise DataError("Input X contains infinity.", rule="infinite_values")
    sums = [observed_sums(X[rows]) for rows in groups]
    cells = np.zeros((len(groups), len(categorical), n_cells))
    for i, rows in enumerate(groups):
        for k, j in enumerate(categorical.tolist()):
            cells[i, k] = _counted(X[rows, j], n_cells)
    return {
        "rows": np.array([float(len(X[rows])) for rows in groups]),
        "count": np.array([count for count, _ in sums], dtype=float),
        "total": np.array([total for _, total in sums]),
        "cells": cells,
    }


def _counted(x: Float[Array, " n"], n_cells: int) -> Float[Array, " m"]:
    """Return how many values are each code, and how many none."""
    x, none = x[~np.isnan(x)], n_cells - 1
    is_code = (x >= 0) & (x < none) & (x == np.floor(x))
    codes = np.where(is_code, x, none).astype(np.int64)
    return np.bincount(codes, minlength=n_cells).astype(float)


def rows_of_codes(codes: Sequence[Sequence[int]]) -> Int[Array, "s v"]:
    """Return the codes of each column in a row, filled up with -1, one at least."""
    rows = np.full((len(codes), max(map(len, codes), default=0) + 1), -1)
    for row, own in zip(rows, codes, strict=True):
        row[: len(own)] = own
    return rows


def of_categories(
    counts: Float[Array, "g m"], frequent: Int[Array, " v"], first: int = 0
) -> Float[Array, "g v"]:
    """Return counts of frequent codes, and of all others at the first -1.

    Parameters
    ----------
    counts : (g, m) array
        For each group how many values are `first`, how many the next whole number, ...
    frequent : (v,) array of int
        The codes of one column, -1 for all others.
    first : int, default 0
        The first whole number.
    """
    codes = known_codes(frequent.tolist())
    own = np.zeros((len(counts), len(frequent)))
    own[:, : len(codes)] = counts[:, [code - first for code in codes]]
    own[:, len(codes)] = counts.sum(axis=1) - own.sum(axis=1)
    return own


def places_of(frequent: Int[Array, "s v"]) -> Bool[Array, "s v"]:
    """Return which places are categories of a column, the last one all others."""
    return np.cumsum(frequent < 0, axis=1) <= 1


def known_codes(codes: Sequence[int]) -> list[int]:
    """Return codes without the -1 at the end."""
    return [code for code in codes if code >= 0]


def of_two_values(
    count: Float[Array, " g"], total: Float[Array, " g"], squares: Float[Array, " g"]
) -> Float[Array, "g v"]:
    """Return the counts of the only two values, or of all values if they are others.

    Two values a and b have the sum of squares n (m - a) (b - m) about their mean m in
    every group, and hardly any others have it in all. Pairs of whole numbers from -9 to
    10 are tried, as codes of two categories are such numbers.
    """
    if (pair := two_values(count, total, squares)) is None:
        return count[:, None]
    a, b = pair
    larger = np.rint((total - a * count) / (b - a))
    return np.column_stack([count - larger, larger])


def two_values(
    count: Float[Array, " g"], total: Float[Array, " g"], squares: Float[Array, " g"]
) -> tuple[int, int] | None:
    """Return the only two values, whole numbers; None where there are others."""
    mean = total / np.maximum(count, 1.0)
    slack = 1e-9 * max(float(squares[-1]), 1e-9)
    for a in range(-9, 10):
        for b in range(a + 1, 11):
            wanted = count * (mean - a) * (b - mean)
            if (np.abs(squares - wanted) <= slack).all():
                return a, b
    return None


def _coarse(deviation: Float[Array, "g p"]) -> Float[Array, "g p"]:
    """Return 1, 2 or 5 times a power of 10, within 1/20 and 1/8 of a deviation.

    A mean of n whole numbers that is known to this precision belongs to many sums: with
    a single 1 among zeros, the smallest deviation, 1 / sqrt(n), to sqrt(n) / 20.
    """
    eighth = np.maximum(deviation / 8.0, 1e-300)
    power = 10.0 ** np.floor(np.log10(eighth))
    leading = np.where(
        eighth >= 5 * power, 5.0, np.where(eighth >= 2 * power, 2.0, 1.0)
    )
    return np.where(deviation > 0, leading * power, 1.0)

"""Columns that a transform makes of a silo's own: how many, and their names.

    "groups"      age, sex ── made (-1, 2) ─> age, sex_1, sex_2
    "indicators"  age, bmi ── lacks (1, 0) ─> age, missingindicator_age, bmi
    "bins"        age ─────── bins (2) ─────> age_0.0, age_1.0

On a column partition no silo knows the others' columns, so a transform does not name
those that it makes. Both ends name them by these rules, from the numbers that the silos
showed. A category's name stays in its silo: sex_1 is the first of its categories.
"""

from collections.abc import Collection, Iterable, Sequence
from types import MappingProxyType

import numpy as np

from unpooled.arrays import Array, Int

INDICATOR = "missingindicator_"
# By kind, the name under which a silo keeps how many columns it makes of each.
KEPT_AS = MappingProxyType({"groups": "made", "indicators": "lacks", "bins": "bins"})
# How many groups of categories, or bins, a plan assumes, which does not know them.
_PLANNED = 4


def widened_columns(
    kind: str, columns: Sequence[str], made: Iterable[float | int]
) -> list[tuple[str, int]]:
    """Return the columns behind a transform, each with the place of its source.

    Parameters
    ----------
    kind : {"groups", "indicators", "bins"}
        What the transform makes: groups of categories, or bins, in the place of their
        column, or an indicator of missing cells behind it.
    columns : sequence of str
        The columns in front of it.
    made : iterable of int
        How many it makes of each; of "groups" -1 where a column passes as it is.
    """
    found = list[tuple[str, int]]()
    for place, (name, n) in enumerate(zip(columns, map(int, made), strict=True)):
        if kind == "indicators" or n < 0:
            found.append((name, place))
        if kind == "indicators":
            found += [(INDICATOR + name, place)] * n
        elif kind == "bins":
            found += [(f"{name}_{number:.1f}", place) for number in range(n)]
        else:
            found += [(f"{name}_{number}", place) for number in range(1, n + 1)]
    return found


def planned_columns(
    kind: str, columns: Sequence[str], coded: Collection[str]
) -> Int[Array, " p"]:
    """Return how many columns a plan assumes that are made of each.

    Parameters
    ----------
    kind, columns
        As of `widened_columns`.
    coded : collection of str
        The columns that hold categories.
    """
    if kind == "indicators":
        return np.ones(len(columns), np.int64)
    if kind == "bins":
        return np.full(len(columns), _PLANNED)
    return np.array([_PLANNED if name in coded else -1 for name in columns], np.int64)

"""Categories of a silo's own columns, on a column partition: each finds and keeps them.

    round 1   silos keep  made, fewest   each judges its groups (min_rows_per_class)
    round 2   silos ── how many columns, or numbers, each column becomes ──> made
    round 3   silos keep  categories     by which `transform` encodes their cells

No name of a category leaves its silo, and no count of rows. How many groups a column
has is public, as the number of a silo's columns is. Two settings of `min_frequency`
would tell how many rows a category has, so a silo answers one (`one_setting`).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from unpooled.arrays import Array, Float, Int
from unpooled.data.categories import (
    MISSING,
    MOST_CATEGORIES,
    OTHER,
    category_code,
)
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.models.base import check_all_rows, disclosed_columns
from unpooled.models.moments import check_finite
from unpooled.models.preprocessing.agreed_categories import Categories
from unpooled.models.preprocessing.category_groups import CategoryGroups, grouped
from unpooled.protocol.step import disclosed, kept, release, stays
from unpooled.protocol.widened_columns import planned_columns

OWN_NAMES = (
    "The categories of a silo's own columns stay there: no silo shows their names or "
    "how many rows have them. Each has them in its own results."
)
_MADE = (
    "how many columns each of the silo's columns becomes, or how many numbers its "
    "categories have; -1 for a column of numbers"
)
# Where a group has no column or number. Codes are not below -2.
ABSENT = -3.0
_DROPPED = (None, "first", "if_binary")


@kept(
    by="party",
    settings=("min_frequency",),
    made=stays("p", meaning=_MADE),
    fewest=stays(
        "p",
        meaning="how many rows the smallest category of each column has",
        counts="classes",
    ),
)
def own_groups(
    cells: Float[Array, "N p"],
    columns: Sequence[str],
    coded: Sequence[str],
    dictionary: Mapping[float, str],
    *,
    min_frequency: Any,
    drop: Any,
    numbered: bool,
) -> dict[str, Any]:
    """Group the categories of the silo's own columns, for its rules to judge."""
    if isinstance(min_frequency, bool):
        # Of yes and no there may be several, of numbers one.
        raise DataError("min_frequency is a number or None.", rule="arguments")
    check_finite(cells)
    found = _groups(cells, columns, coded, dictionary, min_frequency, numbered)
    made, fewest = np.full(len(columns), -1.0), np.zeros(len(columns))
    for j, one in enumerate(found):
        if one is not None:
            made[j] = max(_numbers(one, drop, numbered).max() + numbered, 0)
            # Missing cells that stay missing are no group that something is made of.
            left = np.arange(len(one.counts)) != one.missing
            counts = one.counts[left] if numbered else one.counts
            fewest[j] = counts.min(initial=len(cells))
    return {"made": made, "fewest": fewest}


@disclosed(made=release("p", meaning=_MADE, counts="columns"))
def shown_made(kept: Any) -> dict[str, Any]:
    """Return how many columns become of each, which the others' views depend on."""
    return {"made": kept["made"]}


@kept(
    by="party",
    takes={"most": "size v"},
    settings=("min_frequency",),
    categories=stays(
        "v p 3",
        meaning="the code of each group of categories of the silo's columns, its "
        "number and its rows",
    ),
    unknown=stays("p", meaning="the number of categories that nobody had in the fit"),
    form=stays(
        "2", meaning="whether these are numbers, and which category is left out"
    ),
)
def own_categories(
    cells: Float[Array, "N p"],
    columns: Sequence[str],
    coded: Sequence[str],
    dictionary: Mapping[float, str],
    *,
    most: int,
    min_frequency: Any,
    drop: Any,
    numbered: bool,
) -> dict[str, Any]:
    """Return the codes, numbers and rows of the groups of the silo's own columns."""
    found = _groups(cells, columns, coded, dictionary, min_frequency, numbered)
    categories = np.zeros((most, len(columns), 3))
    categories[..., 0] = ABSENT
    unknown = np.full(len(columns), _none(numbered))
    for j, one in enumerate(found):
        if one is not None:
            numbers = _numbers(one, drop, numbered)
            codes = [_code(label) for label in one.labels]
            categories[: len(codes), j] = np.column_stack([codes, numbers, one.counts])
            if one.rare >= 0:
                unknown[j] = numbers[one.rare]
    form = np.array([numbered, _DROPPED.index(drop)], float)
    return {"categories": categories, "unknown": unknown, "form": form}


@kept(
    by="party",
    settings=("min_frequency",),
    rare=stays(
        f"{MOST_CATEGORIES} p",
        meaning="the codes of the names of the silo's columns that are infrequent",
    ),
)
def own_rare_names(
    cells: Float[Array, "N p"],
    columns: Sequence[str],
    coded: Sequence[str],
    dictionary: Mapping[float, str],
    *,
    min_frequency: Any,
) -> dict[str, Any]:
    """Return which names are infrequent, for those that nobody had to be none."""
    rare = np.full((MOST_CATEGORIES, len(columns)), ABSENT)
    found = _groups(cells, columns, coded, dictionary, min_frequency, False)
    for j, one in enumerate(found):
        if one is not None and one.rare >= 0:
            names = [
                n for n, g in zip(one.names, one.group, strict=True) if g == one.rare
            ]
            # The code of cells without a name of their own is among these, too.
            codes = [*map(category_code, names), OTHER]
            codes += [MISSING] if one.missing == one.rare else []
            rare[: len(codes), j] = codes[:MOST_CATEGORIES]
    return {"rare": rare}


def fit_own_categories(
    federation: Federation,
    min_frequency: Any,
    *,
    drop: Any = None,
    numbered: bool,
    joins: bool = True,
) -> Int[Array, " p"]:
    """Let each silo group and keep the categories of its own columns.

    Parameters
    ----------
    federation : Federation
        By columns, of which some hold categories.
    min_frequency
        As of the encoders.
    drop : {None, "first", "if_binary"}
        Which group gets no column.
    numbered : bool
        Whether groups are numbered from 0 and missing cells stay missing; otherwise
        columns are made of them, which are numbered from 1.
    joins : bool, default True
        Whether names that nobody had are infrequent where there are such.

    Returns
    -------
    (p,) array of int
        How many columns or numbers each column becomes, -1 for columns of numbers.
    """
    # A silo that follows knows only which of its own columns hold categories.
    if not (federation.categorical or federation.layout.known_to):
        raise DataError(
            "No silo has a column of categories. Name them where the silos' tables are "
            "opened: simulate(..., categorical=[...])."
        )
    check_all_rows(
        federation,
        "On a column partition categories are found in all rows: those of a fold would "
        "tell how many rows a category has. Encode before folds.",
    )
    options = {"min_frequency": min_frequency, "drop": drop, "numbered": numbered}
    federation.keep(own_groups, **options)
    made = disclosed_columns(federation, shown_made)["made"]
    if federation.coordinator.planned:
        coded = set(federation.categorical)
        made = planned_columns("groups", federation.feature_names, coded)
    made = np.rint(made).astype(np.int64)
    # One for the group that has no column, or for missing cells.
    federation.keep(own_categories, most=max(int(made.max()), 0) + 1, **options)
    if not joins:
        federation.keep(own_rare_names, min_frequency=min_frequency)
    return made


def own_numbers(
    cells: Float[Array, "n p"],
    kept: Any,
    drop: Any,
    *,
    numbered: bool,
    joins: bool = True,
) -> Float[Array, "n p"]:
    """Return the number of each cell's category; those of numbers mean nothing.

    Without `joins` names that nobody had in the fit have none.
    """
    if kept["form"].tolist() != [numbered, _DROPPED.index(drop)]:
        raise DataError("Another encoder was fitted since.", rule="nothing_kept")
    codes, numbers, _ = np.moveaxis(kept["categories"], -1, 0)
    unknown, rare = kept["unknown"], None if joins else kept["rare"]
    found = np.empty(cells.shape)
    for j, own in enumerate(np.where(np.isnan(cells), MISSING, cells).T):
        order = np.argsort(codes[:, j])
        known, number = codes[order, j], numbers[order, j]
        place = np.minimum(np.searchsorted(known, own), len(known) - 1)
        others = unknown[j]
        if rare is not None:
            is_rare = np.isin(own, rare[:, j])
            others = np.where(is_rare, others, _none(numbered))
        found[:, j] = np.where(known[place] == own, number[place], others)
    return found


def counted(column: Float[Array, " N"], dictionary: Mapping[float, str]) -> Categories:
    """Return the names of a column's codes, and how many rows have each."""
    missing = np.isnan(column)
    codes, counts = np.unique(column[~missing], return_counts=True)
    sizes = dict(zip(codes.tolist(), counts.tolist(), strict=True))
    n_other = sizes.pop(OTHER, 0)
    named = sorted((dictionary[code], n) for code, n in sizes.items())
    return Categories(
        tuple(text for text, _ in named),
        np.array([n for _, n in named], np.int64),
        n_other,
        int(missing.sum()),
    )


def _groups(
    cells: Float[Array, "N p"],
    columns: Sequence[str],
    coded: Sequence[str],
    dictionary: Mapping[float, str],
    min_frequency: Any,
    numbered: bool,
) -> list[CategoryGroups | None]:
    """Return the groups of each column of categories, None for columns of numbers."""
    found = list[CategoryGroups | None]()
    for name, column in zip(columns, cells.T, strict=True):
        if name not in coded:
            found.append(None)
            continue
        own = counted(column, dictionary)
        found.append(grouped(own, min_frequency, name, merges_missing=not numbered))
    return found


def _numbers(one: CategoryGroups, drop: Any, numbered: bool) -> Float[Array, " g"]:
    """Return the number of each group: from 0, or from 1 and 0 for the one dropped."""
    n = len(one.counts)
    if numbered:
        left = np.arange(n) != one.missing
        return np.where(left, np.cumsum(left) - 1.0, _none(numbered))
    dropped = drop == "first" or (drop == "if_binary" and n == 2)
    return np.arange(n) + (0.0 if dropped else 1.0)


def _none(numbered: bool) -> float:
    """Return the mark for "no number"."""
    return -1.0 if numbered else 0.0


def _code(label: str | None) -> float:
    if label is None:
        return MISSING
    return category_code(label) if label else OTHER

"""The names of categories that enough rows over all silos have, without their counts.

    round 1   silos ── names and counts, added into a table ──> to the parties alone
    round 2   silos ── how many of them are frequent ─────────> opened
              both again with more cells, where a column has more names
    round 3   silos ── their names ───────────────────────────> opened
    view      silos <── the codes of these names ── a cell becomes the place of its name

The table is that of `agreed_categories`, which opens all names and their counts. Here
the silos' programs read it, and tell which names are frequent.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.data.categories import MISSING, MOST_CATEGORIES, category_code
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.models.preprocessing.agreed_categories import (
    NAMES,
    SIZES,
    WORDS,
    categories_in,
    name_of_words,
    tables_of_names,
    words_of_name,
)
from unpooled.protocol.step import derived, public, release, summed

# Places of a column in a plan and in short tables; names may be more.
MOST = 64
# Tables for about 60, 250 and 1,000 names.
_NUMBERS = 3, 5, 7
# Categories of a column, as a plan assumes.
PLANNED = 4
_UNREAD = -1.0

_NAMES = public(NAMES.axes, NAMES.meaning)
_FEWEST = public(
    "", "how many rows have a name that is sent", least="min_rows_per_class"
)


@summed(takes={"n_cells": "size c"}, names=replace(NAMES, veiled=True))
def local_texts(
    cells: Float[Array, "n p"],
    dictionary: Mapping[float, str],
    *,
    n_cells: int,
    number: int,
) -> dict[str, Any]:
    """Add the names and counts of this silo's categories into the cells of a table."""
    return {"names": tables_of_names(cells, dictionary, n_cells, number)}


@summed(
    takes={"names": _NAMES, "fewest": _FEWEST},
    settings=("fewest",),
    n_frequent=release(
        "p",
        meaning="how many names of each column enough rows have, and -1 where the "
        "table has too few cells",
    ),
)
def counted_names(
    party: str,
    *,
    names: Float[Array, "p c w"],
    number: int,
    fewest: Any,
    leader: str,
) -> dict[str, Any]:
    """Return how many names at least `fewest` rows have; one silo sends it."""
    found = _frequent(names, number, fewest)
    n_frequent = [_UNREAD if own is None else float(len(own)) for own in found]
    return {"n_frequent": float(party == leader) * np.array(n_frequent)}


@summed(
    takes={"names": _NAMES, "fewest": _FEWEST, "n_names": "size l"},
    settings=("fewest",),
    frequent=release(
        f"l {WORDS}",
        meaning="the names of the columns' categories that enough rows have",
        repeats=WORDS,
    ),
)
def found_names(
    party: str,
    *,
    names: Float[Array, "p c w"],
    number: int,
    fewest: Any,
    n_names: int,
    leader: str,
) -> dict[str, Any]:
    """Return the names that at least `fewest` rows have, column by column."""
    found = _frequent(names, number, fewest)
    every = [words_of_name(name) for own in found for name in own or ()]
    frequent = np.zeros((n_names, WORDS))
    frequent[: len(every)] = np.array(every).reshape(-1, WORDS)
    return {"frequent": float(party == leader) * frequent}


@derived(
    takes={
        "codes": public(
            "m p", "the codes of the names of each column; -2 for no further one"
        )
    },
    fitted_by=("describe.found_names",),
    by_column=True,
    settings=("codes",),
)
def category_places(
    cells: Float[Array, "n p"], *, codes: Float[Array, "m p"]
) -> Float[Array, "n p"]:
    """Return the place of each cell's code, the last one where it is none of these."""
    places = np.where(np.isnan(cells), np.nan, float(len(codes)))
    for place, own in enumerate(codes):
        places[cells == own] = place
    return places


def _frequent(
    tables: Float[Array, "p c w"], number: int, fewest: int
) -> list[list[str] | None]:
    """Return each column's frequent names, None where its table cannot be read."""
    return [
        None
        if (found := categories_in(table, (number,))) is None
        else [
            name
            for name, count in zip(found.names, found.counts.tolist(), strict=True)
            if count >= max(fewest, 1)
        ]
        for table in tables
    ]


def frequent_names(
    federation: Federation, fewest: int, leader: str
) -> dict[str, list[str]]:
    """Return the names that at least `fewest` rows have, of each column of a view.

    Parameters
    ----------
    federation : Federation
        A view whose columns all hold categories.
    fewest : int
        How many rows of all silos.
    leader : str
        The silo that sends what all find.

    Raises
    ------
    DataError
        For a column with more than `MOST_CATEGORIES` such names, or too many names.
    """
    columns = list(federation.feature_names)
    unread = columns
    # About all columns each time: about some of them it would be another setting.
    for number in _NUMBERS:
        n_cells = SIZES[number]
        veiled = federation.sum(
            local_texts, to="parties", n_cells=n_cells, number=number
        )
        asked = {**veiled, "number": number, "fewest": fewest, "leader": leader}
        n_frequent = federation.sum(counted_names, **asked)["n_frequent"]
        if federation.coordinator.planned:
            federation.sum(found_names, **asked, n_names=PLANNED * len(columns))
            return {n: [f"category {k}" for k in range(PLANNED)] for n in columns}
        sizes = dict(
            zip(columns, np.rint(n_frequent).astype(int).tolist(), strict=True)
        )
        for name, k in sizes.items():
            if k > MOST_CATEGORIES:
                raise DataError(
                    f"Column {name!r} has {k:,} categories that at least {fewest} rows "
                    f"have, and {MOST_CATEGORIES:,} are described at the most. Leave "
                    f"it out, or take a larger min_rows_per_class."
                )
        if unread := [name for name, k in sizes.items() if k < 0]:
            continue
        words = np.zeros((0, WORDS))
        if n_names := sum(sizes.values()):
            words = federation.sum(found_names, **asked, n_names=n_names)["frequent"]
        every = [name_of_words(one) for one in np.rint(words).astype(int).tolist()]
        ends = np.cumsum([0, *sizes.values()]).tolist()
        return {
            name: every[start:end]
            for name, start, end in zip(columns, ends, ends[1:], strict=False)
        }
    raise DataError(
        f"Column {unread[0]!r} has more than about {SIZES[_NUMBERS[-1]] * 2 // 3:,} "
        f"categories over all silos. Leave it out, or group its names first."
    )


def codes_of_names(names: Mapping[str, list[str]]) -> Float[Array, "m p"]:
    """Return the codes of each column's names, as `category_places` takes them."""
    most = max(MOST, *map(len, names.values()))
    codes: Array = np.full((most, len(names)), MISSING)
    for j, own in enumerate(names.values()):
        codes[: len(own), j] = [category_code(name) for name in own]
    return codes

"""The first table of a paper for each silo, which shows its own part of it.

    each keeps   its counts, sums and squares, over all its rows; its quartiles
    round 1      silos ── rows of each; which has a small count in which column ──> Σ,
                 opened by the silos alone
    all find     where a silo has one, it is withheld whole, and with it the smallest
                 silos (`withheld_silos`)
    round 2      those that are withheld ── their counts ──> Σ, opened likewise
    round 3      those ── 1 where this sum, or what is left of it without their own
                 part, is small ──> Σ, opened likewise
    all find     where there is one, the column is withheld in all silos
    round 4      each silo ── its own table, without what is withheld ──> shown

No end has the counts of two silos. What a silo's program opens of small counts are sums
over three silos or more, or over all of them.

Everything that is printed gives, for each column, the sum of the withheld silos' counts
(all, less the silos that are shown), and the number of rows of each. In a table with
known sums by row and by column no cell is known to be below the limit where these sums
are 0 or at least that (`unpooled.linalg.small_cells`). The same holds of the other
silos for anyone who has the counts of one. Where a count of all silos together is
withheld, no silo shows the column. Classes and silos share the counts of all rows and
nothing else.

A silo searches for its quartiles as all silos do for those of all rows, so that at
least `min_rows` values lie in the bracket of each. They are shown where mean and
variance are, but for a column of which this silo has few different values, one of them
rare: with mean and variance they are equations for the counts of these values.

Mean and variance of a column with few different values determine the counts of these
values. So a silo counts its values: where it has at most `_FEW` different ones and one
of them is rare, no silo shows the column.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from unpooled.arrays import Array, Bool, Float, Int
from unpooled.data.categories import MOST_CATEGORIES
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.linalg.moments import observed_sums, squared_deviations
from unpooled.linalg.small_cells import is_unsafe, withheld_silos
from unpooled.models.description import column_quantiles
from unpooled.models.description.shown_table import (
    CATEGORICAL,
    FREQUENT,
    TOTALS,
    WITHHELD,
    ShownTable,
    TableTotals,
    of_categories,
    places_of,
    shown_columns,
    two_values,
)
from unpooled.protocol.bounds import Counts
from unpooled.protocol.step import disclosed, kept, public, release, stays, summed

# Whole numbers from here on are counted one by one; codes of categories begin at 0.
_FIRST = -16
_WHOLE = MOST_CATEGORIES - _FIRST
# Other values are counted by a hash, the first bits of a product of their bits: in one
# column of a hundred two of five values have the same.
_BUCKET_BITS = 10
COUNTED = _WHOLE + 2**_BUCKET_BITS
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
# With so many different values, or fewer, their number, mean and variance determine
# the counts, or nearly.
FEW = 5
# So many with its three quartiles.
_FEW_WITH_QUARTILES = 8
# A flag of a column that no silo may show.
_NOWHERE = 2.0

QUARTILES = np.array([0.25, 0.5, 0.75])

_FLAGS = public("k p", "which silos have a small count in which column")
_SIZES = public("k", "how many rows each silo has")
# Arguments that decide what a silo withholds of its own table.
_WITHHELD_BY = {
    "flags": _FLAGS,
    "sizes": _SIZES,
    "unsafe": public("p", "how many silos find a column unsafe"),
    "categorical": CATEGORICAL,
}
# Counts that silos alone open.
VEILED: Mapping[str, Any] = {"bound": Counts(), "veiled": True}
# Arguments by which a silo looks for small counts: `TableTotals` and `Silos`.
JUDGED_BY = {
    **TOTALS,
    "least": column_quantiles.LEAST,
    "n_silos": "size k",
    "width": "size l",
}
# `ShownCategories`, as steps take them.
CATEGORIES = {
    "categorical": CATEGORICAL,
    "frequent": FREQUENT,
    "n_categories": "size q",
}


@final
@dataclass(frozen=True, eq=False)
class Silos:
    """Arguments of a search for small counts in silos, beside `TableTotals` of all.

    Attributes
    ----------
    silos : sequence of str
        Their names.
    n_silos : int
        How many there are.
    width : int
        How many counts a column has at most, with values and missing cells.
    least : int
        The least number of values behind a mean.
    """

    silos: Sequence[str]
    n_silos: int
    width: int
    least: Any

    def place_of(self, party: str) -> Float[Array, " k"]:
        """Return 1 in the place of one silo, and 0 in those of the others."""
        return np.array([name == party for name in self.silos], dtype=float)


@final
@dataclass(frozen=True, eq=False)
class ShownCategories:
    """The columns that have categories, and the codes that a table shows.

    Attributes
    ----------
    categorical : (s,) array of int
        Which columns have them.
    frequent : (s, v) array of int
        The codes that are shown, -1 for all others.
    n_categories : int
        How many there are in all columns together.
    """

    categorical: Int[Array, " s"]
    frequent: Int[Array, "s v"]
    n_categories: int

    def table_of(
        self,
        hidden: Bool[Array, " p"],
        lines: Float[Array, "p l"],
        total: Float[Array, " p"],
        squares: Float[Array, " p"],
    ) -> dict[str, Any]:
        """Return the table of a silo's rows, or of some of them; -1 where withheld.

        Parameters
        ----------
        hidden : (p,) array of bool
            The columns that are withheld.
        lines : (p, l) array
            Counts of these rows, as `lines_of` returns them.
        total, squares : (p,) arrays
            Their sums, and squared deviations from their means.
        """
        n = lines[:, -2]
        no_mean = hidden | np.isin(np.arange(len(n)), self.categorical) | (n < 2)
        variance = np.maximum(squares, 0.0) / np.maximum(n - 1.0, 1.0)
        cells = np.where(hidden[:, None], WITHHELD, lines)[self.categorical]
        counts = cells[:, : self.frequent.shape[1]][places_of(self.frequent)]
        return {
            "missing": np.where(hidden, WITHHELD, lines[:, -1]),
            "mean": np.where(no_mean, 0.0, total / np.maximum(n, 1.0)),
            "variance": np.where(no_mean, WITHHELD, variance),
            "shown_cells": np.pad(counts, (0, self.n_categories - len(counts))),
        }


@final
@dataclass(frozen=True, eq=False)
class _Withheld:
    """Public arguments that decide what silos withhold of columns.

    Attributes
    ----------
    silos : sequence of str
    flags : (k, p) array
        1 where a silo has a small count in a column, 2 where no silo may show it.
    sizes : (k,) array
        How many rows each silo has.
    """

    silos: Sequence[str]
    flags: Float[Array, "k p"]
    sizes: Float[Array, " k"]

    def of(self, silo: str) -> Bool[Array, " p"]:
        """Return the columns that one withholds, before their sums are judged."""
        flags = np.rint(self.flags)
        hidden = withheld_silos(flags > 0, self.sizes)[self.silos.index(silo)]
        return hidden | (flags == _NOWHERE).any(axis=0)


@kept(
    values=stays(
        f"p {COUNTED}",
        until="fit",
        meaning="how many of the silo's rows have each whole number, or value",
    ),
    own_rows=stays("", until="fit", meaning="how many rows the silo has"),
    own_count=stays("p", until="fit", meaning="how many values its columns have"),
    own_total=stays("p", until="fit", meaning="the sums of its columns"),
)
def own_counts(X: Float[Array, "n p"]) -> dict[str, Any]:
    """Count and add this silo's values; nothing leaves."""
    count, total = observed_sums(X)
    return {
        "values": values_of(X),
        "own_rows": np.array(float(len(X))),
        "own_count": count.astype(float),
        "own_total": total,
    }


@kept(
    own_squares=stays(
        "p", until="fit", meaning="squared deviations from the silo's own means"
    )
)
def own_squares(X: Float[Array, "n p"], kept: Any) -> dict[str, Any]:
    """Add squared deviations from the silo's own means; nothing leaves."""
    mean = kept["own_total"] / np.maximum(kept["own_count"], 1.0)
    return {"own_squares": squared_deviations(X, mean)}


@kept(
    takes={"units": column_quantiles.UNITS, "least": column_quantiles.LEAST},
    own_quartiles=stays("p 3", until="fit", meaning="the quartiles of its columns"),
    own_errors=stays("p 3", until="fit", meaning="how wide their brackets are"),
)
def own_quartiles(
    X: Float[Array, "n p"], *, units: Float[Array, " p"], least: Any
) -> dict[str, Any]:
    """Search for the silo's own quartiles; nothing leaves."""
    n, total = column_quantiles.log_sums(X)
    squares = column_quantiles.log_squares(X, n, total)
    search = column_quantiles.search_of(
        n[None], n, total, squares, probabilities=QUARTILES, units=units, least=least
    )
    below = column_quantiles.no_counts(1, X.shape[1], len(QUARTILES), least)
    for level in range(len(below)):
        below = search.own(X, [slice(None)], below, level)
    value, error = search.quantiles(search.reached(below), len(below))
    return {"own_quartiles": value[0], "own_errors": error[0]}


@summed(
    by="party",
    # Entries are of single silos, which silos that allow it show.
    between_two=True,
    takes=JUDGED_BY,
    settings=("fewest",),
    flags=release("k p", meaning=_FLAGS.meaning, **VEILED),
    sizes=release("k", meaning=_SIZES.meaning, **VEILED),
    own_lines=stays(
        "p l", until="fit", meaning="how many of the silo's rows have each category"
    ),
    own_least=stays("p l", until="fit", meaning="the least count that is no secret"),
    own_flags=stays("p", until="fit", meaning="in which columns it has a small count"),
    own_rare=stays(
        "p", until="fit", meaning="which columns of few values have a rare one"
    ),
)
def flagged_columns(
    kept: Any, party: str, *, totals: TableTotals, among: Silos
) -> dict[str, Any]:
    """Release the silo's number of rows, and in which columns it has a small count.

    A flag is 1 where it has one, and 2 where no silo may show the column. The silo
    keeps its counts: of categories or of two values, of all values, of missing cells.
    """
    if 0 < float(kept["own_rows"]) < totals.fewest:
        # Its number of rows is shown, and would be a small count itself.
        raise DataError("This silo has few rows.", rule="min_rows_per_class")
    table = ShownTable.of(totals)
    n, fewest = kept["own_count"], totals.fewest
    lines, n_rare = lines_of(
        kept["values"], n, float(kept["own_rows"]), totals, among.width
    )
    lowest: Array = np.full(lines.shape, float(fewest))
    # A mean needs more values behind it than a count.
    lowest[~table.categorical, -2] = max(fewest, among.least)
    # The silos' counts would add up to a withheld count of all silos. And the values of
    # a class may be too few for a mean here: classes may be the silos.
    nowhere = table.of_all | (n >= fewest) & (n < lowest[:, -2])
    # The counts of few values would also follow from what the other silos leave of all.
    nowhere |= n_rare <= FEW
    small = has_small(lines, fewest)
    here = among.place_of(party)
    flags = np.where(nowhere, _NOWHERE, small)
    return {
        "flags": here[:, None] * flags,
        "sizes": here * float(kept["own_rows"]),
        "own_lines": lines,
        "own_least": lowest,
        "own_flags": flags,
        "own_rare": (n_rare <= _FEW_WITH_QUARTILES).astype(float),
    }


@summed(
    by="party",
    takes={"flags": _FLAGS, "sizes": _SIZES, "width": "size l"},
    rest=release(
        "p l",
        meaning="counts of the silos that show nothing of a column, added",
        **VEILED,
    ),
)
def withheld_counts(
    kept: Any, party: str, *, by: _Withheld, width: int
) -> dict[str, Any]:
    """Release the silo's counts of the columns that it withholds."""
    hidden = by.of(party)
    return {"rest": kept["own_lines"] * hidden[:, None]}


@summed(
    by="party",
    takes={
        "flags": _FLAGS,
        "sizes": _SIZES,
        "rest": public("p l", "counts of the silos that show nothing, added"),
    },
    unsafe=release(
        "p",
        meaning="how many silos find a small count in what they know of the others",
        **VEILED,
    ),
)
def unsafe_columns(
    kept: Any, party: str, *, by: _Withheld, rest: Float[Array, "p l"]
) -> dict[str, Any]:
    """Release the columns in which sums over the withheld silos are small."""
    hidden = by.of(party)
    unsafe = is_unsafe(rest, kept["own_lines"], kept["own_least"])
    return {"unsafe": (hidden & unsafe).astype(float)}


@disclosed(
    by="party",
    describes="all rows",
    takes={**_WITHHELD_BY, **CATEGORIES},
    size=release("", meaning="how many rows the silo has"),
    **shown_columns("", "q"),
)
def own_table(
    kept: Any,
    party: str,
    *,
    by: _Withheld,
    unsafe: Float[Array, " p"],
    shown: ShownCategories,
) -> dict[str, Any]:
    """Disclose the silo's own table; -1 stands for what is withheld."""
    hidden = _shows_nothing(kept, party, by, unsafe)
    table = shown.table_of(
        hidden, kept["own_lines"], kept["own_total"], kept["own_squares"]
    )
    return {"size": kept["own_rows"], **table}


@disclosed(
    by="party",
    describes="all rows",
    takes=_WITHHELD_BY,
    quartiles=release("p 3", meaning="the quartiles of each column, where shown"),
    errors=release("p 3", meaning="how wide the bracket of each quartile is"),
)
def own_quartile_table(
    kept: Any,
    party: str,
    *,
    by: _Withheld,
    unsafe: Float[Array, " p"],
    categorical: Int[Array, " s"],
) -> dict[str, Any]:
    """Disclose the silo's quartiles; -1 stands for the error of a withheld one."""
    hidden = _shows_nothing(kept, party, by, unsafe)
    hidden = hidden | np.isin(np.arange(len(hidden)), categorical)
    hidden = hidden | (kept["own_rare"] > 0)
    error = np.where(hidden[:, None], WITHHELD, kept["own_errors"])
    return {
        "quartiles": np.where(error < 0, 0.0, kept["own_quartiles"]),
        "errors": error,
    }


def tables_of_silos(
    federation: Federation,
    table: Mapping[str, Any],
    places: Bool[Array, "s v"],
    units: Float[Array, " p"] | None = None,
) -> Mapping[str, Mapping[str, Array]]:
    """Return each silo's table of its own rows; six rounds, two without an array.

    Parameters
    ----------
    federation : Federation
        The view that is described.
    table : mapping of str to object
        Totals over all silos, which they alone open, and the limits of the table.
    places : (s, v) array of bool
        Which places of each categorical column are categories.
    units : (p,) array, optional
        The multiples that values are of, for quartiles, with two rounds more.

    Raises
    ------
    ReleaseRefusedError
        Where a silo does not allow its own values to be seen.
    """
    federation.keep(own_counts)
    federation.keep(own_squares)
    if units is not None:
        federation.keep(own_quartiles, units=units, least=table["least"])
    judged_by = judged(federation, table, places)
    found = federation.sum(flagged_columns, to="parties", **judged_by)
    silos, width = judged_by["silos"], judged_by["width"]
    rest = federation.sum(
        withheld_counts, to="parties", silos=silos, width=width, **found
    )
    unsafe = federation.sum(unsafe_columns, to="parties", silos=silos, **found, **rest)
    asked = {"silos": silos, "categorical": table["categorical"], **found, **unsafe}
    shown = federation.collect(
        own_table,
        frequent=table["frequent"],
        n_categories=max(int(places.sum()), 1),
        **asked,
    )
    if units is None:
        return shown
    quartiles = federation.collect(own_quartile_table, **asked)
    return {silo: {**shown[silo], **quartiles[silo]} for silo in silos}


def judged(
    federation: Federation, table: Mapping[str, Any], places: Bool[Array, "s v"]
) -> dict[str, Any]:
    """Return the arguments by which silos look for small counts: `JUDGED_BY`.

    Parameters
    ----------
    table : mapping of str to object
        `TableTotals`, and `least`.
    places : (s, v) array of bool
        Which places of each categorical column are categories.
    """
    silos = list(federation.parties)
    # A column that is not categorical may have two values.
    width = max(places.shape[1], 2) + 2
    return {"silos": silos, "n_silos": len(silos), "width": width, **table}


def _shows_nothing(
    kept: Any, party: str, by: _Withheld, unsafe: Float[Array, " p"]
) -> Bool[Array, " p"]:
    """Return the columns of which a silo shows nothing."""
    hidden = by.of(party) | (unsafe > 0)
    # Whatever the flags are, a silo shows none of its own small counts.
    return hidden | (kept["own_flags"] > 0)


def lines_of(
    values: Float[Array, "p m"],
    n: Float[Array, " p"],
    rows: float,
    totals: TableTotals,
    width: int,
) -> tuple[Float[Array, "p l"], Float[Array, " p"]]:
    """Return the counts that rows of a silo have of each column, and its few values.

    Parameters
    ----------
    values : (p, m) array
        How many of the rows have each whole number, or value, as `values_of` counts.
    n : (p,) array
        How many have a value.
    rows : float
        How many rows there are.
    totals : Totals
        Totals of all silos: which columns have categories or two values, and the limit.
    width : int
        Width of the lines.

    Returns
    -------
    lines : (p, l) array
        Counts of categories or of two values; at the end of values and missing cells.
    n_rare : (p,) array
        How many different values a column of neither has, where one of them is rare;
        infinite elsewhere. Number, mean and variance may tell their counts.
    """
    lines: Array = np.zeros((len(n), width))
    lines[:, -2], lines[:, -1] = n, rows - n
    place = {int(j): i for i, j in enumerate(totals.categorical.tolist())}
    n_rare: Array = np.full(len(n), np.inf)
    for j, whole in enumerate(values):
        if j in place:
            own = of_categories(whole[None], totals.frequent[place[j]], _FIRST)[0]
        elif pair := two_values(*totals.of_column(j)):
            own = whole[[value - _FIRST for value in pair]]
        else:
            own, found = np.zeros(0), whole[whole > 0]
            if (found < totals.fewest).any():
                n_rare[j] = len(found)
        lines[j, : len(own)] = own
    return lines, n_rare


def has_small(lines: Float[Array, "p l"], fewest: Any) -> Bool[Array, " p"]:
    """Return the columns that have a count below the limit, other than 0."""
    return np.any((lines > 0) & (lines < fewest), axis=1)


def values_of(X: Float[Array, "n p"]) -> Float[Array, "p m"]:
    """Return how many rows have each whole number from `_FIRST`, or another value."""
    return np.array([_counted(x) for x in X.T]).reshape(-1, COUNTED)


def _counted(x: Float[Array, " n"]) -> Float[Array, " m"]:
    """Return how many values are each whole number from `_FIRST`, then others."""
    # Adding 0 turns -0.0 into 0.0.
    x = x[~np.isnan(x)] + 0.0
    is_whole = (x >= _FIRST) & (x < MOST_CATEGORIES) & (x == np.floor(x))
    others = x[~is_whole].view(np.uint64) * _GOLDEN >> np.uint64(64 - _BUCKET_BITS)
    places = [(x[is_whole] - _FIRST).astype(np.int64), _WHOLE + others.astype(np.int64)]
    return np.bincount(np.concatenate(places), minlength=COUNTED).astype(float)

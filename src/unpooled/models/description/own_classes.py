"""The first table by class on a column partition: each silo's own columns.

    round 1      silos ── class names, mixed in cells; from a silo with the label ──>
                 names and sizes of the classes
    round 2      a silo with the label ── everybody's class ──> Σ, opened by the silos
                 alone; none where all silos have the label
    each keeps   the table of its own columns by class, as its own results
    if wanted    each silo ── how many categories its columns have ──────────> shown
                 each silo ── its table without what is withheld ────────────> shown

A silo can describe its columns by class if it knows everybody's class. So the silos
learn it, as those of `MMVFL` do, and each must allow that (`allow_row_level`, and
`allow_disclosed`, as classes are one silo's own values). The coordinator sees noise.

Each silo withholds of its own table what all silos together withhold of a table over
rows (`unpooled.models.description.shown_table`), and a column whole of which few
different values are, one of them rare: number, mean and variance determine how often
each occurs. Names of categories stay in the silo; others see the first, the second, ...
in the order of text.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, final

import numpy as np

from unpooled.arrays import Array, Float, Int, Shaped
from unpooled.data.categories import MISSING, OTHER
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.linalg.moments import squared_deviations
from unpooled.models.base import disclosed_columns
from unpooled.models.description.by_silo import FEW, lines_of, values_of
from unpooled.models.description.class_comparison import ClassTable
from unpooled.models.description.column_quantiles import LEAST
from unpooled.models.description.describe_columns import (
    DESCRIPTION,
    own_description,
    ranked,
)
from unpooled.models.description.shown_table import (
    FEWEST,
    WITHHELD,
    ShownTable,
    TableTotals,
    group_sums,
    of_categories,
    places_of,
    rows_of_codes,
)
from unpooled.models.discriminant.classes import (
    NAMES,
    SALTS,
    agreed_classes,
    class_codes,
    class_indicators,
    class_sizes,
    class_values,
    names_if_held,
)
from unpooled.models.preprocessing.own_categories import ABSENT, counted
from unpooled.protocol.bounds import Counts
from unpooled.protocol.step import disclosed, kept, public, release, stays, summed

# Which categories a plan assumes, which does not know them.
_PLANNED = 4
_BY_CLASS = {
    "class_n": "how many rows of each class have a value in each of its columns",
    "class_missing": "how many rows of each class have none",
    "class_mean": "the mean of each of its columns in each class",
    "class_std": "the standard deviation of each in each class",
    "class_first_quartile": "the first quartile of each in each class",
    "class_median": "the median of each in each class",
    "class_third_quartile": "the third quartile of each in each class",
}
_TAKES = {
    "fewest": FEWEST,
    "least": LEAST,
    "most": "size v",
    "n_classes": "size c",
    "n_groups": "size g",
    "width": "size l",
}
_STAYS: Mapping[str, Any] = {
    **DESCRIPTION,
    **{name: stays("c p", meaning=meaning) for name, meaning in _BY_CLASS.items()},
    "p_value": stays("p", meaning="the p-value of the test of the classes"),
    "largest_smd": stays("p", meaning="the largest standardised difference of two"),
    "class_category_counts": stays(
        "v p l",
        meaning="the code of each frequent category of the silo's columns, its rank, "
        "its rows, and its rows of each class",
    ),
    "shown": stays(
        "3 g p",
        meaning="missing cells, means and variances by group, -1 where withheld",
    ),
    "shown_counts": stays(
        "p v g", meaning="rows of each group by category, -1 where withheld"
    ),
    "shown_lines": stays(
        "p", meaning="how many categories these are; 0 for a column of numbers"
    ),
}


@final
@dataclass(frozen=True)
class _Limits:
    """Public arguments of an own table by class.

    Attributes
    ----------
    fewest, least : int
        The least count, but for 0, that is shown, and the least behind a mean.
    most, n_classes, n_groups, width : int
        Sizes: the most lines of a column, c classes, c + 1 groups, and c + 3 numbers
        of a category.
    """

    fewest: Any
    least: Any
    most: int
    n_classes: int
    n_groups: int
    width: int


@summed(
    by="party",
    takes={"salts": SALTS},
    cells=release(
        "c 16",
        meaning="class names and sizes, mixed in cells; from a silo with the label",
        repeats=16,
    ),
)
def held_names(
    y: Shaped[Array, " N"] | None, *, salts: Int[Array, " c"]
) -> dict[str, Any]:
    """Return the cells of the silo's class names; zeros without the label."""
    return names_if_held(y, salts)


@summed(
    by="party",
    # Classes are the values of one silo.
    between_two=True,
    settings=(),
    takes={"classes": NAMES, "n_rows": "size r"},
    members=release(
        "N c",
        bound=Counts(),
        veiled=True,
        meaning="each person’s class, from a silo with the label, for the silos alone",
    ),
)
def held_classes(
    y: Shaped[Array, " N"] | None, *, classes: Int[Array, "c w"], n_rows: int
) -> dict[str, Any]:
    """Return 1 in the place of each person's class; zeros without the label."""
    if y is None:
        return {"members": np.zeros((n_rows, len(classes)))}
    return {"members": class_indicators(y, classes)}


@kept(
    by="party",
    takes={
        "members": public("N c", "each person's class, which only the silos can open"),
        **_TAKES,
    },
    **_STAYS,
)
def own_class_description(
    cells: Float[Array, "N p"],
    columns: Sequence[str],
    coded: Sequence[str],
    dictionary: Mapping[float, str],
    *,
    members: Float[Array, "N c"],
    n_holders: int,
    limits: _Limits,
) -> dict[str, Any]:
    """Describe the silo's own columns by the classes of another silo's label."""
    if not np.isin(members, (0.0, n_holders)).all():
        raise DataError("The labels of two silos differ.", rule="labels_differ")
    codes = members.argmax(axis=1)
    return _described(cells, codes, columns, coded, dictionary, limits)


@kept(
    by="party",
    takes={"classes": NAMES, "sizes": public("c", "rows of each class"), **_TAKES},
    **_STAYS,
)
def own_labelled_description(
    cells: Float[Array, "N p"],
    y: Shaped[Array, " N"],
    columns: Sequence[str],
    coded: Sequence[str],
    dictionary: Mapping[float, str],
    *,
    classes: Int[Array, "c w"],
    sizes: Float[Array, " c"],
    limits: _Limits,
) -> dict[str, Any]:
    """Describe the silo's own columns by the classes of its own label."""
    codes = class_codes(y, classes)
    if (class_sizes(codes, classes) != sizes).any():
        raise DataError("The labels of two silos differ.", rule="labels_differ")
    return _described(cells, codes, columns, coded, dictionary, limits)


@disclosed(
    by="party",
    describes="classes",
    shown_lines=release(
        "p",
        meaning="how many categories each of the silo’s columns has, others among "
        "them; 0 for a column of numbers",
    ),
)
def shown_lines(kept: Any, *, label: str, fewest: int) -> dict[str, Any]:
    """Disclose how many categories the silo's own columns have."""
    return {"shown_lines": kept["shown_lines"]}


@disclosed(
    by="party",
    describes="classes",
    takes={"n_groups": "size g", "n_lines": "size v"},
    missing=release(
        "g p", meaning="missing cells of each of the silo's own columns, by class"
    ),
    mean=release("g p", meaning="the mean of each, where it is not withheld"),
    variance=release("g p", meaning="the variance of each, where it is not withheld"),
    counts=release(
        "p v g", meaning="how many rows have each category, where it is not withheld"
    ),
)
def shown_by_class(
    kept: Any, *, label: str, fewest: int, n_groups: int, n_lines: int
) -> dict[str, Any]:
    """Disclose what is not withheld of the silo's own columns by class."""
    missing, mean, variance = kept["shown"]
    counts = kept["shown_counts"][:, :n_lines]
    return {"missing": missing, "mean": mean, "variance": variance, "counts": counts}


def keep_class_tables(
    federation: Federation, *, fewest: int, least: int, most: int
) -> tuple[Shaped[Array, " c"], Float[Array, " g"]]:
    """Have each silo keep the table of its own columns by class.

    Returns
    -------
    (c,) array
        Names of the classes.
    (g,) array
        Their sizes, and the number of all rows.
    """
    N, m = federation.n_rows or 0, len(federation.parties)
    words, sizes = agreed_classes(federation, held_names, None, 2, least=1)
    # Where several silos have the label, each has counted the same rows.
    n_holders = max(round(float(sizes.sum()) / max(N, 1)), 1)
    c = len(words)
    limits: dict[str, Any] = {"fewest": fewest, "least": least, "most": most}
    limits |= {"n_classes": c, "n_groups": c + 1, "width": c + 3}
    if n_holders == m:
        federation.keep(
            own_labelled_description, classes=words, sizes=sizes / m, **limits
        )
    else:
        found = federation.sum(held_classes, to="parties", classes=words, n_rows=N)
        federation.keep(own_class_description, n_holders=n_holders, **found, **limits)
    return class_values(words), np.append(np.rint(sizes / n_holders), float(N))


def gathered_class_tables(
    federation: Federation, n_groups: int, *, kept_of: str, fewest: int
) -> tuple[dict[str, Array], list[int]]:
    """Return the silos' tables of their own columns by class; two rounds.

    Returns
    -------
    dict of str to array
        `missing`, `mean` and `variance`, (g, p), and `counts` (p, v, g).
    list of int
        How many categories each column has, others among them; 0 for numbers.
    """
    asked = {"kept_of": kept_of, "label": str(federation.label), "fewest": fewest}
    lines = disclosed_columns(federation, shown_lines, **asked)["shown_lines"]
    n_lines = np.rint(lines).astype(np.int64)
    if federation.coordinator.planned:
        coded = np.isin(federation.feature_names, federation.categorical)
        n_lines = np.where(coded, _PLANNED, 0)
    sizes = {"n_groups": n_groups, "n_lines": max(int(n_lines.max()), 1)}
    table = disclosed_columns(federation, shown_by_class, **sizes, **asked)
    return table, n_lines.tolist()


def _described(
    cells: Float[Array, "N p"],
    codes: Int[Array, " N"],
    columns: Sequence[str],
    coded: Sequence[str],
    dictionary: Mapping[float, str],
    limits: _Limits,
) -> dict[str, Any]:
    """Return a silo's own table by class, and what it may show of it."""
    describe = partial(
        own_description,
        columns=columns,
        coded=coded,
        dictionary=dictionary,
        fewest=limits.fewest,
        least=limits.least,
        most=limits.most,
    )
    classes = [codes == k for k in range(limits.n_classes)]
    whole, parts = describe(cells), [describe(cells[rows]) for rows in classes]
    names = ("n", "missing", "mean", "std")
    own = {f"class_{name}": np.array([part[name] for part in parts]) for name in names}
    quartiles = np.array([part["quartiles"] for part in parts])
    for i, name in enumerate(("first_quartile", "median", "third_quartile")):
        own[f"class_{name}"] = quartiles[:, :, i]
    groups = [*classes, slice(None)]
    totals = _totals(cells, groups, columns, coded, dictionary, limits)
    counts = _counts_by_class(cells, classes, columns, coded, dictionary, limits)
    return {
        **whole,
        **own,
        **_comparison(own, totals),
        "class_category_counts": counts,
        **_shown(cells, groups, totals, limits),
    }


def _totals(
    cells: Float[Array, "N p"],
    groups: Sequence[Any],
    columns: Sequence[str],
    coded: Sequence[str],
    dictionary: Mapping[float, str],
    limits: _Limits,
) -> TableTotals:
    """Return the totals of the silo's own columns, with places for frequent names."""
    categorical = np.flatnonzero(np.isin(columns, coded))
    X, frequent = cells.copy(), list[range]()
    for j in categorical.tolist():
        found = counted(cells[:, j], dictionary)
        sizes = found.counts
        often = sizes >= max(limits.fewest, 1)
        # The most frequent ones, where they are more than a table has places for.
        often[np.argsort(-sizes, kind="stable")[limits.most - 2 :]] = False
        X[:, j] = _places(cells[:, j], found.codes[often], limits.most - 2)
        frequent.append(range(int(often.sum())))
    sums = group_sums(X, groups, categorical, limits.most - 1)
    means = sums["total"] / np.maximum(sums["count"], 1.0)
    pairs = zip(groups, means, strict=True)
    squares = np.array([squared_deviations(X[rows], mean) for rows, mean in pairs])
    return TableTotals(
        **sums,
        squares=squares,
        categorical=categorical,
        frequent=rows_of_codes(frequent),
        fewest=limits.fewest,
    )


def _comparison(own: Mapping[str, Array], totals: TableTotals) -> dict[str, Array]:
    """Return tests and differences of the silo's own columns, for its people alone."""
    counts = np.zeros((len(totals.rows), *totals.frequent.shape))
    for k, codes in enumerate(totals.frequent):
        counts[:, k] = of_categories(totals.cells[:, k], codes)
    table = ClassTable(
        totals.rows[:-1],
        own["class_n"],
        own["class_missing"],
        own["class_mean"],
        own["class_std"],
        counts[:-1],
    )
    places = {j: k for k, j in enumerate(totals.categorical.tolist())}
    p_value, _, smd = table.compared(places)
    largest = np.abs(smd).max(axis=0, initial=-1.0, where=~np.isnan(smd))
    return {
        "p_value": p_value,
        "largest_smd": np.where(largest < 0, np.nan, largest),
    }


def _counts_by_class(
    cells: Float[Array, "N p"],
    classes: Sequence[Any],
    columns: Sequence[str],
    coded: Sequence[str],
    dictionary: Mapping[float, str],
    limits: _Limits,
) -> Float[Array, "v p l"]:
    """Return the rows of each category, over all rows and by class."""
    made = np.zeros((limits.most, len(columns), limits.width))
    made[..., 0] = ABSENT
    for j in np.flatnonzero(np.isin(columns, coded)):
        lines = ranked(counted(cells[:, j], dictionary), limits.most)
        made[: len(lines), j, :3] = lines
        kind = np.where(np.isnan(cells[:, j]), MISSING, cells[:, j])
        kind[~np.isin(kind, lines[:, 0])] = OTHER
        place = _places(kind, lines[:, 0], len(lines)).astype(np.int64)
        for k, rows in enumerate(classes):
            own = np.bincount(place[rows], minlength=len(lines))
            made[: len(lines), j, 3 + k] = own
    return made


def _places(
    cells: Float[Array, " N"], codes: Float[Array, " k"], other: int
) -> Float[Array, " N"]:
    """Return the place of each cell's code, `other` for no code; NaN where missing."""
    if not len(codes):
        return np.where(np.isnan(cells), np.nan, float(other))
    order = np.argsort(codes)
    place = np.minimum(np.searchsorted(codes[order], cells), len(codes) - 1)
    found = np.where(codes[order][place] == cells, order[place], other)
    return np.where(np.isnan(cells), np.nan, found.astype(float))


def _shown(
    cells: Float[Array, "N p"],
    groups: Sequence[Any],
    totals: TableTotals,
    limits: _Limits,
) -> dict[str, Array]:
    """Return the silo's table with -1 for withheld entries."""
    table = ShownTable.of(totals)
    mean, variance = table.moments(totals, limits.least)
    g, p = totals.count.shape
    hidden = np.zeros(p, bool)
    width = max(totals.frequent.shape[1], 2) + 2
    numbers = np.where(table.categorical, np.nan, cells)
    for i, rows in enumerate(groups):
        n, size = totals.count[i], float(totals.rows[i])
        _, n_rare = lines_of(values_of(numbers[rows]), n, size, totals, width)
        hidden |= n_rare <= FEW
    counts = np.zeros((p, limits.most, g))
    lines = np.zeros(p)
    places = places_of(totals.frequent)
    for k, j in enumerate(totals.categorical.tolist()):
        lines[j] = places[k].sum()
        counts[j, : places.shape[1]] = table.cells[:, k].T
    return {
        "shown": np.array(
            [
                np.where(hidden, WITHHELD, table.missing),
                np.where(hidden, 0.0, mean),
                np.where(hidden, WITHHELD, variance),
            ]
        ),
        "shown_counts": counts,
        "shown_lines": lines,
    }

"""The first table of a paper, of every column over all silos, by classes of a label.

    3 rounds  of columns of text: which names are frequent (`frequent_names`)
    round 1   silos ── names and sizes of the classes ──────────────────> opened
    round 2   silos ── counts, sums, counts of categories ──> to the parties alone
    round 3   silos ── squares about the means ────────────> to the parties alone
    5 rounds  where quartiles are asked for: counts below candidates ──> likewise
    round 4   silos ── which categories are frequent ───────────────────> opened
    round 5   silos ── the table without what is withheld ──────────────> opened
    6 rounds  where each silo is described too, 8 with quartiles: `by_silo`
    5 rounds  where each silo is described by class: `by_silo_and_class`

Counts are judged before anybody sees them. The totals are opened in the silos, whose
programs all find the same table and withhold small counts, those that would give them
back (`unpooled.linalg.small_cells`), and statistics of which they are part. The
coordinator learns what is printed, and computes tests and standardised differences from
that alone (`class_comparison`).
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields
from typing import Any, final

import numpy as np
from sklearn.utils.validation import check_is_fitted

from unpooled.arrays import Array, Bool, Float, Int, Shaped
from unpooled.data.categories import MOST_CATEGORIES
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.linalg.moments import squared_deviations
from unpooled.models.base import FederatedEstimator, check_all_rows, disclosed_columns
from unpooled.models.description import (
    by_silo,
    by_silo_and_class,
    column_quantiles,
    describe_columns,
    frequent_names,
    own_classes,
)
from unpooled.models.description.class_comparison import ClassTable
from unpooled.models.description.column_quantiles import (
    BELOW,
    BELOW_MEANING,
    LEAST,
    LOG_SQUARES,
    LOG_TOTAL,
    UNITS,
    QuantileSearch,
    search_of,
    shown,
)
from unpooled.models.description.describe_results import describe_exhibits
from unpooled.models.description.quantiles import check_least, units_of
from unpooled.models.description.shown_table import (
    CATEGORICAL,
    CELLS,
    CODES,
    COUNT,
    FEWEST,
    TOTAL,
    TOTALS,
    WITHHELD,
    ShownTable,
    TableTotals,
    group_sums,
    known_codes,
    places_of,
    rows_of_codes,
    shown_columns,
)
from unpooled.models.discriminant.classes import (
    NAMES,
    OPENED_SIZES,
    OWN_SIZES,
    agreed_classes,
    check_label,
    class_codes,
    class_sizes,
    class_values,
    local_names,
)
from unpooled.models.parameter_checks import check_choice
from unpooled.protocol.bounds import Counts
from unpooled.protocol.step import release, summed
from unpooled.results.citations import Citation, interpolated

# Statistics of a part of the rows, each an attribute.
_OF_PARTS = tuple(one.name for one in fields(ClassTable))
_OF_FOLDS = (
    "On a column partition each silo describes all rows by class: tables of a fold and "
    "of all rows would give small counts back. Describe before folds."
)
# Bits of a number that says which of the codes are frequent.
_HALF = 32

_VEILED: Mapping[str, Any] = {
    "rows": release("g", meaning="how many rows each group has", veiled=True),
    "count": release(
        "g p", meaning="how many values each column has in each group", veiled=True
    ),
    "total": release(
        "g p", meaning="the sum of each column in each group", veiled=True
    ),
    "cells": release(
        "g s m",
        meaning="how many rows of each group have each code of a category",
        bound=Counts(),
        veiled=True,
    ),
    "log_total": release(
        "p", meaning="the sum of each column's signed logarithms", veiled=True
    ),
}
_VEILED_SQUARES: Mapping[str, Any] = {
    "squares": release(
        "g p",
        meaning="the squared deviations of each column from the group's mean",
        veiled=True,
    ),
    "log_squares": release(
        "p",
        meaning="the squared deviations of those logarithms from their mean, added",
        veiled=True,
    ),
}
_SEARCHED = {
    "count": COUNT,
    "log_total": LOG_TOTAL,
    "log_squares": LOG_SQUARES,
    "below": BELOW,
    "units": UNITS,
    "least": LEAST,
}


@final
@dataclass(frozen=True, eq=False)
class _Searched:
    """Public arguments of a round of the search: `_SEARCHED` without counts."""

    log_total: Float[Array, " p"]
    log_squares: Float[Array, " p"]
    units: Float[Array, " p"]
    least: Any
    below: Float[Array, "t l k"]

    def search(self, count: Float[Array, "g p"]) -> QuantileSearch:
        """Return the search for quartiles; the last group has all rows."""
        return search_of(
            count,
            count[-1],
            self.log_total,
            self.log_squares,
            probabilities=by_silo.QUARTILES,
            units=self.units,
            least=self.least,
        )


@summed(
    takes={"groups": "size g", "categorical": CATEGORICAL, "n_cells": "size m"},
    **_VEILED,
)
def local_columns(
    X: Float[Array, "n p"], *, groups: int, categorical: Int[Array, " s"], n_cells: int
) -> dict[str, Any]:
    """Count and add this silo's values, and count the codes of categories."""
    return _columns(X, [slice(None)], categorical, n_cells)


@summed(
    takes={
        "groups": "size g",
        "classes": NAMES,
        "sizes": OPENED_SIZES,
        "categorical": CATEGORICAL,
        "n_cells": "size m",
    },
    own=OWN_SIZES,
    **_VEILED,
)
def local_class_columns(
    X: Float[Array, "n p"],
    y: Shaped[Array, " n"],
    *,
    groups: int,
    classes: Int[Array, "c w"],
    sizes: Float[Array, " c"],
    categorical: Int[Array, " s"],
    n_cells: int,
) -> dict[str, Any]:
    """Do so class by class, and over all rows."""
    codes = class_codes(y, classes)
    own, rows = class_sizes(codes, classes), _rows_of(codes, classes)
    return {**_columns(X, rows, categorical, n_cells), "own": own}


@summed(
    takes={"count": COUNT, "total": TOTAL, "log_total": LOG_TOTAL},
    **_VEILED_SQUARES,
)
def local_squares(
    X: Float[Array, "n p"],
    *,
    count: Float[Array, "g p"],
    total: Float[Array, "g p"],
    log_total: Float[Array, " p"],
) -> dict[str, Any]:
    """Add squared deviations from the mean over all silos."""
    return _squares(X, [slice(None)], count, total, log_total)


@summed(
    takes={
        "classes": NAMES,
        "sizes": OPENED_SIZES,
        "count": COUNT,
        "total": TOTAL,
        "log_total": LOG_TOTAL,
    },
    **_VEILED_SQUARES,
)
def local_class_squares(
    X: Float[Array, "n p"],
    y: Shaped[Array, " n"],
    *,
    classes: Int[Array, "c w"],
    sizes: Float[Array, " c"],
    count: Float[Array, "g p"],
    total: Float[Array, "g p"],
    log_total: Float[Array, " p"],
) -> dict[str, Any]:
    """Do so class by class, and over all rows."""
    rows = _rows_of(class_codes(y, classes), classes)
    return _squares(X, rows, count, total, log_total)


@summed(
    takes=_SEARCHED,
    searches=True,
    below=release("t l k", meaning=BELOW_MEANING, bound=Counts(), veiled=True),
)
def local_below(
    X: Float[Array, "n p"],
    *,
    count: Float[Array, "g p"],
    at: _Searched,
    level: int,
) -> dict[str, Any]:
    """Count this silo's values below the candidates of a level, and those before."""
    return {"below": at.search(count).own(X, [slice(None)], at.below, level)}


@summed(
    takes={"classes": NAMES, "sizes": OPENED_SIZES, **_SEARCHED},
    searches=True,
    below=release("t l k", meaning=BELOW_MEANING, bound=Counts(), veiled=True),
)
def local_class_below(
    X: Float[Array, "n p"],
    y: Shaped[Array, " n"],
    *,
    classes: Int[Array, "c w"],
    sizes: Float[Array, " c"],
    count: Float[Array, "g p"],
    at: _Searched,
    level: int,
) -> dict[str, Any]:
    """Do so class by class, and over all rows."""
    rows = _rows_of(class_codes(y, classes), classes)
    return {"below": at.search(count).own(X, rows, at.below, level)}


@summed(
    takes={"cells": CELLS, "fewest": FEWEST},
    settings=("fewest",),
    frequent=release(
        "s 2", meaning="which codes of categories enough rows have, as binary digits"
    ),
)
def found_categories(
    party: str, *, cells: Float[Array, "g s m"], fewest: Any, leader: str
) -> dict[str, Any]:
    """Return which categories have enough rows; others are put together."""
    often = cells[-1, :, :CODES] >= max(fewest, 1)
    digits = often.reshape(len(often), 2, _HALF) @ np.exp2(np.arange(_HALF))
    return {"frequent": digits * float(party == leader)}


@summed(
    takes={**TOTALS, "least": LEAST, "n_categories": "size l"},
    settings=("fewest",),
    size=release("g", meaning="how many rows each group has"),
    **shown_columns("g", "l"),
)
def found_table(
    party: str,
    *,
    totals: TableTotals,
    least: Any,
    n_categories: int,
    leader: str,
) -> dict[str, Any]:
    """Return the table that follows from totals of all silos.

    -1 stands for what is withheld; a variance is never negative, and where a variance
    is withheld, so is the mean. All silos find the same table, and one sends it.
    """
    table = ShownTable.of(totals)
    mean, variance = table.moments(totals, least)
    sends = float(party == leader)
    return {
        "size": sends * totals.rows,
        "missing": sends * table.missing,
        "mean": sends * mean,
        "variance": sends * variance,
        "shown_cells": sends * table.shown_cells(totals.frequent, n_categories),
    }


@summed(
    takes={**TOTALS, **_SEARCHED},
    settings=("fewest",),
    quartiles=release("g p 3", meaning="the quartiles of each column, where shown"),
    errors=release("g p 3", meaning="how wide the bracket of each quartile is"),
)
def found_quartiles(
    party: str,
    *,
    totals: TableTotals,
    at: _Searched,
    leader: str,
) -> dict[str, Any]:
    """Return the quartiles that follow; -1 stands for the error of a withheld one."""
    table = ShownTable.of(totals)
    search = at.search(totals.count)
    value, error = search.quantiles(search.reached(at.below), len(at.below))
    hidden = table.groups | table.categorical
    error = np.where(hidden[:, :, None], WITHHELD, error)
    sends = float(party == leader)
    return {
        "quartiles": sends * np.where(error < 0, 0.0, value),
        "errors": sends * error,
    }


@final
@dataclass(eq=False, repr=False)
class Describe(FederatedEstimator):
    """The first table of a paper, over all silos and by the classes of a label.

    Parameters
    ----------
    by : str, optional
        The label, by whose classes columns are described; a study's label when
        omitted, and no classes where there is none. On a column partition by classes
        only where it is named, as all silos then learn everybody's class.
    categorical : sequence of str, optional
        Columns of numbers whose values are codes of categories, whole numbers from 0
        to 63. Codes that fewer than `min_rows_per_class` rows have, and other values,
        are put together, and so are names of columns of text, which are categories
        without being named here.
    per_silo : bool or "classes", default False
        Describe each silo too, over all its rows, without classes: six rounds more, or
        eight with `quartiles`, in the last of which each silo shows its own part, which
        its policy must allow (``allow_disclosed``). "classes" describes each silo by
        the classes of the label, without quartiles and with tests, in five rounds: the
        columns of which no silo has a small count in any class, nor fewer than
        `min_rows` values behind a mean. A silo answers for one of the two, and for one
        label, in each version of its table.
    quartiles : bool, default True
        Search for quartiles too, with six more rounds.
    decimals : int or mapping of str to int, optional
        How many decimals values have, as of `Quantiles`.
    min_rows : int, default 10
        How many values lie in the bracket of a quartile, and behind a mean over all
        rows, at least. No silo takes fewer than its own `min_rows`.
    min_rows_per_class : int, default 5
        The least count, but for 0, that is shown. No silo takes fewer than its own
        `min_rows_per_class`.

    Attributes
    ----------
    groups_ : list of str
        Names of the classes, and "all" at the end.
    size_ : (g,) array
        Number of rows of each group.
    classes_ : (c,) array
        Only on a column partition, with `by`: the classes.
    n_, n_missing_ : (g, p) arrays
        Numbers of values and of missing cells; NaN where withheld.
    mean_, std_ : (g, p) arrays
        Means and standard deviations (denominator n - 1); NaN for categories and where
        withheld. Over all rows they are rounded to about an eighth of the standard
        deviation where the number of values is withheld.
    quartiles_ : (3, g, p) array
        First quartiles, medians and third quartiles; NaN where withheld. Only with
        `quartiles`.
    quartile_errors_ : (3, g, p) array
        The most that each can differ from that of the pooled rows.
    category_codes_ : (s, v) array of int
        Codes of the categories of each categorical column, of text the places of names;
        -1 at the end for all others.
    categories_ : list of list of str or int
        Names of the categories of each categorical column; of numbers their codes. On a
        column partition 1, 2, ... in place of names, in the order of text.
    category_counts_ : (g, s, v) array
        Numbers of rows; NaN where withheld.
    p_value_ : (p,) array
        p-value of the test that `tests_` names; NaN where anything of the column is
        withheld.
    tests_ : list of str
        "Welch’s t-test", "one-way analysis of variance", "chi-squared", or "".
    pairs_ : list of list of str
        Pairs of classes.
    smd_ : (l, p) array
        Standardised difference of the second class of each pair from the first, with
        the mean of both variances; of categories, Yang and Dalton's. NaN where anything
        of the column is withheld.
    columns_, categorical_ : list of str
        Names of all columns, and of those of categories.
    silos_ : list of str
        Only with `per_silo`, as those that follow are: names of the m silos.
    silo_size_ : (m,) array
        Number of rows of each.
    silo_n_, silo_n_missing_, silo_mean_, silo_std_ : (m, p) arrays
        Numbers of values and of missing cells, means and standard deviations
        (denominator one less than the number of values); NaN where withheld.
    silo_quartiles_, silo_quartile_errors_ : (3, m, p) arrays
        First quartiles, medians and third quartiles, and the most that each can differ
        from that of the silo's rows; NaN where withheld. Only with `quartiles`.
    silo_category_counts_ : (m, s, v) array
        Numbers of rows; NaN where withheld.
    silo_class_size_ : (m, c) array
        Only with ``per_silo="classes"``, as those that follow are: number of rows of
        each class of each silo. `silo_size_` and the others above are sums over these.
    silo_class_n_, silo_class_n_missing_ : (m, c, p) arrays
        As those of silos, by class.
    silo_class_mean_, silo_class_std_ : (m, c, p) arrays
        Likewise.
    silo_class_category_counts_ : (m, c, s, v) array
        Likewise.
    silo_p_value_ : (m, p) array
        P-value of the test of the classes that a silo has.
    silo_tests_ : list of list of str
        Its name, for each silo and column.
    silo_smd_ : (m, l, p) array
        Standardised differences of the pairs of classes.
    n_features_in_ : int
        p, the number of columns.
    feature_names_in_ : (p,) array of str
        Their names, where the silos' tables have names.

    Raises
    ------
    DataError
        When `by` is not the label, or `categorical` names no column; for a column of
        text of which more than 1,000 names are frequent.

    Notes
    -----
    Released: names and sizes of the classes; which codes and names of categories at
    least `min_rows_per_class` rows have; and the numbers of the table: sizes of the
    groups, missing cells, means, variances, quartiles with the widths of their
    brackets, and counts of categories.
    Counts below `min_rows_per_class` other than 0 are withheld before anybody sees
    them. So is everything about the column in these groups, and as much more as keeps
    what follows from the rest at or above this number. The mean of a column of two
    whole numbers gives their counts, and is judged as counts are. A column of which
    anything is withheld has no p-value and no standardised difference.

    The silos' programs open, and nobody else does: the totals from which the table
    follows, before anything is withheld (counts, sums and squares by group, counts of
    codes, names of text with their counts, and of values below candidates for
    quartiles; sum and squares of the signed logarithms). Never released: a row, a
    minimum or maximum, a name that a single row of a silo has, or any silo's own count.

    A silo answers for one `min_rows_per_class` in each version of its table: two tables
    that withhold different counts would give some of them back.

    On a column partition nothing is released in the fit without `by`: each silo keeps
    the table of its own columns, with exact quartiles, as its own results, and there
    the counts of categories of columns of text, of which it shows nothing. `n_`,
    `n_missing_`, `mean_` and `std_` are disclosed when they are read, where every silo
    allows it, without the columns in which few cells are missing, few have a value, or
    few different values are, one of them rare. Quartiles are cells of people, and no
    silo shows them.

    On a column partition with `by` names and sizes of the classes are released; and,
    unless all silos have the label, to the silos alone everybody's class, which every
    silo must allow (`allow_row_level`, and `allow_disclosed` between more than two). To
    the coordinator this total is noise. Each silo keeps the table of its own columns by
    class as its own results, with exact quartiles, counts of names of categories, and
    tests. When they are read, where every silo allows it (`allow_disclosed`), it
    discloses how many categories its columns have, and of its table, as on rows, what
    is not withheld: missing cells, means, variances, and counts of categories, without
    their names; nothing of a column of numbers with few different values, one of them
    rare in a class. A silo answers for all rows or by class, by one label and for one
    `min_rows_per_class` (`one_description`).

    With `per_silo` each silo discloses its own number of rows and, of each column in
    which it has no small count, missing cells, mean, variance and quartiles, or counts
    of categories. A silo that has a small count shows nothing of the column, and
    neither do the two or three smallest silos; where the remainder that follows from
    all silos is small, no silo does. The silos' programs open which silos have a small
    count in which column, how many rows each has, and the sum of the withheld silos'
    counts.

    With ``per_silo="classes"`` each silo discloses the sizes of its classes and, by
    class, missing cells, mean, variance or counts of categories of the columns of which
    no silo has a small count in a class, or few values of which one is rare. The silos'
    programs open how many silos have such a count in each column, and which silo has
    which classes, and which of these with few rows; then none shows anything.

    References
    ----------
    Yang and Dalton, A unified approach to measuring the effect size between two groups
    using SAS, SAS Global Forum 2012: standardised differences.
    """

    _missing = True
    _reads_categories = True
    _partitions = ("rows", "columns")
    _kept_by_silos = (
        *("n_", "n_missing_", "mean_", "std_", "category_counts_"),
        *("p_value_", "smd_"),
    )
    _steps = (
        *(local_names, frequent_names, by_silo, by_silo_and_class),
        *(describe_columns, own_classes),
    )
    groups_: list[str] = field(init=False)
    classes_: Shaped[Array, " c"] = field(init=False)
    columns_: list[str] = field(init=False)
    categorical_: list[str] = field(init=False)
    size_: Float[Array, " g"] = field(init=False)
    n_: Float[Array, "g p"] = field(init=False)
    n_missing_: Float[Array, "g p"] = field(init=False)
    mean_: Float[Array, "g p"] = field(init=False)
    std_: Float[Array, "g p"] = field(init=False)
    quartiles_: Float[Array, "3 g p"] = field(init=False)
    quartile_errors_: Float[Array, "3 g p"] = field(init=False)
    category_codes_: Int[Array, "s v"] = field(init=False)
    categories_: list[list[Any]] = field(init=False)
    category_counts_: Float[Array, "g s v"] = field(init=False)
    p_value_: Float[Array, " p"] = field(init=False)
    smd_: Float[Array, "l p"] = field(init=False)
    silos_: list[str] = field(init=False)
    silo_size_: Float[Array, " m"] = field(init=False)
    silo_n_: Float[Array, "m p"] = field(init=False)
    silo_n_missing_: Float[Array, "m p"] = field(init=False)
    silo_mean_: Float[Array, "m p"] = field(init=False)
    silo_std_: Float[Array, "m p"] = field(init=False)
    silo_quartiles_: Float[Array, "3 m p"] = field(init=False)
    silo_quartile_errors_: Float[Array, "3 m p"] = field(init=False)
    silo_category_counts_: Float[Array, "m s v"] = field(init=False)
    silo_class_size_: Float[Array, "m c"] = field(init=False)
    silo_class_n_: Float[Array, "m c p"] = field(init=False)
    silo_class_n_missing_: Float[Array, "m c p"] = field(init=False)
    silo_class_mean_: Float[Array, "m c p"] = field(init=False)
    silo_class_std_: Float[Array, "m c p"] = field(init=False)
    silo_class_category_counts_: Float[Array, "m c s v"] = field(init=False)
    silo_p_value_: Float[Array, "m p"] = field(init=False)
    silo_tests_: list[list[str]] = field(init=False)
    silo_smd_: Float[Array, "m l p"] = field(init=False)
    tests_: list[str] = field(init=False)
    pairs_: list[list[str]] = field(init=False)
    _exhibits = describe_exhibits

    by: Any = None
    _: KW_ONLY
    categorical: Any = ()
    per_silo: bool | str = False
    quartiles: bool = True
    decimals: Any = None
    min_rows: int = 10
    min_rows_per_class: int = 5

    def _citation(self) -> Citation:
        tests = [one for one in dict.fromkeys(vars(self).get("tests_", ())) if one]
        tested = f" Classes were compared by {', '.join(tests)}." if tests else ""
        return Citation(
            f"Columns were described by means and standard deviations, "
            f"{'medians and quartiles, ' if self.quartiles else ''}and counts; counts "
            f"below {self.min_rows_per_class} were withheld.{tested}",
            (
                "Yang D, Dalton JE. A unified approach to measuring the effect size "
                "between two groups using SAS. SAS Global Forum 2012.",
            ),
            apart_from=(
                interpolated("medians and quartiles", self) if self.quartiles else ""
            ),
        )

    def _fit(self, federation: Federation, y: Any) -> None:
        names = federation.feature_names
        fewest, least = check_least(self.min_rows_per_class), check_least(self.min_rows)
        units = units_of(self.decimals, names)
        check_choice("per_silo", self.per_silo, (False, True, "classes"))
        if federation.partition == "columns":
            self._describe_own(federation, fewest, least)
            return
        leader, texts = federation.parties[0], list(federation.categorical)
        federation, named = _numbered(federation, fewest, leader)
        self.columns_ = list(names)
        self.categorical_ = self._categorical(names, texts)
        categorical = np.array([names.index(c) for c in self.categorical_], np.int64)
        by_class, groups = self._classes(federation)
        if self.per_silo == "classes" and not by_class:
            raise DataError(
                'per_silo="classes" describes each silo by the classes of a label, and '
                "there is none. Name it when the federation is made: simulate(..., "
                'label="..."), or describe silos over all their rows (per_silo=True).'
            )
        sums = federation.sum(
            local_class_columns if by_class else local_columns,
            to="parties",
            groups=len(groups),
            categorical=categorical,
            # One for what is no code.
            n_cells=max(CODES, *map(len, named.values()), 0) + 1,
            **by_class,
        )
        squares = federation.sum(
            local_class_squares if by_class else local_squares,
            to="parties",
            **{name: sums[name] for name in ("count", "total", "log_total")},
            **by_class,
        )
        frequent = self._frequent(federation, named, sums["cells"], fewest)
        table = {name: sums[name] for name in ("rows", "count", "total", "cells")}
        table |= {
            "squares": squares["squares"],
            "categorical": categorical,
            "frequent": frequent,
            "fewest": fewest,
        }
        places = places_of(frequent)
        # An array has an entry at least.
        n_categories = max(int(places.sum()), 1)
        limited = {**table, "least": least}
        found = federation.sum(
            found_table, **limited, leader=leader, n_categories=n_categories
        )
        self.groups_, self.category_codes_ = groups, frequent
        self.categories_ = [
            [named[name][code] if name in named else code for code in codes]
            for name, codes in zip(
                self.categorical_, map(known_codes, frequent.tolist()), strict=True
            )
        ]
        self._set_parts("", found["size"], found, places)
        if self.per_silo == "classes":
            self._describe_classes_of_silos(federation, limited, by_class, places)
        elif self.per_silo:
            own = units if self.quartiles else None
            self._describe_silos(federation, limited, places, own)
        self._set_untested()
        if self.quartiles:
            searched = {
                "count": sums["count"],
                "log_total": sums["log_total"],
                "log_squares": squares["log_squares"],
                "units": units,
                "least": least,
            }
            below = self._below(federation, searched, by_class)
            found = federation.sum(
                found_quartiles, **(table | searched), below=below, leader=leader
            )
            self._set_quartiles("", found)
        if not federation.coordinator.planned:
            self._compare_classes()

    def _describe_own(self, federation: Federation, fewest: int, least: int) -> None:
        """Have each silo of a column partition describe its own columns."""
        if self.per_silo or len(self.categorical):
            raise DataError(
                "On a column partition each silo describes its own columns, and "
                "columns of categories are named where they are opened. Leave per_silo "
                "and categorical out."
            )
        self.columns_ = list(federation.feature_names)
        self.groups_, self.size_ = ["all"], np.array([float(federation.n_rows or 0)])
        # For the names that are described on rows, others and missing cells.
        most = MOST_CATEGORIES + 2
        limits: dict[str, Any] = {"fewest": fewest, "least": least, "most": most}
        if self.by is None:
            federation.keep(describe_columns.own_description, **limits)
            return
        check_label(federation, self.by)
        check_all_rows(federation, _OF_FOLDS)
        found = own_classes.keep_class_tables(federation, **limits)
        self.classes_, self.size_ = found
        self.groups_ = [*map(str, self.classes_.tolist()), "all"]

    def _gather(self, federation: Federation) -> None:
        # Silos that follow have no names of an earlier call, but for those of classes.
        self.columns_ = list(federation.feature_names)
        classes = [] if self.by is None else self.classes_.tolist()
        self.groups_ = [*map(str, classes), "all"]
        lines, counts = [0] * len(self.columns_), np.zeros((0, 1, 1))
        if self.by is None:
            shown = disclosed_columns(
                federation, describe_columns.shown_description, kept_of=self.kept_
            )
            table = {name: values[None] for name, values in shown.items()}
        else:
            table, lines = own_classes.gathered_class_tables(
                federation,
                len(self.groups_),
                kept_of=self.kept_,
                fewest=self.min_rows_per_class,
            )
            counts = table.pop("counts")[np.flatnonzero(lines)]
        self.categorical_ = [
            name for name, n in zip(self.columns_, lines, strict=True) if n
        ]
        # The names stay in the silos: others see them numbered in their order.
        self.category_codes_ = rows_of_codes([range(n - 1) for n in lines if n])
        self.categories_ = [list(range(1, n)) for n in lines if n]
        places = places_of(self.category_codes_)
        counts = np.moveaxis(counts[:, : places.shape[1]], -1, 0)
        shown_cells = counts[:, places] if self.categorical_ else np.zeros((1, 0))
        shown_cells = np.broadcast_to(
            shown_cells, (len(self.groups_), shown_cells.shape[1])
        )
        self._set_parts("", self.size_, {**table, "shown_cells": shown_cells}, places)
        self._set_untested()
        if not federation.coordinator.planned:
            self._compare_classes()

    def _frequent(
        self,
        federation: Federation,
        named: Mapping[str, Sequence[str]],
        cells: Any,
        fewest: int,
    ) -> Int[Array, "s v"]:
        """Return the codes of the categories that are shown.

        Parameters
        ----------
        named : mapping of str to sequence of str
            Names of these categories, of columns that are texts.
        cells : Veiled
            Counts of all codes.
        fewest : int
            The least count that is shown.
        """
        n_columns = len(self.categorical_)
        if federation.coordinator.planned and n_columns:
            federation.coordinator.notes.append(
                "How many categories Describe shows depends on the data; the plan has "
                "four for each column."
            )
        if n_columns > len(named):
            leader = federation.parties[0]
            found = federation.sum(
                found_categories, cells=cells, fewest=fewest, leader=leader
            )
            digits = _codes_of(found["frequent"])
        else:
            digits = [[]] * n_columns
        codes = rows_of_codes(
            [
                range(len(named[name])) if name in named else own
                for name, own in zip(self.categorical_, digits, strict=True)
            ]
        )
        if federation.coordinator.planned:
            return rows_of_codes([range(frequent_names.PLANNED)] * n_columns)
        return codes

    def _classes(self, federation: Federation) -> tuple[dict[str, Any], list[str]]:
        """Return the arguments of steps by class, and the names of all groups."""
        if self.by is None and federation.label is None:
            return {}, ["all"]
        check_label(federation, self.by)
        words, sizes = agreed_classes(federation, local_names, None, 2, least=1)
        names = [str(value) for value in class_values(words).tolist()]
        return {"classes": words, "sizes": sizes}, [*names, "all"]

    def _categorical(self, names: Sequence[str], texts: Sequence[str]) -> list[str]:
        given = [self.categorical] if isinstance(self.categorical, str) else None
        chosen = list(self.categorical or ()) if given is None else given
        if unknown := [name for name in chosen if name not in names]:
            raise DataError(f"categorical names {unknown}, which are no columns.")
        return [name for name in names if name in chosen or name in texts]

    def _below(
        self,
        federation: Federation,
        searched: Mapping[str, Any],
        by_class: Mapping[str, Any],
    ) -> Any:
        """Return counts below candidates of all levels, for the parties alone."""
        step = local_class_below if by_class else local_below
        g, p = len(self.groups_), federation.n_features
        below: Any = column_quantiles.no_counts(g, p, 3, searched["least"])
        for level in range(len(below)):
            arguments = {**searched, **by_class, "below": below, "level": level}
            below = federation.sum(step, to="parties", **arguments)["below"]
        return below

    def _set_parts(
        self,
        prefix: str,
        size: Float[Array, " g"],
        table: Mapping[str, Array],
        places: Bool[Array, "s v"],
    ) -> None:
        """Set what is shown of groups (prefix ""), or of silos ("silo_")."""
        missing, variance = table["missing"], table["variance"]
        n_missing = shown(missing, missing)
        values = {
            "size": size,
            "n_missing": n_missing,
            "n": size[:, None] - n_missing,
            "mean": shown(table["mean"], variance),
            "std": np.sqrt(shown(variance, variance)),
            "category_counts": _category_counts(table["shown_cells"], places),
        }
        for name, value in values.items():
            setattr(self, f"{prefix}{name}_", value)

    def _set_quartiles(self, prefix: str, table: Mapping[str, Array]) -> None:
        values, errors = table["quartiles"], table["errors"]
        for name, found in (("quartiles", values), ("quartile_errors", errors)):
            setattr(self, f"{prefix}{name}_", np.moveaxis(shown(found, errors), -1, 0))

    def _describe_silos(
        self,
        federation: Federation,
        arguments: Mapping[str, Any],
        places: Bool[Array, "s v"],
        units: Float[Array, " p"] | None,
    ) -> None:
        """Set what each silo shows of its own rows."""
        shown_of = by_silo.tables_of_silos(federation, arguments, places, units)
        self.silos_ = list(federation.parties)
        parts = [shown_of[silo] for silo in self.silos_]
        table = {name: np.array([part[name] for part in parts]) for name in parts[0]}
        self._set_parts("silo_", table["size"], table, places)
        if units is not None:
            self._set_quartiles("silo_", table)

    def _describe_classes_of_silos(
        self,
        federation: Federation,
        table: Mapping[str, Any],
        by_class: Mapping[str, Any],
        places: Bool[Array, "s v"],
    ) -> None:
        """Set the silos' tables of their classes, and those of all silos."""
        shown_of = by_silo_and_class.class_tables_of_silos(
            federation, table, by_class, places
        )
        self.silos_ = list(federation.parties)
        parts = [shown_of[silo] for silo in self.silos_]
        found = {name: np.array([part[name] for part in parts]) for name in parts[0]}
        m, c = found["size"].shape
        # As if each class of each silo were a group.
        flat = {name: x.reshape(m * c, *x.shape[2:]) for name, x in found.items()}
        self._set_parts("silo_class_", flat["size"], flat, places)
        for name in _OF_PARTS:
            own = getattr(self, f"silo_class_{name}_")
            setattr(self, f"silo_class_{name}_", own.reshape(m, c, *own.shape[1:]))
        for name in ("size", "n", "n_missing", "category_counts"):
            own = getattr(self, f"silo_class_{name}_")
            setattr(self, f"silo_{name}_", own.sum(axis=1))
        n, mean, std = (
            np.nan_to_num(own)
            for own in (self.silo_class_n_, self.silo_class_mean_, self.silo_class_std_)
        )
        total = np.maximum(n.sum(axis=1), 2.0)
        of_silo = (n * mean).sum(axis=1) / total
        between = n * (mean - of_silo[:, None]) ** 2
        squares = (np.maximum(n - 1.0, 0.0) * std**2 + between).sum(axis=1)
        shows = np.isfinite(self.silo_class_std_).any(axis=1)
        self.silo_mean_ = np.where(shows, of_silo, np.nan)
        self.silo_std_ = np.where(shows, np.sqrt(squares / (total - 1.0)), np.nan)

    def _set_untested(self) -> None:
        p = len(self.columns_)
        self.p_value_, self.tests_ = np.full(p, np.nan), [""] * p
        self.pairs_, self.smd_ = [], np.zeros((0, p))

    def _compare_classes(self) -> None:
        """Set tests and standardised differences, from what the table shows."""
        classes = self.groups_[:-1]
        pairs = list(itertools.combinations(range(len(classes)), 2))
        self.pairs_ = [[classes[i], classes[k]] for i, k in pairs]
        parts = [vars(self)[f"{name}_"] for name in _OF_PARTS]
        columns = enumerate(map(self.columns_.index, self.categorical_))
        places = {j: place for place, j in columns}
        whole = ClassTable(*(part[:-1] for part in parts)).compared(places)
        self.p_value_, self.tests_, self.smd_ = whole
        # A column of which anything is withheld gets no test.
        for j in np.flatnonzero(np.isnan(self.n_missing_[-1])):
            self.p_value_[j], self.tests_[j], self.smd_[:, j] = np.nan, "", np.nan
        if self.per_silo != "classes":
            return
        parts = [vars(self)[f"silo_class_{name}_"] for name in _OF_PARTS]
        tables = [ClassTable(*own) for own in zip(*parts, strict=True)]
        found = [table.compared(places) for table in tables]
        p_values, self.silo_tests_, smds = map(list, zip(*found, strict=True))
        self.silo_p_value_, self.silo_smd_ = np.array(p_values), np.array(smds)

    def __str__(self) -> str:
        """Return the table as text; before a fit, the model."""
        return str(self.summary()) if "tests_" in vars(self) else repr(self)

    def to_frame(self) -> Any:
        """Return the table as a long pandas data frame, with all digits.

        Returns
        -------
        DataFrame
            A row for each column, category (missing for numbers) and group, and with
            `per_silo` for each silo ("all" for all of them), with "n", "missing",
            "mean", "sd", "q1", "median", "q3", "count", "share", "test" and "p". What
            is withheld is missing.
        """
        return self.summary().to_frame("description")

    def to_markdown(self) -> str:
        """Return the table as it is printed, in Markdown."""
        head, *rows = self._printed()
        lines = [head, ["---"] * len(head), *rows]
        return "\n".join(
            "| " + " | ".join(c.replace("|", "\\|") for c in line) + " |"
            for line in lines
        )

    def to_latex(self) -> str:
        """Return the table as it is printed, as a LaTeX tabular."""
        head, *rows = [list(map(_escaped, line)) for line in self._printed()]
        body = [" & ".join(line) + r" \\" for line in rows]
        return "\n".join(
            [
                rf"\begin{{tabular}}{{l{'r' * (len(head) - 1)}}}",
                r"\hline",
                " & ".join(head) + r" \\",
                r"\hline",
                *body,
                r"\hline",
                r"\end{tabular}",
            ]
        )

    def _printed(self) -> list[list[str]]:
        check_is_fitted(self)
        exhibit = self._exhibits(self.columns_)[0]
        # That of all silos stands before those of each.
        table = exhibit.tables[0]
        return [[c.heading for c in table.columns], *(list(r) for r in table.shown)]


def describe(
    federation: Federation,
    by: str | None = None,
    *,
    categorical: Sequence[str] = (),
    per_silo: bool | str = False,
    quartiles: bool = True,
    decimals: Any = None,
    min_rows: int = 10,
    min_rows_per_class: int = 5,
) -> Describe:
    """Return the first table of a paper, over all silos and by classes of a label.

    Parameters
    ----------
    federation : Federation
        By rows, or by columns; cells may be missing.
    by : str, optional
        The federation's label, which is taken when omitted.
    categorical : sequence of str, optional
        Columns of categories; this and what follows are as of `Describe`, which this
        fits, and which says what is released.
    per_silo : bool or "classes", default False
        Describe each silo too, or each silo by class, where all silos allow it.
    quartiles : bool, default True
        Search for quartiles too.
    decimals : int or mapping of str to int, optional
        How many decimals values have.
    min_rows : int, default 10
        How many values lie in the bracket of a quartile at least.
    min_rows_per_class : int, default 5
        The least count, but for 0, that is shown.

    Returns
    -------
    Describe
        Prints as a table; with `to_frame`, `to_markdown` and `to_latex`.

    Raises
    ------
    DataError, ReleaseRefusedError
        As of `Describe`.
    """
    return Describe(
        by,
        categorical=categorical,
        per_silo=per_silo,
        quartiles=quartiles,
        decimals=decimals,
        min_rows=min_rows,
        min_rows_per_class=min_rows_per_class,
    ).fit(federation)


def _numbered(
    federation: Federation, fewest: int, leader: str
) -> tuple[Federation, dict[str, list[str]]]:
    """Return a view with numbers for texts, and the names that they stand for.

    The names are those of each text column's frequent categories.
    """
    names, texts = federation.feature_names, list(federation.categorical)
    if not texts:
        return federation, {}
    text = federation.select(texts)
    named = frequent_names.frequent_names(text, fewest, leader)
    codes = frequent_names.codes_of_names(named)
    places = text.derive(frequent_names.category_places, texts, codes=codes)
    return federation.with_part(texts, places).select(names), named


def _rows_of(codes: Int[Array, " n"], classes: Int[Array, "c w"]) -> list[Any]:
    """Return masks of the rows of each class, and all rows."""
    return [*(codes == k for k in range(len(classes))), slice(None)]


def _columns(
    X: Float[Array, "n p"],
    groups: Sequence[Any],
    categorical: Int[Array, " s"],
    n_cells: int,
) -> dict[str, Any]:
    return {
        **group_sums(X, groups, categorical, n_cells),
        "log_total": column_quantiles.log_sums(X)[1],
    }


def _squares(
    X: Float[Array, "n p"],
    groups: Sequence[Any],
    count: Float[Array, "g p"],
    total: Float[Array, "g p"],
    log_total: Float[Array, " p"],
) -> dict[str, Any]:
    mean = total / np.maximum(count, 1.0)
    squares = [squared_deviations(X[rows], mean[i]) for i, rows in enumerate(groups)]
    log_squares = column_quantiles.log_squares(X, count[-1], log_total)
    return {"squares": np.array(squares), "log_squares": log_squares}


def _codes_of(digits: Float[Array, "s 2"]) -> list[list[int]]:
    """Return the frequent codes of each column."""
    bits = (digits.astype(np.int64)[:, :, None] >> np.arange(_HALF)) & 1
    return [np.flatnonzero(row).tolist() for row in bits.reshape(len(bits), -1)]


def _category_counts(
    shown_cells: Float[Array, "g l"], places: Bool[Array, "s v"]
) -> Float[Array, "g s v"]:
    """Return counts of categories by column, NaN where withheld."""
    cells = np.zeros((len(shown_cells), *places.shape))
    cells[:, places] = shown_cells[:, : places.sum()]
    return shown(cells, cells)


def _escaped(text: str) -> str:
    return "".join("\\" + c if c in "&%$#_{}" else c for c in text)

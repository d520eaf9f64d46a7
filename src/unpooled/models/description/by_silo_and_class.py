"""The first table of a paper for each silo, by the classes of a label.

    each keeps   its counts, sums and squares, class by class
    round 1      silos ── 1 for a column of which it has a small count in a class; which
                 classes it has, and whether few rows ──> Σ, opened by the silos alone
    all find     which columns are shown: those without a small count in any silo and
                 class, nor too few values for a mean. None is, where a silo has few
                 rows of a class, or where only two silos have one
    round 2      one silo ── which columns these are ─────────────────────> opened
    round 3      each silo ── sizes of its classes, and its table of these ──> shown

A column is shown by all silos or by none, so that no number that is shown is about few
people. Of other columns nothing is shown by silo. What is known of these are counts by
class over all silos, and the sizes of the classes in each silo:

           silo 1   silo 2   silo 3   all            the same for each class; a margin
    A         ?        ?        ?      80            is 0 or at least the limit
    B         ?        ?        ?      12
    size     40       38       14      92

In such a table no cell is known to be below the limit (`unpooled.linalg.small_cells`).
It would be with a third margin, of the column in each silo over all classes. So a silo
answers either this or `unpooled.models.description.by_silo`, and by one label, in each
version of its table (`unpooled.party.rules.one_setting`).

Of two silos that have a class, each would find the other's counts in those of all.
Quartiles are not searched for.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from unpooled.arrays import Array, Bool, Float, Int, Shaped
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.linalg.moments import observed_sums, squared_deviations
from unpooled.models.description.by_silo import (
    CATEGORIES,
    COUNTED,
    FEW,
    JUDGED_BY,
    VEILED,
    ShownCategories,
    Silos,
    has_small,
    judged,
    lines_of,
    values_of,
)
from unpooled.models.description.shown_table import (
    ShownTable,
    TableTotals,
    shown_columns,
)
from unpooled.models.discriminant.classes import (
    NAMES,
    OPENED_SIZES,
    class_codes,
    class_sizes,
)
from unpooled.protocol.step import disclosed, kept, public, release, stays, summed

# A silo's rows of a class: none, enough to show, or a small count.
_NONE, _ENOUGH, _SMALL = 0.0, 1.0, 2.0

_SHOWN = public("p", "which columns each silo shows by class")
_FOUND = {
    "small": public("p", "how many silos have a small count in a class"),
    "held": public("k c", "which silos have which classes, 2 where few rows"),
}


@final
@dataclass(frozen=True, eq=False)
class _Found:
    """The flags of small counts that all silos find of each other: `_FOUND`.

    Attributes
    ----------
    small : (p,) array
        How many silos have a small count of a column in a class.
    held : (k, c) array
        `_NONE`, `_ENOUGH` or `_SMALL`: the rows of each class that each silo has.
    """

    small: Float[Array, " p"]
    held: Float[Array, "k c"]

    def shown(self) -> Bool[Array, " p"]:
        """Return which columns all silos show by class."""
        held = np.rint(self.held)
        n_silos = (held != _NONE).sum(axis=0)
        safe = not (held == _SMALL).any() and not (n_silos == 2).any()
        return (np.rint(self.small) == 0) & safe


@kept(
    takes={"classes": NAMES, "sizes": OPENED_SIZES},
    class_values=stays(
        f"c p {COUNTED}",
        until="fit",
        meaning="how many rows of each class have each whole number, or value",
    ),
    class_count=stays("c p", until="fit", meaning="how many values each class has"),
    class_total=stays("c p", until="fit", meaning="the sums of each class"),
    class_rows=stays("c", until="fit", meaning="how many rows each class has"),
)
def own_class_counts(
    X: Float[Array, "n p"],
    y: Shaped[Array, " n"],
    *,
    classes: Int[Array, "c w"],
    sizes: Float[Array, " c"],
) -> dict[str, Any]:
    """Count and add this silo's values class by class; nothing leaves."""
    codes = class_codes(y, classes)
    parts = [X[codes == k] for k in range(len(classes))]
    sums = [observed_sums(rows) for rows in parts]
    return {
        "class_values": np.array([values_of(rows) for rows in parts]),
        "class_count": np.array([count for count, _ in sums]),
        "class_total": np.array([total for _, total in sums]),
        "class_rows": class_sizes(codes, classes),
    }


@kept(
    takes={"classes": NAMES, "sizes": OPENED_SIZES},
    class_squares=stays(
        "c p", until="fit", meaning="squared deviations from each class's own means"
    ),
)
def own_class_squares(
    X: Float[Array, "n p"],
    y: Shaped[Array, " n"],
    kept: Any,
    *,
    classes: Int[Array, "c w"],
    sizes: Float[Array, " c"],
) -> dict[str, Any]:
    """Add squared deviations from the silo's own means of classes; nothing leaves."""
    codes = class_codes(y, classes)
    means = kept["class_total"] / np.maximum(kept["class_count"], 1.0)
    parts = [squared_deviations(X[codes == k], mean) for k, mean in enumerate(means)]
    return {"class_squares": np.array(parts)}


@summed(
    by="party",
    # Entries are of single silos, which silos that allow it show.
    between_two=True,
    takes={**JUDGED_BY, "n_classes": "size c"},
    settings=("fewest",),
    small=release("p", meaning=_FOUND["small"].meaning, **VEILED),
    held=release("k c", meaning=_FOUND["held"].meaning, **VEILED),
    class_lines=stays(
        "c p l", until="fit", meaning="how many rows of each class have each category"
    ),
    class_flags=stays(
        "p", until="fit", meaning="in which columns it has a small count"
    ),
)
def small_by_class(
    kept: Any, party: str, *, totals: TableTotals, among: Silos, n_classes: int
) -> dict[str, Any]:
    """Release in which columns a class has a small count, and which classes it has."""
    table, fewest = ShownTable.of(totals), totals.fewest
    # A count that is withheld over all silos is small in one of them.
    small = table.of_all | table.groups.any(axis=0)
    lines, sizes = [], kept["class_rows"]
    for k, rows in enumerate(sizes.tolist()):
        own, n_rare = lines_of(
            kept["class_values"][k], kept["class_count"][k], rows, totals, among.width
        )
        small |= has_small(own, fewest) | (n_rare <= FEW)
        # Number, mean and deviation of fewer whole numbers may tell which they are.
        small |= ~table.categorical & (own[:, -2] > 0) & (own[:, -2] < among.least)
        lines.append(own)
    held = np.where(sizes == 0, _NONE, np.where(sizes < fewest, _SMALL, _ENOUGH))
    return {
        "small": small.astype(float),
        "held": among.place_of(party)[:, None] * held,
        "class_lines": np.array(lines),
        "class_flags": small.astype(float),
    }


@summed(
    takes=_FOUND,
    shown=release("p", meaning=_SHOWN.meaning),
)
def found_by_class(party: str, *, by: _Found, leader: str) -> dict[str, Any]:
    """Return which columns are shown; all silos find the same, and one sends it."""
    return {"shown": float(party == leader) * by.shown()}


@disclosed(
    by="party",
    describes="classes",
    takes={**_FOUND, **CATEGORIES, "n_classes": "size c"},
    size=release("c", meaning="how many rows of each class the silo has"),
    **shown_columns("c", "q"),
)
def own_class_table(
    kept: Any, *, by: _Found, shown: ShownCategories, n_classes: int
) -> dict[str, Any]:
    """Disclose the silo's own table by class; -1 stands for what is withheld."""
    # Whatever the others found, a silo shows none of its own small counts.
    hidden = ~by.shown() | (kept["class_flags"] > 0)
    if hidden.all():
        raise DataError("No column is shown by class.", rule="min_rows_per_class")
    names = ("class_lines", "class_total", "class_squares")
    parts = [
        shown.table_of(hidden, *(kept[name][k] for name in names))
        for k in range(n_classes)
    ]
    by_class = {name: np.array([part[name] for part in parts]) for name in parts[0]}
    return {"size": kept["class_rows"], **by_class}


def class_tables_of_silos(
    federation: Federation,
    table: Mapping[str, Any],
    by_class: Mapping[str, Any],
    places: Bool[Array, "s v"],
) -> Mapping[str, Mapping[str, Array]]:
    """Return each silo's tables of its classes; five rounds, two without an array.

    Parameters
    ----------
    federation : Federation
        The view that is described.
    table : mapping of str to object
        Totals over all silos, which they alone open, and the limits of the table.
    by_class : mapping of str to array
        Names and sizes of the classes, as steps take them.
    places : (s, v) array of bool
        Which places of each categorical column are categories.

    Raises
    ------
    DataError
        Where nothing may be shown by class.
    ReleaseRefusedError
        Where a silo does not allow its own values to be seen, or has described its rows
        as a whole, or by another label.
    """
    federation.keep(own_class_counts, **by_class)
    federation.keep(own_class_squares, **by_class)
    n_classes = len(by_class["sizes"])
    found = federation.sum(
        small_by_class,
        to="parties",
        n_classes=n_classes,
        **judged(federation, table, places),
    )
    leader = federation.parties[0]
    shown = federation.sum(found_by_class, leader=leader, **found)["shown"]
    if not federation.coordinator.planned and not (shown > 0).any():
        raise DataError(
            "No column can be described by class within silos: in each, some silo has "
            "a small count in a class (of values: below min_rows), or few rows of a "
            "class, or only two silos have one. Describe silos over all their rows "
            "(per_silo=True), or merge classes or categories."
        )
    return federation.collect(
        own_class_table,
        n_categories=max(int(places.sum()), 1),
        n_classes=n_classes,
        **found,
        **{name: table[name] for name in ("categorical", "frequent")},
    )

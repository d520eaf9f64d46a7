"""Results of encoders: the groups of each column's categories, with their rows."""

from collections.abc import Sequence

import numpy as np

from unpooled.arrays import Array, Float, Int
from unpooled.models.preprocessing.category_groups import FEWEST, CategoryGroups
from unpooled.results.exhibits import Column, Exhibit, ResultTable
from unpooled.results.fitted_attributes import by_column
from unpooled.results.formats import listed

_HEADING = "Categories, over all silos"
_TEXT = (
    "The categories of each column, and how many rows of all silos have each. Rare "
    "names, and names that a single row of a silo has, are one category; their names "
    "and sizes are not shown."
)
_JOINED = (
    " Where they would be fewer than {fewest} rows together, the next more frequent "
    "name is in their category, in which it is named: it has no category of its own. "
    "To keep it apart, silos leave the rows of the rare names out (where)."
)
_REFERENCE = (
    " The reference of a column has no indicator: later steps compare the other "
    "categories with it."
)
RARE, MISSING = "(infrequent, and others)", "(missing)"


def encoder_exhibits(
    groups: Sequence[CategoryGroups],
    columns: Sequence[str],
    numbers: Sequence[Float[Array, " _"]] | None = None,
    dropped: Sequence[int] | None = None,
) -> list[Exhibit]:
    """Return the exhibits of a fitted encoder.

    Parameters
    ----------
    groups : sequence of CategoryGroups
        Groups of each column.
    columns : sequence of str
        Their names.
    numbers : sequence of (g,) array, optional
        For each column, the number as which each group is encoded; -1 for none.
    dropped : sequence of int, optional
        For each column, the group that no indicator is made of; -1 for none.
    """
    labels = [_label(one, label) for one in groups for label in one.labels]
    joined = any(one.joined for one in groups)
    text = _TEXT + _JOINED.format(fewest=FEWEST) * joined
    cells = {
        Column("Column"): np.repeat(columns, [len(one.labels) for one in groups]),
        Column("Category"): labels,
        Column("n", "count"): np.concatenate([one.counts for one in groups]),
        Column("Share", "share"): np.concatenate(
            [one.counts / one.counts.sum() for one in groups]
        ),
    }
    if numbers is not None:
        flat = np.concatenate(numbers)
        cells[Column("Encoded as", "count")] = np.where(flat < 0, np.nan, flat)
    if dropped is not None:
        text += _REFERENCE
        cells[Column("Reference")] = [
            "reference" if number == drop else ""
            for one, drop in zip(groups, dropped, strict=True)
            for number in range(len(one.labels))
        ]
    table = ResultTable.of("categories", cells)
    return [Exhibit(_HEADING, text, [table])]


def own_encoder_exhibits(
    made: Int[Array, " p"], columns: Sequence[str], what: str
) -> list[Exhibit]:
    """Return the exhibits of an encoder of silos' own columns.

    Parameters
    ----------
    made : (p,) array of int
        How many columns or numbers each column becomes, -1 for columns of numbers.
    columns : sequence of str
        Their names.
    what : {"columns", "numbers"}
        What categories become.
    """
    coded = np.flatnonzero(np.asarray(made) >= 0)
    names = [columns[int(j)] for j in coded]
    heading = f"{what.capitalize()} of its categories"
    table = by_column("encoded", names, {Column(heading, "count", what): made[coded]})
    text = (
        "How many each column of categories becomes. The categories, and how many rows "
        "have each, are in the results of the silo that has the column, and are shown "
        "to nobody else."
    )
    return [Exhibit("Encoded columns", text, [table])]


def _label(group: CategoryGroups, label: str | None) -> str:
    if label != "" or not group.joined:
        return shown_label(label)
    return f"(infrequent, and {listed(map(shown_label, group.joined))})"


def shown_label(label: str | None) -> str:
    """Return the label of a group of categories in a table."""
    return MISSING if label is None else label or RARE

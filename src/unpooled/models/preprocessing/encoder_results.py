"""Results of encoders: the groups of each column's categories, with their rows."""

from collections.abc import Sequence

from unpooled.arrays import Array, Float
from unpooled.models.preprocessing.category_groups import Groups
from unpooled.results.exhibits import Column, Exhibit, Table

_HEADING = "Categories, over all silos"
_TEXT = (
    "The categories of each column, and how many rows of all silos have each. Rare "
    "names, and names that a single row of a silo has, are one category; their names "
    "and sizes are not shown."
)
RARE, MISSING = "(infrequent, and others)", "(missing)"


def encoder_exhibits(
    groups: Sequence[Groups],
    columns: Sequence[str],
    numbers: Sequence[Float[Array, " _"]] | None = None,
) -> list[Exhibit]:
    """Return the exhibits of a fitted encoder.

    Parameters
    ----------
    groups : sequence of Groups
        Of each column.
    columns : sequence of str
        Their names.
    numbers : sequence of (g,) array, optional
        Of each column, the number as which each group is encoded; -1 for none.
    """
    rows = [
        (column, shown_label(label), int(count), float(count / one.counts.sum()))
        for column, one in zip(columns, groups, strict=True)
        for label, count in zip(one.labels, one.counts.tolist(), strict=True)
    ]
    heads = [Column("Column"), Column("Category"), Column("n", "count")]
    heads.append(Column("Share", "share"))
    if numbers is not None:
        heads.append(Column("Encoded as", "count"))
        flat = [int(number) for own in numbers for number in own.tolist()]
        rows = [
            (*row, number if number >= 0 else None)
            for row, number in zip(rows, flat, strict=True)
        ]
    table = Table("categories", heads, rows)
    return [Exhibit(_HEADING, _TEXT, [table])]


def shown_label(label: str | None) -> str:
    """Return what a table calls a group of categories."""
    return MISSING if label is None else label or RARE

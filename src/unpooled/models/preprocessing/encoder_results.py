"""Results of encoders: the groups of each column's categories, with their rows."""

from collections.abc import Sequence

import numpy as np

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
    labels = [shown_label(label) for one in groups for label in one.labels]
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
    table = Table.of("categories", cells)
    return [Exhibit(_HEADING, _TEXT, [table])]


def shown_label(label: str | None) -> str:
    """Return what a table calls a group of categories."""
    return MISSING if label is None else label or RARE

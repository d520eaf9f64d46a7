"""Which counts of a table by groups are withheld, so that no small one follows.

           group 1   group 2   group 3   all            margins are known: sizes of the
    A         40        38         2      80            groups, and rows of the table by
    B         12        30         9      51            other columns, or by none
    missing    8         0        11      19

A count is small if it is neither 0 nor at least `least`. Groups that have one are
withheld whole, with another group or more: until the rest that follows from "all" is
large in every row. A row that is small in all groups together is withheld there too,
with another row or more. What is withheld is then a complete block with known margins
of at least `least`, or of 0, and within it no count is known to fewer than `least`.

References
----------
Dobra and Fienberg, Bounds for cell entries in contingency tables given marginal totals,
PNAS 97 (2000): in a block with known margins these bounds are sharp.
"""

import numpy as np

from unpooled.arrays import Array, Bool, Float


def withheld(
    counts: Float[Array, "l g"], least: int
) -> tuple[Bool[Array, " g"], Bool[Array, " l"]]:
    """Return which groups are withheld, and which rows in all groups together.

    Parameters
    ----------
    counts : (l, g) array
        Rows, of which one counts missing cells, by groups that have no person in
        common.
    least : int
        The least count, but for 0, that is no secret.
    """
    groups: Array = np.any(_small(counts, least), axis=0)
    total = counts.sum(axis=1)
    rows = _small(total, least)
    sizes = counts.sum(axis=0)
    while groups.any() and not groups.all():
        rest = counts[:, groups].sum(axis=1)
        if groups.sum() > 1 and not _small(rest, least)[~rows].any():
            break
        groups[_smallest(sizes, ~groups)] = True
    while rows.any() and not rows.all():
        # By groups that are shown, those of the others follow.
        rest = counts[:, groups].sum(axis=1)
        if rows.sum() > 1 and rest[rows].sum() >= 2 * least:
            break
        rows[_smallest(total, ~rows)] = True
    return groups, rows


def _small(counts: Float[Array, "..."], least: int) -> Bool[Array, "..."]:
    return (counts > 0) & (counts < least)


def _smallest(counts: Float[Array, " l"], of: Bool[Array, " l"]) -> int:
    """Return the place of the smallest count that is not 0, if there is one."""
    places = np.flatnonzero(of)
    own = counts[places]
    return int(places[np.argmin(np.where(own > 0, own, np.inf))])

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

Silos are groups too, but each knows its own counts alone (`withheld_silos`):

           silo 1   silo 2   silo 3   silo 4   silo 5   all    2 is small: silo 2 is
    A        40        2       30       21       50     143    withheld, and with it
    B        22       30        9       11        9      81    the smallest silos,
    missing   8        6        0        0       19      33    which are 2, 3 and 4

Three silos at least are withheld whole, so that what follows from "all" for two of them
is a sum even to the third one. That sum must be large in every row, also less the
counts of one of these silos; otherwise the column is withheld in all silos.

References
----------
Dobra and Fienberg, Bounds for cell entries in contingency tables given marginal totals,
PNAS 97 (2000): in a block with known margins these bounds are sharp.
"""

import numpy as np

from unpooled.arrays import Array, Bool, Float

# With two silos withheld, each would have the counts of the other.
FEWEST_SILOS = 3


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


def withheld_silos(
    flagged: Bool[Array, "m p"], sizes: Float[Array, " m"]
) -> Bool[Array, "m p"]:
    """Return the silos that withhold each column, before the remaining sums are judged.

    The smallest silos are withheld with one that has a small count, whichever has it.
    So a larger limit, which flags more silos, withholds the same and more: silos of two
    tables are not withheld in turn. Nor are they where groups are silos: `withheld`
    takes the smallest ones too. For the same reason silos of equal size are withheld
    together.

    Parameters
    ----------
    flagged : (m, p) array of bool
        Which silos have a small count in which column.
    sizes : (m,) array
        Rows of each silo.
    """
    found = flagged.copy()
    largest = np.sort(sizes)[:FEWEST_SILOS][-1]
    found[sizes <= largest] |= flagged.any(axis=0)
    return found


def is_unsafe(
    rest: Float[Array, "p l"], own: Float[Array, "p l"], least: Float[Array, "p l"]
) -> Bool[Array, " p"]:
    """Return the columns in which sums over the withheld silos give a small count.

    Parameters
    ----------
    rest : (p, l) array
        Counts of each column by rows, over the silos that are withheld.
    own : (p, l) array
        Counts of one of these silos, which can subtract them.
    least : (p, l) array
        The least count, but for 0, that is no secret.
    """
    others = rest - own
    small = (rest > 0) & (rest < least) | (others > 0) & (others < least)
    return np.any(small, axis=1)


def _small(counts: Float[Array, "..."], least: int) -> Bool[Array, "..."]:
    return (counts > 0) & (counts < least)


def _smallest(counts: Float[Array, " l"], of: Bool[Array, " l"]) -> int:
    """Return the place of the smallest count that is not 0, if there is one."""
    places = np.flatnonzero(of)
    own = counts[places]
    return int(places[np.argmin(np.where(own > 0, own, np.inf))])

"""How many blocks silos cut their rows into, and how many rows these have together.

    silos ── masked: 1 for each level that the own blocks reach ──> coordinator
    silos <── the total, which the coordinator cannot read, and sums that check it
          each cuts its rows into as many blocks as enough silos can
    silos ── masked: rows of each block ──> coordinator
    silos <── the total, likewise: what a selection leaves out is judged by it

All silos select blocks by the same numbers, and a silo with many rows has more blocks
than one with few. Without the common number a selection could have blocks of one silo
alone, whose total is that silo's own, or of all silos but one. The levels are few, so
that the silos learn of each other, without names, roughly how many rows those with few
rows have. Five folds of blocks of these numbers are alike, or of two blocks and of one
only where few can be.
Rows are added after the number is common, so that each total is over three silos.
"""

from collections.abc import Sequence

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.protocol.shared_blocks import LEVELS, MOST_BLOCKS
from unpooled.protocol.step import of_protocol, release

# Silos that each block has rows of: of two, each could subtract its own part.
_FEWEST_SILOS = 3
# Silos that can have so many have all blocks. Numbers of rows of the blocks that a silo
# has, less of those that it lacks, would be its own number of rows.
_HAD_BY_ALL = 5


held = of_protocol(
    "block_levels.held",
    "summed",
    {
        "silos": release(
            str(1 + len(LEVELS)),
            meaning="number of silos that do not disclose their own values, and of "
            f"those that cut their rows into at least "
            f"{', '.join(map(str, LEVELS))} blocks",
            veiled=True,
        )
    },
)

sizes = of_protocol(
    "block_levels.sizes",
    "summed",
    {
        "rows": release(
            str(MOST_BLOCKS),
            meaning="number of rows in each block of this number, over all silos",
            veiled=True,
        )
    },
)

# The steps by which silos count before a selection, in this order.
COUNTED = {step.name: step for step in (held, sizes)}


def own_levels(n_blocks: int, *, discloses: bool) -> Float[Array, " l"]:
    """Return a silo's part of the total.

    Parameters
    ----------
    n_blocks : int
        Number of blocks of its own cut.
    discloses : bool
        Whether its policy allows that its own values are seen.
    """
    return np.array([not discloses, *(n_blocks >= level for level in LEVELS)], float)


def own_sizes(sizes: Sequence[int]) -> Float[Array, " l"]:
    """Return a silo's rows of each block, 0 for those that it does not have."""
    return np.array([*sizes, *[0] * (MOST_BLOCKS - len(sizes))], float)


def common_blocks(silos: Sequence[float] | Float[Array, " l"], n_parties: int) -> int:
    """Return how many blocks a silo may have, so that none is in a block alone.

    Nor in all blocks but a few, unless it has too few rows for five.

    Parameters
    ----------
    silos : sequence of float
        The total.
    n_parties : int
        How many silos take part. Each block has rows of three of them, or of both.
    """
    protected, *reached = (round(float(n)) for n in silos)
    if not protected:
        return MOST_BLOCKS
    enough = min(_FEWEST_SILOS, n_parties)
    by_level = dict(zip(LEVELS, reached, strict=True))
    most = max((level for level, n in by_level.items() if n >= enough), default=1)
    if most < _HAD_BY_ALL:
        return most
    every = by_level[_HAD_BY_ALL]
    return max(L for L, n in by_level.items() if L >= _HAD_BY_ALL and n == every)

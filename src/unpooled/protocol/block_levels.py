"""How many silos have how many blocks: a total that the silos open among themselves.

    silos ── masked: 1 for each level that the own blocks reach ──> coordinator
    silos <── the total, which the coordinator cannot read, and sums that check it
          each merges its blocks beyond the highest level that enough silos reach

All silos select blocks by the same numbers, and a silo with many rows has more blocks
than one with few. Without the common number a selection could have blocks of one silo
alone, whose total is that silo's own. The levels are few, so that the silos learn of
each other, without names, roughly how many rows those with few rows have.
"""

from collections.abc import Sequence

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.protocol.request import Request
from unpooled.protocol.shared_blocks import MOST_BLOCKS
from unpooled.protocol.step import of_protocol, release

# Numbers of blocks that silos tell apart.
LEVELS = (2, 3, 4, 5, 6, 8, 10, 15, MOST_BLOCKS)
# Silos that each block has rows of: of two, each could subtract its own part.
_FEWEST_SILOS = 3


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


def counting(study: str, session: str, number: int) -> Request:
    """Return the request of the round in which silos count, at both ends."""
    return Request(
        study=study,
        session=session,
        round=number,
        step=held.name,
        to="parties",
        operations=(),
        public={},
    )


def own_levels(n_blocks: int, *, discloses: bool) -> Float[Array, " l"]:
    """Return a silo's part of the total.

    Parameters
    ----------
    n_blocks : int
        Of its own cut.
    discloses : bool
        Whether its policy allows that its own values are seen.
    """
    return np.array([not discloses, *(n_blocks >= level for level in LEVELS)], float)


def common_blocks(silos: Sequence[float] | Float[Array, " l"], n_parties: int) -> int:
    """Return how many blocks a silo may have, so that none is in a block alone.

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
    pairs = zip(LEVELS, reached, strict=True)
    return max((level for level, n in pairs if n >= enough), default=1)

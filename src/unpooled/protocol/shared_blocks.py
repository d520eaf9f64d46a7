"""The blocks that rows are cut into: how many, and those that all silos share.

    rows of a table ─> at most 20 blocks ─> a fold, a side of a split: some of them

On a row partition each silo cuts its own rows by a secret (`unpooled.party.views.cut`).
On a column partition all silos have the same rows in the same order and must select
the same of them. Their cut follows from the number of rows alone, row i into block i
modulo K, so that nobody chooses it; it is not stratified, since one silo alone has the
label. The coordinator knows which places a block has, and not whose they are.
"""

from collections.abc import Mapping

import numpy as np

from unpooled.arrays import Array, UInt8

# Totals over all unions of K blocks have at most K independent ones.
MOST_BLOCKS = 20
# Numbers of blocks that silos tell apart on a row partition: one of them is common.
LEVELS = (2, 3, 4, 5, 10, 15, MOST_BLOCKS)
# Rows of a common block; a silo whose policy asks for more refuses selections.
SHARED_ROWS = 10


def n_blocks(n_rows: int, fewest: int) -> int:
    """Return the largest number of blocks with at least `fewest` rows each."""
    if not n_rows:
        return 0
    return max(1, min(MOST_BLOCKS, n_rows // max(fewest, 1)))


def shared_blocks(n_rows: int) -> UInt8[Array, " n"]:
    """Return the block of each row of tables with the same rows in the same order."""
    places = np.arange(n_rows) % max(n_blocks(n_rows, SHARED_ROWS), 1)
    return places.astype(np.uint8)


def shared_sizes(n_rows: int) -> Mapping[int, int]:
    """Return the number of rows of each common block."""
    K = n_blocks(n_rows, SHARED_ROWS)
    return {block: len(range(block, n_rows, K)) for block in range(K)}

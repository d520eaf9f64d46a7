"""A cut: the rows of a silo's table in blocks, of which every selection is a union.

    table ─ secret, label ─> K blocks ─ the program's seed ─> folds, splits

Two selections whose rows differ in one person subtract to that person. If all
selections are unions of the same blocks, whatever study, job or process asks, then so
are all their differences, and a block has at least `min_rows` rows of the silo.

The rows of a class are spread over all blocks as evenly as their number allows, so that
folds are stratified. A class that has too few rows to give every block
`min_rows_per_class` of them is not spread: some blocks hold that many each, or one
block all of them, and the others none. So what two selections differ in has of each
class no row, or as many as the policy asks for, or all.

A class that is not spread makes blocks uneven. Where the smallest would have too few
rows there is one block less.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from unpooled.arrays import Array, Int, UInt8
from unpooled.protocol.shared_blocks import n_blocks, shared_blocks


@final
@dataclass(frozen=True, eq=False)
class Cut:
    """The blocks of a table's rows.

    Attributes
    ----------
    block_of : (n,) array
        The number of each row's block.
    shared : bool
        Whether all silos have the same rows and the same blocks.
    """

    block_of: UInt8[Array, " n"]
    shared: bool = False

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """The number of rows of each block."""
        return tuple(map(int, np.bincount(self.block_of)))


def shared_cut(n_rows: int) -> Cut:
    """Return the cut of tables with the same rows in the same order."""
    return Cut(shared_blocks(n_rows), shared=True)


def stratified_blocks(
    order: Int[Array, " n"],
    classes: Int[Array, " n"],
    fewest: int,
    fewest_of_class: int,
) -> UInt8[Array, " n"]:
    """Return the block of each row, in as many blocks as can be.

    Parameters
    ----------
    order : (n,) array of int
        A secret order of the rows.
    classes : (n,) array of int
        The class of each row, from 0; all 0 without a label.
    fewest, fewest_of_class : int
        Rows of a block, and of a class in a block that has any of it.
    """
    # A class's rows stand together, in the secret order.
    by_class = order[np.argsort(classes[order], kind="stable")]
    n_of = [int(n) for n in np.bincount(classes)]
    blocks = np.zeros(len(order), np.uint8)
    for K in range(n_blocks(len(order), fewest), 0, -1):
        counts = _counts(n_of, K, fewest_of_class)
        if K == 1 or counts.sum(axis=0).min() >= max(fewest, 1):
            blocks[by_class] = np.concatenate(
                [np.repeat(np.arange(K), of_class) for of_class in counts]
            )
            break
    return blocks


def _counts(n_of: Sequence[int], K: int, fewest: int) -> Int[Array, "c K"]:
    """Return how many rows of each class each of K blocks has."""
    counts = np.zeros((len(n_of), K), int)
    sizes = np.zeros(K, int)
    spread = [n >= K * max(fewest, 1) for n in n_of]
    # Those of a few blocks first: the others then even out the blocks' sizes.
    for c in sorted(range(len(n_of)), key=lambda c: (spread[c], -n_of[c])):
        holders = K if spread[c] else max(n_of[c] // max(fewest, 1), 1)
        smallest = np.argsort(sizes, kind="stable")[:holders]
        each, more = divmod(n_of[c], holders)
        counts[c, smallest] = each
        counts[c, smallest[:more]] += 1
        sizes += counts[c]
    return counts

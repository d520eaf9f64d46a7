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

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from itertools import combinations
from typing import final

import numpy as np

from unpooled.arrays import Array, Bool, Int, UInt8
from unpooled.protocol.shared_blocks import MOST_BLOCKS, n_blocks, shared_blocks

# Columns whose rows with rare cells are brought together.
_MOST_RARE = 64
# How often rows that are alone are looked for, and rows that are tried for each.
_SWEEPS, _TRIED = 4, 8


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


def merged(cut: Cut, most: int) -> Cut:
    """Return a cut of at most so many blocks: the others are part of the first."""
    if len(cut.sizes) <= most:
        return cut
    return Cut((cut.block_of % np.uint8(most)).astype(np.uint8), cut.shared)


def shared_cut(n_rows: int) -> Cut:
    """Return the cut of tables with the same rows in the same order."""
    return Cut(shared_blocks(n_rows), shared=True)


def stratified_blocks(
    order: Int[Array, " n"],
    classes: Int[Array, " n"],
    fewest: int,
    fewest_of_class: int,
    most: int = MOST_BLOCKS,
) -> UInt8[Array, " n"]:
    """Return the block of each row, in as many blocks as can be, and as may be.

    Parameters
    ----------
    order : (n,) array of int
        A secret order of the rows.
    classes : (n,) array of int
        The class of each row, from 0; all 0 without a label.
    fewest, fewest_of_class : int
        Rows of a block, and of a class in a block that has any of it.
    most : int
        How many blocks there may be.
    """
    # A class's rows stand together, in the secret order.
    by_class = order[np.argsort(classes[order], kind="stable")]
    n_of = [int(n) for n in np.bincount(classes)]
    blocks = np.zeros(len(order), np.uint8)
    numbers = range(n_blocks(len(order), fewest), 0, -1)
    by_number = {K: _counts(n_of, K, fewest_of_class) for K in numbers}
    good = [
        K
        for K, counts in by_number.items()
        if K == 1 or counts.sum(axis=0).min() >= max(fewest, 1)
    ]
    if not good:
        return blocks
    # Blocks beyond the most, where so many cannot be made alike, join the first ones.
    K = most if most in good else good[0]
    blocks[by_class] = np.concatenate(
        [np.repeat(np.arange(K), of_class) for of_class in by_number[K]]
    )
    return (blocks % np.uint8(max(most, 1))).astype(np.uint8)


def brought_together(
    blocks: UInt8[Array, " n"],
    classes: Int[Array, " n"],
    rare: Bool[Array, "n q"],
    order: Int[Array, " n"],
) -> UInt8[Array, " n"]:
    """Return blocks in which no row with a rare cell of a column is alone.

    All such rows of a column stand in one block, or in as few as can be with two or
    more each. A row changes places with another of its class, so that no block's rows
    of a class become fewer.

    Parameters
    ----------
    blocks, classes : (n,) arrays of int
        Block and class of each row.
    rare : (n, q) array of bool
        Which rows have rare cells, by column; of many columns the first are served.
    order : (n,) array of int
        A secret order of the rows.
    """
    blocks, place = blocks.copy(), np.argsort(order)
    free = np.asarray(~rare.any(axis=1))
    n_blocks = int(blocks.max(initial=0)) + 1
    for column in rare.T[:_MOST_RARE]:
        rows = sorted(np.flatnonzero(column).tolist(), key=lambda row: place[row])
        others = cache(partial(_others, free, blocks, classes, len(rows)))
        for size in range(1, 4):
            moves = (
                _moves(rows, blocks, classes, others, targets)
                for targets in combinations(range(n_blocks), size)
            )
            if (found := next((m for m in moves if m is not None), None)) is not None:
                for row, other in found:
                    blocks[row], blocks[other] = blocks[other], blocks[row]
                break
    return blocks


def none_alone(
    blocks: UInt8[Array, " n"],
    classes: Int[Array, " n"],
    flags: Bool[Array, "n q"],
    fixed: Bool[Array, " n"],
    order: Int[Array, " n"],
) -> UInt8[Array, " n"]:
    """Return blocks in which, as far as can be, no row has a flag alone.

    A row alone changes places with one of its class in another block, or one with the
    flag comes, wherever fewer rows are alone afterwards.

    Parameters
    ----------
    blocks, classes : (n,) arrays of int
        Block and class of each row.
    flags : (n, q) array of bool
        Values that few rows have.
    fixed : (n,) array of bool
        Rows that stay where they are.
    order : (n,) array of int
        A secret order of the rows.
    """
    # In the secret order, so that the first rows found are those that come first in it.
    blocks, classes, flags = blocks[order], classes[order], flags[order]
    F, K, free = flags.astype(np.int16), int(blocks.max(initial=0)) + 1, ~fixed[order]
    C = np.array([flags[blocks == b].sum(axis=0) for b in range(K)], np.int16)
    may_move = [np.flatnonzero(free & (blocks == b)) for b in range(K)]

    def exchange(q: int, a: int) -> tuple[int, int] | None:
        """Return rows of flag q and without it whose change leaves fewer alone."""
        for b in np.flatnonzero(C[:, q] > 0).tolist():
            if b == a:
                continue
            alone = np.count_nonzero(C[[a, b]] == 1)
            # The row leaves, or another one comes.
            for here, there in [(a, b), (b, a)] if C[b, q] > 2 else [(a, b)]:
                rows = may_move[here][flags[may_move[here], q]][:_TRIED]
                if not len(rows):
                    continue
                others = may_move[there][~flags[may_move[there], q]]
                for row in rows.tolist():
                    same = others[classes[others] == classes[row]][:_TRIED]
                    if not len(same):
                        continue
                    moved = F[row] - F[same]
                    left = (C[here] - moved == 1).sum(axis=1)
                    left += (C[there] + moved == 1).sum(axis=1)
                    if left.min() < alone:
                        return row, int(same[left.argmin()])
        return None

    for _ in range(_SWEEPS):
        moved = False
        for a, q in np.argwhere(C == 1).tolist():
            if C[a, q] == 1 and (found := exchange(q, a)) is not None:
                (row, other), moved = found, True
                here, there = int(blocks[row]), int(blocks[other])
                C[here] += F[other] - F[row]
                C[there] += F[row] - F[other]
                blocks[row], blocks[other] = there, here
                for b in (here, there):
                    may_move[b] = np.flatnonzero(free & (blocks == b))
        # Another sweep over the same blocks would find nothing either.
        if not moved:
            break
    result = np.empty_like(blocks)
    result[order] = blocks
    return result


def _others(
    free: Bool[Array, " n"],
    blocks: UInt8[Array, " n"],
    classes: Int[Array, " n"],
    most: int,
    block: int,
    of_class: int,
) -> list[int]:
    """Return the first rows of a block and class that may change places."""
    found = np.flatnonzero(free & (blocks == block) & (classes == of_class))
    return found[:most].tolist()


def _moves(
    rows: Sequence[int],
    blocks: UInt8[Array, " n"],
    classes: Int[Array, " n"],
    others: Callable[[int, int], Sequence[int]],
    targets: Sequence[int],
) -> list[tuple[int, int]] | None:
    """Return moves of rows between blocks after which each target has two or more.

    None where that cannot be, in the order in which the rows are tried.
    """
    moves: list[tuple[int, int]] = []
    used = Counter[tuple[int, int]]()
    within = Counter[int]()
    for row in rows:
        own, of_class = int(blocks[row]), int(classes[row])
        # The target with the fewest rows so far, so that none keeps a single one.
        for block in sorted(targets, key=lambda b: (within[b], b != own)):
            key = (block, of_class)
            if block != own and used[key] >= len(others(*key)):
                continue
            if block != own:
                moves.append((row, others(*key)[used[key]]))
                used[key] += 1
            within[block] += 1
            break
        else:
            return None
    single = len(rows) > 1 and any(0 < n < 2 for n in within.values())
    return None if single else moves


def _counts(n_of: Sequence[int], K: int, fewest: int) -> Int[Array, "c K"]:
    """Return how many rows of each class each of K blocks has."""
    counts = np.zeros((len(n_of), K), int)
    sizes = np.zeros(K, int)
    spread = [n >= K * max(fewest, 1) for n in n_of]
    # Classes of a few blocks first: the others then even out the blocks' sizes.
    for c in sorted(range(len(n_of)), key=lambda c: (spread[c], -n_of[c])):
        holders = K if spread[c] else max(n_of[c] // max(fewest, 1), 1)
        smallest = np.argsort(sizes, kind="stable")[:holders]
        each, more = divmod(n_of[c], holders)
        counts[c, smallest] = each
        counts[c, smallest[:more]] += 1
        sizes += counts[c]
    return counts

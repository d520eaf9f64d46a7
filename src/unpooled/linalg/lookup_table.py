"""Invertible Bloom lookup tables: a sum of tables that gives the names in all of them.

    silo a ── 3 cells of each of its names += count × (1, name) ──┐
    silo b ── likewise ────────────────────────────────────────── + ──> total
    total ── a cell of a single name gives it; subtract, repeat ──> names and counts

Each silo adds its names, as whole numbers, into the cells that a hash of the name says.
Names that several silos have fall into the same cells and add up, so that the total
does not tell who has which.

References
----------
Goodrich and Mitzenmacher, Invertible Bloom lookup tables, Allerton 2011.
"""

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from unpooled.arrays import Array, Float

# The words of a name: whole numbers below 2^24.
Words = tuple[int, ...]
# Bytes of a word: float64 holds its product with a count of up to 2^29 exactly.
WORD_BYTES = 3


def as_words(name: bytes) -> list[int]:
    """Return bytes as words; their number is a multiple of `WORD_BYTES`."""
    starts = range(0, len(name), WORD_BYTES)
    return [int.from_bytes(name[start : start + WORD_BYTES]) for start in starts]


def as_bytes(words: Iterable[int]) -> bytes:
    """Return the bytes of words."""
    return b"".join(int(word).to_bytes(WORD_BYTES) for word in words)


def names_in(
    table: Float[Array, "c w"],
    places: Callable[[Words], Sequence[int]],
    is_name: Callable[[Words], bool],
) -> dict[Words, int] | None:
    """Return the names of a table with their counts; None where it has too many.

    Parameters
    ----------
    table : (c, w) array
        In each cell the counts of its names, and then the sums of their words, each
        times the count: whole numbers.
    places : callable
        Returns the cells of a name.
    is_name : callable
        Whether words are a name; those of two names added seldom are.
    """
    rest, counts = table.copy(), dict[Words, int]()
    progress = True
    while progress:
        progress = False
        for j in np.flatnonzero(rest[:, 0] > 0):
            count, *sums = rest[j].tolist()
            # Cells of this list may have changed when a name was subtracted.
            if count <= 0 or any(total % count for total in sums):
                continue
            words = tuple(int(total // count) for total in sums)
            if not is_name(words) or j not in (cells := places(words)):
                continue
            rest[cells] -= count * np.array([1, *words])
            counts[words] = int(count)
            progress = True
    return None if rest.any() else counts

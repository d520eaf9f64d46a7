"""Blocks of rows: what a table is read in, and how many rows a block has."""

from dataclasses import dataclass
from numbers import Integral
from typing import Any

from unpooled.arrays import Array, Shaped
from unpooled.errors import DataError

BLOCK_BYTES = 2**26  # 64 MB: large enough for BLAS, small relative to a laptop's memory
FEWEST_ROWS = 16  # per block, however wide the table is


@dataclass(frozen=True)
class Block:
    """Consecutive rows of a table.

    Attributes
    ----------
    start : int
        Index of the first row in the table.
    X : (n, p) array
        The rows as float64, columns in the requested order; missing cells are NaN. It
        may be a read-only view of the owner's array. From `Table.sparse_blocks` it may
        be a SciPy array in CSR format.
    extra : dict
        Label and id values of the same rows by column name, of any dtype. Text is an
        array of objects, with None for missing cells.
    """

    start: int
    X: Any
    extra: dict[str, Shaped[Array, " n"]]


def rows_in_a_block(
    row_bytes: int, block_bytes: int | None = None, rows: int | None = None
) -> int:
    """Return the number of rows of a block: `rows`, or as many as fit into its bytes.

    Parameters
    ----------
    row_bytes : int
        What a row takes.
    block_bytes : int, optional
        Maximum size of a block; `BLOCK_BYTES` when omitted.
    rows : int, optional
        The number wanted.
    """
    if rows is None:
        room = BLOCK_BYTES if block_bytes is None else block_bytes
        return max(FEWEST_ROWS, room // max(1, row_bytes))
    if not isinstance(rows, Integral) or rows < 1:
        raise DataError(f"rows={rows!r} per block; give an integer of at least 1.")
    return int(rows)

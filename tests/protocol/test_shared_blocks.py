"""Blocks of rows: as many as have enough rows, and the same at every silo."""

import numpy as np
import pytest

from unpooled.protocol.shared_blocks import n_blocks, shared_blocks, shared_sizes


@pytest.mark.parametrize(
    ("n_rows", "fewest", "wanted"),
    [(0, 10, 0), (1, 10, 1), (19, 10, 1), (20, 10, 2), (29, 10, 2), (10_000, 10, 20)],
)
def test_every_block_has_enough_rows(n_rows, fewest, wanted):
    assert n_blocks(n_rows, fewest) == wanted


@pytest.mark.parametrize("n_rows", [1, 25, 199, 205])
def test_shared_blocks_are_dealt_in_turn(n_rows):
    blocks = shared_blocks(n_rows)
    sizes = np.bincount(blocks)
    assert dict(enumerate(sizes.tolist())) == shared_sizes(n_rows)
    assert sizes.min() >= min(n_rows, 10)
    assert sizes.max() - sizes.min() <= 1

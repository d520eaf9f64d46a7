"""Blocks of rows: large enough, stratified, and rare classes in few of them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unpooled.party.views.cut import stratified_blocks

HEART = {
    "cleveland": (164, 55, 36, 35, 13),
    "hungary": (188, 37, 26, 28, 15),
    "switzerland": (8, 48, 32, 30, 5),
    "va": (51, 56, 41, 42, 10),
}


def counted(n_of, fewest, fewest_of_class, seed=0):
    """Return the number of rows of each class in each block."""
    classes = np.repeat(np.arange(len(n_of)), n_of)
    order = np.random.default_rng(seed).permutation(len(classes))
    blocks = stratified_blocks(order, classes, fewest, fewest_of_class)
    counts = np.zeros((int(blocks.max()) + 1, len(n_of)), int)
    np.add.at(counts, (blocks, classes), 1)
    return counts


@given(
    st.lists(st.integers(1, 80), min_size=1, max_size=7),
    st.integers(0, 15),
    st.integers(0, 7),
)
def test_every_block_has_enough_rows_and_of_a_class_enough_or_none(
    n_of, fewest, fewest_of_class
):
    counts = counted(n_of, fewest, fewest_of_class)
    assert len(counts) <= 20
    assert counts.sum(axis=1).min() >= min(max(fewest, 1), sum(n_of))
    for of_class, n in zip(counts.T, n_of, strict=True):
        assert of_class.sum() == n
        present = of_class[of_class > 0]
        assert present.min() >= min(fewest_of_class, n)
        # As even as can be.
        assert present.max() - present.min() <= 1
        if n >= len(counts) * max(fewest_of_class, 1):
            assert len(present) == len(counts)


def test_without_a_label_blocks_are_as_equal_as_can_be():
    assert sorted(counted([123], 10, 5).sum(axis=1)) == [10] * 9 + [11] * 3
    assert set(counted([1000], 10, 5).sum(axis=1)) == {50}


def test_blocks_are_stratified():
    counts = counted([400, 200], 10, 5)
    assert (counts == [20, 10]).all()


@pytest.mark.parametrize("hospital", HEART)
def test_five_classes_of_heart_disease_fit(hospital):
    counts = counted(HEART[hospital], 10, 5)
    assert len(counts) >= 10
    assert counts.sum(axis=1).min() >= 10
    assert counts[counts > 0].min() >= 5


def test_a_rare_class_is_in_one_block_whole():
    counts = counted(HEART["switzerland"], 10, 5)
    assert sorted(counts[:, 0])[-2:] == [0, 8]
    assert sorted(counts[:, 4])[-2:] == [0, 5]


def test_another_order_is_another_cut():
    classes = np.zeros(200, int)
    first, second = (
        stratified_blocks(np.random.default_rng(seed).permutation(200), classes, 10, 5)
        for seed in range(2)
    )
    assert (first != second).mean() > 0.8

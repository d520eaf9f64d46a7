"""Class names travel mixed, and come out as they went in."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from unpooled.errors import DataError
from unpooled.models.discriminant.classes import (
    class_codes,
    class_values,
    local_names,
    peeled,
    words_of,
)

SALTS = 64 + np.arange(64)
names = st.text(max_size=11).filter(lambda text: not text.endswith("\0"))
numbers = st.integers(-(2**53), 2**53) | st.floats(
    allow_nan=False, allow_infinity=False, width=32
)
labels = st.lists(names, min_size=1, max_size=30) | st.lists(
    numbers, min_size=1, max_size=30
)


def mixed(silos, salts=SALTS):
    return np.sum(
        [local_names(np.array(y, dtype=object), salts=salts)["cells"] for y in silos],
        axis=0,
    )


@given(st.lists(labels, min_size=1, max_size=4))
def test_names_come_out_with_their_counts(silos):
    wanted = {}
    for y in silos:
        for value in y:
            wanted[tuple(words_of(value))] = wanted.get(tuple(words_of(value)), 0) + 1

    # Names that share all their cells are seen, never mistaken for others, and told
    # apart by the next table.
    tables = [size + np.arange(size) for size in (64, 256, 1024)]
    found = [peeled(mixed(silos, salts), salts) for salts in tables]
    assert all(one in (None, wanted) for one in found)
    assert wanted in found


@given(labels)
def test_values_are_those_of_the_labels(y):
    unique = sorted({tuple(words_of(value)): value for value in y}.items())
    classes = np.array([words for words, _ in unique])
    assert class_values(classes).tolist() == np.array([v for _, v in unique]).tolist()


def test_codes_are_positions():
    classes = np.array([words_of(name) for name in ("b", "a")])
    assert_array_equal(class_codes(np.array(["a", "b", "a"]), classes), [1, 0, 1])
    assert_array_equal(class_codes(np.array([], dtype=object), classes), [])
    # A refusal would tell that the silo has another class.
    assert_array_equal(
        class_codes(np.array(["c", "a", "x" * 45]), classes), [-1, 1, -1]
    )


def test_one_and_true_and_one_point_zero_are_one_class():
    assert words_of(1) == words_of(1.0) == words_of(True) != words_of("1")


def test_a_long_name_is_refused():
    words_of("x" * 44)
    with pytest.raises(DataError, match="too long"):
        words_of("x" * 45)


def test_spoiled_cells_are_not_read():
    cells = mixed([["a", "b"], ["a"]])
    cells[3] += 1.0
    assert peeled(cells, SALTS) is None

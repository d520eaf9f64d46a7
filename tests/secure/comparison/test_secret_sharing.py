"""Shares of integers: all of them give the integers back, all but one tell nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unpooled.errors import AggregationError
from unpooled.secure.comparison.polynomial import Polynomial
from unpooled.secure.comparison.secret_sharing import added, shares

ONE = Polynomial({("x",): 1.0, ("y",): 1.0}, {"x": 1, "y": 1}, fraction=0, bits=63)
INTEGERS = st.integers(-(2**62), 2**62 - 1)
ROWS = st.integers(1, 4).flatmap(
    lambda n: st.lists(
        st.lists(INTEGERS, min_size=n, max_size=n), min_size=2, max_size=2
    )
)


@given(ROWS, st.integers(2, 5))
def test_computing_parties_together_have_the_integers(rows, n):
    total = [[0] * len(row) for row in rows]
    for share in shares(rows, n, ONE):
        total = added(total, share, ONE)
    assert total == rows


def test_no_share_shows_the_integers():
    rows = [[5] * 400, [-5] * 400]
    for share in shares(rows, 3, ONE):
        seen = added([[0] * 400, [0] * 400], share, ONE)
        # 128 bits of noise above 63: a small one has a chance of 2^-38 in all.
        assert min(abs(x) for row in seen for x in row) > 2**140


def test_a_share_of_another_batch_is_refused():
    (share, _) = shares([[1, 2], [3, 4]], 2, ONE)
    for rows in ([[1], [3]], [[1, 2, 3], [4, 5, 6]]):
        with pytest.raises(AggregationError, match="another batch"):
            added(rows, share, ONE)

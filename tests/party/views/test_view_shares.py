"""How much of a column's scatter one row carries."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from unpooled.data.sources.open_source import open_source
from unpooled.party.views.view import View
from unpooled.protocol.view_operations import (
    Rows,
    Select,
)
from viewed_tables import NAMES, table_of


def share_by_hand(X: np.ndarray) -> float:
    shares = [0.0]
    for column in X.T:
        there = column[~np.isnan(column)]
        if len(there) and np.ptp(there) > 0:
            squares = (there - there.mean()) ** 2
            shares.append(squares.max() / squares.sum())
    return max(shares)


# Means as large as 1e8 spreads, also where the first row's cell is missing.
@given(st.integers(0, 1000), st.sampled_from([0.0, 1.0, 1e6, 1e8]), st.booleans())
@example(63, 1e6, True)
def test_the_largest_share_is_that_of_the_definition(seed, mean, holes):
    rng = np.random.default_rng(seed)
    X = mean + rng.standard_normal((int(rng.integers(1, 30)), 3))
    X[0, 1] *= 3
    if holes:
        X[rng.random(X.shape) < 0.3] = np.nan
    view = View(open_source(X), [Select(NAMES)])
    assert view.row_shares().max() == pytest.approx(share_by_hand(X), rel=1e-6)


@pytest.mark.parametrize(
    ("columns", "share"),
    [
        ([[1.0] * 10], 0.0),
        ([[0.1] * 10], 0.0),
        ([[np.nan] * 10], 0.0),
        ([[np.nan] * 9 + [5.0]], 0.0),
        ([[0.0] * 9 + [1.0]], 0.9),
        ([[0.0] * 9 + [-1e100]], 0.9),
        ([[0.0] * 9 + [1.0], [np.nan] * 10], 0.9),
        # A large offset hides nobody, down to the last bit of a number.
        ([[1e12] * 9 + [1e12 + 1]], 0.9),
        ([[1e15] * 9 + [1e15 + 0.125]], 0.9),
        ([[np.nan] + [1e15] * 9 + [1e15 + 0.125], [0.0] * 11], 0.9),
        # Nor do squares that overflow.
        ([[0.0] * 9 + [1e200]], np.inf),
        ([[-1e308] * 9 + [1e308]], np.inf),
    ],
)
def test_shares_of_odd_columns(columns, share):
    view = View(open_source(np.array(columns).T), [])
    assert view.row_shares().max() == pytest.approx(share)


def test_a_table_without_rows_has_no_shares():
    # What one part of one leaves.
    nobody = Rows(0, 1, 0.0, True, -1)
    assert View(table_of(20), [nobody]).row_shares().max() == 0.0


def test_shares_are_of_the_rows_of_the_view():
    X = np.random.default_rng(1).standard_normal((40, 3))
    X[8, 2] = 1e3  # in the first of four blocks
    kept = Rows(0, 0, 0.5, False, -1)
    left = Rows(0, 0, 0.5, True, -1)
    assert View(open_source(X), [kept]).row_shares().max() > 0.9
    assert View(open_source(X), [left]).row_shares().max() < 0.5
    assert View(open_source(X), [Select(("x0",)), kept]).row_shares().max() < 0.5

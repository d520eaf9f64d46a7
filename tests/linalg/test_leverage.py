"""Leverage against the hat matrix, exactly and through the bounds of many rows."""

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from unpooled.arrays import Array
from unpooled.linalg import leverage
from unpooled.linalg.leverage import Leverage, largest_leverage


def hat(X: Array) -> Array:
    """Return the diagonal of the hat matrix, by a singular value decomposition."""
    Z = np.column_stack([np.ones(len(X)), (X - X.mean(axis=0))])
    Z /= np.maximum(np.linalg.norm(Z, axis=0), 1e-300)
    u, s, _ = np.linalg.svd(Z, full_matrices=False)
    return np.square(u[:, s > 1e-12 * s[0]]).sum(axis=1)


def largest(X: Array, limit: float = 0.0, blocks: int = 3) -> Leverage:
    return largest_leverage(
        lambda: (X[rows] for rows in np.array_split(np.arange(X.shape[0]), blocks)),
        X.shape[0],
        X.shape[1],
        limit,
    )


@given(st.integers(0, 1000), st.sampled_from([0.0, 1.0, 1e6]), st.booleans())
def test_the_largest_leverage_is_that_of_the_hat_matrix(seed, mean, dependent):
    rng = np.random.default_rng(seed)
    X = rng.standard_t(2, (int(rng.integers(1, 60)), 4)) * [1, 1e6, 1e-6, 1] + mean
    if dependent:
        X[:, 3] = X[:, 0]
    found = largest(X)
    # A column that is another one up to rounding counts as a little more than absent.
    assert found.at_least == found.at_most == pytest.approx(hat(X).max(), abs=1e-5)


@pytest.mark.parametrize(
    ("column", "share"),
    [
        ([1.0] * 10, 0.1),
        ([0.1] * 10, 0.1),
        ([np.nan] * 10, 0.1),
        ([0.0] * 9 + [1.0], 1.0),
        # A large offset hides nobody.
        ([1e9] * 9 + [1e9 + 1], 1.0),
        # Nor do squares that overflow.
        ([0.0] * 9 + [1e200], 1.0),
        ([-1e200] * 9 + [1e200], 1.0),
        ([0.0] * 8 + [1.0] * 2, 0.5),
    ],
)
def test_leverage_of_odd_columns(column, share):
    assert largest(np.array([column]).T).at_least == pytest.approx(share, abs=1e-6)


@given(st.integers(0, 1000), st.permutations(range(7)))
def test_absent_columns_are_absent_wherever_they_stand(seed, places):
    rng = np.random.default_rng(seed)
    X = rng.standard_t(2, (25, 4))
    # Zeros, a constant with rounding, and a combination, in any places.
    absent = [np.zeros(25), np.full(25, 0.1), X[:, 0] - X[:, 1] / 3]
    columns = np.column_stack([X, *absent])[:, places]
    # The rounding of an absent column, up to a few hundredths of the limit below which
    # it is absent, adds its square, and takes nothing away: at most 6e-4 of all seeds
    # in a dozen orders.
    more = largest(columns).at_least - hat(X).max()
    assert -1e-9 <= more <= 5e-3


def test_a_constant_column_is_not_named():
    rng = np.random.default_rng(4)
    X = np.column_stack([np.zeros(30), rng.standard_normal((30, 3))])
    X[4, 2] = 1e4
    assert 0 not in largest(X).columns


@pytest.mark.parametrize("place", [0, 2])
def test_a_column_that_one_late_row_has_is_found_wherever_it_stands(few_rows, place):
    rng = np.random.default_rng(5)
    X = np.insert(rng.standard_normal((4000, 3)), place, 0.0, axis=1)
    X[3777, place] = 1.0
    found = largest(X, 0.9)
    assert found.at_least > 0.99
    assert list(found.columns) == [place]


def test_no_rows_have_no_leverage():
    assert largest(np.zeros((0, 3)), blocks=1).at_most == 0.0


def test_the_columns_of_the_direction_are_named_in_any_units():
    rng = np.random.default_rng(2)
    X = rng.standard_normal((60, 6))
    X[:, 4] = 1e5 * X[:, 2] + X[:, 1]
    X[7, 4] += 0.001
    found = largest(X)
    assert found.at_least > 0.99
    # Each in units of its spread: x1 is a hundred-thousandth of x4.
    assert set(found.columns) == {2, 4}


@given(st.integers(0, 1000), st.floats(-3, 6), st.integers(-6, 6))
def test_no_invertible_map_of_the_columns_changes_leverage(seed, shift, power):
    rng = np.random.default_rng(seed)
    X, A = rng.standard_normal((40, 3)), rng.standard_normal((3, 3)) + 3 * np.eye(3)
    mapped = 10.0**power * (X @ A) + shift
    assert largest(mapped).at_least == pytest.approx(largest(X).at_least, rel=1e-6)


@pytest.fixture
def few_rows(monkeypatch):
    """Make few rows many: the bounds are used from 200 rows on."""
    monkeypatch.setattr(leverage, "_FEWEST", 100)
    monkeypatch.setattr(leverage, "_JOINING", 4)
    monkeypatch.setattr(leverage, "_DIRECTIONS", 2)


def tables(seed: int) -> Array:
    """Return rows of heavy tails, rare columns and a twin, in 45 columns."""
    rng = np.random.default_rng(seed)
    X = rng.standard_t(rng.uniform(1.2, 8), (900, 45)) + 3.0
    X[:, 40:44] = rng.random((900, 4)) < 0.001 * rng.integers(1, 20)
    if seed % 2:
        X[:, 44] = X[:, 3] + (rng.random(900) < 0.002)
    return X


@pytest.mark.thinned(20)
@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("limit", [0.5, 0.95])
def test_bounds_are_on_the_side_of_the_limit(seed, limit, few_rows):
    X = tables(seed)
    true = hat(X).max()
    found = largest(X, limit)
    assert found.at_least <= true + 1e-6
    assert true <= found.at_most + 1e-6
    assert found.at_least > limit or found.at_most <= limit
    assert bool(len(found.columns)) == (found.at_least > limit)


@pytest.mark.parametrize("seed", range(4))
def test_sparse_rows_and_missing_cells(seed, few_rows):
    X = tables(seed)
    dense, sparse = largest(X, 0.95), largest(scipy.sparse.csr_array(X), 0.95)
    assert (sparse.at_least > 0.95) == (dense.at_least > 0.95)
    X[np.random.default_rng(seed).random(X.shape) < 0.01] = np.nan
    found = largest(X, 0.95)
    assert found.at_least > 0.95 or found.at_most <= 0.95


def test_one_pixel_of_one_row_in_many(few_rows):
    X = np.random.default_rng(1).standard_normal((5000, 12))
    X[:, 5] = 0.0
    X[4321, 5] = 1.0
    found = largest(X, 0.95, blocks=7)
    assert found.at_least > 0.99
    assert list(found.columns) == [5]
    X[[1234, 2345], 5] = 1.0
    assert largest(X, 0.95, blocks=7).at_most <= 0.95


@given(seed=st.integers(0, 100), sparse=st.booleans(), mean=st.sampled_from([0, 1e6]))
def test_the_largest_in_a_column_is_that_of_the_column_alone(seed, sparse, mean):
    rng = np.random.default_rng(seed)
    X = rng.normal(mean, 1.0, (40, 5)) * (rng.random((40, 5)) < 0.5)
    X[:, 4] = 3.0
    if not sparse:
        X[rng.random(X.shape) < 0.1] = np.nan
    alone = []
    for column in X.T:
        there = column[~np.isnan(column), None]
        n = len(there)
        alone.append(largest_leverage(lambda there=there: iter([there]), n, 1).at_least)
    parts = np.array_split(X, 3)
    blocks = [scipy.sparse.csr_array(part) for part in parts] if sparse else parts
    found = leverage.largest_in_a_column(lambda: iter(blocks), 5)
    assert found.at_least == found.at_most == pytest.approx(max(alone), rel=1e-6)
    assert found.columns.tolist() == [int(np.argmax(alone))]

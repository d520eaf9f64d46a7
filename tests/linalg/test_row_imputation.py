"""Missing cells from the other cells of their row, against least squares on rows."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from unpooled.linalg.row_imputation import (
    conditional_means,
    imputed_in_turn,
    regression_on_others,
)


@pytest.fixture
def rows():
    rng = np.random.default_rng(2)
    X = rng.standard_normal((200, 4)) @ rng.standard_normal((4, 4))
    return X * [1, 10, 0.1, 1] + [0, 100, 3, -2]


def least_squares(X, target):
    others = np.delete(np.arange(X.shape[1]), target)
    D = X[:, others] - X[:, others].mean(axis=0)
    b = np.linalg.lstsq(D, X[:, target] - X[:, target].mean(), rcond=1e-9)[0]
    return np.insert(b, target, 0.0)


@pytest.mark.parametrize("target", range(4))
def test_coefficients_are_those_of_least_squares(rows, target):
    S = np.cov(rows.T)
    # Cross-products square the condition, of 1e3 at most in standardised columns.
    found = regression_on_others(S, target) * rows.std(axis=0)
    assert_allclose(found, least_squares(rows, target) * rows.std(axis=0), rtol=1e-9)


def test_coefficients_of_collinear_columns_have_minimum_norm(rows):
    X = np.column_stack([rows, rows[:, 0] - rows[:, 3], np.ones(len(rows))])
    S = np.cov(X.T)
    for target in (1, 2):
        found = regression_on_others(S, target)
        assert_allclose(found, least_squares(X, target), atol=1e-9 * abs(found).max())
        assert found[-1] == 0.0


def test_a_constant_column_is_predicted_by_nothing(rows):
    X = np.column_stack([rows, np.ones(len(rows))])
    assert_array_equal(regression_on_others(np.cov(X.T), 4), np.zeros(5))


def test_conditional_means_are_regressions_on_what_a_row_has(rows):
    mean, S = rows.mean(axis=0), np.cov(rows.T, bias=True)
    X = rows[:4].copy()
    X[0, [1, 2]] = np.nan
    X[1, [1, 2]] = np.nan
    X[2] = np.nan
    found = conditional_means(X, mean, S)
    D = rows - mean
    for target in (1, 2):
        b = np.linalg.lstsq(D[:, [0, 3]], D[:, target], rcond=None)[0]
        expected = mean[target] + (X[:2][:, [0, 3]] - mean[[0, 3]]) @ b
        assert_allclose(found[:2, target], expected, rtol=1e-10)
    assert_allclose(found[2], mean, rtol=1e-15)
    assert_array_equal(found[3], X[3])


def test_conditional_means_of_collinear_columns_are_on_the_plane(rows):
    X = np.column_stack([rows, rows[:, 0] - rows[:, 3]])
    new = X[:3].copy()
    new[:, 4] = np.nan
    found = conditional_means(new, X.mean(axis=0), np.cov(X.T))
    assert_allclose(found[:, 4], X[:3, 4], atol=1e-10)


def test_columns_are_predicted_one_after_another():
    X = np.array([[1.0, np.nan, np.nan], [2.0, 3.0, np.nan]])
    coefficients = np.array([[0.0, 0.0, 1.0], [1.0, 1.0, 0.0]])
    found = imputed_in_turn(
        X, np.array([0.0, 5.0, 7.0]), [1, 2], coefficients, np.array([1.0, 0.5])
    )
    # The second column is 1 + 7, and the third then 0.5 + 1 + 8.
    assert_array_equal(found, [[1.0, 8.0, 9.5], [2.0, 3.0, 5.5]])
    assert np.isnan(X).sum() == 3

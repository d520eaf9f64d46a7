"""Inverse roots applied to rows, without forming them."""

import numpy as np
import pytest
import scipy.linalg
from numpy.testing import assert_allclose

from unpooled.linalg.whitening import ridge_weights, ridge_whitened


@pytest.mark.parametrize("shape", [(30, 4), (6, 9)], ids=["tall", "wide"])
@pytest.mark.parametrize("c", [0.2, 1.0])
def test_a_ridge_whitens_as_the_inverse_root_of_the_matrix(shape, c):
    X = np.random.default_rng(0).standard_normal(shape)
    X -= X.mean(axis=0)
    n, p = shape
    C = (1.0 - c) * X.T @ X / (n - 1) + c * np.eye(p)
    root = scipy.linalg.fractional_matrix_power(C, -0.5)
    inside = X.T @ np.random.default_rng(1).standard_normal((n, 2))

    # Conditions of C are below 1e2, so that nothing but rounding is lost.
    assert_allclose(ridge_whitened(X, c), X @ root / np.sqrt(n - 1), atol=1e-12)
    assert_allclose(ridge_weights(X, inside, c), root @ inside, atol=1e-12)


def test_without_a_ridge_whitened_rows_are_orthonormal():
    X = np.random.default_rng(0).standard_normal((30, 4))
    X[:, 3] = X[:, 0]  # collinear, so that there are three dimensions
    Q = ridge_whitened(X - X.mean(axis=0), 0.0)

    values = np.linalg.eigvalsh(Q.T @ Q)

    assert_allclose(values, [0.0, 1.0, 1.0, 1.0], atol=1e-12)

"""Row-sparse least squares: scikit-learn's multi-task lasso has the same minimum."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.linear_model import MultiTaskLasso

from unpooled.linalg.row_sparse import row_norms, row_sparse_weights


def row_sparse_objective(X, Z, W, beta):
    return np.square(X @ W - Z).sum() + beta * row_norms(W).sum()


def problem(N, p, c=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, p))
    truth = rng.standard_normal((p, c)) * (rng.random(p) < 0.3)[:, None]
    return X, X @ truth + 0.5 * rng.standard_normal((N, c))


@pytest.mark.thinned
@pytest.mark.parametrize("shape", [(60, 8), (40, 40), (25, 70)])
@pytest.mark.parametrize("beta", [0.1, 5.0, 60.0])
def test_equals_the_multi_task_lasso(shape, beta):
    X, Z = problem(*shape)
    # Theirs: ||Z - X W||² / (2 N) + alpha Σ ||W_j||.
    theirs = MultiTaskLasso(
        beta / (2 * len(X)), fit_intercept=False, tol=1e-12, max_iter=100_000
    ).fit(X, Z)
    best = row_sparse_objective(X, Z, theirs.coef_.T, beta)

    W = row_sparse_weights(X, Z, beta, tol=1e-12, max_iter=5000)

    # Reweighting nears zero rows slowly: judged by objective and by predictions.
    assert row_sparse_objective(X, Z, W, beta) <= best * (1 + 1e-6)
    assert_allclose(X @ W, theirs.predict(X), atol=2e-3 * np.abs(Z).max())


@pytest.mark.slow
@given(st.integers(2, 12), st.integers(1, 14), st.floats(1e-6, 1e3), st.integers(0, 99))
def test_a_pass_never_raises_the_objective(N, p, beta, seed):
    X, Z = problem(N, p, seed=seed)
    W = row_sparse_weights(X, Z, beta, max_iter=1)
    values = [row_sparse_objective(X, Z, W, beta)]
    for _ in range(6):
        W = row_sparse_weights(X, Z, beta, start=W, max_iter=1)
        values.append(row_sparse_objective(X, Z, W, beta))
    # What falls is the objective with norms smoothed by ε, which differs by β p ε.
    room = 1e-12 * values[0] + beta * p * 1e-8
    assert (np.diff(values) <= room).all()


@pytest.mark.parametrize("shape", [(60, 8), (25, 70)])
def test_both_systems_give_the_same_weights(shape):
    X, Z = problem(*shape)
    p = shape[1]
    A = 1.0 / (2.0 * (row_norms(np.ones((p, 3))) + 1e-8))
    W = row_sparse_weights(X, Z, 2.0, start=np.ones((p, 3)), max_iter=1)
    # Independent of which is smaller: the normal equations themselves.
    assert_allclose(X.T @ (X @ W - Z) + 2.0 * A[:, None] * W, 0.0, atol=1e-9)


def test_constant_and_repeated_columns_do_no_harm():
    X, Z = problem(30, 6)
    X = np.column_stack([X, X[:, 0], np.zeros(30), np.full(30, 3.0)])
    W = row_sparse_weights(X, Z, 1.0)
    assert np.isfinite(W).all()
    assert_allclose(W[7], 0.0, atol=1e-12)

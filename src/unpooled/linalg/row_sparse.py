"""Least squares whose weights have few rows that are not zero.

    min over W of  ||X W - Z||_F² + β Σ_j ||W_j||        (rows j, Euclidean norms)

solved by iterated reweighting: with A = diag(1 / (2 (||W_j|| + ε))) held, the minimum
of ||X W - Z||² + β tr(Wᵀ A W) is a ridge solution, and the next A is that of the W
found. Each pass lowers the objective (with ||W_j|| smoothed by ε).

A pass solves the smaller of two systems, p x p or N x N:

    W = (Xᵀ X + β A)⁻¹ Xᵀ Z  =  A⁻¹ Xᵀ (X A⁻¹ Xᵀ + β I)⁻¹ Z

References
----------
Multi-Participant Multi-Class Vertical Federated Learning, equations (5) to (8); the
second form is the matrix inversion lemma.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from unpooled.arrays import Array, Float

# The smoothing of the norms: a row of zeros has a weight of 1 / (2 ε), not infinity.
EPSILON = 1e-8
Pass = Callable[[Float[Array, " p"]], Float[Array, "p c"]]


def row_sparse_weights(
    X: Float[Array, "N p"],
    Z: Float[Array, "N c"],
    beta: float,
    *,
    start: Float[Array, "p c"] | None = None,
    tol: float = 1e-6,
    max_iter: int = 100,
) -> Float[Array, "p c"]:
    """Return W of the smallest ``||X W - Z||² + beta Σ_j ||W_j||``.

    Parameters
    ----------
    X, Z : (N, p) and (N, c) arrays
        Rows and their targets; nothing is centred.
    beta : float
        Above 0.
    start : (p, c) array, optional
        An earlier solution; the ridge solution with A = I when omitted. Rows of zeros
        in it leave zero very slowly, which is the method's nature.
    tol : float, default 1e-6
        Stop when a pass lowers the objective by less than this share of it.
    max_iter : int, default 100
        Most passes.
    """
    solve = _solver(X, Z, beta)
    W = solve(np.ones(X.shape[1])) if start is None else start
    value = row_sparse_objective(X, Z, W, beta)
    for _ in range(max_iter):
        W = solve(2.0 * (row_norms(W) + EPSILON))
        before, value = value, row_sparse_objective(X, Z, W, beta)
        if before - value <= tol * before:
            break
    return W


def row_sparse_objective(
    X: Float[Array, "N p"], Z: Float[Array, "N c"], W: Float[Array, "p c"], beta: float
) -> float:
    """Return ``||X W - Z||² + beta Σ_j ||W_j||``."""
    return float(np.square(X @ W - Z).sum() + beta * row_norms(W).sum())


def row_norms(W: Float[Array, "p c"]) -> Float[Array, " p"]:
    """Return the Euclidean norm of each row: how much a column of X matters."""
    return np.sqrt(np.einsum("jc,jc->j", W, W))


def _solver(X: Float[Array, "N p"], Z: Float[Array, "N c"], beta: float) -> Pass:
    """Return what solves a pass, given the diagonal of A⁻¹."""
    from scipy.linalg import cho_factor, cho_solve

    N, p = X.shape
    how: dict[str, Any] = {"lower": True, "overwrite_a": True, "check_finite": False}
    if p <= N:
        gram, image = X.T @ X, X.T @ Z

        def primal(inverse: Float[Array, " p"]) -> Float[Array, "p c"]:
            # Scaled by A's root on both sides: the weights of rows near zero are 1e8
            # times those of the others, and would swamp the factor's digits.
            root = np.sqrt(inverse)
            B = gram * root * root[:, None]
            B[np.diag_indices(p)] += beta
            return root[:, None] * cho_solve(
                cho_factor(B, **how), root[:, None] * image
            )

        return primal

    def dual(inverse: Float[Array, " p"]) -> Float[Array, "p c"]:
        scaled = X * np.sqrt(inverse)
        K = scaled @ scaled.T
        K[np.diag_indices(N)] += beta
        return inverse[:, None] * (X.T @ cho_solve(cho_factor(K, **how), Z))

    return dual

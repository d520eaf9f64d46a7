"""Row-sparse least squares, with the L2,1 norm as penalty.

    min over W of  ||X W - Z||_F² + β Σ_j ||W_j||        (rows j, Euclidean norms)

solved by iteratively reweighted least squares: with A = diag(1 / (2 (||W_j|| + ε)))
fixed, the minimum of ||X W - Z||² + β tr(Wᵀ A W) is a ridge solution W, from which the
next A follows. Each pass lowers the objective (with ||W_j|| smoothed by ε).

A pass solves the smaller of two systems, p × p or N × N:

    W = (Xᵀ X + β A)⁻¹ Xᵀ Z  =  A⁻¹ Xᵀ (X A⁻¹ Xᵀ + β I)⁻¹ Z

References
----------
Feng and Yu, Multi-Participant Multi-Class Vertical Federated Learning, 2020, equations
(5) to (8); the second form is the matrix inversion lemma.
"""

from collections.abc import Callable

import numpy as np

from unpooled.arrays import Array, Float

# Smoothing of the norms: a row of zeros has the weight 1 / (2 ε), not infinity.
EPSILON = 1e-8
# Maps the diagonal of A⁻¹ to W and ||X W - Z||².
Pass = Callable[[Float[Array, " p"]], tuple[Float[Array, "p c"], float]]


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
        Rows and their targets, which are not centred.
    beta : float
        Penalty, positive.
    start : (p, c) array, optional
        An earlier solution; the ridge solution with A = I when omitted. The method
        moves rows of zeros away from zero very slowly.
    tol : float, default 1e-6
        The iteration stops when a pass lowers the objective by less than this share.
    max_iter : int, default 100
        Maximum number of passes.
    """
    solve = _primal(X, Z, beta) if X.shape[1] <= len(X) else _dual(X, Z, beta)
    W = solve(np.ones(X.shape[1]))[0] if start is None else start
    norms = row_norms(W)
    value = _squares(X @ W - Z) + beta * float(norms.sum())
    for _ in range(max_iter):
        W, misfit = solve(2.0 * (norms + EPSILON))
        norms = row_norms(W)
        before, value = value, misfit + beta * float(norms.sum())
        if before - value <= tol * before:
            break
    return W


def row_norms(W: Float[Array, "p c"]) -> Float[Array, " p"]:
    """Return the Euclidean norm of each row, the importance of a column of X."""
    return np.sqrt(np.einsum("jc,jc->j", W, W))


def _primal(X: Float[Array, "N p"], Z: Float[Array, "N c"], beta: float) -> Pass:
    """Return a solver of a pass by the p × p system; all passes share XᵀX."""
    p = X.shape[1]
    gram, image = X.T @ X, X.T @ Z
    B = np.empty_like(gram)

    def solve(inverse: Float[Array, " p"]) -> tuple[Float[Array, "p c"], float]:
        # Scaled by the root of A on both sides: weights of rows near zero are 1e8 times
        # the others, and the factorisation would lose the digits of the latter.
        root = np.sqrt(inverse)
        np.multiply(gram, root, out=B)
        np.multiply(B, root[:, None], out=B)
        B.flat[:: p + 1] += beta
        W = root[:, None] * np.linalg.solve(B, root[:, None] * image)
        return W, _squares(X @ W - Z)

    return solve


def _dual(X: Float[Array, "N p"], Z: Float[Array, "N c"], beta: float) -> Pass:
    """Return a solver of a pass by the N × N system, for more columns than rows."""
    scaled = np.empty(X.shape)

    # NumPy's solver: SciPy's BLAS has threads of its own that spin while they wait, and
    # a pass would alternate between the two libraries.
    def solve(inverse: Float[Array, " p"]) -> tuple[Float[Array, "p c"], float]:
        np.multiply(X, np.sqrt(inverse), out=scaled)
        K = scaled @ scaled.T
        K.flat[:: len(K) + 1] += beta
        dual = np.linalg.solve(K, Z)
        # X W = (K - β I) K⁻¹ Z, so the residual of Z is β K⁻¹ Z.
        return inverse[:, None] * (X.T @ dual), beta**2 * _squares(dual)

    return solve


def _squares(array: Float[Array, "..."]) -> float:
    return float(np.vdot(array, array))

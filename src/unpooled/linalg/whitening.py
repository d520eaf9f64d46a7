"""Whitened cross-covariances from rows, without forming p × p matrices.

With thin singular values ``X = U diag(s) Vᵀ`` of n rows, ``(XᵀX + r I)^(-1/2) Xᵀ`` is
``V diag(s / sqrt(s² + r)) Uᵀ``, which takes O(p n²) operations where p exceeds n.
"""

import numpy as np
import scipy.linalg

from unpooled.arrays import Array, Float


def whitened_factors(
    X: Float[Array, "n p"], Y: Float[Array, "n q"], ridge: float
) -> tuple[Float[Array, "p l"], Float[Array, "q l"]]:
    """Return factors of ``(XᵀX + r I)^(-1/2) XᵀY (YᵀY + r I)^(-1/2)``.

    Their number of columns l is the rank of the product. Columns are in descending
    order of length, which is the same in both factors.
    """
    (Ux, sx, Vx), (Uy, sy, Vy) = _thin(X), _thin(Y)
    inner = (sx / np.sqrt(sx**2 + ridge))[:, None] * (Ux.T @ Uy)
    U, s, Wt = scipy.linalg.svd(
        inner * (sy / np.sqrt(sy**2 + ridge)), full_matrices=False
    )
    firm = s > max(inner.shape) * np.finfo(float).eps * s.max(initial=0.0)
    root = np.sqrt(s[firm])
    return Vx @ (U[:, firm] * root), Vy @ (Wt[firm].T * root)


def whitened_rows(
    H: Float[Array, "c p"], W: Float[Array, "n p"], ridge: float
) -> Float[Array, "p c"]:
    """Return ``(WᵀW + r I)^(-1/2) Hᵀ``; with r = 0, the pseudo-inverse root."""
    _, s, V = _thin(W)
    image = V.T @ H.T
    inside = V @ (image / np.sqrt(s**2 + ridge)[:, None])
    if ridge == 0.0:
        return inside
    return inside + (H.T - V @ image) / np.sqrt(ridge)


def ridge_whitened(X: Float[Array, "n p"], c: float) -> Float[Array, "n p"]:
    """Return ``X C^(-1/2) / sqrt(n - 1)`` with ``C = (1 - c) XᵀX / (n - 1) + c I``.

    Parameters
    ----------
    X : (n, p) array
        Centred rows.
    c : float
        Share of the identity in C; 0 for the pseudo-inverse root.
    """
    U, s, V = _thin(X)
    deviation = s / np.sqrt(len(X) - 1)
    return U * (deviation / _roots(deviation, c)) @ V.T


def ridge_weights(
    X: Float[Array, "n p"], W: Float[Array, "p k"], c: float
) -> Float[Array, "p k"]:
    """Return ``C^(-1/2) W`` with the C of `ridge_whitened`; W in the span of the rows.

    If W are weights of whitened columns, these are the weights of the columns of X.
    """
    # R of X = Q R has the same s and V as X, and is smaller.
    tall = len(X) > X.shape[1]
    _, s, V = _thin(
        scipy.linalg.qr(X, mode="r")[0][: X.shape[1]] if tall else X, len(X)
    )
    root = _roots(s / np.sqrt(len(X) - 1), c)
    return V @ (V.T @ W / root[:, None])


def _roots(deviation: Float[Array, " l"], c: float) -> Float[Array, " l"]:
    """Return the square roots of the eigenvalues of ``(1 - c) S + c I``."""
    return np.sqrt((1.0 - c) * deviation**2 + c)


def _thin(
    X: Float[Array, "n p"], n: int = 0
) -> tuple[Float[Array, "n l"], Float[Array, " l"], Float[Array, "p l"]]:
    """Return the singular values above the rounding of n rows, and their vectors."""
    U, s, Vt = scipy.linalg.svd(X, full_matrices=False)
    firm = s > max(*X.shape, n) * np.finfo(float).eps * s.max(initial=0.0)
    return U[:, firm], s[firm], Vt[firm].T

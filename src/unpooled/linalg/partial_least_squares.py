"""Partial least squares from covariances: deflation acts on them, never on rows.

A deflated view is ``X_k = X R``, where R follows from earlier weights and loadings. So
all products of deflated rows in the algorithm, X_kᵀ X_k, X_kᵀ Y_k and Y_kᵀ Y_k, follow
from the covariances.
"""

from dataclasses import dataclass
from typing import final

import numpy as np
import scipy.linalg

from unpooled.arrays import Array, Float
from unpooled.linalg.canonical_correlation import Covariances

# A deflated covariance below this share of the original one is rounding.
NOTHING = 1e-10


@final
@dataclass(frozen=True)
class Latent:
    """Weights, loadings and rotations of two views, as scikit-learn names them."""

    x_weights: Float[Array, "p k"]
    y_weights: Float[Array, "q k"]
    x_loadings: Float[Array, "p k"]
    y_loadings: Float[Array, "q k"]
    x_rotations: Float[Array, "p k"]
    y_rotations: Float[Array, "q k"]

    def lifted(self, Zx: Float[Array, "r p"], Zy: Float[Array, "s q"]) -> "Latent":
        """Return the same in the original columns; Zx and Zy are orthonormal bases.

        In each x weight, the entry of largest magnitude is positive.
        """
        W, V = Zx @ self.x_weights, Zy @ self.y_weights
        peaks = np.take_along_axis(W, np.abs(W).argmax(axis=0)[None], axis=0)
        signs = np.where(peaks < 0, -1.0, 1.0)
        return Latent(
            W * signs,
            V * signs,
            Zx @ self.x_loadings * signs,
            Zy @ self.y_loadings * signs,
            Zx @ self.x_rotations * signs,
            Zy @ self.y_rotations * signs,
        )


def leading_singular_pairs(
    S: Float[Array, "p q"], k: int
) -> tuple[Float[Array, "p k"], Float[Array, "q k"]]:
    """Return the k leading singular pairs, the peaks of left vectors positive."""
    U, _, Vt = scipy.linalg.svd(S, full_matrices=False)
    return with_positive_left_peaks(U[:, :k], Vt[:k].T)


def with_positive_left_peaks(
    U: Float[Array, "p k"], V: Float[Array, "q k"]
) -> tuple[Float[Array, "p k"], Float[Array, "q k"]]:
    """Flip pairs of columns so that the left one's largest entry is positive."""
    peaks = np.take_along_axis(U, np.abs(U).argmax(axis=0)[None], axis=0)
    signs = np.where(peaks < 0, -1.0, 1.0)
    return U * signs, V * signs


def partial_least_squares(S: Covariances, k: int, *, regression: bool) -> Latent:
    """Return weights, loadings and rotations of the first k latent pairs.

    Parameters
    ----------
    S : Covariances
        Covariances of the views, standardised or not.
    k : int
        Number of pairs; pairs beyond the rank of the covariance are zeros.
    regression : bool
        Deflate both views by the scores of the first, which predicts the second
        (PLSRegression); otherwise deflate each view by its own scores (PLSCanonical).

    References
    ----------
    Wegelin, A survey of partial least squares (PLS) methods, 2000, section 4.1.
    """
    p, q = S.xy.shape
    Rx, Ry, xy = np.eye(p), np.eye(q), S.xy
    W, P = np.zeros((p, k)), np.zeros((p, k))
    V, Q = np.zeros((q, k)), np.zeros((q, k))
    scale = np.abs(S.xy).max(initial=0.0)
    for j in range(k):
        if np.abs(xy).max(initial=0.0) <= NOTHING * scale:
            break
        u, v = (pair[:, 0] for pair in leading_singular_pairs(xy, 1))
        xx = Rx.T @ S.xx @ Rx
        t_t = u @ xx @ u
        x_loading = xx @ u / t_t
        Rx = Rx - np.outer(Rx @ u, x_loading)
        if regression:
            # It suffices to deflate X: the covariance with a deflated Y is the same.
            v = y_loading = xy.T @ u / t_t
            xy = Rx.T @ S.xy
        else:
            yy = Ry.T @ S.yy @ Ry
            y_loading = yy @ v / (v @ yy @ v)
            Ry = Ry - np.outer(Ry @ v, y_loading)
            xy = Rx.T @ S.xy @ Ry
        W[:, j], P[:, j], V[:, j], Q[:, j] = u, x_loading, v, y_loading
    return Latent(W, V, P, Q, rotations(W, P), rotations(V, Q))


def canonical_latent(
    S: Covariances, A: Float[Array, "p k"], B: Float[Array, "q k"]
) -> Latent:
    """Return weights, loadings and rotations of canonical directions.

    Deflating X by the scores of earlier directions removes them from its row space. The
    shortest weights that give a direction's scores are therefore its Gram-Schmidt
    residual, so that the QR factors of A give all weights without deflation.
    """
    W, Rx = _orthonormal(A)
    V, Ry = _orthonormal(B)
    W, V = with_positive_left_peaks(W, V)
    signs = np.sign(np.einsum("pk,pk->k", W, A))
    x_rotations = A * signs / Rx
    y_rotations = B * signs / Ry
    return Latent(
        W,
        V,
        _loadings(S.xx, x_rotations),
        _loadings(S.yy, y_rotations),
        x_rotations,
        y_rotations,
    )


def rotations(
    weights: Float[Array, "p k"], loadings: Float[Array, "p k"]
) -> Float[Array, "p k"]:
    """Return the matrix that maps rows, not deflated, to scores."""
    return weights @ scipy.linalg.pinv(loadings.T @ weights)


def _orthonormal(
    A: Float[Array, "p k"],
) -> tuple[Float[Array, "p k"], Float[Array, " k"]]:
    Q, R = scipy.linalg.qr(A, mode="economic")
    lengths = R.diagonal()
    return Q * np.sign(lengths), np.abs(lengths)


def _loadings(
    S: Float[Array, "p p"], rotations: Float[Array, "p k"]
) -> Float[Array, "p k"]:
    """Return regression slopes of the columns on each score."""
    image = S @ rotations
    return image / np.einsum("pk,pk->k", rotations, image)

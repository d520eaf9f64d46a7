"""Partial least squares from covariances: deflation acts on them, never on rows.

A deflated view is ``X_k = X R``, where R follows from earlier weights and loadings. So
all products of deflated rows in the algorithm, X_kᵀ X_k, X_kᵀ Y_k and Y_kᵀ Y_k, follow
from the covariances.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

import numpy as np
import scipy.linalg

from unpooled.arrays import Array, Float
from unpooled.linalg.canonical_correlation import Covariances
from unpooled.linalg.settled import (
    Arrays,
    by_nearness,
    completed,
    near,
    orthonormal_basis,
    product,
    settled,
    singular_pairs_of,
)

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
        W, V = product(Zx, self.x_weights), product(Zy, self.y_weights)
        peaks = np.take_along_axis(W, np.abs(W).argmax(axis=0)[None], axis=0)
        signs = np.where(peaks < 0, -1.0, 1.0)
        return Latent(
            W * signs,
            V * signs,
            Zx @ self.x_loadings * signs,
            Zy @ self.y_loadings * signs,
            product(Zx, self.x_rotations) * signs,
            Zy @ self.y_rotations * signs,
        )


def leading_singular_pairs(
    S: Float[Array, "p q"], k: int
) -> tuple[Float[Array, "p k"], Float[Array, "q k"]]:
    """Return the k leading singular pairs, the peaks of left vectors positive.

    Pairs whose singular value is 0 up to rounding are made from the others.
    """
    found = _settled_pairs(S, k, float(np.abs(S).max(initial=0.0)))
    U, V = completed(found["left"], k), completed(found["right"], k)
    return with_positive_left_peaks(U, V)


def _settled_pairs(
    S: Float[Array, "p q"], k: int, unit: float
) -> Mapping[str, Float[Array, "..."]]:
    """Return the leading singular triplets, at most k; `unit` as of the operand."""
    rounding = max(S.shape) * float(np.finfo(float).eps)

    def solve() -> dict[str, Array]:
        U, s, Vt = scipy.linalg.svd(S, full_matrices=False)
        r = int((s[:k] > rounding * s[0]).sum())
        return {"values": s[:k], "left": U[:, :r], "right": Vt[:r].T}

    def accept(found: Arrays, own: Arrays) -> bool:
        values, r = found["values"], found["left"].shape[1]
        if values.shape != own["values"].shape or found["right"].shape[1] != r:
            return False
        enough = r == int((values > rounding * values[0]).sum())
        return enough and singular_pairs_of(S, unit)(found, own)

    return settled("singular pairs", solve, accept, ranked=True)


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
        found = _settled_pairs(xy, 1, scale)
        u, v = (
            pair[:, 0]
            for pair in with_positive_left_peaks(found["left"], found["right"])
        )
        xx = Rx.T @ S.xx @ Rx
        x_loading = _settled_slopes(xx, u, S.xx)
        Rx = Rx - np.outer(Rx @ u, x_loading)
        if regression:
            # It suffices to deflate X: the covariance with a deflated Y is the same.
            v = y_loading = xy.T @ u / (u @ xx @ u)
            xy = Rx.T @ S.xy
        else:
            y_loading = _settled_slopes(Ry.T @ S.yy @ Ry, v, S.yy)
            Ry = Ry - np.outer(Ry @ v, y_loading)
            xy = Rx.T @ S.xy @ Ry
        W[:, j], P[:, j], V[:, j], Q[:, j] = u, x_loading, v, y_loading
    x_rotations = settled(
        "rotations", lambda: {"rotations": rotations(W, P)}, by_nearness
    )["rotations"]
    return Latent(W, V, P, Q, x_rotations, rotations(V, Q))


def _settled_slopes(
    xx: Float[Array, "p p"], u: Float[Array, " p"], S: Float[Array, "p p"]
) -> Float[Array, " p"]:
    """Return regression slopes on the scores along u; S is xx before deflation."""
    squares = float(u @ xx @ u)
    unit = float(np.abs(S).max()) * len(S) / squares
    found = settled(
        "slopes",
        lambda: {"slopes": xx @ u / squares},
        lambda found, own: near(
            found["slopes"], own["slopes"], unit * (1.0 + np.abs(own["slopes"]).max())
        ),
    )
    return found["slopes"]


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
    signs = np.sign(np.add.reduce(W * A, axis=0))
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
    Q = orthonormal_basis(A)
    lengths = np.add.reduce(Q * A, axis=0)
    return Q * np.sign(lengths), np.abs(lengths)


def _loadings(
    S: Float[Array, "p p"], rotations: Float[Array, "p k"]
) -> Float[Array, "p k"]:
    """Return regression slopes of the columns on each score."""
    image = S @ rotations
    return image / np.einsum("pk,pk->k", rotations, image)

"""Canonical correlations of two views from their covariances."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import scipy.linalg

from unpooled.arrays import Array, Float
from unpooled.linalg.generalized_eigen import check_definite
from unpooled.linalg.settled import Arrays, near, settled


@final
@dataclass(frozen=True)
class Covariances:
    """Covariances of two views, with denominator N - 1.

    Attributes
    ----------
    xx, xy, yy : (p, p), (p, q) and (q, q) arrays
        Within the first view, between them, within the second.
    """

    xx: Float[Array, "p p"]
    xy: Float[Array, "p q"]
    yy: Float[Array, "q q"]

    def shrunk(self, c: float) -> "Covariances":
        """Return the covariances with ``(1 - c) S + c I`` within the views."""
        if c == 0.0:
            return self
        xx, yy = ((1.0 - c) * S + c * np.eye(len(S)) for S in (self.xx, self.yy))
        return Covariances(xx, self.xy, yy)


def canonical_directions(
    S: Covariances,
    k: int,
    x_names: Sequence[str] | None = None,
    y_names: Sequence[str] | None = None,
) -> tuple[Float[Array, "p k"], Float[Array, "q k"]]:
    """Return the k pairs of directions (a, b) of the largest ``a.T @ S.xy @ b``.

    Parameters
    ----------
    S : Covariances
        Positive definite within the views.
    k : int
        Number of pairs, at most min(p, q).
    x_names, y_names : sequence of str, optional
        Names of the columns of each view, for errors.

    Returns
    -------
    A, B : (p, k) and (q, k) arrays
        With ``A.T @ S.xx @ A = I`` and ``B.T @ S.yy @ B = I``, by decreasing
        ``diag(A.T @ S.xy @ B)``, which is not negative.
    """
    # Columns in units of their standard deviation, so that scales cost no digits.
    ux, uy = check_definite(S.xx, x_names), check_definite(S.yy, y_names)
    xx, yy = S.xx / ux / ux[:, None], S.yy / uy / uy[:, None]
    xy = S.xy / uy / ux[:, None]

    def solve() -> dict[str, Array]:
        Lx = scipy.linalg.cholesky(xx, lower=True)
        Ly = scipy.linalg.cholesky(yy, lower=True)
        C = scipy.linalg.solve_triangular(Lx, xy, lower=True)
        C = scipy.linalg.solve_triangular(Ly, C.T, lower=True).T
        U, s, Vt = scipy.linalg.svd(C, full_matrices=False)
        return {
            "A": scipy.linalg.solve_triangular(Lx.T, U[:, :k]),
            "B": scipy.linalg.solve_triangular(Ly.T, Vt[:k].T),
            "values": s[:k],
        }

    def accept(found: Arrays, own: Arrays) -> bool:
        # Correlations are 1 at most, and so is the largest entry of the operands.
        views = (("A", xx, xy, "B"), ("B", yy, xy.T, "A"))
        size = {name: np.abs(own[name]).max(axis=0) * len(own[name]) for name in "AB"}
        both = size["A"] * size["B"]
        return near(found["values"], own["values"], both.max()) and all(
            near(found[a].T @ T @ found[a], np.eye(k), np.outer(size[a], size[a]))
            and near(
                cross @ found[b],
                T @ found[a] * found["values"],
                size[a] + size[b],
            )
            for a, T, cross, b in views
        )

    found = settled("canonical directions", solve, accept)
    return found["A"] / ux[:, None], found["B"] / uy[:, None]


def correlations(
    S: Covariances, A: Float[Array, "p k"], B: Float[Array, "q k"]
) -> Float[Array, " k"]:
    """Return the correlation of each pair of scores; 0 where one is constant."""
    x, y = (np.einsum("pk,pk->k", D, T @ D) for T, D in ((S.xx, A), (S.yy, B)))
    spread = np.sqrt(np.maximum(x * y, 0.0))
    return np.einsum("pk,pk->k", A, S.xy @ B) / np.where(spread > 0, spread, 1.0)


def structure(
    S: Float[Array, "p p"], rotations: Float[Array, "p k"]
) -> Float[Array, "p k"]:
    """Return correlations of columns with scores; 0 where either is constant."""
    return _correlations_of(S @ rotations, S.diagonal(), rotations)


def structure_in_span(
    F: Float[Array, "p r"], A: Float[Array, "r r"], rotations: Float[Array, "p k"]
) -> Float[Array, "p k"]:
    """Return `structure` of the covariance ``F A F.T``, which is never formed."""
    FA = F @ A
    variances = np.einsum("pr,pr->p", FA, F)
    return _correlations_of(FA @ (F.T @ rotations), variances, rotations)


def cross_structure(
    S: Float[Array, "p q"],
    variances: Float[Array, " p"],
    spread: Float[Array, " k"],
    rotations: Float[Array, "q k"],
) -> Float[Array, "p k"]:
    """Return correlations of one view's columns with the other view's scores.

    Parameters
    ----------
    S : (p, q) array
        Covariances of the columns with those of the other view.
    variances : (p,) array
        Variances of the columns.
    spread : (k,) array
        Variances of the scores.
    rotations : (q, k) array
        Weights of the other view's columns in the scores.
    """
    return _over_deviations(S @ rotations, variances, spread)


def score_variances(
    S: Float[Array, "p p"], rotations: Float[Array, "p k"]
) -> Float[Array, " k"]:
    """Return the variances of scores."""
    return np.maximum(np.einsum("pk,pk->k", rotations, S @ rotations), 0.0)


def _correlations_of(
    image: Float[Array, "p k"],
    variances: Float[Array, " p"],
    rotations: Float[Array, "p k"],
) -> Float[Array, "p k"]:
    spread = np.maximum(np.einsum("pk,pk->k", rotations, image), 0.0)
    return _over_deviations(image, variances, spread)


def _over_deviations(
    covariances: Float[Array, "p k"],
    variances: Float[Array, " p"],
    spread: Float[Array, " k"],
) -> Float[Array, "p k"]:
    deviation, size = np.sqrt(np.maximum(variances, 0.0)), np.sqrt(spread)
    scale = np.where(deviation > 0, deviation, 1.0)[:, None]
    return covariances / scale / np.where(size > 0, size, 1.0)

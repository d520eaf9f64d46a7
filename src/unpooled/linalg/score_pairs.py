"""Latent pairs of two views that are seen through bases of their columns.

    O = X Q,  R = Y P    images of the rows; Q and P have orthonormal columns
    pairs of O, R        partial least squares within the spans of Q and P
    Xᵀ u = s Q w         u the other's score: holds for pairs of the whole views

Who has X, Q and both images can tell how far its own side is from the pairs of the
whole views, and which directions Q lacks.
"""

from dataclasses import dataclass
from typing import final

import numpy as np
import scipy.linalg

from unpooled.arrays import Array, Float
from unpooled.linalg.partial_least_squares import NOTHING

# Below this share of a direction, what others leave of it is rounding.
_DEPENDENT = 1e-8
# Relative gaps below this are ties, whose pairs nobody can tell apart.
_TIED = 1e-14


@final
@dataclass(frozen=True)
class ScorePairs:
    """Pairs of scores within the spans of two bases, by decreasing covariance.

    Attributes
    ----------
    weights : (w, k) array
        Unit vectors, coordinates of the own weights in the own basis; zeros where
        nothing is left to pair.
    own, other : (N, k) arrays
        Scores of both views, each as earlier pairs have left it. The entry of largest
        magnitude in the sum of both, at unit length, is positive.
    gaps : (k,) array
        Distance of each pair's covariance from the nearest other one.
    """

    weights: Float[Array, "w k"]
    own: Float[Array, "N k"]
    other: Float[Array, "N k"]
    gaps: Float[Array, " k"]


def score_pairs(
    own: Float[Array, "N w"],
    other: Float[Array, "N _"],
    k: int,
    *,
    deflated: tuple[bool, bool],
) -> ScorePairs:
    """Return k pairs of two views' images.

    Parameters
    ----------
    own, other : (N, w) and (N, v) arrays
        Images; columns of zeros where a basis has fewer directions.
    k : int
        At most w and v.
    deflated : pair of bool
        Whether the own view's score is taken out of it before the next pair, and the
        other's out of that one: of neither view (PLSSVD, singular vectors all at once),
        of both (PLSCanonical), or of the one that predicts (PLSRegression).
    """
    left, right = own, other
    k = min(k, own.shape[1], other.shape[1])
    weights, gaps = np.zeros((own.shape[1], k)), np.zeros(k)
    t, u = np.zeros((2, len(own), k))
    U, s, Vt = scipy.linalg.svd(left.T @ right)
    first = s[0]
    for j in range(k):
        if any(deflated) and j:
            left = _without(left, t[:, j - 1]) if deflated[0] else left
            right = _without(right, u[:, j - 1]) if deflated[1] else right
            U, s, Vt = scipy.linalg.svd(left.T @ right)
        # Each pair is the first of what is left, or the one of its own rank.
        i = 0 if any(deflated) else j
        if s[i] <= NOTHING * first:
            break
        t[:, j], u[:, j] = left @ U[:, i], right @ Vt[i]
        sign = _sign(t[:, j], u[:, j])
        weights[:, j], t[:, j], u[:, j] = sign * U[:, i], sign * t[:, j], sign * u[:, j]
        gaps[j] = _gap(s, i)
    return ScorePairs(weights, t, u, gaps)


def errors(
    X: Float[Array, "N p"],
    basis: Float[Array, "p w"],
    pairs: ScorePairs,
    *,
    deflated: bool,
) -> tuple[Float[Array, "p k"], Float[Array, " k"]]:
    """Return what the own basis lacks, and the sines of angles that this may cost.

    Parameters
    ----------
    X : (N, p) array
        The own view.
    basis : (p, w) array
        Of the pairs' weights.
    pairs : ScorePairs
        Within that basis.
    deflated : bool
        Whether the own view's scores were taken out of it.

    Returns
    -------
    residuals : (p, k) array
        ``Xᵀ u`` less its part along the own weights, pair by pair.
    sines : (k,) array
        Their lengths in units of the pair's gap; a bound on the error of the own
        weights to first order. At most 1e6, which stands for no gap at all.
    """
    u = pairs.other.copy()
    if deflated:
        for j in range(1, u.shape[1]):
            # Earlier scores are orthogonal to each other.
            for t in pairs.own[:, :j].T:
                u[:, j] -= t * (t @ u[:, j]) / (t @ t if t.any() else 1.0)
    image, weights = X.T @ u, basis @ pairs.weights
    residuals = image - weights * np.einsum("pk,pk->k", weights, image)
    lengths = np.linalg.norm(residuals, axis=0)
    sizes = np.linalg.norm(image, axis=0)
    tied = pairs.gaps <= _TIED * sizes
    sines = np.where(tied, 1e6, lengths / np.where(tied, 1.0, pairs.gaps))
    sines = np.where(pairs.weights.any(axis=0), np.minimum(sines, 1e6), 0.0)
    return residuals, sines


def cosines(T: Float[Array, "N k"], U: Float[Array, "N k"]) -> Float[Array, " k"]:
    """Return the cosine between each pair of columns; 0 where one has no length."""
    lengths = np.linalg.norm(T, axis=0) * np.linalg.norm(U, axis=0)
    return np.einsum("Nk,Nk->k", T, U) / np.where(lengths > 0, lengths, 1.0)


def extended(
    basis: Float[Array, "p w"], directions: Float[Array, "p l"], more: int
) -> Float[Array, "p _"]:
    """Return the basis with `more` columns; zeros where no direction adds anything."""
    lengths = np.linalg.norm(directions, axis=0)
    fresh = directions / np.where(lengths > 0, lengths, 1.0)
    for _ in range(2):
        # Twice, for what is left of nearly dependent directions is mostly rounding.
        fresh = fresh - basis @ (basis.T @ fresh)
        fresh = _orthonormal(fresh)
    padding = np.zeros((len(basis), more - fresh.shape[1]))
    return np.hstack([basis, fresh, padding])


def _orthonormal(block: Float[Array, "p l"]) -> Float[Array, "p l"]:
    U, s, _ = scipy.linalg.svd(block, full_matrices=False)
    found = np.zeros_like(block)
    firm = s > _DEPENDENT
    found[:, : np.count_nonzero(firm)] = U[:, firm]
    return found


def _sign(t: Float[Array, " N"], u: Float[Array, " N"]) -> float:
    joint = t / np.linalg.norm(t) + u / np.linalg.norm(u)
    return 1.0 if joint[np.abs(joint).argmax()] >= 0 else -1.0


def _gap(s: Float[Array, " l"], i: int) -> float:
    below = s[i] - (s[i + 1] if i + 1 < len(s) else 0.0)
    return float(below if i == 0 else min(below, s[i - 1] - s[i]))


def _without(Z: Float[Array, "N w"], t: Float[Array, " N"]) -> Float[Array, "N w"]:
    return Z - np.outer(t, t @ Z / (t @ t))

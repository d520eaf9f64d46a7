"""Latent pairs of two views within low-dimensional subspaces of their columns.

    O = X Q,  R = Y P    images of the rows; Q and P have orthonormal columns
    pairs of O, R        partial least squares within the spans of Q and P
    Xᵀ u = s Q w         holds for pairs of the whole views; u is the other view's score

The owner of X and Q, given both images, can compute how far its weights are from those
of the whole views, and which directions Q lacks.
"""

from dataclasses import dataclass
from typing import final

import numpy as np
import scipy.linalg

from unpooled.arrays import Array, Float
from unpooled.linalg.partial_least_squares import NOTHING
from unpooled.linalg.threads import one_thread

# A direction of which less than this share is orthogonal to the others is rounding.
_DEPENDENT = 1e-8
# Relative gaps below this are ties, whose pairs are not determined.
_TIED = 1e-14


@final
@dataclass(frozen=True)
class ScorePairs:
    """Pairs of scores within two subspaces, in descending order of covariance.

    Attributes
    ----------
    weights : (w, k) array
        Unit vectors, the coordinates of the own weights in the own basis; zeros beyond
        the rank of the covariance.
    own, other : (N, k) arrays
        Scores of both views, after deflation by earlier pairs. In the sum of the two
        unit scores, the entry of largest magnitude is positive.
    gaps : (k,) array
        Distance of each pair's singular value from the nearest other one.
    covariances : (l,) array
        The singular values; without deflation of all pairs, not only of k.
    """

    weights: Float[Array, "w k"]
    own: Float[Array, "N k"]
    other: Float[Array, "N k"]
    gaps: Float[Array, " k"]
    covariances: Float[Array, " l"]


@one_thread()
def score_pairs(
    own: Float[Array, "N w"],
    other: Float[Array, "N _"],
    k: int,
    *,
    deflated: tuple[bool, bool],
) -> ScorePairs:
    """Return k pairs of scores from the images of two views.

    Parameters
    ----------
    own, other : (N, w) and (N, v) arrays
        Images; zero columns where a basis has fewer directions.
    k : int
        Number of pairs, at most w and v.
    deflated : pair of bool
        Whether the own view, and whether the other view, is deflated by its score
        before the next pair: neither (PLSSVD, all singular vectors at once), both
        (PLSCanonical), or the view that predicts (PLSRegression).
    """
    k = min(k, own.shape[1], other.shape[1])
    if any(deflated):
        return _deflated_pairs(own, other, k, deflated)
    U, s, Vt = scipy.linalg.svd(own.T @ other)
    firm = s[:k] > NOTHING * s[0]
    weights, others = U[:, :k] * firm, Vt[:k].T * firm
    t, u = own @ weights, other @ others
    signs = _signs(t, u)
    t *= signs
    u *= signs
    gaps = np.array([_gap(s, i) for i in range(k)]) * firm
    return ScorePairs(weights * signs, t, u, gaps, s)


def _deflated_pairs(
    own: Float[Array, "N w"],
    other: Float[Array, "N _"],
    k: int,
    deflated: tuple[bool, bool],
) -> ScorePairs:
    """Return the first pair of what earlier pairs left over, k times."""
    left, right, first = own, other, 0.0
    weights, gaps, values = np.zeros((own.shape[1], k)), np.zeros(k), np.zeros(k)
    t, u = np.zeros((2, len(own), k))
    for j in range(k):
        if j:
            left = _without(left, t[:, j - 1]) if deflated[0] else left
            right = _without(right, u[:, j - 1]) if deflated[1] else right
        U, s, Vt = scipy.linalg.svd(left.T @ right)
        first = first or s[0]
        if s[0] <= NOTHING * first:
            break
        t[:, j], u[:, j] = left @ U[:, 0], right @ Vt[0]
        sign = _signs(t[:, j : j + 1], u[:, j : j + 1])[0]
        weights[:, j], t[:, j], u[:, j] = sign * U[:, 0], sign * t[:, j], sign * u[:, j]
        gaps[j], values[j] = _gap(s, 0), s[0]
    return ScorePairs(weights, t, u, gaps, values)


def errors(
    X: Float[Array, "N p"],
    basis: Float[Array, "p w"],
    pairs: ScorePairs,
    *,
    deflated: bool,
) -> tuple[Float[Array, "p k"], Float[Array, " k"]]:
    """Return directions that the own basis lacks, and bounds on the angles they cause.

    Parameters
    ----------
    X : (N, p) array
        The own view.
    basis : (p, w) array
        The basis of the pairs' weights.
    pairs : ScorePairs
        Pairs of scores within that basis.
    deflated : bool
        Whether the own view was deflated by its scores.

    Returns
    -------
    residuals : (p, k) array
        ``Xᵀ u`` without its part along the own weights, for each pair.
    sines : (k,) array
        Their lengths in units of the pair's gap: a first-order bound on the error of
        the own weights. At most 1e6, which stands for a gap of 0.
    """
    u = pairs.other.copy()
    if deflated:
        for j in range(1, u.shape[1]):
            # Earlier scores are mutually orthogonal.
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
    """Return the cosine between each pair of columns; 0 where one column is zero."""
    squares = (np.einsum("Nk,Nk->k", Z, Z) for Z in (T, U))
    lengths = np.prod(np.sqrt(list(squares)), axis=0)
    return np.einsum("Nk,Nk->k", T, U) / np.where(lengths > 0, lengths, 1.0)


def extended(
    basis: Float[Array, "p w"], directions: Float[Array, "p l"], more: int
) -> Float[Array, "p _"]:
    """Return the basis with `more` further columns, zero where no direction is new."""
    lengths = np.linalg.norm(directions, axis=0)
    fresh = directions / np.where(lengths > 0, lengths, 1.0)
    for _ in range(2):
        # Twice, because the rest of nearly dependent directions is mostly rounding.
        fresh = fresh - basis @ (basis.T @ fresh)
        fresh = _orthonormal(fresh)
    padding = np.zeros((len(basis), more - fresh.shape[1]))
    return np.hstack([basis, fresh, padding])


def _orthonormal(block: Float[Array, "p l"]) -> Float[Array, "p l"]:
    U, s, _ = scipy.linalg.svd(block, full_matrices=False)
    basis = np.zeros_like(block)
    firm = s > _DEPENDENT
    basis[:, : np.count_nonzero(firm)] = U[:, firm]
    return basis


def _signs(t: Float[Array, "N k"], u: Float[Array, "N k"]) -> Float[Array, " k"]:
    joint = _unit(t) + _unit(u)
    return np.where(joint.max(axis=0) >= -joint.min(axis=0), 1.0, -1.0)


def _unit(t: Float[Array, "N k"]) -> Float[Array, "N k"]:
    lengths = np.sqrt(np.einsum("Nk,Nk->k", t, t))
    return t / np.where(lengths > 0, lengths, 1.0)


def _gap(s: Float[Array, " l"], i: int) -> float:
    below = s[i] - (s[i + 1] if i + 1 < len(s) else 0.0)
    return float(below if i == 0 else min(below, s[i - 1] - s[i]))


def _without(Z: Float[Array, "N w"], t: Float[Array, " N"]) -> Float[Array, "N w"]:
    return Z - np.outer(t, t @ Z / (t @ t))

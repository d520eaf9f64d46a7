"""The Rayleigh-Ritz method: eigenpairs from a basis and its images.

    QᵀAQ = Y Θ Yᵀ,  V = Q Y      residuals ‖A v - θ v‖      angle ≤ ‖R‖ / gap

By the theorem of Davis and Kahan, the sine of the largest angle to the wanted subspace
is at most ‖R‖ / gap, where R are the residuals of the k pairs and the gap is that
between eigenvalues k and k + 1.

References
----------
Davis and Kahan, The rotation of eigenvectors by a perturbation III, SIAM J. Numer.
Anal. 7 (1970).
"""

import math
from dataclasses import dataclass
from typing import final

import numpy as np
import scipy.linalg

from unpooled.arrays import Array, Float
from unpooled.linalg.settled import near, settled

# Residuals cannot fall below the rounding of float64, in units of eps θ_1.
FLOOR = 32 * float(np.finfo(float).eps)


@final
@dataclass(frozen=True)
class RitzPairs:
    """Approximate eigenpairs with residuals and a bound on their error.

    Attributes
    ----------
    values : (k,) array
        In descending order.
    vectors : (d, k) array
        Orthonormal columns of arbitrary sign.
    residuals : (k,) array
        ``‖A v - θ v‖`` of each pair.
    gap : float
        Lower bound on the difference of eigenvalues k and k + 1; 0 when they could not
        be separated, infinite when there are only k.
    angle : float
        Bound on the sine of the largest angle to the wanted subspace; 1 or more where
        the subspace is not defined.
    n_iter : int
        Number of applications of the operator.
    """

    values: Float[Array, " k"]
    vectors: Float[Array, "d k"]
    residuals: Float[Array, " k"]
    gap: float
    angle: float
    n_iter: int

    def is_at_floor(self, noise: float) -> bool:
        """Whether the residuals are at the level of rounding, or of `noise`."""
        worst = math.sqrt(float(np.sum(self.residuals**2)))
        return worst <= max(noise, FLOOR * float(np.abs(self.values).max()))

    def is_certified(self, tol: float) -> bool:
        """Whether the angle is within `tol`, or eigenvalue k is 0 to rounding."""
        top = float(self.values[0])
        return self.angle <= tol or float(self.values[-1]) <= FLOOR * top


def ritz_pairs(
    Q: Float[Array, "d j"], Y: Float[Array, "d j"], k: int
) -> tuple[RitzPairs, Float[Array, "j j"], float]:
    """Return the k leading Ritz pairs of a basis and its images.

    Parameters
    ----------
    Q : (d, j) array
        Orthonormal columns, at least k.
    Y : (d, j) array
        Their images under a symmetric operator.
    k : int
        Number of pairs.

    Returns
    -------
    RitzPairs
    turned : (j, j) array
        ``Q @ turned`` are all Ritz vectors, in descending order of their values.
    noise : float
        Largest difference between ``QᵀY`` and its transpose.
    """
    T = Q.T @ Y
    values, turned = scipy.linalg.eigh((T + T.T) / 2)
    values, turned = values[::-1], turned[:, ::-1]
    first = turned[:, : k + 1]
    vectors = Q @ first
    R = Y @ first - vectors * values[: k + 1]
    residuals, gap, angle = certificate(values, R, k)
    pairs = RitzPairs(values[:k], vectors[:, :k], residuals[:k], gap, angle, 1)
    return pairs, turned, float(np.abs(T - T.T).max())


def continuation(
    Q: Float[Array, "d j"], Y: Float[Array, "d j"], rest: Float[Array, "d l"]
) -> Float[Array, "d q"]:
    """Return the next orthonormal block of a Krylov basis.

    Parameters
    ----------
    Q : (d, j) array
        The basis.
    Y : (d, j) array
        Its images, which set the scale of rounding.
    rest : (d, l) array
        The part of the last images that is orthogonal to the basis.

    Returns
    -------
    (d, min(l, d - j)) array
        An orthonormal basis of `rest`, completed by other directions where `rest` is
        rounding.
    """
    d, width = rest.shape
    new, R, _ = scipy.linalg.qr(rest, mode="economic", pivoting=True)
    scale = float(np.abs(Y).max()) if Y.size else 0.0
    rank = int((np.abs(R.diagonal()) > FLOOR * scale).sum())
    # Any directions serve, and no result depends on the choice.
    new[:, rank:] = np.random.default_rng(0).standard_normal((d, new.shape[1] - rank))
    for _ in range(2):
        new = scipy.linalg.qr(new - Q @ (Q.T @ new), mode="economic")[0]
    return new[:, : min(width, d - Q.shape[1])]


def certificate(
    values: Float[Array, " j"], R: Float[Array, "d q"], k: int
) -> tuple[Float[Array, " q"], float, float]:
    """Return residual norms, gap and angle; R has k + 1 columns, or all of them."""
    residuals = np.sqrt(np.add.reduce(R * R, axis=0))
    worst = residual_norm(R[:, :k])
    gap = math.inf
    if len(values) > k:
        # Eigenvalue k + 1 may exceed its Ritz value by at most that value's residual.
        gap = max(float(values[k - 1] - values[k] - residuals[k]), 0.0)
    angle = 0.0 if worst == 0 else (worst / gap if gap > 0 else math.inf)
    return residuals, gap, angle


def residual_norm(R: Float[Array, "d k"]) -> float:
    """Return the spectral norm of residuals."""
    found = settled(
        "residual norm",
        lambda: {"norm": np.array(scipy.linalg.norm(R, 2))},
        lambda found, own: near(found["norm"], own["norm"]),
    )
    return float(found["norm"])

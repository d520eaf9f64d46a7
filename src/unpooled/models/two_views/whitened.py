"""A silo's own columns whitened with a ridge, and weights back in their units.

Q = X C^(-1/2) / sqrt(N - 1),  C = (1 - c) S + c I,  S = XᵀX / (N - 1) of centred X
"""

import numpy as np
import scipy.linalg

from unpooled.arrays import Array, Float
from unpooled.models.moments import complete


def whitened(
    X: Float[Array, "N p"], c: float
) -> tuple[Float[Array, " p"], Float[Array, "N p"]]:
    """Return the means of columns, and Q."""
    mean = complete(X).mean(axis=0)
    U, s, Vt = thin(X - mean)
    spread = s / np.sqrt(len(X) - 1)
    return mean, U * (spread / roots(spread, c)) @ Vt


def unwhitened(
    X: Float[Array, "N p"], V: Float[Array, "p k"], c: float
) -> Float[Array, "p k"]:
    """Return ``C^(-1/2) V``, for V in the span of the rows."""
    _, s, Vt = thin(X - X.mean(axis=0))
    root = roots(s / np.sqrt(len(X) - 1), c)
    return Vt.T @ (Vt @ V / root[:, None])


def thin(
    Z: Float[Array, "N p"],
) -> tuple[Float[Array, "N l"], Float[Array, " l"], Float[Array, "l p"]]:
    """Return singular values above rounding, with their vectors."""
    U, s, Vt = scipy.linalg.svd(Z, full_matrices=False)
    firm = s > max(Z.shape) * np.finfo(float).eps * s.max(initial=0.0)
    return U[:, firm], s[firm], Vt[firm]


def roots(spread: Float[Array, " l"], c: float) -> Float[Array, " l"]:
    """Return the square roots of the eigenvalues of ``(1 - c) S + c I``."""
    return np.sqrt((1.0 - c) * spread**2 + c)

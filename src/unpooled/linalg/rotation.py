"""Rotations of loadings towards simple structure: varimax and promax.

References
----------
Kaiser, The varimax criterion for analytic rotation in factor analysis, Psychometrika 23
(1958). Hendrickson and White, Promax: a quick method for rotation to oblique simple
structure, British Journal of Statistical Psychology 17 (1964).
"""

from dataclasses import dataclass
from typing import final

import numpy as np
import scipy.linalg

from unpooled.arrays import Array, Float
from unpooled.errors import ConvergenceError
from unpooled.linalg.settled import Arrays, near, product, settled

ROTATIONS = ("varimax", "promax", None)
# Largest change of a rotation between steps when it has converged, and most steps.
_CONVERGED, _MOST = 1e-14, 20_000
# Stationary rotations differ between machines by rounding, over the curvature of the
# criterion.
_FLATNESS = 1e3
# The exponent of promax: its target is the loadings raised to this power.
_POWER = 4


@final
@dataclass(frozen=True, eq=False)
class Rotation:
    """A rotation of k factors.

    Attributes
    ----------
    matrix : (k, k) array
        T; ``loadings @ T`` are the rotated loadings. Orthogonal unless oblique.
    correlations : (k, k) array
        Correlations of the rotated factors; the identity of an orthogonal rotation.
    """

    matrix: Float[Array, "k k"]
    correlations: Float[Array, "k k"]


def rotation_of(
    L: Float[Array, "p k"], method: str | None, *, kaiser: bool = False
) -> Rotation:
    """Return the rotation of loadings by a criterion.

    Parameters
    ----------
    L : (p, k) array
        Loadings.
    method : {"varimax", "promax"} or None
        The criterion; None leaves the loadings as they are.
    kaiser : bool, default False
        Rotate the loadings with the rows scaled to length 1 (Kaiser's normalisation).

    Notes
    -----
    Each rotated factor is turned so that the sum of the cubes of its loadings is
    positive, so that two runs, or two silos, agree; the order is that of the rotation.
    """
    k = L.shape[1]
    if method is None or k == 1:
        return Rotation(np.eye(k), np.eye(k))
    lengths = np.sqrt(np.add.reduce(L * L, axis=1)) if kaiser else np.ones(len(L))
    A = L / np.where(lengths > 0, lengths, 1.0)[:, None]

    def solve() -> Arrays:
        T = _varimax(A)
        if method == "promax":
            T = T @ _promax(A @ T)
        T = T * np.where(np.sum((A @ T) ** 3, axis=0) < 0, -1.0, 1.0)
        inverse = np.linalg.inv(T)
        return {"matrix": T, "correlations": inverse @ inverse.T}

    def accept(found: Arrays, own: Arrays) -> bool:
        return all(near(found[name], own[name], _FLATNESS) for name in own)

    found = settled(f"{method} rotation", solve, accept)
    return Rotation(found["matrix"], found["correlations"])


def rotated(L: Float[Array, "p k"], rotation: Rotation) -> Float[Array, "p k"]:
    """Return rotated loadings, the same bits on every machine."""
    return product(L, rotation.matrix)


def _varimax(A: Float[Array, "p k"]) -> Float[Array, "k k"]:
    """Return the orthogonal T with the largest variance of squares of ``A T``."""
    p, k = A.shape
    T, moved = np.eye(k), np.inf
    for _ in range(_MOST):
        B = A @ T
        U, _, Vt = scipy.linalg.svd(A.T @ (B**3 - B * (np.sum(B**2, axis=0) / p)))
        moved = float(np.abs(U @ Vt - T).max())
        T = U @ Vt
        if moved <= _CONVERGED * np.sqrt(k):
            return T
    if moved <= 1e-9:
        return T  # a criterion that is nearly flat
    raise ConvergenceError(
        f"The varimax rotation moved by {moved:.1e} after {_MOST:,} steps, so that the "
        f"loadings prefer no direction. Choose rotation=None, or another number of "
        f"factors."
    )


def _promax(B: Float[Array, "p k"]) -> Float[Array, "k k"]:
    """Return the map from varimax loadings to those nearest to their own powers."""
    target = B * np.abs(B) ** (_POWER - 1)
    U = scipy.linalg.lstsq(B, target)[0]
    return U * np.sqrt(np.diag(np.linalg.inv(U.T @ U)))

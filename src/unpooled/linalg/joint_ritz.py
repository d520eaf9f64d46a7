"""Eigenpairs of an operator whose vectors nobody holds whole: Rayleigh-Ritz.

    parties     keep their entries of a basis V, and of its images M V
    coordinator B = VᵀV, T = VᵀMV  ──> T y = θ B y
    parties     r = M V y - θ V y  ──> rᵀr, Vᵀr ──> what makes r orthonormal, beside V

Only products of columns are seen, l numbers for each column of the basis. The basis
goes on with residuals, which are computed as they are, so what one block loses by
rounding comes back with a later one.

References
----------
Saad, Numerical Methods for Large Eigenvalue Problems, 2nd edition, 2011, section 4.3
(Rayleigh-Ritz) and 8.4 (residuals as directions).
"""

from typing import final

import numpy as np
import scipy.linalg

from unpooled.arrays import Array, Float
from unpooled.linalg.ritz import FLOOR

# Directions of a block that are smaller than this beside its others are rounding.
_DEPENDENT = 1e-12


@final
class JointRitz:
    """What products of a basis tell of the operator's eigenpairs."""

    def __init__(self) -> None:
        self._B = np.zeros((0, 0))
        self._T = np.zeros((0, 0))

    @property
    def width(self) -> int:
        """Columns of the basis; those that are zero count."""
        return len(self._B)

    def extend(
        self, overlaps: Float[Array, "q l"], images: Float[Array, "q l"]
    ) -> None:
        """Take a block's products with all columns of the basis, its own at the end.

        Parameters
        ----------
        overlaps : (q, l) array
            ``Vᵀ V_new``.
        images : (q, l) array
            ``Vᵀ M V_new``.
        """
        self._B = _bordered(self._B, overlaps)
        self._T = _bordered(self._T, images)

    def pairs(self, count: int) -> tuple[Float[Array, " l"], Float[Array, "q l"]]:
        """Return the largest Ritz values, and coordinates of unit vectors.

        Where the basis has fewer directions than `count`, the others are zeros.
        """
        whitened = _inverse_root(self._B)
        values, turned = scipy.linalg.eigh(whitened.T @ self._T @ whitened)
        most = min(count, len(values))
        theta, Y = np.zeros(count), np.zeros((self.width, count))
        theta[:most] = values[::-1][:most]
        Y[:, :most] = whitened @ turned[:, ::-1][:, :most]
        return theta, Y

    def continuation(
        self, overlap: Float[Array, "q l"], squares: Float[Array, "l l"], floor: float
    ) -> tuple[Float[Array, "q l"], Float[Array, "l l"]]:
        """Return (back, turn): ``(R - V back) turn`` is orthonormal, and so beside V.

        Parameters
        ----------
        overlap, squares : (q, l) and (l, l) arrays
            ``VᵀR`` and ``RᵀR`` of a block of residuals.
        floor : float
            Length at which a residual is rounding. Columns of the turned block for
            which nothing is left are zeros.
        """
        whitened = _inverse_root(self._B)
        back = whitened @ (whitened.T @ overlap)
        lengths = np.sqrt(squares.diagonal())
        unit = np.where(lengths > floor, 1.0 / np.where(lengths > 0, lengths, 1.0), 0.0)
        rest = (squares - overlap.T @ back) * unit * unit[:, None]
        turn = np.zeros_like(squares)
        found = _inverse_root(rest)
        turn[:, : found.shape[1]] = unit[:, None] * found
        return back, turn


def pair_errors(
    theta: Float[Array, " l"], lengths: Float[Array, " l"], k: int
) -> Float[Array, " k"]:
    """Return bounds, to first order, on the sines of the angles to k eigenvectors.

    Parameters
    ----------
    theta : (l,) array
        Ritz values, descending, more than k of them unless there are no others.
    lengths : (l,) array
        Of their residuals.
    """
    below = np.append(theta[:-1] - theta[1:], np.inf)
    gaps = np.minimum(below, np.append(np.inf, below[:-1]))[:k]
    tied = gaps <= FLOOR * np.abs(theta).max(initial=0.0)
    return np.where(tied, np.inf, lengths[:k] / np.where(tied, 1.0, gaps))


def _bordered(
    S: Float[Array, "w w"], columns: Float[Array, "q l"]
) -> Float[Array, "q q"]:
    """Return a symmetric matrix with the columns, and rows, that come next."""
    w = len(S)
    whole = np.zeros((len(columns), len(columns)))
    whole[:w, :w] = S
    whole[:, w:] = columns
    whole[w:, :w] = columns[:w].T
    whole[w:, w:] = (columns[w:] + columns[w:].T) / 2.0
    return whole


def _inverse_root(S: Float[Array, "q q"]) -> Float[Array, "q _"]:
    """Return R with ``R.T @ S @ R = I``, of as many columns as S has rank."""
    # In units of each column, whose lengths may differ; zeros stay.
    lengths = np.sqrt(np.maximum(S.diagonal(), 0.0))
    unit = np.where(lengths > 0, 1.0 / np.where(lengths > 0, lengths, 1.0), 0.0)
    values, vectors = scipy.linalg.eigh(S * unit * unit[:, None])
    firm = values > _DEPENDENT * max(values[-1], 0.0)
    return unit[:, None] * vectors[:, firm] / np.sqrt(values[firm])

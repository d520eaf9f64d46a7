"""Rayleigh-Ritz for an operator whose eigenvectors are partitioned over the parties.

    parties     keep their entries of a basis V and of its images M V
    coordinator B = VᵀV,  T = VᵀMV,  solves T y = θ B y
    parties     r = M V y - θ V y,  send rᵀr and Vᵀr
    coordinator the matrices that make r orthonormal and orthogonal to V

The coordinator receives inner products of columns only, l numbers for each column of
the basis. The basis is extended by residuals, which are computed directly, so that
rounding errors of one block are corrected by a later one.

References
----------
Saad, Numerical Methods for Large Eigenvalue Problems, 2nd edition, 2011, section 4.3
(Rayleigh-Ritz) and 8.4 (residuals as directions).
"""

from typing import final

import numpy as np
import scipy.linalg

from unpooled.arrays import Array, Float
from unpooled.linalg.eigen import with_positive_peaks
from unpooled.linalg.ritz import FLOOR
from unpooled.linalg.settled import Arrays, near, product, settled

# Directions of a block below this share of its largest one are rounding.
_DEPENDENT = 1e-12


@final
class JointRitz:
    """Eigenpairs of an operator from inner products of a basis and its images."""

    def __init__(self) -> None:
        self._B = np.zeros((0, 0))
        self._T = np.zeros((0, 0))

    @property
    def width(self) -> int:
        """Number of columns of the basis, zero columns included."""
        return len(self._B)

    def extend(
        self, overlaps: Float[Array, "q l"], images: Float[Array, "q l"]
    ) -> None:
        """Add a block by its inner products with all columns of the basis, itself last.

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
        """Return the largest Ritz values, and the coordinates of unit Ritz vectors.

        Pairs beyond the dimension of the basis are zeros.
        """
        B, T = self._B, self._T
        whitened = _inverse_root(B)

        def solve() -> dict[str, Array]:
            values, turned = scipy.linalg.eigh(whitened.T @ T @ whitened)
            most = min(count, len(values))
            theta, Y = np.zeros(count), np.zeros((len(B), count))
            theta[:most] = values[::-1][:most]
            Y[:, :most] = whitened @ turned[:, ::-1][:, :most]
            return {"theta": theta, "Y": Y}

        def accept(found: Arrays, own: Arrays) -> bool:
            theta, Y = found["theta"], found["Y"]
            filled = own["Y"].any(axis=0)
            size = float(np.abs(own["theta"]).max(initial=0.0)) or 1.0
            length = np.abs(own["Y"]).max(axis=0, initial=0.0) * len(B)
            # Within the basis: what the root leaves out is rounding.
            rest = whitened.T @ (T @ Y - B @ Y * theta)
            widest = float(np.abs(whitened).max(initial=0.0))
            return (
                (Y.any(axis=0) == filled).all()
                and near(theta, own["theta"], size * max(1.0, float(length.max()) ** 2))
                and near(Y.T @ B @ Y, np.diag(filled), np.outer(length, length))
                and near(rest, np.zeros_like(rest), size * widest * length)
            )

        found = settled("joint Ritz pairs", solve, accept)
        return found["theta"].copy(), with_positive_peaks(found["Y"])

    def continuation(
        self, overlap: Float[Array, "q l"], squares: Float[Array, "l l"], floor: float
    ) -> tuple[Float[Array, "q l"], Float[Array, "l l"]]:
        """Return (back, turn) so that ``(R - V back) turn`` is orthonormal, Vᵀ of it 0.

        Parameters
        ----------
        overlap, squares : (q, l) and (l, l) arrays
            ``VᵀR`` and ``RᵀR`` of a block of residuals.
        floor : float
            Length below which a residual is rounding. Columns of the result that have
            no direction left are zeros.
        """
        whitened = _inverse_root(self._B)
        # With nearly dependent columns the coefficients are large, and less accurate.
        widest = float(np.abs(whitened).max(initial=0.0))
        unit = float(np.abs(overlap).max(initial=0.0)) * len(overlap) * widest**2
        back = settled(
            "earlier directions",
            lambda: {"back": whitened @ (whitened.T @ overlap)},
            lambda found, own: near(found["back"], own["back"], unit),
        )["back"]
        lengths = np.sqrt(squares.diagonal())
        unit = np.where(lengths > floor, 1.0 / np.where(lengths > 0, lengths, 1.0), 0.0)
        rest = (squares - product(overlap.T, back)) * unit * unit[:, None]

        def solve() -> dict[str, Array]:
            root, padded = _inverse_root(rest), np.zeros_like(rest)
            padded[:, : root.shape[1]] = root
            return {"root": padded}

        def accept(found: Arrays, own: Arrays) -> bool:
            R, filled = found["root"], own["root"].any(axis=0)
            length = np.abs(own["root"]).max(axis=0, initial=0.0) * len(rest)
            both = np.outer(length, length)
            # The columns are eigenvectors too, so that they cannot be turned.
            return (
                (R.any(axis=0) == filled).all()
                and near(R.T @ rest @ R, np.diag(filled), both)
                and near(R.T @ R, own["root"].T @ own["root"], both * both.max())
            )

        root = with_positive_peaks(settled("next directions", solve, accept)["root"])
        return back, unit[:, None] * root


def pair_errors(
    theta: Float[Array, " l"], lengths: Float[Array, " l"], k: int
) -> Float[Array, " k"]:
    """Return first-order bounds on the sines of the angles to k eigenvectors.

    Parameters
    ----------
    theta : (l,) array
        Ritz values in descending order, more than k of them if there are more.
    lengths : (l,) array
        Lengths of their residuals.
    """
    below = np.append(theta[:-1] - theta[1:], np.inf)
    gaps = np.minimum(below, np.append(np.inf, below[:-1]))[:k]
    tied = gaps <= FLOOR * np.abs(theta).max(initial=0.0)
    return np.where(tied, np.inf, lengths[:k] / np.where(tied, 1.0, gaps))


def _bordered(
    S: Float[Array, "w w"], columns: Float[Array, "q l"]
) -> Float[Array, "q q"]:
    """Return a symmetric matrix extended by further columns, and so rows."""
    w = len(S)
    whole = np.zeros((len(columns), len(columns)))
    whole[:w, :w] = S
    whole[:, w:] = columns
    whole[w:, :w] = columns[:w].T
    whole[w:, w:] = (columns[w:] + columns[w:].T) / 2.0
    return whole


def _inverse_root(S: Float[Array, "q q"]) -> Float[Array, "q _"]:
    """Return R with ``R.T @ S @ R = I``; its number of columns is the rank of S."""
    # In units of each column's length; zero columns stay zero.
    lengths = np.sqrt(np.maximum(S.diagonal(), 0.0))
    unit = np.where(lengths > 0, 1.0 / np.where(lengths > 0, lengths, 1.0), 0.0)
    values, vectors = scipy.linalg.eigh(S * unit * unit[:, None])
    firm = values > _DEPENDENT * max(values[-1], 0.0)
    return unit[:, None] * vectors[:, firm] / np.sqrt(values[firm])

"""Distance of a one-shot solution from the exact one, with two bounds.

References
----------
Lv et al., One-Shot Distributed Generalized Eigenvalue Problem (DGEP), 2022, Theorem 1.
"""

from dataclasses import dataclass
from typing import final

import numpy as np
import scipy.linalg

from unpooled.arrays import Array, Float
from unpooled.linalg.generalized_eigen import inverse_root, largest_sine
from unpooled.results.exhibits import Column, Exhibit, ResultTable
from unpooled.results.summary import Summary, Tabular


@final
@dataclass(frozen=True, repr=False)
class Diagnosis(Tabular):
    """Error of a one-shot solution, with two bounds on it.

    It prints as a table; ``to_frame()`` returns it as a pandas data frame.

    Attributes
    ----------
    error : float
        Sine of the largest angle between the one-shot subspace and the exact one, both
        spanned by k whitened vectors: ``||W - W_c W_c.T W||``.
    perturbation : float
        The bound of the sin θ theorem, ``||M_0 - Σ M_i / m|| / gap``: at least `error`
        where the gap is positive, infinite elsewhere.
    bound : float or None
        The right side of the paper's inequality (6), from the spectral radii of each
        party's A_i and B_i; None where these are not disclosed, infinite where the gap
        in its denominator is not positive. As printed, σ~_0 = -∞ and σ~_(k+1) = ∞ make
        that gap 0 for all matrices; σ~_(k+1) is read as the eigenvalue. The proof
        equates the norm of an inverse with the inverse of a norm, which holds only for
        multiples of the identity, so that it is neither tight nor, in general, a bound.
    """

    error: float
    perturbation: float
    bound: float | None

    def summary(self) -> Summary:
        """Return error and bounds as a table."""
        rows = [
            ("Error", self.error, "error"),
            ("Bound by the sin θ theorem", self.perturbation, "perturbation"),
            ("Bound of the paper", self.bound, "bound"),
        ]
        table = ResultTable(
            "diagnosis",
            (Column("Quantity"), Column("Value", "number"), Column("Attribute")),
            rows,
            note="A missing bound needs numbers that the silos did not disclose."
            if self.bound is None
            else "",
        )
        text = (
            "The error is the sine of the largest angle between the one-shot subspace "
            "and the exact one: 0 where they agree, 1 where some direction is lost."
        )
        exhibit = Exhibit("Error of the one-shot solution", text, [table])
        return Summary("One-shot solution against the exact one", [exhibit])


def diagnosed(
    W: Float[Array, "p k"],
    M: Float[Array, "p p"],
    A: Float[Array, "p p"],
    B: Float[Array, "p p"],
    radii: Float[Array, "m 2"] | None,
    n_parties: int,
) -> Diagnosis:
    """Compare eigenvectors W of M = Σ M_i with those of A = Σ A_i and B = Σ B_i.

    Parameters
    ----------
    W : (p, k) array
        Orthonormal columns.
    M, A, B : (p, p) arrays
        Totals.
    radii : (m, 2) array or None
        Spectral radii of each party's A_i and B_i.
    n_parties : int
        Number of parties, m.
    """
    k = W.shape[1]
    root = inverse_root(B, 0.0, pseudo=True)
    exact = root @ A @ root
    values, vectors = scipy.linalg.eigh(exact)
    spectrum, ours = values[::-1], scipy.linalg.eigvalsh(M)[::-1]
    # The mean of the M_i has the eigenvectors of their sum, and is nearer to M_0.
    gap = _gap(spectrum, ours / n_parties, k)
    distance = float(np.linalg.norm(exact - M / n_parties, 2))
    bound = None
    if radii is not None:
        (a, b), m, wide = radii.T, len(radii), _gap(spectrum, ours, k)
        loose = a.max() / (m**3 * b.max()) + m * (a / b).max()
        bound = float(loose / wide) if wide > 0 else np.inf
    error = largest_sine(W, vectors[:, -k:])
    return Diagnosis(error, distance / gap if gap > 0 else np.inf, bound)


def _gap(exact: Float[Array, " p"], ours: Float[Array, " p"], k: int) -> float:
    """Return Δ_k, between the k largest of one spectrum and the rest of the other."""
    return float(max(exact[k - 1] - ours[k], 0.0)) if k < len(ours) else np.inf

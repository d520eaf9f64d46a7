"""One-shot generalised eigenvectors (DGEP): the coordinator's part, and diagnostics.

References
----------
Lv et al., One-Shot Distributed Generalized Eigenvalue Problem (DGEP), 2022, Algorithms
1 and 2, and Theorem 1.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import scipy.linalg

from unpooled.arrays import Array, Float
from unpooled.errors import DataError
from unpooled.linalg.eigen import symmetric_eigenpairs, with_positive_peaks
from unpooled.linalg.generalized_eigen import inverse_root, largest_sine
from unpooled.linalg.settled import orthonormal_basis

# As a paper cites it, for the methods of the models that use the algorithms.
DGEP = (
    "Lv K, Sun Z, He F, Huang X, Yang J. One-shot distributed generalized eigenvalue "
    "problem (DGEP): concept, algorithm and experiments. 2022."
)


def top_eigenvectors(M: Float[Array, "p p"], k: int) -> Float[Array, "p k"]:
    """Return the eigenvectors of the `k` largest eigenvalues.

    In each, the entry of largest magnitude is positive.
    """
    return symmetric_eigenpairs(M, k)[1]


def power_eigenvectors(
    apply: Callable[[Float[Array, "p k"]], Float[Array, "p k"]],
    start: Float[Array, "p k"],
    max_iter: int,
) -> Float[Array, "p k"]:
    """Return an orthonormal basis after `max_iter` steps of the power method.

    Algorithm 2; with several columns each step ends in a QR factorisation. Convergence
    is not checked: where M has no gap after eigenvalue k, as for every M of `CCA`, no
    number of steps leads to eigenvectors.

    Parameters
    ----------
    apply : callable
        W ↦ M W.
    start : (p, k) array
        The starting block.
    max_iter : int
        Number of steps.
    """
    W = orthonormal_basis(start)
    for _ in range(max_iter):
        W = orthonormal_basis(apply(W))
    return with_positive_peaks(W)


def starting_block(
    init: Any, p: int, k: int, seed: Callable[[], Any]
) -> Float[Array, "p k"]:
    """Return `init` as a block of k columns; by `seed`, a normal one if it is None."""
    if init is None:
        return np.random.default_rng(seed()).standard_normal((p, k))
    block = np.asarray(init, dtype=float)
    block = block[:, None] if block.ndim == 1 else block
    if block.shape != (p, k) or not np.isfinite(block).all():
        raise DataError(f"init has shape {np.shape(init)}; give a finite ({p}, {k}).")
    return block


@final
@dataclass(frozen=True)
class Diagnosis:
    """Error of a one-shot solution, with two bounds on it.

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
        in its denominator is not positive. Its proof equates the norm of an inverse
        with the inverse of a norm, which holds only for multiples of the identity, so
        that it is neither tight nor, in general, a bound.
    """

    error: float
    perturbation: float
    bound: float | None


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

"""One-shot eigenvectors: what a server does with one matrix from all parties.

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
from unpooled.linalg.eigen import with_positive_peaks
from unpooled.linalg.generalized_eigen import inverse_root, largest_sine


def top_eigenvectors(M: Float[Array, "p p"], k: int) -> Float[Array, "p k"]:
    """Return the eigenvectors of the `k` largest eigenvalues, peaks positive."""
    p = len(M)
    V = scipy.linalg.eigh(M, subset_by_index=[p - k, p - 1])[1]
    return with_positive_peaks(V[:, ::-1])


def power_eigenvectors(
    apply: Callable[[Float[Array, "p k"]], Float[Array, "p k"]],
    start: Float[Array, "p k"],
    max_iter: int,
) -> Float[Array, "p k"]:
    """Return an orthonormal basis after `max_iter` steps of the power method.

    Algorithm 2; with several columns each step ends in a QR factorisation. Nothing is
    checked: where M has no gap at k, as every M of `CCA` has not, this is not close to
    eigenvectors after any number of steps.

    Parameters
    ----------
    apply : callable
        W ↦ M W.
    start : (p, k) array
        The first W.
    max_iter : int
        How many steps.
    """
    W = scipy.linalg.qr(start, mode="economic")[0]
    for _ in range(max_iter):
        W = scipy.linalg.qr(apply(W), mode="economic")[0]
    return with_positive_peaks(W)


def starting_block(init: Any, p: int, k: int, random_state: Any) -> Float[Array, "p k"]:
    """Return `init` as a block of k columns, or draw one."""
    if init is None:
        return np.random.default_rng(random_state).standard_normal((p, k))
    block = np.asarray(init, dtype=float)
    block = block[:, None] if block.ndim == 1 else block
    if block.shape != (p, k) or not np.isfinite(block).all():
        raise DataError(f"init has shape {np.shape(init)}; give a finite ({p}, {k}).")
    return block


@final
@dataclass(frozen=True)
class Diagnosis:
    """How far a one-shot answer is from the exact one.

    Attributes
    ----------
    error : float
        Sine of the largest angle between the one-shot span and the exact one, both of k
        whitened vectors: ``||W - W_c W_c.T W||``.
    perturbation : float
        The sin θ theorem itself, ``||M_0 - Σ M_i / m|| / gap``: an upper bound on
        `error` wherever the gap is positive, infinite elsewhere.
    bound : float or None
        The right side of the paper's inequality (6), from the spectral radii of each
        party's A_i and B_i; None where these may not be seen, infinite where the gap
        that it divides by is not positive. Its proof takes the norm
        of an inverse for the inverse of a norm, which holds for multiples of the
        identity only: it is neither tight nor, in general, a bound.
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
    """Compare one-shot vectors W of M = Σ M_i with those of A = Σ A_i, B = Σ B_i.

    Parameters
    ----------
    W : (p, k) array
        Orthonormal columns.
    M, A, B : (p, p) arrays
        Totals.
    radii : (m, 2) array or None
        Spectral radii of each party's A_i and B_i.
    n_parties : int
        m.
    """
    k = W.shape[1]
    root = inverse_root(B, 0.0, pseudo=True)
    exact = root @ A @ root
    values, vectors = scipy.linalg.eigh(exact)
    spectrum, ours = values[::-1], scipy.linalg.eigvalsh(M)[::-1]
    # The mean of M_i has the vectors of their sum, and is nearer to M_0.
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

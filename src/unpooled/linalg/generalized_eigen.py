"""Generalised symmetric-definite eigenproblems ``A v = λ B v``, and roots of B."""

import numpy as np
import scipy.linalg

from unpooled.arrays import Array, Float
from unpooled.errors import DataError
from unpooled.linalg.eigen import with_positive_peaks
from unpooled.linalg.settled import near, pencil_pairs_of, settled

# Totals are accurate to twelve digits, so a direction whose eigenvalue is below this
# share of the largest one of a correlation matrix cannot be told from a collinear one.
_SINGULAR = 1e-11


def leading_pencil_pairs(
    A: Float[Array, "p p"],
    B: Float[Array, "p p"],
    k: int,
    n_vectors: int | None = None,
) -> tuple[Float[Array, " k"], Float[Array, "p l"]]:
    """Solve ``A v = λ B v`` for the `k` largest eigenvalues.

    Parameters
    ----------
    A : (p, p) array
        Symmetric.
    B : (p, p) array
        Symmetric positive definite.
    k : int
        Number of eigenvalues, at most p.
    n_vectors : int, optional
        Number of eigenvectors, l; k when omitted.

    Returns
    -------
    λ : (k,) array
        In descending order.
    V : (p, l) array
        Columns with ``V.T @ B @ V = I``. In each, the entry of largest magnitude is
        positive.

    Raises
    ------
    DataError
        When B is singular to the accuracy of a total.
    """
    p, n_vectors = len(B), n_vectors or k
    # Columns in units of their standard deviation, so that scales cost no digits.
    unit = check_definite(B)
    A, B = A / unit / unit[:, None], B / unit / unit[:, None]

    def solve() -> dict[str, Array]:
        values, vectors = scipy.linalg.eigh(
            A, B, subset_by_index=[p - k, p - 1], check_finite=False
        )
        # LAPACK returns ascending order.
        return {"values": values[::-1], "vectors": vectors[:, : -n_vectors - 1 : -1]}

    found = settled("pencil pairs", solve, pencil_pairs_of(A, B))
    V = found["vectors"] / unit[:, None]
    return found["values"].copy(), with_positive_peaks(V)


def check_definite(B: Float[Array, "p p"]) -> Float[Array, " p"]:
    """Return the square roots of the diagonal of B; raise when B is singular."""
    unit = np.sqrt(np.maximum(B.diagonal(), 0.0))
    if (unit > 0).all():
        R = B / unit / unit[:, None]
        found = settled(
            "smallest eigenvalue",
            lambda: {"value": scipy.linalg.eigvalsh(R, subset_by_index=[0, 0])},
            lambda found, own: near(found["value"], own["value"], 1.0, len(R)),
        )
        if found["value"][0] > _SINGULAR * len(B):
            return unit
    raise DataError(
        "Columns are constant or collinear, so the problem has no unique solution. "
        "Leave some columns out with select, or regularise: shrinkage, regularisation "
        "or ridge, by the model."
    )


def solved(B: Float[Array, "p p"], V: Float[Array, "p k"]) -> Float[Array, "p k"]:
    """Return ``B^(-1) V`` of a positive definite B, in units of its diagonal."""
    unit = np.sqrt(B.diagonal())
    factor = scipy.linalg.cho_factor(B / unit / unit[:, None])
    return scipy.linalg.cho_solve(factor, V / unit[:, None]) / unit[:, None]


def inverse_root(
    B: Float[Array, "p p"], ridge: float, *, pseudo: bool
) -> Float[Array, "p p"]:
    """Return ``(B + ridge I)^(-1/2)``, symmetric.

    Parameters
    ----------
    B : (p, p) array
        Symmetric positive semi-definite.
    ridge : float
        Added to its diagonal.
    pseudo : bool
        Take the pseudo-inverse root, which is 0 on the null space of B, instead of
        raising.
    """
    values, vectors = scipy.linalg.eigh(B)
    null = values <= len(B) * np.finfo(float).eps * max(values[-1], 0.0)
    values = np.where(null, 0.0, values) + ridge
    if (values <= 0).any() and not pseudo:
        raise DataError(
            "A silo's own matrix B is singular. Choose a ridge, or pseudo-inverse "
            "roots (ridge=None).",
            rule="singular",
        )
    kept = ~null if pseudo else np.ones(len(B), bool)
    roots = np.zeros(len(B))
    roots[kept] = values[kept] ** -0.5
    return (vectors * roots) @ vectors.T


def largest_sine(ours: Float[Array, "p k"], exact: Float[Array, "p k"]) -> float:
    """Return the sine of the largest principal angle between two column spaces."""
    return float(np.sin(scipy.linalg.subspace_angles(ours, exact).max()))

"""Generalised symmetric-definite eigenproblems ``A v = λ B v``, and roots of B."""

from collections.abc import Sequence

import numpy as np
import scipy.linalg
import scipy.linalg.lapack

from unpooled.arrays import Array, Float
from unpooled.errors import DataError
from unpooled.linalg.eigen import with_positive_peaks
from unpooled.linalg.settled import near, pencil_pairs_of, settled

# Totals are accurate to twelve digits, so a direction whose eigenvalue is below this
# share of the largest one of a correlation matrix is no different from a collinear one.
_SINGULAR = 1e-11
_SHOWN = 6  # dependent columns that an error names


def leading_pencil_pairs(
    A: Float[Array, "p p"],
    B: Float[Array, "p p"],
    k: int,
    n_vectors: int | None = None,
    names: Sequence[str] | None = None,
    within: str = "",
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
    names : sequence of str, optional
        Names of the rows of B, for the error.
    within : str, default ""
        What B is the covariance within, for the error: "classes".

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
    unit = check_definite(B, names, within)
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


def check_definite(
    B: Float[Array, "p p"], names: Sequence[str] | None = None, within: str = ""
) -> Float[Array, " p"]:
    """Return the square roots of the diagonal of B; raise when B is singular.

    Parameters
    ----------
    B : (p, p) array
        Symmetric positive semi-definite.
    names : sequence of str, optional
        Names of its columns, so that the error says which of them depend on which.
    within : str, default ""
        What B is the covariance within, for the error: "classes".
    """
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
    place = f" within {within}" if within else ""
    raise DataError(
        f"Columns are constant or collinear{place}, so the problem has no unique "
        f"solution{_which(B, names)}. Leave some columns out with select, or by "
        f"RareColumns where folds lack the few rows in which a column differs, or "
        f"regularise: shrinkage, regularisation or ridge, by the model."
    )


def _which(B: Float[Array, "p p"], names: Sequence[str] | None) -> str:
    """Return which columns have no variance of their own, and what they depend on."""
    if names is None:
        return ""
    found = [
        f"{names[j]!r} is a linear combination of "
        f"{', '.join(repr(names[i]) for i in others)}"
        if others
        else f"{names[j]!r} has no variance"
        for j, others in (dependent_columns(B) or dependent_columns(B, 1)).items()
    ]
    more = f", and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return f": {'; '.join(found[:_SHOWN])}{more}" if found else ""


def dependent_columns(B: Float[Array, "p p"], least: int = 0) -> dict[int, list[int]]:
    """Return columns of a covariance that depend on others, with those others.

    The columns kept are the pivots of a Cholesky factorisation with complete pivoting:
    of collinear columns, those with the largest remaining variance.

    Parameters
    ----------
    B : (p, p) array
        Symmetric positive semi-definite.
    least : int, default 0
        Number of columns that depend on others at least, where it is known: the pivots
        of a matrix that is just singular may all be above the limit.

    Returns
    -------
    dict of int to list of int
        For each dependent column, at most four of the columns that it is a combination
        of, largest share first; none where the column has no variance.
    """
    unit = np.sqrt(np.maximum(B.diagonal(), 0.0))
    dependent: dict[int, list[int]] = {int(j): [] for j in np.flatnonzero(unit == 0)}
    varying = np.flatnonzero(unit > 0)
    R = B[np.ix_(varying, varying)] / unit[varying] / unit[varying][:, None]
    _, pivots, rank, _ = scipy.linalg.lapack.dpstrf(R, lower=1, tol=_SINGULAR * len(B))
    rank = min(rank, len(R) - least)
    kept, rest = pivots[:rank] - 1, pivots[rank:] - 1
    if not len(kept) or not len(rest):
        return dependent
    shares = scipy.linalg.lstsq(R[np.ix_(kept, kept)], R[np.ix_(kept, rest)])[0]
    for column, share in zip(rest, np.abs(shares).T, strict=True):
        order = np.argsort(-share, kind="stable")[:4]
        others = kept[order[share[order] > 1e-6 * share.max(initial=0.0)]]
        dependent[int(varying[column])] = varying[others].tolist()
    return dict(sorted(dependent.items()))


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


def span_angles(V: Float[Array, "p k"], U: Float[Array, "p k"]) -> Float[Array, " k"]:
    """Return largest principal angles of the first 1, ..., k columns, in degrees."""
    spans = range(1, V.shape[1] + 1)
    largest = [scipy.linalg.subspace_angles(V[:, :j], U[:, :j])[0] for j in spans]
    return np.degrees(np.array(largest))


def largest_sine(ours: Float[Array, "p k"], exact: Float[Array, "p k"]) -> float:
    """Return the sine of the largest principal angle between two column spaces."""
    return float(np.sin(scipy.linalg.subspace_angles(ours, exact).max()))

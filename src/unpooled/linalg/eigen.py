"""Symmetric eigenproblems with fixed signs, accurate also for graded matrices."""

from collections.abc import Callable

import numpy as np
import scipy.linalg

from unpooled.arrays import Array, Float
from unpooled.linalg.large_eigen import large_eigenpairs
from unpooled.linalg.settled import (
    Arrays,
    completed,
    eigenpairs_of,
    settled,
    untied,
    with_positive_peaks,
)

# `eigh` has an error of about eps λ_1 in every eigenvalue, so that eigenvalues below
# this share of λ_1 would keep fewer than the nine digits promised.
_GRADED = 1e-6
# Largest relative distance between directions computed by two LAPACK libraries.
_SAME = 1e-6
# Rounding errors in a correlation, in units of eps: a column whose variance given the
# others is smaller than that cannot be distinguished from a collinear one.
_NOISE = 64


def leading_eigenpairs(
    A: Float[Array, "p p"],
    k: int,
    n_vectors: int | Callable[[Float[Array, " k"]], int] | None = None,
) -> tuple[Float[Array, " k"], Float[Array, "p l"]]:
    """Solve ``A v = λ v`` for the `k` largest eigenvalues of a scatter matrix.

    Parameters
    ----------
    A : (p, p) array
        Symmetric positive semi-definite.
    k : int
        Number of eigenvalues, at most p.
    n_vectors : int or callable, optional
        Number of eigenvectors, l, or a function of the eigenvalues that returns it;
        all k when omitted. Eigenvectors that are not used need not be sent to those
        who check them.

    Returns
    -------
    λ : (k,) array
        In descending order, none negative.
    V : (p, l) array
        Orthonormal columns. In each, the entry of largest magnitude is positive, so
        that two runs, or two silos, agree (scikit-learn's rule for PCA). Those of
        eigenvalues 0 are made from the others, those of equal ones from their span.
    """

    def count(values: Float[Array, " k"]) -> int:
        if n_vectors is None:
            return k
        return n_vectors(values) if callable(n_vectors) else n_vectors

    def directions(values: Float[Array, " k"]) -> int:
        # Without variance there is no direction.
        return min(count(values), int(np.count_nonzero(values > 0.0)))

    def solve() -> dict[str, Array]:
        values, vectors = _eigenpairs(A, k)
        return {"values": values, "vectors": vectors[:, : directions(values)]}

    def accept(found: Arrays, own: Arrays) -> bool:
        values, V = found["values"], found["vectors"]
        if V.shape[1] != directions(values) or (values < 0.0).any():
            return False
        return eigenpairs_of(A)(found, own)

    found = settled("leading eigenpairs", solve, accept, ranked=True)
    values, V = found["values"], untied(found["values"], found["vectors"])
    return values.copy(), with_positive_peaks(completed(V, count(values)))


def symmetric_eigenpairs(
    A: Float[Array, "p p"], k: int, n_values: int | None = None
) -> tuple[Float[Array, " l"], Float[Array, "p k"]]:
    """Return the largest eigenvalues, of either sign, and k eigenvectors.

    Parameters
    ----------
    A : (p, p) array
        Symmetric.
    k : int
        Number of eigenvectors.
    n_values : int, optional
        Number of eigenvalues, at least k; k when omitted.

    Returns
    -------
    λ : (n_values,) array
        In descending order.
    V : (p, k) array
        Orthonormal columns. In each, the entry of largest magnitude is positive.
    """
    p, count = len(A), n_values or k

    def solve() -> dict[str, Array]:
        values, vectors = scipy.linalg.eigh(A, subset_by_index=[p - count, p - 1])
        return {"values": values[::-1], "vectors": vectors[:, : -k - 1 : -1]}

    found = settled("symmetric eigenpairs", solve, eigenpairs_of(A))
    V = untied(found["values"], found["vectors"])
    return found["values"].copy(), with_positive_peaks(V)


def _eigenpairs(
    A: Float[Array, "p p"], k: int
) -> tuple[Float[Array, " k"], Float[Array, "p l"]]:
    """Return eigenvalues, none negative, and vectors of at least the positive ones."""
    p = len(A)
    if np.count_nonzero(A) == np.count_nonzero(A.diagonal()):
        values, vectors = _of_diagonal(A.diagonal(), k)
    else:
        if (found := large_eigenpairs(A, k)) is None:
            # LAPACK returns ascending order; reverse the top k.
            values, vectors = scipy.linalg.eigh(
                A, subset_by_index=[p - k, p - 1], check_finite=False
            )
            found = values[::-1], vectors[:, ::-1]
        values, vectors = found
        if values[-1] < _GRADED * values[0]:
            values, vectors = _with_small_ones(A, values, vectors)
    return np.maximum(values, 0.0), vectors


def _of_diagonal(
    diagonal: Float[Array, " p"], k: int
) -> tuple[Float[Array, " k"], Float[Array, "p k"]]:
    order = np.argsort(-diagonal, kind="stable")[:k]
    vectors = np.zeros((len(diagonal), k))
    vectors[order, np.arange(k)] = 1.0
    return diagonal[order], vectors


def _with_small_ones(
    A: Float[Array, "p p"], values: Float[Array, " k"], vectors: Float[Array, "p k"]
) -> tuple[Float[Array, " k"], Float[Array, "p l"]]:
    """Compute small eigenvalues to high relative accuracy; 0 beyond the rank.

    There may be no vectors beyond the rank.

    With A = D R D, R a correlation matrix, and R = L Lᵀ, the one-sided Jacobi method
    on D L finds small singular values to a relative error of about eps cond(R), while a
    method on A finds eigenvalues to an absolute error of eps λ_1. Collinear or constant
    columns end the factor L early; without that their eigenvalues would be noise, with
    square roots of 1e-8 sqrt(λ_1).

    References
    ----------
    Demmel and Veselić, Jacobi's method is more accurate than QR, SIAM J. Matrix Anal.
    Appl. 13 (1992); Drmač and Veselić, New fast and accurate Jacobi SVD algorithm
    (LAPACK's `gejsv`), 2008.
    """
    from scipy.linalg.lapack import dgejsv, dpstrf

    p, k = vectors.shape
    # A column without variance may have a little less than none, by rounding.
    scale = np.sqrt(np.maximum(A.diagonal(), 0.0))
    divisor = np.where(scale > 0, scale, 1.0)
    factor, pivots, rank, _ = dpstrf(
        A / divisor / divisor[:, None],
        lower=1,
        tol=max(p, _NOISE) * np.finfo(float).eps,
    )
    known = min(k, rank)
    if scale.min() ** 2 >= _GRADED * scale.max() ** 2:
        values[known:] = 0.0
        return values, vectors
    L = np.zeros((p, rank))
    L[pivots - 1] = np.tril(factor)[:, :rank]
    singular, U, _, work, _, _ = dgejsv(scale[:, None] * L, joba=2, jobu=0, jobv=3)
    values = np.zeros(k)
    values[:known] = (singular[:known] * work[0] / work[1]) ** 2
    return values, U[:, :known]

"""Canonical correlations of two views from their covariances."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import scipy.linalg
import scipy.stats

from unpooled.arrays import Array, Float
from unpooled.linalg.generalized_eigen import check_definite
from unpooled.linalg.settled import Arrays, near, settled


@final
@dataclass(frozen=True)
class Covariances:
    """Covariances of two views, with denominator N - 1.

    Attributes
    ----------
    xx, xy, yy : (p, p), (p, q) and (q, q) arrays
        Within the first view, between them, within the second.
    """

    xx: Float[Array, "p p"]
    xy: Float[Array, "p q"]
    yy: Float[Array, "q q"]

    def shrunk(self, c: float) -> "Covariances":
        """Return the covariances with ``(1 - c) S + c I`` within the views."""
        if c == 0.0:
            return self
        xx, yy = ((1.0 - c) * S + c * np.eye(len(S)) for S in (self.xx, self.yy))
        return Covariances(xx, self.xy, yy)


def canonical_directions(
    S: Covariances,
    k: int,
    x_names: Sequence[str] | None = None,
    y_names: Sequence[str] | None = None,
) -> tuple[Float[Array, "p k"], Float[Array, "q k"]]:
    """Return the k pairs of directions (a, b) of the largest ``a.T @ S.xy @ b``.

    Parameters
    ----------
    S : Covariances
        Positive definite within the views.
    k : int
        Number of pairs, at most min(p, q).
    x_names, y_names : sequence of str, optional
        Of the columns of each view, for errors.

    Returns
    -------
    A, B : (p, k) and (q, k) arrays
        With ``A.T @ S.xx @ A = I`` and ``B.T @ S.yy @ B = I``, by decreasing
        ``diag(A.T @ S.xy @ B)``, which is not negative.
    """
    # Columns in units of their standard deviation, so that scales cost no digits.
    ux, uy = check_definite(S.xx, x_names), check_definite(S.yy, y_names)
    xx, yy = S.xx / ux / ux[:, None], S.yy / uy / uy[:, None]
    xy = S.xy / uy / ux[:, None]

    def solve() -> dict[str, Array]:
        Lx = scipy.linalg.cholesky(xx, lower=True)
        Ly = scipy.linalg.cholesky(yy, lower=True)
        C = scipy.linalg.solve_triangular(Lx, xy, lower=True)
        C = scipy.linalg.solve_triangular(Ly, C.T, lower=True).T
        U, s, Vt = scipy.linalg.svd(C, full_matrices=False)
        return {
            "A": scipy.linalg.solve_triangular(Lx.T, U[:, :k]),
            "B": scipy.linalg.solve_triangular(Ly.T, Vt[:k].T),
            "values": s[:k],
        }

    def accept(found: Arrays, own: Arrays) -> bool:
        # Correlations are 1 at most, and so is the largest entry of the operands.
        views = (("A", xx, xy, "B"), ("B", yy, xy.T, "A"))
        size = {name: np.abs(own[name]).max(axis=0) * len(own[name]) for name in "AB"}
        both = size["A"] * size["B"]
        return near(found["values"], own["values"], both.max()) and all(
            near(found[a].T @ T @ found[a], np.eye(k), np.outer(size[a], size[a]))
            and near(
                cross @ found[b],
                T @ found[a] * found["values"],
                size[a] + size[b],
            )
            for a, T, cross, b in views
        )

    found = settled("canonical directions", solve, accept)
    return found["A"] / ux[:, None], found["B"] / uy[:, None]


def correlations(
    S: Covariances, A: Float[Array, "p k"], B: Float[Array, "q k"]
) -> Float[Array, " k"]:
    """Return the correlation of each pair of scores; 0 where one is constant."""
    x, y = (np.einsum("pk,pk->k", D, T @ D) for T, D in ((S.xx, A), (S.yy, B)))
    spread = np.sqrt(np.maximum(x * y, 0.0))
    return np.einsum("pk,pk->k", A, S.xy @ B) / np.where(spread > 0, spread, 1.0)


def structure(
    S: Float[Array, "p p"], rotations: Float[Array, "p k"]
) -> Float[Array, "p k"]:
    """Return correlations of columns with scores; 0 where either is constant."""
    image = S @ rotations
    spread = np.sqrt(np.maximum(np.einsum("pk,pk->k", rotations, image), 0.0))
    deviation = np.sqrt(S.diagonal())
    scale = np.where(deviation > 0, deviation, 1.0)[:, None] * np.where(
        spread > 0, spread, 1.0
    )
    return image / scale


@final
@dataclass(frozen=True)
class CanonicalTest:
    """Bartlett's test that a canonical correlation and all smaller ones are zero.

    Attributes
    ----------
    wilks : (k,) array
        Wilks' lambda, the product of ``1 - r²`` over the correlation and all smaller
        ones.
    statistic : (k,) array
        Bartlett's, ``-(N - 1 - (p + q + 1) / 2) log(wilks)``.
    dof : (k,) int array
        Its degrees of freedom, (p - j)(q - j) for the pair j = 0, 1, ...
    p_value : (k,) array
        Under the chi-squared distribution, which holds asymptotically for normal rows.
    """

    wilks: Float[Array, " k"]
    statistic: Float[Array, " k"]
    dof: Array
    p_value: Float[Array, " k"]


def bartlett(r: Float[Array, " l"], N: int, p: int, q: int) -> CanonicalTest:
    """Test all min(p, q) canonical correlations of N rows, in descending order.

    References
    ----------
    Bartlett, The statistical significance of canonical correlations, Biometrika 32
    (1941).
    """
    # A correlation of 1 has Wilks' lambda 0 and an infinite statistic.
    with np.errstate(divide="ignore"):
        logs = np.log1p(-(np.minimum(r, 1.0) ** 2))
    log_wilks = np.cumsum(logs[::-1])[::-1]
    j = np.arange(len(r))
    statistic = -(N - 1 - (p + q + 1) / 2) * log_wilks
    dof = (p - j) * (q - j)
    p_value = scipy.stats.chi2.sf(statistic, dof)
    return CanonicalTest(np.exp(log_wilks), statistic, dof, p_value)

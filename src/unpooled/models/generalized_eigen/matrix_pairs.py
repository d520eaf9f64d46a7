"""Matrices A_i and B_i of known problems, as each silo forms them from its own rows.

`GeneralizedEigen` takes these steps as its `pair`, and the one-shot solvers of the
estimators the functions below them. Everything is about the silo's own means, for the
published algorithms know no others; sums over silos therefore differ from the pooled
matrices by what is between the silos.

References
----------
Lv et al., One-Shot Distributed Generalized Eigenvalue Problem (DGEP), 2022, section
2.4.
"""

from typing import Any

import numpy as np

from unpooled.arrays import Array, Float, Shaped
from unpooled.errors import DataError
from unpooled.models.moments import complete
from unpooled.protocol.step import kept, stays


@kept(
    by="party",
    A=stays("p p", until="fit", meaning="covariances of first with other columns"),
    B=stays("p p", until="fit", meaning="covariances among each"),
)
def local_canonical(X: Float[Array, "n p"], *, first: int) -> dict[str, Any]:
    """Keep the matrices of canonical correlations: the first columns with the rest."""
    A, B = canonical_pair(X, first)
    return {"A": A, "B": B}


@kept(
    by="party",
    A=stays("p p", until="fit", meaning="scatter between means of the silo's classes"),
    B=stays("p p", until="fit", meaning="scatter of rows about these means"),
)
def local_discriminant(
    X: Float[Array, "n p"], y: Shaped[Array, " n"]
) -> dict[str, Any]:
    """Keep the matrices of discriminants, of the silo's own classes."""
    A, B = discriminant_pair(X, y)
    return {"A": A, "B": B}


@kept(
    by="party",
    A=stays("p p", until="fit", meaning="the scatter of rows about their mean"),
    B=stays("p p", until="fit", meaning="the identity"),
)
def local_principal(X: Float[Array, "n p"]) -> dict[str, Any]:
    """Keep the matrices of principal components."""
    Z = complete(X) - X.mean(axis=0)
    return {"A": Z.T @ Z, "B": np.eye(X.shape[1])}


def canonical_pair(
    X: Float[Array, "n p"], first: int
) -> tuple[Float[Array, "p p"], Float[Array, "p p"]]:
    """Return ``[[0, S_xy], [S_yx, 0]]`` and ``[[S_xx, 0], [0, S_yy]]``."""
    if not 0 < first < X.shape[1]:
        raise DataError("Both views need a column.", rule="arguments")
    Z = complete(X) - X.mean(axis=0)
    S = Z.T @ Z
    B = S.copy()
    B[:first, first:] = B[first:, :first] = 0.0
    return S - B, B


def discriminant_pair(
    X: Float[Array, "n p"], y: Shaped[Array, " n"]
) -> tuple[Float[Array, "p p"], Float[Array, "p p"]]:
    """Return the scatter between the means of the silo's own classes, and within."""
    between, within = discriminant_factors(X, y)
    return between.T @ between, within.T @ within


def discriminant_factors(
    X: Float[Array, "n p"], y: Shaped[Array, " n"]
) -> tuple[Float[Array, "c p"], Float[Array, "n p"]]:
    """Return factors of `discriminant_pair`: class means, and rows about them."""
    values, codes, count = np.unique(y, return_inverse=True, return_counts=True)
    indicator = (codes == np.arange(len(values))[:, None]) / count[:, None]
    means = indicator @ complete(X)
    between = np.sqrt(count)[:, None] * (means - X.mean(axis=0))
    return between, X - means[codes]

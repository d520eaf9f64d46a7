"""Matrices A_i and B_i of known problems, which each silo forms from its own rows.

`GeneralizedEigen` takes these steps as its `pair`; the one-shot solvers of the other
estimators use the functions below them. As in the published algorithms, rows are
centred about the silo's own means. The sums over silos therefore differ from the pooled
matrices by the cross-products of the differences between the silos' means.

References
----------
Lv et al., One-Shot Distributed Generalized Eigenvalue Problem (DGEP), 2022, section
2.4.
"""

from typing import Any

import numpy as np

from unpooled.arrays import Array, Float, Shaped
from unpooled.errors import DataError
from unpooled.models.moments import about_own_mean, complete
from unpooled.protocol.step import kept, stays


@kept(
    by="party",
    A=stays("p p", until="fit", meaning="cross-products between the views"),
    B=stays("p p", until="fit", meaning="cross-products within each view"),
)
def local_canonical(X: Float[Array, "n p"], *, first: int) -> dict[str, Any]:
    """Keep the matrices of canonical correlations, the first columns being one view."""
    if not 0 < first < X.shape[1]:
        raise DataError("Both views need a column.", rule="arguments")
    Z = about_own_mean(X)
    S = Z.T @ Z
    B = S.copy()
    B[:first, first:] = B[first:, :first] = 0.0
    return {"A": S - B, "B": B}


@kept(
    by="party",
    A=stays(
        "p p",
        until="fit",
        meaning="between-class scatter matrix of the silo's own classes",
    ),
    B=stays(
        "p p", until="fit", meaning="within-class scatter matrix of the silo's classes"
    ),
)
def local_discriminant(
    X: Float[Array, "n p"], y: Shaped[Array, " n"]
) -> dict[str, Any]:
    """Keep the between-class and within-class scatter of the silo's own classes."""
    between, within = discriminant_factors(X, y)
    return {"A": between.T @ between, "B": within.T @ within}


@kept(
    by="party",
    A=stays(
        "p p", until="fit", meaning="the scatter of the silo's rows about their mean"
    ),
    B=stays("p p", until="fit", meaning="the identity"),
)
def local_principal(X: Float[Array, "n p"]) -> dict[str, Any]:
    """Keep the matrices of principal components."""
    Z = about_own_mean(X)
    return {"A": Z.T @ Z, "B": np.eye(X.shape[1])}


def discriminant_factors(
    X: Float[Array, "n p"], y: Shaped[Array, " n"]
) -> tuple[Float[Array, "c p"], Float[Array, "n p"]]:
    """Return the factors of the scatter between own classes, and within them.

    Returns
    -------
    between : (c, p) array
        Class means about the mean of all rows, times the roots of the class sizes.
    within : (n, p) array
        Rows about the means of their classes.
    """
    values, codes, count = np.unique(y, return_inverse=True, return_counts=True)
    indicator = (codes == np.arange(len(values))[:, None]) / count[:, None]
    means = indicator @ complete(X)
    between = np.sqrt(count)[:, None] * (means - X.sum(axis=0) / max(len(X), 1))
    return between, X - means[codes]

"""Correlation matrices: their inverse, and an order of columns by similarity."""

import numpy as np
import scipy
from scipy.spatial.distance import squareform

from unpooled.arrays import Array, Float, Int
from unpooled.linalg.eigen import leading_eigenpairs
from unpooled.linalg.settled import product

# Below this share of the largest eigenvalue a direction counts as collinear: sums have
# twelve digits.
_COLLINEAR = 1e-11


def inverse_correlations(R: Float[Array, "p p"]) -> Float[Array, "p p"] | None:
    """Return the inverse of a correlation matrix, or None where it is singular.

    It is singular where columns are constant (NaN) or collinear.
    """
    if not np.isfinite(R).all():
        return None
    values, V = leading_eigenpairs(R, len(R))
    if values[-1] <= _COLLINEAR * values[0]:
        return None
    return product(V / values, V.T)


def clustered_order(R: Float[Array, "p p"]) -> Int[Array, " p"]:
    """Return the columns in an order that puts correlated ones side by side.

    The order of the leaves of an average-linkage clustering with distances ``1 - |r|``,
    turned so that neighbours are as near as can be.
    """
    if len(R) < 3:
        return np.arange(len(R))
    distance = 1.0 - np.abs(np.nan_to_num(R))
    np.fill_diagonal(distance, 0.0)
    pairs = squareform((distance + distance.T) / 2, checks=False)
    tree = scipy.cluster.hierarchy.linkage(pairs, "average", optimal_ordering=True)
    return scipy.cluster.hierarchy.leaves_list(tree)

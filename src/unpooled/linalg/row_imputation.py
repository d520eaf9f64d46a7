"""Missing cells from the other cells of their row: by regressions, from moments alone.

    conditional means   x_M = m_M + S_MO S_OO⁺ (x_O - m_O), all cells of a row at once
    in turn             x_j = a_j + b_jᵀ x, one column after another, many times

O are the columns that a row has, M those it lacks; m and S are means and covariances.
"""

from collections.abc import Sequence

import numpy as np
import scipy.linalg

from unpooled.arrays import Array, Bool, Float
from unpooled.linalg.settled import Arrays, by_closeness, settled

# Eigenvalues of a correlation matrix below this share of the largest one count as 0. It
# is the square of scikit-learn's limit for singular values of rows.
_RANK = 1e-12


def conditional_means(
    X: Float[Array, "n p"],
    location: Float[Array, " p"],
    covariance: Float[Array, "p p"],
) -> Float[Array, "n p"]:
    """Return rows with each missing cell predicted from the observed cells of its row.

    Parameters
    ----------
    X : (n, p) array
        Missing cells are NaN.
    location : (p,) array
        Means of the columns.
    covariance : (p, p) array
        Their covariances, positive semidefinite; of collinear columns the predictions
        of minimum norm are taken, in units of standard deviations.
    """
    missing = np.isnan(X)
    if not missing.any():
        return X
    scale = _scale(covariance.diagonal())
    R, Z = covariance / scale / scale[:, None], (X - location) / scale
    for lacks, rows in _by_pattern(missing):
        has = ~lacks
        if not has.any():
            Z[rows] = 0.0
        elif lacks.any():
            B = _pseudo_inverse(R[np.ix_(has, has)]) @ R[np.ix_(has, lacks)]
            Z[np.ix_(rows, lacks)] = Z[np.ix_(rows, has)] @ B
    return np.where(missing, location + Z * scale, X)


def imputed_in_turn(
    X: Float[Array, "n p"],
    initial: Float[Array, " p"],
    targets: Sequence[int],
    coefficients: Float[Array, "s p"],
    intercepts: Float[Array, " s"],
) -> Float[Array, "n p"]:
    """Return rows whose missing cells were predicted by regressions, in their order.

    Parameters
    ----------
    X : (n, p) array
        Missing cells are NaN.
    initial : (p,) array
        What they are filled with before the first regression.
    targets : sequence of int
        The column that each regression predicts.
    coefficients : (s, p) array
        Coefficients of the other columns; 0 for the target itself.
    intercepts : (s,) array
        Intercepts of the regressions.
    """
    missing = np.isnan(X)
    filled = np.where(missing, initial, X)
    for j, b, a in zip(targets, coefficients, intercepts, strict=True):
        if (rows := missing[:, j]).any():
            filled[rows, j] = filled[rows] @ b + a
    return filled


def regression_on_others(S: Float[Array, "p p"], target: int) -> Float[Array, " p"]:
    """Return the coefficients of a column's regression on the others; 0 for itself.

    For collinear columns it is the solution of minimum norm, in the columns' own units,
    as of `numpy.linalg.lstsq`. All ends go on with the same bits.

    Parameters
    ----------
    S : (p, p) array
        Cross-products about the means, or covariances.
    target : int
        Place of the column.
    """
    others = np.arange(len(S)) != target
    scale = _scale(S.diagonal())
    R, r = (S / scale / scale[:, None])[others], scale[others]
    A, of_target = R[:, others], R[:, target]

    def solve() -> Arrays:
        values, V = scipy.linalg.eigh(A)
        large = values > _RANK * max(float(values.max(initial=0.0)), 0.0)
        b = (V[:, large] / values[large]) @ (V[:, large].T @ of_target) / r
        if not large.all():
            # Directions of the columns' own units in which nothing is predicted.
            null = np.linalg.qr(V[:, ~large] / r[:, None])[0]
            b = b - null @ (null.T @ b)
        return {"coefficients": b * r}

    found = settled("regression on other columns", solve, by_closeness)
    coefficients = np.zeros(len(S))
    coefficients[others] = found["coefficients"] / r * scale[target]
    return coefficients


def _scale(squares: Float[Array, " p"]) -> Float[Array, " p"]:
    """Return root mean squares, and 1 for a constant column."""
    return np.sqrt(np.where(squares > 0.0, squares, 1.0))


def _pseudo_inverse(A: Float[Array, "q q"]) -> Float[Array, "q q"]:
    values, V = scipy.linalg.eigh(A)
    large = values > _RANK * max(float(values.max(initial=0.0)), 0.0)
    return (V[:, large] / values[large]) @ V[:, large].T


def _by_pattern(
    missing: Bool[Array, "n p"],
) -> list[tuple[Bool[Array, " p"], Array]]:
    """Return each pattern of missing cells with the places of its rows."""
    packed = np.packbits(missing, axis=1)
    _, first, inverse = np.unique(
        packed, axis=0, return_index=True, return_inverse=True
    )
    order = np.argsort(inverse.ravel(), kind="stable")
    sizes = np.bincount(inverse.ravel())
    groups = np.split(order, np.cumsum(sizes)[:-1])
    return [(missing[place], rows) for place, rows in zip(first, groups, strict=True)]

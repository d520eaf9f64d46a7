"""Relations of columns and principal components: correlations and shares.

    correlation of column j and component i   r_ij = v_ij sqrt(λ_i) / s_j
    cos2, quality of representation           r_ij²
    contribution of column j to component i   v_ij²

v_i is a unit vector of loadings, λ_i the variance along it and s_j the standard
deviation of column j. Both have the denominator N - 1; r is the same with N. These are
``var$cor``, ``var$cos2`` and ``var$contrib`` (there in per cent) of FactoMineR's `PCA`.

References
----------
Abdi and Williams, Principal component analysis, WIREs Computational Statistics 2
(2010); Lê, Josse and Husson, FactoMineR: an R package for multivariate analysis,
Journal of Statistical Software 25 (2008); Jackson, Stopping rules in principal
components analysis, Ecology 74 (1993), for the broken stick.
"""

from typing import TYPE_CHECKING

import numpy as np

from unpooled.arrays import Array, Float

if TYPE_CHECKING:
    from unpooled.models.pca.pca import PCA

# A standard deviation below this share of the mean is rounding.
_ROUNDING = 64 * float(np.finfo(float).eps)
# An unexplained share below this counts as none.
_NOTHING = 1e-12


def column_variances(model: "PCA") -> Float[Array, " p"] | None:
    """Return the variances of the columns, denominator N - 1, where they are known.

    The solvers of row partitions know them. Elsewhere they follow from all components.
    With differential privacy none are returned: of two noisy numbers the ratio need
    not be a correlation.
    """
    # Not `hasattr`: silos would be asked for what they keep.
    fitted = vars(model)
    if "privacy_" in fitted or "components_" not in fitted:
        return None
    if "feature_variance_" in fitted:
        variance = model.feature_variance_
    elif explains_everything(model):
        variance = model.explained_variance_ @ model.components_**2
    else:
        return None
    constant = variance <= (_ROUNDING * model.mean_) ** 2
    return np.where(constant, 0.0, variance)


def explains_everything(model: "PCA") -> bool:
    """Return whether the components explain all variance, and determine covariances."""
    return bool(np.sum(model.explained_variance_ratio_) >= 1 - _NOTHING)


def correlations(
    components: Float[Array, "k p"],
    variance: Float[Array, " k"],
    column_variance: Float[Array, " p"],
) -> Float[Array, "k p"]:
    """Return the correlation of each component's scores with each column.

    NaN where a column is constant.
    """
    spread = np.sqrt(np.where(column_variance > 0, column_variance, np.nan))
    return np.clip(components * np.sqrt(variance)[:, None] / spread, -1.0, 1.0)


def covariances(model: "PCA") -> Float[Array, "p p"]:
    """Return the covariance matrix of the columns, of a model with all components."""
    V = model.components_
    return (V.T * model.explained_variance_) @ V


def broken_stick(n: int) -> Float[Array, " n"]:
    """Return the shares expected when a total is broken into n parts at random.

    A stick broken at n - 1 places drawn uniformly has pieces whose expected lengths,
    the longest first, are ``(1/n) Σ_{j=i}^{n} 1/j`` of the whole. A component whose
    share is larger than the expected share of its rank explains more than chance would.
    """
    return np.cumsum(1.0 / np.arange(n, 0, -1))[::-1] / n

"""Partial least squares of two views that silos have of their rows.

    three rounds of moments ──> S_xx, S_xy, S_yy
    PLSSVD         S_xy = U diag(s) Vᵀ
    PLSCanonical   the leading pair of S_xy, again and again, after each deflating S_xy
    PLSRegression  by what the pair's scores explain

What is deflated are covariances, never rows: `unpooled.linalg.latent`.

References
----------
Wegelin, A survey of partial least squares (PLS) methods, 2000.
Lv et al., One-Shot Distributed Generalized Eigenvalue Problem (DGEP), 2022, section
2.4.
"""

from typing import Any, final

import numpy as np
from sklearn.utils.validation import check_is_fitted

from unpooled.arrays import Array, Float
from unpooled.federation.base import Federation
from unpooled.linalg.latent import leading_singular_pairs, partial_least_squares
from unpooled.models import moments
from unpooled.models.base import FederatedEstimator
from unpooled.models.twoviews import Predicting, Steps, TwoViews, component_count
from unpooled.party.step import adopted

local_total, local_squares, local_scatter = adopted(
    __name__, moments.local_total, moments.local_squares, moments.local_scatter
)
STEPS = Steps(local_total, local_squares, local_scatter)


@final
class PLSSVD(TwoViews, FederatedEstimator):
    """Singular vectors of the covariances between two views: the pooled answer.

    Parameters
    ----------
    n_components : int, default 2
        k, at most min(N, p, q).
    scale : bool, default True
        Divide columns by their deviations first.

    Attributes
    ----------
    x_weights_ : (p, k) array
        Left singular vectors, by decreasing covariance of the scores; in each the
        entry of largest magnitude is positive.
    y_weights_ : (q, k) array
        Right singular vectors.
    x_mean_ : (p,) array
        Means of the first view's columns.
    x_std_ : (p,) array
        What they are divided by.
    y_mean_ : (q,) array
        Means of the second view's columns.
    y_std_ : (q,) array
        What they are divided by.
    x_columns_ : list of str
        Names of the first view's columns.
    y_columns_ : list of str
        Names of the second view's columns.
    n_samples_ : int
        N, the rows of all silos.
    n_features_in_ : int
        p, columns of the first view.
    feature_names_in_ : (p,) array of str
        Their names, where the silos' tables have names.

    Raises
    ------
    DataError
        Missing values, fewer than two rows, or `n_components` beyond its bound.

    Notes
    -----
    Released, as totals only: the number of rows; column sums; squared distances from
    the means; products of every two columns' distances, of both views. Never released:
    a row, a score, or any silo's own moments.

    See Also
    --------
    sklearn.cross_decomposition.PLSSVD : its twin on pooled rows.
    """

    x_weights_: Float[Array, "p k"]
    y_weights_: Float[Array, "q k"]

    def __init__(self, n_components: int = 2, *, scale: bool = True) -> None:
        self.n_components = n_components
        self.scale = scale

    def _fit(self, federation: Federation, y: Any) -> None:
        S = self._moments(federation, y, STEPS, scale=self.scale)
        k = component_count(self.n_components, min(self.n_samples_, *S.xy.shape))
        U, V = leading_singular_pairs(S.xy, k)
        self.x_weights_, self.y_weights_ = map(np.ascontiguousarray, (U, V))

    def _rotations(self) -> tuple[Array, Array]:
        return self.x_weights_, self.y_weights_

    def to_sklearn(self) -> Any:
        """Return a fitted `sklearn.cross_decomposition.PLSSVD`."""
        import sklearn.cross_decomposition

        check_is_fitted(self)
        twin = sklearn.cross_decomposition.PLSSVD(self.n_components, scale=self.scale)
        return self._taught_twin(self._taught(twin))


@final
class PLSCanonical(Predicting, FederatedEstimator):
    """Canonical partial least squares over a federation: the pooled answer.

    Parameters
    ----------
    n_components : int, default 2
        k, at most min(N, p, q).
    scale : bool, default True
        Divide columns by their deviations first.

    Attributes
    ----------
    x_weights_ : (p, k) array
        Unit vectors whose scores of the deflated first view covary most with the
        second's; in each the entry of largest magnitude is positive.
    y_weights_ : (q, k) array
        Their partners.
    x_loadings_ : (p, k) array
        Slopes of the deflated first view's columns on its scores.
    y_loadings_ : (q, k) array
        Of the second view's columns, on the scores that deflate them.
    x_rotations_ : (p, k) array
        ``x_scores = (X - x_mean_) / x_std_ @ x_rotations_``.
    y_rotations_ : (q, k) array
        The same of the second view.
    coef_ : (q, p) array
        ``predict`` is ``(X - x_mean_) @ coef_.T + intercept_``.
    intercept_ : (q,) array
        The means of the second view.
    x_mean_ : (p,) array
        Means of the first view's columns.
    x_std_ : (p,) array
        What they are divided by.
    y_mean_ : (q,) array
        Means of the second view's columns.
    y_std_ : (q,) array
        What they are divided by.
    x_columns_ : list of str
        Names of the first view's columns.
    y_columns_ : list of str
        Names of the second view's columns.
    n_samples_ : int
        N, the rows of all silos.
    n_features_in_ : int
        p, columns of the first view.
    feature_names_in_ : (p,) array of str
        Their names, where the silos' tables have names.

    Raises
    ------
    DataError
        Missing values, fewer than two rows, or `n_components` beyond its bound.

    Notes
    -----
    Released, as totals only: the number of rows; column sums; squared distances from
    the means; products of every two columns' distances, of both views. Never released:
    a row, a score, or any silo's own moments.

    See Also
    --------
    sklearn.cross_decomposition.PLSCanonical : its twin on pooled rows; with
        ``algorithm="svd"`` it iterates as little as we do.
    """

    def __init__(self, n_components: int = 2, *, scale: bool = True) -> None:
        self.n_components = n_components
        self.scale = scale

    def _fit(self, federation: Federation, y: Any) -> None:
        S = self._moments(federation, y, STEPS, scale=self.scale)
        k = component_count(self.n_components, min(self.n_samples_, *S.xy.shape))
        self._learn(partial_least_squares(S, k, regression=False))

    def to_sklearn(self) -> Any:
        """Return a fitted `sklearn.cross_decomposition.PLSCanonical`."""
        import sklearn.cross_decomposition

        check_is_fitted(self)
        kind = sklearn.cross_decomposition.PLSCanonical
        twin = kind(self.n_components, scale=self.scale)
        return self._taught_twin(self._taught(twin))


@final
class PLSRegression(Predicting, FederatedEstimator):
    """Partial least squares regression over a federation: the pooled answer.

    Parameters
    ----------
    n_components : int, default 2
        k, at most min(N, p).
    scale : bool, default True
        Divide columns by their deviations first.

    Attributes
    ----------
    x_weights_ : (p, k) array
        Unit vectors whose scores of the deflated first view covary most with the
        second's; in each the entry of largest magnitude is positive.
    y_weights_ : (q, k) array
        Their partners.
    x_loadings_ : (p, k) array
        Slopes of the deflated first view's columns on its scores.
    y_loadings_ : (q, k) array
        Of the second view's columns, on the scores that deflate them.
    x_rotations_ : (p, k) array
        ``x_scores = (X - x_mean_) / x_std_ @ x_rotations_``.
    y_rotations_ : (q, k) array
        The same of the second view.
    coef_ : (q, p) array
        ``predict`` is ``(X - x_mean_) @ coef_.T + intercept_``.
    intercept_ : (q,) array
        The means of the second view.
    x_mean_ : (p,) array
        Means of the first view's columns.
    x_std_ : (p,) array
        What they are divided by.
    y_mean_ : (q,) array
        Means of the second view's columns.
    y_std_ : (q,) array
        What they are divided by.
    x_columns_ : list of str
        Names of the first view's columns.
    y_columns_ : list of str
        Names of the second view's columns.
    n_samples_ : int
        N, the rows of all silos.
    n_features_in_ : int
        p, columns of the first view.
    feature_names_in_ : (p,) array of str
        Their names, where the silos' tables have names.

    Raises
    ------
    DataError
        Missing values, fewer than two rows, or `n_components` beyond its bound.

    Notes
    -----
    Released, as totals only: the number of rows; column sums; squared distances from
    the means; products of every two columns' distances, of both views. Never released:
    a row, a score, or any silo's own moments.

    See Also
    --------
    sklearn.cross_decomposition.PLSRegression : its twin on pooled rows, which finds
        each pair by power iterations and stops at `tol`.
    """

    def __init__(self, n_components: int = 2, *, scale: bool = True) -> None:
        self.n_components = n_components
        self.scale = scale

    def _fit(self, federation: Federation, y: Any) -> None:
        S = self._moments(federation, y, STEPS, scale=self.scale)
        k = component_count(self.n_components, min(self.n_samples_, len(S.xx)))
        self._learn(partial_least_squares(S, k, regression=True))

    def to_sklearn(self) -> Any:
        """Return a fitted `sklearn.cross_decomposition.PLSRegression`."""
        import sklearn.cross_decomposition

        check_is_fitted(self)
        kind = sklearn.cross_decomposition.PLSRegression
        twin = kind(self.n_components, scale=self.scale)
        return self._taught_twin(self._taught(twin))

"""Partial least squares regression of one view of the rows on another.

    three rounds of moments ──> S_xx, S_xy, S_yy
    the leading pair of S_xy, again and again, after each deflating S_xx and S_xy by
    what the pair's score of the first view explains

What is deflated are covariances, never rows: `unpooled.linalg.latent`.

References
----------
Wegelin, A survey of partial least squares (PLS) methods, 2000, section 4.1.
"""

from typing import Any, final

from unpooled.federation.base import Federation
from unpooled.linalg.latent import partial_least_squares
from unpooled.models import moments
from unpooled.models.base import FederatedEstimator
from unpooled.models.twoviews import Predicting, Steps, component_count
from unpooled.party.step import adopted

local_total, local_squares, local_scatter = adopted(
    __name__, moments.local_total, moments.local_squares, moments.local_scatter
)
STEPS = Steps(local_total, local_squares, local_scatter)


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
    score_correlations_ : (k,) array
        Correlations of the pairs of scores.
    x_correlations_ : (p, k) array
        Correlations of the first view's columns with its scores.
    y_correlations_ : (q, k) array
        Correlations of the second view's columns with its scores.
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
        self._correlate(S)

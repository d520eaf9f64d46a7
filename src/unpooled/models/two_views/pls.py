"""Partial least squares of two views of the same rows.

    three rounds of moments ──> S_xx, S_xy, S_yy
    PLSSVD         S_xy = U diag(s) Vᵀ
    PLSCanonical   the leading pair of S_xy, again and again, after each deflating S_xy

What is deflated are covariances, never rows: `unpooled.linalg.partial_least_squares`.
On a column partition each party is a view: `unpooled.models.two_views.pls_columns`.

References
----------
Wegelin, A survey of partial least squares (PLS) methods, 2000.
Lv et al., One-Shot Distributed Generalized Eigenvalue Problem (DGEP), 2022, section
2.4.
"""

from typing import Any, final

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.federation.federation import Federation
from unpooled.linalg.partial_least_squares import (
    leading_singular_pairs,
    partial_least_squares,
)
from unpooled.models import moments
from unpooled.models.base import FederatedEstimator
from unpooled.models.parameter_checks import component_count
from unpooled.models.two_views import base as twoviews
from unpooled.models.two_views import pls_columns
from unpooled.models.two_views.base import Predicting, TwoViews
from unpooled.models.two_views.pls_columns import ColumnSteps, fit_columns
from unpooled.protocol.step import adopted

own_basis, local_image, local_pairs, shown_scores = adopted(
    __name__,
    pls_columns.own_basis,
    pls_columns.local_image,
    pls_columns.local_pairs,
    twoviews.shown_scores,
)
COLUMNS = ColumnSteps(own_basis, local_image, local_pairs)


class PartialLeastSquares(TwoViews):
    """Partial least squares of two views, whose solvers differ; see `PLSSVD`."""

    _partitions = ("rows", "columns")
    _steps = (moments.local_total, moments.local_squares, moments.local_scatter)

    def __init__(
        self,
        n_components: int = 2,
        *,
        scale: bool = True,
        solver: str = "auto",
        tol: float = 1e-9,
        max_iter: int = 100,
        scores: str | None = "coordinator",
        random_state: int | None = None,
    ) -> None:
        self.n_components = n_components
        self.scale = scale
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.scores = scores
        self.random_state = random_state


@final
class PLSSVD(PartialLeastSquares, FederatedEstimator):
    """Singular vectors of the covariances between two views: the pooled answer.

    Parameters
    ----------
    n_components : int, default 2
        k, at most min(N, p, q).
    scale : bool, default True
        Divide columns by their deviations first.
    solver : {"auto", "direct", "krylov"}, default "auto"
        Column partitions only: the parties show each other their rows along as many
        directions as there are, at once, or along a few, round by round; "auto" takes
        what sends fewer bytes. Both give the same answer.
    tol : float, default 1e-9
        Column partitions only: largest sine of the angle between weights and what they
        tend to, by residuals and the gap to neighbouring covariances.
    max_iter : int, default 100
        Column partitions only: most rounds of directions.
    scores : {"coordinator"} or None, default "coordinator"
        Column partitions only: who may have the scores that `transform` gives.
    random_state : int, optional
        Column partitions only: seed of the first directions of "krylov".

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
    score_correlations_ : (k,) array
        Correlations of the pairs of scores.
    x_correlations_ : (p, k) array
        Correlations of the first view's columns with its scores.
    y_correlations_ : (q, k) array
        Correlations of the second view's columns with its scores.
    n_iter_ : int
        Only on a column partition: rounds of directions.
    n_samples_ : int
        N, the rows of all silos.
    n_features_in_ : int
        p, columns of the first view.
    feature_names_in_ : (p,) array of str
        Their names, where the silos' tables have names.

    Raises
    ------
    DataError
        Missing values, fewer than two rows, `n_components` beyond its bound, or other
        than two parties with columns of their own.
    ConvergenceError
        On a column partition, when rounds were not enough for `tol`.

    Notes
    -----
    Released, as totals only: the number of rows; column sums; squared distances from
    the means; products of every two columns' distances, of both views. Never released:
    a row, a score, or any silo's own moments.

    On a column partition the totals are about people: rows along directions of the
    parties' columns, which the two parties alone open. Each can take its own part off,
    so each learns the other's. The coordinator sees how large errors are, and the
    correlations of the scores; `transform` then shows scores, party by party. Each
    party keeps its weights, and of the attributes above there are only the correlations
    of the scores, the names of columns and numbers of rows. Signs: in the sum of both
    parties' scores, each at unit length, the entry of largest magnitude is positive.

    See Also
    --------
    sklearn.cross_decomposition.PLSSVD : its twin on pooled rows.
    """

    x_weights_: Float[Array, "p k"]
    y_weights_: Float[Array, "q k"]

    _shown = shown_scores

    def _fit(self, federation: Federation, y: Any) -> None:
        if federation.partition == "columns":
            return fit_columns(self, federation, COLUMNS, deflated=())
        S = self._moments(federation, y, scale=self.scale)
        k = component_count(self.n_components, min(self.n_samples_, *S.xy.shape))
        U, V = leading_singular_pairs(S.xy, k)
        self.x_weights_, self.y_weights_ = map(np.ascontiguousarray, (U, V))
        self._correlate(S)

    def _rotations(self) -> tuple[Array, Array]:
        return self.x_weights_, self.y_weights_


@final
class PLSCanonical(PartialLeastSquares, Predicting, FederatedEstimator):
    """Canonical partial least squares over a federation: the pooled answer.

    Parameters
    ----------
    n_components : int, default 2
        k, at most min(N, p, q).
    scale : bool, default True
        Divide columns by their deviations first.
    solver : {"auto", "direct", "krylov"}, default "auto"
        Column partitions only: how directions are found, as of `PLSSVD`.
    tol : float, default 1e-9
        Column partitions only: how exact weights are, as of `PLSSVD`.
    max_iter : int, default 100
        Column partitions only: most rounds of directions.
    scores : {"coordinator"} or None, default "coordinator"
        Column partitions only: who may have the scores that `transform` gives.
    random_state : int, optional
        Column partitions only: seed of the first directions of "krylov".

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
    n_iter_ : int
        Only on a column partition: rounds of directions.
    n_samples_ : int
        N, the rows of all silos.
    n_features_in_ : int
        p, columns of the first view.
    feature_names_in_ : (p,) array of str
        Their names, where the silos' tables have names.

    Raises
    ------
    DataError
        Missing values, fewer than two rows, `n_components` beyond its bound, or other
        than two parties with columns of their own.
    ConvergenceError
        On a column partition, when rounds were not enough for `tol`.

    Notes
    -----
    Released, as totals only: the number of rows; column sums; squared distances from
    the means; products of every two columns' distances, of both views. Never released:
    a row, a score, or any silo's own moments.

    On a column partition the totals are about people. Who learns what of them, which
    attributes there are, and signs, are as with `PLSSVD`.

    See Also
    --------
    sklearn.cross_decomposition.PLSCanonical : its twin on pooled rows; with
        ``algorithm="svd"`` it iterates as little as we do.
    """

    _shown = shown_scores

    def _fit(self, federation: Federation, y: Any) -> None:
        if federation.partition == "columns":
            both = federation.parties
            return fit_columns(self, federation, COLUMNS, deflated=both)
        S = self._moments(federation, y, scale=self.scale)
        k = component_count(self.n_components, min(self.n_samples_, *S.xy.shape))
        self._learn(partial_least_squares(S, k, regression=False))
        self._correlate(S)

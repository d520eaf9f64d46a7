"""Partial least squares regression of one view of the rows on another.

    three rounds of moments ──> S_xx, S_xy, S_yy
    the leading pair of S_xy, again and again, after each deflating S_xx and S_xy by
    what the pair's score of the first view explains

What is deflated are covariances, never rows: `unpooled.linalg.partial_least_squares`.
On a column partition each party is a view:
`unpooled.models.two_views.pls_regression_columns`.

References
----------
Wegelin, A survey of partial least squares (PLS) methods, 2000, section 4.1.
"""

from typing import Any, final

from unpooled.federation.federation import Federation
from unpooled.linalg.partial_least_squares import partial_least_squares
from unpooled.models.base import FederatedEstimator
from unpooled.models.parameter_checks import component_count
from unpooled.models.two_views import base as twoviews
from unpooled.models.two_views import pls_columns, pls_regression_columns
from unpooled.models.two_views.base import Predicting
from unpooled.models.two_views.pls import PartialLeastSquares
from unpooled.models.two_views.pls_columns import ColumnSteps as PartySteps
from unpooled.models.two_views.pls_regression_columns import (
    ColumnSteps,
    fit_columns,
    gather,
    of_party,
    predicted,
)
from unpooled.protocol.step import adopted

own_basis, local_image, local_pairs, shown_scores = adopted(
    __name__,
    pls_columns.own_basis,
    pls_columns.local_image,
    pls_columns.local_pairs,
    twoviews.shown_scores,
)
local_length, local_slopes, local_scores = adopted(
    __name__,
    pls_regression_columns.local_length,
    pls_regression_columns.local_slopes,
    pls_regression_columns.local_scores,
)
own_predictions, shown_predictions, shown_model = adopted(
    __name__,
    pls_regression_columns.own_predictions,
    pls_regression_columns.shown_predictions,
    pls_regression_columns.shown_model,
)
COLUMNS = ColumnSteps(
    PartySteps(own_basis, local_image, local_pairs),
    local_length,
    local_slopes,
    local_scores,
    own_predictions,
    shown_predictions,
    shown_model,
)
_OF_VIEWS = ("weights", "loadings", "rotations", "mean", "std")


@final
class PLSRegression(PartialLeastSquares, Predicting, FederatedEstimator):
    """Partial least squares regression over a federation: the pooled answer.

    Parameters
    ----------
    n_components : int, default 2
        k, at most min(N, p).
    scale : bool, default True
        Divide columns by their deviations first.
    solver : {"auto", "direct", "krylov"}, default "auto"
        Column partitions only: how directions are found, as of `PLSSVD`.
    tol : float, default 1e-9
        Column partitions only: how exact weights are, as of `PLSSVD`.
    max_iter : int, default 100
        Column partitions only: most rounds of directions.
    scores : {"coordinator", "parties"} or None, default "coordinator"
        Column partitions only: who may have predictions beside the party whose columns
        they are, and the scores that `transform` gives: the coordinator; with "parties"
        no other has predictions; with None nobody predicts.
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
    x_party_ : str
        Only on a column partition: who predicts.
    y_party_ : str
        Only on a column partition: whose columns are predicted.
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

    On a column partition `y` of `fit` names the party whose columns are predicted, the
    second where it is left out. The totals are about people, and who learns what of
    them is as with `PLSSVD`. Each party keeps its weights and the slopes of its own
    columns. ``predict(federation)`` gives the second party the first's scores and keeps
    what they predict there; with ``scores="coordinator"`` it then shows it. The second
    party's own columns are not read for it. Asking for `coef_`, or any attribute about
    columns, asks both parties to disclose what they keep.

    See Also
    --------
    sklearn.cross_decomposition.PLSRegression : its twin on pooled rows, which finds
        each pair by power iterations and stops at `tol`.
    """

    _shown = shown_scores
    _kept_by_silos = (
        *(f"{side}_{name}_" for name in _OF_VIEWS for side in "xy"),
        "coef_",
        "intercept_",
    )

    def _fit(self, federation: Federation, y: Any) -> None:
        if federation.partition == "columns":
            return fit_columns(self, federation, COLUMNS, y)
        S = self._moments(federation, y, scale=self.scale)
        k = component_count(self.n_components, min(self.n_samples_, len(S.xx)))
        self._learn(partial_least_squares(S, k, regression=True))
        self._correlate(S)

    def _inputs(self, federation: Federation, y: Any) -> Federation:
        if federation.partition == "columns":
            return of_party(federation, self.x_party_)
        return super()._inputs(federation, y)

    def _gather(self, federation: Federation) -> None:
        gather(self, federation, COLUMNS)

    def predict(self, X: Any) -> Any:
        """Return the second view's columns as the first predicts them.

        Parameters
        ----------
        X : (n, p) array-like or Federation
            Rows of the first view. Of a federation by columns the party that has the
            second view gets the predictions.

        Returns
        -------
        (n, q) array, or None where that party alone has them
        """
        if isinstance(X, Federation) and hasattr(self, "kept_"):
            return predicted(self, X, COLUMNS)
        return super().predict(X)

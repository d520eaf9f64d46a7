"""Partial least squares of two views of the same rows.

    three rounds of moments ──> S_xx, S_xy, S_yy
    PLSSVD         S_xy = U diag(s) Vᵀ
    PLSCanonical   the leading singular pair of S_xy, k times; after each pair both
                   views are deflated by their own scores

Deflation acts on the covariances, never on rows: see
`unpooled.linalg.partial_least_squares`. On a column partition each party is a view, and
both models, as `PLSRegression`, are fitted by `unpooled.models.two_views.pls_columns`.

References
----------
Lv et al., One-Shot Distributed Generalized Eigenvalue Problem (DGEP), 2022, section
2.4.
"""

import abc
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal, final

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.federation.federation import Federation
from unpooled.linalg.canonical_correlation import Covariances
from unpooled.linalg.partial_least_squares import (
    leading_singular_pairs,
    partial_least_squares,
)
from unpooled.linalg.regression_fit import response_fit
from unpooled.models import moments
from unpooled.models.parameter_checks import check_choice, component_count
from unpooled.models.two_views import pls_columns
from unpooled.models.two_views.pls_columns import own_basis, paired_views, search_for
from unpooled.models.two_views.two_views import (
    Predicting,
    TwoViews,
    shown_scores,
    shown_structure,
)
from unpooled.models.two_views.two_views_results import pls_exhibits
from unpooled.results.citations import Citation

WEGELIN = (
    "Wegelin JA. A survey of partial least squares (PLS) methods, with emphasis on the "
    "two-block case. Technical report 371, University of Washington, 2000."
)


@dataclass(eq=False, repr=False)
class PartialLeastSquares(TwoViews):
    """Parameters of partial least squares, and the fit of two parties' columns.

    The models differ by which views they deflate: neither (`PLSSVD`), both
    (`PLSCanonical`), or the first (`PLSRegression`).
    """

    _estimates: ClassVar[Mapping[str, int | None]] = {
        "score_correlations_": None,
        "x_weights_": 1,
        "y_weights_": 1,
        "x_loadings_": 1,
        "y_loadings_": 1,
        "x_correlations_": 1,
        "y_correlations_": 1,
        "coef_": None,
        "intercept_": None,
        "vip_": None,
    }
    _steps = (
        moments.local_total,
        moments.local_squares,
        moments.local_scatter,
        pls_columns,
        shown_scores,
        shown_structure,
    )
    _exhibits = pls_exhibits
    # The views from which the scores of a pair are removed before the next one.
    _deflates: ClassVar[Literal["neither", "both", "first"]] = "neither"

    n_components: int = 2
    _: KW_ONLY
    scale: bool = True
    solver: str = "auto"
    tol: float = 1e-9
    max_iter: int = 100
    scores: str | None = "coordinator"
    random_state: int | None = None

    @property
    def _scaled(self) -> str:
        """Whether columns were standardised, as the end of a sentence."""
        return ", with standardised columns" if self.scale else ""

    def _fit(self, federation: Federation, y: Any) -> None:
        if federation.partition == "columns":
            self._fit_parties(federation, y)
            return
        both = self._pooled_means(federation, y)
        S = self._pooled_covariances(both, scale=bool(self.scale))
        # Where the second view is not deflated its columns do not limit k.
        sides = S.xy.shape[:1] if self._deflates == "first" else S.xy.shape
        most = min(self.n_samples_, *sides)
        self._solve(S, component_count(self.n_components, most))

    @abc.abstractmethod
    def _solve(self, S: Covariances, k: int) -> None:
        """Set k pairs of directions and what follows from them."""

    def _fit_parties(self, federation: Federation, y: Any) -> None:
        """Pair the columns of two parties, neither or both of which are deflated."""
        widths = map(len, federation.columns_of.values())
        most = min(int(federation.n_rows or 0), *widths)
        k = component_count(self.n_components, most)
        deflated = federation.parties if self._deflates == "both" else ()
        self._fit_columns(federation, k, deflated=deflated)

    def _fit_columns(
        self, federation: Federation, k: int, *, deflated: Sequence[str]
    ) -> None:
        """Pair the columns of two parties, which keep the weights.

        Parameters
        ----------
        federation : Federation
            A column partition.
        k : int
            Number of pairs.
        deflated : sequence of str
            The parties whose views are deflated.
        """
        check_choice("solver", self.solver, pls_columns.SOLVERS)
        search = search_for(
            type(self).__name__,
            federation,
            k,
            solver=self.solver,
            tol=self.tol,
            max_iter=self.max_iter,
            random_state=self.random_state,
        )
        federation.keep(
            own_basis, block=search.block, seed=search.seed, scaled=bool(self.scale)
        )
        self.score_correlations_, self.n_iter_ = paired_views(
            federation, search, k, deflated=deflated
        )
        self.n_samples_ = int(federation.n_rows or 0)
        columns = federation.columns_of
        self.x_columns_, self.y_columns_ = map(list, columns.values())
        self.x_party_, self.y_party_ = columns


@final
class PLSSVD(PartialLeastSquares):
    """Singular vectors of the covariances between two views: the pooled answer.

    Parameters
    ----------
    n_components : int, default 2
        k, at most min(N, p, q).
    scale : bool, default True
        Divide columns by their standard deviations first.
    solver : {"auto", "direct", "krylov"}, default "auto"
        Column partitions only: the parties send each other the coordinates of their
        rows along all directions at once ("direct"), or along a few new directions in
        each of several rounds ("krylov"); "auto" chooses the one that sends fewer
        bytes. Both give the same answer.
    tol : float, default 1e-9
        Column partitions only: largest sine of the angle between weights and their
        limits, bounded by residuals and the gap to neighbouring covariances.
    max_iter : int, default 100
        Column partitions only: maximum number of rounds of directions.
    scores : {"coordinator"} or None, default "coordinator"
        Column partitions only: who receives the scores that `transform` returns; with
        None nobody does.
    random_state : int, optional
        Column partitions only: seed of the first directions of "krylov"; None takes
        the federation's.

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
        What these columns are divided by after centring: with `scale` their standard
        deviations (denominator N - 1), else 1.
    y_mean_ : (q,) array
        Means of the second view's columns.
    y_std_ : (q,) array
        What these columns are divided by after centring: with `scale` their standard
        deviations (denominator N - 1), else 1.
    x_columns_ : list of str
        Names of the first view's columns.
    y_columns_ : list of str
        Names of the second view's columns.
    score_correlations_ : (k,) array
        Correlation of the scores of each pair, in the order of the pairs.
    x_correlations_ : (p, k) array
        Correlations of the first view's columns with its scores.
    y_correlations_ : (q, k) array
        Correlations of the second view's columns with its scores.
    x_cross_correlations_ : (p, k) array
        Correlations of the first view's columns with the second view's scores.
    y_cross_correlations_ : (q, k) array
        Correlations of the second view's columns with the first view's scores.
    n_iter_ : int
        Only on a column partition: number of rounds of directions.
    x_party_ : str
        Only on a column partition: the party of the first view.
    y_party_ : str
        Only on a column partition: the party of the second.
    n_samples_ : int
        N, the number of rows of all silos.
    kept_ : str
        Only on a column partition: study and view under which the silos keep their
        weights.
    n_features_in_ : int
        p, the number of columns of the first view.
    feature_names_in_ : (p,) array of str
        Their names, where the silos' tables have names.

    Raises
    ------
    DataError
        Missing values, fewer than two rows, `n_components` beyond its bound, or a
        column partition of more or fewer than two parties.
    ConvergenceError
        On a column partition, when `max_iter` rounds were not enough for `tol`.

    Notes
    -----
    Released, as totals only: the number of rows; the sum and the sum of squared
    deviations of each column of both views; their cross-product matrix about the means
    (products of every two columns' deviations, added over all rows). Never released: a
    row, a score, or any silo's own moments.

    On a column partition the totals are about people: coordinates of rows along
    directions of the parties' columns, which only the two parties open. Each party can
    subtract its own part, so each learns the other's. The coordinator receives the
    error bounds and the correlations of the scores; `transform` then discloses the
    scores of each party. The parties keep their weights: of the attributes above the
    model has only `score_correlations_`, `n_iter_`, the names of columns and the
    numbers of rows and columns; reading `x_correlations_` or `y_correlations_` asks
    both silos to disclose theirs. Signs: in the sum of both parties' scores, each
    scaled to unit length, the entry of largest magnitude is positive.

    See Also
    --------
    sklearn.cross_decomposition.PLSSVD : its twin on pooled rows.

    References
    ----------
    Wegelin, A survey of partial least squares (PLS) methods, 2000.
    """

    x_weights_: Float[Array, "p k"]
    y_weights_: Float[Array, "q k"]

    def _citation(self) -> Citation:
        return Citation(
            "The singular value decomposition of the cross-covariance matrix of the "
            f"two sets of columns was computed (partial least squares){self._scaled}.",
            (WEGELIN,),
        )

    def _solve(self, S: Covariances, k: int) -> None:
        U, V = leading_singular_pairs(S.xy, k)
        self.x_weights_, self.y_weights_ = map(np.ascontiguousarray, (U, V))
        self._set_correlations(S)

    def _rotations(self) -> tuple[Array, Array]:
        return self.x_weights_, self.y_weights_


@final
class PLSCanonical(PartialLeastSquares, Predicting):
    """Canonical partial least squares over a federation: the pooled answer.

    Parameters
    ----------
    n_components : int, default 2
        k, at most min(N, p, q).
    scale : bool, default True
        Divide columns by their standard deviations first.
    solver : {"auto", "direct", "krylov"}, default "auto"
        Column partitions only: how directions are found; see `PLSSVD`.
    tol : float, default 1e-9
        Column partitions only: largest error of the weights; see `PLSSVD`.
    max_iter : int, default 100
        Column partitions only: maximum number of rounds of directions.
    scores : {"coordinator"} or None, default "coordinator"
        Column partitions only: who receives the scores that `transform` returns; with
        None nobody does.
    random_state : int, optional
        Column partitions only: seed of the first directions of "krylov"; None takes
        the federation's.

    Attributes
    ----------
    x_weights_ : (p, k) array
        Unit vectors whose scores of the deflated first view have the largest
        covariance with the second view's; in each the entry of largest magnitude is
        positive.
    y_weights_ : (q, k) array
        Weights of the second view, paired with `x_weights_`.
    x_loadings_ : (p, k) array
        Slopes of the deflated first view's columns on its scores.
    y_loadings_ : (q, k) array
        Slopes of the second view's columns on the scores that deflate them.
    x_rotations_ : (p, k) array
        ``x_scores = (X - x_mean_) / x_std_ @ x_rotations_``.
    y_rotations_ : (q, k) array
        ``y_scores = (Y - y_mean_) / y_std_ @ y_rotations_``.
    coef_ : (q, p) array
        ``predict`` is ``(X - x_mean_) @ coef_.T + intercept_``.
    intercept_ : (q,) array
        The means of the second view.
    x_mean_ : (p,) array
        Means of the first view's columns.
    x_std_ : (p,) array
        What these columns are divided by after centring: with `scale` their standard
        deviations (denominator N - 1), else 1.
    y_mean_ : (q,) array
        Means of the second view's columns.
    y_std_ : (q,) array
        What these columns are divided by after centring: with `scale` their standard
        deviations (denominator N - 1), else 1.
    x_columns_ : list of str
        Names of the first view's columns.
    y_columns_ : list of str
        Names of the second view's columns.
    score_correlations_ : (k,) array
        Correlation of the scores of each pair, in the order of the pairs.
    x_correlations_ : (p, k) array
        Correlations of the first view's columns with its scores.
    y_correlations_ : (q, k) array
        Correlations of the second view's columns with its scores.
    x_cross_correlations_ : (p, k) array
        Correlations of the first view's columns with the second view's scores.
    y_cross_correlations_ : (q, k) array
        Correlations of the second view's columns with the first view's scores.
    r2_ : (q,) array
        Coefficient of determination of each column of the second view
        as predicted, on the rows of the fit; NaN for a constant column.
    rmse_ : (q,) array
        Root mean squared error of these predictions, with denominator N, in
        the units of the column.
    n_iter_ : int
        Only on a column partition: number of rounds of directions.
    x_party_ : str
        Only on a column partition: the party of the first view.
    y_party_ : str
        Only on a column partition: the party of the second.
    n_samples_ : int
        N, the number of rows of all silos.
    kept_ : str
        Only on a column partition: study and view under which the silos keep their
        weights.
    n_features_in_ : int
        p, the number of columns of the first view.
    feature_names_in_ : (p,) array of str
        Their names, where the silos' tables have names.

    Raises
    ------
    DataError
        Missing values, fewer than two rows, `n_components` beyond its bound, or a
        column partition of more or fewer than two parties.
    ConvergenceError
        On a column partition, when `max_iter` rounds were not enough for `tol`.

    Notes
    -----
    Released, as totals only: the number of rows; the sum and the sum of squared
    deviations of each column of both views; their cross-product matrix about the means
    (products of every two columns' deviations, added over all rows). Never released: a
    row, a score, or any silo's own moments.

    On a column partition the totals are about people. Who receives them, which
    attributes the model has, and the signs are as described for `PLSSVD`.

    See Also
    --------
    sklearn.cross_decomposition.PLSCanonical : its twin on pooled rows; with
        ``algorithm="svd"`` it does not iterate either.

    References
    ----------
    Wegelin, A survey of partial least squares (PLS) methods, 2000.
    """

    _deflates = "both"

    def _citation(self) -> Citation:
        return Citation(
            f"A canonical partial least squares analysis (PLS mode A) of the two sets "
            f"of columns was computed{self._scaled}.",
            (WEGELIN,),
        )

    def _solve(self, S: Covariances, k: int) -> None:
        self._set_latent(partial_least_squares(S, k, regression=False))
        self._set_correlations(S)
        self._set_fit(response_fit(S, self.x_rotations_, self.y_loadings_))

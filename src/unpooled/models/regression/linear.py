"""Linear regression over all silos, ordinary or ridge.

    round 1   silos ── N, column sums ─────────────────────────────> means
    round 2   silos <── means ── silos ── sums of squares ─────────> squares
    round 3   silos <── squares ── silos ── cross-products S ──────> S_xx, S_xy, S_yy
    solve     (S_xx + alpha I) coef = S_xy
    round 4   with cov_type "HC0" or "HC1": the products of each row's residual times
              its predictors, added

S is the cross-product matrix of predictors and response about their means; with
site_effects about each silo's own means, and in a last round each silo keeps its own
intercept (`site_effects.py`). Where parties have other columns of the same people, see
`linear_columns.py`.
"""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, final

import numpy as np
import scipy
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from unpooled.arrays import Array, Float
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.linalg.generalized_eigen import check_definite, solved
from unpooled.linalg.settled import Arrays, near, settled
from unpooled.models import moments
from unpooled.models.base import FederatedEstimator, check_federation, described
from unpooled.models.metrics.predictions import predicted_apart
from unpooled.models.metrics.regression import check_response, r2_score
from unpooled.models.moments import pooled_mean, pooled_scatter
from unpooled.models.parameter_checks import check_choice, is_number
from unpooled.models.regression import linear_columns
from unpooled.models.regression.clusters import check_clusters, score_products
from unpooled.models.regression.glm import (
    local_cluster_products,
    local_score_products,
)
from unpooled.models.regression.inference import (
    COVARIANCE_TYPES,
    Inference,
    unstandardised,
)
from unpooled.models.regression.regression_results import regression_exhibits
from unpooled.models.regression.response import (
    RegressionRoles,
    check_enough_rows,
    predicted_response,
)
from unpooled.models.regression.site_effects import (
    check_common_intercept,
    check_whole,
    columns_within,
    local_profile_cluster_products,
    local_profile_products,
    local_within_squares,
    own_intercept,
    predicted_in_silo,
)
from unpooled.results.citations import Citation

_MOMENTS = (moments.local_total, moments.local_squares, moments.local_scatter)
_BY_SILOS = local_within_squares, own_intercept, predicted_in_silo


class LeastSquares(RegressorMixin, FederatedEstimator):
    """A linear model of one response; the estimators choose the penalty.

    Attributes
    ----------
    coef_ : (p,) array
        Coefficients of the predictors, in the columns' units.
    intercept_ : float
        The intercept.
    predictors_ : list of str
        Names of the columns of `coef_`.
    response_ : str
        Name of the column that is predicted.
    """

    coef_: Float[Array, " p"]
    intercept_: float
    predictors_: list[str]
    response_: str

    _partitions = ("rows", "columns")
    _constant_response = True
    _computed = ("r2_", "rmse_", "r2_within_")
    _kept_by_silos = ("coef_",)
    _scored_by = ("r2", "neg_root_mean_squared_error")
    _scored_by_columns = (*_scored_by, "neg_mean_squared_error")
    _estimates: ClassVar[Mapping[str, int | None]] = {"coef_": None, "intercept_": None}
    _steps = (*_MOMENTS, predicted_response, *_BY_SILOS, linear_columns)
    _exhibits = regression_exhibits

    def _solve(
        self,
        federation: Federation,
        y: Any,
        alpha: float,
        *,
        site_effects: bool = False,
        clusters: str | None = None,
    ) -> tuple[Federation, "_Standardised"]:
        """Set coefficients and goodness of fit; three rounds."""
        if site_effects:
            check_whole(federation)
        roles = RegressionRoles.of(federation, y, clusters=clusters)
        view = federation.select(roles.columns)
        N, mean = pooled_mean(view)
        p = len(roles.predictors)
        own = len(view.parties) if site_effects else 1
        if alpha == 0.0:
            check_enough_rows(N, p, own)
        predictors = roles.predictors
        if site_effects:
            totals = view.sum(local_within_squares, mean=mean)
            S = view.sum(moments.local_scatter, squares=totals["squares"])["scatter"]
            total = float(totals["response"])
            predictors = columns_within(predictors)
        else:
            S = pooled_scatter(view, mean)
            total = float(S[-1, -1])
        if alpha == 0.0:
            check_definite(S[:-1, :-1], predictors)
        squares = np.maximum(S.diagonal(), 0.0)
        # With denominator N; of a constant column 1.
        scale = np.sqrt(np.where(squares > 0.0, squares / N, 1.0))
        R = S / scale / scale[:, None]
        # The penalty is on the coefficients of the columns as they are.
        penalty = alpha / scale[:-1] ** 2
        b = _solution(R[:-1, :-1] + np.diag(penalty), R[:-1, -1])
        unit = scale[-1]
        self.coef_ = b * unit / scale[:-1]
        if not site_effects:
            self.intercept_ = float(mean[-1] - np.add.reduce(mean[:-1] * self.coef_))
        explained = 2 * b @ R[:-1, -1] - b @ R[:-1, :-1] @ b
        residual = max(float(R[-1, -1] - explained), 0.0) * unit**2
        self.rmse_ = float(np.sqrt(residual / N))
        within = float(explained / R[-1, -1]) if R[-1, -1] > 0 else np.nan
        if site_effects:
            self.r2_within_ = within
            self.r2_ = 1.0 - residual / total if total > 0 else np.nan
        else:
            self.r2_ = within
        self.n_samples_ = N
        self.predictors_, self.response_ = roles.predictors, roles.response
        return view, _Standardised(
            N=N,
            mean=mean,
            scale=scale,
            R=R[:-1, :-1],
            b=b * unit,
            residual=residual,
            n_intercepts=own,
        )

    def _keep_intercepts(self, view: Federation, n_intercepts: int) -> None:
        """Have each silo keep its own intercept; the last round of `site_effects`."""
        self.n_intercepts_ = n_intercepts
        coef = self.coef_[None].copy()
        view.keep(own_intercept, coef=coef, family="gaussian", offset=False)
        self.kept_ = view.kept_here

    def _solve_by_parties(
        self, federation: Federation, y: Any, alpha: float, *, robust: bool = False
    ) -> linear_columns.OpenedTotals:
        """Set what the coordinator learns of a column partition; three rounds."""
        check_choice("scores", self.get_params()["scores"], linear_columns.SCORES)
        if self.get_params()["site_effects"]:
            raise DataError(
                "On a column partition all silos have the same people, so that no silo "
                "has an intercept of its own: leave out site_effects."
            )
        roles = RegressionRoles.of(federation, y)
        found = linear_columns.fitted_by_parties(
            federation, roles, alpha=alpha, robust=robust
        )
        self.intercept_, self.r2_ = found.intercept, found.r2
        self.rmse_ = float(np.sqrt(found.residual / found.N))
        self.n_samples_ = found.N
        self.predictors_, self.response_ = roles.predictors, roles.response
        return found

    def _inputs(self, federation: Federation, y: Any) -> Federation:
        if federation.partition == "columns":
            return described(federation, self.predictors_)
        clusters = self.get_params().get("clusters")
        roles = RegressionRoles.of(federation, y, clusters=clusters)
        return federation.select(roles.predictors)

    def predict(self, X: Any) -> Any:
        """Return the response as predicted for rows.

        Parameters
        ----------
        X : (n, p) array-like or Federation
            Predictors. A federation gives a view of the predictions, and of the
            response where it has it, for `unpooled.metrics`; nothing leaves a silo.

        Returns
        -------
        (n,) array or Federation
            On a column partition an array, or with ``scores="parties"`` a federation,
            for `unpooled.metrics`: then each silo keeps the predictions.
        """
        check_is_fitted(self)
        kept_of = vars(self).get("kept_", "")
        if isinstance(X, Federation):
            view = check_federation(self, X)
            if view.partition == "columns":
                to = self.get_params()["scores"]
                found = linear_columns.predicted_by_parties(
                    self, view, to=to, kept_of=kept_of
                )
                return predicted_apart(self, view) if to == "parties" else found
            return self._roles.predictions(self, view, "gaussian", kept_of=kept_of)
        check_common_intercept(self)
        return self._check_rows(X) @ self.coef_ + self.intercept_

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return R² of the predictions.

        Parameters
        ----------
        X : (n, p) array-like or Federation
            Rows.
        y : (n,) array-like, or str
            Their responses; with a federation, the name of the column or nothing.
        sample_weight : (n,) array-like, optional
            Weights of the rows of an array; a federation has none.

        Notes
        -----
        On a federation it releases what `unpooled.metrics.r2_score` releases. On a
        column partition the silos alone open the predictions, also where `predict`
        sends them to the coordinator, which receives R².
        """
        if not isinstance(X, Federation):
            return float(super().score(X, y, sample_weight))
        if sample_weight is not None:
            raise DataError("The rows of a federation have no weights.")
        y = self.response_ if y is None else y
        if X.partition == "columns":
            with X.calling(self, "score", y=y):
                return self.score_apart(X, "r2_score", y)
        return float(r2_score(y, self.predict(X)))

    def score_apart(self, view: Federation, metric: str, y_true: Any) -> float:
        """Return a score on a column partition, in the session that is open.

        Parameters
        ----------
        view : Federation
            On a column partition, with the predictors and the response.
        metric : {"r2_score", "root_mean_squared_error"}
            Name of the score.
        y_true : str or sequence of str
            The response.

        Raises
        ------
        DataError
            Where `y_true` is not the response, or nobody may predict.
        """
        check_is_fitted(self)
        view = check_federation(self, view)
        check_response(y_true, self.response_)
        if self.get_params()["scores"] is None:
            raise DataError('scores=None: nobody may predict; choose "parties".')
        return linear_columns.scored_by_parties(self, view, metric, kept_of=self.kept_)

    def _measure(
        self,
        federation: Federation,
        *,
        metric: str,
        predicts: str,
        arguments: Mapping[str, Any],
    ) -> Any:
        if federation.partition == "columns":
            return self.score_apart(federation, metric, arguments["y_true"])
        return super()._measure(
            federation, metric=metric, predicts=predicts, arguments=arguments
        )

    def _gather(self, federation: Federation) -> None:
        coef, errors = linear_columns.shown_by_parties(
            federation, self.response_, kept_of=self.kept_
        )
        self.coef_ = coef
        if isinstance(self, LinearRegression):
            factor = self._error_factor(self.n_samples_, len(coef) + 1)
            self.coef_se_ = errors * np.sqrt(factor)

    @property
    def _roles(self) -> RegressionRoles:
        return RegressionRoles(list(self.predictors_), None, self.response_)


@final
@dataclass(frozen=True, eq=False)
class _Standardised:
    """A solved problem of standardised predictors.

    Attributes
    ----------
    N : int
        Sample size.
    mean, scale : (p + 1,) arrays
        Means and scales of predictors and response.
    R : (p, p) array
        Cross-products of standardised predictors.
    b : (p,) array
        Their coefficients, in units of the response.
    residual : float
        Sum of squared residuals.
    n_intercepts : int
        One, or one of each silo's own.
    """

    N: int
    mean: Float[Array, " l"]
    scale: Float[Array, " l"]
    R: Float[Array, "p p"]
    b: Float[Array, " p"]
    residual: float
    n_intercepts: int

    @property
    def information(self) -> Float[Array, "m m"]:
        """Cross-products of the intercept's column of ones and the predictors."""
        p = len(self.b)
        whole = np.zeros((p + 1, p + 1))
        whole[0, 0], whole[1:, 1:] = self.N, self.R
        return whole


def _solution(A: Float[Array, "p p"], r: Float[Array, " p"]) -> Float[Array, " p"]:
    """Return ``A⁻¹ r``, which all ends go on with."""
    unit = np.sqrt(A.diagonal())
    A, r = A / unit / unit[:, None], r / unit

    def solve() -> Arrays:
        return {"solution": scipy.linalg.solve(A, r, assume_a="pos")}

    def accept(found: Arrays, own: Arrays) -> bool:
        size = float(np.abs(own["solution"]).max(initial=0.0))
        return near(A @ found["solution"], r, size + np.abs(r).max(), len(A))

    return settled("least squares", solve, accept)["solution"] / unit


@final
@dataclass(eq=False, repr=False)
class LinearRegression(LeastSquares, Inference):
    """Ordinary least squares over a federation: the pooled answer.

    Parameters
    ----------
    cov_type : {"nonrobust", "HC0", "HC1", "cluster"}, default "nonrobust"
        How standard errors are estimated: for equal variances of the errors, or robust
        against unequal ones; "HC1" with N / (N - k). "cluster": robust against rows of
        a cluster that resemble each other; not on a column partition.
    clusters : str, optional
        With "cluster": name of a column that numbers the clusters inside each silo,
        such as wards or persons; it is no predictor. None: each silo is a cluster.
    site_effects : bool, default False
        Whether each silo has an intercept of its own, which it keeps. The coefficients
        are then those of a fit of the pooled rows with an indicator column for each
        silo ("fixed effects", "within estimator").
    scores : {"coordinator", "parties"} or None, default "coordinator"
        Column partitions only: who receives the predictions that `predict` returns.

    Attributes
    ----------
    coef_ : (p,) array
        Coefficients of the predictors, in the columns' units.
    intercept_ : float
        Only without `site_effects`: the intercept.
    coef_se_ : (p,) array
        Standard errors of the coefficients.
    intercept_se_ : float
        Only without `site_effects`: standard error of the intercept.
    n_intercepts_ : int
        Only with `site_effects`: m, the number of silos.
    statistics_ : (p,) array
        ``coef_ / coef_se_``.
    p_values_, intercept_p_value_ : (p,) array, float
        Two-sided, by Student's t distribution with `dof_` degrees of freedom.
    covariance_ : (p + 1, p + 1) array
        Only on a row partition: covariance matrix of the intercept and the
        coefficients, in this order; with `site_effects` (p, p), of the coefficients.
    dof_ : float
        N - k, where k is the number of predictors and intercepts; with "cluster" G - 1.
    n_clusters_ : int
        Only with "cluster": G, the number of clusters.
    sigma_ : float
        Residual standard deviation, with denominator N - k.
    r2_, adjusted_r2_ : float
        Coefficient of determination on the rows of the fit; with degrees of freedom.
    r2_within_ : float
        Only with `site_effects`: share of the sum of squares within silos that the
        predictors explain.
    rmse_ : float
        Root mean squared residual, with denominator N.
    f_statistic_, f_p_value_ : float
        Test that all coefficients are 0 (Wald's, by the covariance matrix), with p and
        `dof_` degrees of freedom. Intercepts are not tested.
    deviance_ : float
        The sum of squared residuals.
    log_likelihood_ : float
        Log-likelihood of normal errors, at the most likely variance.
    aic_, bic_ : float
        ``2 k - 2 log_likelihood_`` and ``k log N - 2 log_likelihood_``.
    kept_ : str
        Only with `site_effects` or on a column partition: study and view under which
        the silos keep their intercepts, or the coefficients of their columns.
    predictors_ : list of str
        Names of the columns of `coef_`.
    response_ : str
        Name of the column that is predicted.
    n_samples_ : int
        N, the number of rows of all silos.
    n_features_in_ : int
        p, the number of predictors.
    feature_names_in_ : (p,) array of str
        Their names.

    Raises
    ------
    DataError
        Missing values, collinear or constant columns (with `site_effects`, within
        the silos), or too few rows.

    Notes
    -----
    Released, as totals only: N, the column sums, the sums of squares about the means,
    and the cross-product matrix of predictors and response; with "HC0" or "HC1" the
    (p + 1) × (p + 1) products of each row's residual times its predictors, with
    "cluster" those of their sums by cluster, and the number of clusters. With
    `site_effects` squares and products are about each silo's own means, and the sum of
    squares of the response about the mean over all silos is released beside them.
    Never released: a row, a residual, any silo's own sums, or its own intercept.

    With `site_effects` a view of predictions has each silo's own intercept in it, on
    all rows of the silos of the fit; folds and splits of them are refused, and an array
    of rows, which have no silo, cannot be predicted. A later fit of the same model on
    the same view replaces the intercepts, and the earlier one no longer predicts.

    On a column partition the response is one party's column. The numbers that leave are
    about people, and the silos alone open them. They learn the span of all predictors,
    which is the others' predictors up to a linear map that they do not know, and the
    fitted values. The coordinator receives the intercept with its variance, R², the sum
    of squared residuals, and the ratio of the smallest eigenvalue of the predictors'
    cross-products to the largest. Each silo keeps the coefficients of its own columns
    with their standard errors; reading them has all silos disclose theirs. With "HC0"
    or "HC1" the silos also open products of the predictors' coordinates weighted by
    squared residuals, and the coordinator receives Wald's statistic. Among more
    than two silos the response's products are those of one silo, so that
    `allow_disclosed` is needed.

    See Also
    --------
    sklearn.linear_model.LinearRegression, statsmodels.api.OLS : twins on pooled rows.

    References
    ----------
    Seber and Lee, Linear regression analysis, 2nd edition, Wiley, 2003.

    MacKinnon and White, Some heteroskedasticity-consistent covariance matrix estimators
    with improved finite sample properties, Journal of Econometrics 29 (1985).
    """

    _subject = "Linear regression over all silos, by ordinary least squares"
    _computed = (
        *(*LeastSquares._computed, "adjusted_r2_", "sigma_", "f_statistic_"),
        *("f_p_value_", "deviance_", "log_likelihood_", "aic_", "bic_"),
    )
    _steps = (
        *(*LeastSquares._steps, local_score_products, local_profile_products),
        *(local_cluster_products, local_profile_cluster_products),
    )
    _kept_by_silos = ("coef_", "coef_se_")

    _: KW_ONLY
    cov_type: str = "nonrobust"
    clusters: str | None = None
    site_effects: bool = False
    scores: str | None = "coordinator"

    _varying_on = ("rows", "columns")

    def _needs_variation(self) -> bool:
        return True

    def _needs_variation_within(self) -> bool:
        return self.site_effects

    def _citation(self) -> Citation:
        works = (
            "Seber GAF, Lee AJ. Linear Regression Analysis. 2nd edition. Wiley, 2003.",
        )
        robust, own = "", " with an intercept for each silo" * self.site_effects
        if self.cov_type != "nonrobust":
            robust = (
                f", with heteroskedasticity-robust standard errors ({self.cov_type})"
            )
            works += (
                "MacKinnon JG, White H. Some heteroskedasticity-consistent covariance "
                "matrix estimators with improved finite sample properties. Journal of "
                "Econometrics 1985; 29: 305-325.",
            )
        return Citation(
            f"A linear regression{own} was fitted by least squares{robust}.", works
        )

    def _fit(self, federation: Federation, y: Any) -> None:
        check_choice("cov_type", self.cov_type, COVARIANCE_TYPES)
        own = bool(self.site_effects)
        if federation.partition == "columns":
            self._fit_parties(federation, y)
            return
        clusters = check_clusters(federation, self.cov_type, self.clusters)
        view, found = self._solve(
            federation, y, alpha=0.0, site_effects=own, clusters=clusters
        )
        N, k = found.N, len(found.b) + found.n_intercepts
        information = found.R if own else found.information
        arguments: dict[str, Any] = {
            "mean": found.mean,
            "scale": found.scale,
            "coef": found.b,
            "width": len(information),
            "family": "gaussian",
            "offset": False,
        }
        steps = local_profile_products, local_profile_cluster_products
        if not own:
            steps = local_score_products, local_cluster_products
            arguments["intercept"] = float(found.mean[-1])
        products = score_products(self, federation, view, clusters, steps, arguments)
        dof = max(self.n_clusters_ - 1, 1) if self.cov_type == "cluster" else N - k
        self._set_inference(
            information,
            products,
            unstandardised(found.mean[:-1], found.scale[:-1])[own:, own:],
            dispersion=found.residual / (N - k),
            N=N,
            n_parameters=k,
            dof=float(dof),
        )
        self._set_goodness(found.residual, N, k, len(found.b), self._wald(found))
        if own:
            self._keep_intercepts(view, found.n_intercepts)

    def _wald(self, found: _Standardised) -> float:
        """Return the coefficients' squares in units of their covariance matrix."""
        p = len(self.coef_)
        if not found.residual:
            return np.inf
        C = self.covariance_[-p:, -p:]
        return float(self.coef_ @ solved(C, self.coef_[:, None])[:, 0])

    def _fit_parties(self, federation: Federation, y: Any) -> None:
        """Fit parties with other columns of the same people, who keep coefficients."""
        if self.cov_type == "cluster" or self.clusters:
            raise DataError(
                "On a column partition one silo alone knows the clusters, and the "
                "others would need to know who is in which: choose another cov_type."
            )
        robust = self.cov_type != "nonrobust"
        found = self._solve_by_parties(federation, y, alpha=0.0, robust=robust)
        # A silo's own plan assumes how many columns the others have.
        p = min(len(self.predictors_), found.N - 2)
        N = found.N
        self.dof_ = float(N - p - 1)
        variance = found.residual / self.dof_ * found.intercept_variance
        with np.errstate(divide="ignore", invalid="ignore"):
            wald = np.divide(found.r2, 1.0 - found.r2) * self.dof_
        if robust:
            # The silos keep the errors of "HC0"; this factor follows from N and p.
            factor = self._error_factor(N, p + 1)
            variance = found.robust_variance * factor
            wald = found.wald / factor if found.residual else np.inf
        self.intercept_se_ = float(np.sqrt(variance))
        self._set_goodness(found.residual, N, p + 1, p, float(wald))

    def _error_factor(self, N: int, k: int) -> float:
        """Return by what "HC1" multiplies variances, for k parameters; 1 of others."""
        return N / (N - k) if self.cov_type == "HC1" else 1.0

    def _set_goodness(
        self, residual: float, N: int, k: int, p: int, wald: float
    ) -> None:
        """Set what follows from the sum of squared residuals and k parameters.

        p of these are coefficients, whose squares in units of their covariance matrix
        are `wald`: for equal variances the usual test.
        """
        dof = N - k
        self.deviance_ = float(residual)
        self.sigma_ = float(np.sqrt(residual / dof))
        self.adjusted_r2_ = 1.0 - (1.0 - self.r2_) * (N - 1) / dof
        with np.errstate(divide="ignore"):
            at_fit = -0.5 * N * (np.log(2 * np.pi * np.float64(residual) / N) + 1.0)
        self.f_statistic_ = float(wald / p)
        self.f_p_value_ = float(scipy.stats.f.sf(self.f_statistic_, p, self.dof_))
        self._set_criteria(float(at_fit), k, N)

    def to_sklearn(self) -> Any:
        """Return a fitted `sklearn.linear_model.LinearRegression`."""
        import sklearn.linear_model

        check_is_fitted(self)
        check_common_intercept(self)
        return self._taught(sklearn.linear_model.LinearRegression())


@final
@dataclass(eq=False, repr=False)
class Ridge(LeastSquares):
    """Linear regression with a penalty on the squares of the coefficients.

    Parameters
    ----------
    alpha : float, default 1.0
        Weight of the penalty: ``residual sum of squares + alpha Σ coef²``. The
        intercept is not penalised. Standardise columns of different units first.
    site_effects : bool, default False
        Whether each silo has an intercept of its own, which it keeps, as in
        `LinearRegression`. These intercepts are not penalised either: the coefficients
        are those of a ridge regression of rows about the means of their silos.
    scores : {"coordinator", "parties"} or None, default "coordinator"
        Column partitions only: who receives the predictions that `predict` returns.

    Attributes
    ----------
    coef_ : (p,) array
        Coefficients of the predictors, in the columns' units.
    intercept_ : float
        Only without `site_effects`: the intercept.
    n_intercepts_ : int
        Only with `site_effects`: m, the number of silos.
    r2_ : float
        Coefficient of determination on the rows of the fit.
    r2_within_ : float
        Only with `site_effects`: share of the sum of squares within silos that the
        predictors explain.
    rmse_ : float
        Root mean squared residual, with denominator N.
    kept_ : str
        Only with `site_effects` or on a column partition: study and view under which
        the silos keep their intercepts, or the coefficients of their columns.
    predictors_ : list of str
        Names of the columns of `coef_`.
    response_ : str
        Name of the column that is predicted.
    n_samples_ : int
        N, the number of rows of all silos.
    n_features_in_ : int
        p, the number of predictors.
    feature_names_in_ : (p,) array of str
        Their names.

    Raises
    ------
    DataError
        Missing values, or `alpha` that is not above 0.

    Notes
    -----
    Released, as totals only: N, the column sums, the sums of squares about the means,
    and the cross-product matrix of predictors and response. Never released: a row, a
    residual, or any silo's own sums. There are no standard errors: the penalty biases
    the coefficients by an amount that the rows do not show. With `site_effects`, and on
    a column partition, it is as in `LinearRegression`.

    See Also
    --------
    sklearn.linear_model.Ridge : its twin on pooled rows.

    References
    ----------
    Hoerl and Kennard, Ridge regression: biased estimation for nonorthogonal problems,
    Technometrics 12 (1970).
    """

    _subject = "Ridge regression over all silos, least squares with a penalty"

    alpha: float = 1.0
    _: KW_ONLY
    site_effects: bool = False
    scores: str | None = "coordinator"

    def _citation(self) -> Citation:
        own = " and an unpenalised intercept for each silo" * self.site_effects
        return Citation(
            f"A ridge regression with the penalty {self.alpha:g}{own} was fitted.",
            (
                "Hoerl AE, Kennard RW. Ridge regression: biased estimation for "
                "nonorthogonal problems. Technometrics 1970; 12: 55-67.",
            ),
        )

    def _fit(self, federation: Federation, y: Any) -> None:
        alpha = self.alpha
        if not is_number(alpha) or not 0.0 < alpha < np.inf:
            raise DataError(
                f"alpha={alpha!r} must be a number above 0; without a penalty there is "
                f"LinearRegression."
            )
        if federation.partition == "columns":
            self._solve_by_parties(federation, y, alpha=float(alpha))
            return
        own = bool(self.site_effects)
        view, found = self._solve(federation, y, float(alpha), site_effects=own)
        if own:
            self._keep_intercepts(view, found.n_intercepts)

    def to_sklearn(self) -> Any:
        """Return a fitted `sklearn.linear_model.Ridge`."""
        import sklearn.linear_model

        check_is_fitted(self)
        check_common_intercept(self)
        return self._taught(sklearn.linear_model.Ridge(self.alpha))

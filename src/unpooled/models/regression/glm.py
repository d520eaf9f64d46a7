"""Generalised linear models of rows that stay in their silos.

    round 1   silos ── N, column sums ───────────────────────────────────> means
    round 2   silos <── means ── silos ── sums of squares about them ────> scales
    rounds 3, silos <── means, scales, coefficients ── silos ── gradient, information
    4, ...    and deviance of their rows, added ─────────────────────────> next step
              (round 3 with a logarithmic link: working residuals, see `local_start`)
    last      with cov_type "HC0" or "HC1": the products of each row's score, added

With site_effects the silos evaluate at their own most likely intercepts, and keep them
in a round after the last (`site_effects.py`).

Predictors are standardised inside the silos, so that columns may differ by ten orders
of magnitude. Coefficients, errors and tests are of the columns as they are.
"""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import Any, ClassVar, final

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_array, check_is_fitted

from unpooled.arrays import Array, Float
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.models import moments
from unpooled.models.base import FederatedEstimator, check_federation
from unpooled.models.extrapolation import judged
from unpooled.models.moments import MEAN, SQUARES, complete
from unpooled.models.parameter_checks import check_choice
from unpooled.models.regression import newton
from unpooled.models.regression.clusters import (
    RELEASED,
    check_clusters,
    cluster_products,
    products_of,
    score_products,
    split_clusters,
)
from unpooled.models.regression.families import (
    ARGUMENTS,
    EVALUATED,
    FAMILIES,
    STARTED,
    Arguments,
    Family,
    WorkingRows,
    log_likelihood,
)
from unpooled.models.regression.inference import (
    COVARIANCE_TYPES,
    Inference,
    in_units,
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
    local_profile,
    local_profile_cluster_products,
    local_profile_products,
    local_profile_start,
    own_intercept,
    predicted_in_silo,
)
from unpooled.protocol.step import Step, public, release, summed
from unpooled.results.citations import Citation


@summed(
    within_silos=True,
    takes={"mean": MEAN},
    squares=release("p", meaning=SQUARES),
)
def local_spread(X: Float[Array, "n p"], *, mean: Float[Array, " p"]) -> dict[str, Any]:
    """Add squared deviations from the means of all rows."""
    return {"squares": ((complete(X) - mean) ** 2).sum(axis=0)}


@summed(takes=ARGUMENTS, **EVALUATED)
def local_working(
    X: Float[Array, "n p"], *, at: Arguments, intercept: float
) -> dict[str, Any]:
    """Add gradient, expected information and deviance of this silo's rows."""
    return _rows(X, at, intercept).sums()


@summed(takes=ARGUMENTS, **STARTED)
def local_start(
    X: Float[Array, "n p"], *, at: Arguments, intercept: float
) -> dict[str, Any]:
    """Add what the first step of a search is found from, and the deviance.

    As in iteratively reweighted least squares, which starts from the responses: from
    the mean of all a step may make one row's mean, and its weight, far too large.
    """
    return _rows(X, at, intercept, start=True).sums()


@summed(within_silos=True, takes=ARGUMENTS, products=newton.SCORE_PRODUCTS)
def local_score_products(
    X: Float[Array, "n p"], *, at: Arguments, intercept: float
) -> dict[str, Any]:
    """Add the products of this silo's rows' scores."""
    return {"products": products_of(_rows(X, at, intercept).scores())}


@summed(within_silos=True, takes=ARGUMENTS, **RELEASED)
def local_cluster_products(
    X: Float[Array, "n p"], *, at: Arguments, intercept: float, grouped: bool
) -> dict[str, Any]:
    """Add the products of the scores of this silo's clusters."""
    rows, clusters = split_clusters(X, grouped=grouped)
    scores = _rows(rows, at, intercept).scores()
    return cluster_products(scores, clusters, grouped=grouped)


@summed(
    within_silos=True,
    takes={"coef": public("l", "the regression coefficients")},
    count=release("", meaning="sample size (number of rows)"),
    total=release("", meaning="sum of the response"),
    deviance=replace(newton.DEVIANCE, weighed=True),
)
def local_deviance(
    X: Float[Array, "n p"],
    *,
    coef: Float[Array, " l"],
    intercept: float,
    family: str,
    offset: bool,
) -> dict[str, Any]:
    """Add the deviance of this silo's rows from a fitted model."""
    p = X.shape[1]
    at = Arguments(np.zeros(p), np.ones(p), coef, len(coef) + 1, family, offset)
    rows = _rows(X, at, intercept)
    terms = rows.family.deviance(rows.y, rows.mu)[:, None]
    # A probability is beyond no responses.
    predicted = rows.y if family == "binomial" else rows.mu
    found = judged(terms, predicted[:, None], rows.y[:, None])
    return {
        "count": np.array(float(len(rows.y))),
        "total": np.array(rows.y.sum()),
        "deviance": replace(found, total=found.total[0]),
    }


def _rows(
    X: Float[Array, "n q"], at: Arguments, intercept: float, *, start: bool = False
) -> WorkingRows:
    """Return rows with standardised predictors behind a column of ones."""
    rows, family = complete(X), FAMILIES[at.family]
    y, Z = family.checked(rows[:, -1]), at.standardised(rows)
    mu = family.mean(at.predictor(Z, rows) + intercept)
    about = family.between(y, mu) if start else mu
    return WorkingRows(family, np.column_stack([np.ones(len(Z)), Z]), y, mu, about)


@final
@dataclass(eq=False, repr=False)
class GLM(newton.Searched, RegressorMixin, Inference, FederatedEstimator):
    """Generalised linear model over a federation: the pooled answer.

    Parameters
    ----------
    family : {"gaussian", "binomial", "poisson", "gamma"}, default "gaussian"
        Distribution of the response, with the link identity, logit, log and log. A
        binomial response is 0 or 1, or a share; for classes with names there is
        `LogisticRegression`.
    offset : str, optional
        Name of a column that is added to the linear predictor with coefficient 1, such
        as the logarithm of an exposure.
    cov_type : {"nonrobust", "HC0", "HC1", "cluster"}, default "nonrobust"
        How standard errors are estimated: from the model, or robustly against other
        variances, from the products of each row's score; "HC1" with N / (N - k).
        "cluster": robust against rows of a cluster that resemble each other.
    clusters : str, optional
        With "cluster": name of a column that numbers the clusters inside each silo,
        such as wards or persons; it is no predictor. None: each silo is a cluster.
    site_effects : bool, default False
        Whether each silo has an intercept of its own, which it keeps. The coefficients
        are then those of a fit of the pooled rows with an indicator column for each
        silo.
    tol : float, default 1e-8
        The fit ends with a step that is shorter than this many standard errors.
    max_iter : int, default 15
        Largest number of rounds of the search.

    Attributes
    ----------
    coef_ : (p,) array
        Coefficients of the predictors, in the columns' units, on the scale of the link.
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
        Two-sided, by the normal distribution.
    covariance_ : (p + 1, p + 1) array
        Covariance matrix of the intercept and the coefficients, in this order; with
        `site_effects` (p, p), of the coefficients.
    dof_ : float
        Degrees of freedom of the reference distribution: inf, a normal one.
    n_clusters_ : int
        Only with "cluster": G, the number of clusters.
    deviance_ : float
        -2 times the log-likelihood, less that of means equal to the responses.
    null_deviance_ : float
        Deviance of the model with the intercept, or the silos' own intercepts, alone;
        not with an offset.
    dispersion_ : float
        Estimate of φ, Pearson's chi-squared by N - k, where k is the number of
        predictors and intercepts; 1 of "binomial" and "poisson".
    log_likelihood_ : float
        At the fit, constants included. For "gaussian" at the most likely variance.
    aic_, bic_ : float
        ``2 k - 2 log_likelihood_`` and ``k log N - 2 log_likelihood_``.
    kept_ : str
        Only with `site_effects`: study and view under which the silos keep their
        intercepts.
    predictors_ : list of str
        Names of the columns of `coef_`.
    response_ : str
        Name of the column that is predicted.
    n_iter_ : int
        Number of rounds of the search.
    n_samples_ : int
        N, the number of rows of all silos.
    n_features_in_ : int
        p, the number of predictors.
    feature_names_in_ : (p,) array of str
        Their names.

    Raises
    ------
    DataError
        Missing values, collinear columns, responses that the family does not allow, or
        that are separated by the predictors.
    ConvergenceError
        When `max_iter` rounds were not enough.

    Notes
    -----
    Released, as totals only: N and the column sums; the sums of squares about the
    means; in each round of the search the p + 1 numbers of the gradient, the (p + 1) ×
    (p + 1) information matrix, the deviance, Pearson's chi-squared, and one number of
    the response alone; of "poisson" and "gamma" the first gradient is of working
    residuals half way to the responses, with weights that depend on no response. With
    "HC0" or "HC1" the products of the rows' scores, as many numbers again, with
    "cluster" those of the clusters' scores and the number of clusters. With
    `site_effects` the same of the p coefficients, without the intercept. Never
    released: a row, a residual, any silo's own sums, or its own intercept. Several fits
    with `site_effects` may together give a silo's own sums: see "What remains" in the
    documentation of disclosure.

    With `site_effects` a view of predictions has each silo's own intercept in it, on
    all rows of the silos of the fit; folds and splits of them are refused, and an array
    of rows, which have no silo, cannot be predicted. A silo whose responses are all 0,
    or of a binomial response all 1, has no finite intercept and refuses
    (`own_intercept`). A later fit of the same model on the same view replaces the
    intercepts, and the earlier one no longer predicts.

    See Also
    --------
    statsmodels.api.GLM : its twin on pooled rows, with a constant.

    References
    ----------
    McCullagh and Nelder, Generalized linear models, 2nd edition, Chapman and Hall,
    1989.
    """

    _computed = ("log_likelihood_", "aic_", "bic_")
    _scored_by = ("r2", "neg_root_mean_squared_error")
    _estimates: ClassVar[Mapping[str, int | None]] = {"coef_": None, "intercept_": None}
    _steps = (
        *(moments.local_total, predicted_response, predicted_in_silo),
        *(local_profile, local_profile_start, own_intercept),
        *(local_profile_products, local_profile_cluster_products),
    )
    _exhibits = regression_exhibits

    family: str = "gaussian"
    _: KW_ONLY
    offset: str | None = None
    cov_type: str = "nonrobust"
    clusters: str | None = None
    site_effects: bool = False
    tol: float = 1e-8
    max_iter: int = 15

    def _needs_variation(self) -> bool:
        return True

    def _needs_variation_within(self) -> bool:
        return self.site_effects

    def _citation(self) -> Citation:
        robust = (
            ""
            if self.cov_type == "nonrobust"
            else f" and robust standard errors ({self.cov_type})"
        )
        # As the names are written: both are persons'.
        proper = self.family.replace("poisson", "Poisson").replace("gauss", "Gauss")
        return Citation(
            f"A generalised linear model of the {proper} family with "
            f"{FAMILIES[self.family].link} link"
            f"{', an intercept for each silo' * self.site_effects}{robust} was fitted "
            f"by maximum likelihood.",
            (
                "McCullagh P, Nelder JA. Generalized Linear Models. 2nd edition. "
                "Chapman and Hall, 1989.",
            ),
        )

    def _fit(self, federation: Federation, y: Any) -> None:
        if self.site_effects:
            check_whole(federation)
        check_choice("family", self.family, tuple(FAMILIES))
        check_choice("cov_type", self.cov_type, COVARIANCE_TYPES)
        clusters = check_clusters(federation, self.cov_type, self.clusters)
        roles = RegressionRoles.of(federation, y, self.offset, clusters)
        view = federation.select(roles.columns)
        # Rounds 1 and 2: means and scales of the columns.
        N, mean, scale = standardisation(view)
        p, own = len(roles.predictors), bool(self.site_effects)
        k = p + (len(view.parties) if own else 1)
        check_enough_rows(N, p, k - p)
        # Rounds 3, 4, ...: Newton's steps, from the model with the intercept alone.
        common: dict[str, Any] = {
            "mean": mean,
            "scale": scale,
            "width": p + (not own),
            "family": self.family,
            "offset": self.offset is not None,
        }
        near = self._start_near(mean[:p], scale[:p])
        found = self._search(view, common, roles, float(mean[-1]), near)
        if own:
            self.coef_ = found.parameters / scale[:p]
        else:
            intercepts, coefs = in_units(found.parameters[None], mean[:p], scale[:p])
            self.intercept_, self.coef_ = float(intercepts[0]), coefs[0]
        self.n_iter_, self.n_samples_ = found.n_iter, N
        self.predictors_, self.response_ = roles.predictors, roles.response
        self._set_goodness(found, N, k)
        if self.offset is None:
            self.null_deviance_ = found.first.deviance
            if near is not None:
                self.null_deviance_ = self._null_deviance(view, float(mean[-1]))
        # The last round: products of the rows' scores, where they are asked for.
        steps = local_score_products, local_cluster_products
        if own:
            steps = local_profile_products, local_profile_cluster_products
        at = common | self._split(found.parameters)
        products = score_products(self, federation, view, clusters, steps, at)
        self._set_inference(
            found.information,
            products,
            unstandardised(mean[:p], scale[:p])[own:, own:],
            dispersion=self.dispersion_,
            N=N,
            n_parameters=k,
            dof=np.inf,
        )
        if own:
            self.n_intercepts_ = k - p
            coef = self.coef_[None].copy()
            shared = {name: common[name] for name in ("family", "offset")}
            view.keep(own_intercept, coef=coef, **shared)
            self.kept_ = view.kept_here

    def _search(
        self,
        view: Federation,
        common: dict[str, Any],
        roles: RegressionRoles,
        mean: float,
        near: Float[Array, "q l"] | None,
    ) -> newton.Maximum:
        """Return the maximum of the likelihood, from the null model or near a fit."""
        kind, names = FAMILIES[self.family], roles.predictors
        first, step = local_start, local_working
        if self.site_effects:
            first, step = local_profile_start, local_profile

        def evaluate(step: Step, theta: Float[Array, " m"]) -> newton.LogLikelihood:
            totals = view.sum(step, **(common | self._split(theta)))
            return newton.LogLikelihood(
                float(totals["deviance"]),
                totals["gradient"],
                totals["information"],
                {name: float(totals[name]) for name in ("pearson", "saturated")},
            )

        start = np.zeros(common["width"])
        if near is not None:
            start = near[0]
        elif not (self.site_effects or view.coordinator.planned):
            start[0] = _intercept_alone(kind, mean)
        from_null = near is None and kind.link == "log"
        return newton.maximised(
            view,
            partial(evaluate, step),
            start,
            evaluate_start=partial(evaluate, first) if from_null else None,
            penalty=None,
            tol=self.tol,
            max_iter=self.max_iter,
            names=columns_within(names) if self.site_effects else ["intercept", *names],
            of_classes=self.family == "binomial",
            is_curvature=self.family != "gamma",
        )

    def _split(self, theta: Float[Array, " m"]) -> dict[str, Any]:
        """Return parameters of the search as arguments of its steps."""
        if self.site_effects:
            return {"coef": theta.copy()}
        return {"intercept": float(theta[0]), "coef": theta[1:].copy()}

    def _set_goodness(self, found: newton.Maximum, N: int, k: int) -> None:
        """Set deviance, dispersion, log-likelihood and information criteria."""
        kind, totals = FAMILIES[self.family], found.last.further
        self.deviance_ = found.last.deviance
        self.dispersion_ = totals["pearson"] / (N - k) if kind.has_dispersion else 1.0
        at_fit = log_likelihood(
            self.family, self.deviance_, totals["saturated"], N, self.dispersion_
        )
        self._set_criteria(at_fit, k, N)

    def _inputs(self, federation: Federation, y: Any) -> Federation:
        roles = RegressionRoles.of(federation, y, self.offset, self.clusters)
        return federation.select(roles.predictors)

    def predict(self, X: Any, offset: Any = None) -> Any:
        """Return the mean of the response for rows.

        Parameters
        ----------
        X : (n, p) array-like or Federation
            Predictors. A federation gives a view of the predictions, and of the
            response where it has it, for `unpooled.metrics`; nothing leaves a silo.
        offset : (n,) array-like, optional
            Offset of the rows of an array, where the fit has an offset.

        Returns
        -------
        (n,) array or Federation

        Raises
        ------
        DataError
            When an offset is given and the fit has none, or the reverse.
        """
        check_is_fitted(self)
        kept_of = vars(self).get("kept_", "")
        if isinstance(X, Federation):
            view = check_federation(self, X)
            return self._roles.predictions(self, view, self.family, kept_of=kept_of)
        check_common_intercept(self)
        eta = self._check_rows(X) @ self.coef_ + self.intercept_
        if (offset is None) != (self.offset is None):
            raise DataError("Pass an offset where, and only where, the fit has one.")
        if offset is not None:
            eta = eta + check_array(offset, ensure_2d=False, dtype="float64")
        return FAMILIES[self.family].mean(eta)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return D², the share of the deviance that is explained.

        Parameters
        ----------
        X : (n, p) array-like or Federation
            Rows.
        y : (n,) array-like, or str
            Their responses; with a federation, the name of the column or nothing.
        sample_weight : None
            Not supported.

        Raises
        ------
        DataError
            When weights or an offset are given, or the fit has
            `site_effects`.

        Notes
        -----
        On a federation it releases, as totals only, N, the sum of the response, and
        two deviances: from the model, and from the mean of these rows.
        """
        if sample_weight is not None or self.offset is not None:
            raise DataError("A score takes neither weights nor an offset.")
        if "kept_" in vars(self):
            raise DataError(
                "A score is of one intercept. With site_effects judge the predictions "
                "by unpooled.metrics, such as r2_score."
            )
        if not isinstance(X, Federation):
            kind = FAMILIES[self.family]
            y = check_array(y, ensure_2d=False, dtype="float64")
            fitted = kind.deviance(y, self.predict(X)).sum()
            return float(
                1.0 - fitted / kind.deviance(y, np.full_like(y, y.mean())).sum()
            )
        check_is_fitted(self)
        whole = check_federation(self, X)
        with whole.calling(self, "score"):
            view = whole.select(self._roles.columns)
            shared: dict[str, Any] = {"family": self.family, "offset": False}
            totals = view.sum(
                local_deviance,
                coef=self.coef_,
                intercept=float(self.intercept_),
                **shared,
            )
            mean = float(totals["total"] / totals["count"])
            null = self._null_deviance(view, mean)
        return float(1.0 - totals["deviance"] / null)

    def _null_deviance(self, view: Federation, mean: float) -> float:
        """Return the deviance of the rows from their mean response; one round."""
        eta = 0.0
        if not view.coordinator.planned:
            eta = _intercept_alone(FAMILIES[self.family], mean)
        totals = view.sum(
            local_deviance,
            coef=np.zeros_like(self.coef_),
            intercept=eta,
            family=self.family,
            offset=False,
        )
        return float(totals["deviance"])

    @property
    def _roles(self) -> RegressionRoles:
        return RegressionRoles(list(self.predictors_), self.offset, self.response_)


def standardisation(
    view: Federation,
) -> tuple[int, Float[Array, " p"], Float[Array, " p"]]:
    """Return N, and the mean and standard deviation (or 1) of each column; two rounds.

    The model that asks lists `moments.local_total` and `local_spread` in `_steps`.
    """
    N, mean = moments.pooled_mean(view)
    squares = view.sum(local_spread, mean=mean)["squares"]
    return N, mean, scales(squares, mean, N)


def scales(
    squares: Float[Array, " p"], mean: Float[Array, " p"], N: int
) -> Float[Array, " p"]:
    """Return standard deviations, or 1 for constant columns."""
    scale = np.sqrt(np.maximum(squares, 0.0) / N)
    # The standard deviation of a constant column is the rounding error of its mean.
    constant = scale <= 64 * np.finfo(float).eps * np.abs(mean)
    return np.where(constant, 1.0, scale)


def _intercept_alone(family: Family, mean: float) -> float:
    """Return the linear predictor of the mean response."""
    with np.errstate(divide="ignore", invalid="ignore"):
        eta = float(family.predictor(np.array([mean]))[0])
    if not np.isfinite(eta):
        raise DataError(
            f"The mean response is {mean:g}, which no {family.name} model has: all "
            f"responses are equal, or the family is another."
        )
    return eta

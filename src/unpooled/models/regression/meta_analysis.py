"""Meta-analysis of the silos' own regressions, beside the pooled regression.

    rounds      the regression of the pooled rows: `linear.py`, `glm.py`, `logistic.py`
    last round  each silo fits its own rows; silos ── coefficients, variances ──> shown
    combined    by inverse variances, for each coefficient by itself

    fixed            θ = Σ w θ_i / Σ w,  w = 1 / v_i,  Var = 1 / Σ w
    random (DL)      w* = 1 / (v_i + τ²),
                     τ² = max(0, (Q - (s - 1)) / (Σ w - Σ w² / Σ w))
    Hartung-Knapp    Var = Σ w* (θ_i - θ)² / ((s - 1) Σ w*), Student's t with s - 1

with Q = Σ w (θ_i - θ_fixed)² of s silos. It is the usual analysis where rows cannot be
pooled, and what the pooled regression is compared with: a silo where a class is rare,
or with few rows, has no fit of its own, or a biased one with a poor variance.
"""

from dataclasses import KW_ONLY, dataclass, field
from typing import Any, final

import numpy as np
import scipy
from sklearn.utils.validation import check_is_fitted

from unpooled.arrays import Array, Bool, Float, Int, Shaped
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.models.base import FederatedEstimator
from unpooled.models.discriminant.classes import (
    NAMES,
    OPENED_SIZES,
    OWN_SIZES,
    agreed_classes,
    class_codes,
    class_sizes,
    class_values,
    local_class_counts,
    local_names,
)
from unpooled.models.moments import complete
from unpooled.models.parameter_checks import check_alpha, check_choice
from unpooled.models.regression.families import FAMILIES, Family, WorkingRows
from unpooled.models.regression.glm import GLM
from unpooled.models.regression.inference import has_intercept, unstandardised
from unpooled.models.regression.linear import LinearRegression
from unpooled.models.regression.logistic import LogisticRegression
from unpooled.models.regression.meta_analysis_results import meta_analysis_exhibits
from unpooled.models.regression.response import RegressionRoles
from unpooled.protocol.step import disclosed, release, totals_of
from unpooled.results.citations import Citation

METHODS = ("fixed", "random", "hartung-knapp")
# Limits of a silo's own fit: most steps, the step that ends it, most halvings, and the
# linear predictor beyond which classes count as separated.
_STEPS, _TOLERANCE, _HALVINGS, _SEPARATED = 100, 1e-11, 20, 30.0
_RELEASED: dict[str, Any] = {
    "estimate": release(
        "m", meaning="intercept and coefficients of the silo's own regression"
    ),
    "variance": release("m", meaning="the squares of their standard errors"),
    "fitted": release("", meaning="1 where the silo has a fit of its own, 0 otherwise"),
}


@disclosed(by="party", takes={"width": "size m"}, **_RELEASED)
def own_regression(
    X: Float[Array, "n p"], *, family: str, offset: bool, width: int
) -> dict[str, Any]:
    """Return the silo's own regression of the last column on those before it."""
    kind, rows = FAMILIES[family], complete(X)
    y = kind.checked(rows[:, -1])
    p = rows.shape[1] - 1 - offset
    added = rows[:, p] if offset else np.zeros(len(rows))
    return _own_fit(rows[:, :p], y, added, kind)


@disclosed(
    by="party",
    takes={"classes": NAMES, "count": OPENED_SIZES, "width": "size m"},
    own=OWN_SIZES,
    **_RELEASED,
)
def own_logistic(
    X: Float[Array, "n p"],
    y: Shaped[Array, " n"],
    *,
    classes: Int[Array, "c w"],
    count: Float[Array, " c"],
    width: int,
) -> dict[str, Any]:
    """Return the silo's own logistic regression of the second class."""
    codes, rows = class_codes(y, classes), complete(X)
    known = codes >= 0
    made = _own_fit(
        rows[known],
        (codes[known] == 1).astype(float),
        np.zeros(int(known.sum())),
        FAMILIES["binomial"],
    )
    return {**made, "own": class_sizes(codes, classes)}


@final
@dataclass(eq=False, repr=False)
class MetaAnalysis(FederatedEstimator):
    """The silos' own regressions combined by inverse variances, and the pooled one.

    Parameters
    ----------
    family : {"gaussian", "binomial", "poisson", "gamma"}, default "gaussian"
        Family of the regression, with the links of `GLM`. "gaussian" is linear
        regression.
    offset : str, optional
        Name of a column that is added to the linear predictor.
    site_effects : bool, default False
        Whether the pooled regression has an intercept for each silo, as silos' own
        regressions have: then coefficients differ by how silos are weighted alone, and
        the pooled regression has no intercept to compare.

    Attributes
    ----------
    terms_ : list of str
        "intercept", and the names of the c - 1 predictors.
    response_ : str
        Name of the column that is predicted, or of the class.
    sites_ : list of str
        The m silos.
    fitted_ : (m,) array of bool
        Whether each has a fit of its own. Others are left out: rows that are fewer than
        parameters, collinear columns, separated classes, responses without variation.
    estimates_, standard_errors_ : (m, c) arrays
        Coefficients of the silos' own regressions; NaN where there is none.
    fixed_, fixed_se_ : (c,) arrays
        Combined with weights 1 / v, and standard errors.
    random_, random_se_ : (c,) arrays
        Combined with weights 1 / (v + τ²), by DerSimonian and Laird.
    hartung_knapp_se_ : (c,) array
        Standard errors of `random_` by Hartung and Knapp.
    tau2_ : (c,) array
        τ², the variance between silos, in the coefficient's squared units, at least 0.
    q_, q_p_value_ : (c,) arrays
        Cochran's Q and its p-value, chi-squared with s - 1 degrees of freedom.
    i2_ : (c,) array
        Share of the variation between estimates that is not of their own variances.
    pooled_, pooled_se_ : (c,) arrays
        The regression of the pooled rows; with `site_effects` NaN for the intercept.
    pooled_dof_ : float
        Degrees of freedom of its reference distribution, as of `LinearRegression`.

    Raises
    ------
    DataError
        Where fewer than two silos have a fit of their own; for more than two classes.

    Notes
    -----
    Released: what the pooled regression releases; and each silo's own coefficients and
    their variances, which its policy must allow (``allow_disclosed``). Never released:
    a row, or why a silo has no fit of its own.

    Standard errors are of maximum likelihood with expected information, those of
    "gaussian" and "gamma" with an estimated dispersion.

    See Also
    --------
    unpooled.compare_with_meta_analysis : does so for a model.

    References
    ----------
    DerSimonian and Laird, Meta-analysis in clinical trials, Controlled Clinical Trials
    7 (1986).

    Hartung and Knapp, A refined method for the meta-analysis of controlled clinical
    trials with binary outcome, Statistics in Medicine 20 (2001).

    Higgins and Thompson, Quantifying heterogeneity in a meta-analysis, Statistics in
    Medicine 21 (2002).
    """

    terms_: list[str] = field(init=False)
    response_: str = field(init=False)
    sites_: list[str] = field(init=False)
    fitted_: Bool[Array, " m"] = field(init=False)
    estimates_: Float[Array, "m c"] = field(init=False)
    standard_errors_: Float[Array, "m c"] = field(init=False)
    fixed_: Float[Array, " c"] = field(init=False)
    fixed_se_: Float[Array, " c"] = field(init=False)
    random_: Float[Array, " c"] = field(init=False)
    random_se_: Float[Array, " c"] = field(init=False)
    hartung_knapp_se_: Float[Array, " c"] = field(init=False)
    tau2_: Float[Array, " c"] = field(init=False)
    q_: Float[Array, " c"] = field(init=False)
    q_p_value_: Float[Array, " c"] = field(init=False)
    i2_: Float[Array, " c"] = field(init=False)
    pooled_: Float[Array, " c"] = field(init=False)
    pooled_se_: Float[Array, " c"] = field(init=False)
    pooled_dof_: float = field(init=False)

    _steps = (local_names, local_class_counts)
    _exhibits = meta_analysis_exhibits

    family: str = "gaussian"
    _: KW_ONLY
    offset: str | None = None
    site_effects: bool = False

    def _needs_variation(self) -> bool:
        return True

    def _needs_variation_within(self) -> bool:
        # No silo would have a regression of its own.
        return True

    def _citation(self) -> Citation:
        return Citation(
            "For comparison, each silo’s own regression was combined by inverse "
            "variances, with a random effect of the silos (DerSimonian and Laird) and "
            "with the intervals of Hartung and Knapp.",
            (
                "DerSimonian R, Laird N. Meta-analysis in clinical trials. Controlled "
                "Clinical Trials 1986; 7: 177-188.",
                "Hartung J, Knapp G. A refined method for the meta-analysis of "
                "controlled clinical trials with binary outcome. Statistics in "
                "Medicine 2001; 20: 3875-3889.",
            ),
        )

    def _fit(self, federation: Federation, y: Any) -> None:
        check_choice("family", self.family, tuple(FAMILIES))
        if self.family == "binomial" and y in (None, federation.label):
            shown = self._by_class(federation, y)
        else:
            shown = self._of_columns(federation, y)
        self.sites_ = list(federation.parties)
        parts = [shown[site] for site in self.sites_]
        planned = federation.coordinator.planned
        self.fitted_ = np.array([planned or float(p["fitted"]) > 0.5 for p in parts])
        if self.fitted_.sum() < 2:
            raise DataError(
                "Fewer than two silos have a regression of their own: there is nothing "
                "to combine."
            )
        unknown = np.where(self.fitted_, 1.0, np.nan)[:, None]
        self.estimates_ = np.array([part["estimate"] for part in parts]) * unknown
        variances = np.array([part["variance"] for part in parts]) * unknown
        self.standard_errors_ = np.sqrt(variances)
        self._combine(self.estimates_[self.fitted_], variances[self.fitted_])

    def _of_columns(self, federation: Federation, y: Any) -> Any:
        roles = RegressionRoles.of(federation, y, self.offset)
        own = bool(self.site_effects)
        if self.family == "gaussian" and self.offset is None:
            model: Any = LinearRegression(site_effects=own).fit(federation, y)
        else:
            model = GLM(self.family, offset=self.offset, site_effects=own)
            model.fit(federation, y)
        self._set_pooled(model, roles.predictors, roles.response)
        return federation.select(roles.columns).collect(
            own_regression,
            family=self.family,
            offset=self.offset is not None,
            width=len(self.terms_),
        )

    def _by_class(self, federation: Federation, y: Any) -> Any:
        names, count = agreed_classes(federation, local_names, None, 2)
        if len(names) != 2:
            raise DataError(
                f"The label has {len(names)} classes; a meta-analysis of logistic "
                f"regressions needs two."
            )
        model = LogisticRegression(site_effects=bool(self.site_effects))
        model.fit(federation, y)
        response = f"{federation.label}: {class_values(names)[1]}"
        self._set_pooled(model, list(federation.feature_names), response)
        return federation.collect(
            own_logistic, classes=names, count=count, width=len(self.terms_)
        )

    def _set_pooled(self, model: Any, predictors: list[str], response: str) -> None:
        self.pooled_dof_ = float(model.dof_)
        self.terms_, self.response_ = ["intercept", *predictors], response
        intercept = error = np.array([np.nan])
        if has_intercept(model):
            intercept, error = map(np.ravel, (model.intercept_, model.intercept_se_))
        self.pooled_ = np.concatenate([intercept, np.ravel(model.coef_)])
        self.pooled_se_ = np.concatenate([error, np.ravel(model.coef_se_)])

    def _combine(self, theta: Float[Array, "s c"], v: Float[Array, "s c"]) -> None:
        """Set what follows from the silos' own estimates and variances."""
        s, w = len(theta), 1.0 / v
        total = np.add.reduce(w, axis=0)
        self.fixed_ = np.add.reduce(w * theta, axis=0) / total
        self.fixed_se_ = 1.0 / np.sqrt(total)
        self.q_ = np.add.reduce(w * (theta - self.fixed_) ** 2, axis=0)
        spread = total - np.add.reduce(w * w, axis=0) / total
        self.tau2_ = np.maximum(0.0, (self.q_ - (s - 1)) / spread)
        self.q_p_value_ = scipy.stats.chi2.sf(self.q_, s - 1)
        some = np.where(self.q_ > 0.0, self.q_, 1.0)
        self.i2_ = np.maximum(0.0, (self.q_ - (s - 1)) / some)
        w = 1.0 / (v + self.tau2_)
        total = np.add.reduce(w, axis=0)
        self.random_ = np.add.reduce(w * theta, axis=0) / total
        self.random_se_ = 1.0 / np.sqrt(total)
        squares = np.add.reduce(w * (theta - self.random_) ** 2, axis=0)
        self.hartung_knapp_se_ = np.sqrt(squares / (s - 1) / total)

    def conf_int(
        self, method: str = "random", alpha: float | int = 0.05
    ) -> Float[Array, "c 2"]:
        """Return confidence intervals of the combined or pooled coefficients.

        Parameters
        ----------
        method : {"fixed", "random", "hartung-knapp", "pooled"}, default "random"
            The first two from a normal distribution, Hartung and Knapp's from Student's
            t with s - 1 degrees of freedom, the pooled regression's as it gives them.
        alpha : float, default 0.05
            One minus the coverage.
        """
        check_is_fitted(self)
        check_choice("method", method, (*METHODS, "pooled"))
        check_alpha(alpha)
        found = {
            "fixed": (self.fixed_, self.fixed_se_, np.inf),
            "random": (self.random_, self.random_se_, np.inf),
            "hartung-knapp": (
                self.random_,
                self.hartung_knapp_se_,
                float(self.fitted_.sum()) - 1.0,
            ),
            "pooled": (self.pooled_, self.pooled_se_, self.pooled_dof_),
        }
        theta, error, dof = found[method]
        reach = scipy.stats.t.ppf(1.0 - alpha / 2.0, dof) * error
        return np.column_stack([theta - reach, theta + reach])


def compare_with_meta_analysis(model: Any, X: Any, y: Any = None) -> MetaAnalysis:
    """Compare a pooled regression with a meta-analysis of the silos' own regressions.

    Parameters
    ----------
    model : LinearRegression, GLM or LogisticRegression
        Unfitted or fitted, and not changed; without penalty and robust covariances.
    X : Federation
        A federation by rows, or a view of one, whose silos allow their own values to be
        seen (``allow_disclosed``).
    y : str, optional
        As for ``model.fit``.

    Returns
    -------
    MetaAnalysis
        Silos' own estimates, combined ones and the pooled regression, fitted anew.
        ``summary()`` prints it; `ForestDisplay` draws it.

    Raises
    ------
    DataError
        For another model.

    Examples
    --------
    >>> found = up.compare_with_meta_analysis(up.LinearRegression(), federation, "chol")
    >>> print(found.summary())
    """
    given = model.get_params(deep=False) if hasattr(model, "get_params") else {}
    plain = (
        given.get("cov_type", "nonrobust") == "nonrobust"
        and given.get("C", np.inf) == np.inf
    )
    families = {
        LinearRegression: "gaussian",
        LogisticRegression: "binomial",
        GLM: given.get("family", ""),
    }
    if type(model) not in families or not plain:
        raise DataError(
            f"A meta-analysis is of a LinearRegression, GLM or LogisticRegression "
            f"without penalty or robust covariances; not of {model!r}."
        )
    family = families[type(model)]
    analysis = MetaAnalysis(
        family,
        offset=given.get("offset"),
        site_effects=bool(given.get("site_effects")),
    )
    return analysis.fit(X, y)


def _own_fit(
    X: Float[Array, "n p"],
    y: Float[Array, " n"],
    offset: Float[Array, " n"],
    kind: Family,
) -> dict[str, Any]:
    """Return a silo's own maximum likelihood fit, or that there is none."""
    n, m = len(X), X.shape[1] + 1
    none = {"estimate": np.zeros(m), "variance": np.zeros(m), "fitted": np.array(0.0)}
    middle = X.mean(axis=0) if n else np.zeros(m - 1)
    scale = X.std(axis=0) if n else np.zeros(m - 1)
    if n <= m or not (scale > 0.0).all() or not np.ptp(y) > 0.0:
        return none
    Z = np.column_stack([np.ones(n), (X - middle) / scale])
    if np.linalg.matrix_rank(Z, tol=1e-7 * np.sqrt(n)) < m:
        return none
    found = _newton(Z, y, offset, kind)
    if found is None:
        return none
    b, C = found
    T = unstandardised(middle, scale)
    return {
        "estimate": T @ b,
        "variance": np.diagonal(T @ C @ T.T).copy(),
        "fitted": np.array(1.0),
    }


def _newton(
    Z: Float[Array, "n m"],
    y: Float[Array, " n"],
    offset: Float[Array, " n"],
    kind: Family,
) -> tuple[Float[Array, " m"], Float[Array, "m m"]] | None:
    """Return coefficients and their covariance by Fisher scoring; None without."""

    def evaluated(b: Float[Array, " m"]) -> dict[str, Any]:
        mu = kind.mean(Z @ b + offset)
        return totals_of(WorkingRows(kind, Z, y, mu, mu).sums())

    b = np.zeros(Z.shape[1])
    b[0] = float(kind.predictor(np.array([y.mean()]))[0]) - offset.mean()
    found = evaluated(b)
    for _ in range(_STEPS):
        try:
            factor = scipy.linalg.cho_factor(found["information"])
        except np.linalg.LinAlgError:
            return None
        step, tried = scipy.linalg.cho_solve(factor, found["gradient"]), found
        for _ in range(_HALVINGS):
            tried = evaluated(b + step)
            if tried["deviance"] <= found["deviance"] * (1.0 + 1e-12):
                break
            step = step / 2.0
        b, found = b + step, tried
        if np.abs(step).max() <= _TOLERANCE * (1.0 + np.abs(b).max()):
            break
    else:
        return None
    if kind.name == "binomial" and np.abs(Z @ b + offset).max() > _SEPARATED:
        return None
    dispersion = 1.0
    if kind.has_dispersion:
        dispersion = float(found["pearson"]) / (len(y) - len(b))
    return b, dispersion * np.linalg.inv(found["information"])

"""Standard errors, tests and intervals of regression coefficients.

Coefficients of standardised columns, b, and of the columns as they are:

    coef_j = b_j / s_j,  intercept = a - Σ m_j b_j / s_j,  (intercept, coef) = T (a, b)

so that a covariance C of (a, b) becomes T C T'. For the covariance types see MacKinnon
and White: with the information I and the products M of each row's score, added over all
rows, it is φ I⁻¹ ("nonrobust"), I⁻¹ M I⁻¹ ("HC0"), and N / (N - k) times that ("HC1").
With "cluster" M has the scores added up by cluster: `clusters.py`.

References
----------
MacKinnon and White, Some heteroskedasticity-consistent covariance matrix estimators
with improved finite sample properties, Journal of Econometrics 29 (1985); Zeileis,
Object-oriented computation of sandwich estimators, Journal of Statistical Software 16
(2006).
"""

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy

from unpooled.arrays import Array, Float
from unpooled.errors import DataError
from unpooled.ledger.notebook_tables import pandas_if_installed
from unpooled.linalg.generalized_eigen import solved
from unpooled.linalg.settled import by_nearness, settled
from unpooled.models.base import input_names
from unpooled.models.parameter_checks import check_alpha

if TYPE_CHECKING:
    import pandas as pd

COVARIANCE_TYPES = ("nonrobust", "HC0", "HC1", "cluster")


def unstandardised(
    mean: Float[Array, " p"], scale: Float[Array, " p"]
) -> Float[Array, "l l"]:
    """Return T, which maps the intercept and coefficients of standardised columns."""
    T = np.diag(np.concatenate([[1.0], 1.0 / scale]))
    T[0, 1:] = -mean / scale
    return T


def in_units(
    theta: Float[Array, "q l"], mean: Float[Array, " p"], scale: Float[Array, " p"]
) -> tuple[Float[Array, " q"], Float[Array, "q p"]]:
    """Return intercepts and coefficients of the columns as they are, row by row.

    Entry by entry, as silos that follow compute them too.
    """
    coef = theta[:, 1:] / scale
    return theta[:, 0] - np.add.reduce(coef * mean, axis=1), coef


class Inference:
    """Methods of estimators that have a covariance matrix of their coefficients.

    Attributes
    ----------
    coef_se_, intercept_se_ : arrays
        Standard errors, in the shapes of `coef_` and `intercept_`; of a fit with an
        own intercept for each silo `coef_se_` alone.
    covariance_ : (k, k) array
        Covariance matrix of the parameters: of each decision function, or of the one,
        the intercept and then the coefficients.
    dof_ : float
        Degrees of freedom of the reference distribution: N - k of Student's t, or inf
        of a normal one.
    """

    coef_: Any
    intercept_: Any
    coef_se_: Any
    intercept_se_: Any
    dof_: float

    cov_type: str

    def _set_inference(
        self,
        information: Float[Array, "k k"],
        products: Float[Array, "k k"] | None,
        T: Float[Array, "l k"],
        *,
        dispersion: float,
        N: int,
        n_parameters: int,
        dof: float,
    ) -> None:
        """Set standard errors.

        Parameters
        ----------
        information : (k, k) array
            Expected information of the search's parameters, for a dispersion of 1.
        products : (k, k) array or None
            Products of each row's scores, added over all rows, or of each cluster's; of
            "nonrobust" None.
        T : (l, k) array
            Maps the parameters of the search to those of the columns as they are.
        dispersion : float
            φ, for "nonrobust".
        N, n_parameters : int
            Sample size and number of parameters.
        dof : float
            Degrees of freedom of the reference distribution.
        """
        inverse = solved(information, np.eye(len(information)))
        inverse = (inverse + inverse.T) / 2
        if products is None:
            C = dispersion * inverse
        else:
            factor = N / (N - n_parameters) if self.cov_type == "HC1" else 1.0
            if self.cov_type == "cluster":
                # A plan does not know the number.
                G = vars(self)["n_clusters_"]
                factor = G / max(G - 1, 1) * (N - 1) / (N - n_parameters)
            C = factor * inverse @ products @ inverse
        C = T @ C @ T.T
        # Silos that follow go on with a fitted model bit for bit.
        C = settled("covariance of coefficients", lambda: {"C": C}, by_nearness)["C"]
        se = np.sqrt(np.maximum(C.diagonal(), 0.0))
        shape = np.shape(self.coef_)
        self.covariance_, self.dof_ = np.array(C), float(dof)
        if not has_intercept(self):
            self.coef_se_ = se.reshape(shape)
            return
        se = se.reshape(-1, shape[-1] + 1)
        self.coef_se_ = se[:, 1:].reshape(shape)
        self.intercept_se_ = se[:, 0].copy() if len(shape) > 1 else float(se[0, 0])

    @property
    def statistics_(self) -> Any:
        """Coefficients divided by their standard errors."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return self.coef_ / self._errors("coef_se_")

    @property
    def p_values_(self) -> Any:
        """Two-sided p-values of the coefficients."""
        return 2.0 * scipy.stats.t.sf(np.abs(self.statistics_), self.dof_)

    @property
    def intercept_p_value_(self) -> Any:
        """Two-sided p-value of the intercept, or of each."""
        with np.errstate(divide="ignore", invalid="ignore"):
            own = np.abs(np.divide(self.intercept_, self._errors("intercept_se_")))
        found = 2.0 * scipy.stats.t.sf(own, self.dof_)
        return found if np.ndim(found) else float(found)

    def _set_criteria(self, log_likelihood: float, k: int, N: int) -> None:
        """Set the information criteria of k parameters and N rows."""
        self.log_likelihood_ = log_likelihood
        self.aic_ = 2.0 * k - 2.0 * log_likelihood
        self.bic_ = float(k * np.log(N)) - 2.0 * log_likelihood

    def _errors(self, name: str) -> Any:
        if "coef_" in vars(self) and name not in vars(self):
            raise DataError(
                "A penalised fit has no standard errors: the penalty biases the "
                "coefficients by an amount that the rows do not show. Fit without one."
            )
        return getattr(self, name)

    def conf_int(self, alpha: float | int = 0.05) -> "pd.DataFrame":
        """Return confidence intervals of the intercept and the coefficients.

        Parameters
        ----------
        alpha : float, default 0.05
            One less the level, so that 0.05 gives intervals at 95 %.

        Returns
        -------
        DataFrame
            Columns "low" and "high"; a row for the intercept and each column, of
            several classes by class.

        Raises
        ------
        DataError
            When the fit has no standard errors, because of a penalty.
        """
        pd = pandas_if_installed()

        check_alpha(alpha)
        half = self.half_widths(alpha)
        values = side_by_side(self, "coef_", "intercept_")
        low, high = values - half, values + half
        names = parameter_names(self)
        index: Any = names
        if np.ndim(self.coef_) > 1 and len(self.coef_) > 1:
            index = pd.MultiIndex.from_product(
                [class_names(self), names], names=["class", "column"]
            )
        return pd.DataFrame({"low": low.ravel(), "high": high.ravel()}, index=index)

    def half_widths(self, alpha: float = 0.05) -> Float[Array, "q l"]:
        """Return half the lengths of intervals, of the intercept and the coefficients.

        Parameters
        ----------
        alpha : float, default 0.05
            One less the level.
        """
        self._errors("coef_se_")
        errors = side_by_side(self, "coef_se_", "intercept_se_")
        return float(scipy.stats.t.ppf(1.0 - alpha / 2.0, self.dof_)) * errors


def reference_class(model: Any) -> int:
    """Return the place of the class that a model's results compare others with."""
    reference = getattr(model, "reference", None)
    return 0 if reference is None else model.classes_.tolist().index(reference)


def against_class(
    model: Any, place: int, alpha: float
) -> dict[str, Float[Array, " l"]]:
    """Return coefficients of the other classes against one, with tests and intervals.

    Parameters
    ----------
    model : estimator
        A fitted `LogisticRegression` with standard errors.
    place : int
        The class that the others are compared with.
    alpha : float
        One less the level of the intervals.

    Returns
    -------
    dict of str to (l,) array
        "coefficient", "standard_error", "z", "p", "low" and "high", by class without
        this one; of each the intercept and then the coefficients.
    """
    values = side_by_side(model, "coef_", "intercept_")
    q, width = values.shape
    # With two classes the one function is that of the second against the first.
    D = np.eye(2)[:, 1:] if q == 1 else np.eye(q)
    D = np.delete(D - D[place], place, axis=0)
    M = np.kron(D, np.eye(width))
    variances = np.einsum("ij,jk,ik->i", M, model.covariance_, M)
    values, errors = (D @ values).ravel(), np.sqrt(np.maximum(variances, 0.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        z = values / errors
    half = -float(scipy.stats.norm.ppf(alpha / 2.0)) * errors
    return {
        "coefficient": values,
        "standard_error": errors,
        "z": z,
        "p": 2.0 * scipy.stats.norm.sf(np.abs(z)),
        "low": values - half,
        "high": values + half,
    }


def has_intercept(model: Any) -> bool:
    """Return whether a fit has a common intercept, not an own one for each silo."""
    return "intercept_" in vars(model)


def side_by_side(model: Any, coef: str, intercept: str) -> Float[Array, "q l"]:
    """Return attributes of intercepts and coefficients, a row for each function.

    Parameters
    ----------
    model : estimator
        Fitted. Without a common intercept only `coef` is read.
    coef, intercept : str
        Names of the attributes, such as "coef_se_" and "intercept_se_".
    """
    slopes = np.atleast_2d(getattr(model, coef))
    if not has_intercept(model):
        return slopes
    return np.column_stack([np.atleast_1d(getattr(model, intercept)), slopes])


def parameter_names(model: Any) -> list[str]:
    """Return the names of the columns of what `side_by_side` returns."""
    return ["intercept"] * has_intercept(model) + column_names(model)


def column_names(model: Any) -> list[str]:
    """Return the names of the columns of a regression's `coef_`."""
    predictors = vars(model).get("predictors_")
    return input_names(model) if predictors is None else list(predictors)


def class_names(model: Any) -> list[str]:
    """Return the names of the rows of `coef_`; one empty name where there is one."""
    several = np.ndim(model.coef_) > 1 and len(model.coef_) > 1
    return [str(value) for value in model.classes_.tolist()] if several else [""]

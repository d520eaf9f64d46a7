"""Exponential families with the links of generalised linear models.

    η = intercept + Σ coef x + offset,   μ = g⁻¹(η),   Var(y) = φ V(μ)

    family     link       V(μ)         unit deviance / 2
    gaussian   identity   1            (y - μ)² / 2
    binomial   logit      μ (1 - μ)    y log(y / μ) + (1 - y) log((1 - y) / (1 - μ))
    poisson    log        μ            y log(y / μ) - (y - μ)
    gamma      log        μ²           -log(y / μ) + (y - μ) / μ

References
----------
McCullagh and Nelder, Generalized linear models, 2nd edition, Chapman and Hall, 1989.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, final

import numpy as np
import scipy

from unpooled.arrays import Array, Bool, Float
from unpooled.errors import DataError
from unpooled.models.regression import newton
from unpooled.protocol.step import Weighed, public

_EPS = float(np.finfo(float).eps)
# The largest linear predictor with a logarithmic link.
_FARTHEST = 32.0

Function = Callable[[Float[Array, " n"]], Float[Array, " n"]]


@final
@dataclass(frozen=True)
class Family:
    """A family with its link.

    Attributes
    ----------
    name, link : str
    mean : callable
        The inverse link: η -> μ.
    predictor : callable
        The link: μ -> η.
    slope : callable
        dμ / dη, of μ.
    variance : callable
        V(μ).
    deviance : callable
        Unit deviance of y and μ.
    allowed : callable
        Whether each response can come from the family.
    responses : str
        What responses are allowed, for errors.
    has_dispersion : bool
        Whether φ is estimated; it is 1 otherwise.
    """

    name: str
    link: str
    mean: Function
    predictor: Function
    slope: Function
    variance: Function
    deviance: Callable[[Float[Array, " n"], Float[Array, " n"]], Float[Array, " n"]]
    allowed: Callable[[Float[Array, " n"]], Bool[Array, " n"]]
    responses: str
    has_dispersion: bool

    def weights(self, mu: Float[Array, " n"]) -> Float[Array, " n"]:
        """Return how much information each row gives about its linear predictor."""
        return ratio(self.slope(mu) ** 2, self.variance(mu))

    def between(
        self, y: Float[Array, " n"], mu: Float[Array, " n"]
    ) -> Float[Array, " n"]:
        """Return the means whose working residuals a search takes its first step by.

        With a logarithmic link a step from far too small means leads to far too large
        ones. From half way to the responses it leads near the end; a response of 0
        itself would have no linear predictor.
        """
        return (y + mu) / 2 if self.link == "log" else mu

    def checked(self, y: Float[Array, " n"]) -> Float[Array, " n"]:
        """Return responses; refuse what cannot come from the family."""
        if not self.allowed(y).all():
            raise DataError(
                f"The response has other values than {self.responses}.",
                rule="response_values",
            )
        return y

    def intercept(self, y: Float[Array, " n"], eta: Float[Array, " n"]) -> float:
        """Return the most likely intercept of rows, whose linear predictors lack it."""
        if self.name == "gaussian":
            return float((y - eta).mean())
        if self.name == "gamma":
            return float(scipy.special.logsumexp(np.log(y) - eta) - np.log(len(y)))
        total = float(y.sum())
        if not 0.0 < total < (len(y) if self.name == "binomial" else np.inf):
            raise no_intercept()
        if self.name == "poisson":
            return float(np.log(total) - scipy.special.logsumexp(eta))

        def excess(a: float) -> float:
            return float(scipy.special.expit(a + eta).sum()) - total

        # With the smallest or the largest of all linear predictors in place of each.
        middle = float(scipy.special.logit(total / len(y)))
        low, high = middle - eta.max() - 1.0, middle - eta.min() + 1.0
        return float(scipy.optimize.brentq(excess, low, high, xtol=1e-14))


@final
@dataclass(frozen=True, eq=False)
class Arguments:
    """Public arguments of the steps of a generalised linear model.

    Attributes
    ----------
    mean, scale : (p,) arrays
        By which columns are standardised, predictors first.
    coef : (l,) array
        Coefficients of the standardised predictors.
    width : int
        Number of parameters of the search.
    family : str
    offset : bool
        Whether the column behind the predictors is an offset.
    """

    mean: Float[Array, " p"]
    scale: Float[Array, " p"]
    coef: Float[Array, " l"]
    width: int
    family: str
    offset: bool

    def standardised(self, rows: Float[Array, "n q"]) -> Float[Array, "n l"]:
        """Return the standardised predictors of rows."""
        k = len(self.coef)
        return (rows[:, :k] - self.mean[:k]) / self.scale[:k]

    def predictor(
        self, Z: Float[Array, "n l"], rows: Float[Array, "n q"]
    ) -> Float[Array, " n"]:
        """Return η without the intercept, of rows with these predictors."""
        eta = Z @ self.coef
        return eta + rows[:, len(self.coef)] if self.offset else eta


ARGUMENTS = {
    **newton.SCALES,
    "coef": public("l", "the coefficients of the standardised predictors"),
}


EVALUATED: dict[str, Any] = {
    "gradient": newton.GRADIENT,
    "information": newton.INFORMATION,
    "deviance": newton.DEVIANCE,
    "pearson": newton.PEARSON,
    "saturated": newton.SATURATED,
}
STARTED: dict[str, Any] = EVALUATED | {"gradient": newton.FIRST_STEP}


@final
@dataclass(frozen=True, eq=False)
class WorkingRows:
    """Predictors, responses and means of a silo's rows, and what is added of them.

    Attributes
    ----------
    family : Family
    Z : (n, m) array
        Predictors, of which each has a parameter.
    y, mu : (n,) arrays
        Responses and their means.
    about : (n,) array
        Means at which working residuals are taken: `mu`, or at the start of a search
        those of `Family.between`. Weights are those at `mu` all the same: if they
        depended on the responses, the information would be sums of products of three
        columns, of which one person may be all.
    own : bool
        Whether the rows have an own intercept besides, the most likely one. Rows are
        judged with its column then: of two who carry all the weight, each is half of
        every direction of the others about their mean, and that is both records.
    """

    family: Family
    Z: Float[Array, "n m"]
    y: Float[Array, " n"]
    mu: Float[Array, " n"]
    about: Float[Array, " n"]
    own: bool = False

    def sums(self) -> dict[str, Any]:
        """Return gradient, expected information and deviance, added over the rows."""
        residuals = [self._residuals()]
        if self.about is not self.mu:
            # Rows are judged at the model's means as well: deviance and chi-squared are
            # about these.
            residuals.append(replace(self, about=self.mu)._residuals())
        weighed = self._weighed()
        products = weighed.T @ weighed
        rows, judged = weighed, products
        if self.own:
            rows = np.column_stack([self._roots(), weighed])
            judged = rows.T @ rows
        deviance = self.family.deviance(self.y, self.mu).sum()
        # Of others one person can be nearly all: a count's mean is next to 0 far away.
        pearson = 0.0
        if self.family.has_dispersion:
            squares = (self.y - self.mu) ** 2
            pearson = ratio(squares, self.family.variance(self.mu)).sum()
        return {
            "gradient": Weighed(
                self.Z.T @ residuals[0], tuple(r[:, None] for r in residuals)
            ),
            "information": Weighed(products, (rows,), (judged,)),
            "deviance": np.array(deviance),
            "pearson": np.array(pearson),
            "saturated": np.array(_saturated(self.family.name, self.y)),
        }

    def scores(self) -> Float[Array, "n m"]:
        """Return each row's residual, divided by its variance, times its predictors."""
        return self.Z * self._residuals()[:, None]

    def _weighed(self) -> Float[Array, "n m"]:
        return self.Z * self._roots()[:, None]

    def _roots(self) -> Float[Array, " n"]:
        return np.sqrt(self.family.weights(self.mu))

    def _residuals(self) -> Float[Array, " n"]:
        """Return working responses less linear predictors, times their weights."""
        family, about = self.family, self.about
        if about is self.mu:
            slope, variance = family.slope(about), family.variance(about)
            return ratio(slope * (self.y - about), variance)
        moved = family.predictor(about) - family.predictor(self.mu)
        further = ratio(self.y - about, family.slope(about))
        return family.weights(self.mu) * (moved + further)


def _exponential(eta: Float[Array, " n"]) -> Float[Array, " n"]:
    # A step that is too long is noticed by its deviance, which must be finite.
    return np.exp(np.clip(eta, -_FARTHEST, _FARTHEST))


def _logs_of_ratios(
    y: Float[Array, " n"], mu: Float[Array, " n"]
) -> Float[Array, " n"]:
    """Return ``y log(y / μ)``, 0 where y is 0."""
    return scipy.special.xlogy(y, y) - scipy.special.xlogy(y, mu)


def _binomial(y: Float[Array, " n"], mu: Float[Array, " n"]) -> Float[Array, " n"]:
    # A probability of 0 or 1 by rounding would make the sum infinite.
    mu = np.clip(mu, _EPS, 1.0 - _EPS)
    return 2.0 * (_logs_of_ratios(y, mu) + _logs_of_ratios(1.0 - y, 1.0 - mu))


FAMILIES: Mapping[str, Family] = MappingProxyType(
    {
        family.name: family
        for family in (
            Family(
                name="gaussian",
                link="identity",
                mean=lambda eta: eta,
                predictor=lambda mu: mu,
                slope=np.ones_like,
                variance=np.ones_like,
                deviance=lambda y, mu: (y - mu) ** 2,
                allowed=np.isfinite,
                responses="finite numbers",
                has_dispersion=True,
            ),
            Family(
                name="binomial",
                link="logit",
                mean=scipy.special.expit,
                predictor=scipy.special.logit,
                slope=lambda mu: mu * (1.0 - mu),
                variance=lambda mu: mu * (1.0 - mu),
                deviance=_binomial,
                allowed=lambda y: (y >= 0.0) & (y <= 1.0),
                responses="numbers from 0 to 1",
                has_dispersion=False,
            ),
            Family(
                name="poisson",
                link="log",
                mean=_exponential,
                predictor=np.log,
                slope=lambda mu: mu,
                variance=lambda mu: mu,
                deviance=lambda y, mu: 2.0 * (_logs_of_ratios(y, mu) - (y - mu)),
                allowed=lambda y: y >= 0.0,
                responses="counts, at least 0",
                has_dispersion=False,
            ),
            Family(
                name="gamma",
                link="log",
                mean=_exponential,
                predictor=np.log,
                slope=lambda mu: mu,
                variance=lambda mu: mu**2,
                deviance=lambda y, mu: 2.0 * (-np.log(y / mu) + (y - mu) / mu),
                allowed=lambda y: y > 0.0,
                responses="numbers above 0",
                has_dispersion=True,
            ),
        )
    }
)


def no_intercept() -> DataError:
    """Return the error of a silo whose rows have no most likely intercept."""
    return DataError(
        "The silo's responses have no finite intercept of their own: a class has no "
        "row, or all responses are equal.",
        rule="own_intercept",
    )


def ratio(a: Float[Array, " n"], b: Float[Array, " n"]) -> Float[Array, " n"]:
    """Return ``a / b``, 0 where b is 0: a certain response gives no information."""
    return np.divide(a, b, out=np.zeros_like(a), where=b > 0.0)


def _saturated(family: str, y: Float[Array, " n"]) -> float:
    """Return the responses' term of a log-likelihood, beside the deviance.

    Poisson: the log-likelihood of means equal to the responses. Gamma: the sum of the
    responses' logarithms. Others need nothing.
    """
    if family == "poisson":
        logs = scipy.special.xlogy(y, y) - y - scipy.special.gammaln(y + 1.0)
        return float(logs.sum())
    return float(np.log(y).sum()) if family == "gamma" else 0.0


def log_likelihood(
    family: str, deviance: float, constant: float, N: int, dispersion: float
) -> float:
    """Return the log-likelihood of a fit.

    Parameters
    ----------
    family : str
        Name of the family.
    deviance : float
        Deviance of the fit.
    constant : float
        "saturated" of `Family.evaluated`, over all silos.
    N : int
        Sample size.
    dispersion : float
        Estimate of φ. The variance of a Gaussian is ``deviance / N`` instead, which is
        the most likely.
    """
    if family == "gaussian":
        # A perfect fit has an infinite likelihood.
        with np.errstate(divide="ignore"):
            return float(
                -0.5 * N * (np.log(2 * np.pi * np.float64(deviance) / N) + 1.0)
            )
    if family == "gamma":
        shape = 1.0 / dispersion
        # Σ log μ + y / μ = deviance / 2 + Σ log y + N.
        middle = deviance / 2 + constant + N
        each = shape * np.log(shape) - scipy.special.gammaln(shape)
        return float(N * each - shape * middle + (shape - 1.0) * constant)
    return constant - deviance / 2

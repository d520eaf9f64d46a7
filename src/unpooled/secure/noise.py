"""Noise that makes a total differentially private, and what a release costs.

    party i   x_i, integers,  + discrete Gaussian noise of variance σ² / (m - 1)
    total     Σ x_i           + noise of variance at least σ² to anyone, also to a party
                                that subtracts its own noise

The attack: an observer of totals who knows all rows but one. All values are integers,
so that floating-point rounding discloses nothing, and the noise is drawn exactly
(OpenDP). Two data sets are neighbours when one has one row more.

The account. A release of sensitivity Δ costs ``ρ = Δ² / 2σ²``. Costs of all releases
add up, also where a release is chosen after earlier answers, and a sum ρ is
(ε, δ)-differentially private where ``δ >= Φ(μ/2 - ε/μ) - exp(ε) Φ(-μ/2 - ε/μ)`` with
``μ = sqrt(2 ρ)``: what one Gaussian mechanism of that ρ is, exactly. It is also ρ of
zero-concentrated differential privacy, whose conversion takes about 9 % more noise.

Why whole numbers may be counted as Gaussian. Add to an integer y continuous noise of
variance σ² - s², then round it at random to a whole number by a discrete Gaussian of
variance s² about it. By Poisson's summation formula the result has the probabilities of
a discrete Gaussian of variance σ² about y, each to a factor of 1 ± 8 exp(-2 π² s²). The
rounding reads no row, so a discrete Gaussian is as private as the continuous one of
variance σ² - s². A sum of n discrete Gaussians has the probabilities of one of their
variances' sum, to such factors with half the variance of a share in place of s².
With s = 3 and shares of a standard deviation of 4 or more every factor is within 1e-65
of 1: over 10¹² numbers that is far less than the last digit of ε.

References
----------
Balle and Wang, Improving the Gaussian mechanism for differential privacy, ICML 2018,
theorem 8. Dong, Roth and Su, Gaussian differential privacy, JRSS B 84 (2022),
corollary 3.3, for composition; Smith and Thakurta, Fully adaptive composition for
Gaussian differential privacy, arXiv 2210.17520, for a budget over releases that are
chosen as one goes. Peikert, An efficient and parallel Gaussian sampler for lattices,
CRYPTO 2010, theorem 3.1, for sums and rounding. Canonne, Kamath and Steinke, The
discrete Gaussian for differential privacy, NeurIPS 2020.
"""

import importlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, final

import numpy as np

from unpooled.arrays import Array, Float, Int
from unpooled.errors import DataError

# Smallest standard deviation of a share: sums of such shares are discrete Gaussians.
_NARROWEST = 4.0
# s² of the rounding above, twice: entries that a symmetric array has two of get noise
# of half the variance.
_ROUNDING = 2.0 * 3.0**2
# Rounding errors of a difference of tail probabilities, as a part of the larger.
_ERROR = 1e-14
_KEYS = ("epsilon", "delta", "row_norm", "centre", "mechanism", "scale", "rounds")
# How a private PCA spends its ρ: see `unpooled.models.pca.private`.
MECHANISMS = ("scatter", "preconditioned", "power")


@final
@dataclass(frozen=True)
class GaussianPrivacy:
    """The bound on what a release reveals of one row: (ε, δ)-differential privacy.

    Parameters
    ----------
    epsilon : float
        ε. One row changes the probability of any result by a factor of at most
        ``exp(epsilon)``, apart from `delta`.
    delta : float
        δ, a probability far below one over the number of rows.
    row_norm : float
        Rows are shifted by `centre`, and those with a larger Euclidean norm are scaled
        down to it. A public constant: choose it from the meaning of the columns, not
        from the data. A row with a missing or infinite value counts as a row at the
        centre: to refuse it would reveal it.
    centre : float or sequence of float, default 0.0
        Expected location of the rows, for all columns or for each; public as well.
    mechanism : {"scatter", "preconditioned", "power"}, default "scatter"
        "scatter" releases N, mean and products in one round. "preconditioned" spends
        the same ε and δ in three: on the mean and a length, on a first covariance
        matrix, and on the products of rows that these two have shortened, which takes
        less noise; both matrices count, and columns that show little but noise are
        shrunk. Components are closer to the exact ones. Variances add up to about the
        total, but long rows count less than others in each. "power" never forms
        p × p numbers, for thousands of columns: after the mean and a length it
        multiplies the cross-products with blocks of k + 5 directions, `rounds` times.
    scale : float or sequence of float, default 1.0
        Public unit of the columns, for all or for each: cells are divided by it before
        rows are measured. For `StandardScaler`, whose columns differ in size: with
        `centre` in the middle of each column's range, half the range as `scale` and the
        root of the number of columns as `row_norm`, no row is shortened.
    rounds : int, default 4
        For the mechanism "power": how often products are summed. The number is fixed
        before, and each costs the same.

    Raises
    ------
    DataError
        When a value is out of its range.

    Notes
    -----
    Neighbouring data sets differ in one row that is there or not, in any silo.

    References
    ----------
    Balle and Wang, Improving the Gaussian mechanism for differential privacy, ICML
    2018, theorem 8: the noise that ε and δ need.

    Canonne, Kamath and Steinke, The discrete Gaussian for differential privacy, NeurIPS
    2020: its distribution.
    """

    # Any: the values come from users and files, and are checked below.
    epsilon: Any
    delta: Any
    row_norm: Any
    centre: Any = 0.0
    mechanism: Any = "scatter"
    scale: Any = 1.0
    rounds: Any = 4

    def __post_init__(self) -> None:
        centre, scale = np.asarray(self.centre, float), np.asarray(self.scale, float)
        for name, value in (("centre", centre), ("scale", scale)):
            given = value.item() if value.ndim == 0 else tuple(value.ravel().tolist())
            object.__setattr__(self, name, given)
        for name in ("epsilon", "delta", "row_norm"):
            value = getattr(self, name)
            number = isinstance(value, int | float | np.number)
            if not number or not 0 < value < math.inf or isinstance(value, bool):
                raise DataError(
                    f"GaussianPrivacy {name}={value!r}: it takes a positive number. "
                    f"The norm of rows must be public: a norm that was looked up in "
                    f"the data would disclose them."
                )
            object.__setattr__(self, name, float(value))
        if not self.delta < 1 or not np.isfinite(centre).all() or centre.ndim > 1:
            raise DataError(
                "GaussianPrivacy takes a delta below 1, and as its centre one number, "
                "or one for each column."
            )
        if scale.ndim > 1 or not np.all((scale > 1e-75) & (scale < 1e75)):
            raise DataError(
                f"GaussianPrivacy scale={self.scale!r}: it takes one number from 1e-75 "
                f"to 1e75, or one for each column."
            )
        whole = isinstance(self.rounds, int) and not isinstance(self.rounds, bool)
        if not whole or not 1 <= self.rounds <= 100:
            raise DataError(
                f"GaussianPrivacy rounds={self.rounds!r}: it takes a whole number from "
                f"1 to 100."
            )
        if self.mechanism not in MECHANISMS:
            choices = " or ".join(f'"{name}"' for name in MECHANISMS)
            raise DataError(
                f"GaussianPrivacy mechanism={self.mechanism!r}: choose {choices}."
            )
        if not is_norm(self.row_norm, centre):
            raise DataError(
                f"GaussianPrivacy row_norm={self.row_norm!r}: it takes a number from "
                f"1e-150 to 1e150, above the resolution of float64 at the centre."
            )

    def part(self, share: int | float, **others: Any) -> "GaussianPrivacy":
        """Return the privacy of one fit of several that share this (ε, δ).

        Parameters
        ----------
        share : float
            The fit's part of the cost, between 0 and 1. Fits whose shares add up to 1
            are together (ε, δ)-private: costs add up, and ε does not.
        **others
            Parameters that differ for this fit, such as `row_norm`.

        Returns
        -------
        GaussianPrivacy
            With the same δ and a smaller ε.

        Raises
        ------
        DataError
            When the share is not above 0 and at most 1, or costs less than δ allows.
        """
        if not isinstance(share, float | int) or not 0 < share <= 1:
            raise DataError(f"share={share!r}; choose a number above 0, at most 1.")
        epsilon = epsilon_of(share * rho_of(self.epsilon, self.delta), self.delta)
        if not epsilon > 0.0:
            raise DataError(f"share={share!r} of the cost is less than δ allows.")
        return replace(self, epsilon=epsilon, **others)

    @classmethod
    def of(cls, value: Any) -> "GaussianPrivacy":
        """Return `value`, or make one from the parameters of a study file.

        Raises
        ------
        DataError
            When they are not those of a `GaussianPrivacy`.
        """
        if isinstance(value, GaussianPrivacy):
            return value
        if isinstance(value, Mapping) and {*_KEYS[:3]} <= set(value) <= {*_KEYS}:
            return cls(**value)
        raise DataError(
            f"privacy={value!r} must be None or GaussianPrivacy(epsilon, delta, "
            f"row_norm, centre)."
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the parameters as a study file has them."""
        return {name: getattr(self, name) for name in _KEYS}


def is_norm(row_norm: object, centre: Float[Array, "..."]) -> bool:
    """Whether rows about a centre can be measured in units of a norm, in float64.

    Squares of the norm and of its quotients neither overflow nor vanish, and near the
    centre neighbouring numbers are closer than the norm. The silo asks this too,
    because a coordinator may send any numbers.
    """
    if not isinstance(row_norm, float) or not 2.0**-500 < row_norm < 2.0**500:
        return False
    return bool(np.all(np.abs(centre) <= 2.0**50 * row_norm))


@final
@dataclass(frozen=True)
class Noise:
    """Declares the noise of an array in a step.

    Attributes
    ----------
    sensitivity : float
        Largest change of the array by one row more, in the Euclidean norm of all its
        entries (all p × p of a symmetric one).
    share : float
        The array's share of the step's ρ; the shares of a step add up to 1.
    """

    sensitivity: int | float
    share: float

    def sigma(self, rho: float) -> float:
        """Return the standard deviation of the noise of the total, for the step's ρ."""
        continuous = self.sensitivity**2 / (2.0 * rho * self.share)
        return math.sqrt(continuous + _ROUNDING)


@lru_cache(maxsize=256)
def rho_of(epsilon: float, delta: float) -> float:
    """Return the largest ρ whose releases are together (ε, δ)-private."""
    low, high = 0.0, max(epsilon, 1.0)
    # The upper end is doubled until it exceeds (ε, δ), then halved by bisection.
    while _delta_of(epsilon, high) <= delta:
        low, high = high, 2.0 * high
    for _ in range(100):
        middle = 0.5 * (low + high)
        fits = _delta_of(epsilon, middle) <= delta
        low, high = (middle, high) if fits else (low, middle)
    # Below what the last digits of the bisection could hide.
    return low * (1.0 - 1e-12)


@lru_cache(maxsize=4096)
def epsilon_of(rho: float, delta: float) -> float:
    """Return the ε at δ of releases that cost ρ together."""
    if rho <= 0.0 or _delta_of(0.0, rho) <= delta:
        return 0.0
    # The upper bound for zero-concentrated privacy (Bun and Steinke, proposition 1.3).
    low, high = 0.0, rho + 2.0 * math.sqrt(rho * math.log(1.0 / delta))
    for _ in range(100):
        middle = 0.5 * (low + high)
        fits = _delta_of(middle, rho) <= delta
        low, high = (low, middle) if fits else (middle, high)
    return high


def _delta_of(epsilon: float, rho: float) -> float:
    """Return an upper bound of the δ at ε of a Gaussian mechanism.

    ``Φ(a) - exp(ε) Φ(-b) = φ(a) (M(-a) - M(b))`` with Mills's ratio M, where neither
    term overflows.
    """
    # Here, because simulations without privacy need not wait for it.
    from scipy.special import erfcx, ndtr

    mu = math.sqrt(2.0 * rho)
    a, b = mu / 2.0 - epsilon / mu, mu / 2.0 + epsilon / mu
    density = 0.5 * math.exp(-0.5 * a * a)
    second = density * float(erfcx(b / math.sqrt(2.0)))
    first = float(ndtr(a))
    if a < 0.0:
        first = density * float(erfcx(-a / math.sqrt(2.0)))
    return first - second + _ERROR * first


def discrete_gaussian(sigma: float, size: int) -> Int[Array, " d"]:
    """Return `size` draws of a discrete Gaussian.

    OpenDP draws them with the operating system's random generator.
    """
    if sigma < _NARROWEST:
        raise DataError(
            f"A silo's share of the noise would have a standard deviation of "
            f"{sigma:.2g}, which is too small for integers: choose a smaller epsilon, "
            f"or fewer silos."
        )
    return np.array(_drawing(sigma)([0] * size), dtype=np.int64)


def cost_of(sensitivity: int | float, sigma: float, n: int) -> float:
    """Return the ρ of a sum of n discrete Gaussians of standard deviation `sigma`.

    Parameters
    ----------
    sensitivity : float
        Largest change of the sum by one row more, in the Euclidean norm.
    sigma : float
        Standard deviation of each party's noise.
    n : int
        Number of discrete Gaussians.
    """
    continuous = n * sigma**2 - _ROUNDING
    if continuous <= 0.0:
        return math.inf
    return sensitivity**2 / (2.0 * continuous)


def check_sampler() -> None:
    """Refuse to go on where OpenDP, which draws the noise, is not installed."""
    _opendp()


@lru_cache(maxsize=32)
def _drawing(sigma: float) -> Any:
    dp = _opendp()
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64")
    return dp.m.make_gaussian(*space, scale=sigma)


def _opendp() -> Any:
    try:
        dp: Any = importlib.import_module("opendp.prelude")
    except ImportError:
        raise DataError(
            "Differential privacy draws its noise with OpenDP, which is not installed. "
            "Install it with: pip install 'unpooled[dp]'."
        ) from None
    dp.enable_features("contrib")
    return dp

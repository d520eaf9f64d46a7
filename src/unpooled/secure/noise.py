"""Differential privacy: discrete Gaussian noise in a total, and its cost.

    party i   x_i, integers,  + discrete Gaussian noise of variance σ² / (m - 1)
    total     Σ x_i           + noise of variance at least σ² to anyone, also to a party
                                that subtracts its own noise

The attack: an observer of totals who knows all rows but one. All values are integers,
so that floating-point rounding discloses nothing, and the noise is drawn exactly
(OpenDP). A release of sensitivity Δ costs ``ρ = Δ² / 2σ²`` in zero-concentrated
differential privacy, in which costs add up; OpenDP converts a sum of them into (ε, δ).
Two data sets are neighbours when one has one row more.

A sum of discrete Gaussians is not a discrete Gaussian. The difference has a bound that
is negligible when the standard deviation of every share is well above 1; smaller ones
are refused.

References
----------
Canonne, Kamath and Steinke, The discrete Gaussian for differential privacy, NeurIPS
2020. Kairouz, Liu and Steinke, The distributed discrete Gaussian mechanism for
federated learning with secure aggregation, ICML 2021, theorem 1 and proposition 13.
"""

import importlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, final

import numpy as np

from unpooled.arrays import Array, Float, Int
from unpooled.errors import DataError

# One unit of sensitivity in OpenDP's integers.
_UNIT = 10**6
# With shares of at least this standard deviation, the difference is about 1e-60.
_NARROWEST = 4.0
_KEYS = ("epsilon", "delta", "row_norm", "centre", "mechanism")
# How a private PCA spends its ρ: see `unpooled.models.pca.private`.
MECHANISMS = ("scatter", "preconditioned")


@final
@dataclass(frozen=True)
class GaussianPrivacy:
    """The bound on what a release discloses about one row: (ε, δ)-differential privacy.

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
        centre: to refuse it would disclose it.
    centre : float or sequence of float, default 0.0
        Expected location of the rows, for all columns or for each; public as well.
    mechanism : {"scatter", "preconditioned"}, default "scatter"
        "scatter" releases N, mean and products in one round. "preconditioned" spends
        the same ε and δ in three: on the mean and a length, on a first covariance
        matrix, and on the products of rows that these two have shortened, which takes
        less noise. Components are closer to the exact ones; variances are too small,
        because rows longer than the length found are clipped to it.

    Notes
    -----
    Neighbouring data sets differ in one row that is there or not, in any silo.
    """

    # Any: the values come from users and files, and are checked below.
    epsilon: Any
    delta: Any
    row_norm: Any
    centre: Any = 0.0
    mechanism: Any = "scatter"

    def __post_init__(self) -> None:
        centre = np.asarray(self.centre, dtype=float)
        given = centre.item() if centre.ndim == 0 else tuple(centre.ravel().tolist())
        object.__setattr__(self, "centre", given)
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

    @classmethod
    def of(cls, value: Any) -> "GaussianPrivacy":
        """Return `value`, or make one from the parameters of a study file."""
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

    sensitivity: float
    share: float

    def sigma(self, rho: float) -> float:
        """Return the standard deviation of the noise of the total, for the step's ρ."""
        return self.sensitivity / math.sqrt(2.0 * rho * self.share)


@lru_cache(maxsize=256)
def rho_of(epsilon: float, delta: float) -> float:
    """Return the largest ρ of zero-concentrated privacy that implies (ε, δ)."""
    low, high = 0.0, epsilon
    # The upper end is doubled until it exceeds (ε, δ), then halved by bisection.
    while epsilon_of(high, delta) <= epsilon:
        low, high = high, 2.0 * high
    for _ in range(50):
        middle = 0.5 * (low + high)
        fits = epsilon_of(middle, delta) <= epsilon
        low, high = (middle, high) if fits else (low, middle)
    return low


def epsilon_of(rho: float, delta: float) -> float:
    """Return the ε at δ of a release that costs ρ, by OpenDP's conversion."""
    if rho <= 0.0:
        return 0.0
    dp = _opendp()
    space = dp.atom_domain(T="i64"), dp.absolute_distance(T="i64")
    gaussian = dp.m.make_gaussian(*space, scale=_UNIT / math.sqrt(2.0 * rho))
    curve = dp.c.make_zCDP_to_approxDP(gaussian).map(_UNIT)
    return float(curve.epsilon(delta))


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


def concentrated_cost(
    sensitivity: float, sigma: float, n: int, d: int, grid: float = 1.0
) -> float:
    """Return the ρ of a sum of n discrete Gaussians of standard deviation `sigma`.

    It is half the square of the smaller of two bounds. One discrete Gaussian of the
    same variance would cost ``sensitivity² / (2 n sigma²)``.

    Parameters
    ----------
    sensitivity : float
        Largest change of the sum by one row more, in the Euclidean norm.
    sigma : float
        Standard deviation of each party's noise.
    n : int
        Number of discrete Gaussians.
    d : int
        Number of entries.
    grid : float, default 1.0
        Largest distance between neighbouring values of an entry.
    """
    wide = 2.0 * (math.pi * sigma / grid) ** 2
    tau = 10.0 * sum(math.exp(-wide * k / (k + 1)) for k in range(1, n))
    single = sensitivity / (math.sqrt(n) * sigma)
    bound = min(math.sqrt(single**2 + 0.5 * tau * d), single + tau * math.sqrt(d))
    return 0.5 * bound**2


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

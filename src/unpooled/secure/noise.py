"""Differential privacy: noise of one Gaussian in a total, and what it costs.

    party i   its total, whole numbers + discrete Gaussian of σ² / (m - 1) ── masks ──>
    total     the exact total          + noise of at least σ², whichever one is known

Every value is a whole number, so no rounding of float64 gives anything away, and the
noise is drawn exactly (OpenDP). A release of sensitivity Δ costs ``ρ = Δ² / 2σ²`` in
zero-concentrated differential privacy, where costs add up; OpenDP turns a sum of them
into (ε, δ). Two data sets are neighbours when one has one row more.

A sum of discrete Gaussians is not one itself. By how much it is worse has a bound,
which is negligible when every share is wide beside 1; a narrower one is refused.

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

from unpooled.arrays import Array, Int
from unpooled.errors import DataError

# OpenDP counts in whole numbers too: one unit of sensitivity in its terms.
_UNIT = 10**6
# Shares at least this wide make the sum as good as one Gaussian, to 1e-60 or so.
_NARROWEST = 4.0
_KEYS = ("epsilon", "delta", "row_norm", "centre")


@final
@dataclass(frozen=True)
class GaussianPrivacy:
    """How much one row may show in what is released: (ε, δ)-differential privacy.

    Parameters
    ----------
    epsilon : float
        ε: by ``exp(epsilon)`` at most may a row change the odds of anything released,
        but for
    delta : float
        δ, a probability far below one over the number of rows.
    row_norm : float
        Rows are shifted by `centre`, and those longer than this are shortened to it. A
        constant that owes nothing to the data: choose it from what the columns mean.
    centre : float or sequence of float, default 0.0
        Where rows are expected to lie, for all columns or for each; as public.

    Notes
    -----
    Neighbouring data sets differ in one row that is there or not, in any silo.
    """

    # Any: they come from users and files, and are checked below.
    epsilon: Any
    delta: Any
    row_norm: Any
    centre: Any = 0.0

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
                    f"The norm of rows must be public: nothing private follows from "
                    f"one that was looked up in the data."
                )
            object.__setattr__(self, name, float(value))
        if not self.delta < 1 or not np.isfinite(centre).all() or centre.ndim > 1:
            raise DataError(
                "GaussianPrivacy takes a delta below 1, and a centre of numbers: one, "
                "or one for each column."
            )

    @classmethod
    def of(cls, value: Any) -> "GaussianPrivacy":
        """Return it from itself, or from its parameters, as a study file has them."""
        if isinstance(value, GaussianPrivacy):
            return value
        if isinstance(value, Mapping) and {*_KEYS[:3]} <= set(value) <= {*_KEYS}:
            return cls(**value)
        raise DataError(
            f"privacy={value!r} must be None or GaussianPrivacy(epsilon, delta, "
            f"row_norm, centre)."
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the parameters, for files."""
        return {name: getattr(self, name) for name in _KEYS}


@final
@dataclass(frozen=True)
class Noise:
    """What a step says of an array that leaves with noise in it.

    Attributes
    ----------
    sensitivity : float
        How far one row more can move it, in the Euclidean norm: of a symmetric array
        all p × p entries count.
    share : float
        Of the step's ρ; the shares of a step's arrays add up to 1.
    """

    sensitivity: float
    share: float

    def sigma(self, rho: float) -> float:
        """Return the standard deviation of the whole noise, at the step's ρ."""
        return self.sensitivity / math.sqrt(2.0 * rho * self.share)


@lru_cache(maxsize=256)
def rho_of(epsilon: float, delta: float) -> float:
    """Return the ρ of zero-concentrated privacy that (ε, δ) has room for."""
    low, high = 0.0, epsilon
    # ρ = ε is more than enough for any δ < 1 / 2, say; the bisection ends below.
    while epsilon_of(high, delta) <= epsilon:
        low, high = high, 2.0 * high
    for _ in range(50):
        middle = 0.5 * (low + high)
        fits = epsilon_of(middle, delta) <= epsilon
        low, high = (middle, high) if fits else (low, middle)
    return low


def epsilon_of(rho: float, delta: float) -> float:
    """Return the ε at δ of something that costs ρ, by OpenDP's conversion."""
    if rho <= 0.0:
        return 0.0
    dp = _opendp()
    space = dp.atom_domain(T="i64"), dp.absolute_distance(T="i64")
    gaussian = dp.m.make_gaussian(*space, scale=_UNIT / math.sqrt(2.0 * rho))
    curve = dp.c.make_zCDP_to_approxDP(gaussian).map(_UNIT)
    return float(curve.epsilon(delta))


def discrete_gaussian(sigma: float, size: int) -> Int[Array, " d"]:
    """Return `size` draws from whole numbers, with the weights of a Gaussian.

    The draws come from the operating system's generator, through OpenDP.
    """
    if sigma < _NARROWEST:
        raise DataError(
            f"A share of noise with a standard deviation of {sigma:.2g} is too narrow "
            f"for whole numbers: ask for a smaller epsilon, or of fewer silos."
        )
    return np.array(_drawing(sigma)([0] * size), dtype=np.int64)


def concentrated_cost(
    sensitivity: float, sigma: float, n: int, d: int, grid: float = 1.0
) -> float:
    """Return the ρ of a sum of n discrete Gaussians of `sigma` each, d numbers.

    Half the square of the smaller of the two bounds; of one exact discrete Gaussian of
    the same variance it is ``sensitivity² / (2 n sigma²)``. `grid` is the widest
    distance of neighbouring values, where they are not whole numbers but multiples.
    """
    wide = 2.0 * (math.pi * sigma / grid) ** 2
    tau = 10.0 * sum(math.exp(-wide * k / (k + 1)) for k in range(1, n))
    one = sensitivity / (math.sqrt(n) * sigma)
    bound = min(math.sqrt(one**2 + 0.5 * tau * d), one + tau * math.sqrt(d))
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
            "Differential privacy draws its noise with OpenDP: install the extra, "
            "pip install 'unpooled[dp]'."
        ) from None
    dp.enable_features("contrib")
    return dp

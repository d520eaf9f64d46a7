"""Maximum likelihood factor analysis of a covariance matrix.

With R = Λ Λᵀ + Ψ the best loadings for given Ψ follow from the eigenvalues of
``Ψ^(-1/2) R Ψ^(-1/2)``, so that the likelihood is a function of Ψ alone:

    f(Ψ) = Σ (λ_m - log λ_m - 1)   over the p - k smallest eigenvalues λ_m

It is minimised over log Ψ by a quasi-Newton method within bounds, then by Newton's
method with the exact second derivatives to the last digits.

References
----------
Jöreskog, Some contributions to maximum likelihood factor analysis, Psychometrika 32
(1967). Lawley and Maxwell, Factor Analysis as a Statistical Method, 2nd edition, 1971.
"""

from dataclasses import dataclass
from typing import final

import numpy as np
import scipy

from unpooled.arrays import Array, Bool, Float
from unpooled.errors import ConvergenceError
from unpooled.linalg.eigen import leading_eigenpairs
from unpooled.linalg.settled import Arrays, near, settled

# Largest gradient of the likelihood, per row and in log Ψ, of a converged solution.
_STATIONARY = 1e-9
_NEWTON_STEPS = 30
# A discrepancy below this is rounding: the model fits the correlations exactly.
_PERFECT = 1e-13
# Relative rounding of f, of correlation matrices with condition numbers up to 1e6.
_ROUNDING = 1e-9
# A uniqueness this near to its bound, relatively, is at it.
_AT_BOUND = 1e-6
_WORST = 1e6


@final
@dataclass(frozen=True, eq=False)
class Factors:
    """Unrotated factors of a correlation matrix.

    Attributes
    ----------
    loadings : (p, k) array
        Λ, in descending order of the factors' eigenvalues; in each factor the loading
        of largest magnitude is positive.
    uniqueness : (p,) array
        Ψ, the share of each column's variance that the factors do not explain.
    at_bound : (p,) array of bool
        Which of them are at their lower bound: Heywood cases.
    discrepancy : float
        f at the minimum; N f is the likelihood ratio statistic.
    log_determinant : float
        log|R|.
    """

    loadings: Float[Array, "p k"]
    uniqueness: Float[Array, " p"]
    at_bound: Bool[Array, " p"]
    discrepancy: float
    log_determinant: float


def maximum_likelihood(
    R: Float[Array, "p p"], inverse: Float[Array, "p p"], k: int, lower: float
) -> Factors:
    """Return the factors of largest likelihood.

    Parameters
    ----------
    R : (p, p) array
        A correlation matrix, not singular.
    inverse : (p, p) array
        Inverse of R.
    k : int
        Number of factors, with ``(p - k)² >= p + k``.
    lower : float
        Smallest uniqueness, above 0.

    Raises
    ------
    ConvergenceError
        When no stationary point was found.
    """
    guess = (1.0 - 0.5 * k / len(R)) / inverse.diagonal()

    def solve() -> Arrays:
        starts = [guess, np.full(len(R), 0.5)]
        found = [
            _minimised(R, np.log(np.clip(s, lower, 1.0)), k, lower) for s in starts
        ]
        theta, slack = min(found, key=lambda one: _value(R, one[0], k)[0])
        return {"uniqueness": np.exp(theta), "slack": np.array(slack)}

    def accept(found: Arrays, own: Arrays) -> bool:
        unit = own["uniqueness"] * float(own["slack"])
        return near(found["uniqueness"], own["uniqueness"], unit)

    psi = settled("factor analysis", solve, accept)["uniqueness"]
    root = np.sqrt(psi)
    values, V = leading_eigenpairs(R / root / root[:, None], len(R), k)
    rest = values[k:]
    loadings = V * np.sqrt(np.maximum(values[:k] - 1.0, 0.0)) * root[:, None]
    return Factors(
        # Scaled by the uniqueness, another loading may be the largest.
        loadings * np.where(_peaks(loadings) < 0, -1.0, 1.0),
        psi,
        psi <= lower * (1.0 + _AT_BOUND),
        float(np.add.reduce(rest - np.log(rest) - 1.0)),
        float(np.add.reduce(np.log(psi)) + np.add.reduce(np.log(values))),
    )


def _peaks(L: Float[Array, "p k"]) -> Float[Array, " k"]:
    return np.take_along_axis(L, np.abs(L).argmax(axis=0)[None], axis=0)[0]


def _value(
    R: Float[Array, "p p"], theta: Float[Array, " p"], k: int
) -> tuple[float, Float[Array, " p"]]:
    """Return f and its gradient in θ = log Ψ."""
    root = np.exp(theta / 2)
    values, U = scipy.linalg.eigh(R / root / root[:, None])
    values, U = values[: len(R) - k], U[:, : len(R) - k]
    f = float(np.sum(values - np.log(values) - 1.0))
    return f, (U**2) @ (1.0 - values)


def _hessian(
    R: Float[Array, "p p"], theta: Float[Array, " p"], k: int
) -> Float[Array, "p p"]:
    """Return the second derivatives of f in θ."""
    root, r = np.exp(theta / 2), len(R) - k
    values, U = scipy.linalg.eigh(R / root / root[:, None])
    rest, V = values[:r], U[:, :r]
    H = (V @ V.T) * ((V * rest) @ V.T)
    for n in range(r, len(R)):
        weight = (1.0 - rest) * (rest + values[n]) / (rest - values[n])
        H -= np.outer(U[:, n], U[:, n]) * ((V * weight) @ V.T)
    return H


def _minimised(
    R: Float[Array, "p p"], start: Float[Array, " p"], k: int, lower: float
) -> tuple[Float[Array, " p"], float]:
    """Return the minimum from a start, and how far rounding can move it."""
    bounds = [(np.log(lower), 1.0)] * len(R)
    found = scipy.optimize.minimize(
        lambda theta: _value(R, theta, k),
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        options={"maxiter": 5000, "maxfun": 20_000, "ftol": 1e-15, "gtol": 1e-10},
    )
    theta, low = found.x, np.log(lower)
    slack = 1.0
    for _ in range(_NEWTON_STEPS):
        f, g = _value(R, theta, k)
        if f <= _PERFECT:
            break
        free = (theta > low + _AT_BOUND) | (g < 0)
        H = _hessian(R, theta, k)[np.ix_(free, free)]
        curvature = scipy.linalg.eigvalsh(H) if free.any() else np.ones(1)
        if curvature[0] <= 0:
            break  # not yet near a minimum, or on a ridge
        slack = float(curvature[-1] / curvature[0])
        step = np.zeros(len(R))
        step[free] = scipy.linalg.solve(H, -g[free], assume_a="pos")
        new = np.maximum(theta + step, low)
        at, slope = _value(R, new, k)
        # Small eigenvalues leave f fewer digits than its gradient, which therefore
        # decides where two values of f differ by rounding.
        nearer = _slope(new, slope, low) < _slope(theta, g, low)
        if at > f + _ROUNDING * (1.0 + f) or not (at < f or nearer):
            break
        moved, theta = np.abs(new - theta).max(), new
        if moved <= 1e-14:
            break
    theta = np.where(theta <= low + _AT_BOUND, low, theta)
    f, g = _value(R, theta, k)
    if f <= _PERFECT:
        return theta, _WORST  # uncorrelated columns fit along a ridge
    if (steepest := _slope(theta, g, low)) > _STATIONARY:
        raise ConvergenceError(
            "The likelihood of the factor model has no sharp maximum: its gradient "
            f"stayed at {steepest:.1e}. Choose fewer factors."
        )
    return theta, min(slack, _WORST)


def _slope(theta: Float[Array, " p"], g: Float[Array, " p"], low: float) -> float:
    """Return the largest derivative of f along which it could still decrease."""
    return float(np.abs(np.where(theta > low, g, np.minimum(g, 0.0))).max())

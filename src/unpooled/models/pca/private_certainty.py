"""Standard errors of components of noisy cross-products, and what they can detect.

    C_noisy = C + noise     covariance matrix of N rows, noise of a size that is public

For "scatter". In the basis of the components, with the noise deviations s_N of N, s_T
of each sum and τ of each product off the diagonal (√2 τ on it), and the mean's
distances m_j from the public centre along component j, the entries of C_noisy have the
noise, to first order,

    entry j, j   (2 τ² + 4 m_j² s_T² + (m_j² - λ_j)² s_N²) / N²
    entry i, j   (τ² + (m_i² + m_j²) s_T² + m_i² m_j² s_N²) / N²

because ``C = (S - T Tᵀ / N) / (N - 1)`` of noisy S, T and N. Rows add to these, where
they are normal, ``2 λ_j² / N`` and ``λ_i λ_j / N`` (Anderson 1963). With v_ij for the
sum of both, first-order perturbation gives

    var(λ_j) = v_jj       var(component j) = Σ_i v_ij / (λ_j - λ_i)² w_i w_iᵀ

over the other components w_i. The second order does not vanish on average: noise in
many directions adds ``Σ_i noise_ij / (λ_j - λ_i)`` to a variance, over the variances as
they came. For large p that is the exact relation of an outlier to noise of equal
variance in all directions (Capitaine, Donati-Martin and Féral 2009): it is
`explained_variance_bias_`, and intervals are about the variance less this. Components
turn away from their counterparts likewise: on average their loadings are those of the
population times ``sqrt(1 - Σ_i v_ij / (λ_j - λ_i)²)``, by which intervals are moved.

What is detected. With noise, the variances of two components of equal variance differ
by a Rayleigh distributed number, those with a gap g by a Rice distributed one, both of
the deviation 2 sqrt(τ² / N² + λ² / N) (2 × 2 blocks of the noise). The largest variance
of noise alone is 2 sqrt(p) τ / N, with Tracy-Widom fluctuations.

References
----------
Anderson, Asymptotic theory for principal component analysis, Annals of Mathematical
Statistics 34 (1963), equations 2.11 and 2.13. Capitaine, Donati-Martin and Féral, The
largest eigenvalues of finite rank deformation of large Wigner matrices, Annals of
Probability 37 (2009), theorem 2.1. Tracy and Widom, On orthogonal and symplectic matrix
ensembles, Communications in Mathematical Physics 177 (1996).
"""

import math
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.linalg.settled import product
from unpooled.results.formats import number

# A component is taken for one where its variance is this many times the noise edge:
# half of what noise leaves of its direction is then its own, and first orders hold.
SEEN = 1.25
# Neighbours closer than this share of the larger, or than so many deviations of their
# distance (the 95 % quantile of a Rayleigh distribution), may rotate into each other.
_GAP, _RAYLEIGH_95 = 0.2, 2.4477468
# The distance, in the same deviations, that is beyond it with a probability of 80 %.
_RICE_80 = 3.1039795
# 95 % quantile of the Tracy-Widom distribution (β = 1); and of a normal one, 80 %.
_TRACY_WIDOM_95, _NORMAL_80 = 0.9793, 0.8416212


@final
@dataclass(frozen=True)
class NoiseOfMoments:
    """Standard deviations of the noise of totals, in units of the data.

    Attributes
    ----------
    count, sums, products : float
        Of N, of each column sum, and of each cross-product off the diagonal.
    """

    count: float
    sums: float
    products: float


def private_errors(
    variance: Float[Array, " p"],
    axes: Float[Array, "p q"],
    k: int,
    N: int,
    shift: Float[Array, " p"],
    noise: NoiseOfMoments,
) -> dict[str, Any]:
    """Return standard errors and subspaces of k components, as fitted attributes.

    Parameters
    ----------
    variance : (p,) array
        All eigenvalues, in descending order, of which some are negative.
    axes : (p, q) array
        The first components, in columns. The others count with the means over all of
        them: noise turns them anyway.
    k : int
        Number of components wanted, at most q.
    N : int
        Sample size.
    shift : (p,) array
        Mean, less the public centre.
    noise : NoiseOfMoments
        Of the totals.
    """
    p, q = axes.shape
    m2 = np.zeros(p)
    m2[:q] = product(axes.T, shift[:, None])[:, 0] ** 2
    beyond = np.maximum(1.0 - np.add.reduce(axes**2, axis=1), 0.0)
    if q < p:
        rest = float(np.add.reduce(shift**2)) - float(np.add.reduce(m2))
        m2[q:] = max(rest, 0.0) / (p - q)
    # Row j has the noise of the entries (j, i), for the k components j.
    of_noise = noise.products**2 + (m2[:k, None] + m2) * noise.sums**2
    of_noise = (of_noise + m2[:k, None] * m2 * noise.count**2) / N**2
    gaps = variance[:k, None] - variance
    gaps[np.arange(k), np.arange(k)] = np.inf
    with np.errstate(divide="ignore"):
        added = np.add.reduce(of_noise / gaps, axis=1) - noise.sums**2 / N**2
    edge = 2.0 * math.sqrt(p) * noise.products / N
    seen = variance[:k] > SEEN * edge
    own = variance.copy()
    own[:k] = np.where(seen, variance[:k] - added, variance[:k])
    own = np.maximum(own, 0.0)
    along = 2.0 * noise.products**2 + 4.0 * m2[:k] * noise.sums**2
    along = (along + (m2[:k] - own[:k]) ** 2 * noise.count**2) / N**2
    of_variance = np.sqrt(along + 2.0 * own[:k] ** 2 / N)
    # Components of noise alone stay at the values that they came with.
    distances = own[:k, None] - np.where(np.arange(p) < k, own, variance)
    first, last = _subspaces(own, k, of_variance / math.sqrt(2.0))
    inside = (np.arange(p) >= first[:, None]) & (np.arange(p) <= last[:, None])
    with np.errstate(divide="ignore", invalid="ignore"):
        turned = (of_noise + own[:k, None] * own / N) / distances**2
    turned = np.where(inside, 0.0, turned)
    away = np.add.reduce(turned, axis=1)
    lost = np.minimum(away, 1.0)
    squared = product(turned[:, :q], (axes**2).T)
    if q < p:
        squared += np.add.reduce(turned[:, q:], axis=1)[:, None] / (p - q) * beyond
    error = np.sqrt(squared)
    determined = seen & (first == last)
    return {
        "explained_variance_se_": np.where(seen, of_variance, np.nan),
        "explained_variance_bias_": np.where(seen, added, np.nan),
        "components_se_": np.where(determined[:, None], error, np.nan),
        "angle_se_": np.where(seen, np.arcsin(np.sqrt(lost)), np.nan),
        "subspaces_": np.stack([first, last], axis=1),
    }


def _subspaces(
    values: Float[Array, " p"], k: int, deviation: Float[Array, " k"]
) -> tuple[Array, Array]:
    """Return the first and last component of the subspace that each of k lies in.

    `deviation` is that of an entry off the diagonal; two of them make the distance of
    two components, twice.
    """
    most = min(k + 1, len(values))
    gaps = values[: most - 1] - values[1:most]
    near = gaps < _GAP * values[: most - 1]
    near |= gaps < 2.0 * _RAYLEIGH_95 * deviation[: most - 1]
    group = np.concatenate([[0], np.cumsum(~near)])[:most]
    first = np.searchsorted(group, group[:k], side="left")
    return first, np.searchsorted(group, group[:k], side="right") - 1


def smallest_variance(p: int, N: int, noise: NoiseOfMoments) -> float:
    """Return the variance of a component that is detected with 80 % probability.

    It is detected where the largest variance with noise exceeds the 95 % quantile of
    that of noise alone. With ω = sqrt(p) τ / N a component of variance λ > ω shows
    ``λ + ω² / λ``, with a standard deviation of ``τ / N sqrt(2 (1 - ω² / λ²))``.
    """
    tau, omega = noise.products / N, math.sqrt(p) * noise.products / N
    limit = 2.0 * omega + _TRACY_WIDOM_95 * tau * p ** (-1.0 / 6.0)
    low, high = omega, 10.0 * (omega + tau)
    for _ in range(60):
        middle = 0.5 * (low + high)
        spread = tau * math.sqrt(2.0 * max(1.0 - (omega / middle) ** 2, 0.0))
        below = middle + omega**2 / middle - _NORMAL_80 * spread < limit
        low, high = (middle, high) if below else (low, middle)
    return high


def smallest_gap(N: int, noise: NoiseOfMoments, variance: float = 0.0) -> float:
    """Return the difference of two variances that is detected with 80 % probability.

    Of two components of about this `variance` each; without one, as far as noise alone
    decides it.
    """
    deviation = 2.0 * math.sqrt((noise.products / N) ** 2 + variance**2 / N)
    return _RICE_80 * deviation


def what_is_seen(p: int, N: int, noise: NoiseOfMoments, m: int, epsilon: float) -> str:
    """Return a sentence on what a fit with this noise can detect."""
    return (
        f"PCA with noise: with {N:,} rows, {p:,} columns, {m} silos and ε = "
        f"{epsilon:.3g} a component is detected, with 80 % probability, where its "
        f"variance is above {number(smallest_variance(p, N, noise))}, and two are "
        f"distinguished where their variances differ by more than "
        f"{number(smallest_gap(N, noise))}. Noise gives a loading a standard error of "
        f"{number(noise.products / N)} over the distance of its component's variance "
        f"from the others."
    )

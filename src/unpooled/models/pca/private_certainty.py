"""Standard errors of components of noisy cross-products, and what they can detect.

    C_noisy = C + noise     covariance matrix of N rows, noise of a size that is public

For "scatter", and for "preconditioned" as far as it clips no rows. In the basis of the
components, with the noise deviations s_N of N, s_T of each sum and τ of each product
off the diagonal (√2 τ on it), and the mean's distances m_j from the public centre along
component j, the entries of C_noisy have the noise, to first order,

    entry j, j   (2 τ² + 4 m_j² s_T² + (m_j² - λ_j)² s_N²) / N²
    entry i, j   (τ² + (m_i² + m_j²) s_T² + m_i² m_j² s_N²) / N²

because ``C = (S - T Tᵀ / N) / (N - 1)`` of noisy S, T and N.

By "preconditioned" the last round has the products of rows M x, whose noise does not
depend on M, and ``C = M⁻¹ C_Mx M⁻¹``. So noise is multiplied by ``a_j = M⁻¹ w_j`` from
both sides. With m the mean of the rows M x less the point that was subtracted, and
``m_j = a_j m``, the entries of C_noisy have the noise

    entry i, j   (τ² (‖a_i‖² ‖a_j‖² + (a_i a_j)²)
                  + s_T² (‖a_i‖² m_j² + ‖a_j‖² m_i² + 2 (a_i a_j) m_i m_j)
                  + s_N² (m_i m_j - λ_j [i = j])²) / N²

which is the above for M = 1. Entries of one row are correlated where the a_i are not
orthogonal, and `_Entries.of_loadings` has these covariances. M was found from the same
rows, but does not matter for their part: without noise C is their covariance matrix
whatever M is.

Rows add to these, where they are normal, ``2 λ_j² / N`` and ``λ_i λ_j / N`` (Anderson
1963). With v_ij for the sum of both, first-order perturbation gives

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

Where rows are clipped there are bounds in place of standard errors. Let S be the mean
of the squares and products of the rows' deviations from the printed mean. Clipping
shortens a row, so that what silos add up, ``Wᵀ S_clipped W`` for orthonormal W, is at
most ``Wᵀ S W``: the difference has no negative eigenvalue. If W does not depend on the
noise E of that round, then by Weyl and Cauchy, for all j together,

    λ_j(S) >= λ_j(Wᵀ (S_clipped + noise) W) - λ_max(E)

and the sum of all λ_j is the mean square length of the rows, which the first round has.
What the lower bounds leave of it bounds each from above. For a p × l block of noise of
deviation σ, ``λ_max(E) <= σ (sqrt(2 l) + t)``, and for products of rows M x, of
deviation τ, with ``B = M⁻¹ W``, ``λ_max(E) <= τ (2 ‖B‖ ‖B‖_F + sqrt(2) t ‖B‖²)``: the
means by Slepian's comparison, and ``exp(-t² / 2)`` for a function of normal numbers
that no change of these moves by more than its length times σ, or ``sqrt(2) τ ‖B‖²``.

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
import scipy

from unpooled.arrays import Array, Bool, Float
from unpooled.linalg.eigen import symmetric_eigenpairs
from unpooled.linalg.settled import product
from unpooled.models.pca.spectrum import runs_of
from unpooled.results.formats import number
from unpooled.secure.noise import GaussianPrivacy

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
# exp(-t² / 2) is 0.025 at this t.
_OF_LARGEST = 2.7162


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
    stretch: Float[Array, "p p"] | None = None,
    seen: Bool[Array, " k"] | None = None,
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
        Mean, less the public centre; with `stretch` that of the multiplied rows, less
        the point that was subtracted.
    noise : NoiseOfMoments
        Noise of the totals.
    stretch : (p, p) array, optional
        M⁻¹, where totals are of rows M x. All p components are then in `axes`.
    seen : (k,) array of bool, optional
        Which components stand out from the noise; by default those above `SEEN` times
        the edge of noise that is the same in all directions.
    """
    p, q = axes.shape
    entries = _Entries.of(axes, k, shift, noise, stretch)
    beyond = np.maximum(1.0 - np.add.reduce(axes**2, axis=1), 0.0)
    of_noise = entries.beside / N**2
    gaps = variance[:k, None] - variance
    gaps[np.arange(k), np.arange(k)] = np.inf
    with np.errstate(divide="ignore"):
        added = np.add.reduce(of_noise / gaps, axis=1) - entries.of_mean / N**2
    if seen is None:
        edge = 2.0 * math.sqrt(p) * noise.products / N
        seen = variance[:k] > SEEN * edge
    own = variance.copy()
    own[:k] = np.where(seen, variance[:k] - added, variance[:k])
    own = np.maximum(own, 0.0)
    along = entries.along + (entries.squares - own[:k]) ** 2 * noise.count**2
    along = along / N**2
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
    if stretch is not None:
        # In place of what it would be if entries were uncorrelated.
        weights = np.where(inside, 0.0, 1.0 / np.where(inside, 1.0, distances))
        squared = entries.of_loadings(weights) / N**2
        of_rows = weights**2 * own[:k, None] * own / N
        squared += product(of_rows, (axes**2).T)
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


@final
@dataclass(frozen=True, eq=False)
class _Entries:
    """Variances of the noise of ``N C_noisy`` in the basis of the components.

    Attributes
    ----------
    beside : (k, p) array
        Values of the entries (j, i) of k rows; what stands at i = j is left out of all
        sums.
    along : (k,) array
        Values of the entries (j, j), but for the part of N's noise.
    squares : (k,) array
        m_j².
    of_mean : (k,) array
        What ``T Tᵀ`` of noisy sums T takes off a variance on average, times N².
    """

    beside: Float[Array, "k p"]
    along: Float[Array, " k"]
    squares: Float[Array, " k"]
    of_mean: Float[Array, " k"]
    axes: Float[Array, "p q"]
    turned: Float[Array, "p q"] | None
    m: Float[Array, " p"]
    noise: NoiseOfMoments

    @classmethod
    def of(
        cls,
        axes: Float[Array, "p q"],
        k: int,
        shift: Float[Array, " p"],
        noise: NoiseOfMoments,
        stretch: Float[Array, "p p"] | None,
    ) -> "_Entries":
        p, q = axes.shape
        m, turned = np.zeros(p), None
        if stretch is None:
            m[:q] = product(axes.T, shift[:, None])[:, 0]
            if q < p:
                rest = float(np.add.reduce(shift**2)) - float(np.add.reduce(m**2))
                m[q:] = math.sqrt(max(rest, 0.0) / (p - q))
            lengths, inner = np.ones(p), np.zeros((k, p))
            inner[np.arange(k), np.arange(k)] = 1.0
        else:
            turned = product(stretch, axes)
            m[:] = product(turned.T, shift[:, None])[:, 0]
            lengths = np.add.reduce(turned**2, axis=0)
            inner = product(turned[:, :k].T, turned)
        own, m_own = lengths[:k, None], m[:k, None]
        products = own * lengths + inner**2
        sums = lengths * m_own**2 + own * m**2 + 2.0 * inner * m_own * m
        beside = products * noise.products**2 + sums * noise.sums**2
        diagonal = np.arange(k), np.arange(k)
        return cls(
            beside=beside + m_own**2 * m**2 * noise.count**2,
            along=beside[diagonal],
            squares=m[:k] ** 2,
            of_mean=lengths[:k] * noise.sums**2,
            axes=axes,
            turned=turned,
            m=m,
            noise=noise,
        )

    def of_loadings(self, weights: Float[Array, "k p"]) -> Float[Array, "k p"]:
        """Return variances of ``Σ_i weights_ji noise_ij w_i``, times N²."""
        assert self.turned is not None
        found, noise = np.empty(weights.shape), self.noise
        for j, weight in enumerate(weights):
            a, m_j = self.turned[:, j], float(self.m[j])
            B = self.axes * weight
            # Row m of these has Σ_i w_im weight_i a_i, whose squares and products with
            # a_j and the mean are those of the loading's noise.
            to_rows = product(B, self.turned.T)
            along = product(to_rows, a[:, None])[:, 0]
            of_mean = product(B, self.m[:, None])[:, 0]
            squares = np.add.reduce(to_rows**2, axis=1)
            length = float(np.add.reduce(a**2))
            products = length * squares + along**2
            sums = m_j**2 * squares + length * of_mean**2 + 2.0 * m_j * along * of_mean
            found[j] = products * noise.products**2 + sums * noise.sums**2
            found[j] += (m_j * of_mean * noise.count) ** 2
        return found


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
    first, last = runs_of(near)
    return first[:k], last[:k]


def lost_by_clipping(C: Float[Array, "p p"], norm: float) -> float:
    """Return the part of their mean square length that normal rows lose by clipping.

    Parameters
    ----------
    C : (p, p) array
        Their covariance matrix.
    norm : float
        The length that rows are clipped to. The squared length of a row is taken for a
        multiple of chi-squared with the same mean and variance.
    """
    total = float(np.trace(C))
    if total <= 0.0:
        return 1.0
    freedom = min(max(total**2 / float(np.sum(C**2)), 1.0), len(C))
    times = norm**2 / total
    half = 0.5 * times * freedom
    # E max(χ² - x, 0) of f degrees of freedom is f P(χ²_{f+2} > x) - x P(χ²_f > x).
    beyond = scipy.special.gammaincc([0.5 * freedom + 1.0, 0.5 * freedom], half)
    return max(float(beyond[0] - times * beyond[1]), 0.0)


@final
@dataclass(frozen=True)
class MeanSquare:
    """The mean square length of rows about a printed mean, from totals with noise.

    Attributes
    ----------
    largest : float
        What it is at most with probability 0.975, where no row was clipped.
    of_count : float
        By what numbers of rows with noise may be smaller than without, as a factor.
    """

    largest: float
    of_count: float

    @classmethod
    def of(
        cls,
        N: int,
        energy: float,
        total: Float[Array, " p"],
        shift: Float[Array, " p"],
        noise: NoiseOfMoments,
    ) -> "MeanSquare":
        """Return it about the public centre plus `shift`.

        Parameters
        ----------
        N : int
            Sample size, with noise.
        energy, total : float, (p,) array
            Squared distances from the centre and deviations, added, with noise.
        shift : (p,) array
            Difference of the printed mean and the centre; it depends on the noise of
            `total`.
        noise : NoiseOfMoments
            Noise of these; that of `products` is of `energy`.
        """
        length = math.sqrt(float(np.add.reduce(shift * shift)))
        along = float(np.add.reduce(shift * total))
        # Each of three events has a probability of 0.008 at most.
        z, far = 2.409, 3.108
        largest = energy + z * noise.products - 2.0 * along
        largest += 2.0 * length * noise.sums * (math.sqrt(len(total)) + far)
        least = max(N - z * noise.count, 1.0)
        largest += (N + z * noise.count) * length**2
        return cls(max(largest, 0.0) / least, N / (N + z * noise.count))


def variance_bounds(
    seen: Float[Array, "l l"], noise: float, k: int, rows: MeanSquare
) -> Float[Array, "k 2"]:
    """Return bounds of the k largest mean squares of rows that were clipped.

    Parameters
    ----------
    seen : (l, l) array
        ``Wᵀ (S_clipped + noise) W``.
    noise : float
        What the noise's largest eigenvalue exceeds with probability 0.025.
    k : int
        At most l.
    rows : MeanSquare
        The sum of all.
    """
    values, _ = symmetric_eigenpairs(0.5 * (seen + seen.T), len(seen))
    low = np.maximum((values - noise) * rows.of_count, 0.0)
    whole, positions = float(np.add.reduce(low)), np.arange(1, k + 1)
    # Variances before a component are no smaller than its own, variances behind it no
    # less than their bounds.
    behind = whole - np.cumsum(low)[:k]
    high = np.minimum(
        rows.largest - (whole - low[:k]), (rows.largest - behind) / positions
    )
    return np.stack([low[:k], np.maximum(high, low[:k])], axis=1)


def largest_of_block(width: int, deviation: float) -> float:
    """Bound the noise of a block in a variance, with probability 0.975.

    Parameters
    ----------
    width : int
        l, the number of directions of the block.
    deviation : float
        Standard deviation of an entry of the noise.
    """
    return deviation * (math.sqrt(2.0 * width) + _OF_LARGEST)


def largest_of_products(B: Float[Array, "p l"], deviation: float) -> float:
    """Bound the noise of products of rows M x in a variance, with probability 0.975.

    Parameters
    ----------
    B : (p, l) array
        M⁻¹ times directions.
    deviation : float
        Standard deviation of an entry off the diagonal.
    """
    squares, _ = symmetric_eigenpairs(product(B.T, B), B.shape[1])
    most, all_of = float(squares[0]), float(np.add.reduce(squares))
    spread = math.sqrt(2.0) * _OF_LARGEST * most
    return deviation * (2.0 * math.sqrt(most * all_of) + spread)


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

    The two components have about this `variance` each; without one, as far as noise
    alone decides it.
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


def share_that_is_seen(
    N: int, p: int, m: int, privacy: GaussianPrivacy, least: float, most: float
) -> str:
    """Return a sentence on what a mechanism that clips rows can detect.

    Parameters
    ----------
    N, p, m : int
        Rows, columns and silos.
    privacy : GaussianPrivacy
        Its parameters.
    least, most : float
        The largest variance of noise alone, for rows whose mean square length is 1, at
        best and at worst.
    """
    share = f"{number(100.0 * SEEN * least)} %"
    if most > least:
        share = f"{share} to {number(100.0 * SEEN * most)} %, by the data,"
    return (
        f"PCA with noise: with {N:,} rows, {p:,} columns, {m} silos and ε = "
        f"{privacy.epsilon:.3g} a component stands out from the noise where it has "
        f"more than {share} of the mean square length of the rows. Where rows are "
        f"clipped to about that length there are bounds of variances, and no standard "
        f"errors."
    )

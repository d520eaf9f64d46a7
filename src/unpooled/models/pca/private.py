"""PCA with differential privacy, by one of three mechanisms.

"scatter", one round:

    silos <── centre, norm, ε, δ ──   rows shifted, clipped, rounded to a lattice
    silos ── N, sums, products; discrete Gaussian noise in each share ──> noisy S

Nothing is read from the rows before: neither a mean nor a scale. The noise of the
products has the same variance in all directions. A component stands out from it where
its variance is above `noise_edge`, the largest that noise alone shows.

"preconditioned", three rounds, whose costs add up to the same ρ:

    4 %    N, sums, sum of squared lengths  ──> mean, radius (the mean square length)
    20 %   products about that mean, rows clipped to the radius ──> first S
    76 %   products of rows M x, clipped to their own radius    ──> second S
           both S, weighted by their noise; columns that show little but noise shrunk

"power" is for thousands of columns: `unpooled.models.pca.private_power`.

The noise is proportional to the square of the length that rows are clipped to. About
their mean rows are shorter than about a public point, and M shortens them further: it
divides the directions whose variance stands out from noise in the first S by their
standard deviations, in units of a floor, and leaves the others as they are. Each round
depends on rows only through what it releases and what earlier rounds released, so that
the costs add up (adaptive composition), and every silo charges each round to its
budget before it computes. What follows the last round reads totals with noise alone,
and costs nothing.

How far M goes. Where the first S shows ``ℓ > e`` along a direction, with e the noise
edge, the rows have on average the variance ``sqrt(ℓ² - e²)`` along it (Capitaine et
al., 2009), which M reduces to the floor f. A small f makes rows shorter and adds noise
to these directions when M is undone: they turn towards each of many others by the
squares of ``r² d_i / λ_i``, with ``d_i² = λ_i / f`` and r² what is left of the mean
square length; those not seen yet, up to the number wanted, by ``r² / (e / 2)`` or more.
The floor with the smallest sum over the wanted directions is taken.

How short rows are clipped. Where noise matters, to their root mean square length, and
where its edge is above five times the mean variance to 0.7 of that, at which nearly all
rows have the same length and the noise is half. Of elliptically distributed rows that
turns no direction; of others the noise is then the larger error. S is too small as a
whole, and is scaled to the mean square length of the first round.

What becomes of both S. Entry by entry, in the basis in which M is diagonal, they are
averaged with weights in inverse proportion to the variances of their noise. Row i of
the result has the noise n_i in its sum of squares, and a signal of s_i, estimated by
difference and moved towards the mean over all rows by as much as these differ by chance
alone (empirical Bayes); S_ij is multiplied by the root of ``w_i w_j`` with ``w_i = s_i
/ (s_i + n_i)``, in units of half of the largest, and at most 1. Columns that do not
differ are left alone, and so are those with more signal than noise; those without
variance, as the margins of pictures, no longer add their noise.

Where clipping takes next to nothing off a variance, the noise is small, and the second
S is left as it is: `unpooled.models.pca.private_certainty` has its standard errors.

Sensitivity: see `unpooled.models.private_rows`. One row more changes a sum of squared
lengths by ``‖y‖²``, at most L². Rows M x have the same bounds as others, because they
are clipped after they were multiplied.

References
----------
Dwork, Talwar, Thakurta and Zhang, Analyze Gauss: optimal bounds for privacy-preserving
principal component analysis, STOC 2014, algorithm 1; here on a federation, with the
mean released as well, and the noise drawn as in `unpooled.secure.noise`. Kamath, Li,
Singhal and Ullman, Privately learning high-dimensional distributions, COLT 2019, for
private preconditioning. Capitaine, Donati-Martin and Féral, Annals of Probability 37
(2009), theorem 2.1, and Benaych-Georges and Nadakuditi, Advances in Mathematics 227
(2011), theorem 2.2, for variances and directions beside noise. Efron and Morris, JASA
68 (1973), for the empirical Bayes estimate. Bun and Steinke, Concentrated differential
privacy, TCC 2016, lemma 2.3, for adaptive composition.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.linalg.eigen import symmetric_eigenpairs
from unpooled.linalg.settled import product
from unpooled.models.pca.private_certainty import (
    SEEN,
    NoiseOfMoments,
    largest_of_products,
    lost_by_clipping,
    private_errors,
    share_that_is_seen,
    variance_bounds,
    what_is_seen,
)
from unpooled.models.pca.private_location import Location
from unpooled.models.pca.private_power import by_power
from unpooled.models.pca.spectrum import (
    ALL_PAIRS,
    Spectrum,
    Wanted,
    components_for_share,
)
from unpooled.models.private_rows import (
    NOISY_MEAN,
    POINT,
    UNIT,
    Clipping,
    checked_count,
    checked_point,
    deviation_of,
    multiplied,
    noisy,
    noisy_count,
    promise,
)
from unpooled.protocol.bounds import LATTICE, lattice_steps
from unpooled.protocol.step import Step, public, summed
from unpooled.secure.noise import GaussianPrivacy

# Shares of ρ of the three rounds of "preconditioned".
_LOCATION, _FIRST, _SECOND = 0.04, 0.2, 0.76
# Rows are clipped to this multiple before they are multiplied by a metric and clipped.
_REACH = 4.0
# Multiples of the root of the mean square length that rows may be clipped to; the most
# that the noise edge may be, as a part of the mean variance, for one above 1; and the
# multiple where it is so much larger than the mean variance.
_MULTIPLES, _QUIET = (4.0, 2.0, 1.5), 0.05
_SHORT, _LOUD = 0.7, 5.0
# The lowest floor, in units of the noise edge; higher ones are twice the one before.
_LOWEST = 0.25
# Rows are scaled up to their mean square length by this at most.
_LARGEST = 8.0
# The longest of a metric's axes is at most this many times the shortest: more would
# be lost in the lattice.
_CONDITION = 64.0
# Most that clipping may take off the variances of normal rows, in their relative
# standard errors, for a fit to have standard errors.
_CLIPPED = 0.1
# Components beyond those kept that are found where there are more than `ALL_PAIRS`
# columns.
_SPARE = 40
# Components beyond those kept whose lower bounds leave less for these.
_BOUNDED = 5


@summed(
    takes={"centre": POINT},
    count=noisy_count(0.01),
    total=noisy("p", 1, 0.05, "column sums about a public centre, with noise"),
    scatter=noisy(
        "p p",
        2,
        0.94,
        "cross-product matrix (products of every two columns' deviations from a public "
        "centre, added over all rows), with noise",
        symmetric=True,
    ),
)
def local_private(X: Float[Array, "n p"], *, clipping: Clipping) -> dict[str, Any]:
    """Return exact sums of whole numbers; the silo adds the declared noise to them."""
    Y = clipping.rows(X)
    return {
        "count": np.array(len(Y) * LATTICE),
        "total": Y.sum(axis=0),
        # Every partial sum is a whole number below 2⁵³, so BLAS rounds none of them.
        "scatter": Y.T @ Y,
    }


@summed(
    takes={
        "centre": NOISY_MEAN,
        "metric": public(
            "p p",
            "the whole numbers by which rows are multiplied before they are clipped, "
            "found from totals with noise",
        ),
    },
    total=noisy(
        "p",
        1,
        0.03,
        "column sums of deviations from a noisy mean, times a public matrix (each "
        "column's values added over all rows), with noise",
    ),
    scatter=noisy(
        "p p",
        2,
        0.97,
        "cross-product matrix of deviations from a noisy mean, times a public matrix "
        "(products of every two columns, added over all rows), with noise",
        symmetric=True,
    ),
)
def local_private_shape(
    X: Float[Array, "n p"],
    *,
    clipping: Clipping,
    metric: Float[Array, "p p"],
    reach: float,
    share: float,
) -> dict[str, Any]:
    """Return exact sums of whole numbers; the silo adds the declared noise to them."""
    _, Y = multiplied(X, clipping.centre, reach, metric, clipping.row_norm)
    # Every partial sum is a whole number below 2⁵³, so BLAS rounds none of them.
    return {"total": Y.sum(axis=0), "scatter": Y.T @ Y}


def private(
    federation: Federation,
    wanted: Wanted,
    privacy: GaussianPrivacy,
    random_state: Any = None,
) -> Spectrum:
    """Return the components of a covariance matrix with noise."""
    p = federation.n_features
    centre, unit = checked_point(privacy, federation, local_private)
    if not np.all(unit == 1.0):
        raise DataError(
            "PCA takes columns in their own units: leave the scale of GaussianPrivacy "
            "at 1, and put a StandardScaler with privacy before the PCA."
        )
    if privacy.mechanism == "power":
        return by_power(federation, wanted, privacy, centre, random_state)
    k = wanted if isinstance(wanted, int) else p
    if privacy.mechanism == "preconditioned":
        N, mean, C, found = _by_preconditioning(federation, privacy, centre, k)
    else:
        N, mean, C, found = _by_scatter(federation, privacy, centre)
    of_moments, shift = found.pop("noise", None), found.pop("shift", mean - centre)
    stretch = found.pop("stretch", None)
    taken = k
    if of_moments is not None:
        # Standard errors of the first components need the others.
        every = p <= ALL_PAIRS or stretch is not None
        taken = p if every else min(k + _SPARE, p)
    as_found, axes = symmetric_eigenpairs(C, taken, p)
    # Noise makes some eigenvalues negative, which are set to zero.
    variance = np.maximum(as_found, 0.0)
    total = float(variance.sum())
    if isinstance(wanted, float):
        k = components_for_share(variance, total, wanted, p)
    noise = float(variance[k:].mean()) if k < p else 0.0
    edge, spread = found["noise_edge"], found.pop("spread", None)
    bounds = found.pop("bounds", None)
    # Where the noise differs by direction: how much larger it is along a component.
    wider = 1.0 if spread is None else spread.along(axes[:, :k])
    attributes = {
        "privacy_": promise(privacy, federation, **found),
        "signal_to_noise_": variance[:k] / (edge * wider),
        # All of them: they are computed from what was released with noise.
        "eigenvalues_": variance[: min(N, p)].copy(),
    }
    if bounds is not None:
        attributes["explained_variance_bounds_"] = bounds[:k]
    if of_moments is not None and not federation.coordinator.planned:
        # Where the noise differs by direction, so does what stands out from it.
        seen = None if stretch is None else attributes["signal_to_noise_"] > SEEN
        attributes |= private_errors(
            as_found, axes, k, N, shift, of_moments, stretch, seen
        )
    return Spectrum(
        N=N,
        mean=mean,
        variance=variance[:k].copy(),
        axes=axes[:, :k].copy(),
        total=total,
        noise=noise,
        attributes=attributes,
    )


def _by_scatter(
    federation: Federation, privacy: GaussianPrivacy, centre: Float[Array, " p"]
) -> tuple[int, Float[Array, " p"], Float[Array, "p p"], dict[str, Any]]:
    """Return N, mean, covariance and noise edge from one round."""
    clipping = Clipping.of(privacy, centre)
    totals = federation.sum(local_private, **vars(clipping))
    N = checked_count(totals)
    mean, C = _noisy_covariance(N, centre, totals)
    rho, p = clipping.rho, federation.n_features
    length = privacy.row_norm / lattice_steps(p)
    noise = NoiseOfMoments(
        count=deviation_of(local_private, "count", rho, federation) / LATTICE,
        sums=deviation_of(local_private, "total", rho, federation) * length,
        products=deviation_of(local_private, "scatter", rho, federation)
        * (length**2 / math.sqrt(2.0)),
    )
    seen = what_is_seen(p, N, noise, len(federation.parties), privacy.epsilon)
    federation.coordinator.notes.append(seen)
    edge = noise_edge(local_private, rho, privacy.row_norm, federation)
    return N, mean, C, {"noise_edge": edge / (N - 1), "noise": noise}


def _by_preconditioning(
    federation: Federation, privacy: GaussianPrivacy, centre: Float[Array, " p"], k: int
) -> tuple[int, Float[Array, " p"], Float[Array, "p p"], dict[str, Any]]:
    """Return N, mean, covariance and noise edge from three rounds."""
    p, clipping = federation.n_features, Clipping.of(privacy, centre)
    location = Location.of(federation, clipping, _LOCATION)
    N, shift = location.N, location.shift
    mean = centre + shift
    # In a fixed order, here and below: silos that follow send the same bits on.
    length = location.length(float(np.add.reduce(shift * shift)))
    passes = _Passes(federation, clipping, location, length)
    # The accuracy of the second covariance matrix where the first one does not help.
    worst = passes.edge(_SECOND, 1.0) / N
    m = len(federation.parties)
    federation.coordinator.notes.append(
        share_that_is_seen(N, p, m, privacy, worst, worst)
    )
    first = passes.made(UNIT * np.eye(p), length, _FIRST)
    variance, axes = symmetric_eigenpairs(first.C, p, p)
    deviation, square = _shortening(variance, first.whole_edge, k)
    metric = np.rint(UNIT * product(axes / deviation, axes.T))
    second = passes.made(metric, math.sqrt(max(square, first.whole_edge)), _SECOND)
    found: dict[str, Any] = {
        "radius": first.row_norm,
        "inner_radius": second.row_norm,
    }
    stretch = np.linalg.inv(metric / UNIT)
    whole = stretch.T @ second.C @ stretch
    # Rows are clipped in their own units and in those of the metric. What that takes
    # off a variance is no noise, and no interval has it. Where it is next to nothing,
    # the second S is left as it is, so that its noise is known to the last entry.
    lost = lost_by_clipping(whole, _REACH * length)
    lost += lost_by_clipping(second.C, second.row_norm)
    if lost <= _CLIPPED * math.sqrt(2.0 / N):
        found |= {"noise": second.noise, "shift": second.mean, "stretch": stretch}
        found |= {"noise_edge": second.whole_edge}
        found |= {"spread": _Spread(axes, second.variances(deviation))}
        return N, mean, 0.5 * (whole + whole.T), found
    # The axes of the first S do not depend on the noise of the second.
    W = axes[:, : min(k + _BOUNDED, p)]
    found["bounds"] = variance_bounds(
        product(product(W.T, whole), W),
        largest_of_products(product(stretch, W), second.noise.products / N),
        min(k, W.shape[1]),
        location.mean_square(shift),
    )
    C, spread = _both(first, second, variance, axes, whole, deviation)
    edge = 2.0 * math.sqrt(p) * math.sqrt(spread.smallest)
    scale = 1.0
    if second.short and (trace := float(np.add.reduce(C.diagonal()))) > 0.0:
        scale = min(max(length**2 / trace, 1.0), _LARGEST)
    C = scale * _shrunk(C, spread)
    found |= {"noise_edge": scale * _edge_beside(edge, second.along), "spread": spread}
    return N, mean, 0.5 * (C + C.T), found


@final
@dataclass(frozen=True, eq=False)
class _Pass:
    """A covariance matrix with noise of one variance in all entries.

    Attributes
    ----------
    C : (p, p) array
        Covariance matrix of rows that a metric shortened, and that were clipped.
    edge, along : float
        The largest eigenvalue of the noise in all directions, and of that of rank one.
    row_norm : float
        What rows were clipped to.
    short : bool
        Whether that cuts half of the rows, or more.
    noise : NoiseOfMoments
        Noise of the totals.
    mean : (p,) array
        Mean of these rows.
    """

    C: Float[Array, "p p"]
    edge: float
    along: float
    row_norm: float
    short: bool
    noise: NoiseOfMoments
    mean: Float[Array, " p"]

    @property
    def whole_edge(self) -> float:
        """The largest eigenvalue of all noise."""
        return _edge_beside(self.edge, self.along)

    def variances(self, deviation: Float[Array, " p"]) -> Float[Array, "p p"]:
        """Return the variances of the noise along pairs of axes that M divides."""
        p = len(deviation)
        return self.edge**2 / (4.0 * p) * np.outer(deviation, deviation) ** 2


@final
@dataclass(frozen=True, eq=False)
class _Passes:
    """The two rounds with cross-products, about the mean of the first round.

    Attributes
    ----------
    federation : Federation
        Rows.
    clipping : Clipping
        The public numbers of the first round.
    location : Location
        What it found.
    length : float
        Root mean square length of the rows about their mean.
    """

    federation: Federation
    clipping: Clipping
    location: Location
    length: float

    def edge(self, share: float, row_norm: float) -> float:
        """Return the largest eigenvalue that noise alone gives a cross-product."""
        rho = self.clipping.rho * share
        return noise_edge(local_private_shape, rho, row_norm, self.federation)

    def made(self, metric: Float[Array, "p p"], expected: float, share: float) -> _Pass:
        """Ask for the cross-product of rows times a metric, one round.

        Parameters
        ----------
        metric : (p, p) array
            Whole numbers, in units of `UNIT`.
        expected : float
            The root mean square length of rows that were multiplied.
        share : float
            Share of the fit's cost.
        """
        N, p = self.location.N, self.federation.n_features
        mean = self.clipping.centre + self.location.shift
        # Few rows are clipped where noise is no matter, half of them where it is, and
        # most where it is all that matters.
        quiet = expected**2 / p / (self.edge(share, expected) / (N - 1))
        times = next((t for t in _MULTIPLES if t**2 <= _QUIET * quiet), 1.0)
        if quiet * _LOUD < 1.0:
            times = _SHORT
        row_norm = min(times * expected, 2.0 * self.clipping.row_norm)
        about_mean = replace(self.clipping, centre=mean, row_norm=row_norm)
        totals = self.federation.sum(
            local_private_shape,
            metric=metric,
            reach=_REACH * self.length,
            share=share,
            **vars(about_mean),
        )
        # Clipping may shift the mean of the rows, and so does the noise of the mean.
        # The correction has noise of its own, of rank two, along that shift.
        C = _noisy_covariance(N, mean, totals)[1]
        edge, of_count = self.edge(share, row_norm), self.location.noise.count
        # BLAS, which `norm` asks, adds in an order of its own on every machine.
        shift = math.sqrt(float(np.add.reduce(totals["total"] ** 2))) / N
        rho = self.clipping.rho * share
        of_sums = deviation_of(local_private_shape, "total", rho, self.federation)
        of_sums *= row_norm / lattice_steps(p)
        along = (shift * math.sqrt(p) * of_sums + shift**2 * of_count) / N
        return _Pass(
            C=C,
            edge=edge / N,
            along=along,
            row_norm=row_norm,
            short=times <= 1.0,
            noise=NoiseOfMoments(of_count, of_sums, edge / (2.0 * math.sqrt(p))),
            mean=totals["total"] / N,
        )


@final
@dataclass(frozen=True, eq=False)
class _Spread:
    """Variances of noise by pairs of directions, `variances[a, b]` along two axes."""

    axes: Float[Array, "p p"]
    variances: Float[Array, "p p"]

    @property
    def smallest(self) -> float:
        """The variance of the noise between directions that M leaves as they are."""
        return float(self.variances[-1, -1])

    def along(self, V: Float[Array, "p k"]) -> Float[Array, " k"]:
        """Return the noise's standard deviation by column, over the smallest."""
        shares = (self.axes.T @ V) ** 2
        variances = np.sum(shares * (self.variances @ shares), axis=0)
        return np.sqrt(variances / self.smallest)

    def of_rows(self) -> Float[Array, " p"]:
        """Return the variances of the noise of all entries of each row, added."""
        # An entry has Σ_ab V_ab (A_ia² A_jb² + A_ia A_ib A_ja A_jb); the columns of A
        # are orthonormal.
        sums = self.variances.sum(axis=1) + self.variances.diagonal()
        return self.axes**2 @ sums


def _shortening(
    variance: Float[Array, " p"], edge: float, k: int
) -> tuple[Float[Array, " p"], float]:
    """Return the divisors of M along the axes, and the mean square length that remains.

    Parameters
    ----------
    variance : (p,) array
        Eigenvalues of the first covariance matrix, in descending order.
    edge : float
        Largest eigenvalue of its noise.
    k : int
        Number of components wanted.
    """
    squares = np.maximum(variance**2 - edge**2, 0.0)
    # Along axes that are seen; that of all others is what remains of the trace.
    along = np.where(variance > edge, np.sqrt(squares), 0.0)
    seen = int(np.count_nonzero(along))
    # Noise has no trace on average, so its negative variances stay in the sum.
    others = float(np.add.reduce(variance)) - float(np.add.reduce(along))
    gaps = np.maximum(along[:seen], edge / 2.0)
    floor, tried = _LOWEST * edge, list[tuple[float, float]]()
    while True:
        left = np.minimum(along[:seen], floor)
        square = others + float(np.add.reduce(left))
        divided = np.maximum(along[:seen] / floor, 1.0)
        turned = float(np.add.reduce((divided / gaps**2)[:k]))
        turned += max(k - seen, 0) / (edge / 2.0) ** 2
        tried.append((square**2 * turned, floor))
        if floor >= variance[0]:
            break
        floor *= 2.0
    floor = max(min(tried)[1], float(variance[0]) / _CONDITION**2)
    squared = np.maximum(along / floor, 1.0)
    return np.sqrt(squared), others + float(np.add.reduce(along / squared))


def _both(
    first: _Pass,
    second: _Pass,
    variance: Float[Array, " p"],
    axes: Float[Array, "p p"],
    whole: Float[Array, "p p"],
    deviation: Float[Array, " p"],
) -> tuple[Float[Array, "p p"], _Spread]:
    """Return the average of two covariance matrices, and the noise that is left.

    Parameters
    ----------
    first, second : _Pass
        The second of rows times M.
    variance, axes : arrays
        Eigenpairs of the first.
    whole : (p, p) array
        The second, with M undone.
    deviation : (p,) array
        What M divides each axis by.
    """
    # Clipping took another part of the variance of each, by the sums over the axes that
    # M has shortened, which noise changes least.
    before = float(np.add.reduce(variance / deviation**2))
    after = float(np.add.reduce(second.C.diagonal()))
    clipped = (first.short or second.short) and before > 0.0 and after > 0.0
    ratio = after / before if clipped else 1.0
    turned = axes.T @ whole @ axes
    of_second = second.variances(deviation)
    of_first = ratio**2 * first.variances(np.ones(len(axes)))
    weight = of_first / (of_first + of_second)
    turned *= weight
    turned += (1.0 - weight) * ratio * np.diag(variance)
    return axes @ turned @ axes.T, _Spread(axes, weight * of_second)


def _shrunk(C: Float[Array, "p p"], spread: _Spread) -> Float[Array, "p p"]:
    """Return a covariance matrix with less of the columns that show little but noise.

    Shrunk are the columns that differ from others by more than chance; if none does,
    the matrix is returned as it is.
    """
    p, noise = len(C), spread.of_rows()
    signal = np.sum(C**2, axis=1) - noise
    chance = 2.0 * noise**2 / p + 4.0 * noise / p * np.maximum(signal, 0.0)
    varied = float(np.var(signal))
    share = max(1.0 - float(chance.mean()) / varied, 0.0) if varied > 0.0 else 0.0
    mean = float(signal.mean())
    signal = np.maximum(mean + share * (signal - mean), 0.0)
    kept = signal / (signal + noise)
    if not (most := float(kept.max())) > 0.0:
        return C
    roots = np.sqrt(np.minimum(2.0 * kept / most, 1.0))
    return C * np.outer(roots, roots)


def _noisy_covariance(
    N: int, centre: Float[Array, " p"], totals: Mapping[str, Any]
) -> tuple[Float[Array, " p"], Float[Array, "p p"]]:
    """Return the mean and the covariance that noisy totals give."""
    shift = totals["total"] / N
    C = (totals["scatter"] - N * np.outer(shift, shift)) / (N - 1)
    return centre + shift, C


def noise_edge(
    step: Step, rho: float, row_norm: float, federation: Federation
) -> float:
    """Return the largest eigenvalue that noise alone gives a p × p scatter.

    Twice the square root of p, times the standard deviation of an entry off the
    diagonal.
    """
    p = federation.n_features
    sigma = deviation_of(step, "scatter", rho, federation) / math.sqrt(2.0)
    return float(2.0 * math.sqrt(p) * sigma * (row_norm / lattice_steps(p)) ** 2)


def _edge_beside(edge: float, along: float) -> float:
    """Return the largest eigenvalue of noise in all directions and one of rank one.

    Baik, Ben Arous and Péché: within half the edge the second does not show.
    """
    return edge if along <= edge / 2 else along + edge**2 / (4 * along)

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
    76 %   products of rows M x, clipped to their own radius    ──> S = M⁻¹ (M S M) M⁻¹

"power" is for thousands of columns: `unpooled.models.pca.private_power`.

The noise is proportional to the square of the length that rows are clipped to. About
their mean rows are shorter than about a public point, and M shortens them further: it
divides the directions of large variance, as the first S has them, by their standard
deviations in units of the noise edge, and leaves the others as they are. Each round
depends on rows only through what it releases and what earlier rounds released, so that
the costs add up (adaptive composition), and every silo charges each round to its
budget before it computes.

Sensitivity: see `unpooled.models.private_rows`. One row more changes a sum of squared
lengths by ``‖y‖²``, at most L². Rows M x have the same bounds as others, because they
are clipped after they were multiplied.

References
----------
Dwork, Talwar, Thakurta and Zhang, Analyze Gauss: optimal bounds for privacy-preserving
principal component analysis, STOC 2014, algorithm 1; here on a federation, with the
mean released as well, and the noise drawn as in `unpooled.secure.noise`. Kamath, Li,
Singhal and Ullman, Privately learning high-dimensional distributions, COLT 2019, for
private preconditioning. Bun and Steinke, Concentrated differential privacy, TCC 2016,
lemma 2.3, for adaptive composition.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.linalg.eigen import symmetric_eigenpairs
from unpooled.linalg.settled import product
from unpooled.models.pca.private_certainty import (
    SEEN,
    NoiseOfMoments,
    lost_by_clipping,
    private_errors,
    what_is_seen,
)
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
    checked_count,
    checked_point,
    deviation_of,
    multiplied,
    noisy,
    noisy_count,
    on_lattice,
    promise,
)
from unpooled.protocol.bounds import LATTICE, lattice_steps
from unpooled.protocol.step import Step, public, summed
from unpooled.secure.noise import GaussianPrivacy, rho_of

# Shares of ρ of the three rounds of "preconditioned".
_LOCATION, _FIRST, _SECOND = 0.04, 0.2, 0.76
# Rows are clipped to this multiple before they are multiplied by a metric and clipped.
_REACH = 4.0
# Multiples of the root of the mean square length that rows may be clipped to; and the
# most that the noise edge may be, as a part of the mean variance, for one above 1.
_MULTIPLES, _QUIET = (4.0, 2.0, 1.5), 0.05
# The longest of a metric's axes is at most this many times the shortest: more would
# be lost in the lattice.
_CONDITION = 64.0
# What clipping may take off the variances of normal rows, in their relative standard
# errors, for a fit to have any.
_CLIPPED = 0.1
# Of more than `ALL_PAIRS` columns, components beyond those kept that are found.
_SPARE = 40


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
def local_private(
    X: Float[Array, "n p"],
    *,
    centre: Float[Array, " p"],
    row_norm: float,
    epsilon: float,
    delta: float,
) -> dict[str, Any]:
    """Return exact sums of whole numbers; the silo adds the declared noise to them."""
    Y = on_lattice(X, centre, row_norm)
    return {
        "count": np.array(len(Y) * LATTICE),
        "total": Y.sum(axis=0),
        # Every partial sum is a whole number below 2⁵³, so BLAS rounds none of them.
        "scatter": Y.T @ Y,
    }


@summed(
    takes={"centre": POINT},
    count=noisy_count(0.1),
    total=noisy("p", 1, 0.8, "column sums about a public centre, with noise"),
    energy=noisy(
        "",
        2,
        0.1,
        "sum of all rows' squared distances from a public centre, with noise",
    ),
)
def local_private_location(
    X: Float[Array, "n p"],
    *,
    centre: Float[Array, " p"],
    row_norm: float,
    epsilon: float,
    delta: float,
    share: float,
) -> dict[str, Any]:
    """Return exact sums of whole numbers; the silo adds the declared noise to them."""
    Y = on_lattice(X, centre, row_norm)
    return {
        "count": np.array(len(Y) * LATTICE),
        "total": Y.sum(axis=0),
        # Whole numbers below 2⁵³, so no partial sum is rounded.
        "energy": np.einsum("ij,ij->", Y, Y),
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
    centre: Float[Array, " p"],
    metric: Float[Array, "p p"],
    reach: float,
    row_norm: float,
    epsilon: float,
    delta: float,
    share: float,
) -> dict[str, Any]:
    """Return exact sums of whole numbers; the silo adds the declared noise to them."""
    _, Y = multiplied(X, centre, reach, metric, row_norm)
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
        location = local_private_location
        return by_power(federation, wanted, privacy, centre, location, random_state)
    if privacy.mechanism == "preconditioned":
        N, mean, C, found = _by_preconditioning(federation, privacy, centre)
    else:
        N, mean, C, found = _by_scatter(federation, privacy, centre)
    k = wanted if isinstance(wanted, int) else p
    of_moments, shift = found.pop("noise", None), found.pop("shift", mean - centre)
    edge, stretch = found["noise_edge"], found.pop("stretch", None)
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
    # Where the noise differs by direction, `stretch` is M⁻¹: it is what noise of the
    # edge's variance becomes along a component.
    wider = 1.0 if stretch is None else np.sum((stretch @ axes[:, :k]) ** 2, axis=0)
    attributes = {
        "privacy_": promise(privacy, federation, **found),
        "signal_to_noise_": variance[:k] / (edge * wider),
        # All of them: they are computed from what was released with noise.
        "eigenvalues_": variance[: min(N, p)].copy(),
    }
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
    totals = federation.sum(
        local_private,
        centre=centre,
        row_norm=privacy.row_norm,
        epsilon=privacy.epsilon,
        delta=privacy.delta,
    )
    N = checked_count(totals)
    mean, C = _noisy_covariance(N, centre, totals)
    rho, p = rho_of(privacy.epsilon, privacy.delta), federation.n_features
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
    federation: Federation, privacy: GaussianPrivacy, centre: Float[Array, " p"]
) -> tuple[int, Float[Array, " p"], Float[Array, "p p"], dict[str, Any]]:
    """Return N, mean, covariance and noise edge from three rounds."""
    p, rho = federation.n_features, rho_of(privacy.epsilon, privacy.delta)
    asked = {"epsilon": privacy.epsilon, "delta": privacy.delta}
    norm = privacy.row_norm
    totals = federation.sum(
        local_private_location,
        centre=centre,
        row_norm=norm,
        share=_LOCATION,
        **asked,
    )
    N = checked_count(totals)
    shift = totals["total"] / N
    mean = centre + shift
    # The mean square length about the mean. Below the noise of the energy it is not
    # known, so the radius stays above that, and at most at the public norm.
    spent = rho * _LOCATION
    noise = deviation_of(local_private_location, "energy", spent, federation)
    noise *= (norm / lattice_steps(p)) ** 2 / N
    of_count = deviation_of(local_private_location, "count", spent, federation)
    of_count /= LATTICE
    # In a fixed order, here and below: silos that follow send the same bits on.
    square = float(totals["energy"]) / N - float(np.add.reduce(shift * shift))
    length = math.sqrt(max(square, noise))

    def shape(
        metric: Float[Array, "p p"], expected: float, share: float
    ) -> tuple[Float[Array, "p p"], float, float, dict[str, Any]]:
        # Few rows are clipped where noise is no matter, half of them where it is.
        of_one = noise_edge(local_private_shape, rho * share, expected, federation)
        room = _QUIET * expected**2 / p / (of_one / (N - 1))
        times = next((t for t in _MULTIPLES if t**2 <= room), 1.0)
        row_norm = min(times * expected, 2.0 * norm)
        totals = federation.sum(
            local_private_shape,
            centre=mean,
            metric=metric,
            reach=_REACH * length,
            row_norm=row_norm,
            share=share,
            **asked,
        )
        # Clipping may shift the mean of the rows, and so does the noise of the mean.
        # The correction has noise of its own, of rank two, along that shift.
        C = _noisy_covariance(N, mean, totals)[1]
        edge = noise_edge(local_private_shape, rho * share, row_norm, federation)
        shift = float(np.linalg.norm(totals["total"])) / N
        of_sums = deviation_of(local_private_shape, "total", rho * share, federation)
        of_sums *= row_norm / lattice_steps(p)
        along = (shift * math.sqrt(p) * of_sums + shift**2 * of_count) / N
        of_totals = {
            "noise": NoiseOfMoments(of_count, of_sums, edge / (2.0 * math.sqrt(p))),
            "shift": totals["total"] / N,
        }
        return C, _edge_beside(edge / N, along), row_norm, of_totals

    first, edge, radius, _ = shape(UNIT * np.eye(p), length, _FIRST)
    variance, axes = symmetric_eigenpairs(first, p, p)
    floor = max(edge, float(variance[0]) / _CONDITION**2)
    deviation = np.sqrt(np.maximum(variance / floor, 1.0))
    metric = np.rint(UNIT * product(axes / deviation, axes.T))
    # The mean square length of rows times the metric. The noise has no trace on
    # average, so its negative variances stay in the sum.
    square = float(np.add.reduce(variance / deviation**2))
    shaped, edge, inner, of_totals = shape(
        metric, math.sqrt(max(square, edge)), _SECOND
    )
    stretch = np.linalg.inv(metric / UNIT)
    C = stretch.T @ shaped @ stretch
    C = 0.5 * (C + C.T)
    found = {"noise_edge": edge, "radius": radius, "inner_radius": inner}
    # Rows are clipped in their own units and in those of the metric. What that takes
    # off a variance is no noise, and no interval has it.
    lost = lost_by_clipping(C, _REACH * length) + lost_by_clipping(shaped, inner)
    if lost <= _CLIPPED * math.sqrt(2.0 / N):
        found |= of_totals
    return N, mean, C, {**found, "stretch": stretch}


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

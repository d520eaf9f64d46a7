"""PCA with differential privacy: one round, with noise in each total.

    silos <── centre, norm, ε, δ ──   rows shifted, clipped, rounded to a lattice
    silos ── N, sums, products; discrete Gaussian noise in each share ──> noisy S

Nothing is read from the rows before: neither a mean nor a scale. The noise of the
products has the same variance in all directions. A component stands out from it where
its variance is above `noise_edge`, the largest that noise alone shows.

References
----------
Dwork, Talwar, Thakurta and Zhang, Analyze Gauss: optimal bounds for privacy-preserving
principal component analysis, STOC 2014, algorithm 1; here on a federation, with the
mean released as well, and the noise drawn as in `unpooled.secure.noise`.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.linalg.eigen import symmetric_eigenpairs
from unpooled.models.pca.spectrum import Spectrum, Wanted, components_for_share
from unpooled.party.steps.add_noise import check_inputs, honest_shares
from unpooled.protocol.bounds import LATTICE, Lattice, lattice_steps
from unpooled.protocol.refusal import Refusal
from unpooled.protocol.step import public, release, summed
from unpooled.secure.noise import GaussianPrivacy, Noise, is_norm, rho_of

NEIGHBOURS = "one row more or less, in any silo"


@summed(
    takes={
        "centre": public(
            "p",
            "the public point that is subtracted from all rows before they are clipped",
        )
    },
    count=release(
        "",
        bound=Lattice(0),
        noise=Noise(LATTICE, 0.01),
        meaning="sample size (number of rows), with noise",
    ),
    total=release(
        "p",
        bound=Lattice(1),
        noise=Noise(LATTICE, 0.05),
        meaning="column sums about a public centre, with noise",
    ),
    scatter=release(
        "p p",
        symmetric=True,
        bound=Lattice(2),
        noise=Noise(LATTICE**2, 0.94),
        meaning="cross-product matrix (products of every two columns' deviations from "
        "a public centre, added over all rows), with noise",
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


def on_lattice(
    X: Float[Array, "n p"], centre: Float[Array, " p"], row_norm: float
) -> Float[Array, "n p"]:
    """Return rows of whole numbers, none longer than `LATTICE`.

    Each row depends on itself and on public numbers alone, and none is refused: whether
    a release is refused must not depend on a row, because a refusal has no noise. So a
    row with a missing or infinite value, or too long to be measured, becomes a row of
    zeros.

    Rows are clipped to a little less, because rounding each of p entries to the nearest
    step may lengthen a row by up to ``sqrt(p) / 2`` steps.

    Raises
    ------
    Refusal
        As "arguments", before a row is read, when the public numbers are not those of
        a norm and a centre in float64.
    """
    # A norm that is not positive would tell rows apart by what is refused.
    if not is_norm(row_norm, centre) or lattice_steps(X.shape[1]) <= 0.0:
        raise Refusal("arguments")
    with np.errstate(all="ignore"):
        Y = X - centre
        length = np.sqrt(np.einsum("ij,ij->i", Y, Y))
        # What is no number, or overflows, compares as false.
        measured = length < np.inf
        clipped = np.minimum(1.0, row_norm / np.maximum(length, row_norm))
        Y *= (clipped * (lattice_steps(X.shape[1]) / row_norm))[:, None]
        Y[~measured] = 0.0
    np.rint(Y, out=Y)
    # The sensitivity is proven for the whole numbers, not for what was rounded.
    squares = np.einsum("ij,ij->i", Y, Y)
    longer = squares > LATTICE**2
    if longer.any():
        shrink = LATTICE * (1.0 - 2.0**-40) / np.sqrt(squares[longer])
        Y[longer] = np.trunc(Y[longer] * shrink[:, None])
    return Y


def private(
    federation: Federation, wanted: Wanted, privacy: GaussianPrivacy
) -> Spectrum:
    """Return the components of a covariance matrix with noise; one round."""
    p = federation.n_features
    centre = _checked_centre(privacy, federation)
    totals = federation.sum(
        local_private,
        centre=centre,
        row_norm=privacy.row_norm,
        epsilon=privacy.epsilon,
        delta=privacy.delta,
    )
    N = round(float(totals["count"]))
    if N < 2:
        raise DataError(
            "The noise is as large as the number of rows: there is no result. Ask for "
            "a larger epsilon, or more rows."
        )
    mean, C = _noisy_covariance(N, centre, totals)
    # Noise makes some eigenvalues negative, which are set to zero.
    k = wanted if isinstance(wanted, int) else p
    variance, axes = symmetric_eigenpairs(C, k, p)
    variance = np.maximum(variance, 0.0)
    total = float(variance.sum())
    if isinstance(wanted, float):
        k = components_for_share(variance, total, wanted, p)
    noise = float(variance[k:].mean()) if k < p else 0.0
    edge = float(noise_edge(privacy, federation, p)) / (N - 1)
    attributes = {
        "privacy_": {
            **privacy.as_dict(),
            "neighbours": NEIGHBOURS,
            "rho": rho_of(privacy.epsilon, privacy.delta),
            "noise_edge": edge,
        },
        "signal_to_noise_": variance[:k] / edge,
        # All of them: they are computed from what was released with noise.
        "eigenvalues_": variance[: min(N, p)].copy(),
    }
    return Spectrum(
        N=N,
        mean=mean,
        variance=variance[:k].copy(),
        axes=axes[:, :k].copy(),
        total=total,
        noise=noise,
        attributes=attributes,
    )


def _noisy_covariance(
    N: int, centre: Float[Array, " p"], totals: Mapping[str, Any]
) -> tuple[Float[Array, " p"], Float[Array, "p p"]]:
    """Return the mean and the covariance that noisy totals give."""
    shift = totals["total"] / N
    C = (totals["scatter"] - N * np.outer(shift, shift)) / (N - 1)
    return centre + shift, C


def noise_edge(privacy: GaussianPrivacy, federation: Federation, p: int) -> float:
    """Return the largest eigenvalue that noise alone gives a p × p scatter.

    Twice the square root of p, times the standard deviation of an entry off the
    diagonal.
    """
    noise = local_private.declared["scatter"].noise
    assert noise is not None
    m, protection = len(federation.parties), federation.coordinator.protection
    sigma = noise.sigma(rho_of(privacy.epsilon, privacy.delta)) / math.sqrt(2.0)
    sigma *= math.sqrt(m / honest_shares(m, protection))
    return 2.0 * math.sqrt(p) * sigma * (privacy.row_norm / lattice_steps(p)) ** 2


def _checked_centre(
    privacy: GaussianPrivacy, federation: Federation
) -> Float[Array, " p"]:
    p, given = federation.n_features, np.asarray(privacy.centre)
    if given.ndim and given.shape != (p,):
        raise DataError(
            f"GaussianPrivacy has a centre of {given.size} numbers for {p} columns."
        )
    try:
        check_inputs(local_private, federation.operations)
    except Refusal as refusal:
        raise DataError(
            "A private fit reads the silos' columns as they are: a fitted transform, a "
            "fold or a split before it would tell of the rows without noise. Scale by "
            "public constants in the sources instead.",
            rule=refusal.rule,
        ) from None
    return np.broadcast_to(given, (p,)).astype(float)

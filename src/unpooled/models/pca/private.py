"""Moments with differential privacy: one round, one noise in each total.

    silos <── centre, norm, ε, δ ──   rows shifted, shortened, rounded to a lattice
    silos ── N, sums, products; discrete Gaussian noise in each share ──> noisy S

Nothing is read from the rows before: neither a mean nor a scale. The noise of products
has the same width for all directions; a component is told from it where its variance is
above `noise_edge`, the most that noise alone shows.

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
import scipy.linalg

from unpooled.arrays import Array, Float
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.linalg.eigen import with_positive_peaks
from unpooled.models.pca.spectrum import Spectrum, Wanted
from unpooled.party.steps.private_noise import check_inputs, honest_shares
from unpooled.protocol.bounds import LATTICE, Lattice, lattice_steps
from unpooled.protocol.refusal import Refusal
from unpooled.protocol.step import LIBRARY, Fit, adopted, public, release, summed
from unpooled.secure.noise import GaussianPrivacy, Noise, rho_of

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
        meaning="how many rows there are, with noise",
    ),
    total=release(
        "p",
        bound=Lattice(1),
        noise=Noise(LATTICE, 0.05),
        meaning="the sum of each column's distances from a public centre, with noise",
    ),
    scatter=release(
        "p p",
        symmetric=True,
        bound=Lattice(2),
        noise=Noise(LATTICE**2, 0.94),
        meaning="products of every two columns' distances from a public centre, "
        "added, with noise",
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
    """Add whole numbers exactly; the noise is the silo's to add, by the declaration."""
    Y = on_lattice(X, centre, row_norm)
    return {
        "count": np.array(len(Y) * LATTICE),
        "total": Y.sum(axis=0),
        # Every partial sum is a whole number below 2⁵³: BLAS rounds none of them.
        "scatter": Y.T @ Y,
    }


def on_lattice(
    X: Float[Array, "n p"], centre: Float[Array, " p"], row_norm: float
) -> Float[Array, "n p"]:
    """Return rows of whole numbers, none longer than `LATTICE`.

    Shortened to a little less, so that rounding every entry to the nearest cannot carry
    a row beyond: half a step in each of p entries is ``sqrt(p) / 2`` at most.
    """
    Y = X - centre
    if not np.isfinite(Y).all():
        missing = bool(np.isnan(Y).any())
        raise DataError(
            "This model takes no missing or infinite values.",
            rule="missing_values" if missing else "infinite_values",
        )
    length = np.sqrt(np.einsum("ij,ij->i", Y, Y))
    shortened = np.minimum(1.0, row_norm / np.maximum(length, row_norm))
    Y *= (shortened * (lattice_steps(X.shape[1]) / row_norm))[:, None]
    return np.rint(Y, out=Y)


# `unpooled.models.pca.pca` has it too, where silos look it up.
(pca_private,) = adopted(f"{LIBRARY}pca", local_private)


def private(model: Any, federation: Federation, wanted: Wanted) -> Spectrum:
    """Solve a scatter with noise in it; one round."""
    privacy, p = GaussianPrivacy.of(model.privacy), federation.n_features
    centre = _checked_centre(privacy, federation)
    public = {"row_norm": privacy.row_norm, "centre": centre}
    budget = {"epsilon": privacy.epsilon, "delta": privacy.delta}
    totals = federation.sum(pca_private, **public, **budget)
    N = round(float(totals["count"]))
    if N < 2:
        raise DataError(
            "The noise is as large as the number of rows: nothing can be told. Ask for "
            "a larger epsilon, or more rows."
        )
    mean, S = _noisy(N, centre, totals)
    # Noise makes some eigenvalues negative: a variance that is not there.
    variance, axes = scipy.linalg.eigh(S)
    variance, axes = np.maximum(variance[::-1], 0.0), axes[:, ::-1]
    total = float(variance.sum())
    k = _number(variance, wanted, p)
    noise = float(variance[k:].mean()) if k < p else 0.0
    edge = float(noise_edge(privacy, federation, p)) / (N - 1)
    told = {
        "privacy_": {
            **privacy.as_dict(),
            "neighbours": NEIGHBOURS,
            "rho": rho_of(privacy.epsilon, privacy.delta),
            "noise_edge": edge,
        },
        "signal_to_noise_": variance[:k] / edge,
    }
    axes = with_positive_peaks(axes[:, :k])
    return Spectrum(N, mean, variance[:k].copy(), axes, total, noise, None, told)


def proven_private(
    fit: Fit, axes: Float[Array, "p k"]
) -> tuple[Float[Array, " p"], Float[Array, " k"]] | None:
    """Return mean and variances along axes that a private fit proves, or None.

    For `follows` of a derived step. Noise is the same in all directions, so a residual
    is judged beside the largest eigenvalue.
    """
    N = round(float(fit.totals["count"]))
    mean, S = _noisy(N, fit.public["centre"], fit.totals)
    image = S @ axes
    values = np.einsum("ij,ij->j", axes, image)
    misfits = [
        np.abs(axes.T @ axes - np.eye(axes.shape[1])).max(),
        np.abs(image - values * axes).max() / np.linalg.norm(S),
    ]
    return (mean, np.maximum(values, 0.0)) if max(misfits) <= 1e-9 else None


def _noisy(
    N: int, centre: Float[Array, " p"], totals: Mapping[str, Any]
) -> tuple[Float[Array, " p"], Float[Array, "p p"]]:
    """Return the mean and the covariance that noisy totals give."""
    shift = totals["total"] / N
    S = (totals["scatter"] - N * np.outer(shift, shift)) / (N - 1)
    return centre + shift, S


def noise_edge(privacy: GaussianPrivacy, federation: Federation, p: int) -> float:
    """Return the largest eigenvalue that noise alone gives a p × p scatter.

    Twice the square root of p, times the deviation of an entry off the diagonal.
    """
    noise = local_private.declared["scatter"].noise
    assert noise is not None
    m, how = len(federation.parties), federation.coordinator.protection
    sigma = noise.sigma(rho_of(privacy.epsilon, privacy.delta)) / math.sqrt(2.0)
    sigma *= math.sqrt(m / honest_shares(m, how))
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
        check_inputs(pca_private, federation.operations)
    except Refusal as refusal:
        raise DataError(
            "A private fit reads the silos' columns as they are: a fitted transform, a "
            "fold or a split before it would tell of the rows without noise. Scale by "
            "public constants in the sources instead.",
            rule=refusal.rule,
        ) from None
    return np.broadcast_to(given, (p,)).astype(float)


def _number(variance: Float[Array, " p"], wanted: Wanted, p: int) -> int:
    if wanted is None:
        return p
    if isinstance(wanted, int):
        return wanted
    share = np.cumsum(variance / (variance.sum() or 1.0))
    return min(int(np.searchsorted(share, wanted, side="right")) + 1, p)

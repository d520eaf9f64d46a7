"""Means and standard deviations of columns with differential privacy, in one round.

    silos <── centre, scale, norm, ε, δ ──   rows shifted, scaled, clipped, rounded
    silos ── N, sums, sums of squares; discrete Gaussian noise in each share ──> moments

Cells are measured in public units about public centres, so that columns of any size
share one noise. Sensitivities are those of `unpooled.models.private_rows`: 1, L and
L². Of the cost 5 % is spent on the number of rows, 20 % on the sums and 75 % on the
squares, whose noise is the larger; without standard deviations 10 and 90 %.

Standard errors. With the noise deviations s_N, s_T and s_S of number, sums and squares,
shift ``m = T / N`` and mean square ``q = S / N``, to first order

    var(mean)      = v / N + (s_T² + m² s_N²) / N²
    var(variance)  = 2 v² / N + (s_S² + 4 m² s_T² + (q - 2 m²)² s_N²) / N²

The first terms are those of sampling, of the variance for normal columns; the others
are of the noise, whose size is public. Neither includes what clipping changed.

References
----------
Dwork and Roth, The Algorithmic Foundations of Differential Privacy, 2014, appendix A;
on a federation, with the noise of `unpooled.secure.noise`.
"""

from dataclasses import dataclass
from typing import Any, final

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.federation.federation import Federation
from unpooled.models.private_rows import (
    POINT,
    Clipping,
    checked_count,
    checked_point,
    deviation_of,
    noisy,
    noisy_count,
    promise,
)
from unpooled.protocol.bounds import LATTICE, lattice_steps
from unpooled.protocol.step import derived, public, summed
from unpooled.results.formats import number
from unpooled.secure.noise import GaussianPrivacy

# The distance of a mean, in standard errors, that a test at 5 % detects with 80 %.
_SEEN = 1.9599640 + 0.8416212
_TAKES = {
    "centre": POINT,
    "scale": public("p", "the public units in which rows are measured"),
}
_TOTAL = "column sums about a public centre, in public units, with noise"


@summed(
    takes=_TAKES,
    count=noisy_count(0.05),
    total=noisy("p", 1, 0.2, _TOTAL),
    squares=noisy(
        "p",
        2,
        0.75,
        "sum of squares of each column (squared deviations from a public centre, in "
        "public units), with noise",
    ),
)
def local_private_moments(
    X: Float[Array, "n p"], *, clipping: Clipping, scale: Float[Array, " p"]
) -> dict[str, Any]:
    """Return exact sums of whole numbers; the silo adds the declared noise to them."""
    Y = clipping.rows_in_units(X, scale)
    # Whole numbers below 2⁵³, so no partial sum is rounded.
    return {
        "count": np.array(len(Y) * LATTICE),
        "total": Y.sum(axis=0),
        "squares": np.einsum("ij,ij->j", Y, Y),
    }


@summed(takes=_TAKES, count=noisy_count(0.1), total=noisy("p", 1, 0.9, _TOTAL))
def local_private_means(
    X: Float[Array, "n p"], *, clipping: Clipping, scale: Float[Array, " p"]
) -> dict[str, Any]:
    """Return exact sums of whole numbers; the silo adds the declared noise to them."""
    Y = clipping.rows_in_units(X, scale)
    return {"count": np.array(len(Y) * LATTICE), "total": Y.sum(axis=0)}


@derived(
    takes={
        "mean": public("p", "the mean of each column over all silos, with noise"),
        "scale": public(
            "p", "the standard deviation of each column over all silos, with noise"
        ),
    },
    by_column=True,
    affine=True,
    from_noise=True,
)
def privately_standardised(
    X: Float[Array, "n p"],
    *,
    mean: Float[Array, " p"],
    scale: Float[Array, " p"],
    rho: float,
) -> Float[Array, "n p"]:
    """Return the rows minus the mean, divided by the scale; NaN stay NaN.

    `rho` is the cost of the fit that found them, for the account of later steps.
    """
    # Entry by entry, so that no row depends on how many there are.
    rows = X - mean
    rows /= scale
    return rows


@final
@dataclass(frozen=True, eq=False)
class PrivateMoments:
    """Moments with noise, as the scaler takes them.

    Attributes
    ----------
    N : int
        Sample size.
    mean : (p,) array
        Means.
    mean_se : (p,) array
        Their standard errors, of sampling and of noise; of noise alone where no
        variances are released.
    variance : (p,) array or None
        Variances with denominator N, at least their noise's standard deviation.
    variance_se : (p,) array or None
        Their standard errors, of sampling from normal columns and of noise.
    privacy : dict
        Its parameters and cost: `privacy_`.
    """

    N: int
    mean: Float[Array, " p"]
    mean_se: Float[Array, " p"]
    variance: Float[Array, " p"] | None
    variance_se: Float[Array, " p"] | None
    privacy: dict[str, Any]


def private_moments(
    federation: Federation, privacy: GaussianPrivacy, *, with_std: bool
) -> PrivateMoments:
    """Return means and, if wanted, variances of all columns, from one round."""
    step = local_private_moments if with_std else local_private_means
    centre, unit = checked_point(privacy, federation, step)
    clipping = Clipping.of(privacy, centre)
    totals = federation.sum(step, scale=unit, **vars(clipping))
    N, rho = checked_count(totals), clipping.rho
    length = privacy.row_norm / lattice_steps(federation.n_features)
    of_count = deviation_of(step, "count", rho, federation) / LATTICE
    of_sums = deviation_of(step, "total", rho, federation) * length
    # All in public units, entry by entry.
    shift = totals["total"] / N
    noise = (of_sums**2 + (shift * of_count) ** 2) / N**2
    variance = variance_se = None
    sampling = np.zeros(len(shift))
    if with_std:
        of_squares = deviation_of(step, "squares", rho, federation) * length**2
        square = totals["squares"] / N
        along = (square - 2.0 * shift**2) * of_count
        its_noise = (of_squares**2 + (2.0 * shift * of_sums) ** 2 + along**2) / N**2
        # A variance below its noise is not known. Taken as it came, it could be
        # negative, or as near to zero as to make the column larger than all others.
        v = np.maximum(square - shift**2, np.sqrt(its_noise))
        federation.coordinator.notes.append(
            _what_is_seen(N, of_sums, of_squares, privacy)
        )
        sampling = v / N
        variance = v * unit**2
        variance_se = np.sqrt(2.0 * v**2 / N + its_noise) * unit**2
    return PrivateMoments(
        N=N,
        mean=centre + shift * unit,
        mean_se=np.sqrt(sampling + noise) * unit,
        variance=variance,
        variance_se=variance_se,
        privacy=promise(privacy, federation),
    )


def _what_is_seen(
    N: int, of_sums: float, of_squares: float, privacy: GaussianPrivacy
) -> str:
    """Return a sentence on what means and deviations with this noise can detect."""
    unit = "" if np.all(np.asarray(privacy.scale) == 1.0) else " times the public scale"
    return (
        f"StandardScaler with noise: with {N:,} rows and ε = {privacy.epsilon:.3g} "
        f"noise gives each mean a standard error of {number(of_sums / N)}{unit} about "
        f"the public centre. A difference between such a mean and a known number is "
        f"detected, with 80 % probability in a test at 5 %, from "
        f"{number(_SEEN * of_sums / N)}{unit} on, and a standard deviation is above "
        f"its noise from {number(float(np.sqrt(_SEEN * of_squares / N)))}{unit} on."
    )

"""Rows far from the model of principal components: counted, never shown.

    fit        limits of both distances, from the variances alone
    silos <── mean, components, limits ── silos ── how many rows lie beyond ──> counts
    in a silo  the distances of its own rows: `unpooled silo apply MODEL --outliers`

Of a row with scores z_j along k components of variances λ_j and the residual e, which
is what the components leave of it:

    squared Mahalanobis distance   T² = Σ z_j² / λ_j    unusual within the model
    Q-residual                     Q  = ‖e‖²            far from the model

For normal rows T² is χ² with k degrees of freedom, and Q lies below

    Q_α = θ1 (1 + c √(2 θ2 h²) / θ1 + θ2 h (h - 1) / θ1²)^(1/h)
    θ_i = Σ λ_j^i over j > k,  h = 1 - 2 θ1 θ3 / (3 θ2²),  c the normal quantile

with the probability α. The limits follow from the fit, and their levels are fixed: one
that somebody could choose would count rows on either side of any ellipsoid.

References
----------
Hotelling, Multivariate quality control (1947); Jackson and Mudholkar, Control
procedures for residuals associated with principal component analysis, Technometrics 21
(1979), equation 2.5.
"""

from typing import Any

import numpy as np
import scipy

from unpooled.arrays import Array, Float
from unpooled.federation.federation import Federation
from unpooled.linalg.settled import by_closeness, settled
from unpooled.models.moments import MEAN, complete
from unpooled.protocol.step import public, release, summed

# Shares of normal rows that lie within the limits.
LEVELS = (0.95, 0.99, 0.999)
# Attributes of a fit, which a later one without outliers removes.
OUTLIERS = ("mahalanobis_limits_", "q_limits_", "n_beyond_mahalanobis_", "n_beyond_q_")
# A variance below this share of all is rounding; along it no distance is measured.
_NO_VARIANCE = 1e-12


@summed(
    takes={
        "mean": MEAN,
        "components": public("k p", "the components (loadings of all columns)"),
        "variances": public("k", "the variances along the components"),
        "distances": public("l", "the limits of squared Mahalanobis distances"),
        "residuals": public("l", "the limits of Q-residuals"),
    },
    beyond_distances=release(
        "l",
        meaning="number of rows beyond each limit of the Mahalanobis distance (within "
        "the span of the components)",
    ),
    beyond_residuals=release(
        "l",
        meaning="number of rows beyond each limit of the Q-residual (distance from "
        "the span of the components)",
    ),
)
def local_outliers(
    X: Float[Array, "n p"],
    *,
    mean: Float[Array, " p"],
    components: Float[Array, "k p"],
    variances: Float[Array, " k"],
    distances: Float[Array, " l"],
    residuals: Float[Array, " l"],
) -> dict[str, Any]:
    """Count this silo's rows beyond each limit."""
    squares, left = distances_of(complete(X), mean, components, variances)
    return {
        "beyond_distances": (squares[:, None] > distances).sum(axis=0).astype(float),
        "beyond_residuals": (left[:, None] > residuals).sum(axis=0).astype(float),
    }


def distances_of(
    X: Float[Array, "n p"],
    mean: Float[Array, " p"],
    components: Float[Array, "k p"],
    variances: Float[Array, " k"],
) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
    """Return squared Mahalanobis distances and Q-residuals of rows.

    Parameters
    ----------
    X : (n, p) array
        Rows.
    mean : (p,) array
        Mean of the fit.
    components : (k, p) array
        Orthonormal rows.
    variances : (k,) array
        Along the components; those that are 0 up to rounding add no distance.
    """
    centred = X - mean
    scores = centred @ components.T
    unit = np.where(
        variances > _NO_VARIANCE * variances.max(initial=0.0), variances, np.inf
    )
    left = centred - scores @ components
    return (scores**2 / unit).sum(axis=1), (left**2).sum(axis=1)


def limits(
    kept: Float[Array, " k"], others: Float[Array, " l"]
) -> tuple[Float[Array, " 3"], Float[Array, " 3"]]:
    """Return the limits of both distances at the levels 95, 99 and 99.9 %.

    Parameters
    ----------
    kept : (k,) array
        Variances along the components.
    others : (l,) array
        All other variances; without any, no row has a residual, and the limits of
        residuals are infinite.
    """
    some = kept > _NO_VARIANCE * kept.max(initial=0.0)
    distances = scipy.stats.chi2.ppf(LEVELS, max(int(some.sum()), 1))
    one, two, three = (float((others**power).sum()) for power in (1, 2, 3))
    if one <= _NO_VARIANCE * (one + kept.sum()):
        return distances, np.full(len(LEVELS), np.inf)
    h = 1.0 - 2.0 * one * three / (3.0 * two**2)
    root = scipy.stats.norm.ppf(LEVELS) * np.sqrt(2.0 * two * h**2) / one
    base = 1.0 + root + two * h * (h - 1.0) / one**2
    # With h below 0 the power falls, and so does what it is of.
    return distances, one * np.maximum(base, 1e-12) ** (1.0 / h)


def outliers(
    federation: Federation,
    mean: Float[Array, " p"],
    components: Float[Array, "k p"],
    kept: Float[Array, " k"],
    others: Float[Array, " l"],
) -> dict[str, Array]:
    """Return limits of both distances and how many rows lie beyond; one round.

    Parameters
    ----------
    federation : Federation
        The rows of the fit, which has the other arguments.
    """

    def solved() -> dict[str, Array]:
        distances, residuals = limits(kept, others)
        return {"distances": distances, "residuals": np.nan_to_num(residuals)}

    found = settled("limits of outliers", solved, by_closeness)
    counts = federation.sum(
        local_outliers,
        mean=mean,
        components=components,
        variances=kept,
        distances=found["distances"],
        residuals=found["residuals"],
    )
    q_limits = np.asarray(found["residuals"])
    return {
        "mahalanobis_limits_": np.asarray(found["distances"]),
        # Infinity is no number that an argument may have.
        "q_limits_": np.where(q_limits < np.finfo(float).max, q_limits, np.inf),
        "n_beyond_mahalanobis_": np.rint(counts["beyond_distances"]).astype(np.int64),
        "n_beyond_q_": np.rint(counts["beyond_residuals"]).astype(np.int64),
    }

"""Standard errors of canonical correlations: one more round, without normality.

    fitted   canonical scores u, v of every pair, with variances 1, and r between them
    round    silos ── Σ (u v - r (u² + v²) / 2)² ──> (standard errors)² N²

In brackets is the influence of a row on the correlation r of a pair, to first order.
For normal rows its variance is (1 - r²)², which needs no round. Both take correlations
that differ from each other and from 0: at 0 a sample's correlation cannot be negative,
and its law is no normal one; the tests of `significance` are for that.

References
----------
Romanazzi, Influence in canonical correlation analysis, Psychometrika 57 (1992),
equation 3.1. Anderson, Asymptotic theory for canonical correlation analysis, Journal of
Multivariate Analysis 70 (1999), for normal rows.
"""

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.federation.federation import Federation
from unpooled.linalg.settled import by_closeness, settled
from unpooled.models.moments import MEAN, complete
from unpooled.protocol.step import public, release, summed


@summed(
    within_silos=True,
    takes={
        "mean": MEAN,
        "first": public(
            "k p", "the weights of columns in each score of the first view"
        ),
        "second": public("k p", "the same of the second view"),
        "correlations": public("k", "the correlation of each pair of scores"),
    },
    influences=release(
        "k",
        meaning="squared influence of each row on each canonical correlation, added "
        "over all rows",
    ),
)
def local_correlation_influences(
    X: Float[Array, "n p"],
    *,
    mean: Float[Array, " p"],
    first: Float[Array, "k p"],
    second: Float[Array, "k p"],
    correlations: Float[Array, " k"],
) -> dict[str, Array]:
    """Add this silo's squared influences on canonical correlations."""
    centred = complete(X) - mean
    u, v = centred @ first.T, centred @ second.T
    influence = u * v - 0.5 * correlations * (u**2 + v**2)
    return {"influences": (influence**2).sum(axis=0)}


def correlation_errors(
    federation: Federation,
    mean: Float[Array, " l"],
    A: Float[Array, "p k"],
    B: Float[Array, "q k"],
    r: Float[Array, " k"],
    N: int,
) -> Float[Array, " k"]:
    """Return the standard errors of canonical correlations; one round.

    Parameters
    ----------
    federation : Federation
        The columns of both views, those of the first in front.
    mean : (p + q,) array
        Mean of all rows.
    A, B : (p, k) and (q, k) arrays
        Directions of the columns as they are, whose scores have variance 1.
    r : (k,) array
        Correlations of these scores.
    N : int
        Sample size.
    """
    first, second = np.zeros((2, len(r), len(mean)))
    first[:, : len(A)], second[:, len(A) :] = A.T, B.T
    # BLAS computed them: silos that follow send what the coordinator does.
    r = settled("canonical correlations", lambda: {"r": r}, by_closeness)["r"]
    totals = federation.sum(
        local_correlation_influences,
        mean=mean,
        first=first,
        second=second,
        correlations=r,
    )
    return np.sqrt(np.maximum(totals["influences"], 0.0)) / N


def normal_errors(r: Float[Array, " k"], N: int) -> Float[Array, " k"]:
    """Return the standard errors of canonical correlations that normal rows have."""
    return (1.0 - np.minimum(r, 1.0) ** 2) / np.sqrt(N)

"""The likelihood of rows under the probabilistic model of principal components.

    silos <── mean, components ──  silos ── N, squares along each component, and of the
    rows' distances from the mean, added ──> mean log-likelihood

References
----------
Tipping and Bishop, Mixtures of probabilistic principal component analyzers, Neural
Computation 11 (1999).
"""

import math
from typing import Any

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.models.moments import MEAN, complete
from unpooled.protocol.step import public, release, summed


@summed(
    within_silos=True,
    takes={
        "mean": MEAN,
        "components": public("k p", "the components (weights of columns)"),
    },
    count=release("", meaning="sample size (number of rows)"),
    squares=release(
        "", meaning="squared distances of the rows from the mean, added over all rows"
    ),
    along=release("k", meaning="squares of the scores along each component, added"),
)
def local_likelihood(
    X: Float[Array, "n p"], *, mean: Float[Array, " p"], components: Float[Array, "k p"]
) -> dict[str, Any]:
    """Add squared distances of this silo's rows from the mean, and squared scores."""
    centred = complete(X) - mean
    return {
        "count": np.array(len(X), float),
        "squares": np.array(np.einsum("np,np->", centred, centred)),
        "along": ((centred @ components.T) ** 2).sum(axis=0),
    }


def mean_log_likelihood(
    federation: Federation,
    mean: Float[Array, " p"],
    components: Float[Array, "k p"],
    variances: Float[Array, " k"],
    noise: float,
) -> float:
    """Return the mean log-likelihood of rows; one round.

    Parameters
    ----------
    federation : Federation
        Rows with the model's columns.
    mean : (p,) array
        Mean of the fit.
    components : (k, p) array
        Orthonormal rows.
    variances : (k,) array
        Along the components.
    noise : float
        The mean variance of the other p - k directions; not used where there is none.
    """
    k, p = components.shape
    if (variances <= 0).any() or (p > k and noise <= 0):
        raise DataError("Rows without variance in a direction have no likelihood.")
    totals = federation.sum(local_likelihood, mean=mean, components=components)
    N, along = float(totals["count"]), totals["along"]
    others = (float(totals["squares"]) - along.sum()) / noise if p > k else 0.0
    squares = (along / variances).sum() + others
    log_det = np.log(variances).sum() + ((p - k) * math.log(noise) if p > k else 0.0)
    return float(-0.5 * (squares / N + p * math.log(2 * math.pi) + log_det))

"""The within-class scatter matrix S_w, by secure sums.

    round 1   silos <── class means ── each forms the scatter of its rows about the
              means of their classes, and keeps it
              silos ── the diagonal ────────────────────────────────────────> squares
    round 2   silos <── squares ── silos ── the upper triangle, each entry in units of
              sqrt(squares_i squares_j), which bounds it ───────────────────> S_w

Each class has a weight: 1 for the pooled scatter, 0 to leave the class out, or the
ratio of its prior probability to its share of the rows.
"""

from typing import Any

import numpy as np

from unpooled.arrays import Array, Float, Int, Shaped
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.linalg.moments import scatter
from unpooled.linalg.settled import product
from unpooled.models.discriminant.classes import (
    NAMES,
    OPENED_SIZES,
    OWN_SIZES,
    Classes,
    class_codes,
    class_sizes,
)
from unpooled.protocol.bounds import CauchySchwarz
from unpooled.protocol.step import public, release, stays, summed


@summed(
    within_silos=True,
    takes={
        "classes": NAMES,
        "count": OPENED_SIZES,
        "means": public("c p", "the mean of each column over the rows of each class"),
        "weights": public("c", "the weight of each class", weighs=True),
    },
    squares=release(
        "p",
        meaning="within-class sum of squares of each column (squared deviations from "
        "its class means, added with a weight for each class)",
    ),
    scatter=stays(
        "p p",
        symmetric=True,
        until="fit",
        meaning="within-class cross-product matrix (products of every two columns' "
        "deviations from their class means, added with a weight for each class)",
    ),
    own=OWN_SIZES,
)
def local_within_squares(
    X: Float[Array, "n p"],
    y: Shaped[Array, " n"],
    *,
    classes: Int[Array, "c w"],
    count: Float[Array, " c"],
    means: Float[Array, "c p"],
    weights: Float[Array, " c"],
) -> dict[str, Any]:
    """Form the scatter about the pooled class means; release its diagonal."""
    codes = class_codes(y, classes)
    S = np.zeros((X.shape[1], X.shape[1]))
    for k in np.flatnonzero(weights):
        S += weights[k] * scatter(X[codes == k], means[k])
    own = class_sizes(codes, classes)
    return {"squares": S.diagonal().copy(), "scatter": S, "own": own}


@summed(
    within_silos=True,
    takes={
        "squares": public(
            "p",
            "each column's squared deviations from its class means, weighted and added",
        )
    },
    scatter=release(
        "p p",
        symmetric=True,
        bound=CauchySchwarz("squares"),
        meaning="within-class cross-product matrix (products of every two columns' "
        "deviations from their class means, added with a weight for each class)",
    ),
)
def local_within_scatter(kept: Any, *, squares: Float[Array, " p"]) -> dict[str, Any]:
    """Release the scatter that was kept; no row is read again."""
    return {"scatter": kept["scatter"]}


def pooled_within(
    federation: Federation, classes: Classes, weights: Float[Array, " c"]
) -> Float[Array, "p p"]:
    """Return the weighted scatter of rows about their class means; two rounds.

    Parameters
    ----------
    federation : Federation
        With a label.
    classes : Classes
        Names and means of the classes, in the federation's columns.
    weights : (c,) array
        Weight of each class, at least 0.
    """
    squares = federation.sum(
        local_within_squares,
        classes=classes.names,
        count=classes.count,
        means=classes.means,
        weights=weights,
    )["squares"]
    return federation.sum(local_within_scatter, squares=squares)["scatter"]


def within_covariances(
    federation: Federation, classes: Classes
) -> Float[Array, "c p p"]:
    """Return the covariance matrix of each class, with denominator N_k; 2 c rounds."""
    each = np.eye(len(classes.count))
    scatters = [pooled_within(federation, classes, weights) for weights in each]
    return np.array(scatters) / classes.count[:, None, None]


def between(
    shares: Float[Array, " c"], means: Float[Array, "c p"], mean: Float[Array, " p"]
) -> Float[Array, "p p"]:
    """Return ``Σ shares_k (means_k - mean)(means_k - mean)ᵀ``."""
    deviations = np.sqrt(shares)[:, None] * (means - mean)
    return product(deviations.T, deviations)


def shrunk(S: Float[Array, "p p"], shrinkage: float) -> Float[Array, "p p"]:
    """Return ``(1 - s) S + s (tr S / p) I``."""
    p = len(S)
    return (1.0 - shrinkage) * S + shrinkage * S.trace() / p * np.eye(p)


def shrunk_in_span(
    Sb: Float[Array, "q q"], Sw: Float[Array, "q q"], s: float, p: int
) -> tuple[Float[Array, "q q"], Float[Array, "q q"]]:
    """Return S_b and S_w of coordinates in a span, shrunk as among all p columns."""
    unit = s / p * np.eye(len(Sw))
    return (1.0 - s) * Sb + Sb.trace() * unit, (1.0 - s) * Sw + Sw.trace() * unit


def singular_within(p: int, N: int, c: int) -> DataError:
    """Return the error for a within-class covariance matrix of too few rows."""
    return DataError(
        f"{p} columns, but {N} rows in {c} classes: the within-class covariance is "
        f"singular, and directions that separate the classes perfectly are arbitrary. "
        f"Choose a shrinkage, 0.1 for instance, or leave columns out with select."
    )

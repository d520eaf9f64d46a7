"""Scatter of rows about the means of their classes, by secure sums.

round 1   silos <── class means ── each forms its scatter about them, keeps it,
          silos ── the diagonal ────────────────────────────────────> squares
round 2   silos <── squares ── silos ── the triangle, in units of its bound ──> S
round 3   (Ledoit-Wolf only) silos ── Σ |z|⁴ over the rows z of each class and of
          all, standardised ────────────────────────────────────────> fourths
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from unpooled.arrays import Array, Float, Int, Shaped
from unpooled.federation.federation import Federation
from unpooled.linalg.moments import scatter
from unpooled.models.discriminant.classes import Classes, class_codes
from unpooled.models.moments import pooled_scatter
from unpooled.protocol.bounds import CauchySchwarz
from unpooled.protocol.step import Step, public, release, stays, summed


@summed(
    takes={
        "classes": public("c w", "the names of the classes"),
        "means": public("c p", "the mean of each column over the rows of each class"),
        "weights": public("c", "the weight of each class"),
    },
    squares=release(
        "p",
        meaning="each column's squared deviations from its class means, added, with a "
        "weight for each class",
    ),
    scatter=stays(
        "p p",
        symmetric=True,
        until="fit",
        meaning="within-class cross-product matrix (products of every two columns' "
        "deviations from their class means, added with a weight for each class)",
    ),
)
def local_within_squares(
    X: Float[Array, "n p"],
    y: Shaped[Array, " n"],
    *,
    classes: Int[Array, "c w"],
    means: Float[Array, "c p"],
    weights: Float[Array, " c"],
) -> dict[str, Any]:
    """Form the scatter about the federation's class means; release its diagonal."""
    codes = class_codes(y, classes)
    S = np.zeros((X.shape[1], X.shape[1]))
    for k in np.flatnonzero(weights):
        S += weights[k] * scatter(X[codes == k], means[k])
    return {"squares": S.diagonal().copy(), "scatter": S}


@summed(
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


@summed(
    takes={
        "classes": public("c w", "the names of the classes"),
        "means": public("c p", "the mean of each column over the rows of each class"),
        "scales": public(
            "c p", "the standard deviation of each column within each class"
        ),
        "mean": public("p", "the mean of each column over all silos"),
        "scale": public("p", "the standard deviation of each column over all silos"),
    },
    fourths=release(
        "c", meaning="fourth powers of standardised rows' lengths, added by class"
    ),
    fourth=release("", meaning="fourth powers of standardised rows' lengths, added"),
)
def local_fourths(
    X: Float[Array, "n p"],
    y: Shaped[Array, " n"],
    *,
    classes: Int[Array, "c w"],
    means: Float[Array, "c p"],
    scales: Float[Array, "c p"],
    mean: Float[Array, " p"],
    scale: Float[Array, " p"],
) -> dict[str, Any]:
    """Add what the Ledoit-Wolf formula needs beside covariances."""
    codes = class_codes(y, classes)
    own = _fourths((X - means[codes]) / scales[codes])
    fourths = np.bincount(codes, own, minlength=len(classes))
    return {"fourths": fourths, "fourth": _fourths((X - mean) / scale).sum()}


class Within(NamedTuple):
    """The steps of this module under a model's name (`adopted`)."""

    squares: Step
    scatter: Step
    fourths: Step


STEPS = Within(
    local_within_squares,
    local_within_scatter,
    local_fourths,
)


def covariances(
    federation: Federation,
    steps: Within,
    found: Classes,
    priors: Float[Array, " c"],
    given: Any,
    shrinkage: Any,
) -> tuple[Float[Array, "p p"], Float[Array, "p p"]]:
    """Return the covariances within classes and of all rows, shrunk.

    Parameters
    ----------
    federation : Federation
        With a label.
    steps : Within
        Under the model's name.
    found : Classes
        Their names, sizes and means.
    priors : (c,) array
        What the classes weigh within.
    given : sequence or None
        The user's; None where they are shares of rows.
    shrinkage : float, "auto" or None
        Of both.
    """
    names, count, means = found.names, found.count, found.means
    N = count.sum()
    mean = count @ means / N
    if isinstance(shrinkage, str):
        by_class, St = ledoit_wolf_covariances(federation, steps, names, count, means)
        return np.tensordot(priors, by_class, 1), St
    Sw = pooled_within(federation, steps, names, means, priors * N / count) / N
    if given is None:
        St = Sw + between(priors, means, mean)
    else:
        St = pooled_scatter(federation, mean) / N
    return shrunk(Sw, float(shrinkage or 0)), shrunk(St, float(shrinkage or 0))


def pooled_within(
    federation: Federation,
    steps: Within,
    classes: Int[Array, "c w"],
    means: Float[Array, "c p"],
    weights: Float[Array, " c"],
) -> Float[Array, "p p"]:
    """Return the weighted scatter about the class means; two rounds."""
    told = federation.sum(steps.squares, classes=classes, means=means, weights=weights)
    squares = told["squares"]
    return federation.sum(steps.scatter, squares=squares)["scatter"]


def ledoit_wolf_covariances(
    federation: Federation,
    steps: Within,
    classes: Int[Array, "c w"],
    count: Float[Array, " c"],
    means: Float[Array, "c p"],
) -> tuple[Float[Array, "c p p"], Float[Array, "p p"]]:
    """Return each class's covariance and that of all rows, shrunk; 2 c + 1 rounds.

    As scikit-learn's discriminant analysis has it: columns are standardised first, and
    every covariance gets a shrinkage of its own.
    """
    C = np.array(
        [
            pooled_within(federation, steps, classes, means, one) / n
            for one, n in zip(np.eye(len(count)), count, strict=True)
        ]
    )
    units = ledoit_wolf_units(C, count, means)
    totals = federation.sum(steps.fourths, classes=classes, means=means, **units)
    return ledoit_wolf_shrunk(C, count, means, totals)


def ledoit_wolf_units(
    C: Float[Array, "c p p"], count: Float[Array, " c"], means: Float[Array, "c p"]
) -> dict[str, Any]:
    """Return the mean and the deviations by which rows are standardised."""
    total, mean = _all_rows(C, count, means)
    scales = np.array([_deviations(S) for S in C])
    return {"scales": scales, "mean": mean, "scale": _deviations(total)}


def ledoit_wolf_shrunk(
    C: Float[Array, "c p p"],
    count: Float[Array, " c"],
    means: Float[Array, "c p"],
    totals: Mapping[str, Array],
) -> tuple[Float[Array, "c p p"], Float[Array, "p p"]]:
    """Return each class's covariance and that of all rows, shrunk by fourth powers."""
    total = _all_rows(C, count, means)[0]
    by_class = [
        _ledoit_wolf(S, _deviations(S), n, fourth)
        for S, n, fourth in zip(C, count, totals["fourths"], strict=True)
    ]
    fourth = float(totals["fourth"])
    return np.array(by_class), _ledoit_wolf(
        total, _deviations(total), count.sum(), fourth
    )


def _all_rows(
    C: Float[Array, "c p p"], count: Float[Array, " c"], means: Float[Array, "c p"]
) -> tuple[Float[Array, "p p"], Float[Array, " p"]]:
    shares, mean = count / count.sum(), count @ means / count.sum()
    return np.tensordot(shares, C, 1) + between(shares, means, mean), mean


def between(
    shares: Float[Array, " c"], means: Float[Array, "c p"], mean: Float[Array, " p"]
) -> Float[Array, "p p"]:
    """Return ``Σ shares_k (means_k - mean)(means_k - mean)ᵀ``."""
    apart = np.sqrt(shares)[:, None] * (means - mean)
    return apart.T @ apart


def in_span(
    Sb: Float[Array, "q q"], Sw: Float[Array, "q q"], s: float, p: int
) -> tuple[Float[Array, "q q"], Float[Array, "q q"]]:
    """Return the pencil of directions within a span, shrunk as among all p columns."""
    unit = s / p * np.eye(len(Sw))
    return (1.0 - s) * Sb + Sb.trace() * unit, (1.0 - s) * Sw + Sw.trace() * unit


def shrunk(S: Float[Array, "p p"], shrinkage: float) -> Float[Array, "p p"]:
    """Return ``(1 - s) S + s (tr S / p) I``."""
    p = len(S)
    return (1.0 - shrinkage) * S + shrinkage * S.trace() / p * np.eye(p)


def _ledoit_wolf(
    C: Float[Array, "p p"], scale: Float[Array, " p"], n: Any, fourth: Any
) -> Float[Array, "p p"]:
    R, p = C / scale / scale[:, None], len(C)
    share = ledoit_wolf_share(p, R.trace() / p, float((R**2).sum()), n, fourth)
    return shrunk(R, share) * scale * scale[:, None]


def ledoit_wolf_share(p: int, mu: float, squared: float, n: Any, fourth: Any) -> float:
    """Return how much of a covariance of standardised columns is its mean variance.

    Parameters
    ----------
    p : int
        Columns.
    mu : float
        Mean of the diagonal.
    squared : float
        Squares of all entries, added.
    n, fourth : float
        Rows, and the fourth powers of their lengths, added.
    """
    beta = (fourth / n - squared) / (p * n)
    delta = squared / p - mu**2
    beta = min(beta, delta)
    # A covariance that is a multiple of the identity already has nothing to shrink.
    return 0.0 if beta <= 0 or p == 1 else beta / delta


def _fourths(Z: Float[Array, "n p"]) -> Float[Array, " n"]:
    return np.einsum("ij,ij->i", Z, Z) ** 2


def _deviations(C: Float[Array, "p p"]) -> Float[Array, " p"]:
    return np.where(C.diagonal() > 0, np.sqrt(np.maximum(C.diagonal(), 0.0)), 1.0)

"""Projecting rows on discriminants that each silo verifies first.

Every silo repeats the coordinator's computation on totals that it added itself: class
means, the scatter about them, the eigenproblem. With more columns than rows this is in
the span of the rows, whose basis all silos verified when they answered in it
(`unpooled.models.row_space`).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.linalg.dgep import top_eigenvectors
from unpooled.linalg.eigen import same_columns, with_positive_peaks
from unpooled.linalg.generalized_eigen import leading_pencil_pairs
from unpooled.models.discriminant.classes import Classes, proven_class_sizes
from unpooled.models.discriminant.ledoit_wolf import (
    SpanCovariances,
    shrunk_covariances,
    standard_units,
)
from unpooled.models.discriminant.within_scatter import (
    between,
    shrunk,
    shrunk_in_span,
)
from unpooled.models.moments import proven_moments
from unpooled.models.row_space import basis_of, deviations
from unpooled.protocol.step import Fit, derived, public
from unpooled.protocol.view_operations import Operation

FITTED_BY = tuple(
    f"discriminant.local_{name}"
    for name in (
        "names",
        "class_counts",
        "class_totals",
        "within_squares",
        "within_scatter",
        "fourths",
        "squares",
        "scatter",
        "whitened",
        "spread",
    )
)
# Error allowed in an entry of a scatter, as a share of its bound.
_EXACT = 1e-7
# Relative difference allowed between the results of two computers.
_ROUNDING = 1e-9
_EPS = float(np.finfo(float).eps)

Fits = Mapping[str, Fit]
Covariances = tuple[Float[Array, "p p"], Float[Array, "p p"]]


def are_discriminants(fits: Fits, public: Mapping[str, Any]) -> bool:
    """Whether scalings are the leading discriminant directions of the totals."""
    V = public["scalings"]
    p, k = V.shape
    if "local_whitened" in fits:
        # A power method that stopped early gives no eigenvectors, and is refused.
        M = fits["local_whitened"].totals["M"]
        return same_columns(V, top_eigenvectors(M, k))
    sums, shrinkage = fits["local_class_totals"], public["shrinkage"]
    count = proven_class_sizes(fits)
    means = sums.totals["total"] / count[:, None]
    found = Classes(sums.public["classes"], count, means)
    span = fits["local_within_scatter"].further
    wide = span and isinstance(shrinkage, str)
    # The round of fourth powers is about all columns, the other rounds about the span.
    outside = ("local_fourths",) if wide else ()
    if sums.further or any(
        _told(one.further) != _told(span) for one in _inside(fits, outside)
    ):
        return False
    Z = None
    if span:
        mean, Z = basis_of(span)
        if not _near(mean, count @ means / count.sum(), means):
            return False
        if wide:
            wanted = _shrunk_in_span(fits, found, public["priors"], mean, Z, k)
            return wanted is not None and same_columns(V, wanted)
        found = Classes(found.names, count, (means - mean) @ Z)
    told = _covariances(fits, found, public["priors"], None if span else shrinkage)
    if told is None:
        return False
    Sw, St = told
    if Z is None:
        return same_columns(V, leading_pencil_pairs(St - Sw, Sw, p)[1][:, :k])
    pencil = shrunk_in_span(St - Sw, Sw, float(shrinkage), p)
    inside = leading_pencil_pairs(*pencil, len(Sw))[1][:, :k]
    return same_columns(V, with_positive_peaks(Z @ inside))


@derived(
    takes={
        "scalings": public("p k", "the discriminant directions (weights of columns)")
    },
    fitted_by=FITTED_BY,
    follows=are_discriminants,
    further=True,
)
def discriminated(
    X: Float[Array, "n p"],
    *,
    scalings: Float[Array, "p k"],
    shrinkage: Any,
    priors: Any,
) -> Float[Array, "n k"]:
    """Return coordinates of rows along the discriminant directions.

    `shrinkage` and `priors` are those of the fit: silos need them to verify `scalings`.
    """
    return X @ scalings


def _inside(fits: Fits, outside: Sequence[str]) -> list[Fit]:
    """Return the rounds that the directions were found in."""
    names = {name.rpartition(".")[2] for name in FITTED_BY}
    names -= {"local_class_totals", "local_spread", "local_names", *outside}
    names -= {"local_class_counts"}
    return [one for name in names & fits.keys() for one in fits[name].rounds]


def _shrunk_in_span(
    fits: Fits,
    found: Classes,
    priors: Any,
    mean: Float[Array, " p"],
    basis: Float[Array, "p r"],
    k: int,
) -> Float[Array, "p k"] | None:
    """Return the directions of `unpooled.models.discriminant.ledoit_wolf`, or None."""
    spread, fourths, shares = fits["local_spread"], fits["local_fourths"], found.count
    N, shares = shares.sum(), shares / shares.sum()
    if spread.further or fourths.further or fourths.earlier:
        return None
    if not np.array_equal(spread.public["mean"], mean):
        return None
    unit = deviations(spread.totals["squares"], mean, int(N))
    Z, means = basis * unit[:, None], (found.means - mean) @ basis
    inside = Classes(found.names, found.count, means)
    S = _scatters(fits, inside, np.eye(len(shares)))
    if S is None:
        return None
    C = S / found.count[:, None, None]
    inner = SpanCovariances.of_classes(inside, Z, unit, C)
    wanted = {"classes": found.names, "means": found.means, "mean": mean}
    if not _all_near(fourths, {**wanted, **inner.units()}, found.means):
        return None
    shares = shares if priors is None else np.array(priors, float)
    return inner.scalings(inner.pencil(shares, fourths.totals).leading(k)[1])


def _told(operations: Sequence[Operation]) -> list[dict[str, Any]]:
    return [operation.as_json() for operation in operations]


def _covariances(
    fits: Fits, found: Classes, priors: Any, shrinkage: Any
) -> Covariances | None:
    """Return the covariances within classes and of all rows, or None."""
    count, means, N = found.count, found.means, found.count.sum()
    shares = count / N if priors is None else np.array(priors, float)
    if shares.shape != count.shape or not (shares > 0).all():
        return None
    if isinstance(shrinkage, str):
        return _ledoit_wolf(fits, found, shares)
    S = _scatters(fits, found, (shares * N / count)[None])
    if S is None:
        return None
    Sw, mean = S[0] / N, count @ means / N
    if priors is None:
        St = Sw + between(shares, means, mean)
    else:
        asked = fits["local_squares"].public["mean"]
        if not _near(asked, mean, means):
            return None
        total = proven_moments(fits, int(N), asked, _EXACT)
        if total is None:
            return None
        St = total / N
    s = float(shrinkage or 0)
    return shrunk(Sw, s), shrunk(St, s)


def _ledoit_wolf(
    fits: Fits, found: Classes, shares: Float[Array, " c"]
) -> Covariances | None:
    count, means, fourths = found.count, found.means, fits["local_fourths"]
    S = _scatters(fits, found, np.eye(len(count)))
    if S is None:
        return None
    C = S / count[:, None, None]
    wanted = {"classes": found.names, "means": means}
    wanted |= standard_units(C, found)
    if not _all_near(fourths, wanted, means):
        return None
    by_class, St = shrunk_covariances(C, found, fourths.totals)
    return np.tensordot(shares, by_class, 1), St


def _scatters(
    fits: Fits, found: Classes, weights: Float[Array, "l c"]
) -> Float[Array, "l p p"] | None:
    """Return the scatters about class means, one for each row of weights, or None."""
    rounds = fits["local_within_squares"].rounds, fits["local_within_scatter"].rounds
    if {len(rounds[0]), len(rounds[1])} != {len(weights)}:
        return None
    scatters = []
    for one, diagonal, pairs in zip(weights, *rounds, strict=True):
        squares, S = diagonal.totals["squares"], pairs.totals["scatter"]
        asked = diagonal.public
        same = np.array_equal(asked["classes"], found.names)
        same = same and _near(asked["means"], found.means, found.means)
        same = same and _near(asked["weights"], one, one)
        same = same and np.array_equal(pairs.public["squares"], squares)
        # Of a column that is constant in each class only rounding is left.
        slack = _EXACT * squares + _EPS**2 * (found.count @ found.means**2)
        # About other means the diagonal would be another.
        if not same or not (np.abs(S.diagonal() - squares) <= slack).all():
            return None
        scatters.append(S)
    return np.array(scatters)


def _all_near(fit: Fit, wanted: Mapping[str, Array], means: Array) -> bool:
    """Whether a round was asked for with these arguments, a mean beside the means."""
    return all(
        _near(fit.public[name], value, means if name == "mean" else value)
        for name, value in wanted.items()
    )


def _near(asked: Array, wanted: Array, beside: Array) -> bool:
    """Whether numbers are the same but for rounding, in units of their columns."""
    if asked.shape != wanted.shape:
        return False
    size = np.abs(np.atleast_2d(beside)).max(axis=0)
    return bool((np.abs(asked - wanted) <= _ROUNDING * size).all())

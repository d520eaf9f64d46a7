"""Verification that scores of a view follow from the totals of a fit of two views.

The fit read the columns of both views, a transform reads those of the first. Every silo
repeats the coordinator's arithmetic, on totals that it added itself, for each of the
models; one of them must give these rotations.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.linalg.canonical_correlation import Covariances, canonical_directions
from unpooled.linalg.eigen import same_columns
from unpooled.linalg.partial_least_squares import (
    Latent,
    canonical_latent,
    leading_singular_pairs,
    partial_least_squares,
)
from unpooled.models.moments import proven_moments
from unpooled.models.row_space import basis_of
from unpooled.protocol.step import Fit
from unpooled.protocol.view_operations import Select

FITTED_BY = tuple(
    f"{module}.local_{name}"
    for module in ("cca", "pls", "pls_regression")
    for name in ("total", "squares", "scatter")
)
# Largest error of an entry of a summed scatter, as a share of the entry's bound.
_EXACT = 1e-7

# A basis of each view's columns within the span of all rows.
Bases = tuple[Array, Array]


def are_scores(fits: Mapping[str, Fit], public: Mapping[str, Any]) -> bool:
    """Return whether some model of two views has these rotations for these totals."""
    rotations, width = public["rotations"], len(public["mean"])
    sums, scatter = fits["local_total"], fits["local_scatter"]
    squares = fits["local_squares"]
    N = round(float(sums.totals["count"]))
    mean = centre = sums.totals["total"] / N
    if not np.array_equal(public["mean"], mean[:width]):
        return False
    ((both, *span), *others) = (one.further for one in (scatter, squares, sums))
    if not isinstance(both, Select) or len(both.columns) != len(mean):
        return False
    bases = None
    if span:
        at, Z = basis_of(scatter.further)
        if not np.array_equal(at, mean):
            return False
        inside = np.count_nonzero(Z[:width].any(axis=0))
        bases, centre = (Z[:width, :inside], Z[width:, inside:]), np.zeros(Z.shape[1])
    same = [[o.as_json() for o in one] for one in (*others, scatter.further)]
    if same[0] != same[2] or same[1] != same[2][:1]:
        return False
    S = proven_moments(fits, N, centre, _EXACT)
    if S is None:
        return False
    C, p = S / (N - 1), width if bases is None else bases[0].shape[1]
    spread = np.sqrt(C.diagonal())
    spread[spread == 0.0] = 1.0
    if not np.array_equal(public["scale"], np.ones(width)):
        if bases is not None or not np.allclose(public["scale"], spread[:p], 1e-9, 0.0):
            return False
        C = C / spread / spread[:, None]
    views = Covariances(C[:p, :p], C[:p, p:], C[p:, p:])
    return any(
        same_columns(rotations, found)
        for found in _found(views, rotations.shape[1], public["regularisation"], bases)
    )


def _found(
    S: Covariances, k: int, c: float, bases: Bases | None
) -> Iterator[Float[Array, "p k"]]:
    """Yield the rotations of the first view by every model that finds some."""
    yield leading_singular_pairs(S.xy, k)[0]
    ways = (
        lambda: partial_least_squares(S, k, regression=True),
        lambda: partial_least_squares(S, k, regression=False),
        lambda: canonical_latent(S, *canonical_directions(S.shrunk(c), k)),
    )
    for way in ways:
        try:
            latent: Latent = way()
        except ValueError:
            continue  # no definite covariances, for a model that needs them
        yield (latent if bases is None else latent.lifted(*bases)).x_rotations

"""Whether a projection is on the principal components that a fit's totals prove."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.linalg.eigen import eigenvalues_of
from unpooled.models.moments import proven_moments
from unpooled.models.pca.krylov import proven_variances
from unpooled.models.pca.private import proven_private
from unpooled.models.pca.spectrum import whitening
from unpooled.models.pca.update import moments_of
from unpooled.protocol.step import Fit

# The steps whose totals a projection can be checked against.
FITTED_BY = tuple(
    f"pca.local_{name}"
    for name in (
        "total",
        "squares",
        "scatter",
        "spread",
        "image",
        "rounded",
        "private",
        "moments",
    )
)
# What a check of exact eigenvectors lets pass: `eigh` leaves p eps λ_1, and the
# smallest spread that it is trusted with is a thousandth of the largest.
_EXACT = 1e-7
# Of a bound in so many bits: what a Ritz vector's residual may be, in the same units.
_CODES = 64.0


def are_axes(fits: Mapping[str, Fit], public: Mapping[str, Any]) -> bool:
    """Whether a projection is on principal axes of the rows that were summed."""
    V, within = public["components"].T, _EXACT
    if "local_private" in fits:
        found = proven_private(fits["local_private"], V)
    else:
        if "local_rounded" in fits:
            within = _CODES * 2.0 ** -fits["local_rounded"].public["bits"]
        found = _proven(fits, V, within)
    if found is None or not np.array_equal(public["mean"], found[0]):
        return False
    # Of the smallest variances rounding leaves few digits; a scale only scales.
    scale, wanted = public["scale"], whitening(found[1])
    near = np.abs(scale - wanted) <= max(10 * within, 1e-6) * wanted.max()
    return bool((scale == 1.0).all() or near.all())


def _proven(
    fits: Mapping[str, Fit], V: Float[Array, "p k"], within: float
) -> tuple[Float[Array, " p"], Float[Array, " k"]] | None:
    if "local_moments" in fits:
        N, mean, S = moments_of(fits["local_moments"])
        variance = eigenvalues_of(S / max(N - 1, 1), V, within)
        return None if variance is None else (mean, variance)
    sums = fits["local_total"].totals
    N = round(float(sums["count"]))
    mean = sums["total"] / N
    if "local_image" in fits:
        variance = proven_variances(fits, N, mean, V)
    else:
        S = proven_moments(fits, N, mean, within)
        variance = None if S is None else eigenvalues_of(S / max(N - 1, 1), V, within)
    return None if variance is None else (mean, variance)

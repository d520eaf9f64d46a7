"""The solvers of PCA on a row partition: the scatter in whole, or only its products.

covariance_eigh   N, mean ── squares ── S, p (p + 1) / 2 numbers ──> eigenpairs of S
krylov            N, mean ── squares ── S V, S V', ... ────────────> Ritz pairs
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.linalg.eigen import eigenvalues_of, with_positive_peaks
from unpooled.models.moments import pooled_mean, pooled_scatter, proven_moments
from unpooled.models.pca import krylov
from unpooled.models.pca.krylov import leading_axes, proven_variances
from unpooled.models.pca.private import proven_private
from unpooled.models.pca.spectrum import (
    Spectrum,
    Wanted,
    check_rows_suffice,
    spectrum_of,
    whitening,
)
from unpooled.models.pca.update import moments_of
from unpooled.protocol.step import LIBRARY, Fit, adopted

# `unpooled.models.pca.pca` has them too, where silos look them up.
local_spread, local_image = adopted(
    f"{LIBRARY}pca", krylov.local_spread, krylov.local_image
)
# What a projection can be checked against; `unpooled.models.pca.compression` has the
# last.
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


def covariance_eigh(model: Any, federation: Federation, wanted: Wanted) -> Spectrum:
    """Solve the pooled scatter in whole; three rounds."""
    p = federation.n_features
    N, mean = pooled_mean(federation)
    check_rows_suffice(wanted, N, p)
    S = pooled_scatter(federation, mean)
    return spectrum_of(S, N, mean, wanted)


def block_krylov(model: Any, federation: Federation, wanted: Wanted) -> Spectrum:
    """Multiply blocks by the pooled scatter until k components stand still."""
    p = federation.n_features
    if not isinstance(wanted, int):
        raise DataError(
            f'n_components={wanted!r}: svd_solver="krylov" finds a number of '
            f"components; give a whole number from 1 to {p}."
        )
    N, mean = pooled_mean(federation)
    check_rows_suffice(wanted, N, p)
    squares = federation.sum(local_spread, mean=mean)["squares"]
    moments = {"N": N, "mean": mean, "squares": squares}
    pairs = leading_axes(federation, model, wanted, local_image, **moments)
    variance = np.maximum(pairs.values, 0.0) / (N - 1)
    total, others = float(squares.sum()) / (N - 1), min(N, p) - wanted
    noise = max(total - float(variance.sum()), 0.0) / others if others else 0.0
    axes = with_positive_peaks(pairs.vectors)
    return Spectrum(N, mean, variance, axes, total, noise, pairs)


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

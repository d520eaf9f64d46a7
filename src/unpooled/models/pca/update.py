"""A fit brought up to date: rows appended or replaced, silos that joined or left.

    silos <── origin, a public point, the same in all updates of a model
    silos ── N, sums and products of the distances from it; kept in the silo ──> totals
    S = total products - N d dᵀ,  d = the mean's distance from the origin

One secure sum. A silo whose first rows are those of last time reads and adds only what
came behind them. Each total is a sum over the present rows, never a difference to an
earlier total, so that nothing drifts however often a model is updated. Distances are
from the first fit's mean: subtracting N d dᵀ costs digits only once the mean has moved
by many spreads, and then the model is fitted anew, about its new mean.

The products' size is not known before, so they travel in the wide code: 32 bytes each.
"""

from typing import Any

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.linalg.moments import column_sums, scatter
from unpooled.models.moments import not_finite
from unpooled.models.pca.spectrum import (
    Spectrum,
    Wanted,
    check_rows_suffice,
    spectrum_of,
)
from unpooled.protocol.step import LIBRARY, Fit, adopted, public, release, summed

# N d² / S_jj above which an update is no longer as good as a fit: it loses as many
# units in the last place of float64, 2e-12 here.
_FAR = 1e4

_TELLS = (
    "An update tells more than a fit: next to the totals of the fit before, those of "
    "the rows that came, went or changed, and of one silo alone where only that one "
    "did. Where the mean has moved by many spreads, three rounds of a fit follow."
)


@summed(
    reuses=True,
    takes={
        "origin": public(
            "p", "the mean of each column at the first fit, subtracted from all rows"
        )
    },
    count=release("", meaning="how many rows there are now"),
    total=release(
        "p", meaning="the sum of each column's distances from the first fit's mean"
    ),
    scatter=release(
        "p p",
        symmetric=True,
        meaning="products of every two columns' distances from the first fit's mean, "
        "added",
    ),
)
def local_moments(
    X: Float[Array, "n p"], *, origin: Float[Array, " p"]
) -> dict[str, Any]:
    """Add this silo's present rows about a public origin."""
    total = column_sums(X) - len(X) * origin
    if not np.isfinite(total).all():
        raise not_finite(X)
    return {
        "count": np.array(float(len(X))),
        "total": total,
        "scatter": scatter(X, origin),
    }


# `unpooled.models.pca.pca` has it too, where silos look it up.
(pca_moments,) = adopted(f"{LIBRARY}pca", local_moments)


def check_updatable(model: Any, federation: Federation) -> None:
    """Refuse fits whose moments were not exact, or were never formed."""
    if federation.partition != "rows":
        raise DataError("update is for silos with rows of their own; fit anew.")
    if model.privacy is not None or model.bits != 64 or model.rank is not None:
        raise DataError(
            "update takes exact moments: fit with privacy, bits and rank at their "
            "defaults, or fit anew."
        )
    if hasattr(model, "n_iter_"):
        raise DataError(
            f'update sums a scatter, which svd_solver="{model.svd_solver}" never '
            f"forms. Fit anew."
        )


def moments_of(fit: Fit) -> tuple[int, Float[Array, " p"], Float[Array, "p p"]]:
    """Return N, the mean, and the scatter about it that the totals give."""
    N = round(float(fit.totals["count"]))
    shift = fit.totals["total"] / max(N, 1)
    S = fit.totals["scatter"] - N * np.outer(shift, shift)
    return N, fit.public["origin"] + shift, S


def updated(
    federation: Federation, origin: Float[Array, " p"], wanted: Wanted
) -> Spectrum | None:
    """Return the answer for the present rows; None where the mean has moved too far."""
    p = len(origin)
    if federation.coordinator.planned:
        federation.coordinator.notes.append(_TELLS)
    totals = federation.sum(pca_moments, origin=origin)
    N, mean, S = moments_of(Fit({"origin": origin}, totals))
    if N < 2:
        raise DataError("A variance needs at least 2 rows over all silos.")
    check_rows_suffice(wanted, N, p)
    shift = mean - origin
    if (N * shift**2 > _FAR * np.maximum(S.diagonal(), 0.0)).any():
        return None
    return spectrum_of(S, N, mean, wanted)

"""The moments of an updated PCA: rows appended or replaced, silos joined or left.

    silos <── origin, a public point, the same in all updates of a model
    silos ── N, sums and cross-products about it; each silo keeps its own ──> totals
    S = total cross-products - N d dᵀ,  d = mean - origin

One secure sum. A silo whose first rows are those of the last update reads and adds only
the rows behind them. Each total is a sum over the present rows, never a difference to
an earlier total, so that rounding errors do not add up over updates. The origin is the
mean of the first fit: subtracting N d dᵀ costs digits only once the mean has moved by
many standard deviations, and then the model is fitted anew, about its new mean.

No bound on the cross-products is known before, so they travel in the wide code, in
32 bytes each.
"""

from typing import Any

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.linalg.moments import column_sums, scatter
from unpooled.models.moments import not_finite
from unpooled.protocol.step import public, release, summed

# N d² / S_jj above which an update is less accurate than a fit: it loses as many units
# in the last place of float64, 2e-12 here.
_FAR = 1e4

_DISCLOSURE = (
    "An update tells more than a fit: next to the totals of the fit before, those of "
    "the rows that came, went or changed, and of one silo alone where only that one "
    "did. Where the mean has moved by many standard deviations, three rounds of a fit "
    "follow."
)


@summed(
    within_silos=True,
    reuses=True,
    takes={
        "origin": public(
            "p", "the mean of each column at the first fit, subtracted from all rows"
        )
    },
    count=release("", meaning="sample size (number of rows), as of now"),
    total=release("p", meaning="column sums about the first fit's mean"),
    scatter=release(
        "p p",
        symmetric=True,
        meaning="cross-product matrix (products of every two columns' deviations from "
        "the first fit's mean, added over all rows)",
    ),
)
def local_moments(
    X: Float[Array, "n p"], *, origin: Float[Array, " p"]
) -> dict[str, Any]:
    """Return the moments of this silo's present rows about a public origin."""
    total = column_sums(X) - len(X) * origin
    if not np.isfinite(total).all():
        raise not_finite(X)
    return {
        "count": np.array(float(len(X))),
        "total": total,
        "scatter": scatter(X, origin),
    }


def present_moments(
    federation: Federation, origin: Float[Array, " p"]
) -> tuple[int, Float[Array, " p"], Float[Array, "p p"]]:
    """Return N, the mean and the scatter about it of the present rows; one round."""
    if federation.coordinator.planned:
        federation.coordinator.notes.append(_DISCLOSURE)
    totals = federation.sum(local_moments, origin=origin)
    N = round(float(totals["count"]))
    shift = totals["total"] / max(N, 1)
    S = totals["scatter"] - N * np.outer(shift, shift)
    if N < 2:
        raise DataError("A variance needs at least 2 rows over all silos.")
    return N, origin + shift, S


def has_moved_far(
    N: int,
    mean: Float[Array, " p"],
    S: Float[Array, "p p"],
    origin: Float[Array, " p"],
) -> bool:
    """Return whether the mean is so far from the origin that S has lost digits."""
    shift = mean - origin
    return bool((N * shift**2 > _FAR * np.maximum(S.diagonal(), 0.0)).any())

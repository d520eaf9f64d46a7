"""Sums about the silos' own means: what is between silos, and how wide each one is.

kept     n_i, the distances' sum and scatter about the mean m of all silos
sums     n_i (m_i - m)(m_i - m)ᵀ,  (n_i - 1) log|S_i|,  Σ |x - m_i|
"""

from typing import Any

import numpy as np
import scipy.linalg

from unpooled.arrays import Array, Float
from unpooled.linalg.moments import column_sums, scatter
from unpooled.protocol.bounds import CauchySchwarz
from unpooled.protocol.step import public, release, stays, summed

# Below this, the smallest eigenvalue of a silo's own correlations is rounding.
_SINGULAR = 1e-10
_PRODUCTS = (
    "cross-product matrix (products of every two columns' deviations from their means, "
    "added over all rows)"
)


@summed(
    takes={"mean": public("p", "the mean of each column over all silos")},
    squares=release(
        "p", meaning="each column's squared deviations from its mean, added"
    ),
    count=stays("", until="fit", meaning="how many rows the silo has"),
    shift=stays("p", until="fit", meaning="the sum of the silo's distances from m"),
    scatter=stays("p p", symmetric=True, until="fit", meaning=_PRODUCTS),
)
def local_squares(
    X: Float[Array, "n p"], *, mean: Float[Array, " p"]
) -> dict[str, Any]:
    """Form the scatter about the federation's mean; release its diagonal."""
    S = scatter(X, mean)
    return {
        "squares": S.diagonal().copy(),
        "count": np.array(float(len(X))),
        "shift": column_sums(X - mean),
        "scatter": S,
    }


@summed(
    takes={
        "squares": public("p", "each column's squared deviations from its mean, added")
    },
    scatter=release(
        "p p", symmetric=True, bound=CauchySchwarz("squares"), meaning=_PRODUCTS
    ),
    between=release(
        "p p",
        symmetric=True,
        bound=CauchySchwarz("squares"),
        meaning="products of every two columns' distances of the silo's mean from that "
        "of all, times its number of rows, added",
    ),
    logs=release(
        "", meaning="logarithms of the determinants of own covariances, weighted, added"
    ),
    singular=release("", meaning="how many silos have collinear columns of their own"),
)
def local_shifts(kept: Any, *, squares: Float[Array, " p"]) -> dict[str, Any]:
    """Release the scatter that was kept, and what is between the silos of it."""
    n, shift = float(kept["count"]), kept["shift"]
    between = np.outer(shift, shift) / max(n, 1.0)
    # In units of all silos' deviations, which Box's M does not depend on.
    unit = np.sqrt(np.where(squares > 0, squares, 1.0))
    own = (kept["scatter"] - between) / unit / unit[:, None] / max(n - 1.0, 1.0)
    logs = _log_determinant(own)
    return {
        "scatter": kept.triangle("scatter"),
        "between": between,
        "logs": np.array(0.0 if logs is None else (n - 1.0) * logs),
        "singular": np.array(float(logs is None)),
    }


@summed(
    takes={
        "squares": public("p", "each column's squared deviations from its mean, added")
    },
    between=release(
        "p",
        meaning="squared distances of the silo's mean from that of all, times its "
        "number of rows, added, for each column",
    ),
)
def local_column_shifts(kept: Any, *, squares: Float[Array, " p"]) -> dict[str, Any]:
    """Release what is between the silos, column by column."""
    return {"between": kept["shift"] ** 2 / max(float(kept["count"]), 1.0)}


_WHAT = "distances from the silo's own mean, added, for each"


@summed(
    takes={
        "mean": public("p", "the mean of each column over all silos"),
        "scale": public("p", "the standard deviation of each column over all silos"),
        "axes": public("p k", "the principal components of all columns"),
    },
    column_total=release("p", meaning=f"{_WHAT} column"),
    column_squares=release("p", meaning=f"squared {_WHAT} column"),
    axis_total=release("k", meaning=f"{_WHAT} component"),
    axis_squares=release("k", meaning=f"squared {_WHAT} component"),
    column_own=stays("p", until="fit", meaning=f"{_WHAT} column"),
    axis_own=stays("k", until="fit", meaning=f"{_WHAT} component"),
)
def local_distances(
    X: Float[Array, "n p"],
    kept: Any,
    *,
    mean: Float[Array, " p"],
    scale: Float[Array, " p"],
    axes: Float[Array, "p k"],
) -> dict[str, Any]:
    """Add distances from the silo's own mean, standardised by all silos' deviations."""
    own = mean + kept["shift"] / max(float(kept["count"]), 1.0)
    Z = (X - own) / scale
    found: dict[str, Any] = {}
    for name, distances in (("column", np.abs(Z)), ("axis", np.abs(Z @ axes))):
        total = column_sums(distances)
        found |= {
            f"{name}_total": total,
            f"{name}_squares": np.einsum("nj,nj->j", distances, distances),
            f"{name}_own": total.copy(),
        }
    return found


@summed(
    takes={"axes": public("p k", "the principal components of all columns")},
    column=release(
        "p", meaning="squares of mean distances, times rows, added, for each column"
    ),
    axis=release(
        "k", meaning="squares of mean distances, times rows, added, for each component"
    ),
)
def local_spread_shifts(kept: Any, *, axes: Float[Array, "p k"]) -> dict[str, Any]:
    """Release what is between the silos of the distances from their own means."""
    n = max(float(kept["count"]), 1.0)
    return {name: kept[f"{name}_own"] ** 2 / n for name in ("column", "axis")}


def _log_determinant(S: Float[Array, "p p"]) -> float | None:
    """Return log|S|, or None where S is singular to the digits it has."""
    unit = np.sqrt(np.maximum(S.diagonal(), 0.0))
    if not (unit > 0).all():
        return None
    smallest = scipy.linalg.eigvalsh(S / unit / unit[:, None], subset_by_index=[0, 0])
    if smallest[0] <= _SINGULAR:
        return None
    return float(np.linalg.slogdet(S)[1])

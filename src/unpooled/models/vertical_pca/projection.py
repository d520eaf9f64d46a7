"""Loadings of the joined columns along merged directions, and scores by them.

each silo   M_i = X_iᵀ U  ── squares of its columns ──> total, Σ_i ‖M_i‖²
each silo   keeps P_i = M_i / sqrt(total): stacked, they have unit columns
scores      Σ_i x_i P_i by a secure sum, of these rows or of new ones
"""

from typing import Any

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.models.base import disclosed_columns
from unpooled.protocol.step import disclosed, kept, public, release, stays, summed

LOADINGS = "the loadings of the silo's own columns"
SQUARES = public(
    "k", "how much of all columns each component explains, as a sum of squares"
)
DIRECTIONS = public("N k", "directions over people, found from earlier totals")


@summed(
    by="party",
    takes={"U": DIRECTIONS},
    squares=release("k", meaning="how much of the silo's columns each component is"),
)
def local_squares(
    X: Float[Array, "N p"], *, U: Float[Array, "N k"], centred: bool
) -> dict[str, Any]:
    """Square and add the products of own columns with every direction."""
    M = (X - X.mean(axis=0) if centred else X).T @ U
    return {"squares": np.einsum("pk,pk->k", M, M)}


@kept(
    by="party",
    takes={
        "U": DIRECTIONS,
        "scale": public(
            "k", "the length of each component's loadings, by which they are divided"
        ),
    },
    components=stays("k p", meaning=LOADINGS),
    mean=stays("p", meaning="the mean of each of the silo's own columns"),
)
def local_loadings(
    X: Float[Array, "N p"],
    *,
    U: Float[Array, "N k"],
    scale: Float[Array, " k"],
    centred: bool,
) -> dict[str, Any]:
    """Keep this silo's part of the components, and what its columns are centred by."""
    mean = X.mean(axis=0) if centred else np.zeros(X.shape[1])
    return {"components": ((X - mean).T @ U / scale).T, "mean": mean}


@summed(
    by="party",
    takes={"like": SQUARES},
    scores=release("N k", meaning="each person's coordinates along the components"),
)
def local_scores(
    X: Float[Array, "N p"], kept: Any, *, like: Float[Array, " k"]
) -> dict[str, Any]:
    """Project this silo's columns by its part of the components."""
    if np.isnan(X).any():
        raise DataError("Impute first.", rule="missing_values")
    return {"scores": (X - kept["mean"]) @ kept["components"].T}


@disclosed(
    by="party",
    takes={"like": SQUARES},
    components=release("k p", meaning=LOADINGS),
)
def shown_loadings(kept: Any, *, like: Float[Array, " k"]) -> dict[str, Any]:
    """Disclose this silo's part of the components."""
    return {"components": kept["components"]}


def keep_loadings(
    federation: Federation, U: Float[Array, "N k"], *, centred: bool
) -> Float[Array, " k"]:
    """Have every silo keep its part of the components along unit directions U.

    Returns
    -------
    (k,) array
        ``Σ_j (x_jᵀ u)²`` over all columns j, for each direction u.
    """
    squares = federation.sum(local_squares, U=U, centred=centred)["squares"]
    federation.keep(local_loadings, U=U, scale=lengths(squares), centred=centred)
    return squares


def lengths(squares: Float[Array, " k"]) -> Float[Array, " k"]:
    """Return the lengths of loadings; 1 where they are 0, to divide by."""
    return np.where(squares > 0.0, np.sqrt(np.maximum(squares, 0.0)), 1.0)


def scores(federation: Federation, k: int, kept_of: str = "") -> Float[Array, "N k"]:
    """Return the scores of a federation's rows along k components that are kept."""
    # `like` gives the silos k, which no table of theirs shows.
    total = federation.sum(local_scores, like=np.ones(k), kept_of=kept_of)
    return total["scores"]


def disclosed_loadings(
    federation: Federation, k: int, kept_of: str
) -> Float[Array, "k p"]:
    """Have the silos disclose the components; columns are in the parties' order."""
    asked = {"like": np.ones(k), "kept_of": kept_of}
    return disclosed_columns(federation, shown_loadings, **asked)["components"]

"""Steps of kernel PCA on a column partition: sums over columns, for every two rows.

    own_landmarks        keeps the rows that others are compared with, and their means
    own_products         x·y of every two people               all rows are landmarks
    own_distances        ‖x - y‖² / 2 of every two people      the same
    own_products_with    x·y with each landmark                new rows; Nystroem
    own_distances_with   ‖x - y‖² / 2 with each landmark       the same
    own_phases           x W_i, W_i the silo's rows of W       Fourier

Distances do not change when columns are moved, so each silo takes them about its own
means, which keeps their digits. Where only the silos open the sums, `own_map` finds
the axes in every silo, and `own_coordinates` the scores of other rows.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from unpooled.arrays import Array, Float, Int
from unpooled.errors import DataError
from unpooled.linalg.kernels import fourier_weights, half_distances
from unpooled.linalg.moments import squared_deviations
from unpooled.models.kernel_pca.kernel import Method
from unpooled.models.moments import finite_sums
from unpooled.protocol.bounds import Ceiling, Trace
from unpooled.protocol.step import (
    LIBRARY,
    adopted,
    disclosed,
    kept,
    public,
    release,
    stays,
    summed,
)

# Entries of two rows are at most the two rows' squares, which a total bounds.
_BOUND = Trace("squares")


@summed(
    by="party",
    takes={
        "chosen": public("l", "which people are landmarks, compared with all others")
    },
    squares=release(
        "", meaning="all columns' squares, or squared distances from their means, added"
    ),
    mean=stays("p", meaning="the means of the silo's own columns"),
    landmarks=stays("l p", meaning="the rows that other rows are compared with"),
    places=stays("l", meaning="which rows these are"),
)
def own_landmarks(
    X: Float[Array, "N p"], *, chosen: Int[Array, " l"], centred: bool
) -> dict[str, Any]:
    """Keep some rows; tell how far all rows lie from their means, or from zero."""
    mean = finite_sums(X) / len(X)
    if len(chosen) and not 0 <= chosen.min() <= chosen.max() < len(X):
        raise DataError("There is no such row.", rule="arguments")
    return {
        "squares": _extent(X, mean if centred else np.zeros_like(mean)),
        "mean": mean,
        "landmarks": X[chosen],
        "places": chosen,
    }


@summed(
    by="party",
    squares=release(
        "", meaning="all columns' squares, or squared distances from means, added"
    ),
)
def own_extent(X: Float[Array, "N p"], kept: Any, *, centred: bool) -> dict[str, Any]:
    """Tell how far new rows lie from the means of the fitted ones, or from zero."""
    total = finite_sums(X)
    return {"squares": _extent(X, kept["mean"] if centred else np.zeros_like(total))}


@summed(
    by="party",
    products=release(
        "N N",
        symmetric=True,
        bound=_BOUND,
        meaning="products of every two people's rows, over all columns",
    ),
)
def own_products(
    X: Float[Array, "N p"], kept: Any, *, centred: bool, squares: float
) -> dict[str, Any]:
    """Multiply every two rows of the silo's columns."""
    Z = X - kept["mean"] if centred else X
    return {"products": Z @ Z.T}


@summed(
    by="party",
    distances=release(
        "N N",
        symmetric=True,
        bound=_BOUND,
        meaning="half squared distances of every two people, over all columns",
    ),
)
def own_distances(
    X: Float[Array, "N p"], kept: Any, *, squares: float
) -> dict[str, Any]:
    """Take half the squared distance of every two rows of the silo's columns."""
    Z = X - kept["mean"]
    distances = half_distances(Z, Z)
    np.fill_diagonal(distances, 0.0)
    return {"distances": distances}


@summed(
    by="party",
    takes={
        "chosen": public("l", "which people are landmarks, compared with all others")
    },
    products=release(
        "N l",
        bound=_BOUND,
        meaning="products of people's rows with l fitted people's, over all columns",
    ),
)
def own_products_with(
    X: Float[Array, "N p"],
    kept: Any,
    *,
    chosen: Int[Array, " l"],
    centred: bool,
    squares: float,
) -> dict[str, Any]:
    """Multiply rows with the landmarks."""
    landmarks, mean = _landmarks(kept, chosen)
    origin = mean if centred else np.zeros_like(mean)
    return {"products": (X - origin) @ (landmarks - origin).T}


@summed(
    by="party",
    takes={
        "chosen": public("l", "which people are landmarks, compared with all others")
    },
    distances=release(
        "N l",
        bound=_BOUND,
        meaning="half squared distances of people from l fitted people, over all "
        "columns",
    ),
)
def own_distances_with(
    X: Float[Array, "N p"], kept: Any, *, chosen: Int[Array, " l"], squares: float
) -> dict[str, Any]:
    """Take half the squared distances of rows from the landmarks."""
    landmarks, mean = _landmarks(kept, chosen)
    return {"distances": half_distances(X - mean, landmarks - mean)}


@summed(
    by="party",
    takes={"size": "size l"},
    phases=release(
        "N l",
        bound=Ceiling("radius"),
        meaning="public mixtures of all columns, for each person",
    ),
)
def own_phases(
    X: Float[Array, "N p"],
    party: str,
    *,
    places: Mapping[str, Any],
    seed: int,
    gamma: float,
    size: int,
    radius: float,
) -> dict[str, Any]:
    """Mix the silo's columns by its rows of the weights, which all silos can draw."""
    first, after = places[party]
    if after - first != X.shape[1]:
        raise DataError("The columns are not those of the silo.", rule="arguments")
    p = max(after for _, after in places.values())
    return {"phases": X @ fourier_weights(seed, p, size, gamma)[0][first:after]}


@kept(
    by="party",
    takes={
        "sums": public(
            "N l",
            "sums over all columns for each person, which only the silos can open",
        ),
        "chosen": public("q", "which people are landmarks, compared with all others"),
        "size": "size k",
    },
    values=stays("k", meaning="eigenvalues of the kernel matrix"),
    vectors=stays("N k", meaning="each person's place along the kernel's axes"),
    offset=stays("l", meaning="means of the kernel's values, or of features"),
    dual=stays("l k", meaning="the weights of these in the scores"),
    scores=stays("N k", meaning="each person's scores along the kernel's axes"),
    how=stays("7", meaning="which kernel, and which approximation"),
)
def own_map(
    *,
    sums: Float[Array, "N l"],
    chosen: Int[Array, " q"],
    how: Mapping[str, Any],
    size: int,
) -> dict[str, Any]:
    """Find the axes from sums that only the silos can open."""
    method = Method(**how)
    found = method.map_of(sums, chosen, size)
    return {
        "values": found.values,
        "vectors": found.vectors,
        "offset": found.offset,
        "dual": found.dual,
        "scores": found.scores,
        "how": method.as_numbers(),
    }


@summed(
    by="party",
    takes={"size": "size k"},
    eigenvalues=release("k", meaning="eigenvalues of the kernel matrix of all columns"),
)
def own_values(kept: Any, *, share: float, size: int) -> dict[str, Any]:
    """Tell the eigenvalues, which every silo knows, as a sum of equal parts."""
    return {"eigenvalues": share * kept["values"]}


@kept(
    by="party",
    takes={
        "sums": public(
            "N l",
            "sums over all columns for each person, which only the silos can open",
        ),
        "size": "size k",
    },
    scores=stays("N k", meaning="each person's scores along the kernel's axes"),
)
def own_coordinates(
    kept: Any, *, sums: Float[Array, "N l"], how: Mapping[str, Any], size: int
) -> dict[str, Any]:
    """Keep the scores of other rows, from sums that only the silos can open."""
    method = Method(**how)
    if not np.array_equal(kept["how"], method.as_numbers()):
        raise DataError("Another kernel was fitted since.", rule="nothing_kept")
    values = method.values(sums)
    return {"scores": (values - kept["offset"]) @ kept["dual"]}


@disclosed(
    by="party",
    takes={"size": "size k", "width": "size l"},
    vectors=release("N k", meaning="each person's place along the kernel's axes"),
    offset=release("l", meaning="means of the kernel's values, or of features"),
    dual=release("l k", meaning="the weights of these in the scores"),
)
def shown_map(kept: Any, *, size: int, width: int) -> dict[str, Any]:
    """Disclose the axes that the silo knows."""
    return {name: kept[name] for name in ("vectors", "offset", "dual")}


# `unpooled.models.kernel_pca.kernel_pca` has them too, where silos look them up.
STEPS = adopted(
    f"{LIBRARY}kernel_pca",
    own_landmarks,
    own_extent,
    own_products,
    own_distances,
    own_products_with,
    own_distances_with,
    own_phases,
    own_map,
    own_values,
    own_coordinates,
    shown_map,
)


def _landmarks(
    kept: Any, chosen: Int[Array, " l"]
) -> tuple[Float[Array, "l p"], Float[Array, " p"]]:
    if not np.array_equal(kept["places"], chosen):
        raise DataError("Another model was fitted since.", rule="nothing_kept")
    return kept["landmarks"], kept["mean"]


def _extent(X: Float[Array, "N p"], origin: Float[Array, " p"]) -> Array:
    return np.array(squared_deviations(X, origin).sum())

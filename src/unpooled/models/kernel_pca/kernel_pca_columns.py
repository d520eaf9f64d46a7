"""Kernel PCA on a column partition: one secure sum, then the kernel's own arithmetic.

    fit, exact     silos ── squares, one number ── x·y or ‖x - y‖² / 2 of every two
    Nystroem       the same, with l landmark rows: N × l instead of N (N + 1) / 2
    Fourier        silos ── squares ── x W, N × l; all draw the same W
    new rows       silos ── squares ── the same with the landmarks, or x W

    own_landmarks        keeps the landmark rows, and the means of all rows
    own_products         x·y of every two people               all rows are landmarks
    own_distances        ‖x - y‖² / 2 of every two people      the same
    own_products_with    x·y with each landmark                new rows; Nystroem
    own_distances_with   ‖x - y‖² / 2 with each landmark       the same
    own_phases           x W_i, W_i the silo's rows of W       Fourier

Distances do not change when columns are shifted, so each silo takes them about its own
means, which keeps their digits. With ``scores="coordinator"`` the coordinator opens the
sums and solves. With "parties" only the silos open them: `own_map` finds the axes in
every silo, `own_coordinates` the scores of other rows, and the coordinator learns the
eigenvalues only.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from unpooled.arrays import Array, Float, Int
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.linalg.kernels import fourier_weights, half_distances
from unpooled.linalg.moments import squared_deviations
from unpooled.models.kernel_pca.kernel import Method
from unpooled.models.moments import finite_sums
from unpooled.protocol.bounds import Ceiling, Trace
from unpooled.protocol.step import disclosed, kept, public, release, stays, summed

# |x·y| and ‖x - y‖² / 2 are at most ‖x‖² + ‖y‖²: the total of squares bounds each.
_BOUND = Trace("squares")
_CHOSEN = public("l", "which people are landmarks, compared with all others")
_SUMS = public(
    "N l", "sums over all columns for each person, which only the silos can open"
)


@summed(
    by="party",
    takes={"chosen": _CHOSEN},
    squares=release(
        "",
        meaning="total sum of squares (all columns' squared distances from zero or "
        "from their means, in one number)",
    ),
    mean=stays("p", meaning="the means of the silo's own columns"),
    landmarks=stays("l p", meaning="the silo's own columns of the landmark rows"),
    places=stays("l", meaning="the positions of the landmark rows"),
)
def own_landmarks(
    X: Float[Array, "N p"], *, chosen: Int[Array, " l"], centred: bool
) -> dict[str, Any]:
    """Keep the landmark rows; release the sum of squares of all rows."""
    mean = finite_sums(X) / len(X)
    if len(chosen) and not 0 <= chosen.min() <= chosen.max() < len(X):
        raise DataError("There is no such row.", rule="arguments")
    return {
        "squares": _squares(X, mean if centred else np.zeros_like(mean)),
        "mean": mean,
        "landmarks": X[chosen],
        "places": chosen,
    }


@summed(
    by="party",
    squares=release(
        "",
        meaning="total sum of squares (all columns' squared distances from zero or "
        "from the fitted means, in one number)",
    ),
)
def own_extent(X: Float[Array, "N p"], kept: Any, *, centred: bool) -> dict[str, Any]:
    """Return the sum of squares of new rows, about the fitted means or about zero."""
    total = finite_sums(X)
    return {"squares": _squares(X, kept["mean"] if centred else np.zeros_like(total))}


@summed(
    by="party",
    products=release(
        "N N",
        symmetric=True,
        bound=_BOUND,
        meaning="Gram matrix (products of every two people's rows, over all columns)",
    ),
)
def own_products(
    X: Float[Array, "N p"], kept: Any, *, centred: bool, squares: float
) -> dict[str, Any]:
    """Return the products of every two rows, over the silo's own columns."""
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
    """Return half the squared distances of every two rows, over the silo's columns."""
    Z = X - kept["mean"]
    distances = half_distances(Z, Z)
    np.fill_diagonal(distances, 0.0)
    return {"distances": distances}


@summed(
    by="party",
    takes={"chosen": _CHOSEN},
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
    """Return the products of rows with the landmarks, over the silo's columns."""
    landmarks, mean = _landmarks(kept, chosen)
    origin = mean if centred else np.zeros_like(mean)
    return {"products": (X - origin) @ (landmarks - origin).T}


@summed(
    by="party",
    takes={"chosen": _CHOSEN},
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
    """Return half the squared distances of rows from the landmarks."""
    landmarks, mean = _landmarks(kept, chosen)
    return {"distances": half_distances(X - mean, landmarks - mean)}


@summed(
    by="party",
    # The sums of a row are linear in its cells: all scales of them say the same.
    settings=(),
    takes={"size": "size l"},
    phases=release(
        "N l",
        bound=Ceiling("radius"),
        meaning="public linear combinations of all columns, for each person",
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
    """Return the silo's part of x W, with weights W that every silo draws."""
    first, after = places[party]
    if after - first != X.shape[1]:
        raise DataError("The columns are not those of the silo.", rule="arguments")
    p = max(after for _, after in places.values())
    return {"phases": X @ fourier_weights(seed, p, size, gamma)[0][first:after]}


@kept(
    by="party",
    takes={
        "sums": _SUMS,
        "chosen": public("q", "which people are landmarks, compared with all others"),
        "size": "size k",
    },
    values=stays("k", meaning="eigenvalues of the kernel matrix"),
    vectors=stays("N k", meaning="eigenvectors of the kernel matrix"),
    offset=stays("l", meaning="means of the kernel values, or of the features"),
    dual=stays("l k", meaning="weights of kernel values, or of features, in scores"),
    scores=stays("N k", meaning="each person's scores along the kernel's components"),
    how=stays("7", meaning="which kernel, and which approximation"),
)
def own_map(
    *,
    sums: Float[Array, "N l"],
    chosen: Int[Array, " q"],
    how: Mapping[str, Any],
    size: int,
) -> dict[str, Any]:
    """Keep the kernel's components, from sums that only the silos can open."""
    method = Method(**how)
    axes = method.map_of(sums, chosen, size)
    return {
        "values": axes.values,
        "vectors": axes.vectors,
        "offset": axes.offset,
        "dual": axes.dual,
        "scores": axes.scores,
        "how": method.as_numbers(),
    }


@summed(
    by="party",
    settings=(),  # linear in the share
    takes={"size": "size k"},
    eigenvalues=release(
        "k",
        meaning="eigenvalues of the kernel matrix of all columns (how much the people "
        "differ along each component)",
    ),
)
def own_values(kept: Any, *, share: float, size: int) -> dict[str, Any]:
    """Release the eigenvalues, which every silo knows, as a sum of equal parts."""
    return {"eigenvalues": share * kept["values"]}


@kept(
    by="party",
    takes={"sums": _SUMS, "size": "size k"},
    scores=stays("N k", meaning="each person's scores along the kernel's components"),
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
    vectors=release(
        "N k",
        meaning="eigenvectors of the kernel matrix (each person's place along each "
        "component)",
    ),
    offset=release("l", meaning="means of the kernel values, or of the features"),
    dual=release("l k", meaning="weights of kernel values, or of features, in scores"),
)
def shown_map(kept: Any, *, size: int, width: int) -> dict[str, Any]:
    """Disclose the components that the silo keeps."""
    return {name: kept[name] for name in ("vectors", "offset", "dual")}


def _landmarks(
    kept: Any, chosen: Int[Array, " l"]
) -> tuple[Float[Array, "l p"], Float[Array, " p"]]:
    if not np.array_equal(kept["places"], chosen):
        raise DataError("Another model was fitted since.", rule="nothing_kept")
    return kept["landmarks"], kept["mean"]


def _squares(X: Float[Array, "N p"], origin: Float[Array, " p"]) -> Array:
    return np.array(squared_deviations(X, origin).sum())


def sums_of_fit(
    federation: Federation, method: Method, places: Int[Array, " l"], *, to: str
) -> tuple[float, Any]:
    """Return the sum of squares of all columns, and the sums of the fitted rows.

    Parameters
    ----------
    federation : Federation
        A column partition.
    method : Method
        The kernel and its approximation.
    places : (l,) array
        Positions of the landmark rows; all of them, without an approximation.
    to : {"coordinator", "parties"}
        Who opens the sums.

    Returns
    -------
    squares : float
    sums : (N, N) or (N, l) array, or what stands for sums that the silos alone open
    """
    landmarks = places if method.approximation != "fourier" else places[:0]
    totals = federation.sum(own_landmarks, chosen=landmarks, centred=method.centred)
    squares = float(totals["squares"])
    _note_disclosure(federation, method, len(places), to)
    if method.approximation is not None:
        return squares, sums_with(federation, method, places, 2.0 * squares, to=to)
    if method.by_distance:
        totals = federation.sum(own_distances, to=to, squares=squares)
        return squares, totals["distances"]
    totals = federation.sum(
        own_products, to=to, centred=method.centred, squares=squares
    )
    return squares, totals["products"]


def sums_with(
    view: Federation,
    method: Method,
    places: Int[Array, " l"],
    squares: float,
    *,
    to: str,
    kept_of: str = "",
) -> Any:
    """Return rows' sums with the landmarks, or their products with Fourier weights."""
    if method.approximation == "fourier":
        size = len(places)
        weights, _ = fourier_weights(method.seed, method.n_features, size, method.gamma)
        # |x·w| <= ‖x‖ ‖w‖, for every row and every column w of W.
        longest = np.linalg.norm(weights, axis=0).max()
        radius = float(np.sqrt(squares) * longest) or 1.0
        totals = view.sum(
            own_phases,
            to=to,
            places=_places_of_columns(view),
            seed=method.seed,
            gamma=method.gamma,
            size=size,
            radius=radius,
        )
        return totals["phases"]
    if method.by_distance:
        totals = view.sum(
            own_distances_with, to=to, kept_of=kept_of, chosen=places, squares=squares
        )
        return totals["distances"]
    totals = view.sum(
        own_products_with,
        to=to,
        kept_of=kept_of,
        chosen=places,
        centred=method.centred,
        squares=squares,
    )
    return totals["products"]


def _places_of_columns(view: Federation) -> dict[str, list[int]]:
    """Return the range of each silo's columns among all columns."""
    ends = np.cumsum([len(own) for own in view.columns_of.values()]).tolist()
    starts = [0, *ends[:-1]]
    return {
        party: [first, after]
        for party, first, after in zip(view.columns_of, starts, ends, strict=True)
    }


def _note_disclosure(
    federation: Federation, method: Method, width: int, to: str
) -> None:
    """Note for a plan what the opened sums reveal."""
    N, p = federation.n_rows or 0, federation.n_features
    opener = "the coordinator" if to == "coordinator" else "every silo"
    if method.approximation is None:
        sums = f"sums of every two of {N:,} people: all rows, up to a rotation"
    elif method.approximation == "nystroem":
        sums = f"sums of {N:,} people with {width:,} of them"
        sums += ": all rows, up to a rotation" * (width > p)
    else:
        sums = f"{width:,} known mixtures of {p:,} columns for each of {N:,} people"
        sums += ": all rows, by solving for them" * (width >= p)
    federation.coordinator.notes.append(f"KernelPCA shows {opener} {sums}.")

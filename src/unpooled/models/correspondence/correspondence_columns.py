"""MCA and FAMD of parties with other columns of the same people.

    rounds 1-3   each silo finds the categories of its own columns: `own_categories`
    each keeps   Z_i, its numbers over their standard deviations and its indicators over
                 the roots of their shares, about their means
    round 4      silos ── Z_i Z_iᵀ, N (N + 1) / 2 numbers ──> G = Σ = N U Λ Uᵀ
    each silo <── U, Λ ── keeps the coordinates of its own columns and categories, of
                 Z_iᵀ U / sqrt(N); in FAMD of all components, which tell how far its
                 categories lie off
    new rows     silos ── Z_i times its own weights ──> their coordinates

As of PCA, a Gram matrix is about people: its entries determine all rows up to a
rotation, and where all columns hold categories, which people have the same ones. Names
of categories, and how many people have them, stay in their silos.
"""

from typing import Any

import numpy as np

from unpooled.arrays import Array, Bool, Float, Int
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.models.base import disclosed_columns
from unpooled.models.moments import complete
from unpooled.protocol.bounds import Trace
from unpooled.protocol.step import disclosed, kept, public, release, stays, summed

# A Gram matrix of more rows is not formed: it has 32 million numbers.
MOST_ROWS = 8_000


@kept(
    by="party",
    rows=stays("N p", until="fit", meaning="the silo's weighted rows"),
    mean=stays("p", meaning="the mean of each of the silo's columns and indicators"),
    scale=stays("p", meaning="the number that each is multiplied by"),
    indicator=stays("p", meaning="1 for an indicator of a category"),
)
def own_weighted(X: Float[Array, "N p"], kept: Any, *, n_coded: int) -> dict[str, Any]:
    """Weight the silo's own numbers and indicators; nothing leaves.

    `n_coded` is what the shares of categories are multiplied by: in MCA the number of
    columns, in FAMD 1.
    """
    indicator = indicators_among(kept["made"])
    mean = complete(X).mean(axis=0)
    if (X.max(axis=0) <= X.min(axis=0))[~indicator].any():
        raise DataError("A column never varies.", rule="constant_columns")
    variance = np.where(indicator, n_coded * mean, X.var(axis=0))
    scale = 1.0 / np.sqrt(variance)
    return {
        "rows": (X - mean) * scale,
        "mean": mean,
        "scale": scale,
        "indicator": indicator.astype(float),
    }


@summed(
    by="party",
    gram=release(
        "N N",
        symmetric=True,
        bound=Trace("squares"),
        meaning="Gram matrix (products of every two people's rows, over all weighted "
        "columns and indicators)",
    ),
)
def weighted_gram(kept: Any, *, squares: float) -> dict[str, Any]:
    """Return the Gram matrix of the silo's weighted rows."""
    return {"gram": kept["rows"] @ kept["rows"].T}


@kept(
    by="party",
    takes={
        "U": public("N r", "directions over people, found from their Gram matrix"),
        "inertia": public("r", "the variance of people's coordinates along each"),
        "n_components": "size k",
    },
    coordinates=stays(
        "p k",
        meaning="correlations of the silo's numbers with components, and coordinates "
        "of its categories",
    ),
    contributions=stays("p k", meaning="their shares in each component"),
    cos2=stays("p k", meaning="how much of each the component shows"),
    loadings=stays("p k", meaning="the loadings of the silo's columns and indicators"),
)
def own_coordinates(
    kept: Any,
    *,
    U: Float[Array, "N r"],
    inertia: Float[Array, " r"],
    n_components: int,
    n_coded: int,
) -> dict[str, Any]:
    """Keep the coordinates of the silo's own numbers and categories.

    In FAMD `U` has all directions that there are: how far the barycentre of a category
    lies off is told by all of its coordinates.
    """
    roots = np.sqrt(inertia)
    directions = np.where(roots > 0, roots * np.sqrt(len(U)), np.inf)
    V = kept["rows"].T @ U / directions
    coded = kept["indicator"][:, None] > 0
    # A category's coordinate is the mean of its people's coordinates; in MCA this is
    # divided by the root of their variance, as for principal coordinates of columns.
    along = inertia if n_coded == 1 else n_coded * roots
    coordinates = V * np.where(coded, kept["scale"][:, None] * along, roots)
    p = kept["mean"][:, None]
    # A category of all people is in the centre, where every cosine is 0.
    far = np.where(p < 1.0, (1.0 - p) / np.where(p > 0, p, 1.0), np.inf)
    if n_coded == 1:
        far = np.sum(coordinates**2, axis=1, keepdims=True)
        far = np.where(far > 0, far, np.inf)
    cos2 = coordinates**2 / np.where(coded, far, 1.0)
    found = {"coordinates": coordinates, "contributions": V**2, "cos2": cos2}
    found["loadings"] = V
    return {name: array[:, :n_components] for name, array in found.items()}


@disclosed(
    by="party",
    takes={"inertia": public("k", "the variance of people's coordinates")},
    coordinates=release(
        "p k",
        meaning="correlations of the silo's numbers with components, and coordinates "
        "of its categories",
    ),
    contributions=release("p k", meaning="their shares in each component"),
    cos2=release("p k", meaning="how much of each the component shows"),
)
def shown_coordinates(kept: Any, *, inertia: Float[Array, " k"]) -> dict[str, Any]:
    """Disclose the coordinates of the silo's own numbers and categories."""
    return {
        "coordinates": kept["coordinates"],
        "contributions": kept["contributions"],
        "cos2": kept["cos2"],
    }


@summed(
    by="party",
    takes={"inertia": public("k", "the variance of people's coordinates")},
    scores=release("N k", meaning="each person's coordinates on the components"),
)
def own_scores(
    X: Float[Array, "N p"], kept: Any, *, inertia: Float[Array, " k"]
) -> dict[str, Any]:
    """Return the silo's part of the coordinates of rows."""
    return {"scores": (complete(X) - kept["mean"]) * kept["scale"] @ kept["loadings"]}


def gram_of(
    encoded: Federation, *, kept_of: str, n_coded: int, total: float
) -> Float[Array, "N N"]:
    """Return the Gram matrix of weighted numbers and indicators over N; two rounds.

    Parameters
    ----------
    encoded : Federation
        A column partition, behind its encoder.
    kept_of : str
        Address of what silos kept for the encoder.
    n_coded : int
        As of `own_weighted`.
    total : float
        The total inertia.

    Raises
    ------
    DataError
        With more rows than a Gram matrix is for.
    """
    N = int(encoded.n_rows or 0)
    if N > MOST_ROWS:
        raise DataError(
            f"There are {N:,} people, and a Gram matrix is formed of at most "
            f"{MOST_ROWS:,}. OneHotEncoder, StandardScaler and PCA take more."
        )
    encoded.keep(own_weighted, kept_of=kept_of, n_coded=n_coded)
    return encoded.sum(weighted_gram, squares=N * total)["gram"] / N


def shown_by_parties(
    encoded: Federation, inertia: Float[Array, " k"]
) -> dict[str, Float[Array, "p k"]]:
    """Return coordinates, contributions and cosines, which every silo must allow."""
    return disclosed_columns(encoded, shown_coordinates, inertia=inertia)


def indicators_among(
    made: Int[Array, " p"] | Float[Array, " p"],
) -> Bool[Array, " q"]:
    """Return which columns behind the encoder are indicators, by what it makes."""
    of_numbers = np.asarray(made) < 0
    return ~np.repeat(of_numbers, np.where(of_numbers, 1, made).astype(int))

"""The solvers of PCA on a column partition: the same people, other columns each.

    every solver     silos ── sum of squares about the columns' means ───> total
    gram             silos ── X_c X_cᵀ, N (N + 1) / 2 numbers ───────────> G = U Σ² Uᵀ
    krylov           silos <── V ── silos ── X_c (X_cᵀ V) ── ... ────────> U, Σ²
    every solver     silos <── U, Σ ── each keeps its loadings X_cᵀ U / Σ
    new rows         silos ── X_c times its own loadings ────────────────> scores

The means of the columns never leave their silos. G = Σ_i X_i X_iᵀ over the silos is the
Gram matrix of the joined, centred columns. So U Σ are the scores of the joined PCA, and
the silos' loadings, one below the other, are its components. Every sum is over all
silos, but its entries are about people: a Gram matrix determines all rows up to a
rotation.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.linalg.centred_products import coordinates, gram_image, products
from unpooled.linalg.eigen import leading_eigenpairs, with_positive_peaks
from unpooled.linalg.moments import squared_deviations
from unpooled.linalg.ritz import RitzPairs
from unpooled.models.base import disclosed_columns
from unpooled.models.moments import finite_sums
from unpooled.models.pca.krylov import iterated
from unpooled.models.pca.spectrum import (
    Iteration,
    Spectrum,
    Wanted,
    check_is_number,
    check_rows_suffice,
    components_for_share,
    mean_of_rest,
)
from unpooled.protocol.bounds import Trace
from unpooled.protocol.step import disclosed, kept, public, release, stays, summed
from unpooled.results.formats import byte_size

# The usual number of rounds of block Krylov, generously.
_USUAL_ROUNDS = 12
# "auto" forms no Gram matrix of more rows.
_MOST_ROWS = 8_000
# An eigenvalue below this share of the largest is rounding.
_ROUNDING = 64 * float(np.finfo(float).eps)


@summed(
    by="party",
    squares=release(
        "",
        meaning="total sum of squares (all columns' squared deviations from their "
        "means, in one number)",
    ),
    mean=stays("p", meaning="the means of the silo's own columns"),
)
def own_means(X: Float[Array, "N p"]) -> dict[str, Any]:
    """Keep the means of the silo's own columns; release their sum of squares."""
    mean = finite_sums(X) / len(X)
    squares = np.array(squared_deviations(X, mean).sum())
    return {"squares": squares, "mean": mean}


@summed(
    by="party",
    gram=release(
        "N N",
        symmetric=True,
        bound=Trace("squares"),
        meaning="Gram matrix (products of every two people's rows, over all columns)",
    ),
)
def own_gram(X: Float[Array, "N p"], kept: Any, *, squares: float) -> dict[str, Any]:
    """Return the Gram matrix of the silo's own columns, centred."""
    centred = X - kept["mean"]
    return {"gram": centred @ centred.T}


@summed(
    by="party",
    takes={
        "V": public(
            "N l", "a block of weights of people, by which the next product is taken"
        )
    },
    image=release(
        "N l",
        bound=Trace("squares"),
        meaning="each person's products with public combinations of all people's rows",
    ),
)
def own_image(
    X: Float[Array, "N p"], kept: Any, *, V: Float[Array, "N l"], squares: float
) -> dict[str, Any]:
    """Apply the Gram matrix of the silo's centred columns to an orthonormal block."""
    return {"image": gram_image(X, kept["mean"], V)}


@kept(
    by="party",
    takes={
        "U": public("N k", "directions over people, found from earlier totals"),
        "length": public(
            "k", "the singular value (length) of all columns along each direction"
        ),
    },
    components=stays("k p", meaning="the loadings of the silo's own columns"),
)
def own_loadings(
    X: Float[Array, "N p"],
    kept: Any,
    *,
    U: Float[Array, "N k"],
    length: Float[Array, " k"],
) -> dict[str, Any]:
    """Return X_cᵀ U / Σ, as rows; a direction without variance has none."""
    divisor = np.where(length > 0, length, np.inf)
    return {"components": (products(X, kept["mean"], U) / divisor).T}


@summed(
    by="party",
    takes={
        "scale": public("k", "the number that each component's scores are divided by")
    },
    scores=release("N k", meaning="each person's scores along the components"),
)
def own_scores(
    X: Float[Array, "N p"], kept: Any, *, scale: Float[Array, " k"]
) -> dict[str, Any]:
    """Return the silo's part of the scores of rows."""
    return {"scores": coordinates(X, kept["mean"], kept["components"].T) / scale}


@kept(
    takes={
        "scores": public("N k", "each person's scores, which only the silos can open")
    },
    by="party",
    scores=stays("N k", meaning="each person's scores along the components"),
)
def kept_scores(*, scores: Float[Array, "N k"]) -> dict[str, Any]:
    """Keep scores that only the silos can open."""
    return {"scores": scores}


@disclosed(
    takes={"variance": public("k", "the variance along each component")},
    mean=release("p", meaning="the means of the silo's own columns"),
    components=release("k p", meaning="the loadings of the silo's own columns"),
)
def shown_loadings(kept: Any, *, variance: Float[Array, " k"]) -> dict[str, Any]:
    """Disclose the means and loadings of the silo's own columns."""
    return {"mean": kept["mean"], "components": kept["components"]}


def gram(federation: Federation, wanted: Wanted) -> Spectrum:
    """Return the components from the Gram matrix of all columns; two sums."""
    N, p = sample_size_and_features(federation, wanted)
    squares = total_squares(federation)
    G = federation.sum(own_gram, squares=squares)["gram"]
    most = min(N, p)

    def count(values: Float[Array, " l"]) -> int:
        if not isinstance(wanted, float):
            return len(values)
        return components_for_share(values, squares, wanted, most)

    k = wanted if isinstance(wanted, int) else most
    values, U = leading_eigenpairs(G, k, count)
    found = _spectrum(federation, values[: U.shape[1]], U, squares)
    every = np.where(values > _ROUNDING * values[0], values, 0.0) / (N - 1)
    return replace(found, attributes={"eigenvalues_": every})


def block_krylov(
    federation: Federation, wanted: Wanted, iteration: Iteration
) -> Spectrum:
    """Return the components from products of the Gram matrix with blocks."""
    N, p = sample_size_and_features(federation, wanted)
    k = check_is_number(wanted, "krylov", min(N, p))
    squares = total_squares(federation)

    def applied(V: Float[Array, "N l"]) -> Float[Array, "N l"]:
        return federation.sum(own_image, V=V, squares=squares)["image"]

    start = iteration.starting_block(federation, N, basis_width(N, k))
    pairs = iterated(federation, applied, start, k, iteration)
    values, U = np.maximum(pairs.values, 0.0), with_positive_peaks(pairs.vectors)
    return _spectrum(federation, values, U, squares, pairs)


def _spectrum(
    federation: Federation,
    values: Float[Array, " k"],
    U: Float[Array, "N k"],
    squares: float,
    certificate: RitzPairs | None = None,
) -> Spectrum:
    """Let every silo keep its loadings, and return what the coordinator knows."""
    N, p, k = len(U), federation.n_features, len(values)
    # The remainder of a direction without variance is rounding.
    values = np.where(values > _ROUNDING * values[0], values, 0.0)
    federation.keep(own_loadings, U=U, length=np.sqrt(values))
    rest = (squares - float(values.sum())) / (N - 1)
    return Spectrum(
        N=N,
        variance=values / (N - 1),
        total=squares / (N - 1),
        noise=mean_of_rest(rest, min(N, p) - k),
        certificate=certificate,
    )


def cheaper_solver(wanted: Wanted, federation: Federation) -> str:
    """Return the solver that sends fewer bytes; a plan gets the reason."""
    if not isinstance(wanted, int):
        return "gram"
    N = federation.n_rows or 0
    whole = 8 * (N * (N + 1) // 2)
    rounds = 8 * N * basis_width(N, wanted) * _USUAL_ROUNDS
    name = "gram" if whole <= rounds and N <= _MOST_ROWS else "krylov"
    federation.coordinator.notes.append(
        f"PCA chose the solver {name}: products of every two of {N:,} people would be "
        f"{byte_size(whole)} from each silo, blocks of them about "
        f"{byte_size(rounds)} in {_USUAL_ROUNDS} rounds."
        + " The plan shows the most that it may take."
        * (name == "krylov")
    )
    return name


def scores(
    model: Any,
    view: Federation,
    *,
    to: str | None,
    kept_of: str,
    scale: Float[Array, " k"],
) -> Float[Array, "n k"] | None:
    """Return the scores of aligned rows, or None where the silos keep them.

    Parameters
    ----------
    model : PCA
        The one whose scores they are.
    view : Federation
        The rows, on a column partition.
    to : {"coordinator", "parties"} or None
        Who opens the sums of the silos' parts; with None nobody may.
    kept_of : str
        The fit whose loadings the silos kept.
    scale : (k,) array
        Standard deviations that the scores are divided by, or ones.
    """
    if to is None:
        raise DataError(
            "scores=None: nobody is to see the scores of these people. Choose "
            'scores="coordinator" or scores="parties".'
        )
    with view.calling(model, "transform"):
        totals = view.sum(own_scores, to=to, kept_of=kept_of, scale=scale)
        if to == "coordinator":
            return totals["scores"]
        view.keep(kept_scores, scores=totals["scores"])
    return None


def disclosed_loadings(
    federation: Federation, *, kept_of: str, variance: Float[Array, " k"]
) -> tuple[Float[Array, " p"], Float[Array, "k p"]]:
    """Return means and loadings of all columns, which every silo must allow."""
    found = disclosed_columns(
        federation, shown_loadings, kept_of=kept_of, variance=variance
    )
    return found["mean"], found["components"]


def basis_width(N: int, k: int) -> int:
    """Return how many columns a block has in which k components are looked for."""
    # Wider than on a row partition: every round reads all rows in any case, and twice
    # as many columns save about a third of the rounds.
    return min(N, max(k + 4, 2 * k))


def total_squares(federation: Federation) -> float:
    """Return the sum of squares of all columns about their means; one round."""
    return float(federation.sum(own_means)["squares"])


def sample_size_and_features(federation: Federation, wanted: Wanted) -> tuple[int, int]:
    """Return N and p; refuse more components than either."""
    N, p = federation.n_rows or 0, federation.n_features
    if N < 2:
        raise DataError("A variance needs at least 2 rows.")
    check_rows_suffice(wanted, N, p)
    return N, p

"""The solvers of PCA on a column partition: the same people, other columns each.

    every solver     silos ── squared distances from own means ──────────> their sum
    gram             silos ── X_c X_cᵀ, N (N + 1) / 2 numbers ───────────> G = U Σ² Uᵀ
    krylov           silos <── V ── silos ── X_c (X_cᵀ V) ── ... ────────> U, Σ²
    every solver     silos <── U, Σ ── each keeps its loadings X_cᵀ U / Σ
    new rows         silos ── X_c times its own loadings ────────────────> scores

Means are each silo's own and never leave. G = Σ_i X_i X_iᵀ over the silos is the Gram
matrix of the joined, centred columns, so U Σ are the scores of the joined PCA, and the
silos' loadings, one below the other, its components. Every sum is over all silos, but
it has entries for people: a Gram matrix is all rows up to a rotation.
"""

from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from unpooled.arrays import Array, Float
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.linalg.eigen import leading_eigenpairs, with_positive_peaks
from unpooled.linalg.gram import coordinates, gram_image, products
from unpooled.linalg.krylov import RitzPairs, leading_ritz_pairs
from unpooled.linalg.moments import squared_deviations
from unpooled.models.moments import finite_sums
from unpooled.models.pca.krylov import warn_of_close_values
from unpooled.models.pca.spectrum import Spectrum, Wanted, check_rows_suffice
from unpooled.protocol.bounds import Trace
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

# What block Krylov usually takes, generously; a Gram matrix above this many rows is
# never formed.
_USUAL_ROUNDS = 12
_MOST_ROWS = 8_000


@summed(
    by="party",
    squares=release(
        "", meaning="all columns' squared distances from their means, in one number"
    ),
    mean=stays("p", meaning="the means of the silo's own columns"),
)
def own_means(X: Float[Array, "N p"]) -> dict[str, Any]:
    """Take the means of the silo's own columns; tell how far rows lie from them."""
    mean = finite_sums(X) / len(X)
    squares = np.array(squared_deviations(X, mean).sum())
    return {"squares": squares, "mean": mean}


@summed(
    by="party",
    gram=release(
        "N N",
        symmetric=True,
        bound=Trace("squares"),
        meaning="products of every two people's rows, over all columns",
    ),
)
def own_gram(X: Float[Array, "N p"], kept: Any, *, squares: float) -> dict[str, Any]:
    """Multiply every two rows of the silo's centred columns."""
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
        meaning="each person's products with public mixtures of all people's rows",
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
    """Project rows on the silo's own loadings."""
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
    """Disclose what the silo keeps of the model."""
    return {"mean": kept["mean"], "components": kept["components"]}


# `unpooled.models.pca.pca` has them too, where silos look them up.
STEPS = adopted(
    f"{LIBRARY}pca",
    own_means,
    own_gram,
    own_image,
    own_loadings,
    own_scores,
    kept_scores,
    shown_loadings,
)
_MEANS, _GRAM, _IMAGE, _LOADINGS, _SCORES, _KEPT_SCORES, _SHOWN = STEPS


def gram(model: Any, federation: Federation, wanted: Wanted) -> Spectrum:
    """Solve the Gram matrix of all columns in whole; two sums."""
    N, p = size_of(federation, wanted)
    squares = federation.sum(_MEANS)["squares"]
    G = federation.sum(_GRAM, squares=float(squares))["gram"]
    most = min(N, p)
    values, U = leading_eigenpairs(G, wanted if isinstance(wanted, int) else most)
    k = len(values)
    if isinstance(wanted, float):
        share = np.cumsum(values / (float(squares) or 1.0))
        k = min(int(np.searchsorted(share, wanted, side="right")) + 1, most)
    return _spectrum(federation, values[:k], U[:, :k], float(squares), None)


def block_krylov(model: Any, federation: Federation, wanted: Wanted) -> Spectrum:
    """Multiply blocks by the Gram matrix until the scores stand still."""
    N, p = size_of(federation, wanted)
    if not isinstance(wanted, int):
        raise DataError(
            f'n_components={wanted!r}: svd_solver="krylov" finds a number of '
            f"components; give a whole number from 1 to {min(N, p)}."
        )
    squares = total_squares(federation)
    seed = model.random_state
    rng = check_random_state(federation.random_state if seed is None else seed)
    start = rng.standard_normal((N, basis_width(N, wanted)))

    def applied(V: Float[Array, "N l"]) -> Float[Array, "N l"]:
        return federation.sum(_IMAGE, V=V, squares=squares)["image"]

    if federation.coordinator.planned:
        for _ in range(model.max_iter):
            applied(start)
        nothing = np.zeros(wanted)
        U = np.eye(N, wanted)
        pairs = RitzPairs(nothing, U, nothing, 1.0, 0.0, model.max_iter)
    else:
        how = {"tol": model.tol, "max_iter": model.max_iter}
        pairs = leading_ritz_pairs(applied, start, wanted, **how)
        warn_of_close_values(pairs, wanted, model.tol)
    U = with_positive_peaks(pairs.vectors)
    return _spectrum(federation, np.maximum(pairs.values, 0.0), U, squares, pairs)


def chosen(svd_solver: str, wanted: Wanted, federation: Federation) -> str:
    """Return what "auto" stands for: what takes fewer bytes; and tell a plan why."""
    if svd_solver != "auto":
        return svd_solver
    N = federation.n_rows or 0
    whole = 8 * (N * (N + 1) // 2)
    if not isinstance(wanted, int):
        return "gram"
    rounds = 8 * N * basis_width(N, wanted) * _USUAL_ROUNDS
    name = "gram" if whole <= rounds and N <= _MOST_ROWS else "krylov"
    federation.coordinator.notes.append(
        f"PCA chose the solver {name}: products of every two of {N:,} people would be "
        f"{whole / 1e6:,.1f} MB from each silo, blocks of them about "
        f"{rounds / 1e6:,.1f} MB in {_USUAL_ROUNDS} rounds."
    )
    return name


def scored(model: Any, view: Federation, scale: Float[Array, " k"]) -> Any:
    """Add the silos' parts of the scores of new aligned rows.

    Returns
    -------
    (n, k) array, or None where the silos keep them
    """
    if model.scores is None:
        raise DataError(
            "scores=None: nobody is to see the scores of these people. Choose "
            'scores="coordinator" or scores="parties".'
        )
    with view.fitting():
        told = view.sum(_SCORES, to=model.scores, kept_of=model.kept_, scale=scale)
        if model.scores == "coordinator":
            return told["scores"]
        view.keep(_KEPT_SCORES, scores=told["scores"])
    return None


def gathered(
    model: Any, federation: Federation
) -> tuple[Float[Array, " p"], Float[Array, "k p"]]:
    """Ask the silos for means and loadings, which every one must allow."""
    told = federation.collect(
        _SHOWN, kept_of=model.kept_, variance=model.explained_variance_
    )
    parts = [told[party] for party in federation.parties]
    mean = np.concatenate([part["mean"] for part in parts])
    return mean, np.hstack([part["components"] for part in parts])


def basis_width(N: int, k: int) -> int:
    """Return how many columns a block has in which k components are looked for."""
    # Wider than for rows: a round costs a walk through all people in any case, and
    # twice as many columns save about a third of the rounds.
    return min(N, max(k + 4, 2 * k))


def total_squares(federation: Federation) -> float:
    """Return the squared distances of all columns from their means."""
    return float(federation.sum(_MEANS)["squares"])


def size_of(federation: Federation, wanted: Wanted) -> tuple[int, int]:
    """Return N and p, where that many components can be."""
    N, p = federation.n_rows or 0, federation.n_features
    if N < 2:
        raise DataError("A variance needs at least 2 rows.")
    check_rows_suffice(wanted, N, p)
    return N, p


def _spectrum(
    federation: Federation,
    values: Float[Array, " k"],
    U: Float[Array, "N k"],
    squares: float,
    certificate: RitzPairs | None,
) -> Spectrum:
    N, p, k = len(U), federation.n_features, len(values)
    # What is left of a direction without variance is rounding.
    values = np.where(values > _ROUNDING * values[0], values, 0.0)
    federation.keep(_LOADINGS, U=U, length=np.sqrt(values))
    others = min(N, p) - k
    rest = max(squares - float(values.sum()), 0.0) / (N - 1)
    return Spectrum(
        N=N,
        mean=None,
        variance=values / (N - 1),
        axes=None,
        total=squares / (N - 1),
        noise=rest / others if others else 0.0,
        certificate=certificate,
    )


_ROUNDING = 64 * float(np.finfo(float).eps)

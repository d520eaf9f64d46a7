"""Canonical correlations of parties with different columns of the same people.

    each keeps  Q_i = X_i C_i^(-1/2) / sqrt(N - 1),  C_i = (1 - c) S_i + c I
    "gram"      silos ── Q_i Q_iᵀ ──> Σ Q_i Q_iᵀ = H diag(λ) Hᵀ, the k largest λ
    "krylov"    silos <── V ── silos ── Q_i (Q_iᵀ V) ──> Σ, repeated, for the same H
    result      silos <── H ──  each keeps its weights W_i = C_i^(-1/2) Q_iᵀ H

This is the MAXVAR form of generalised CCA, for any number of parties. With two parties
and without regularisation λ = 1 + ρ, where ρ are the canonical correlations. The totals
have entries about people: a summed Gram matrix contains all rows up to a rotation, and
of two parties each can subtract its own part and has the other's.

Two parties with regularisation are paired by `unpooled.models.two_views.pls_columns`
instead: the pairs of largest covariance between X_1 C_1^(-1/2) and X_2 C_2^(-1/2) are
those of canonical ridge analysis, as on a row partition, which MAXVAR's are not. They
pair two parties with many people, too, if all directions of their columns can be sent
at once, which takes less than a Gram matrix.

References
----------
Kettenring, Canonical analysis of several sets of variables, Biometrika 58 (1971).
Carroll, Generalization of canonical correlation analysis to three or more sets of
variables, 1968.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from unpooled.arrays import Array, Float
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.linalg.eigen import symmetric_eigenpairs
from unpooled.linalg.krylov import block_width, leading_ritz_pairs
from unpooled.linalg.whitening import ridge_weights, ridge_whitened
from unpooled.models.moments import complete
from unpooled.models.parameter_checks import whole_number
from unpooled.models.two_views.pls_columns import first_directions
from unpooled.protocol.bounds import CauchySchwarz, Trace
from unpooled.protocol.step import kept, public, release, stays, summed

# Up to so many rows a Gram matrix is cheaper than the rounds of a Krylov iteration.
MOST_GRAM_ROWS = 1000
# Krylov: maximum number of rounds, and largest sine of the angle to the subspace.
MOST_ROUNDS, TOL = 100, 1e-10


@kept(
    by="party",
    basis=stays("N p", until="fit", meaning="the silo's rows, whitened"),
    mean=stays("p", meaning="the mean of each of the silo's columns"),
)
def own_basis(X: Float[Array, "N p"], *, regularisation: float) -> dict[str, Any]:
    """Whiten the silo's own columns; nothing leaves."""
    mean = complete(X).mean(axis=0)
    return {"basis": ridge_whitened(X - mean, regularisation), "mean": mean}


@summed(
    by="party",
    takes={
        "squares": public(
            "N", "a bound on the squared length of each person's whitened row"
        )
    },
    gram=release(
        "N N",
        symmetric=True,
        bound=CauchySchwarz("squares"),
        meaning="Gram matrix (products of every two people's whitened rows, added over "
        "silos)",
    ),
)
def local_gram(kept: Any, *, squares: Float[Array, " N"]) -> dict[str, Any]:
    """Release the Gram matrix of the silo's whitened rows."""
    return {"gram": kept["basis"] @ kept["basis"].T}


@summed(
    by="party",
    squares=release(
        "",
        meaning="sum of squares of all whitened rows (squares of all entries, added "
        "over rows and silos)",
    ),
)
def own_squares(kept: Any) -> dict[str, Any]:
    """Release the sum of squares of the silo's whitened rows."""
    return {"squares": np.array(np.sum(kept["basis"] ** 2))}


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
        meaning="Gram matrix (products of every two people's whitened rows) times "
        "public weights of people, added over silos",
    ),
)
def local_mixture(
    kept: Any, *, V: Float[Array, "N l"], squares: float
) -> dict[str, Any]:
    """Release the product of the silo's Gram matrix with an orthonormal block."""
    basis = kept["basis"]
    return {"image": basis @ (basis.T @ V)}


@kept(
    by="party",
    takes={
        "H": public(
            "N k", "the variables that all views share, one number for each person"
        )
    },
    weights=stays("p k", meaning="the weights of the silo's columns"),
)
def own_weights(
    X: Float[Array, "N p"], kept: Any, *, H: Float[Array, "N k"], regularisation: float
) -> dict[str, Any]:
    """Keep the weights that give the silo's scores; nothing leaves."""
    # C^(-1) Xᵀ H / sqrt(N - 1)
    W = kept["basis"].T @ H
    return {"weights": ridge_weights(X - X.mean(axis=0), W, regularisation)}


@kept(
    by="party",
    takes={"block": "size q"},
    rows=stays("N p", until="fit", meaning="the silo's rows, whitened"),
    mean=stays("p", meaning="the mean of each of the silo's columns"),
    spread=stays("p", until="fit", meaning="ones, as whitened columns have no units"),
    basis=stays("p q", until="fit", meaning="directions in the space of its columns"),
)
def own_ridge(
    X: Float[Array, "N p"], *, block: int, regularisation: float, seed: int
) -> dict[str, Any]:
    """Whiten the silo's own columns, and choose directions; nothing leaves."""
    mean = complete(X).mean(axis=0)
    whitened = ridge_whitened(X - mean, regularisation)
    return {
        "mean": mean,
        "spread": np.ones(X.shape[1]),
        **first_directions(whitened, block, seed),
    }


@kept(
    by="party",
    takes={"k": "size k"},
    weights=stays("p k", meaning="the weights of the silo's columns"),
)
def own_ridge_weights(
    X: Float[Array, "N p"], kept: Any, *, regularisation: float, k: int
) -> dict[str, Any]:
    """Keep the weights in units of the silo's columns, C^(-1/2) w; nothing leaves."""
    W = kept["weights"][:, :k]
    return {"weights": ridge_weights(X - X.mean(axis=0), W, regularisation)}


def gram_eigenpairs(
    federation: Federation, k: int, *, regularisation: float
) -> tuple[Float[Array, " N"], Float[Array, "N k"]]:
    """Return all eigenvalues of Σ Q_i Q_iᵀ, and the k leading eigenvectors; one round.

    Parameters
    ----------
    federation : Federation
        Parties that keep `own_basis`.
    k : int
        Number of eigenvectors.
    regularisation : float
        c, less than 1: with c = 1 the whitened rows have no known bound.
    """
    # A whitened row of one party has a squared length of at most 1 / (1 - c).
    most = len(federation.parties) / (1.0 - regularisation)
    G = federation.sum(local_gram, squares=np.full(int(federation.n_rows or 0), most))
    return symmetric_eigenpairs(G["gram"], k, len(G["gram"]))


def krylov_eigenpairs(
    federation: Federation, k: int, *, regularisation: float, random_state: int | None
) -> tuple[Float[Array, " k"], Float[Array, "N k"]]:
    """Return the k leading eigenpairs of Σ Q_i Q_iᵀ by its products with blocks.

    Parameters
    ----------
    federation : Federation
        Parties that keep `own_basis`.
    k : int
        Number of pairs.
    regularisation : float
        c.
    random_state : int, optional
        Seed of the first block; None: the federation's.
    """
    N, c = int(federation.n_rows or 0), regularisation
    state = federation.seed(random_state)
    start = check_random_state(state).standard_normal((N, block_width(N, k)))
    # Along any direction a party's whitened rows have squares of at most 1 / (1 - c).
    squares = len(federation.parties) / (1.0 - c) if c < 1.0 else 0.0
    squares = squares or float(federation.sum(own_squares)["squares"])
    if federation.coordinator.planned:
        # The number of rounds depends on the data; this is the largest one.
        for _ in range(MOST_ROUNDS):
            federation.sum(local_mixture, V=start, squares=squares)
        return np.ones(k), np.eye(N, k)
    pairs = leading_ritz_pairs(
        lambda V: federation.sum(local_mixture, V=V, squares=squares)["image"],
        start,
        k,
        tol=TOL,
        max_iter=MOST_ROUNDS,
    )
    return pairs.values, pairs.vectors


def shared_component_count(k: Any, widths: Sequence[int], N: int, c: float) -> int:
    """Return `n_components` as an int if parties with these widths have as many.

    Raises
    ------
    DataError
        If k is no number from 1 to the fewest columns of a party, or N - 1; or if,
        without regularisation, there are columns enough for correlations of 1.
    """
    most = min(*widths, N - 1)
    why = ", the fewest columns of a party, or N - 1"
    k = whole_number("n_components", k, most=most, why=why)
    # Column spaces in N - 1 dimensions have at least so many in common, whatever the
    # columns are.
    shared = sum(widths) - (len(widths) - 1) * (N - 1)
    if c == 0.0 and (shared >= 0 or max(widths) >= N - 1):
        raise DataError(
            f"Parties with {list(widths)} columns, but {N} rows: correlations of 1 can "
            f"be had from anything, and which are found is arbitrary. Choose a "
            f"regularisation, 0.1 for instance, or leave columns out with select."
        )
    return k

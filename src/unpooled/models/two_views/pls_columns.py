"""Partial least squares between two parties with different columns of the same people.

    each keeps  its columns X_i, standardised and with a sum of squares of 1, and an
                orthonormal basis Q_i of directions in the space of its columns
    rounds      silos ── X_i q, for the newest columns q of Q_i ──> Σ, opened by the
                silos alone; each subtracts its own term and has the other's
                each pairs both parties' scores X_i Q_i, and extends its Q_i by the
                residual of X_iᵀ u, where u is the other party's score of a pair
                silos ── squared error bounds, correlations ──> Σ, for the coordinator
    result      each party keeps the weights of its own columns

Both parties pair the same scores, so both arrive at the same pairs. The coordinator
receives the scores masked, and opens only the error bounds and correlations. Each party
learns the other's X_j Q_j: with all directions ("direct") these are the other's rows up
to a rotation, with few ("krylov") the part of them that covaries with its own.

The models differ by which views are deflated, that is from which views the scores of a
pair are removed before the next pair is found: neither (`PLSSVD`, and the ridge `CCA`),
both (`PLSCanonical`), or the one that predicts (`PLSRegression`).

References
----------
Golub and Kahan, Calculating the singular values and pseudo-inverse of a matrix, SIAM J.
Numer. Anal. 2 (1965): bases of both sides, extended in turn.
Wegelin, A survey of partial least squares (PLS) methods, 2000, section 4.1.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from sklearn.utils import check_random_state

from unpooled.arrays import Array, Float
from unpooled.errors import ConvergenceError, DataError
from unpooled.federation.federation import Federation
from unpooled.linalg.partial_least_squares import rotations
from unpooled.linalg.score_pairs import cosines, errors, extended, score_pairs
from unpooled.linalg.secret_draws import secret_rotation
from unpooled.models.moments import complete
from unpooled.protocol.bounds import Ceiling
from unpooled.protocol.step import kept, public, release, stays, summed

SOLVERS = ("auto", "direct", "krylov")
# Pairs beyond the k requested ones, which make these converge faster.
_EXTRA_PAIRS = 4
# Rounds that "krylov" usually needs, estimated generously: "auto" sends all directions
# at once where they are no more than the blocks of so many rounds have together.
_USUAL_ROUNDS = 12


@kept(
    by="party",
    takes={"block": "size q"},
    rows=stays("N p", until="fit", meaning="the silo's rows, standardised"),
    mean=stays("p", meaning="the mean of each of the silo's columns"),
    spread=stays("p", meaning="the number that each column is divided by"),
    basis=stays("p q", until="fit", meaning="directions in the space of its columns"),
)
def own_basis(
    X: Float[Array, "N p"], *, block: int, scaled: bool, seed: int
) -> dict[str, Any]:
    """Standardise the silo's own columns, and choose directions; nothing leaves."""
    mean = complete(X).mean(axis=0)
    spread = X.std(axis=0, ddof=1) if scaled else np.ones(X.shape[1])
    spread[spread == 0.0] = 1.0
    return {
        "mean": mean,
        "spread": spread,
        **first_directions((X - mean) / spread, block, seed),
    }


def first_directions(Z: Float[Array, "N p"], block: int, seed: int) -> dict[str, Array]:
    """Return Z with a sum of squares of 1 ("rows"), and its first directions ("basis").

    With at most `block` columns the directions span all of them, and are turned by a
    rotation that nobody else knows: it is drawn from a digest of the rows. Otherwise
    they are random ones in the span of the rows, which contains all weights.
    """
    rows, p = Z / (np.linalg.norm(Z) or 1.0), Z.shape[1]
    if p <= block:
        # The columns themselves would be the other silo's to read.
        basis = np.zeros((p, block))
        basis[:, :p] = secret_rotation(Z, p)
        return {"rows": rows, "basis": basis}
    mixtures = np.random.default_rng(seed).standard_normal((len(rows), block))
    return {"rows": rows, "basis": extended(np.zeros((p, 0)), rows.T @ mixtures, block)}


@summed(
    by="party",
    # A silo with more columns than the others would be alone in the last directions.
    between_two=True,
    takes={"block": "size l"},
    image=release(
        "N l",
        bound=Ceiling("ceiling"),
        meaning="each person's coordinates along directions of the silos' columns, "
        "added over silos and opened by them alone",
    ),
)
def local_image(kept: Any, *, block: int, ceiling: float) -> dict[str, Any]:
    """Release the coordinates of the rows along the newest directions."""
    return {"image": kept["rows"] @ kept["basis"][:, -block:]}


@summed(
    by="party",
    takes={
        "image": public(
            "N l", "people's coordinates in the newest directions, added over silos"
        ),
        "width": "size q",
        "wider": "size c",
        "k": "size k",
    },
    squares=release("k", meaning="squared error bounds of the weights of each pair"),
    correlations=release("k", meaning="the correlation of the scores of each pair"),
    seen=stays(
        "N q", until="fit", meaning="the other silo's coordinates along its directions"
    ),
    basis=stays("p c", until="fit", meaning="directions in the space of its columns"),
    weights=stays("p k", meaning="the weights of the silo's columns"),
)
def local_pairs(
    kept: Any,
    party: str,
    *,
    image: Float[Array, "N l"],
    width: int,
    wider: int,
    k: int,
    deflated: Sequence[str],
) -> dict[str, Any]:
    """Pair both silos' scores; release errors, and keep weights and a wider basis."""
    Z, Q, block = kept["rows"], kept["basis"], image.shape[1]
    own = Z @ Q
    seen = image - own[:, -block:]
    if width > block:
        seen = np.hstack([kept["seen"], seen])
    deflates = deflated_views(party, deflated)
    pairs = score_pairs(own, seen, min(k + _EXTRA_PAIRS, block), deflated=deflates)
    residuals, sines = errors(Z, Q, pairs, deflated=deflates[0])
    W = Q @ pairs.weights[:, :k]
    t, u = pairs.own[:, :k], pairs.other[:, :k]
    if deflates[0]:
        squares = np.einsum("Nk,Nk->k", t, t)
        W = rotations(W, Z.T @ t / np.where(squares > 0, squares, 1.0))
    return {
        "squares": sines[:k] ** 2,
        # Both silos compute the same correlations, so each releases half.
        "correlations": cosines(t, u) / 2.0,
        "seen": seen,
        "basis": extended(Q, residuals, block),
        "weights": W / kept["spread"][:, None],
    }


def deflated_views(party: str, deflated: Sequence[str]) -> tuple[bool, bool]:
    """Return whether a party's own view is deflated, and whether the other's is."""
    return party in deflated, any(other != party for other in deflated)


@final
@dataclass(frozen=True)
class SearchOptions:
    """Options of the search for directions of two parties' columns.

    Attributes
    ----------
    solver : {"direct", "krylov"}
        All directions in one round, or a block of them in each of several rounds.
    block : int
        Directions that a party sends in each round.
    max_rounds : int
        Rounds after which the search gives up.
    tol : float
        Largest sine of the angle between weights and their limits.
    seed : int
        For the first directions where a party has more columns than `block`.
    """

    solver: str
    block: int
    max_rounds: int
    tol: float
    seed: int


def search_for(
    model: str,
    federation: Federation,
    k: int,
    *,
    solver: str,
    tol: float,
    max_iter: int,
    random_state: int | None,
) -> SearchOptions:
    """Return how to search for k pairs between the two parties of a federation.

    Parameters
    ----------
    model : str
        Name of the estimator, for messages.
    federation : Federation
        A column partition of two parties.
    k : int
        Number of pairs.
    solver : {"auto", "direct", "krylov"}
        "auto" chooses the one that sends fewer bytes, and notes it in a plan.
    tol, max_iter
        As of `SearchOptions`; no more rounds are made than there are directions for.
    random_state : int, optional
        None: that of the federation.

    Raises
    ------
    DataError
        With more or fewer than two parties.
    """
    check_two_parties(model, federation)
    widest = max(len(names) for names in federation.columns_of.values())
    all_directions = min(int(federation.n_rows or 0), widest)
    few = min(k + _EXTRA_PAIRS, all_directions)
    if solver == "auto":
        solver = "direct" if all_directions <= _USUAL_ROUNDS * few else "krylov"
        federation.coordinator.notes.append(
            f"{model} chose the solver {solver}: all {all_directions:,} directions at "
            f"once, or {few} in each of about {_USUAL_ROUNDS} rounds."
        )
    block = all_directions if solver == "direct" else few
    max_rounds = max(1, min(int(max_iter), -(-all_directions // block) + 1))
    state = federation.seed(random_state)
    seed = check_random_state(state).randint(2**31)
    return SearchOptions(solver, block, max_rounds, tol, seed)


def check_two_parties(model: str, federation: Federation) -> None:
    """Refuse a column partition of more or fewer than two parties."""
    if len(federation.parties) != 2:
        raise DataError(
            f"{model} takes the views of 2 parties, not of {len(federation.parties)}; "
            f"CCA takes any number."
        )


def paired_views(
    federation: Federation,
    search: SearchOptions,
    k: int,
    *,
    deflated: Sequence[str],
) -> tuple[Float[Array, " k"], int]:
    """Pair the views of two parties; return the scores' correlations, and the rounds.

    The parties keep the weights, for whose accuracy the correlations are no measure.

    Parameters
    ----------
    federation : Federation
        Each party keeps "rows", "mean", "spread" and "basis" for it; see `own_basis`.
    search : Search
        As the first step took its block and seed from.
    k : int
        Number of pairs.
    deflated : sequence of str
        The parties whose scores are removed from their view before the next pair.

    Raises
    ------
    ConvergenceError
        When the weights are not within the tolerance after all rounds.
    """
    block, planned, worst = search.block, federation.coordinator.planned, np.inf
    for n_iter in range(1, search.max_rounds + 1):
        image = federation.sum(local_image, to="parties", block=block, ceiling=2.0)
        totals = federation.sum(
            local_pairs,
            image=image["image"],
            width=n_iter * block,
            wider=(n_iter + 1) * block,
            k=k,
            deflated=list(deflated),
        )
        worst = float(np.sqrt(np.max(totals["squares"])))
        # A plan has all the rounds that there may be.
        if n_iter == search.max_rounds if planned else worst <= search.tol:
            return totals["correlations"], n_iter
    raise ConvergenceError(
        f"After {search.max_rounds} rounds of directions the weights may still be off "
        f"by {worst:.1e} (the sine of an angle). Covariances of neighbouring pairs may "
        f"be equal, so that their weights are not determined: try other n_components "
        f'than {k}, a larger tol, or solver="direct"; or allow more rounds with '
        f"max_iter."
    )

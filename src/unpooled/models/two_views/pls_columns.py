"""Partial least squares between two parties with other columns of the same people.

    each keeps  its columns X_i, standardised, at unit norm, and a basis Q_i of theirs
    each        silos ── X_i Q_i, the newest directions ──> Σ, opened by the parties
    iteration   each takes its own part off, pairs both parties' images, and widens Q_i
                by what X_iᵀ u shows to be lacking, u the other's score of a pair
                silos ── squared errors of the pairs, correlations ──> the coordinator
    at the end  each keeps the weights of its own columns

Both parties pair the same images, so they agree without being told. The coordinator
sees noise in place of the images, and the errors. Each party can tell the other's
images, which with all directions ("direct") are the other's rows up to a rotation, and
with few ("krylov") the part of them that goes together with its own.

References
----------
Golub and Kahan, Calculating the singular values and pseudo-inverse of a matrix, SIAM J.
Numer. Anal. 2 (1965): bases of both sides, widened in turn.
Wegelin, A survey of partial least squares (PLS) methods, 2000, section 4.1.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from sklearn.utils import check_random_state

from unpooled.arrays import Array, Float
from unpooled.errors import ConvergenceError, DataError
from unpooled.federation.federation import Federation
from unpooled.linalg.partial_least_squares import rotations
from unpooled.linalg.score_pairs import cosines, errors, extended, score_pairs
from unpooled.models.moments import complete
from unpooled.models.parameter_checks import check_choice, component_count
from unpooled.protocol.bounds import Ceiling
from unpooled.protocol.step import Step, kept, public, release, stays, summed

SOLVERS = ("auto", "direct", "krylov")
# Beside the pairs that are asked for: they make the others come sooner.
_MORE = 4
# What "krylov" usually takes, generously: more directions than so many blocks have are
# not worth sending at once.
_USUAL_ROUNDS = 12


@kept(
    by="party",
    takes={"block": "size q"},
    rows=stays("N p", until="fit", meaning="the silo's rows, standardised"),
    mean=stays("p", meaning="the mean of each of the silo's columns"),
    spread=stays("p", meaning="what each of the silo's columns is divided by"),
    basis=stays("p q", until="fit", meaning="directions among the silo's columns"),
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
        **start_of((X - mean) / spread, block, seed),
    }


def start_of(Z: Float[Array, "N p"], block: int, seed: int) -> dict[str, Array]:
    """Return rows with a sum of squares of 1, and the first of their directions."""
    rows, p = Z / (np.linalg.norm(Z) or 1.0), Z.shape[1]
    if p <= block:
        return {"rows": rows, "basis": np.eye(p, block)}
    # In the span of the rows, where alone weights can lie.
    mixtures = np.random.default_rng(seed).standard_normal((len(rows), block))
    return {"rows": rows, "basis": extended(np.zeros((p, 0)), rows.T @ mixtures, block)}


@summed(
    by="party",
    takes={"block": "size l"},
    image=release(
        "N l",
        bound=Ceiling("ceiling"),
        meaning="each person's coordinates in directions of the silos' columns, "
        "for the silos alone",
    ),
)
def local_image(kept: Any, *, block: int, ceiling: float) -> dict[str, Any]:
    """Send the rows as the newest directions of the own basis show them."""
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
    squares=release("k", meaning="squared errors of each pair's weights"),
    correlations=release("k", meaning="how strongly the scores of each pair correlate"),
    seen=stays("N q", until="fit", meaning="the other silo's images"),
    basis=stays("p c", until="fit", meaning="directions among the silo's columns"),
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
    """Pair both silos' images; tell errors, and keep weights and a wider basis."""
    Z, Q, block = kept["rows"], kept["basis"], image.shape[1]
    own = Z @ Q
    seen = image - own[:, -block:]
    if width > block:
        seen = np.hstack([kept["seen"], seen])
    both = deflations(party, deflated)
    pairs = score_pairs(own, seen, min(k + _MORE, block), deflated=both)
    residuals, sines = errors(Z, Q, pairs, deflated=both[0])
    W = Q @ pairs.weights[:, :k]
    t, u = pairs.own[:, :k], pairs.other[:, :k]
    if both[0]:
        squares = np.einsum("Nk,Nk->k", t, t)
        W = rotations(W, Z.T @ t / np.where(squares > 0, squares, 1.0))
    return {
        "squares": sines[:k] ** 2,
        # Both silos know them, so that each gives half.
        "correlations": cosines(t, u) / 2.0,
        "seen": seen,
        "basis": extended(Q, residuals, block),
        "weights": W / kept["spread"][:, None],
    }


def deflations(party: str, deflated: Sequence[str]) -> tuple[bool, bool]:
    """Return whether a party's own view is deflated, and the other's."""
    return party in deflated, any(other != party for other in deflated)


@final
@dataclass(frozen=True)
class ColumnSteps:
    """The steps of this module under a model's name (`adopted`)."""

    basis: Step
    image: Step
    pairs: Step


@final
@dataclass(frozen=True)
class Search:
    """How directions are found: "auto", "direct" or "krylov", to `tol`, from a seed."""

    solver: str
    tol: float
    max_iter: int
    random_state: Any


def search_of(model: Any) -> Search:
    """Return how a PLS model wants directions to be found."""
    check_choice("solver", model.solver, SOLVERS)
    return Search(model.solver, model.tol, model.max_iter, model.random_state)


def fit_columns(
    model: Any, federation: Federation, steps: ColumnSteps, *, deflated: Sequence[str]
) -> None:
    """Fit a PLS model of the two parties' views; sets its attributes."""
    search = search_of(model)
    widths = [len(own) for own in federation.columns_of.values()]
    k = component_count(model.n_components, min(int(federation.n_rows or 0), *widths))
    start = {"scaled": bool(model.scale)}
    told, model.n_iter_ = pair_parties(
        type(model).__name__, federation, steps, start, search, k, deflated=deflated
    )
    model.n_samples_ = int(federation.n_rows or 0)
    model.score_correlations_ = told["correlations"]
    model.x_columns_, model.y_columns_ = map(list, federation.columns_of.values())


def pair_parties(
    name: str,
    federation: Federation,
    steps: ColumnSteps,
    start: Mapping[str, Any],
    search: Search,
    k: int,
    *,
    deflated: Sequence[str],
    certain: int | None = None,
) -> tuple[dict[str, Array], int]:
    """Pair the rows that the parties keep; return what the last round told.

    Parameters
    ----------
    name : str
        Of the model.
    federation : Federation
        Of two parties.
    steps : ColumnSteps
        Under the model's name. The first keeps "rows", "mean", "spread" and "basis".
    start : mapping
        Arguments of the first step, beside the number of directions and a seed.
    search : Search
        How directions are found.
    k : int
        Number of pairs.
    deflated : sequence of str
        The parties whose scores are taken out of their view; see `score_pairs`.
    certain : int, optional
        How many pairs have to be within the tolerance; all k when omitted.
    """
    if len(federation.parties) != 2:
        raise DataError(
            f"{name} takes the views of 2 parties, not of {len(federation.parties)}; "
            f"CCA takes any number."
        )
    whole, few = _directions(federation, k)
    solver = chosen_solver(name, federation, search.solver, k)
    block = whole if solver == "direct" else few
    seed = search.random_state
    rng = check_random_state(federation.random_state if seed is None else seed)
    federation.keep(steps.basis, block=block, seed=rng.randint(2**31), **start)
    most = min(int(search.max_iter), -(-whole // block) + 1)
    how = {"k": k, "deflated": list(deflated)}
    return _agreed(federation, steps, block, most, search.tol, how, certain or k)


def chosen_solver(name: str, federation: Federation, solver: str, k: int) -> str:
    """Return what "auto" stands for: what sends fewer bytes; and tell a plan why."""
    if solver != "auto":
        return solver
    whole, few = _directions(federation, k)
    chosen = "direct" if whole <= _USUAL_ROUNDS * few else "krylov"
    federation.coordinator.notes.append(
        f"{name} chose the solver {chosen}: all {whole:,} directions at once, or "
        f"{few} in each of about {_USUAL_ROUNDS} rounds."
    )
    return chosen


def _directions(federation: Federation, k: int) -> tuple[int, int]:
    """Return how many directions there are at most, and how many to begin with."""
    widths = map(len, federation.columns_of.values())
    whole = min(int(federation.n_rows or 0), max(widths))
    return whole, min(k + _MORE, whole)


def _agreed(
    federation: Federation,
    steps: ColumnSteps,
    block: int,
    most: int,
    tol: float,
    how: dict[str, Any],
    certain: int,
) -> tuple[dict[str, Array], int]:
    """Show directions until weights stand still; return what the last round told."""
    i, planned = 0, federation.coordinator.planned
    while True:
        i += 1
        image = federation.sum(steps.image, to="parties", block=block, ceiling=2.0)
        sizes = {"width": i * block, "wider": (i + 1) * block}
        told = federation.sum(steps.pairs, image=image["image"], **sizes, **how)
        worst = float(np.sqrt(np.max(told["squares"][:certain])))
        if i >= most if planned else worst <= tol:
            return told, i
        if i >= most:
            raise ConvergenceError(
                _UNFINISHED.format(most=most, worst=worst, k=how["k"])
            )


_UNFINISHED = (
    "After {most} rounds of directions the weights may still be off by {worst:.1e} "
    "(the sine of an angle). Covariances of neighbouring pairs may be the same, so "
    "that their weights are anybody's choice: try other n_components than {k}, a "
    'larger tol, or solver="direct"; or allow more rounds with max_iter.'
)

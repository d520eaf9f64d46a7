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

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from sklearn.utils import check_random_state

from unpooled.arrays import Array, Float
from unpooled.errors import ConvergenceError, DataError
from unpooled.federation.base import Federation
from unpooled.linalg.latent import rotations
from unpooled.linalg.score_pairs import errors, extended, score_pairs
from unpooled.models.pairs import complete
from unpooled.models.twoviews import component_count
from unpooled.party.bounds import Ceiling
from unpooled.party.step import Step, kept, release, stays, summed

SOLVERS = ("auto", "direct", "krylov")
# Beside the pairs that are asked for: they make the others come sooner.
_MORE = 4
# What "krylov" usually takes, generously: more directions than so many blocks have are
# not worth sending at once.
_USUAL_ROUNDS = 12


@kept(
    by="party",
    takes={"block": "size q"},
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
    norm = np.linalg.norm((X - mean) / spread)
    Z, p = (X - mean) / (spread * (norm or 1.0)), X.shape[1]
    if p <= block:
        basis = np.eye(p, block)
    else:
        # In the span of the rows, where alone weights can lie.
        mixtures = np.random.default_rng(seed).standard_normal((len(X), block))
        basis = extended(np.zeros((p, 0)), Z.T @ mixtures, block)
    return {"mean": mean, "spread": spread, "basis": basis}


@summed(
    by="party",
    takes={"block": "size l"},
    image=release(
        "N l",
        bound=Ceiling("ceiling"),
        meaning="each person's coordinates in l directions of the silos' columns, "
        "for the silos alone",
    ),
)
def local_image(
    X: Float[Array, "N p"], kept: Any, *, block: int, ceiling: float
) -> dict[str, Any]:
    """Send the rows as the newest directions of the own basis show them."""
    return {"image": _rows(X, kept) @ kept["basis"][:, -block:]}


@summed(
    by="party",
    takes={"image": "N l", "width": "size q", "wider": "size c", "k": "size k"},
    squares=release("k", meaning="squared errors of each pair's weights"),
    correlations=release("k", meaning="how strongly the scores of each pair correlate"),
    seen=stays("N q", until="fit", meaning="the other silo's images"),
    basis=stays("p c", until="fit", meaning="directions among the silo's columns"),
    weights=stays("p k", meaning="the weights of the silo's columns"),
)
def local_pairs(
    X: Float[Array, "N p"],
    kept: Any,
    *,
    image: Float[Array, "N l"],
    width: int,
    wider: int,
    k: int,
    deflated: bool,
) -> dict[str, Any]:
    """Pair both silos' images; tell errors, and keep weights and a wider basis."""
    Z, Q, block = _rows(X, kept), kept["basis"], image.shape[1]
    own = Z @ Q
    seen = image - own[:, -block:]
    if width > block:
        seen = np.hstack([kept["seen"], seen])
    pairs = score_pairs(own, seen, min(k + _MORE, block), deflated=deflated)
    residuals, sines = errors(Z, Q, pairs, deflated=deflated)
    W = Q @ pairs.weights[:, :k]
    t, u = pairs.own[:, :k], pairs.other[:, :k]
    lengths = np.linalg.norm(t, axis=0) * np.linalg.norm(u, axis=0)
    correlations = np.einsum("Nk,Nk->k", t, u) / np.where(lengths > 0, lengths, 1.0)
    if deflated:
        squares = np.einsum("Nk,Nk->k", t, t)
        W = rotations(W, Z.T @ t / np.where(squares > 0, squares, 1.0))
    return {
        "squares": sines[:k] ** 2,
        # Both silos know them, so that each gives half.
        "correlations": correlations / 2.0,
        "seen": seen,
        "basis": extended(Q, residuals, block),
        "weights": W / kept["spread"][:, None],
    }


@final
@dataclass(frozen=True)
class ColumnSteps:
    """The steps of this module under a model's name (`adopted`)."""

    basis: Step
    image: Step
    pairs: Step


def fit_columns(
    model: Any, federation: Federation, steps: ColumnSteps, *, deflated: bool
) -> None:
    """Fit a model of the two parties' views; sets its attributes."""
    if len(federation.parties) != 2:
        raise DataError(
            f"{type(model).__name__} takes the views of 2 parties, not of "
            f"{len(federation.parties)}; CCA takes any number."
        )
    N = int(federation.n_rows or 0)
    widths = [len(own) for own in federation.columns_of.values()]
    k = component_count(model.n_components, min(N, *widths))
    block = _block(model, federation, k, min(N, max(widths)))
    seed = check_random_state(
        federation.random_state if model.random_state is None else model.random_state
    ).randint(2**31)
    federation.keep(steps.basis, block=block, scaled=bool(model.scale), seed=seed)
    # More directions than columns there are not.
    most = min(int(model.max_iter), -(-min(N, max(widths)) // block) + 1)
    how = {"k": k, "deflated": deflated}
    told, n_iter = _agreed(federation, steps, block, most, model.tol, how)
    model.n_samples_, model.n_iter_ = N, n_iter
    model.score_correlations_ = told["correlations"]
    model.x_columns_, model.y_columns_ = map(list, federation.columns_of.values())


def _agreed(
    federation: Federation,
    steps: ColumnSteps,
    block: int,
    most: int,
    tol: float,
    how: dict[str, Any],
) -> tuple[dict[str, Array], int]:
    """Show directions until weights stand still; return what the last round told."""
    i, planned = 0, federation.coordinator.planned
    while True:
        i += 1
        image = federation.sum(steps.image, to="parties", block=block, ceiling=2.0)
        sizes = {"width": i * block, "wider": (i + 1) * block}
        told = federation.sum(steps.pairs, image=image["image"], **sizes, **how)
        worst = float(np.sqrt(np.max(told["squares"])))
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


def _block(model: Any, federation: Federation, k: int, whole: int) -> int:
    """Return how many directions a round shows, and tell a plan why."""
    if model.solver not in SOLVERS:
        raise DataError(f"solver={model.solver!r}; choose one of {SOLVERS}.")
    few = min(k + _MORE, whole)
    solver = model.solver
    if solver == "auto":
        solver = "direct" if whole <= _USUAL_ROUNDS * few else "krylov"
        federation.coordinator.notes.append(
            f"{type(model).__name__} chose the solver {solver}: all {whole:,} "
            f"directions at once, or {few} in each of about {_USUAL_ROUNDS} rounds."
        )
    return whole if solver == "direct" else few


def _rows(X: Float[Array, "N p"], kept: Any) -> Float[Array, "N p"]:
    """Return the silo's rows, standardised, with a sum of squares of 1."""
    Z = (complete(X) - kept["mean"]) / kept["spread"]
    return Z / (np.linalg.norm(Z) or 1.0)

"""Merging directions among neighbours: Algorithm 5 of VFedPCA, without a server.

    each silo   its own direction a_i and eigenvalue α_i, to its neighbours as they are
    each silo   u_i = Σ w_j a_j over itself and its neighbours                (13), (15)
                goes on with its own u_i: (14), the start of the next round, deflation
    at the end  M_i = X_iᵀ u_i ── squares of its columns ──> total, for the silos alone
                each keeps P_i = M_i / sqrt(total)

The coordinator carries sealed messages and is told nothing. Unless all hear all, every
silo has another u: there is no consensus, and more rounds do not bring one.

References
----------
Cheung, Jiang, Yu, Lou, Vertical Federated Principal Component Analysis and Its Kernel
Extension on Feature-wise Distributed Data, section 3.9 and Algorithm 5.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.federation.federation import Federation
from unpooled.models.vertical_pca import projection as projecting
from unpooled.models.vertical_pca.merge import combined, weights_of
from unpooled.models.vertical_pca.projection import Projection
from unpooled.protocol.step import (
    Step,
    disclosed,
    kept,
    public,
    release,
    stays,
    summed,
)
from unpooled.protocol.topology import Graph, graph_of

_HISTORY = "the directions over the people that the silo merged, one for each round"
_WEIGHTS = "the weights that it gave to its neighbours’ and its own, in each round"
_LOADINGS = "the loadings of the silo's own columns"

# What the coordinator does not have, without a server.
KEPT = ("u_", "scores_", "explained_variance_", "history_")
# What a round begins with: where to start, what the data were replaced by, what was
# found and is taken out.
State = tuple[Float[Array, " N"] | None, Float[Array, "N l"], Float[Array, "N q"]]


@kept(
    by="party",
    takes={"count": "size l", "parties": "size m"},
    history=stays("l N", meaning=_HISTORY),
    weights=stays("l m", meaning=_WEIGHTS),
)
def neighbour_merge(
    kept: Any,
    inbox: Any,
    *,
    count: int,
    parties: int,
    order: list[Any],
    weights: str,
    scaling: bool,
    align_signs: bool,
) -> dict[str, Any]:
    """Merge the directions of this silo and its neighbours."""
    vectors = [told["vector"] for told in inbox.values()]
    eigenvalues = [float(told["eigenvalue"]) for told in inbox.values()]
    w = weights_of(eigenvalues, weights, scaling)
    u = combined(vectors, eigenvalues, w, align_signs=align_signs)
    row = np.zeros(parties)
    row[[order.index(party) for party in inbox]] = w
    found = {"history": u[None, :], "weights": row[None, :]}
    if count > 1:
        found = {name: np.vstack([kept[name], found[name]]) for name in found}
    return found


@summed(
    by="party",
    takes={"k": "size k"},
    squares=release("k", meaning="how much of the silo's columns each component is"),
)
def neighbour_squares(
    X: Float[Array, "N p"], kept: Any, *, k: int, centred: bool
) -> dict[str, Any]:
    """Square and add the products of own columns with the silo's own directions."""
    M = _products(X, kept["history"], k, centred)
    return {"squares": np.einsum("pk,pk->k", M, M)}


@kept(
    by="party",
    takes={
        "squares": public(
            "k", "how much of all columns each component explains, as a sum of squares"
        )
    },
    components=stays("k p", meaning=_LOADINGS),
    mean=stays("p", meaning="the mean of each of the silo's own columns"),
)
def neighbour_loadings(
    X: Float[Array, "N p"], kept: Any, *, squares: Float[Array, " k"], centred: bool
) -> dict[str, Any]:
    """Keep the silo's part of the components, by its own directions."""
    # A direction that explains nothing has no loadings; it is not divided by 0.
    scale = np.where(squares > 0.0, np.sqrt(np.maximum(squares, 0.0)), 1.0)
    M = _products(X, kept["history"], len(squares), centred)
    mean = X.mean(axis=0) if centred else np.zeros(X.shape[1])
    return {"components": (M / scale).T, "mean": mean}


@disclosed(
    by="party",
    takes={"count": "size l", "parties": "size m"},
    history=release("l N", meaning=_HISTORY),
    weights=release("l m", meaning=_WEIGHTS),
)
def neighbour_history(kept: Any, *, count: int, parties: int) -> dict[str, Any]:
    """Disclose what the silo merged."""
    return {"history": kept["history"], "weights": kept["weights"]}


class Steps(NamedTuple):
    """The steps above, under the name of the model that asks."""

    merge: Step
    squares: Step
    loadings: Step
    history: Step


STEPS = Steps(neighbour_merge, neighbour_squares, neighbour_loadings, neighbour_history)


def state(kept: Any, component: int, number: int, rounds: int, N: int) -> State:
    """Return what round `number` of a component begins with, at one silo."""
    if component == number == 0:
        return None, np.zeros((N, 0)), np.zeros((N, 0))
    history = kept["history"]
    found = history[rounds - 1 : component * rounds : rounds].T
    found = found / np.linalg.norm(found, axis=0)
    if number == 0:
        return None, np.zeros((N, 0)), found
    return history[-1], history[component * rounds][:, None], found


def fit(
    model: Any,
    federation: Federation,
    steps: Steps,
    tell: Callable[[Graph, int, int], None],
) -> None:
    """Run all rounds; `tell` has the silos tell their neighbours their directions.

    It is called with the graph, the component and the round's number in it.
    """
    graph = graph_of(model.topology, federation.parties)
    order = list(federation.parties)
    for component in range(model.n_components):
        for number in range(model.rounds):
            tell(graph, component, number)
            federation.keep(
                steps.merge,
                count=component * model.rounds + number + 1,
                parties=len(order),
                order=order,
                weights=model.weights,
                scaling=model.weight_scaling,
                align_signs=model.align_signs,
            )
    how = {"centred": model.centre == "columns"}
    total = federation.sum(steps.squares, to="parties", k=model.n_components, **how)
    federation.keep(steps.loadings, squares=total["squares"], **how)


def gather(
    model: Any, federation: Federation, steps: Steps, projection_steps: projecting.Steps
) -> None:
    """Ask the silos for what the model lacks, and set these attributes."""
    k, of = model.n_components, {"kept_of": model.kept_}
    projection = Projection(projection_steps, np.ones(k))
    if model.topology != "server":
        _gather_history(model, federation, steps)
        centred = model.centre == "columns"
        squares = federation.sum(steps.squares, k=k, centred=centred, **of)["squares"]
        model.explained_variance_ = squares / (model.n_samples_ - 1)
        model.scores_ = projection.scores(federation, model.kept_)
    model.components_ = projection.gathered(federation, model.kept_)


def _gather_history(model: Any, federation: Federation, steps: Steps) -> None:
    parties, T, k = federation.parties, model.rounds, model.n_components
    size = {"count": k * T, "parties": len(parties)}
    told = federation.collect(steps.history, kept_of=model.kept_, **size)
    model.history_ = [
        {
            "u": np.array([told[party]["history"][row] for party in parties]),
            "weights": np.array([told[party]["weights"][row] for party in parties]),
            "component": row // T,
        }
        for row in range(k * T)
    ]
    last = np.array([entry["u"][0] for entry in model.history_[T - 1 :: T]]).T
    model.u_ = last / np.linalg.norm(last, axis=0)


def _products(
    X: Float[Array, "N p"], history: Float[Array, "l N"], k: int, centred: bool
) -> Float[Array, "p k"]:
    # The last round of each component, of unit length.
    U = history[len(history) // k - 1 :: len(history) // k].T
    U = U / np.linalg.norm(U, axis=0)
    return (X - X.mean(axis=0) if centred else X).T @ U

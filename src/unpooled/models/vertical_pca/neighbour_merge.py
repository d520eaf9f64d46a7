"""Directions merged among neighbours: Algorithm 5 of VFedPCA, without a server.

    each silo   sends its direction a_i and eigenvalue α_i to its neighbours
    each silo   u_i = Σ w_j a_j over itself and its neighbours                (13), (15)
                and uses its own u_i in (14), in the next round, and in the deflation
    at the end  M_i = X_iᵀ u_i ── squares of its columns ──> total, for the silos alone
                each keeps P_i = M_i / sqrt(total)

The coordinator carries sealed messages and opens nothing. Unless the graph is complete,
the silos' u_i differ: there is no consensus, and more rounds do not bring one.

References
----------
Cheung, Jiang, Yu, Lou, Vertical Federated Principal Component Analysis and Its Kernel
Extension on Feature-wise Distributed Data, section 3.9 and Algorithm 5. It does not say
whether a silo's own direction is merged with its neighbours'; here it is.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.federation.federation import Federation
from unpooled.models.vertical_pca import projection
from unpooled.models.vertical_pca.merge import combined, weights_of
from unpooled.protocol.step import Step, disclosed, kept, release, stays, summed
from unpooled.protocol.topology import graph_of

_HISTORY = "the directions over the people that the silo merged, one for each round"
_WEIGHTS = "the weights of its neighbours’ directions and its own, in each round"

# Attributes that the coordinator does not have, without a server.
KEPT = ("u_", "scores_", "explained_variance_", "history_")
# How a round begins: the last u, the vector that replaced the data by (14), and the
# components that are deflated.
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
    vectors = [sent["vector"] for sent in inbox.values()]
    eigenvalues = [float(sent["eigenvalue"]) for sent in inbox.values()]
    w = weights_of(eigenvalues, weights, scaling)
    u = combined(vectors, eigenvalues, w, align_signs=align_signs)
    row = np.zeros(parties)
    row[[order.index(party) for party in inbox]] = w
    last = {"history": u[None, :], "weights": row[None, :]}
    if count == 1:
        return last
    return {name: np.vstack([kept[name], last[name]]) for name in last}


@summed(
    by="party",
    takes={"k": "size k"},
    squares=release("k", meaning="how much of the silo's columns each component is"),
)
def neighbour_squares(
    X: Float[Array, "N p"], kept: Any, *, k: int, centred: bool
) -> dict[str, Any]:
    """Add the squared products of own columns with the silo's own directions."""
    U = _last_directions(kept["history"], k)
    return projection.local_squares(X, U=U, centred=centred)


@kept(
    by="party",
    takes={"squares": projection.SQUARES},
    components=stays("k p", meaning=projection.LOADINGS),
    mean=stays("p", meaning="the mean of each of the silo's own columns"),
)
def neighbour_loadings(
    X: Float[Array, "N p"], kept: Any, *, squares: Float[Array, " k"], centred: bool
) -> dict[str, Any]:
    """Keep the silo's part of the components, by its own directions."""
    U = _last_directions(kept["history"], len(squares))
    scale = projection.lengths(squares)
    return projection.local_loadings(X, U=U, scale=scale, centred=centred)


@disclosed(
    by="party",
    takes={"count": "size l", "parties": "size m"},
    history=release("l N", meaning=_HISTORY),
    weights=release("l m", meaning=_WEIGHTS),
)
def neighbour_history(kept: Any, *, count: int, parties: int) -> dict[str, Any]:
    """Disclose what the silo merged."""
    return {"history": kept["history"], "weights": kept["weights"]}


def state(kept: Any, component: int, number: int, rounds: int, N: int) -> State:
    """Return how round `number` of a component begins at one silo."""
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
    step: Step,
    arguments: Mapping[str, Any],
) -> None:
    """Run all rounds.

    Parameters
    ----------
    model : VFedPCA or VFedAKPCA
        Its parameters are read.
    federation : Federation
        A column partition.
    step : Step
        By which the silos send their directions to their neighbours.
    arguments : mapping
        Its public arguments, but for the round's number.
    """
    graph = graph_of(model.topology, federation.parties)
    order = list(federation.parties)
    for component in range(model.n_components):
        for number in range(model.rounds):
            federation.exchange(
                step,
                graph,
                component=component,
                number=number,
                rounds=model.rounds,
                **arguments,
            )
            federation.keep(
                neighbour_merge,
                count=component * model.rounds + number + 1,
                parties=len(order),
                order=order,
                weights=model.weights,
                scaling=model.weight_scaling,
                align_signs=model.align_signs,
            )
    k, centred = model.n_components, model.centre == "columns"
    squares = federation.sum(neighbour_squares, to="parties", k=k, centred=centred)
    federation.keep(neighbour_loadings, squares=squares["squares"], centred=centred)


def gather(model: Any, federation: Federation) -> None:
    """Ask the silos for the attributes that the model lacks, and set them."""
    k, kept_of = model.n_components, model.kept_
    if model.topology != "server":
        _gather_history(model, federation)
        total = federation.sum(
            neighbour_squares,
            k=k,
            centred=model.centre == "columns",
            kept_of=kept_of,
        )
        model.explained_variance_ = total["squares"] / (model.n_samples_ - 1)
        model.scores_ = projection.scores(federation, k, kept_of)
    model.components_ = projection.disclosed_loadings(federation, k, kept_of)


def _gather_history(model: Any, federation: Federation) -> None:
    parties, T, k = federation.parties, model.rounds, model.n_components
    shown = federation.collect(
        neighbour_history, kept_of=model.kept_, count=k * T, parties=len(parties)
    )
    model.history_ = [
        {
            "u": np.array([shown[party]["history"][row] for party in parties]),
            "weights": np.array([shown[party]["weights"][row] for party in parties]),
            "component": row // T,
        }
        for row in range(k * T)
    ]
    model.u_ = _last_directions(np.array([x["u"][0] for x in model.history_]), k)


def _last_directions(history: Float[Array, "l N"], k: int) -> Float[Array, "N k"]:
    """Return the merged direction of each component's last round, of unit length."""
    rounds = len(history) // k
    U = history[rounds - 1 :: rounds].T
    return U / np.linalg.norm(U, axis=0)

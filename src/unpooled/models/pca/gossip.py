"""The solver of PCA on a column partition that needs no coordinator: "gossip".

    every silo   its own images  X_c (X_cᵀ V) of a block V, N × l, to its neighbours
    neighbours   mix the images, until all have the average: Σ_i X_i X_iᵀ V / m
    every silo   Rayleigh-Ritz on all blocks so far: are its components certified?
                 ── a masked sum counts the silos that are ready
    one silo     in the middle of the graph makes the next block, which is passed on
    at the end   it passes on U and Σ²; each keeps its loadings X_cᵀ U / Σ, and scores

This is block Krylov, as in `unpooled.linalg.krylov`, with the sums of every round made
among neighbours (`unpooled.linalg.gossip`). The averages are exact after at most m - 1
messages to each neighbour, not only in the limit, so that few blocks are enough. Every
silo certifies convergence by residuals and the gap behind the components. One silo
makes the blocks, so that they are the same numbers everywhere: m copies of a Krylov
recurrence would drift apart by their rounding. That silo sees no more than the others.

In each iteration there are S - 1 exchanges of mixing after the exchange of images, S
the number of steps of an average, and E exchanges that pass the next block on, E the
largest distance of a silo from the middle of the graph.

Neighbours see images of each other's columns as they are, and several steps of mixing
reveal what lies further away. As many images as a silo has columns determine its Gram
matrix, so its rows up to a rotation: all silos must allow it.

References
----------
Ye and Zhang, DeEPCA: Decentralized exact PCA with linear convergence rate, JMLR 22
(2021), for the problem; its gradient tracking takes some hundred iterations where the
spectrum decays slowly.
"""

import warnings
from typing import Any

import numpy as np
import scipy.linalg
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from unpooled.arrays import Array, Float
from unpooled.errors import ConvergenceError, DataError
from unpooled.federation.federation import Federation
from unpooled.linalg.centred_products import gram_image, products
from unpooled.linalg.eigen import with_positive_peaks
from unpooled.linalg.gossip import Averaging, averaging, laplacian, mixed
from unpooled.linalg.ritz import continuation, ritz_pairs
from unpooled.models.moments import finite_sums
from unpooled.models.pca.pca_columns import (
    basis_width,
    sample_size_and_features,
    total_squares,
)
from unpooled.models.pca.spectrum import (
    Iteration,
    Spectrum,
    Wanted,
    check_is_number,
    mean_of_rest,
)
from unpooled.protocol.step import disclosed, exchanged, kept, release, stays, summed
from unpooled.protocol.topology import Graph, distances, graph_of

_IMAGE = (
    "each person's products with combinations of all people's rows, over the silo's "
    "own columns"
)
_REVEALS = "as many as the silo has columns determine its rows, up to a rotation"
_BLOCK = "combinations of people, made from earlier averages"
# Silos whose averages differ by more, as a share of the largest eigenvalue, have not
# the average of one matrix.
_DISAGREE = 1e-6
# An eigenvalue below this share of the largest is rounding.
_ROUNDING = 64 * float(np.finfo(float).eps)
# Most memory for a silo's basis, and again for its images.
_BASIS_BYTES = 2**29


@kept(
    by="party",
    takes={"width": "size l"},
    mean=stays("p", meaning="the means of the silo's own columns"),
    block=stays("N l", meaning="random combinations of people", until="fit"),
)
def gossip_begun(X: Float[Array, "N p"], *, seed: int, width: int) -> dict[str, Any]:
    """Keep the means of the silo's own columns, and draw the first block."""
    # Drawn in every silo from a public seed. A coordinator that chose the block could
    # choose a combination of one person alone.
    start = np.random.RandomState(seed).standard_normal((len(X), width))
    block = scipy.linalg.qr(start, mode="economic")[0]
    return {"mean": finite_sums(X) / len(X), "block": block}


@exchanged(
    by="party",
    takes={"width": "size l"},
    image=release("N l", meaning=f"{_IMAGE}; {_REVEALS}"),
    block=stays("N l", meaning=_BLOCK, until="fit"),
)
def gossip_image(
    X: Float[Array, "N p"], kept: Any, inbox: Any, *, width: int
) -> dict[str, Any]:
    """Apply the silo's own Gram matrix to the block that was passed on."""
    received = _passed_on(inbox, "block")
    block = kept["block"] if received is None else received["block"]
    return {"image": gram_image(X, kept["mean"], block), "block": block}


@exchanged(
    by="party",
    takes={"width": "size l"},
    image=release("N l", meaning=f"{_IMAGE}, mixed with its neighbours' images"),
    before=stays("N l", meaning="the same before mixing", until="fit"),
)
def gossip_mixed(
    kept: Any, inbox: Any, *, width: int, momentum: float, rate: float
) -> dict[str, Any]:
    """Mix the silo's image with its neighbours', for the next exchange."""
    image = _mixed(kept, inbox, momentum, rate)
    return {"image": image, "before": inbox.own["image"]}


@summed(
    by="party",
    takes={"width": "size l", "size": "size q"},
    ready=release("", meaning="number of silos whose components are certified"),
    unsure=release(
        "", meaning="number of these whose components are certain only to rounding"
    ),
    basis=stays("N q", meaning="all blocks so far", until="fit"),
    images=stays("N q", meaning="their products, over all columns", until="fit"),
    rest=stays(
        "N l", meaning="the part of the last products outside their span", until="fit"
    ),
)
def gossip_ready(
    kept: Any,
    inbox: Any,
    *,
    width: int,
    size: int,
    momentum: float,
    rate: float,
    parties: int,
    wanted: int,
    tol: float,
    lead: str,
) -> dict[str, Any]:
    """Extend the basis by the average, and report whether the components converged."""
    image = parties * _mixed(kept, inbox, momentum, rate)
    Q, Y = kept["block"], image
    if size > width:
        Q, Y = np.hstack([kept["basis"], Q]), np.hstack([kept["images"], Y])
    pairs, turned, noise = ritz_pairs(Q, Y, wanted)
    top = float(np.abs(pairs.values).max())
    if noise > _DISAGREE * top:
        raise DataError("The averages are not of one matrix.", rule="averages")
    ready = pairs.angle <= tol or pairs.is_at_floor(noise) or size == len(Q)
    rest = np.zeros_like(image)
    if inbox.party == lead:
        rest = image - Q @ (Q.T @ image)
        rest -= Q @ (Q.T @ rest)
    if Q.shape[1] > size:
        # A full basis is replaced by its best Ritz vectors.
        Q, Y = Q @ turned[:, :size], Y @ turned[:, :size]
    return {
        "ready": np.array(float(ready)),
        "unsure": np.array(float(ready and not pairs.is_certified(tol))),
        "basis": Q,
        "images": Y,
        "rest": rest,
    }


@exchanged(by="party", takes={"width": "size l"}, block=release("N l", meaning=_BLOCK))
def gossip_passed(kept: Any, inbox: Any, *, width: int, lead: str) -> dict[str, Any]:
    """Make the next block at the silo in the middle; elsewhere pass it on, or zeros."""
    Q, Y, rest = (kept[name] for name in ("basis", "images", "rest"))
    received = _passed_on(inbox, "block")
    if received is not None:
        return {"block": received["block"]}
    if inbox.party == lead:
        return {"block": continuation(Q, Y, rest)[:, :width]}
    return {"block": np.zeros((len(rest), width))}


@exchanged(
    by="party",
    takes={"wanted": "size k"},
    vectors=release("N k", meaning="each person's scores, of unit length"),
    values=release("k", meaning="sums of squares of all columns along the components"),
)
def gossip_found(kept: Any, inbox: Any, *, wanted: int, lead: str) -> dict[str, Any]:
    """Pass on the solution of the silo in the middle, so that all have the same."""
    Q, Y = kept["basis"], kept["images"]
    received = _passed_on(inbox, "vectors")
    if received is not None:
        return {name: received[name] for name in ("vectors", "values")}
    if inbox.party != lead:
        return {"vectors": np.zeros((len(Q), wanted)), "values": np.zeros(wanted)}
    pairs, _, _ = ritz_pairs(Q, Y, wanted)
    return {"vectors": with_positive_peaks(pairs.vectors), "values": pairs.values}


@kept(
    by="party",
    takes={"wanted": "size k"},
    components=stays("k p", meaning="the loadings of the silo's own columns"),
    variance=stays("k", meaning="variances of all columns along the components"),
    scores=stays("N k", meaning="each person's scores along the components"),
)
def gossip_loadings(
    X: Float[Array, "N p"], kept: Any, inbox: Any, *, wanted: int
) -> dict[str, Any]:
    """Return X_cᵀ U / Σ, as rows; a direction without variance has none."""
    received = _passed_on(inbox, "vectors")
    if received is None:
        raise DataError("The silos did not find the same.", rule="averages")
    # Silos that had no average of one matrix have each a solution of their own.
    pairs, _, _ = ritz_pairs(kept["basis"], kept["images"], wanted)
    top = float(np.abs(pairs.values).max())
    if np.abs(pairs.values - received["values"]).max() > _DISAGREE * top:
        raise DataError("The silos did not find the same.", rule="averages")
    U, values = received["vectors"], np.maximum(received["values"], 0.0)
    # The remainder of a direction without variance is rounding.
    length = np.sqrt(np.where(values > _ROUNDING * values[0], values, 0.0))
    divisor = np.where(length > 0, length, np.inf)
    return {
        "components": (products(X, kept["mean"], U) / divisor).T,
        "variance": length**2 / (len(U) - 1),
        "scores": U * length,
    }


@disclosed(
    by="party",
    takes={"wanted": "size k"},
    mean=release("p", meaning="the means of the silo's own columns"),
    components=release("k p", meaning="the loadings of the silo's own columns"),
    variance=release("k", meaning="variances of all columns along the components"),
)
def gossip_shown(kept: Any, *, wanted: int) -> dict[str, Any]:
    """Disclose the silo's means and loadings, and the variances."""
    return {name: kept[name] for name in ("mean", "components", "variance")}


def _mixed(kept: Any, inbox: Any, momentum: float, rate: float) -> Float[Array, "N l"]:
    """Return one step of averaging: the silo's image mixed with its neighbours'."""
    others = [sent["image"] for party, sent in inbox.items() if party != inbox.party]
    before = kept["before"] if momentum else None
    return mixed(inbox.own["image"], before, others, (momentum, rate))


def _passed_on(inbox: Any, name: str) -> Any:
    """Return the arrays of a neighbour that already holds the result, or None."""
    for sent in inbox.values():
        # A silo that does not hold it yet sends zeros.
        if name in sent and sent[name].any():
            return sent
    return None


def gossip(
    federation: Federation, wanted: Wanted, topology: Any, iteration: Iteration
) -> Spectrum:
    """Find the components at every silo; the coordinator relays, and counts.

    Parameters
    ----------
    federation : Federation
        A column partition.
    wanted : int
        Number of components; anything else is refused.
    topology : {"complete", "ring", "star"} or mapping
        The neighbours of every silo, as of `Federation.exchange`.
    iteration : Iteration
        Where to start and when to stop.

    Raises
    ------
    ConvergenceError
        When `max_iter` blocks were not enough.
    """
    N, p = sample_size_and_features(federation, wanted)
    k = check_is_number(wanted, "gossip", min(N, p))
    graph = graph_of(topology, federation.parties)
    mixing, (lead, far) = averaging_on(graph), middle(graph)
    federation.coordinator.notes.append(
        f"PCA without a coordinator: {len(mixing.steps)} rounds for each average on a "
        f"graph of spectral gap {mixing.gap:.3g}, and {far} to pass a block on. How "
        f"many blocks it takes depends on the data; the rounds planned are the most "
        f"there can usually be. Neighbours see each other's images, which together are "
        f"the Gram matrix of their columns."
    )
    n_iter, unsure = _extend_bases(federation, k, graph, mixing, iteration)
    for _ in range(far):
        federation.exchange(gossip_found, graph, wanted=k, lead=lead)
    federation.keep(gossip_loadings, wanted=k)
    if unsure:
        warnings.warn(
            f"Eigenvalues {k} and {k + 1} lie so close together that float64 numbers "
            f"do not determine the first {k} components to `tol`. The variances are "
            f"right, and every component is one of some solution.",
            ConvergenceWarning,
            stacklevel=2,
        )
    attributes = {
        "n_iter_": n_iter,
        "mixing_steps_": len(mixing.steps),
        "spectral_gap_": mixing.gap,
    }
    return Spectrum(N=N, n_kept_in_silos=k, attributes=attributes)


def _extend_bases(
    federation: Federation,
    k: int,
    graph: Graph,
    mixing: Averaging,
    iteration: Iteration,
) -> tuple[int, bool]:
    """Extend the silos' bases block by block until the components converged at all.

    Returns the number of blocks, and whether the components of some silo are certain
    only to rounding.
    """
    N, m, planned = federation.n_rows or 0, len(graph), federation.coordinator.planned
    (lead, far), full = middle(graph), basis_width(N, k)
    _draw_first_block(federation, full, iteration)
    most = max(_BASIS_BYTES // (8 * N), k + 3 * full)
    most_blocks = iteration.max_iter
    if planned:
        # The images span no more than the columns; one more block shows nothing new.
        enough = -(-min(N, federation.n_features) // full) + 1
        most_blocks = min(most_blocks, enough)
    width = size = full
    *early, (last_momentum, last_rate) = mixing.steps
    ready = 0
    for number in range(1, most_blocks + 1):
        federation.exchange(gossip_image, graph, width=width)
        for momentum, rate in early:
            federation.exchange(
                gossip_mixed, graph, width=width, momentum=momentum, rate=rate
            )
        counts = federation.sum(
            gossip_ready,
            width=width,
            size=size,
            momentum=last_momentum,
            rate=last_rate,
            parties=m,
            wanted=k,
            tol=iteration.tol,
            lead=lead,
        )
        ready = round(float(counts["ready"]))
        if ready == m and not planned:
            return number, round(float(counts["unsure"])) > 0
        width = min(full, N - size)
        size = size + width if size + width <= most else k + full
        if not width:
            break
        for _ in range(far):
            federation.exchange(gossip_passed, graph, width=width, lead=lead)
    if planned:
        return iteration.max_iter, False
    raise ConvergenceError(
        f"After {iteration.max_iter} blocks {ready} of {m} silos are certain of their "
        f"components to the angle {iteration.tol:g}. Raise max_iter; or choose "
        f"n_components at a larger gap, or raise tol."
    )


def _draw_first_block(federation: Federation, width: int, iteration: Iteration) -> None:
    seed = federation.seed(iteration.random_state)
    if not isinstance(seed, int | np.integer):
        seed = check_random_state(seed).randint(2**31 - 1)
    federation.keep(gossip_begun, seed=int(seed), width=width)


def averaging_on(graph: Graph) -> Averaging:
    """Return the steps of averaging on a graph."""
    place = {party: number for number, party in enumerate(graph)}
    return averaging(
        laplacian(
            [[place[other] for other in neighbours] for neighbours in graph.values()]
        )
    )


def middle(graph: Graph) -> tuple[str, int]:
    """Return a party in the middle of the graph, and how far the farthest other is."""
    far = {party: max(distances(graph, party).values()) for party in graph}
    lead = min(far, key=lambda party: far[party])
    return lead, far[lead]


def disclosed_spectrum(
    federation: Federation, *, kept_of: str, N: int, k: int
) -> Spectrum:
    """Return the silos' kept results of the model, which every silo must allow."""
    parts = federation.collect(gossip_shown, kept_of=kept_of, wanted=k)
    by_silo = [parts[party] for party in federation.parties]
    variance = by_silo[0]["variance"]
    total = total_squares(federation) / (N - 1)
    rest = total - float(variance.sum())
    return Spectrum(
        N=N,
        mean=np.concatenate([part["mean"] for part in by_silo]),
        variance=variance,
        axes=np.hstack([part["components"] for part in by_silo]).T,
        total=total,
        noise=mean_of_rest(rest, min(N, federation.n_features) - k),
    )

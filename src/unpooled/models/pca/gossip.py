"""The rounds of PCA without a coordinator: who is asked what, in which order.

    once       every silo keeps its means and the first block
    each time  1 exchange of images, S - 1 of mixing;  a masked sum: how many are ready
               E exchanges that pass the next block on from the middle of the graph
    at the end E exchanges that pass the solution on; every silo keeps its part

S steps average (`unpooled.linalg.gossip`), E is how far the farthest silo is from the
middle. The steps that silos run are in `unpooled.models.pca.gossip_steps`.
"""

import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from unpooled.errors import ConvergenceError, DataError
from unpooled.federation.federation import Federation
from unpooled.linalg.gossip import Averaging, averaging, laplacian
from unpooled.models.pca.columns import basis_width, size_of, total_squares
from unpooled.models.pca.gossip_steps import STEPS
from unpooled.models.pca.spectrum import Spectrum, Wanted
from unpooled.protocol.topology import Graph, distances, graph_of

# What a silo's basis may take, and its images again.
_BASIS_BYTES = 2**29


def gossip(model: Any, federation: Federation, wanted: Wanted) -> Spectrum:
    """Find the components at every silo; the coordinator carries, and counts."""
    N, p = size_of(federation, wanted)
    if not isinstance(wanted, int):
        raise DataError(
            f'n_components={wanted!r}: svd_solver="gossip" finds a number of '
            f"components; give a whole number from 1 to {min(N, p)}."
        )
    graph = graph_of(model.topology, federation.parties)
    how, (lead, far) = averaging_on(graph), middle(graph)
    _note(federation, how, far)
    n_iter, unsure = _iterated(model, federation, wanted, graph, how)
    for _ in range(far):
        federation.exchange(STEPS.found, graph, wanted=wanted, lead=lead)
    federation.keep(STEPS.loadings, wanted=wanted)
    if unsure:
        _warn(wanted)
    told = {
        "n_iter_": n_iter,
        "mixing_steps_": len(how.steps),
        "spectral_gap_": how.gap,
    }
    return Spectrum(N=N, in_silos=wanted, told=told)


def averaging_on(graph: Graph) -> Averaging:
    """Return the steps that average on a graph."""
    place = {party: number for number, party in enumerate(graph)}
    return averaging(
        laplacian([[place[peer] for peer in peers] for peers in graph.values()])
    )


def middle(graph: Graph) -> tuple[str, int]:
    """Return the first party from which all are nearest, and how far the last is."""
    far = {party: max(distances(graph, party).values()) for party in graph}
    lead = min(far, key=lambda party: far[party])
    return lead, far[lead]


def gathered(model: Any, federation: Federation) -> Spectrum:
    """Ask the silos for means, loadings and variances, and all columns' variance."""
    N, k = model.n_samples_, model.n_components_
    told = federation.collect(STEPS.shown, kept_of=model.kept_, wanted=k)
    parts = [told[party] for party in federation.parties]
    variance = parts[0]["variance"]
    total = total_squares(federation) / (N - 1)
    others = min(N, federation.n_features) - k
    rest = max(total - float(variance.sum()), 0.0)
    return Spectrum(
        N=N,
        mean=np.concatenate([part["mean"] for part in parts]),
        variance=variance,
        axes=np.hstack([part["components"] for part in parts]).T,
        total=total,
        noise=rest / others if others else 0.0,
    )


def _iterated(
    model: Any,
    federation: Federation,
    wanted: int,
    graph: Graph,
    how: Averaging,
) -> tuple[int, bool]:
    """Extend the silos' bases until all are ready.

    Returns with how many blocks, and whether a silo is no surer than rounding allows.
    """
    N, planned = federation.n_rows or 0, federation.coordinator.planned
    (lead, far), full = middle(graph), basis_width(N, wanted)
    _begin(model, federation, full)
    most = max(_BASIS_BYTES // (8 * N), wanted + 3 * full)
    width = size = full
    (momentum, rate), m = how.steps[-1], len(graph)
    fixed = {"parties": m, "wanted": wanted, "tol": model.tol, "lead": lead}
    fixed |= {"momentum": momentum, "rate": rate}
    ready = 0
    for number in range(1, _most_iterations(model, federation, full) + 1):
        federation.exchange(STEPS.image, graph, width=width)
        for beta, gamma in how.steps[:-1]:
            public = {"width": width, "momentum": beta, "rate": gamma}
            federation.exchange(STEPS.mixed, graph, **public)
        told = federation.sum(STEPS.ready, width=width, size=size, **fixed)
        ready = round(float(told["ready"]))
        if ready == m and not planned:
            return number, round(float(told["unsure"])) > 0
        width = min(full, N - size)
        size = size + width if size + width <= most else wanted + full
        if not width:
            break
        for _ in range(far):
            federation.exchange(STEPS.passed, graph, width=width, lead=lead)
    if planned:
        return model.max_iter, False
    raise ConvergenceError(
        f"After {model.max_iter} blocks {ready} of {m} silos are certain of their "
        f"components to the angle {model.tol:g}. Raise max_iter; or choose "
        f"n_components at a larger gap, or raise tol."
    )


def _begin(model: Any, federation: Federation, width: int) -> None:
    seed = federation.random_state if model.random_state is None else model.random_state
    rng = check_random_state(seed)
    if not isinstance(seed, int | np.integer):
        seed = rng.randint(2**31 - 1)
    federation.keep(STEPS.begun, seed=int(seed), width=width)


def _most_iterations(model: Any, federation: Federation, width: int) -> int:
    if not federation.coordinator.planned:
        return model.max_iter
    # The images span no more than the columns; one block on shows that nothing is new.
    enough = -(-min(federation.n_rows or 0, federation.n_features) // width) + 1
    return min(model.max_iter, enough)


def _note(federation: Federation, how: Averaging, far: int) -> None:
    federation.coordinator.notes.append(
        f"PCA without a coordinator: {len(how.steps)} rounds for each average on a "
        f"graph of spectral gap {how.gap:.3g}, and {far} to pass a block on. How many "
        f"blocks it takes depends on the data; the rounds planned are the most there "
        f"can usually be. Neighbours see each other's images, which together are the "
        f"Gram matrix of their columns."
    )


def _warn(k: int) -> None:
    warnings.warn(
        f"Eigenvalues {k} and {k + 1} lie so close together that float64 numbers do "
        f"not determine the first {k} components to `tol`. The variances are right, "
        f"and every component is one of some solution.",
        ConvergenceWarning,
        stacklevel=2,
    )

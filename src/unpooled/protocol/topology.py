"""The graph of neighbours over which parties exchange arrays without a coordinator.

    "complete"  all pairs of parties       "ring"  each and the next, the last and the
    "star"      the first and each other           first; or a mapping to neighbours

Both ends check it: every party receives the whole graph.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from unpooled.errors import DataError

# Neighbours by party, both in the study's order.
Graph = Mapping[str, tuple[str, ...]]
NAMES = ("complete", "ring", "star")


def graph_of(topology: Any, parties: Sequence[str]) -> Graph:
    """Return every party's neighbours.

    Parameters
    ----------
    topology : {"complete", "ring", "star"} or mapping of str to sequence of str
        With "star" the first party is in the middle.
    parties : sequence of str
        In the study's order.

    Raises
    ------
    DataError
        When it is none of these, names other parties, is not symmetric, or does not
        connect all parties.
    """
    m = len(parties)
    if m < 2:
        raise DataError("A topology needs at least two parties.")
    if isinstance(topology, Mapping):
        return _given(topology, parties)
    if topology not in NAMES:
        raise DataError(
            f"topology={topology!r}; choose {', '.join(map(repr, NAMES))}, or a "
            f"mapping of each party to its neighbours."
        )
    edges = {
        "complete": {(i, j) for i in range(m) for j in range(i)},
        "ring": {(i, (i + 1) % m) for i in range(m)},
        "star": {(0, j) for j in range(1, m)},
    }[topology]
    return {
        party: tuple(
            other
            for j, other in enumerate(parties)
            if i != j and edges & {(i, j), (j, i)}
        )
        for i, party in enumerate(parties)
    }


def distances(graph: Graph, start: str) -> dict[str, int]:
    """Return the number of edges to each party that can be reached from `start`."""
    found, front = {start: 0}, [start]
    while front:
        party = front.pop(0)
        for other in graph[party]:
            if other not in found:
                found[other] = found[party] + 1
                front.append(other)
    return found


def _given(topology: Mapping[Any, Any], parties: Sequence[str]) -> Graph:
    if set(topology) != set(parties):
        raise DataError(
            f"The topology is about {sorted(map(str, topology))}, and the parties are "
            f"{sorted(parties)}."
        )
    named: dict[str, tuple[str, ...]] = {}
    for party in parties:
        others = topology[party]
        if isinstance(others, str) or not set(others) <= set(parties) - {party}:
            raise DataError(
                f"The neighbours of {party} are a list of other parties, not {others}."
            )
        named[party] = tuple(other for other in parties if other in set(others))
    for party, others in named.items():
        if alone := [other for other in others if party not in named[other]]:
            raise DataError(
                f"{party} would send to {alone[0]} and not the reverse; a topology is "
                f"symmetric."
            )
    reached = distances(named, parties[0])
    if away := [party for party in parties if party not in reached]:
        raise DataError(
            f"The topology does not connect {away[0]} with {parties[0]}: no array of "
            f"one would ever reach the other."
        )
    return named

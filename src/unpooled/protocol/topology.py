"""Who tells whom where no coordinator adds: a graph over the parties of a study.

    "complete"  everybody everybody        "ring"  each the next, the last the first
    "star"      the first everybody        or a mapping of each party to its neighbours

Both ends check it: a party is told the whole graph, and answers for its own part of it.
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
        raise DataError("Without a second party there is no neighbour to tell.")
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
    """Return by how many steps each party is away; who cannot be reached is absent."""
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
                f"{party} would tell {alone[0]} and not the reverse; neighbours tell "
                f"each other."
            )
    reached = distances(named, parties[0])
    if away := [party for party in parties if party not in reached]:
        raise DataError(
            f"The topology does not connect {away[0]} with {parties[0]}: what one has "
            f"would never reach the other."
        )
    return named

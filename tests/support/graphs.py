"""Graphs of parties, as lists of each one's neighbours: named ones, and random."""

from hypothesis import strategies as st

from unpooled.protocol.topology import graph_of


def neighbours(topology, m):
    parties = [f"p{i}" for i in range(m)]
    graph = graph_of(topology, parties)
    return [[parties.index(other) for other in graph[party]] for party in parties]


def path(m):
    return [[j for j in (i - 1, i + 1) if 0 <= j < m] for i in range(m)]


@st.composite
def connected(draw, most=9):
    """A random tree, and random edges."""
    m = draw(st.integers(2, most))
    edges = {(draw(st.integers(0, i - 1)), i) for i in range(1, m)}
    pairs = st.tuples(st.integers(0, m - 1), st.integers(0, m - 1))
    edges |= {(i, j) for i, j in draw(st.sets(pairs, max_size=2 * m)) if i != j}
    return [sorted({j for e in edges if i in e for j in e} - {i}) for i in range(m)]

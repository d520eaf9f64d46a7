"""Who shares masks with whom, and what colluding parties can then compute."""

import itertools

import numpy as np
import pytest
from scipy.sparse.csgraph import connected_components

import unpooled as up
from unpooled.secure.sums import mask_graph
from unpooled.secure.sums.mask_graph import PEERS, mask_peers


def offers(m, session=0):
    return {f"silo{i}": f"{session} {i}".encode() for i in range(m)}


def graph(of):
    return {party: mask_peers(party, of) for party in of}


@pytest.mark.parametrize("m", [2, 3, PEERS, PEERS + 1])
def test_up_to_97_parties_every_pair_shares_masks(m):
    of = offers(m)
    assert all(peers == set(of) - {party} for party, peers in graph(of).items())


def test_among_more_each_has_96_and_they_agree():
    peers = graph(offers(PEERS + 3))
    assert {len(own) for own in peers.values()} == {PEERS}
    assert all(party in peers[other] for party, own in peers.items() for other in own)


def test_the_order_follows_from_every_fresh_key():
    of = offers(PEERS + 30)
    before = graph(of)
    assert graph(dict(reversed(of.items()))) == before
    assert graph(of | {"silo7": b"another"}) != before


def parts(of, colluding):
    """The connected parts of the graph without the colluding parties."""
    left = [party for party in of if party not in colluding]
    peers = graph(of)
    joined = [[other in peers[one] for other in left] for one in left]
    return connected_components(np.array(joined))[0]


def test_only_two_gaps_of_colluding_neighbours_part_the_others(monkeypatch):
    """All sets of 5 of 9 parties, with 4 peers instead of 96."""
    monkeypatch.setattr(mask_graph, "PEERS", 4)
    of = offers(9)
    one, *_ = of
    peers = graph(of)
    # Along the circle: only next to each other two parties have two peers in common.
    circle = [one]
    while len(circle) < len(of):
        near = [
            other
            for other in peers[circle[-1]]
            if other not in circle and len(peers[other] & peers[circle[-1]]) == 2
        ]
        circle.append(near[0])
    for colluding in itertools.combinations(range(9), 5):
        bad = {circle[place] for place in colluding}
        starts = [
            place
            for place in range(9)
            if {place, (place + 1) % 9} <= set(colluding)
            and (place - 1) % 9 not in colluding
        ]
        assert (parts(of, bad) > 1) == (len(starts) > 1)


def test_totals_are_those_of_all_parties(monkeypatch):
    """Over a circle of seven silos, each with masks for the next and the one before."""
    monkeypatch.setattr(mask_graph, "PEERS", 2)
    X = np.random.default_rng(0).normal(size=(210, 4))
    silos = {f"silo{i}": X[i::7] for i in range(7)}
    found = up.PCA(2).fit(up.simulate(silos))
    pooled = np.linalg.eigvalsh(np.cov(X, rowvar=False))[::-1]
    # Totals are rounded to multiples of 2^-63 of their bounds or finer.
    np.testing.assert_allclose(found.explained_variance_, pooled[:2], rtol=1e-12)

"""Who shares masks with whom, and what colluding parties can then compute."""

import itertools

import numpy as np
import pytest
from scipy.sparse.csgraph import connected_components

import unpooled as up
from unpooled.errors import DataError
from unpooled.party.party import Party
from unpooled.protocol.step import exchanged
from unpooled.secure.comparison.integer_masks import covered
from unpooled.secure.comparison.polynomial import Polynomial
from unpooled.secure.sums import mask_graph
from unpooled.secure.sums.mask_graph import PEERS, mask_peers

ONE = Polynomial({("x",): 1.0, ("y",): 1.0}, {"x": 1, "y": 1}, fraction=0, bits=63)


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


@exchanged(mean="p")
def told_mean(X):
    return {"mean": X.mean(axis=0)}


@pytest.fixture
def circle(monkeypatch):
    """Nine silos on a circle with two peers each, and the sessions of their parties."""
    monkeypatch.setattr(mask_graph, "PEERS", 2)
    sessions, join = [], Party._join

    def joined(party, message):
        answer = join(party, message)
        sessions.extend(party._sessions.values())
        return answer

    monkeypatch.setattr(Party, "_join", joined)
    X = np.random.default_rng(0).normal(size=(270, 4))
    return {f"silo{i}": X[i::9] for i in range(9)}, sessions


@pytest.mark.slow
def test_keys_are_agreed_with_few_parties_where_masks_are_shared_with_few(circle):
    silos, sessions = circle
    up.PCA(2).fit(up.simulate(silos))
    # In a simulation the first five are the committee, of which the first makes the
    # group key: every party sends these something sealed.
    central = {f"silo{i}" for i in range(5)}
    of = {}
    for session in sessions[:9]:
        masked = set(session._sum._keys)
        assert len(masked) == 2
        others = set(silos) - {session.party}
        few = others if session.party in central else (masked | central) & others
        assert set(session._keys) == few
        of[session.party] = session._keys
    # Both ends of every pair that has a key have the same one.
    pairs = [(i, j) for i, keys in of.items() for j in keys]
    assert all(of[i][j] == of[j][i] for i, j in pairs)


@pytest.mark.slow
def test_silos_on_a_circle_follow_and_open_totals_among_themselves(circle):
    """The group key reaches every silo, and so do the sums that check totals."""
    silos, _ = circle
    X = np.concatenate(list(silos.values()))
    found = up.PCA(2).fit(up.simulate(silos, follow=True))
    pooled = np.linalg.eigvalsh(np.cov(X, rowvar=False))[::-1]
    np.testing.assert_allclose(found.explained_variance_, pooled[:2], rtol=1e-12)


def test_on_a_circle_nobody_exchanges_but_where_all_have_the_same_people(circle):
    silos, sessions = circle
    open_ = up.Policy.open()
    here = up.simulate(silos, policy=open_)
    with here.fitting(), pytest.raises(DataError, match="a key in common"):
        here.exchange(told_mean, "ring")
    columns = {name: X[:, :1] for name, X in silos.items()}
    here, before = (
        up.simulate(columns, partition="columns", policy=open_),
        len(sessions),
    )
    with here.fitting():
        here.seed()
    assert {len(session._keys) for session in sessions[before:]} == {8}


def test_masks_on_integers_cancel_on_the_circle(monkeypatch):
    """Those of secret comparisons, between parties that share masks."""
    monkeypatch.setattr(mask_graph, "PEERS", 4)
    of = offers(9)
    rows = {name: [[i, -i], [2**40, 7]] for i, name in enumerate(of)}
    parts = []
    for name, peers in graph(of).items():
        keys = {p: "".join(sorted(name + p)).encode() * 4 for p in peers}
        parts.append(covered(rows[name], ONE, name, keys, b"asked"))
    assert not any(x in (0, 7) for part in parts for row in part for x in row)
    total = [[sum(part[i][j] for part in parts) for j in (0, 1)] for i in (0, 1)]
    assert total == [[36, -36], [9 * 2**40, 63]]

"""PCA without a coordinator: what neighbours learn of one another."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import unpooled as up
from gossiping_silos import federate, gossip, rows
from graphs import neighbours
from unpooled.models.pca import gossip as pca_gossip

# Fixtures of another module.
__all__ = ["rows"]


def images_seen(party, X, m, topology, monkeypatch):
    """What one silo sees of its first neighbour: blocks, and images of them."""
    seen, blocks = [], []
    real = pca_gossip._mixed

    def watch(kept, inbox, momentum, rate):
        if inbox.party == party and not momentum:
            other = next(name for name in inbox if name != party)
            seen.append(np.array(inbox[other]["image"]))
            blocks.append(np.array(kept["block"]))
        return real(kept, inbox, momentum, rate)

    monkeypatch.setattr(pca_gossip, "_mixed", watch)
    gossip(topology=topology).fit(federate(X, m))
    return np.hstack(blocks), np.hstack(seen)


def rebuilt(V, Y):
    """The Gram matrix of least rank with these images: Y (VᵀY)⁺ Yᵀ."""
    return Y @ np.linalg.pinv(V.T @ Y, rcond=1e-10) @ Y.T


@pytest.mark.slow
def test_a_few_images_rebuild_a_neighbour_s_gram(rows, monkeypatch):
    """A silo of 3 columns is read whole off its first image, of width 7."""
    V, Y = images_seen("silo1", rows, 4, "complete", monkeypatch)
    theirs = up.partition_columns(rows, 4)["silo2"]
    centred = theirs - theirs.mean(axis=0)
    G = centred @ centred.T
    found = rebuilt(V[:, :7], Y[:, :7])
    assert_allclose(found, G, atol=1e-8 * np.abs(G).max())
    # And its rows, up to a rotation of its columns.
    values, U = np.linalg.eigh(found)
    own = U[:, -3:] * np.sqrt(values[-3:])
    turn = np.linalg.lstsq(own, centred, rcond=None)[0]
    assert_allclose(own @ turn, centred, atol=1e-6)
    assert_allclose(turn @ turn.T, np.eye(3), atol=1e-6)


@pytest.mark.slow
def test_control_fewer_images_than_columns_do_not(monkeypatch):
    X = np.random.default_rng(1).standard_normal((60, 40))
    V, Y = images_seen("silo1", X, 2, "complete", monkeypatch)
    theirs = up.partition_columns(X, 2)["silo2"]
    centred = theirs - theirs.mean(axis=0)
    G = centred @ centred.T
    few = np.abs(rebuilt(V[:, :14], Y[:, :14]) - G).max()
    many = np.abs(rebuilt(V, Y) - G).max()
    assert few > 0.1 * np.abs(G).max()
    assert Y.shape[1] >= 20
    assert many < 1e-6 * np.abs(G).max()


def test_mixing_tells_of_those_further_away():
    """On a path a - b - c, what b tells after one step holds c's value."""
    a, b, c = np.random.default_rng(0).standard_normal((3, 5))
    rate = 0.3
    told = b - rate * (2 * b - a - c)
    assert_allclose((told - b) / rate + 2 * b - a, c, atol=1e-12)


def test_graphs_of_the_tests_are_those_of_the_library():
    assert neighbours("star", 4) == [[1, 2, 3], [0], [0], [0]]

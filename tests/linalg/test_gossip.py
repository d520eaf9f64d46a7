"""Averages among neighbours: exact on every connected graph, in few steps."""

import numpy as np
import pytest
from hypothesis import given

from graphs import connected, neighbours, path
from unpooled.linalg.gossip import ERROR, averaging, laplacian, mixed


def averaged(graph, values):
    """What every party has in the end, each from its own and its neighbours' values."""
    found, before = list(values), [None] * len(values)
    for step in averaging(laplacian(graph)).steps:
        after = [
            mixed(x, b, [found[j] for j in graph[i]], step)
            for i, (x, b) in enumerate(zip(found, before, strict=True))
        ]
        found, before = after, found
    return found


def assert_averages(graph, seed=0):
    values = np.random.default_rng(seed).standard_normal((len(graph), 5, 2))
    how = averaging(laplacian(graph))
    wrong = np.abs(averaged(graph, values) - values.mean(axis=0)).max()
    # Roundings are estimated, not bounded; they have stayed ten times below.
    assert wrong <= 2 * how.error * np.abs(values).max()
    assert how.error <= ERROR


@pytest.mark.parametrize("m", [2, 3, 4, 7, 12, 20])
@pytest.mark.parametrize("topology", ["complete", "ring", "star", "path"])
def test_every_party_has_the_average(topology, m):
    assert_averages(path(m) if topology == "path" else neighbours(topology, m))


@pytest.mark.slow
@given(connected())
def test_every_party_has_it_on_any_connected_graph(graph):
    assert_averages(graph)


@pytest.mark.parametrize(
    ("topology", "m", "steps", "gap"),
    [
        ("complete", 2, 1, 1.0),
        ("complete", 10, 1, 1.0),
        ("star", 10, 2, 0.1),
        # Eigenvalues 2 - 2 cos(2 π j / m).
        ("ring", 10, 5, (2 - 2 * np.cos(np.pi / 5)) / 4),
        ("ring", 5, 2, (1 - np.cos(0.4 * np.pi)) / (1 - np.cos(0.8 * np.pi))),
    ],
)
def test_steps_are_as_many_as_distinct_eigenvalues(topology, m, steps, gap):
    how = averaging(laplacian(neighbours(topology, m)))
    assert len(how.steps) == steps
    np.testing.assert_allclose(how.gap, gap, rtol=1e-12)


@pytest.mark.slow
@given(connected(most=12))
def test_steps_are_no_fewer_than_the_way_across(graph):
    """Nothing travels farther than one neighbour in a step."""
    L = laplacian(graph)
    far = next(
        d
        for d in range(1, len(graph) + 1)
        if (np.linalg.matrix_power(np.eye(len(graph)) + (L != 0), d) > 0).all()
    )
    assert len(averaging(L).steps) >= far


@pytest.mark.slow
def test_long_paths_take_what_chebyshev_takes_at_most():
    how = averaging(laplacian(path(60)))
    slow = np.log(8 / ERROR) / 2 / np.sqrt(how.gap)
    assert 59 <= len(how.steps) <= slow + 2
    assert_averages(path(60))


def test_control_one_step_less_is_no_average():
    graph = neighbours("ring", 8)
    values = np.random.default_rng(0).standard_normal((8, 3))
    found, before = list(values), [None] * 8
    for step in averaging(laplacian(graph)).steps[:-1]:
        pairs = zip(found, before, strict=True)
        after = [
            mixed(x, b, [found[j] for j in graph[i]], step)
            for i, (x, b) in enumerate(pairs)
        ]
        found, before = after, found
    assert np.abs(found - values.mean(axis=0)).max() > 1e-3


def test_first_steps_need_no_earlier_value():
    for m in range(2, 12):
        assert averaging(laplacian(path(m))).steps[0][0] == 0.0

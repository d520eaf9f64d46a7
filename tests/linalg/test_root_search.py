"""Searching roots by signs: the right cell, in the promised number of batches."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unpooled.linalg.root_search import SignSearch, candidate, candidates_for

TOL = 2.0**-27


def search_for(roots, K, tol=TOL):
    """Return what a search finds for decreasing functions with these roots."""
    roots = np.asarray(roots, float)
    search, batches = SignSearch(len(roots), tol, K), 0
    while len(search.active):
        functions, places = search.places()
        assert len(functions) == K * len(search.active)
        search.narrow(functions, places, candidate(places) < roots[functions])
        batches += 1
    return search, batches


@pytest.mark.slow
@given(
    st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=5),
    st.sampled_from([1, 2, 3, 7, 16]),
)
def test_finds_every_root(roots, K):
    search, _ = search_for(roots, K)
    found, roots = search.roots(), np.array(roots)
    assert (np.abs(found - roots) <= TOL * np.maximum(1.0, np.abs(roots))).all()
    assert not search.beyond.any()


@pytest.mark.thinned(1)
@pytest.mark.parametrize("batches", [3, 4, 8, 11])
def test_number_of_candidates_for_a_number_of_batches(batches):
    K = candidates_for(TOL, batches)
    roots = np.linspace(-4000, 4000, 41)
    assert search_for(roots, K)[1] <= batches
    assert K == 1 or search_for(roots, K - 1)[1] > batches


def test_roots_out_of_reach_are_told():
    search, _ = search_for([np.inf, -np.inf, 3.0], 7)
    assert search.beyond.tolist() == [True, True, False]
    assert search.roots()[2] == pytest.approx(3.0, rel=TOL)


def test_false_signs_far_out_are_not_read():
    search = SignSearch(1, TOL, 7)
    functions, places = search.places()
    positive = candidate(places) < 0.5
    positive[[0, -1]] = ~positive[[0, -1]]
    search.narrow(functions, places, positive)
    lo, hi = candidate(np.array([search.lo[0], search.hi[0]]))
    assert lo <= 0.5 <= hi < 4096


def test_candidates_are_dense_where_roots_are_small():
    places = np.linspace(-4, 4, 801)
    values = candidate(places)
    assert (np.diff(values) > 0).all()
    assert np.allclose(values, -values[::-1])
    wider = np.maximum(np.abs(values[1:]), np.abs(values[:-1]))
    assert (np.diff(values) <= 0.0101 * np.maximum(1, wider)).all()


def place_of(candidates):
    """Return the places of candidates: the inverse of `candidate`."""
    size = np.abs(candidates)
    far = 1.0 + np.log(np.maximum(size, 1.0))
    return np.where(size <= 1.0, candidates, np.copysign(far, candidates))


def values_of(roots, curve):
    """Return decreasing functions with these roots, by index and place."""
    at = place_of(np.asarray(roots, float))
    return lambda functions, places: curve(places - at[functions])


CURVES = {
    "straight": lambda v: -v,
    "bent": lambda v: 1.0 - np.exp(v),
    "steep": lambda v: -np.sinh(6.0 * v),
    "flat at its root": lambda v: -(v**3),
    "signs that overflow": lambda v: np.copysign(
        np.where(np.abs(v) > 0.1, np.inf, v), -v
    ),
    "a step": lambda v: np.where(v < 0, 1.0, -1.0),
}


@pytest.mark.thinned(1)
@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=4))
@pytest.mark.parametrize("curve", CURVES)
def test_values_find_every_root_too(curve, roots):
    search, batches = SignSearch(len(roots), TOL, 2, by_values=True), 0
    functions_at = values_of(roots, CURVES[curve])
    while len(search.active):
        functions, places = search.places()
        search.narrow(functions, places, functions_at(functions, places))
        batches += 1
    found, roots = search.roots(), np.array(roots)
    assert (np.abs(found - roots) <= TOL * np.maximum(1.0, np.abs(roots))).all()
    # Never much worse than cutting evenly every second time.
    assert batches <= 60


def test_values_take_few_batches_for_smooth_functions():
    roots = np.linspace(-0.9, 0.9, 19)
    search, batches = SignSearch(19, TOL, 2, by_values=True), 0
    functions_at = values_of(roots, CURVES["bent"])
    while len(search.active):
        functions, places = search.places()
        search.narrow(functions, places, functions_at(functions, places))
        batches += 1
    assert batches <= 7

"""Sums and differences of three or four sets of rows."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import unpooled as up
from unpooled.errors import ReleaseRefusedError
from unpooled.party.rules.combined_rows import combinations, fewest_left


@given(st.integers(3, 5), st.integers(1, 6), st.data())
def test_every_sum_and_difference_with_the_last_set_is_found(k, q, data):
    cells = st.lists(st.integers(0, 2), min_size=k * q, max_size=k * q)
    sets = np.array(data.draw(cells)).reshape(q, k)
    found = {own.tobytes() for _, own in combinations(sets)}
    for signs in itertools.product((-1, 0, 1), repeat=k - 1):
        if np.count_nonzero(signs) in (2, 3):
            assert (sets @ [*signs, 1]).tobytes() in found


@given(st.integers(3, 5), st.integers(1, 6), st.data())
def test_the_fewest_rows_are_those_of_all_combinations(k, q, data):
    cells = st.lists(st.integers(0, 2), min_size=k * q, max_size=k * q)
    sets = np.array(data.draw(cells)).reshape(q, k)
    sizes = np.array(data.draw(st.lists(st.integers(1, 15), min_size=q, max_size=q)))
    left = [
        max(int(own[own > 0] @ sizes[own > 0]), -int(own[own < 0] @ sizes[own < 0]))
        for _, own in combinations(sets)
    ]
    assert fewest_left(sets, sizes, 10) == min([10, *filter(None, left)])


def test_years_of_daily_versions_are_compared():
    sets = np.triu(np.ones((400, 400), int))
    assert fewest_left(sets, np.full(400, 12), 10) == 10
    added = np.zeros((1, 400), int)
    added[0, -1] = 1
    sets[:, -1] = sets[:, 200] - sets[:, 150] + sets[:, 50]
    assert fewest_left(np.vstack([sets, added]), np.array([12] * 400 + [3]), 10) == 3


def silo_rows(n_both: int, seed: int) -> np.ndarray:
    """Forty rows lack the first column, forty the second, and some of them both."""
    X = np.random.default_rng(seed).standard_normal((200, 4))
    X[:40, 0] = np.nan
    X[40 - n_both : 80 - n_both, 1] = np.nan
    return X


@pytest.mark.parametrize(("n_both", "refused"), [(0, False), (9, True), (12, False)])
def test_rows_that_lack_both_columns_are_none_or_many(n_both, refused):
    here = up.simulate({c: silo_rows(n_both, i) for i, c in enumerate("abc")})
    choices = [["x2", "x3"], ["x0", "x2", "x3"], ["x1", "x2", "x3"]]
    for some in choices:
        up.PCA().fit(here.select(some).complete_rows())
    if refused:
        with pytest.raises(ReleaseRefusedError, match="min_changed_rows"):
            up.PCA().fit(here.complete_rows())
    else:
        up.PCA().fit(here.complete_rows())


@pytest.mark.parametrize("own", [[], ["x2"], ["x0", "x2"]])
def test_two_choices_are_left_to_the_rule_of_two(own):
    here = up.simulate({c: silo_rows(9, i) for i, c in enumerate("abc")})
    up.PCA().fit(here.select(["x2", "x3"]))
    up.PCA().fit(here.select([*own, "x1", "x3"]).complete_rows())

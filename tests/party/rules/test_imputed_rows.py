"""Which rows of a silo are filled from their other cells, and which keep means."""

import numpy as np
import pandas as pd
import pytest

from unpooled.data.sources.open_source import open_source
from unpooled.party.rules.imputed_rows import _divided
from unpooled.party.rules.policy import Policy

COLUMNS = tuple("abcde")
# What is tested by itself elsewhere is left out where nothing is said of it.
LOOSE = {"max_leverage": 1.0, "max_feature_ratio": 1.0}


def frame(n=80, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(rng.standard_normal((n, 5)), columns=list(COLUMNS))


def divided(X, label=None, **policy):
    table = open_source(X, label=label)
    return _divided(Policy.of({**LOOSE, **policy}), table, COLUMNS)


def held(X, label=None, **policy):
    return np.flatnonzero(divided(X, label, **policy).held).tolist()


def test_rows_of_shared_patterns_are_filled():
    X = frame()
    X.loc[:9, "a"] = np.nan  # ten rows
    X.loc[20:28, "b"] = np.nan  # nine
    X.loc[30, ["a", "b"]] = np.nan
    assert held(X) == [*range(20, 29), 30]
    assert held(X, min_rows=9) == [30]
    assert held(X, min_rows=2) == [30]


def test_what_rows_lack_is_told_apart_by_whether_they_are_held():
    X = frame()
    X.loc[:9, "a"] = np.nan
    X.loc[20:22, ["b", "c"]] = np.nan
    rows = divided(X)
    assert rows.held_lack == {"b", "c"}
    assert rows.lacking == {"a", "b", "c"}


def test_a_complete_table_has_nothing_to_fill():
    rows = divided(frame())
    assert not rows.held.any()
    assert not rows.lacking


def test_small_classes_of_a_pattern_are_held():
    X = frame().assign(y=[0, 1] * 40)
    X.loc[:11, "a"] = np.nan  # six of each class
    X.loc[[20, 22, 24, 26, 28, 30, 32, 34, 36, 38, 21], "b"] = np.nan  # ten and one
    assert held(X, "y") == [21]
    # Of a label that every row has for itself no step by class is answered.
    assert held(X.assign(y=np.arange(80.0)), "y") == []


def test_rows_without_a_label_are_a_class_too():
    y = np.array([0, 1] * 40, object)
    y[:4] = None
    X = frame().assign(y=y)
    X.loc[:19, "a"] = np.nan
    assert held(X, "y") == [0, 1, 2, 3]


def test_few_rows_are_not_left_by_filling_the_others():
    X = frame(40)
    X.loc[:19, "a"] = np.nan
    X.loc[20:34, "b"] = np.nan  # five rows have everything
    assert held(X) == list(range(20, 35))
    # Where nothing is left, nobody is alone.
    X.loc[35:, "b"] = np.nan
    assert held(X) == []


def test_many_columns_for_few_rows_are_held():
    X = frame()
    X.loc[:11, "a"] = np.nan  # twelve rows of four columns
    X.loc[20:34, ["b", "c", "d"]] = np.nan
    assert held(X, max_feature_ratio=0.33) == list(range(12))


def test_a_row_that_carries_a_direction_of_its_pattern_is_held():
    X = frame()
    X["e"] = 0.0
    X.loc[[3, *range(40, 60)], "e"] = 1.0
    X.loc[:29, "a"] = np.nan  # row 3 alone of them has a 1
    assert held(X, max_leverage=0.95) == [3]
    assert held(X) == []


def test_a_pattern_of_nothing_observed_has_only_a_number():
    X = frame()
    X.loc[:9, :] = np.nan
    assert held(X, max_leverage=0.95) == []


@pytest.mark.parametrize("order", ["abcde", "edcba", "badce"])
def test_the_order_of_columns_and_rows_does_not_matter(order):
    X = frame(seed=4)
    rng = np.random.default_rng(1)
    X.loc[rng.choice(80, 30, replace=False), "a"] = np.nan
    X.loc[rng.choice(80, 30, replace=False), "d"] = np.nan
    expected = held(X, max_leverage=0.95, max_feature_ratio=0.33)
    assert held(X[list(order)], max_leverage=0.95, max_feature_ratio=0.33) == expected
    table = open_source(X[::-1])
    policy = Policy.of({"max_leverage": 0.95, "max_feature_ratio": 0.33})
    turned = _divided(policy, table, COLUMNS).held[::-1]
    assert np.flatnonzero(turned).tolist() == expected

"""Attacks by what a silo calls a column between two studies: numbers or categories.

Sums of a column of numbers and counts of its categories, of all but one person whose
category is read as another one, give this person's number. And where a declared column
made all rows new ones, what changed in between would be the difference of two answers.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import unpooled as up
from unpooled.data.categories import merging_rare
from unpooled.data.sources.open_source import open_source
from unpooled.errors import ReleaseRefusedError
from unpooled.party.rules.row_digests import row_digests
from wire import Silos, silos

KEY = bytes(32)
OPEN = {
    "min_changed_rows": 0,
    "min_rows": 1,
    "max_leverage": 1.0,
    "max_feature_ratio": np.inf,
}


def table(seed: int, alone: bool = False) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    grade = rng.integers(1, 4, 90).astype(float)
    if alone:
        grade[17] = 9.0
    return pd.DataFrame({"grade": grade, "age": rng.integers(20, 90, 90).astype(float)})


def tables(alone: bool = False) -> dict[str, pd.DataFrame]:
    return {name: table(seed, alone and name == "b") for seed, name in enumerate("abc")}


def declared(here: Silos, made: dict[str, pd.DataFrame]) -> up.Federation:
    """Have all silos declare the grades as categories."""
    for name, frame in made.items():
        read = open_source(frame, categorical=["grade"])
        here.parties[name].table = merging_rare(read, 2)
    # As a federation that is opened anew finds it.
    layout = replace(here.federation.layout, categorical=frozenset({"grade"}))
    return up.Federation(here.federation.coordinator, layout=layout, named=True)


def total(federation: up.Federation) -> float:
    scaler = up.StandardScaler().fit(federation.select(["grade"]))
    assert scaler.mean_ is not None
    return float(scaler.n_samples_seen_ * scaler.mean_[0])


def shares(federation: up.Federation) -> Any:
    encoder = up.OneHotEncoder().fit(federation.select(["grade"]))
    view = encoder.transform(federation.select(["grade"]))
    return encoder.categories_[0], up.PCA().fit(view)


def test_the_only_one_of_a_category_is_not_its_number():
    made = tables(alone=True)
    here = silos(made)
    total(here.federation)
    with pytest.raises(ReleaseRefusedError) as refused:
        shares(declared(here, made))
    assert (refused.value.party, refused.value.rule) == ("b", "min_changed_rows")


def test_control_counts_and_a_sum_give_it():
    made = tables(alone=True)
    here = silos(made, policy=OPEN)
    whole = total(here.federation)
    names, model = shares(declared(here, made))
    counts = model.mean_ * model.n_samples_
    grades = [float(name) if name != "other" else np.nan for name in names]
    known = np.nansum(counts * np.array(grades))
    # The silo reads the person's grade as the most frequent one of its rows.
    assert round(whole - known) in {9 - grade for grade in (1, 2, 3)}


def test_grades_without_rare_ones_may_be_declared_as_categories():
    made = tables()
    here = silos(made)
    total(here.federation)
    shares(declared(here, made))


def test_who_changed_in_between_is_no_difference():
    made = tables()
    here = silos(made)
    up.PCA().fit(here.federation.select(["grade", "age"]))
    made["b"] = made["b"].copy()
    made["b"].loc[3, "age"] += 1.0
    with pytest.raises(ReleaseRefusedError) as refused:
        up.StandardScaler().fit(declared(here, made).select(["age"]))
    assert (refused.value.party, refused.value.rule) == ("b", "min_changed_rows")


@pytest.mark.parametrize("kind", [float, int, str, bool])
def test_a_column_has_the_same_digests_as_numbers_and_as_categories(kind):
    numbers = np.arange(40) % (2 if kind is bool else 4)
    frame = pd.DataFrame({"x": numbers.astype(kind), "y": np.arange(40.0)})
    plain = open_source(pd.DataFrame({"x": numbers.astype(float), "y": frame["y"]}))
    coded = open_source(frame, categorical=["x"])
    first, second = (row_digests(one, ["x", "y"], "", KEY) for one in (plain, coded))
    assert np.array_equal(first, second)


def test_a_rare_category_is_no_number():
    frame = pd.DataFrame({"x": [-1.0] + [2.0] * 9 + [3.0], "y": np.arange(11.0)})
    plain = row_digests(open_source(frame), ["x", "y"], "", KEY)
    read = merging_rare(open_source(frame, categorical=["x"]), 2)
    differs = plain != row_digests(read, ["x", "y"], "", KEY)
    assert np.flatnonzero(differs).tolist() == [0, 10]

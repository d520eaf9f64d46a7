"""Attacks on the person who lacks a cell, by filling it behind another transform.

Two numbers for one missing cell subtract to the row that lacks it, in whatever units
the number is: a silo must know which column is filled behind every transform.
"""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import unpooled as up
from unpooled.arrays import Array, Float
from unpooled.errors import ReleaseRefusedError, UnpooledError
from unpooled.protocol.step import derived

PERSON, RECORD = 50, ["age", "pressure"]


def tables() -> dict[str, pd.DataFrame]:
    """Tables in which one person of b alone lacks a test."""
    rng = np.random.default_rng(0)
    made = {
        name: pd.DataFrame(
            {
                "age": rng.integers(20, 90, 150).astype(float),
                "pressure": rng.normal(120, 15, 150).round(),
                "test": rng.lognormal(0, 0.5, 150).round(2),
            }
        )
        for name in "abc"
    }
    made["b"].loc[PERSON, "test"] = np.nan
    return made


def by_two_numbers(here: up.Federation, front: Any) -> Array:
    """Return products with the filled column, one study's less the other's."""
    transformer = up.make_column_transformer((front, ["test"]), remainder="passthrough")
    view, found = transformer.fit(here).transform(here), []
    for number in (0.0, 1.0):
        imputer = up.SimpleImputer(strategy="constant", fill_value=number)
        filled = imputer.fit(view).transform(view)
        model = up.PCA().fit(filled)
        N, mean = model.n_samples_, model.mean_
        S = (N - 1) * model.get_covariance() + N * np.outer(mean, mean)
        places = [filled.feature_names.index(name) for name in (*RECORD, "test")]
        found.append(S[places[-1], places[:-1]])
    return found[1] - found[0]


@derived(takes={}, fitted_by=())
def mixed(X: Float[Array, "n p"]) -> Float[Array, "n p"]:
    """Return columns of which each is several, as far as a silo knows."""
    return X + 0.0


FRONTS = {
    "power": up.PowerTransformer(comparison="summed"),
    "power alone": up.PowerTransformer(comparison="summed", standardize=False),
    "scaler": up.StandardScaler(),
    "quantiles": up.QuantileTransformer(),
}


@pytest.mark.slow
@pytest.mark.parametrize("front", FRONTS.values(), ids=FRONTS.keys())
def test_two_numbers_behind_a_transform_are_two_fillings_too(front):
    here = up.simulate(tables(), follow=True)
    with pytest.raises(ReleaseRefusedError, match="another_filling"):
        by_two_numbers(here, front)


@pytest.mark.parametrize("front", FRONTS.values(), ids=FRONTS.keys())
def test_control_two_fillings_subtract_to_the_person_without_the_cell(front):
    here = up.simulate(tables(), policy={"min_rows": 1})
    found = by_two_numbers(here, front)
    assert_allclose(found, tables()["b"].loc[PERSON, RECORD], atol=1e-6)


def test_a_transform_that_mixes_columns_takes_no_missing_cells():
    """Behind it nobody could tell how a cell was filled before."""

    policy = {"allowed_steps": ["*"]}
    view = up.simulate(tables(), policy=policy).derive(mixed, ["x0", "x1", "x2"])
    with pytest.raises(UnpooledError, match="missing_values"):
        up.StandardScaler().fit(view)

"""Attacks on one person by functions of a column: bins, maps by quantiles, features.

Sums of other columns with functions of one column that differ, or do not vanish, on one
value alone are that person's record. Each function by itself is about many people.
"""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.pipeline import make_pipeline

import unpooled as up
from unpooled.arrays import Array
from unpooled.errors import ReleaseRefusedError

# A silo that lets its own values be seen answers for several settings.
OPEN = {"allow_disclosed": True}


def products(view: up.Federation) -> pd.DataFrame:
    """Return the sums of products of a view's columns, and of them with ones."""
    model = up.PCA().fit(view)
    N, mean = model.n_samples_, model.mean_
    S = (N - 1) * model.get_covariance() + N * np.outer(mean, mean)
    S = np.block([[S, N * mean[:, None]], [N * mean, np.array([[N]])]])
    names = [*view.feature_names, "one"]
    return pd.DataFrame(S, names, names)


def transformed(view: up.Federation, model: Any, column: str) -> up.Federation:
    """Return a view with one column transformed beside the others."""
    both = up.make_column_transformer((model, [column]), remainder="passthrough")
    return both.fit(view).transform(view)


# --- bins beside a map by quantiles ---------------------------------------------------


def measured() -> dict[str, pd.DataFrame]:
    rng = np.random.default_rng(0)
    return {
        name: pd.DataFrame(
            {
                "pressure": rng.normal(120, 15, 400).round(2),
                "age": rng.integers(20, 90, 400).astype(float),
                "flag": (rng.random(400) < 0.3).astype(float),
            }
        )
        for name in "abc"
    }


def quantile_map(here: up.Federation) -> tuple[Array, Array]:
    """Return sums of a map that bends at two quantiles, and with ages; and where."""
    by_quantiles = up.QuantileTransformer(n_quantiles=2, min_rows=60)
    view = here.select(["pressure", "age"])
    S = products(transformed(view, by_quantiles, "pressure"))
    places = by_quantiles.fit(here.select(["pressure"])).quantiles_.ravel()
    return S.loc["pressure", ["one", "age"]].to_numpy(), places


def binned_map(here: up.Federation, low: float, high: float, edge: float) -> Array:
    """Return what the sums would be if nobody were between the edge and a quantile.

    Bins of equal width, of which the middle one ends at the edge and begins below `low`
    as far as the edge lies from `high`, where there is nobody between either.
    """
    made = {"copy": "pressure - flag", "both": "pressure * age"}
    view = up.DerivedColumns(made).fit(here).transform(here)
    width = edge - low
    ranges = {"pressure": [low - width, edge + width]}
    bins = up.KBinsDiscretizer(3, strategy="uniform", ranges=ranges)
    S = products(transformed(view, bins, "pressure"))
    _, middle, top = (n for n in S.columns if n.startswith("pressure_"))
    own = S.loc[middle]
    moments = own["copy"] + own["flag"], own["both"]
    found = [
        (moment - low * own[name]) / (high - low) + S.loc[top, name]
        for moment, name in zip(moments, ("one", "age"), strict=True)
    ]
    return np.array(found)


def the_one_between(here: up.Federation) -> tuple[Array, Array]:
    """Return value and age of the only person between an edge and a quantile."""
    everybody = pd.concat(measured().values()).sort_values("pressure")
    sums, (low, high) = quantile_map(here)
    *_, before, person = everybody["pressure"][everybody["pressure"] < high]
    by_bins = binned_map(here, low, high, (before + person) / 2.0)
    # The person counts as one above in one map, and by the distance in the other.
    missing, with_age = (by_bins - sums) * (high - low)
    record = everybody[everybody["pressure"] == person].iloc[0]
    found = np.array([high - missing, with_age / missing])
    return found, record[["pressure", "age"]].to_numpy()


@pytest.mark.slow
@pytest.mark.parametrize("follow", [False, True])
def test_a_column_is_not_cut_into_bins_and_mapped_by_quantiles(follow):
    with pytest.raises(ReleaseRefusedError, match="one_setting"):
        the_one_between(up.simulate(measured(), follow=follow))


def test_control_bins_and_quantiles_combine_to_the_person_between():
    found, record = the_one_between(up.simulate(measured(), policy=OPEN))
    # Sums of 2e7 are exact to 1e-8 or so, and are divided by about 0.1.
    assert_allclose(found, record, rtol=1e-6)


@pytest.mark.slow
def test_counts_in_bins_are_answered_beside_a_map_by_quantiles():
    here = up.simulate(measured(), follow=True)
    up.Histogram().fit(here)
    quantile_map(here)
    up.Histogram().fit(here)
    up.describe(here)


# --- drawn features -------------------------------------------------------------------

PERSON = {"age": 51.0, "pressure": 163.0, "chol": 301.0}
OTHERS = ["pressure", "chol"]


def aged() -> dict[str, pd.DataFrame]:
    """Tables in which one person's age is odd."""
    rng = np.random.default_rng(0)
    made = {
        name: pd.DataFrame(
            {
                "age": 2.0 * rng.integers(20, 30, 300),
                "pressure": rng.normal(120, 15, 300).round(),
                "chol": rng.normal(240, 40, 300).round(),
            }
        )
        for name in "abc"
    }
    made["b"].loc[7, list(PERSON)] = list(PERSON.values())
    return made


def by_features(here: up.Federation, gamma: float = 3.0, seeds: int = 4) -> Array:
    """Return the sums of the others over the rows with the odd age."""
    ages = np.unique(pd.concat(aged().values())["age"])[:, None]
    equations, sums = [np.ones_like(ages)], list[Array]()
    for seed in range(seeds):
        drawn = up.KernelPCA(
            4, approximation="fourier", n_landmarks=4, gamma=gamma, random_state=seed
        )
        S = products(transformed(here, drawn, "age"))
        sums = sums or [S.loc[["one"], OTHERS].to_numpy()]
        names = [name for name in S.columns if name.startswith("kernelpca")]
        sums.append(S.loc[names, OTHERS].to_numpy())
        equations.append(drawn.fit(here.select(["age"])).transform(ages))
    solved = np.linalg.lstsq(np.hstack(equations).T, np.vstack(sums), rcond=None)[0]
    return solved[ages[:, 0] == PERSON["age"]][0]


@pytest.mark.slow
@pytest.mark.parametrize("follow", [False, True])
def test_features_of_other_seeds_are_not_answered_about(follow):
    with pytest.raises(ReleaseRefusedError, match="one_setting"):
        by_features(up.simulate(aged(), follow=follow))


def test_control_features_of_four_seeds_give_the_sums_over_one_value():
    found = by_features(up.simulate(aged(), policy=OPEN))
    assert_allclose(found, [PERSON[name] for name in OTHERS], rtol=1e-6)


@pytest.mark.slow
def test_features_enough_for_all_values_are_refused_at_once():
    here = up.simulate(aged(), follow=True)
    drawn = up.KernelPCA(
        12, approximation="fourier", n_landmarks=12, gamma=3.0, random_state=0
    )
    with pytest.raises(ReleaseRefusedError, match="max_leverage"):
        products(transformed(here, drawn, "age"))


@pytest.mark.slow
def test_features_of_one_seed_are_answered_again():
    here = up.simulate(aged(), follow=True)
    for seed in (0, 0):
        drawn = up.KernelPCA(
            4, approximation="fourier", n_landmarks=4, gamma=3.0, random_state=seed
        )
        products(transformed(here, drawn, "age"))
        make_pipeline(drawn, up.PCA(2)).fit(here.select(["age"]))

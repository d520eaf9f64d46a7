"""Attacks by studies that look ordinary, tried once and refused: each by its rule.

None of them has succeeded. Each is two or three approved calls whose results would
differ by one person, or a model whose numbers somebody made up.
"""

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

import unpooled as up
from tiers import slow
from unpooled.errors import ReleaseRefusedError
from unpooled.federation.federation import Federation

PERSON = 7


def tables() -> dict[str, pd.DataFrame]:
    """Tables in which two exposures, and one cell of b that is missing, are alike."""
    rng = np.random.default_rng(0)
    made = {}
    for name in "abc":
        exposure = rng.normal(0.0, 0.2, 150).round(2)
        made[name] = pd.DataFrame(
            {
                "age": rng.integers(20, 90, 150).astype(float),
                "pressure": rng.normal(120, 15, 150).round(),
                "flag": (rng.random(150) < 0.3).astype(float),
                "marker": rng.normal(5, 1, 150).round(2),
                "exposure": exposure,
                "later": exposure,
                "visits": rng.poisson(np.exp(0.5 + exposure)).astype(float),
                "ill": rng.integers(0, 2, 150),
            }
        )
        made[name].loc[:39, "marker"] = np.nan
    made["b"].loc[PERSON, "later"] += 0.5
    made["b"].loc[50, "pressure"] = np.nan
    return made


def offsets_that_differ_in_one_person(here: Federation) -> None:
    for offset in ("exposure", "later"):
        view = here.select(["age", "flag", offset, "visits"])
        up.GLM("poisson", offset=offset).fit(view, "visits")


def bins_of_a_column_and_of_it_less_a_flag(here: Federation) -> None:
    view = up.DerivedColumns({"less": "age - flag"}).fit(here).transform(here)
    for column, ends in (("age", [0, 130]), ("less", [0, 129])):
        bins = up.KBinsDiscretizer(2, strategy="uniform", ranges={column: ends})
        up.PCA().fit(bins.fit(view.select([column])).transform(view.select([column])))


def bins_of_a_component(here: Federation) -> None:
    """Components of two sets of columns are nearly the same column."""
    for columns in (["age", "flag"], ["age", "exposure"]):
        scores = up.PCA(1).fit(here.select(columns)).transform(here.select(columns))
        ranges = {"pca0": [-30.0 - len(columns[1]), 30.0]}
        up.Histogram(2, ranges=ranges).fit(scores)


def made_up_coefficients(here: Federation) -> None:
    view = here.select(["age", "flag"])
    model = copy.deepcopy(up.LinearDiscriminantAnalysis().fit(view, "ill"))
    model.coef_ = np.array([[1e3, 0.0]])
    up.metrics.confusion_matrix("ill", model.predict(view))


def an_update_from_made_up_numbers(here: Federation) -> None:
    view = here.select(["age", "flag"])
    model = copy.deepcopy(up.PCA(2).fit(view))
    model.mean_ = np.array([1.0, 2.0])
    model.update(view)


def two_ways_to_impute(here: Federation) -> None:
    view = here.select(["age", "pressure", "marker"])
    for imputer in (up.IterativeImputer(max_iter=3), up.SimpleImputer()):
        up.PCA().fit(imputer.fit(view).transform(view))


def pairs_with_a_cell_that_one_lacks(here: Federation) -> None:
    view = here.select(["age", "pressure", "marker"])
    up.StandardScaler().fit(view)
    up.Correlation(missing="pairwise").fit(view)


def private_quantiles_until_the_noise_averages_out(here: Federation) -> None:
    privacy = up.GaussianPrivacy(
        epsilon=2.0, delta=1e-5, row_norm=1.0, centre=55.0, scale=40.0
    )
    for _ in range(100):
        up.quantiles(here.select(["age"]), [0.5], privacy=privacy)


def folds_of_three_numbers(here: Federation) -> None:
    for cv in (5, 4, 3, 2):
        model = up.LinearDiscriminantAnalysis()
        up.cross_validate(model, here.select(["age", "flag"]), "ill", cv=cv)


def silos_own_tables(here: Federation) -> None:
    up.describe(here.select(["age"]), per_silo=True)


def silos_own_regressions(here: Federation) -> None:
    up.MetaAnalysis().fit(here.select(["age", "flag"]), "age")


RULES: dict[Callable[[Federation], Any], str] = {
    offsets_that_differ_in_one_person: "max_leverage",
    bins_of_a_column_and_of_it_less_a_flag: "one_setting",
    bins_of_a_component: "one_setting",
    made_up_coefficients: "model_not_followed",
    an_update_from_made_up_numbers: "model_not_followed",
    two_ways_to_impute: "another_filling",
    pairs_with_a_cell_that_one_lacks: "min_own_cells",
    private_quantiles_until_the_noise_averages_out: "privacy_budget",
    folds_of_three_numbers: "max_released_share",
    silos_own_tables: "allow_disclosed",
    silos_own_regressions: "allow_disclosed",
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "attack",
    slow(
        [(one.__name__, one) for one in RULES],
        "private_quantiles_until_the_noise_averages_out",
    ),
)
def test_it_ends_with_a_refusal(attack):
    here = up.simulate(tables(), label="ill", follow=True, random_state=0)
    with pytest.raises(ReleaseRefusedError) as refused:
        attack(here)
    assert refused.value.rule == RULES[attack]

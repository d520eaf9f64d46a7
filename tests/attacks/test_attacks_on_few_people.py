"""Attacks on sums with few people behind them: cells of a column, rows of a class.

The adversary is the coordinator, or whoever reads what it published. A sum over one
person's cell is that cell; a refusal that depends on one silo's classes tells them.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import unpooled as up
from cheating import asking
from unpooled.arrays import Array
from unpooled.errors import DataError, ReleaseRefusedError
from unpooled.models.discriminant.classes import names_of
from wire import COLUMNS, Rogue, Silos, rows, silos

SECRET = 7.25
MODELS: dict[str, Callable[[], Any]] = {
    "imputer": up.SimpleImputer,
    "scaler": up.StandardScaler,
    "power": lambda: up.PowerTransformer(comparison="summed"),
}


def observed_in(*, a: int, b: int, c: int) -> dict[str, Array]:
    """Return rows of three silos with so many values in the second column."""
    tables = {}
    for seed, (name, n) in enumerate({"a": a, "b": b, "c": c}.items()):
        X = rows(seed=seed)
        X[n:, 1] = np.nan
        X[:n, 1] = SECRET + np.arange(n)
        tables[name] = X
    return tables


def refused(here: Silos, model: Any) -> str:
    """Return the rule under which a fit ends, with counts opened at the most."""
    with pytest.raises(ReleaseRefusedError) as stopped:
        model.fit(here.federation)
    sent = [line for line in here.ledger if line.direction == "out"]
    assert {line.name for line in sent} <= {"count"}
    return str(stopped.value.rule)


# --- the value of the only person who has one -----------------------------------------


@pytest.mark.parametrize("model", MODELS)
def test_the_only_value_of_a_column_is_not_its_mean(model):
    here = silos(observed_in(a=0, b=1, c=0))
    assert refused(here, MODELS[model]()) == "min_own_cells"


@pytest.mark.parametrize("model", MODELS)
def test_a_silos_only_value_is_not_left_when_the_others_are_subtracted(model):
    """All but one of the silos know their own sums, and may put them together."""
    here = silos(observed_in(a=30, b=1, c=30))
    assert refused(here, MODELS[model]()) == "min_own_cells"


@pytest.mark.parametrize("model", MODELS)
def test_few_values_in_all_silos_together_have_no_mean(model):
    here = silos(observed_in(a=3, b=2, c=4))
    assert refused(here, MODELS[model]()) == "min_rows"


def test_control_a_silo_that_allows_it_sends_the_value():
    rules = {"min_own_cells": 1, "min_rows": 1}
    federation = silos(observed_in(a=0, b=1, c=0), policy=rules).federation
    assert up.SimpleImputer().fit(federation).statistics_[1] == SECRET


def test_few_values_in_a_silo_are_no_hindrance_where_others_have_many():
    tables = observed_in(a=2, b=30, c=0)
    imputer = up.SimpleImputer().fit(silos(tables).federation)
    assert_allclose(
        imputer.statistics_, np.nanmean(np.concatenate(list(tables.values())), axis=0)
    )


# --- sums before their counts, or after other counts ----------------------------------


def sums(model: str, count: Array) -> tuple[str, dict[str, Array]]:
    steps = {"imputer": "local_observed", "power": "local_log_sizes"}
    return f"{model}.{steps[model]}", {"count": count}


@pytest.mark.parametrize("model", ["imputer", "power"])
def test_no_sum_is_had_without_its_counts(model):
    rogue = Rogue(silos(observed_in(a=30, b=2, c=30))).enter()
    rules = rogue.rules(*sums(model, np.full(3, 90.0)))
    assert set(rules.values()) <= {"out_of_order", "nothing_kept"}


@pytest.mark.parametrize("model", ["imputer", "power"])
def test_nobody_was_counted_is_no_way_round(model):
    """Of a column without values there is nothing to protect; here there are two."""
    rogue = Rogue(silos(observed_in(a=0, b=2, c=0))).enter()
    first = {"imputer": "imputer.local_counts", "power": "power.local_count"}[model]
    counts = rogue.totals(first)["count"]
    assert counts.tolist() == [90, 2, 90]
    few = rogue.rules(*sums(model, counts))
    assert set(few.values()) == {"min_rows"}
    none = rogue.rules(*sums(model, np.array([90.0, 0.0, 90.0])))
    assert none["b"] == "public_bound"


def test_counts_that_were_not_opened_are_refused_where_silos_follow():
    """Ten values are enough, if a silo is told that there are ten."""
    frames = {
        name: pd.DataFrame(X, columns=list(COLUMNS))
        for name, X in observed_in(a=3, b=2, c=4).items()
    }
    federation = up.simulate(frames, follow=True)
    count = np.array([90.0, 10.0, 90.0])
    view = asking(federation, "imputer.local_observed", count=count)
    with pytest.raises(ReleaseRefusedError, match="not_followed"):
        up.SimpleImputer().fit(view)


def test_a_slope_or_a_square_takes_the_counts_too():
    rogue = Rogue(silos(observed_in(a=3, b=2, c=4))).enter()
    counts = rogue.totals("power.local_count")
    about = {"centre": np.zeros(3), "spread": np.ones(3)}
    asked = {
        "scaler.local_squares": {"mean": np.zeros(3)},
        "power.local_log_squares": {"mean": np.zeros(3)},
        "power.local_slopes": {**about, "column": np.array([1]), "lam": np.ones(1)},
        "power.local_transformed": {**about, "lambdas": np.ones(3)},
    }
    for step, public in asked.items():
        rules = rogue.rules(step, {**public, **counts})
        assert set(rules.values()) == {"min_rows"}, step


# --- which silo has which class -------------------------------------------------------


def labelled(**classes: list[int]) -> dict[str, pd.DataFrame]:
    """Return silos of 30 rows, ten of each class named; the last class has the rest."""
    tables = {}
    for seed, (name, own) in enumerate(classes.items()):
        frame = pd.DataFrame(rows(seed=seed), columns=list(COLUMNS))
        tables[name] = frame.assign(kind=np.resize(own, len(frame)))
    return tables


# Only b has the class 2.
THREE = labelled(a=[0, 1], b=[0, 1, 2], c=[0, 1])
ABOUT = {"means": np.zeros((2, 3)), "weights": np.ones(2)}
BY_CLASS = {
    "discriminant.local_class_totals": {},
    "discriminant.local_whitened": {"ridge": 1.0},
    "discriminant.local_within_squares": ABOUT,
    "discriminant.local_fourths": {
        "means": np.zeros((2, 3)),
        "scales": np.ones((2, 3)),
        "mean": np.zeros(3),
        "scale": np.ones(3),
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("missing", [0, 1, 2])
def test_a_list_of_classes_minus_one_tells_nobodys_classes(missing):
    rogue = Rogue(silos(THREE, label="kind")).enter()
    classes = names_of({0, 1, 2} - {missing})

    totals = rogue.totals("discriminant.local_class_counts", {"classes": classes})

    told = {"classes": classes, "count": totals["count"]}
    for step, public in BY_CLASS.items():
        assert set(rogue.rules(step, told | public).values()) == {""}, step


def test_rows_of_other_classes_are_left_out():
    rogue = Rogue(silos(THREE, label="kind")).enter()
    told = {"classes": names_of([0, 1])}
    whole = pd.concat(THREE.values())
    whole = whole[whole["kind"] < 2].groupby("kind")[list(COLUMNS)]

    counts = rogue.totals("discriminant.local_class_counts", told)
    told["count"] = counts["count"]
    means = rogue.totals("discriminant.local_class_totals", told)["total"]
    means = means / told["count"][:, None]
    about = {"means": means, "weights": np.ones(2)}
    squares = rogue.totals("discriminant.local_within_squares", told | about)

    assert (counts["count"].tolist(), counts["others"]) == ([40, 40], 10)
    assert_allclose(means, whole.mean(), rtol=1e-12)
    assert_allclose(squares["squares"], whole.var(ddof=0).sum() * 40, rtol=1e-12)


@pytest.mark.parametrize("solver", ["exact", "dgep-eigh"])
def test_an_honest_user_hears_of_a_class_that_is_not_named(solver):
    federation = silos(THREE, label="kind").federation
    model = up.LinearDiscriminantAnalysis(classes=[0, 1], solver=solver)
    with pytest.raises(DataError, match="10 rows of all silos are of other classes"):
        model.fit(federation, "kind")
    assert {line.round for line in federation.ledger} == {1}


# --- the mean of a class of one, or few -----------------------------------------------


@pytest.mark.thinned(1)
@pytest.mark.parametrize("names", [None, [0, 1, 2]])
@pytest.mark.parametrize("solver", ["exact", "dgep-eigh"])
@pytest.mark.parametrize(
    ("few", "rule"), [(1, "min_own_cells"), (4, "min_rows_per_class")]
)
def test_the_mean_of_a_class_is_not_a_few_peoples(names, solver, few, rule):
    tables = labelled(a=[0, 1], b=[0, 1], c=[0, 1])
    tables["b"].loc[: few - 1, "kind"] = 2
    here = silos(tables, label="kind")
    model = up.LinearDiscriminantAnalysis(classes=names, solver=solver)
    with pytest.raises(ReleaseRefusedError) as stopped:
        model.fit(here.federation, "kind")
    assert stopped.value.rule == rule
    sent = {line.step for line in here.ledger if line.direction == "out"}
    counting = {"discriminant.local_names", "discriminant.local_class_counts"}
    assert sent <= counting


def test_a_class_that_a_silo_has_is_not_told_to_have_nobody():
    tables = labelled(a=[0, 1], b=[0, 1], c=[0, 1])
    tables["b"].loc[:3, "kind"] = 2
    rogue = Rogue(silos(tables, label="kind")).enter()
    told = {"classes": names_of([0, 1, 2]), "count": np.array([43.0, 43.0, 0.0])}
    rules = rogue.rules("discriminant.local_class_totals", told)
    assert rules == {"a": "", "b": "public_bound", "c": ""}


# --- rows between two bends of a map --------------------------------------------------


def _mapped_totals(policy: dict[str, Any]) -> tuple[Array, Array, Array]:
    """Return the rows, products with a column under several maps, and its values."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 2))
    parts = {f"s{i}": part for i, part in enumerate(np.split(X, 3))}
    federation = up.simulate(parts, policy=policy, follow=True)
    totals, mapped = [], []
    for least in (10, 11, 12, 13):
        to_ranks = up.QuantileTransformer(n_quantiles=2, min_rows=least)
        model = up.make_column_transformer((to_ranks, ["x0"]), remainder="passthrough")
        pca = up.PCA().fit(model.fit(federation).transform(federation))
        scatter = (pca.components_.T * pca.explained_variance_) @ pca.components_
        totals.append(scatter[0, 1] * (len(X) - 1) + len(X) * pca.mean_.prod())
        mapped.append(model.transform(X)[:, 1])
    return X, np.array(totals), np.array(mapped)


@pytest.mark.slow
def test_a_column_is_not_mapped_by_two_sets_of_quantiles():
    with pytest.raises(ReleaseRefusedError, match="one_setting"):
        _mapped_totals({})


def test_control_maps_that_bend_nearby_combine_to_few_rows():
    X, totals, mapped = _mapped_totals({"allow_disclosed": True})
    # A combination that vanishes at the median and at both ends, so nearly everywhere.
    order = np.argsort(X[:, 0])
    usual = order[[0, 100, 800, -1]]
    *_, (weights,) = np.split(np.linalg.svd(mapped[:, usual])[0].T, [3])
    values = weights @ mapped
    few = np.abs(values) > 1e-9
    assert few.sum() < 20
    # Totals of 900 rows are exact to 1e-11 or so; the few rows' part is about 1e-3.
    assert_allclose(weights @ totals, values[few] @ X[few, 1], atol=1e-9)

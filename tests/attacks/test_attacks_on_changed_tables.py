"""Attacks on one person among the rows that a silo has appended since a study.

The study is run again as it was, every month. Nobody else's table has changed, so the
two results subtract to sums over the new rows; among these one person has the only
diagnosis, the only label of a class, or the only value of a column.
"""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import unpooled as up
from unpooled.data.sources.open_source import open_source
from unpooled.errors import ReleaseRefusedError
from unpooled.metrics import mean_squared_error
from wire import Silos, silos

COLUMNS = ("ill", "age", "pressure", "marker")
OPEN = {
    "max_leverage": 1.0,
    "min_rows_per_class": 1,
    "min_rows": 1,
    "max_feature_ratio": np.inf,
    "min_own_cells": 1,
}


def rows_of(n: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "ill": (rng.random(n) < 0.2).astype(float),
            "age": rng.integers(20, 90, n).astype(float),
            "pressure": rng.normal(120, 15, n).round(),
            "marker": rng.normal(3, 1, n).round(2),
            "group": rng.integers(0, 2, n),
        }
    )


def appended(one: bool = True) -> pd.DataFrame:
    """Twenty rows; with `one`, one of them alone is ill, measured, and of group 1."""
    new = rows_of(20, 9)
    if one:
        new["ill"], new["group"] = 0.0, 0
        new.loc[4, ["ill", "group"]] = 1
        new.loc[new.index != 4, "marker"] = np.nan
    return new


PERSON = appended().loc[4]


def tables() -> dict[str, pd.DataFrame]:
    return {name: rows_of(100, seed) for seed, name in enumerate("abc")}


def before_and_after(
    here: Silos, first: Any, new: pd.DataFrame
) -> tuple[np.ndarray, np.ndarray]:
    before = first(here.federation)
    later = pd.concat([tables()["b"], new], ignore_index=True)
    here.parties["b"].table = open_source(later, label="group")
    return before, first(here.federation)


def products(federation: up.Federation) -> np.ndarray:
    """Return the sums of products of the diagnosis with the others."""
    model = up.PCA().fit(federation.select(["ill", "age", "pressure"]))
    N, mean = model.n_samples_, model.mean_
    S = (N - 1) * model.get_covariance() + N * np.outer(mean, mean)
    return S[0, 1:]


def class_sums(federation: up.Federation) -> np.ndarray:
    view = federation.select(["age", "pressure"])
    model = up.LinearDiscriminantAnalysis().fit(view)
    totals = up.StandardScaler().fit(view)
    return totals.n_samples_seen_ * model.priors_[1] * model.means_[1]


def observed_sum(federation: up.Federation) -> np.ndarray:
    view = federation.select(["marker"])
    scaler = up.StandardScaler().fit(view)
    assert scaler.mean_ is not None
    return np.asarray(scaler.n_samples_seen_ * scaler.mean_)


ATTACKS = {
    "the only diagnosis": (products, ["age", "pressure"]),
    "the only one of a class": (class_sums, ["age", "pressure"]),
    "the only value": (observed_sum, ["marker"]),
}


@pytest.mark.slow
@pytest.mark.parametrize("attack", [one[0] for one in ATTACKS.values()])
def test_a_study_repeated_after_rows_came_does_not_show_one(attack):
    here = silos(tables(), label="group")
    with pytest.raises(ReleaseRefusedError) as refused:
        before_and_after(here, attack, appended())
    assert (refused.value.party, refused.value.rule) == ("b", "changed_rows")


@pytest.mark.parametrize(("attack", "record"), ATTACKS.values(), ids=ATTACKS.keys())
def test_control_without_the_rules_it_does(attack, record):
    here = silos(tables(), label="group", policy=OPEN)
    before, after = before_and_after(here, attack, appended())
    assert_allclose(after - before, PERSON[record].tolist(), atol=1e-6)


@pytest.mark.thinned(1)
@pytest.mark.parametrize("attack", [one[0] for one in ATTACKS.values()])
def test_a_study_is_repeated_after_ordinary_rows_came(attack):
    before_and_after(silos(tables(), label="group"), attack, appended(one=False))


def relabelled(new: int) -> pd.DataFrame:
    """Return b's rows, of which one changed its class, and ten another cell."""
    b = tables()["b"]
    b.loc[RELABELLED, "group"] = 0
    others = b.index[b["group"] == 0].difference([RELABELLED])[:10]
    b.loc[others, "ill"] = 1.0 - b.loc[others, "ill"]
    came = rows_of(new, 9).assign(group=0)
    return pd.concat([b, came], ignore_index=True)


RELABELLED = int(tables()["b"]["group"].idxmax())
LEFT = {
    "a label beside other cells": relabelled(0),
    "a label beside new rows": relabelled(20),
    "rows": tables()["b"].drop(
        [RELABELLED, *tables()["b"].query("group == 0").index[:15]]
    ),
}


def of_group(here: Silos, table: pd.DataFrame) -> np.ndarray:
    before = class_sums(here.federation)
    here.parties["b"].table = open_source(table, label="group")
    return before - class_sums(here.federation)


@pytest.mark.slow
@pytest.mark.parametrize("table", LEFT.values(), ids=LEFT.keys())
def test_nobody_is_the_only_one_who_left_a_class(table):
    with pytest.raises(ReleaseRefusedError) as refused:
        of_group(silos(tables(), label="group"), table)
    assert (refused.value.party, refused.value.rule) == ("b", "changed_rows")


@pytest.mark.parametrize("table", LEFT.values(), ids=LEFT.keys())
def test_control_who_alone_left_a_class_is_its_difference(table):
    found = of_group(silos(tables(), label="group", policy=OPEN), table)
    person = tables()["b"].loc[RELABELLED, ["age", "pressure"]]
    assert_allclose(found, person.tolist(), atol=1e-6)


def test_sums_that_are_not_by_class_are_answered_when_one_left_it():
    here = silos(tables(), label="group")
    products(here.federation)
    here.parties["b"].table = open_source(relabelled(20), label="group")
    products(here.federation)


@pytest.mark.slow
def test_other_people_are_answered_about_whatever_classes_the_former_had():
    former = rows_of(100, 7)
    former["group"] = (former.index < 4).astype(int)
    here = silos({**tables(), "b": former}, label="group")
    products(here.federation)
    here.parties["b"].table = open_source(tables()["b"], label="group")
    class_sums(here.federation)


def test_the_rows_that_came_are_enough_for_the_columns():
    here = silos(tables(), label="group")
    with pytest.raises(ReleaseRefusedError, match="Wait until more rows have come"):
        before_and_after(
            here,
            lambda federation: up.PCA().fit(federation.select(COLUMNS)),
            appended(one=False)[:11],
        )


def with_both() -> pd.DataFrame:
    """Forty rows, of which some are ill and some of group 1, and one is both."""
    new = rows_of(40, 9).assign(ill=0.0, group=0)
    new.loc[:14, "ill"] = 1.0
    new.loc[14:28, "group"] = 1
    return new


def derived(federation: up.Federation, names: list[str]) -> up.Federation:
    made = {f"{name}_if_ill": f"ill * {name}" for name in names}
    view = up.DerivedColumns(made).fit(federation).transform(federation)
    return view.select(list(made))


def class_sums_of_products(federation: up.Federation) -> np.ndarray:
    model = up.LinearDiscriminantAnalysis().fit(
        derived(federation, ["age", "pressure"])
    )
    return model.class_count_[1] * model.means_[1]


def powers_of_a_product(federation: up.Federation) -> np.ndarray:
    """Return sum and sum of squares of the ill people's age."""
    scaler = up.StandardScaler().fit(derived(federation, ["age"]))
    assert scaler.mean_ is not None
    assert scaler.var_ is not None
    mean, var = scaler.mean_[0], scaler.var_[0]
    return scaler.n_samples_seen_ * np.array([mean, var + mean**2])


def with_two_ill() -> pd.DataFrame:
    new = rows_of(20, 9).assign(ill=0.0)
    new.loc[:1, "ill"] = 1.0
    return new


AGES = with_two_ill().loc[:1, "age"]
DERIVED = {
    "the one with both": (
        class_sums_of_products,
        with_both(),
        with_both().loc[14, ["age", "pressure"]].tolist(),
    ),
    "two in two equations": (
        powers_of_a_product,
        with_two_ill(),
        [AGES.sum(), (AGES**2).sum()],
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("attack", "new", "found"), DERIVED.values(), ids=DERIVED.keys()
)
def test_derived_columns_of_the_rows_that_came_are_judged(attack, new, found):
    with pytest.raises(ReleaseRefusedError, match="changed_rows"):
        before_and_after(silos(tables(), label="group"), attack, new)
    here = silos(tables(), label="group", policy=OPEN)
    before, after = before_and_after(here, attack, new)
    assert_allclose(after - before, found, rtol=1e-9)
    before_and_after(silos(tables(), label="group"), attack, rows_of(80, 9))


@pytest.mark.slow
@pytest.mark.parametrize("alone", [True, False])
def test_weights_of_the_rows_that_came_are_judged(alone):
    """An offset that many have leaves one of the new people alone among these."""
    hours = np.resize([-8.0, 8.0], 100)

    def offset_by(table: pd.DataFrame, hours: np.ndarray) -> pd.DataFrame:
        columns = table[["age", "pressure"]]
        return columns.assign(hours=hours, visits=np.arange(len(table)) % 5.0)

    data = {name: offset_by(table, hours) for name, table in tables().items()}
    new = offset_by(appended(one=False), np.resize([-8.0, 8.0], 20))
    if alone:
        new["hours"] = np.where(new.index == 4, 8.0, np.linspace(-9.0, 0.0, 20))
    here, model = silos(data), up.GLM("poisson", offset="hours")
    model.fit(here.federation, "visits")
    here.parties["b"].table = open_source(pd.concat([data["b"], new]))
    if not alone:
        model.fit(here.federation, "visits")
        return
    with pytest.raises(ReleaseRefusedError, match="weighted_rows"):
        model.fit(here.federation, "visits")


def by_priors(federation: up.Federation) -> np.ndarray:
    """Return the scatter of group 1, from two sets of priors."""
    view, found = federation.select(["age", "pressure", "marker"]), []
    for priors in (None, [0.5, 0.5]):
        model = up.LinearDiscriminantAnalysis(priors=priors).fit(view)
        found.append(model.covariance_)
    return np.array(found)


@pytest.mark.slow
def test_a_class_of_the_rows_that_came_has_enough_rows_for_the_columns():
    new = appended(one=False)
    new["group"] = (new.index < 5).astype(int)
    with pytest.raises(ReleaseRefusedError, match="max_feature_ratio"):
        before_and_after(silos(tables(), label="group"), by_priors, new)
    new["group"] = (new.index < 10).astype(int)
    before_and_after(silos(tables(), label="group"), by_priors, new)


@pytest.mark.slow
def test_columns_that_differ_in_one_row_that_came_are_not_subtracted():
    """Before, ten people of each silo have another diagnosis later; of the new, one."""

    def later(table: pd.DataFrame, n: int) -> pd.DataFrame:
        change = table.index < n
        return table.assign(later=np.where(change, 1.0 - table["ill"], table["ill"]))

    data = {name: later(table, 10) for name, table in tables().items()}
    new = later(rows_of(20, 9), 1)
    record = new.loc[0, ["age", "pressure"]].to_numpy(float)

    def difference(federation: up.Federation) -> np.ndarray:
        views = [[c, "age", "pressure"] for c in ("ill", "later")]
        found = []
        for columns in views:
            model = up.PCA().fit(federation.select(columns))
            N, mean = model.n_samples_, model.mean_
            S = (N - 1) * model.get_covariance() + N * np.outer(mean, mean)
            found.append(S[0, 1:])
        return found[1] - found[0]

    def attacked(policy: dict[str, float]) -> np.ndarray:
        here = silos(data, policy=policy)
        before = difference(here.federation)
        joined = pd.concat([data["b"], new], ignore_index=True)
        here.parties["b"].table = open_source(joined)
        return difference(here.federation) - before

    with pytest.raises(ReleaseRefusedError, match="max_leverage"):
        attacked({})
    sign = 1.0 - 2.0 * new["ill"][0]
    assert_allclose(attacked({"max_leverage": 1.0}), sign * record, rtol=1e-9)


@pytest.mark.slow
def test_two_rows_that_came_are_refused_once_whatever_is_asked():
    """The verdict is about the table: three analyses of it try nothing."""
    here = silos(tables(), label="group", policy={})
    products(here.federation)
    b = tables()["b"]
    for new, refuses in ((appended(one=False)[:2], True), (rows_of(60, 9), False)):
        here.parties["b"].table = open_source(
            pd.concat([b, new], ignore_index=True), label="group"
        )
        for ask in (products, class_sums, observed_sum, up.describe):
            if refuses:
                with pytest.raises(ReleaseRefusedError, match="min_changed_rows"):
                    ask(here.federation)
            else:
                ask(here.federation)


ORDERS = [["complete", "all"], ["all", "complete"]]


def of_incomplete_rows(here: up.Federation, order: list[str]) -> np.ndarray:
    """Return what the complete rows lack of all rows' products with the diagnosis."""
    view = here.select(["ill", "age", "pressure", "marker"])
    found = {}
    for one in order:
        rows = view.complete_rows() if one == "complete" else view
        found[one] = products(rows)
    return found["all"] - found["complete"]


@pytest.mark.slow
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("follow", [False, True])
def test_the_only_diagnosis_among_incomplete_rows_is_not_a_difference(order, follow):
    data = {name: rows_of(100, seed) for seed, name in enumerate("abc")}
    data["b"].loc[:14, "marker"] = np.nan
    data["b"].loc[:14, "ill"] = (np.arange(15) == 5).astype(float)
    record = data["b"].loc[5, ["age", "pressure"]].to_numpy(float)
    with pytest.raises(ReleaseRefusedError, match="max_leverage"):
        of_incomplete_rows(up.simulate(data, follow=follow), order)
    here = up.simulate(data, policy={"max_leverage": 1.0})
    assert_allclose(of_incomplete_rows(here, order), record, rtol=1e-9)
    data["b"].loc[:14, "ill"] = (np.arange(15) % 2).astype(float)
    of_incomplete_rows(up.simulate(data, follow=follow), order)


@pytest.mark.slow
def test_scores_do_not_show_the_only_diagnosis_among_new_rows():
    """Of models that were fitted before: residuals are products of what predicts."""
    names = ["age", "ill", "pressure"]
    for policy in ({}, {"max_leverage": 1.0}):
        here = silos(tables(), label="group", policy=policy, follow=True)
        view = here.federation.select(names)
        fits = [up.Ridge(a).fit(view, "pressure") for a in (0.01, 10.0, 100.0, 1e3)]

        def found(
            federation: up.Federation, fits: list[Any] = fits
        ) -> tuple[np.ndarray, np.ndarray]:
            view = federation.select(names)
            scaler = up.StandardScaler().fit(view)
            n, mean = scaler.n_samples_seen_, np.asarray(scaler.mean_)
            squares = n * (np.asarray(scaler.var_) + mean**2)
            residuals = [
                n * mean_squared_error("pressure", fit.predict(view)) for fit in fits
            ]
            return np.array([n, *(n * mean), *squares]), np.array(residuals)

        if not policy:
            with pytest.raises(ReleaseRefusedError, match="changed_rows"):
                before_and_after(here, found, appended())
            continue
        before, after = before_and_after(here, found, appended())
        (n, age, ill, y, aa, _, yy), residuals = (
            later - first for first, later in zip(before, after, strict=True)
        )
        rows, right = [], []
        for fit, residual in zip(fits, residuals, strict=True):
            (b, c), a = np.ravel(fit.coef_), np.ravel(fit.intercept_)[0]
            known = yy + n * a * a + b * b * aa + c * c * ill
            known += 2 * a * (b * age + c * ill - y)
            rows.append([-2 * b, -2 * c, 2 * b * c])
            right.append(residual - known)
        record = np.linalg.lstsq(np.array(rows), np.array(right))[0][1:]
        assert_allclose(record, PERSON[["pressure", "age"]].to_numpy(float), rtol=1e-6)


# --- four versions, of which any two differ in many rows ------------------------------


def four_versions(here: Silos, differ: int) -> np.ndarray:
    """Return sums over those who left in the second pair of versions alone.

    A silo leaves twelve people out, and takes them in again beside twelve others, of
    whom some leave for good.
    """
    every, found = rows_of(130, 7), list[np.ndarray]()
    first, second = every.index < 100, every.index < 112
    away = every.index >= 12
    gone = (every.index >= 60) & (every.index < 60 + differ)
    for chosen in (first, first & away, second, second & away & ~gone):
        some = every[chosen].reset_index(drop=True)
        here.parties["b"].table = open_source(some, label="group")
        view = here.federation.select(["age", "pressure"])
        scaler = up.StandardScaler().fit(view)
        assert scaler.mean_ is not None
        found.append(np.asarray(scaler.n_samples_seen_ * scaler.mean_))
    return found[2] - found[3] - (found[0] - found[1])


def test_four_versions_do_not_combine_to_one_person():
    with pytest.raises(ReleaseRefusedError) as refused:
        four_versions(silos(tables(), label="group"), 1)
    assert (refused.value.party, refused.value.rule) == ("b", "min_changed_rows")


def test_control_without_the_rule_they_do():
    here = silos(tables(), label="group", policy=OPEN | {"min_changed_rows": 0})
    person = rows_of(130, 7).loc[60, ["age", "pressure"]].to_numpy(dtype=float)
    assert_allclose(four_versions(here, 1), person, atol=1e-6)


@pytest.mark.slow
def test_four_versions_that_combine_to_many_are_answered():
    four_versions(silos(tables(), label="group"), 12)

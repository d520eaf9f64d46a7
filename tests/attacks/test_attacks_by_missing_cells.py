"""Attacks on one person by which cells are missing, in two studies.

All people who lack one test lack another one too, but for one person. Sums over the
rows that lack a test, or that have it, come from an indicator of missing cells, from
pairwise correlations and from complete rows; two of them subtract to that person.
So do three of them in one study, four choices of complete rows, or two of a study
before and after rows came.
"""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import unpooled as up
from unpooled.arrays import Array
from unpooled.data.sources.open_source import open_source
from unpooled.errors import ReleaseRefusedError
from wire import Silos, silos

OTHERS, PERSON, OPEN = ["age", "pressure"], 50, {"max_leverage": 1.0}


def tables(n_more: int = 1) -> dict[str, pd.DataFrame]:
    """Tables of which twenty rows lack both tests, and some of b the later one."""
    rng = np.random.default_rng(0)
    made = {}
    for name in "abc":
        made[name] = pd.DataFrame(
            {
                "test": rng.normal(5, 1, 150).round(2),
                "later": rng.normal(5, 1, 150).round(2),
                "age": rng.integers(20, 90, 150).astype(float),
                "pressure": rng.normal(120, 15, 150).round(),
            }
        )
        made[name].loc[:19, ["test", "later"]] = np.nan
    made["b"].loc[PERSON : PERSON + n_more - 1, "later"] = np.nan
    return made


RECORD = tables()["b"].loc[PERSON, OTHERS].tolist()
WHOLE = pd.concat(tables().values())[OTHERS].sum().to_numpy()


def by_indicator(here: up.Federation, test: str) -> Array:
    """Return the sums of the others over the rows that lack a test."""
    view = here.select([test, *OTHERS])
    imputer = up.SimpleImputer(add_indicator=True)
    transformer = up.make_column_transformer(
        (imputer, [test]), remainder="passthrough"
    ).fit(view)
    model = up.PCA().fit(transformer.transform(view))
    N, mean = model.n_samples_, model.mean_
    S = (N - 1) * model.get_covariance() + N * np.outer(mean, mean)
    names = list(transformer.get_feature_names_out())
    lacks = names.index(f"missingindicator_{test}")
    return S[lacks, [names.index(name) for name in OTHERS]]


def over_pairs(view: up.Federation) -> tuple[up.Correlation, Array]:
    """Return pairwise correlations, and sums of columns over the rows with others."""
    opened, honest = dict[str, Array](), view.coordinator.run_step

    def run_step(call: Any) -> dict[str, Any]:
        found = honest(call)
        opened.update(found)
        return found

    view.coordinator.run_step = run_step
    try:
        model = up.Correlation(missing="pairwise").fit(view)
    finally:
        view.coordinator.run_step = honest
    return model, opened["sums"] + model.n_pairs_ * model.mean_[:, None]


def by_pairs(here: up.Federation, test: str) -> Array:
    """Return the same from the moments of pairs, as the coordinator opens them."""
    _, sums = over_pairs(here.select([test, *OTHERS]))
    return WHOLE - sums[1:, 0]


def by_complete_rows(here: up.Federation, test: str) -> Array:
    """Return the same from the means of complete rows."""
    model = up.Correlation().fit(here.select([test, *OTHERS]))
    return WHOLE - model.n_samples_ * model.mean_[1:]


WAYS = {
    "an indicator": by_indicator,
    "pairs": by_pairs,
    "complete rows": by_complete_rows,
}
PAIRS = [(a, b) for a in WAYS for b in WAYS if (a, b) != ("complete rows",) * 2]


def difference(here: up.Federation, first: str, second: str) -> Array:
    before = WAYS[first](here, "test")
    return WAYS[second](here, "later") - before


@pytest.mark.slow
@pytest.mark.parametrize("follow", [False, True])
@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_who_lacks_one_test_alone_is_not_a_difference(first, second, follow):
    with pytest.raises(ReleaseRefusedError) as refused:
        difference(up.simulate(tables(), follow=follow), first, second)
    assert (refused.value.party, refused.value.rule) == ("b", "max_leverage")


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_control_without_a_limit_it_is(first, second):
    here = up.simulate(tables(), policy=OPEN)
    assert_allclose(difference(here, first, second), RECORD, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_who_lack_one_test_alone_may_be_three(first, second):
    difference(up.simulate(tables(3), follow=True), first, second)


@pytest.mark.slow
def test_complete_rows_are_compared_by_their_own_rule():
    """However few rows lack a cell, complete rows alone are answered about."""
    data = {name: table.loc[PERSON - 1 :] for name, table in tables().items()}
    here = up.simulate(data, follow=True)
    by_complete_rows(here, "later")
    up.Correlation().fit(here.select(["later", "test", "age"]))
    with pytest.raises(ReleaseRefusedError, match="min_changed_rows"):
        by_complete_rows(here, "test")


# --- a cell that is missing as the third factor ---------------------------------------


def treated(alone: bool = True) -> dict[str, pd.DataFrame]:
    """Tables in which one person of b, or many, is treated and lacks the test."""
    made = tables(20)
    for table in made.values():
        rng = np.random.default_rng(1)
        table["treated"] = (rng.random(150) < 0.3).astype(float)
        if alone:
            table.loc[table["test"].isna(), "treated"] = 0.0
    made["b"].loc[PERSON - 45, "treated"] = 1.0
    return made


def ages_of_treated(here: up.Federation) -> float:
    """Return the ages of the treated, less of those who have the test."""
    derived = up.DerivedColumns({"age_if_treated": "treated * age"})
    view = derived.fit(here).transform(here).select(["age_if_treated", "test"])
    _, sums = over_pairs(view)
    return float(sums[0, 0] - sums[0, 1])


@pytest.mark.slow
def test_the_only_one_of_the_treated_without_the_test_is_no_difference():
    with pytest.raises(ReleaseRefusedError) as refused:
        ages_of_treated(up.simulate(treated(), follow=True))
    assert (refused.value.party, refused.value.rule) == ("b", "derived_rows")
    ages_of_treated(up.simulate(treated(alone=False), follow=True))


def test_control_without_a_limit_it_is_the_persons_age():
    found = ages_of_treated(up.simulate(treated(), policy=OPEN))
    assert_allclose(found, treated()["b"].loc[PERSON - 45, "age"], atol=1e-6)


# --- three sums of one study, of which some combination is about one person -----------


def visited(n_alone: int = 1) -> dict[str, pd.DataFrame]:
    """Tables in which who missed a visit lacks both; some of b missed both visits."""
    made = tables(20)
    for table in made.values():
        rng = np.random.default_rng(2)
        table["both"] = rng.normal(5, 1, 150).round(2)
        table["test"] = rng.normal(5, 1, 150).round(2)
        table["later"] = rng.normal(5, 1, 150).round(2)
        table.loc[:19, ["test", "both"]] = np.nan
        table.loc[20:39, ["later", "both"]] = np.nan
    of_b = slice(PERSON, PERSON + n_alone - 1)
    made["b"].loc[of_b, ["test", "later", "both"]] = np.nan
    return made


def by_three_sums(here: up.Federation) -> Array:
    """Return sums over who lacks one test, and the other, less who lacks both."""
    _, sums = over_pairs(here.select([*OTHERS, "test", "later", "both"]))
    whole = sums.diagonal()[:2]
    return sum(whole - sums[:2, j] for j in (2, 3)) - (whole - sums[:2, 4])


@pytest.mark.thinned(1)
@pytest.mark.parametrize("follow", [False, True])
def test_who_lacks_all_tests_alone_is_not_three_sums(follow):
    with pytest.raises(ReleaseRefusedError) as refused:
        by_three_sums(up.simulate(visited(), follow=follow))
    assert (refused.value.party, refused.value.rule) == ("b", "min_own_cells")


def test_control_without_a_limit_it_is_three_sums():
    here = up.simulate(visited(), policy=OPEN)
    assert_allclose(by_three_sums(here), RECORD, atol=1e-6)


@pytest.mark.slow
def test_two_who_lack_all_tests_are_answered_about():
    by_three_sums(up.simulate(visited(2), follow=True))


# --- four choices of complete rows, of which one combination is about one person ------


def by_four_choices(here: up.Federation, tests: list[list[str]]) -> Array:
    """Return sums over who lacks both tests, from those over four sets of rows."""
    sums = {}
    for some in tests:
        view = here.select([*some, *OTHERS])
        model = up.Correlation().fit(view)
        sums[tuple(some)] = model.n_samples_ * model.mean_[len(some) :]
    one, other = sums["test",], sums["later",]
    return sums[()] - one - other + sums["test", "later"]


CHOICES: list[list[str]] = [[], ["test"], ["later"], ["test", "later"]]
ORDERS = [CHOICES, CHOICES[::-1], [CHOICES[i] for i in (1, 3, 0, 2)]]


@pytest.mark.parametrize("follow", [False, True])
@pytest.mark.parametrize("tests", ORDERS)
def test_who_lacks_both_tests_alone_is_not_four_choices_of_rows(tests, follow):
    with pytest.raises(ReleaseRefusedError) as refused:
        by_four_choices(up.simulate(visited(), follow=follow), tests)
    # The third set already is too many, or the fourth, for either reason.
    rules = ("max_leverage", "min_changed_rows")
    assert refused.value.party == "b"
    assert refused.value.rule in rules


# Of one row there are too few for any columns, and for any difference.
OF_ROWS = OPEN | {"max_feature_ratio": np.inf, "min_changed_rows": 0}


@pytest.mark.parametrize("tests", ORDERS)
def test_control_without_a_limit_it_is_four_choices_of_rows(tests):
    here = up.simulate(visited(), policy=OF_ROWS)
    assert_allclose(by_four_choices(here, tests), RECORD, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("tests", ORDERS)
def test_ten_who_lack_both_tests_are_answered_about(tests):
    by_four_choices(up.simulate(visited(10), follow=True), tests)


@pytest.mark.parametrize("tests", ORDERS)
def test_two_who_lack_both_tests_are_few(tests):
    with pytest.raises(ReleaseRefusedError) as refused:
        by_four_choices(up.simulate(visited(2)), tests)
    assert (refused.value.party, refused.value.rule) == ("b", "min_changed_rows")


def flagged(n_flagged: int) -> dict[str, pd.DataFrame]:
    """Eleven of b lack both tests, and some of them smoke, as many others do."""
    made = visited(11)
    for name, table in made.items():
        smokes = (np.random.default_rng(ord(name)).random(150) < 0.3).astype(float)
        table["smokes"] = smokes
    of_b = made["b"].loc[PERSON : PERSON + 10]
    made["b"].loc[of_b.index, "smokes"] = 0.0
    made["b"].loc[of_b.index[:n_flagged], "smokes"] = 1.0
    return made


def of_who_smokes(here: up.Federation, tests: list[list[str]]) -> Array:
    """Return sums over who smokes and lacks both tests, from four sets of rows."""
    sums = {}
    for some in tests:
        view = here.select([*some, "smokes", *OTHERS]).complete_rows()
        model = up.PCA().fit(view)
        N, mean = model.n_samples_, model.mean_
        S = (N - 1) * model.get_covariance() + N * np.outer(mean, mean)
        sums[tuple(some)] = S[len(some), len(some) :]
    one, other = sums["test",], sums["later",]
    return (sums[()] - one - other + sums["test", "later"])[1:]


@pytest.mark.parametrize("follow", [False, True])
@pytest.mark.parametrize("tests", ORDERS)
def test_who_alone_smokes_of_those_is_not_four_choices_of_rows(tests, follow):
    with pytest.raises(ReleaseRefusedError) as refused:
        of_who_smokes(up.simulate(flagged(1), follow=follow), tests)
    assert (refused.value.party, refused.value.rule) == ("b", "changed_rows")


@pytest.mark.parametrize("tests", ORDERS)
def test_control_without_a_limit_it_is_the_person_who_smokes(tests):
    here = up.simulate(flagged(1), policy=OF_ROWS)
    assert_allclose(of_who_smokes(here, tests), RECORD, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("tests", ORDERS)
def test_four_of_those_who_smoke_are_answered_about(tests):
    of_who_smokes(up.simulate(flagged(4), follow=True), tests)


# --- rows that came, of whom one lacks a test -----------------------------------------


def came(n_lacking: int) -> pd.DataFrame:
    """Return twelve rows, of which some lack the later test."""
    rows = tables()["a"].loc[100:111].reset_index(drop=True)
    rows.loc[: n_lacking - 1, "later"] = np.nan
    return rows + 0.01


def before_and_after(here: Silos, new: pd.DataFrame) -> Array:
    """Return what the sums of the new ones are, less those with the later test."""

    def sums() -> Array:
        _, found = over_pairs(here.federation.select([*OTHERS, "later"]))
        return found.diagonal()[:2] - found[:2, 2]

    before = sums()
    table = pd.concat([tables(3)["b"], new], ignore_index=True)
    here.parties["b"].table = open_source(table)
    return sums() - before


@pytest.mark.slow
def test_who_alone_of_those_who_came_lacks_a_test_is_no_difference():
    with pytest.raises(ReleaseRefusedError) as refused:
        before_and_after(silos(tables(3)), came(1))
    assert (refused.value.party, refused.value.rule) == ("b", "changed_rows")


def test_control_without_a_limit_it_is_the_difference():
    found = before_and_after(silos(tables(3), policy=OPEN), came(1))
    assert_allclose(found, came(1).loc[0, OTHERS].to_numpy(float), atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("n_lacking", [0, 2])
def test_of_those_who_came_none_or_two_may_lack_a_test(n_lacking):
    before_and_after(silos(tables(3)), came(n_lacking))

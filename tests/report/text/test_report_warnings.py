"""What the report warns of: few silos or rows, no protection, loosened rules."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

import unpooled as up
from report_pages import Page, facts, rows
from unpooled.coordinator.step_call import RoundRecord
from unpooled.errors import ReleaseRefusedError
from unpooled.ledger import Ledger, Release
from unpooled.protocol.step import disclosed, release, summed
from unpooled.report.facts import facts_of
from unpooled.report.html import Facts, render
from unpooled.report.text.cautions import cautions
from unpooled.report.text.policies import loosened, rules_table
from unpooled.report.text.what_follows import could_learn, could_not_learn
from unpooled.report.text.wording import sentence, what_left


@disclosed(mean=release("p", meaning="the mean of each column in this silo"))
def local_mean(X):
    return {"mean": X.mean(axis=0)}


@summed(
    takes={"weights": "n"},
    score=release("n", meaning="a score for each person"),
)
def local_score(X, *, weights):
    return {"score": X.sum(axis=1) * weights}


def headings(some: Facts) -> list[str]:
    return [one.heading for one in cautions(some)]


def test_heart_study_is_warned_of_a_rare_row_and_of_filled_cells(heart, page):
    assert headings(heart) == [
        "One person stands out in some columns",
        "Much of a column was filled in",
    ]
    assert "slope, ca and thal was missing" in page.text


@pytest.mark.slow
def test_a_study_of_complete_rows_has_no_warnings():
    some = facts()

    assert cautions(some) == []
    assert "There are no warnings." in Page(render(some)).text


@pytest.mark.slow
def test_two_silos_are_warned_of_first():
    some = facts(2, policy={"min_parties": 2})

    first, second = cautions(some)

    assert first.heading == "Only two silos took part"
    assert first.serious
    assert "Fewest silos in a study".lower() in second.text.lower()
    text = Page(render(some)).text
    named = "2 warnings : only two silos took part; rules looser than"
    assert text.index(named) < text.rindex("Computed from totals")
    assert text.index(first.text) < text.index("What left each silo", 1000)
    assert "There are no warnings" not in text
    assert any("learns the other’s value" in one for one in could_learn(some))


@pytest.mark.slow
def test_a_column_in_other_units_at_a_silo_is_warned_of():
    X = {
        name: np.random.default_rng(ord(name)).normal(170, 8, (50, 2))
        for name in "abcd"
    }
    X["d"][:, 1] /= 100.0  # metres among centimetres
    federation = up.simulate(X)
    model = up.Heterogeneity(2).fit(federation)

    (only,) = cautions(facts_of(model, federation))

    assert only.heading == "Silos may measure in other units"
    assert f"x1 ({model.eta_squared_[1]:.0%})" in only.text
    assert "x0" not in only.text
    assert not only.serious
    pca = up.PCA(1).fit(federation)
    assert cautions(facts_of(pca, federation)) == []


def test_three_silos_are_a_caution():
    (only,) = cautions(facts(3))

    assert only.heading == "Only three silos took part"
    assert not only.serious


@pytest.mark.slow
def test_plain_sums_are_no_protection():
    some = facts(4, secure_sum="plain")

    assert headings(some) == ["Totals were not protected"]
    assert all(
        one.exposed
        for chapter in what_left(some)
        for passage in chapter.passages
        for one in passage.sentences
    )
    text = Page(render(some)).text
    assert "unprotected, so that the coordinator could read every silo’s own" in text
    # None of the comforting sentences may survive where they are not true.
    assert "Opened only as the total" not in text
    assert "because the coordinator does not know it" not in text
    assert "the masks do not cancel" not in text
    assert could_not_learn(some) == []


def test_one_silo_is_warned_of():
    some = facts(1, secure_sum="plain", policy=up.Policy.open())

    assert "Only one silo took part" in headings(some)


def test_disclosed_values_are_warned_of():
    federation = up.simulate(up.partition_rows(rows(), 4), policy=up.Policy.open())
    federation.collect(local_mean)
    some = facts_of([], federation)

    (one, *_) = cautions(some)

    assert one.serious
    assert one.heading == "Some values were disclosed as they are"
    assert "the mean of each column in this silo (round 1)" in one.text
    text = Page(render(some)).text
    assert "Disclosed to the coordinator as it is, silo by silo." in text
    assert "because the coordinator does not know it" not in text
    assert not any("Any row" in one for one in could_not_learn(some))
    assert any(one.startswith("Otherwise, any") for one in could_not_learn(some))


@pytest.mark.slow
def test_what_the_coordinator_and_neighbours_saw_is_one_warning():
    ids = [f"person {number}" for number in range(60)]
    X = np.random.default_rng(0).normal(size=(60, 4))
    tables = {
        name: pd.DataFrame({"id": ids, f"{name}1": X[:, j], f"{name}2": X[:, j + 1]})
        for j, name in enumerate("abc")
    }
    policy = up.Policy.open()
    federation = up.simulate(tables, partition="columns", ids="id", policy=policy)

    (one, *others) = cautions(facts_of([], federation))

    assert one.heading == "Some values were disclosed as they are"
    assert "The coordinator saw, silo by silo" in one.text
    assert "Neighbouring silos saw, silo by silo" in one.text
    assert one.heading not in [other.heading for other in others]


def test_what_has_entries_for_people_is_warned_of():
    federation = up.simulate(up.partition_rows(rows(), 4), policy=up.Policy.open())
    federation.sum(local_score, weights=np.ones(60))
    some = facts_of([], federation)

    assert "Values of single people left a silo" in headings(some)
    assert sentence(some, some.lines("out")[0]).exposed
    assert not any("Any row" in one for one in could_not_learn(some))


@pytest.mark.slow
def test_refused_step_is_warned_of_by_name():
    parties = up.partition_rows(rows(), 4)
    (refusing, *others) = parties
    policies = dict.fromkeys(others) | {refusing: {"allowed_columns": ["age"]}}
    federation = up.simulate(parties, policy=policies)
    with pytest.raises(ReleaseRefusedError):
        up.PCA().fit(federation)

    (one,) = cautions(facts_of([], federation))

    assert one.heading == "A round was not completed"
    assert one.text.startswith(
        f"Round 1 (pca.local_total) was refused or broke off: {refusing} released "
        f"nothing."
    )
    assert "stayed masked and was not opened" in one.text
    text = Page(render(facts_of([], federation))).text
    assert "Never opened: without a part from every silo" in text
    assert "from silo2, silo3 and silo4" in text


def test_round_that_nobody_answered_is_warned_of():
    some = dataclasses.replace(
        facts(4), rounds=[RoundRecord(9, "pca.local_scatter", 0.1, 10, 10)]
    )

    (one,) = cautions(some)

    assert one.text == (
        "Round 9 (pca.local_scatter) was refused or broke off: no silo released "
        "anything."
    )


@pytest.mark.thinned(1)
@pytest.mark.parametrize("harm", ["edited", "dropped"])
def test_ledger_that_was_tampered_with_is_warned_of(harm):
    some = facts(4)
    lines = list(some.ledger)
    if harm == "edited":
        lines[1] = dataclasses.replace(lines[1], bytes=1)
    else:
        del lines[2]

    (one,) = cautions(dataclasses.replace(some, ledger=Ledger(lines)))

    assert one.heading == "The ledger is not consistent"
    assert one.serious


def test_few_rows_are_a_caution():
    federation = up.simulate(up.partition_rows(rows(80), 4))

    (one,) = cautions(facts_of(up.StandardScaler().fit(federation), federation))

    assert one.heading == "Few rows"
    assert "80 rows, so at least one of them has no more than 20" in one.text


@pytest.mark.thinned(1)
@pytest.mark.parametrize(("n", "serious"), [(200, False), (80, True)])
def test_many_columns_for_few_rows_are_a_caution(n, serious):
    parties = up.partition_rows(rows(n, 80), 4)
    # A table of 80 columns opens more numbers than its few rows have.
    policy = {"max_feature_ratio": 100.0, "max_released_share": 100.0}
    federation = up.simulate(parties, policy=policy)

    found = cautions(facts_of(up.PCA(2).fit(federation), federation))

    (one,) = [c for c in found if c.heading == "Many columns for few rows"]
    assert one.serious is serious
    promised = could_not_learn(facts_of(up.PCA(2).fit(federation), federation))
    assert any("Any row" in one for one in promised) is not serious


def test_step_that_is_not_installed_is_a_caution():
    line = Release(
        "s",
        1,
        "strange.local_sum",
        "total",
        (2,),
        "uint64",
        16,
        "summed",
        "out",
        ("a",),
    )
    some = dataclasses.replace(facts(4), ledger=Ledger([line]), rounds=[])

    assert "Some steps are unknown to this program" in headings(some)
    assert "the step strange.local_sum: 2 numbers" in sentence(some, line).text


# Rules


def test_loosened_rules_are_named_with_their_silos():
    parties = up.partition_rows(rows(), 4)
    names = list(parties)
    # Four silos are asked for, which is stricter than the library's own three.
    policies = dict.fromkeys(names) | {names[1]: {"min_rows": 2, "min_parties": 4}}
    federation = up.simulate(parties, policy=policies)

    (one,) = cautions(facts_of(up.PCA(2).fit(federation), federation))

    assert one.heading == "Rules looser than the library’s defaults"
    assert one.text == (
        f"{names[1]} allowed more than the defaults: fewest rows behind any array "
        f"that leaves (2, by default 10)."
    )


@pytest.mark.parametrize(
    ("policy", "keys"),
    [
        ({}, []),
        ({"min_rows": 50, "max_leverage": 0.1, "require_privacy": True}, []),
        ({"allowed_steps": ["pca.*"], "allowed_columns": ["age"]}, []),
        ({"allowed_steps": ["*"]}, ["allowed_steps"]),
        ({"max_feature_ratio": 2.0, "allow_disclosed": True},
         ["max_feature_ratio", "allow_disclosed"]),
    ],
)  # fmt: skip
def test_rules_are_loose_only_in_the_direction_that_allows_more(policy, keys):
    assert loosened(up.Policy.of(policy).as_dict()) == keys


def test_rules_stand_in_a_column_for_each_silo_only_where_they_differ():
    parties = up.partition_rows(rows(), 4)
    same = facts_of([], up.simulate(parties, policy=up.Policy.open()))
    first = next(iter(parties))
    policies = dict.fromkeys(parties) | {first: {"min_rows": 20}}
    differing = facts_of([], up.simulate(parties, policy=policies))

    alike, apart = rules_table(same), rules_table(differing)

    assert alike is not None
    assert apart is not None
    assert [c.heading for c in alike.columns] == ["Rule", "Every silo"]
    assert ("Most columns per row, in totals over pairs of columns", "no limit") in (
        alike.rows
    )
    assert [c.heading for c in apart.columns] == ["Rule", *parties]
    assert apart.rows[1][1:] == ("20", "10", "10", "10")


@pytest.mark.slow
def test_rules_that_were_not_told_are_said_to_be_the_silos_own(heart):
    text = Page(render(dataclasses.replace(heart, policies=None))).text

    assert "Each silo applied its own rules" in text

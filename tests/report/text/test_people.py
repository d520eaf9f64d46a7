"""The sentence on people says what left, and claims nothing that is not so."""

import dataclasses

import pytest

import unpooled as up
from report_pages import Page, facts, fitted, rows
from unpooled.report.facts import facts_of
from unpooled.report.html import render
from unpooled.report.text.people import people_answer

NO_DATA = "No person’s data left a silo."
NO_ARRAY = "No array with entries for single people left a silo."


def columns(model, **options):
    parts = up.partition_columns(rows(60, 6), 3)
    federation = up.simulate(
        parts, partition="columns", policy=up.Policy.open(), **options
    )
    return facts_of(model.fit(federation), federation)


def test_masked_totals_are_nobodys_data(heart, page):
    answer = people_answer(heart)

    assert answer.short == NO_DATA
    assert not answer.exposed
    assert (
        "parts of totals over all 4 silos; no array had an entry for a single"
        in answer.text
    )
    assert page.text.count(NO_DATA) == 2  # data protection, and the page to sign


def test_nothing_left():
    answer = people_answer(columns(up.StandardScaler()))

    assert answer.short == NO_DATA
    assert "No numbers left a silo at all" in answer.text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("solver", "way"),
    [
        ("gram", "Opened by the coordinator, as totals over all silos only: Gram "),
        ("gossip", "Sent to neighbouring silos as they are: "),
    ],
)
def test_arrays_over_people_are_named_with_who_could_open_them(solver, way):
    some = columns(up.PCA(1, svd_solver=solver))
    answer = people_answer(some)

    assert answer.short == "Numbers about single people left a silo."
    assert way in answer.text
    assert answer.exposed
    assert NO_DATA not in Page(render(some)).text


def test_arrays_over_people_that_only_silos_open():
    answer = people_answer(columns(up.KernelPCA(1, scores="parties")))

    assert "Opened by the silos, as totals over all of them only: " in answer.text
    assert "coordinator" not in answer.text


def test_sums_in_clear_and_disclosed_results_are_said():
    clear = people_answer(facts(secure_sum="plain"))
    shown = people_answer(facts(model=up.PCA(1, rank=1), policy=up.Policy.open()))

    for answer in (clear, shown):
        assert answer.short == NO_ARRAY
        assert answer.exposed
    assert "the coordinator could read each silo’s own" in clear.text
    assert "Results of single silos were disclosed as they are: " in shown.text


def test_totals_over_fewer_rows_than_columns_are_no_protection():
    federation = up.simulate(up.partition_rows(rows(9, 12), 3), policy=up.Policy.open())
    answer = people_answer(facts_of(up.PCA(2).fit(federation), federation))

    assert answer.short == NO_ARRAY
    assert "rows can be reconstructed from them" in answer.text
    assert answer.exposed


def test_totals_over_unknown_rows_are_not_vouched_for():
    model, federation = fitted()
    nothing = people_answer(facts_of([], federation))

    assert people_answer(facts_of(model, federation)).short == NO_DATA
    assert nothing.short == NO_ARRAY
    assert "How many rows are behind the totals is not known" in nothing.text


def test_unknown_steps_are_not_vouched_for(heart):
    line = dataclasses.replace(heart.ledger[0], step="other.step")
    some = dataclasses.replace(heart, ledger=up.Ledger([line]))

    answer = people_answer(some)

    assert answer.short == "What left a silo is not fully known."
    assert "does not know what other.step releases" in answer.text

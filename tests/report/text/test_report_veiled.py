"""Totals that the silos alone open: no report says that the coordinator learns them."""

import pytest

import unpooled as up
from mmvfl_silos import silos, three_kinds
from report_pages import Page, facts, rows
from unpooled.report.facts import facts_of
from unpooled.report.html import render
from unpooled.report.text.what_follows import could_learn, could_not_learn
from unpooled.report.text.wording import sentence, veiled, what_came_in

PEOPLE = {"min_rows": 10, "allow_row_level": True, "allow_disclosed": True}
BUT = "The totals listed above, except those that the silos alone opened,"


def mmvfl():
    X, y = three_kinds()
    federation = silos(X, y)
    return up.MMVFL(0.1, max_iter=3, tol=0.0).fit(federation, y="tree"), federation


def columns(model):
    parts = up.partition_columns(rows(60, 6), 3)
    federation = up.simulate(parts, partition="columns", policy=PEOPLE)
    return model.fit(federation), federation


def two_views(model):
    parts = up.partition_columns(rows(60, 6), 2)
    rules = PEOPLE | {"min_parties": 2}
    federation = up.simulate(parts, partition="columns", policy=rules)
    return model.fit(federation), federation


FITS = {
    "MMVFL": mmvfl,
    "KernelPCA": lambda: columns(
        up.KernelPCA(2, kernel="poly", gamma=0.01, scores="parties")
    ),
    "PLSCanonical": lambda: two_views(up.PLSCanonical(1)),
}


@pytest.mark.thinned("KernelPCA", "PLSCanonical")
@pytest.mark.parametrize("name", FITS)
def test_what_the_silos_alone_opened_is_nothing_the_coordinator_learns(name):
    model, federation = FITS[name]()
    some = facts_of(model, federation)

    hidden = veiled(some)
    assert hidden
    assert all(line.direction == "out" for line in hidden)
    # As it was asked: nothing else of the step's totals is called veiled.
    opened = {x.step for x in some.lines("out") if x.visibility == "summed"}
    assert not {x.step for x in hidden} & opened
    first, *rest = could_learn(some)
    assert first.startswith(BUT)
    steps = {line.step for line in hidden}
    differences = [one for one in rest if one.startswith("Differences")]
    assert not any(step in text for text in differences for step in steps)
    (told,) = [one for one in could_not_learn(some) if "silos alone opened" in one]
    assert "noise" in told
    for line in hidden:
        assert "to anyone else it is noise" in sentence(some, line).fate
    page = Page(render(some)).text
    assert "by the silos alone" in page
    assert BUT in page


@pytest.mark.slow
def test_a_veiled_total_that_comes_back_is_told_as_one():
    some = facts_of(*mmvfl())
    back = [x for x in some.lines("in") if x.visibility == "veiled"]
    assert back
    fates = {sentence(some, line).fate for line in back}
    assert fates == {
        "A total that only the silos can open; to anyone else it is noise."
    }
    assert what_came_in(some)


@pytest.mark.slow
def test_a_plain_pca_has_nothing_veiled():
    some = facts(4)
    assert veiled(some) == []
    assert could_learn(some)[0].startswith("The totals listed above and everything")
    assert not any("silos alone" in one for one in could_not_learn(some))
    assert "silos alone" not in Page(render(some)).text
    assert {x.visibility for x in some.lines("out")} == {"summed"}


def test_without_masks_nothing_was_veiled():
    X, y = three_kinds()
    federation = silos(X, y, secure_sum="plain")
    model = up.MMVFL(0.1, max_iter=2, tol=0.0).fit(federation, y="tree")
    some = facts_of(model, federation)
    assert veiled(some) == []
    assert "noise" not in " ".join(could_not_learn(some))

"""The count of blocks before rows are selected is a release like any other."""

import numpy as np
import pytest

import unpooled as up
from line_fields import fields
from unpooled.report.facts import facts_of
from unpooled.report.html import render

STEPS = ["block_levels.held", "block_levels.sizes"]


@pytest.fixture(scope="module")
def halves():
    rng = np.random.default_rng(0)
    silos = {name: rng.standard_normal((60, 3)) for name in "xyz"}
    return up.simulate(silos, random_state=0).train_test_split(test_size=0.5)


@pytest.fixture(scope="module")
def plan(halves):
    return up.plan(up.PCA(1), halves[0])


@pytest.fixture(scope="module")
def model(halves, plan):
    # After the plan, which says what is still to come.
    return up.PCA(1).fit(halves[0])


def test_it_is_sealed_and_planned(halves, plan, model):
    counted = [line for line in halves[0].ledger if line.step in STEPS]

    assert [(n.step, n.round, n.shape) for n in counted] == [
        (STEPS[0], 1, (8,)),
        (STEPS[1], 2, (20,)),
    ]
    for line in counted:
        assert (line.visibility, line.direction) == ("veiled", "out")
        assert set(line.seals) == set("xyz") == set(line.parties)
    assert halves[0].ledger.verify()
    planned = [line for line in plan.releases if line.step in STEPS]
    assert fields(planned, "step round shape bytes") == fields(
        counted, "step round shape bytes"
    )


@pytest.mark.slow
def test_the_report_explains_it(halves, model):
    page = render(facts_of(model, halves[0]))

    assert "Counting blocks of rows before folds and splits" in page
    assert "those that cut their rows into at least 2, 3, 4" in page
    assert "number of rows in each block of this number, over all silos" in page

"""Requests that no study makes, at silos that do not follow and judge them alone."""

import pytest

from integration.forbidden_requests import COLUMNS, REQUESTS
from unpooled.data.heart_disease import load
from wire import Rogue, silos

POLICY = {
    "min_rows": 10,
    "allowed_columns": ["age", "sex", "trestbps", "thalach"],
    "allowed_steps": ["pca.*", "scaler.*", "imputer.*", "eigenproblem.*"],
}


@pytest.mark.thinned(1)
@pytest.mark.parametrize("what", [name for name, (_, rule) in REQUESTS.items() if rule])
def test_a_request_that_no_study_makes(what):
    (step, *rest), rule = REQUESTS[what]
    tables = {name: load()[name] for name in ("cleveland", "hungary", "va")}
    rogue = Rogue(silos(tables, policy=POLICY), columns=COLUMNS).enter()

    rules = rogue.rules(step, *rest)

    assert set(rules.values()) == {rule}


@pytest.mark.thinned(1)
@pytest.mark.parametrize("what", REQUESTS)
def test_silos_that_follow_refuse_all_by_one_rule(what):
    (step, *rest), _ = REQUESTS[what]
    tables = {name: load()[name] for name in ("cleveland", "hungary", "va")}
    rogue = Rogue(silos(tables, policy=POLICY, follow=True), columns=COLUMNS).enter()

    rules = rogue.rules(step, *rest)

    assert set(rules.values()) == {"not_followed"}

"""Refusals in a plan: a paragraph for each rule, numbers of simulated silos alone."""

import logging
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import unpooled as up
from unpooled.cli.tables import show_plan
from unpooled.errors import RULES, ReleaseRefusedError


@pytest.fixture
def federation():
    rng = np.random.default_rng(1)
    return up.simulate({name: rng.standard_normal((16, 8)) for name in "abc"})


def shown(plan):
    console = Console(width=100, record=True)
    with console.capture() as written:
        study: Any = type("Named", (), {"name": "s"})()
        assert not show_plan(console, study, plan)
    return written.get()


def test_a_rule_is_written_once_with_all_that_it_refuses(federation):
    refused = [
        (party, step, "min_parties")
        for party in "abc"
        for step in ("pca.local_total", "pca.local_scatter", "scaler.local_total")
    ]
    refused.append(("b", "pca.local_scatter", "max_feature_ratio"))
    plan = up.Plan((), tuple(refused), ("a", "b", "c"), "masked")
    object.__setattr__(plan, "releases", up.plan(up.PCA(2), federation).releases)

    text = " ".join(shown(plan).split())

    for rule in ("min_parties", "max_feature_ratio"):
        assert text.count(" ".join(RULES[rule][0].split())) == 1
        assert text.count(" ".join(RULES[rule][1].split())) == 1
    assert "all 3 silos: pca.local_total, pca.local_scatter, scaler.local_total" in text
    assert "b: pca.local_scatter" in text


def test_simulated_silos_say_how_many_columns_would_pass(federation):
    plan = up.plan(up.PCA(2), federation)

    # 0.33 of 16 rows are 5.28.
    assert plan.explanations[("a", "max_feature_ratio")].startswith(
        "Of 8 columns at most 5 pass with 16 rows"
    )
    assert "a, which is simulated: Of 8 columns at most 5 pass" in " ".join(
        shown(plan).split()
    )
    with pytest.raises(ReleaseRefusedError, match="at most 5 pass with 16 rows"):
        up.PCA(2).fit(federation)


def test_a_real_silo_says_it_in_its_log_alone(federation, caplog):
    federation.coordinator.explain = None  # as between organisations

    with (
        caplog.at_level(logging.INFO, "unpooled.party"),
        pytest.raises(ReleaseRefusedError) as caught,
    ):
        up.PCA(2).fit(federation)

    assert "16" not in str(caught.value)
    assert "pass" not in str(caught.value)
    assert "at most 5 pass with 16 rows here" in caplog.text
    assert up.plan(up.PCA(2), federation).explanations == {}

"""The rule against directions of the columns that one row carries."""

import logging
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline

import unpooled as up
from policy_steps import TABLES, refuses, squares, totals
from unpooled.arrays import Array
from unpooled.data.sources.open_source import open_source
from unpooled.errors import ReleaseRefusedError, StudyError
from unpooled.party.memory.audit_log import AuditLog
from unpooled.party.rules import leverage
from unpooled.party.rules.leverage import LeverageRule
from unpooled.party.rules.policy import Policy
from unpooled.party.views.view import View
from unpooled.protocol.refusal import Refusal
from unpooled.protocol.step import find_step
from unpooled.protocol.view_operations import Derive, Select
from wire import COLUMNS, Rogue, rows, silos

SQUARES = find_step("policy_steps.squares")


def twins(seed: int) -> Array:
    """x0 and x1 agree in everybody but one person, whom neither shows alone."""
    X = rows(seed=seed)
    X[:, 1] = X[:, 0]
    X[11, 1] += 1.0
    return X


def verdict(X: Array, **policy: Any) -> str:
    try:
        rule = LeverageRule(AuditLog(), b"key", Policy(**policy))
        rule.check(SQUARES, View(open_source(X), []))
    except Refusal as refused:
        return refused.rule
    return ""


def test_two_columns_that_differ_in_one_person_are_refused_together():
    here = silos({name: twins(i) for i, name in enumerate("abc")})
    refuses(here, "max_leverage", lambda: here.federation.sum(squares))
    here.federation.select(["x0", "x2"]).sum(squares)
    here.federation.sum(totals)


def test_a_made_up_projection_onto_one_person_is_refused_where_none_is_checked():
    listed = {"allowed_steps": ["policy_steps.*", "pca.projected"]}
    tables = {name: twins(i) for i, name in enumerate("abc")}
    rogue = Rogue(silos(tables, policy=listed)).enter()
    public = {
        "mean": np.zeros(3),
        "components": np.array([[1.0, -1.0, 0.0], [0.0, 0.0, 1.0]]),
        "scale": np.ones(2),
    }
    for offset in (0.0, -1e9):
        shifted = {**public, "mean": np.array([offset, 0.0, 0.0])}
        made = (Select(COLUMNS), Derive("pca.projected", ("y0", "y1"), shifted))
        rules = rogue.rules("policy_steps.squares", None, made)
        assert set(rules.values()) == {"max_leverage"}
    honest = {**public, "components": np.array([[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])}
    made = (Select(COLUMNS), Derive("pca.projected", ("y0", "y1"), honest))
    rules = rogue.rules("policy_steps.squares", None, made)
    assert set(rules.values()) == {""}


@pytest.mark.slow
def test_a_far_filling_of_one_cell_is_refused_behind_what_comes_after():
    tables = {name: X.copy() for name, X in TABLES.items()}
    tables["b"][8, 1] = np.nan
    here = silos(tables)
    far = up.SimpleImputer(strategy="constant", fill_value=1e6)
    filled = far.fit(here.federation).transform(here.federation)
    scaled = up.StandardScaler().fit(filled).transform(filled)
    for view in (filled, scaled, scaled.select(["x1"])):
        refuses(here, "max_leverage", lambda v=view: v.sum(squares), party="b")
    scaled.select(["x0", "x2"]).sum(squares)


@pytest.mark.slow
def test_what_a_mean_fills_carries_nothing():
    tables = {name: X.copy() for name, X in TABLES.items()}
    for X in tables.values():
        X[8, 1] = np.nan
    pipeline = make_pipeline(up.SimpleImputer(), up.StandardScaler(), up.PCA(3))
    assert pipeline.fit(silos(tables).federation)[-1].n_samples_ == 90


def test_heavy_tails_are_refused_where_one_row_is_the_tail():
    """One very rich man: the covariances of his income are his record, if no other's.

    Two of them hide each other, as far as the default goes.
    """
    X = rows(40)
    X[5, 0] = 1e6
    assert verdict(X) == "max_leverage"
    X[6, 0] = -1e6
    assert verdict(X) == ""


def test_the_limit_is_the_silos_choice():
    X = rows(40)
    X[:, 0] = 0.0
    X[[4, 9, 14], 0] = 1.0
    largest = 0.4
    assert verdict(X, max_leverage=largest - 0.1) == "max_leverage"
    assert verdict(X, max_leverage=0.6) == ""
    X[[4, 9], 0] = 0.0
    assert verdict(X) == "max_leverage"
    assert verdict(X, max_leverage=1.0) == ""


def test_as_many_columns_as_rows_are_for_the_rule_about_these():
    """All leverages are 1: nothing could be allowed."""
    assert verdict(rows(30, 29)) == ""
    assert verdict(rows(30, 40)) == ""
    assert verdict(rows(30, 25)) == "max_leverage"
    # A low limit is no way round it.
    assert verdict(rows(30, 3), max_leverage=0.01) == "max_leverage"


def test_totals_by_column_and_noise_are_not_asked_about():
    assert not leverage.tells_pairs(find_step("policy_steps.totals"), 10)
    assert not leverage.tells_pairs(find_step("private.local_private"), 10)
    assert leverage.tells_pairs(find_step("krylov.local_image"), 10)
    assert not leverage.tells_pairs(find_step("krylov.local_image"), 10_000)
    assert leverage.tells_pairs(find_step("moments.local_scatter"), 10_000)


@pytest.mark.slow
def test_a_decision_is_taken_once_for_a_view_up_to_its_scale(monkeypatch):
    measured = []
    real = leverage.largest_leverage

    def counted(*args: Any) -> Any:
        measured.append(1)
        return real(*args)

    monkeypatch.setattr(leverage, "largest_leverage", counted)
    here = silos()
    scaled = up.StandardScaler().fit(here.federation).transform(here.federation)
    for view in (here.federation, scaled, here.federation, scaled):
        view.sum(squares)
        up.PCA(2).fit(view)
    assert len(measured) == 3  # once in each silo


@pytest.fixture
def by_scatter(monkeypatch):
    """Judge small tables, too, by the scatter that a step makes of them."""
    monkeypatch.setattr(leverage, "_LEAST_WORK", 0)


@pytest.mark.slow
def test_a_scatter_that_is_released_clears_the_rows_once(by_scatter, monkeypatch):
    cleared = []
    real = leverage.leverage_by_scatter

    def counted(*args: Any, **known: Any) -> Any:
        found = real(*args, **known)
        cleared.append(found is not None and found.at_most <= 0.95)
        return found

    monkeypatch.setattr(leverage, "leverage_by_scatter", counted)
    monkeypatch.delattr(leverage, "largest_leverage")
    here = silos()
    scaled = up.StandardScaler().fit(here.federation).transform(here.federation)
    for view in (scaled, here.federation, scaled):
        up.PCA(2).fit(view)
        view.sum(squares)  # which declares no symmetry, and reuses the decision
    assert cleared == [True] * 3  # once in each silo


def test_a_scatter_that_is_refused_has_not_left(by_scatter):
    here = silos({name: twins(i) for i, name in enumerate("abc")})
    with pytest.raises(ReleaseRefusedError, match="max_leverage"):
        up.PCA(2).fit(here.federation)
    assert not [line for line in here.ledger if line.step == "pca.local_scatter"]
    up.PCA(2).fit(here.federation.select(["x0", "x2"]))


def test_a_part_of_the_rows_is_judged_by_all_of_them(by_scatter):
    here = silos({name: twins(i) for i, name in enumerate("abc")})
    for part in here.federation.train_test_split(test_size=0.5, random_state=0):
        with pytest.raises(ReleaseRefusedError, match="max_leverage"):
            up.PCA(2).fit(part)


@pytest.mark.slow
def test_missing_cells_that_were_filled_are_judged_by_the_scatter(by_scatter):
    tables = {name: X.copy() for name, X in TABLES.items()}
    for X in tables.values():
        X[8, 1] = np.nan
    pipeline = make_pipeline(up.SimpleImputer(), up.StandardScaler(), up.PCA(3))
    assert pipeline.fit(silos(tables).federation)[-1].n_samples_ == 90
    tables["b"][5, 0] = 1e6
    with pytest.raises(ReleaseRefusedError, match="max_leverage"):
        pipeline.fit(silos(tables).federation)


def test_the_account_keeps_decisions_for_later_processes(tmp_path, monkeypatch):
    X = twins(0)
    measured = []

    def measure(*given: Any) -> Any:
        measured.append(given)
        return really(*given)

    really = leverage._measured
    monkeypatch.setattr(leverage, "_measured", measure)
    for _ in range(2):
        rule = LeverageRule(AuditLog(tmp_path / "log"), b"key", Policy())
        with pytest.raises(Refusal, match="max_leverage"):
            rule.check(SQUARES, View(open_source(X), []))
    assert len(measured) == 1
    log = AuditLog(tmp_path / "log")
    (note,) = log.notes("leverage")
    assert set(note["columns"]) == {"x0", "x1"}
    assert note["at_least"] > 0.95

    # Another version of the table is decided about anew.
    X[11, 1] = X[11, 0]
    LeverageRule(log, b"key", Policy()).check(SQUARES, View(open_source(X), []))
    assert len(log.notes("leverage")) == 2


def test_columns_are_named_in_the_silos_own_log_alone(caplog):
    # So long that no signature has it by chance.
    twin = "systolic_blood_pressure"
    tables = {
        name: pd.DataFrame(twins(i), columns=["x0", twin, *COLUMNS[2:]])
        for i, name in enumerate("abc")
    }
    here = silos(tables)
    with caplog.at_level(logging.INFO, "unpooled.party"):
        refuses(here, "max_leverage", lambda: here.federation.sum(squares))
    assert twin in caplog.text
    refused = here.wire.of_kind("refused")
    assert refused
    assert not any(twin.encode() in reply for _, reply in refused)


def test_the_former_key_names_its_successor():
    with pytest.raises(StudyError, match="max_row_share: leverage takes its place"):
        Policy.of({"max_row_share": 0.5})

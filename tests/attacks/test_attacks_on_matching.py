"""Attacks by matching again: whether one new person is at all other silos."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import unpooled as up
from unpooled.data.sources.open_source import open_source
from unpooled.party.memory.audit_log import AuditLog
from unpooled.party.rules.differencing import DifferencingRules
from unpooled.party.rules.policy import Policy
from unpooled.party.views.view import IdColumn, View
from unpooled.protocol.refusal import Refusal

PARTIES = ("a", "b", "c")


def people(name: str, n: int = 60) -> pd.DataFrame:
    rows = np.random.default_rng(ord(name)).normal(size=(n, 2))
    frame = pd.DataFrame(rows, columns=[f"{name}1", f"{name}2"])
    return frame.assign(id=[f"p{i}" for i in range(n)])


def matching(frame: pd.DataFrame) -> Any:
    return SimpleNamespace(view=IdColumn(open_source(frame, ids="id")), step=None)


def test_ids_are_not_matched_again_after_a_few_people_came():
    log = AuditLog()
    rules = DifferencingRules(log, b"key", Policy())
    for n, refused in [(60, False), (60, False), (61, True), (69, True), (70, False)]:
        asked = matching(people("a", n))
        if refused:
            with pytest.raises(Refusal, match="min_changed_rows"):
                rules.check(asked, PARTIES)
            continue
        rules.check(asked, PARTIES)
        log._chain.append([(kind, "", note) for kind, note in rules.notes(asked)])


@pytest.mark.slow
def test_all_but_a_few_rows_may_be_common():
    """Steps on the common rows were refused, as if all rows had been answered about."""
    tables = {name: people(name) for name in PARTIES}
    tables["a"] = tables["a"][3:]
    rules = {"allow_row_level": True}
    here = up.simulate(tables, partition="columns", ids="id", policy=rules)
    assert here.n_rows == 57
    up.PCA(2).fit(here)


def test_a_table_that_was_answered_about_is_compared_though_it_was_matched_first(
    tmp_path,
):
    log, table = AuditLog(tmp_path / "log"), people("a")
    rules = DifferencingRules(log, b"key", Policy())
    asked = matching(table)
    log._chain.append([(kind, "", note) for kind, note in rules.notes(asked)])
    versions = rules._versions
    assert [note for _, note in versions.notes(asked.view.table, only_ids=True)] == []
    later = versions.notes(View(asked.view.table, []).table)
    log._chain.append([(kind, "", note) for kind, note in later])
    for used in (rules, DifferencingRules(AuditLog(log.path), b"key", Policy())):
        with pytest.raises(Refusal, match="min_changed_rows"):
            used._versions.check(open_source(people("a", 61), ids="id"))

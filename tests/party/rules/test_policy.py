"""Every rule of a policy: refused by name, in the silo, before anything runs."""

import functools
import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import unpooled as up
from policy_steps import (
    TABLES,
    by_person,
    class_counts,
    everybody,
    from_kept,
    reads_the_label,
    refuses,
    shown,
    squares,
    stays_here,
    totals,
)
from unpooled.data.sources.open_source import open_source
from unpooled.errors import ReleaseRefusedError
from unpooled.party.memory.audit_log import AuditLog
from unpooled.party.rules.policy import Policy
from unpooled.party.rules.table_cuts import TableCuts
from unpooled.party.views.view import View
from unpooled.protocol.refusal import Refusal
from unpooled.protocol.view_operations import Derive, Rows, Select
from viewed_tables import ROWS
from wire import COLUMNS, Rogue, rows, silos


def labelled(seed: int, counts: dict[int, int]) -> pd.DataFrame:
    y = np.repeat(list(counts), list(counts.values()))
    frame = pd.DataFrame(rows(len(y), seed=seed), columns=list(COLUMNS))
    return frame.assign(diagnosis=y)


# --- each key -------------------------------------------------------------------------


def test_min_parties():
    two = {name: TABLES[name] for name in "ab"}
    here = silos(two)
    refuses(here, "min_parties", lambda: here.federation.sum(totals))
    # Both must say so.
    here = silos(two, policy={"a": {"min_parties": 2}, "b": {}})
    refuses(here, "min_parties", lambda: here.federation.sum(totals), party="b")
    here = silos(two, policy={"min_parties": 2})
    total = here.federation.sum(totals)["total"]
    np.testing.assert_allclose(total, TABLES["a"].sum(0) + TABLES["b"].sum(0))


def test_one_party_alone_has_no_secure_sum():
    here = silos({"a": TABLES["a"]}, policy=Policy.open())
    with pytest.raises(Exception, match="min_parties"):
        here.federation.sum(totals)


def test_min_rows():
    here = silos({**TABLES, "b": rows(9)})
    refuses(here, "min_rows", lambda: here.federation.sum(totals), party="b")
    here = silos({**TABLES, "b": rows(10)})
    here.federation.sum(totals)


@pytest.mark.slow
@given(st.lists(ROWS, min_size=1, max_size=3), st.integers(10, 90))
def test_min_rows_hold_for_every_selection_and_what_it_leaves_out(chain, n):
    table = open_source(rows(n))
    cuts = TableCuts(b"key", AuditLog(), Policy())
    view = View(table, chain, cut=cuts.of)
    assert view.fewest_rows >= 10
    assert view.n_rows == 0 or view.n_rows >= 10
    assert view.left_out == 0 or view.left_out >= 10


def test_min_rows_of_a_table_hold_for_its_blocks():
    here = silos({**TABLES, "b": rows(9)})
    train, test = here.federation.train_test_split(random_state=0)
    for view in (train, test):
        # Before the blocks are counted.
        with pytest.raises(ReleaseRefusedError, match=r"b refused .*min_rows"):
            view.sum(totals)


def test_min_rows_per_class():
    tables = {
        "a": labelled(0, {0: 20, 1: 10}),
        "b": labelled(1, {0: 26, 1: 4}),
        "c": labelled(2, {0: 30}),
    }
    classes = np.array([0.0, 1.0])
    here = silos(tables, label="diagnosis")

    def ask() -> Any:
        return here.federation.sum(class_counts, classes=classes)["counts"]

    refuses(here, "min_rows_per_class", ask, party="b")
    # Other releases are not by class, and a class that is absent has no rows to tell.
    here.federation.sum(totals)
    here = silos(tables, label="diagnosis", policy={"min_rows_per_class": 4})
    assert ask().tolist() == [76.0, 14.0]


@pytest.mark.parametrize(
    ("few", "refused"), [(0, False), (1, True), (4, True), (5, False)]
)
def test_a_class_of_one_row_is_as_rare_as_one_of_four(few, refused):
    """Class sizes below the minimum are refused; a class that is absent is not."""
    if not refused:
        Policy(min_rows_per_class=5).check_classes([30, few])
        return
    with pytest.raises(Refusal, match="min_rows_per_class"):
        Policy(min_rows_per_class=5).check_classes([30, few])


@pytest.mark.parametrize(
    ("verb", "to", "protection", "shown"),
    [
        ("summed", "parties", "masked", True),
        # Without masks the coordinator would see what the parties open.
        ("summed", "parties", "plain", False),
        ("summed", "coordinator", "masked", False),
        ("exchanged", "coordinator", "masked", True),
    ],
)
def test_people_are_for_the_parties_alone(verb, to, protection, shown):
    policy = Policy(allow_row_level="parties")
    assert policy._shows(verb, to, protection) is shown
    assert Policy(allow_row_level=True)._shows(verb, to, protection)
    assert not Policy()._shows(verb, to, protection)


@pytest.mark.slow
def test_max_feature_ratio():
    # 30 rows and a third: up to 9 features in a release over pairs of them.
    for p, allowed in ((9, True), (10, False)):
        here = silos({name: rows(30, p, i) for i, name in enumerate("abc")})
        here.federation.sum(totals)
        if allowed:
            here.federation.sum(squares)
        else:
            ask = functools.partial(here.federation.sum, squares)
            refuses(here, "max_feature_ratio", ask)
            with pytest.raises(ReleaseRefusedError, match="max_feature_ratio"):
                up.PCA(2).fit(here.federation)
            up.PCA(2).fit(here.federation.select([f"x{j}" for j in range(9)]))
    here = silos(
        {name: rows(30, 40, i) for i, name in enumerate("abc")},
        policy={"max_feature_ratio": math.inf},
    )
    assert up.PCA(2).fit(here.federation).n_samples_ == 90


def test_allow_disclosed():
    here = silos(TABLES, policy={p: {"allow_disclosed": p != "a"} for p in "abc"})
    refuses(here, "allow_disclosed", lambda: here.federation.collect(shown))
    here = silos(TABLES, policy={"allow_disclosed": True})
    assert set(here.federation.collect(shown)) == set("abc")


def test_allow_row_level():
    here = silos(TABLES, policy={"allow_disclosed": True})
    who = np.ones(30)
    refuses(here, "allow_row_level", lambda: here.federation.sum(by_person, who=who))
    refuses(
        here, "allow_row_level", lambda: here.federation.collect(everybody, who=who)
    )
    here = silos(TABLES, policy={"allow_row_level": True})
    values = here.federation.sum(by_person, who=who)["values"]
    np.testing.assert_allclose(values, sum(X[:, 0] for X in TABLES.values()))
    refuses(
        here, "allow_disclosed", lambda: here.federation.collect(everybody, who=who)
    )


def test_require_privacy():
    here = silos(TABLES, policy={"c": {"require_privacy": True}})
    refuses(here, "require_privacy", lambda: here.federation.sum(totals), party="c")
    # What stays in the silo needs none, until it is to leave.
    here.federation.keep(stays_here)
    refuses(here, "require_privacy", lambda: here.federation.sum(from_kept), party="c")


def test_allowed_steps():
    here = silos(TABLES, policy={"allowed_steps": ["pca.*"]})
    refuses(here, "allowed_steps", lambda: here.federation.sum(totals))
    up.PCA(2).fit(here.federation)
    here = silos(TABLES, policy={"allowed_steps": []})
    with pytest.raises(ReleaseRefusedError, match="allowed_steps"):
        up.PCA(2).fit(here.federation)
    here = silos(TABLES, policy={"allowed_steps": ["policy_steps.tot?ls"]})
    here.federation.sum(totals)
    refuses(here, "allowed_steps", lambda: here.federation.sum(squares))


def test_allowed_columns():
    here = silos(TABLES, policy={"allowed_columns": ["x0", "x2"]})
    refuses(here, "allowed_columns", lambda: here.federation.sum(totals))
    chosen = here.federation.select(["x2", "x0"])
    chosen.sum(totals)
    # A column that is only passed through is read all the same.
    rogue = Rogue(here).enter()
    rogue.step("imputer.local_counts", None, (Select(("x0",)),))
    fill = Derive("imputer.imputed", COLUMNS, {"statistics": np.zeros(3)})
    for chain in (
        (),
        (Select(COLUMNS), fill, Select(("x0",))),
        (Rows(0, 2, 0.0, False, 1), Select(("x0",))),
    ):
        rules = rogue.rules("policy_steps.totals", None, chain)
        assert set(rules.values()) == {"allowed_columns"}


def test_allowed_columns_and_the_label():
    tables = {n: labelled(i, {0: 15, 1: 15}) for i, n in enumerate("abc")}
    here = silos(
        tables, label="diagnosis", policy={"allowed_columns": ["x0", "x1", "x2"]}
    )
    here.federation.sum(totals)
    refuses(here, "allowed_columns", lambda: here.federation.sum(reads_the_label))
    here = silos(tables, label="diagnosis", policy={"allowed_columns": ["x*", "diag*"]})
    assert here.federation.sum(reads_the_label)["largest"] == 3.0


def test_a_label_that_is_not_there():
    here = silos(TABLES)
    refuses(here, "unknown_columns", lambda: here.federation.sum(reads_the_label))
    rogue = Rogue(here).enter()
    for columns in (("x9",), ("x0", "x0"), (), ("x0", "x9")):
        rules = rogue.rules("policy_steps.totals", None, (Select(columns),))
        assert set(rules.values()) == {"unknown_columns"}


def test_each_silo_has_its_own_policy():
    here = silos({**TABLES, "c": rows(5)}, policy={"c": {"min_rows": 3}})
    here.federation.sum(totals)
    assert here.parties["a"].policy == Policy()
    assert here.parties["c"].policy == Policy(min_rows=3)

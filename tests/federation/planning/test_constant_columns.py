"""A plan refuses columns that are constant over all silos, and no others.

The oracle is numpy on the pooled rows: a column is constant if all its cells are equal.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.pipeline import make_pipeline

import unpooled as up
from unpooled.data.table import ArrayTable
from unpooled.errors import DataError
from unpooled.federation.planning.constant_columns import shares_of
from unpooled.federation.planning.dry_run import plan
from unpooled.party.rules.unusable_cells import constant_columns
from unpooled.protocol.message import decode, encode
from unpooled.report.text.log_events import event
from wire import Rogue, Silos, kind, silos

SILOS = ("north", "south", "west")
TWO = list(SILOS[:2])
OPEN = up.Policy.open()

# What each model is fitted with: its second argument of `fit`, and the label.
MODELS: dict[str, tuple[Any, Any]] = {
    "discriminant": (up.LinearDiscriminantAnalysis, "kind"),
    "logistic": (up.LogisticRegression, "kind"),
    "linear": (up.LinearRegression, "y"),
    "glm": (lambda: up.GLM(family="poisson"), "n"),
    "cca": (lambda: up.CCA(1), ["y", "n"]),
    "factor_analysis": (lambda: up.FactorAnalysis(1), None),
    "heterogeneity": (up.Heterogeneity, None),
}
# With an intercept for each silo, a column that is constant within silos is collinear.
OWN_INTERCEPTS: dict[str, tuple[Any, Any]] = {
    "logistic": (lambda: up.LogisticRegression(site_effects=True), "kind"),
    "linear": (lambda: up.LinearRegression(site_effects=True), "y"),
    "glm": (lambda: up.GLM(family="poisson", site_effects=True), "n"),
    # And no silo has a regression of its own.
    "meta_analysis": (lambda: up.MetaAnalysis(family="poisson"), "n"),
}


def tables(*constants: float | None) -> dict[str, pd.DataFrame]:
    """Return silos' rows of which column c has these values; None lets it vary."""
    made, rng = {}, np.random.default_rng(0)
    for silo, constant in zip(SILOS, constants, strict=True):
        X = pd.DataFrame(rng.normal(size=(60, 3)), columns=list("abc"))
        if constant is not None:
            X["c"] = float(constant)
        X["y"] = X["a"] + rng.normal(size=60)
        X["n"] = rng.poisson(2, 60).astype(float)
        X["kind"] = np.where(X["a"] + rng.normal(size=60) > 0, "ill", "well")
        made[silo] = X
    return made


def federation(rows: dict[str, pd.DataFrame], y: Any, **options: Any) -> Silos:
    label = "kind" if y == "kind" else None
    columns = list("abc") + ([] if y in (None, "kind") else [*y])
    chosen = {silo: X[columns + ([label] if label else [])] for silo, X in rows.items()}
    return silos(chosen, label=label, **({"policy": OPEN} | options))


def refused(planned: up.Plan) -> set[tuple[str, str]]:
    return {(party, rule) for party, _, rule in planned.refusals}


def notes(planned: up.Plan) -> list[str]:
    return [note for note in planned.notes if "Constant in every silo" in note]


EVERYWHERE = {(silo, "constant_columns") for silo in SILOS}


@pytest.mark.thinned(1)
@pytest.mark.parametrize("name", MODELS)
def test_one_value_everywhere_is_refused_by_plan_and_fit(name):
    made, y = MODELS[name]
    here = federation(tables(3.5, 3.5, 3.5), y)

    planned = plan(made(), here.federation, y)

    assert refused(planned) == EVERYWHERE
    assert set(planned.refused_columns) == {("c",)}
    assert notes(planned) == []
    with pytest.raises(DataError):
        made().fit(here.federation, y)


@pytest.mark.thinned(1)
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(
    "constants", [(3.5, 3.5, 3.5 + 2**-51), (3.5, 3.5, None), (1.0, 2.0, 4.0)]
)
def test_a_column_that_varies_between_silos_is_planned_without_a_word(name, constants):
    made, y = MODELS[name]
    planned = plan(made(), federation(tables(*constants), y).federation, y)
    assert (refused(planned), notes(planned)) == (set(), [])


@pytest.mark.thinned(1)
@pytest.mark.parametrize("name", MODELS)
def test_such_a_plan_is_kept(name):
    made, y = MODELS[name]
    here = federation(tables(1.0, 2.0, 4.0), y)
    assert refused(plan(made(), here.federation, y)) == set()
    made().fit(here.federation, y)


@pytest.mark.thinned(1)
@pytest.mark.parametrize("name", OWN_INTERCEPTS)
@pytest.mark.parametrize("constants", [(3.5, 3.5, 3.5), (1.0, 2.0, 4.0)])
def test_beside_intercepts_of_silos_both_are_refused(name, constants):
    made, y = OWN_INTERCEPTS[name]
    here = federation(tables(*constants), y)

    assert refused(plan(made(), here.federation, y)) == EVERYWHERE

    if name != "meta_analysis":  # which has one of all rows too
        assert here.wire.of_kind("compared") == []
    with pytest.raises(DataError):
        made().fit(here.federation, y)


def test_after_each_silo_took_its_means_off_both_are_refused():
    model = make_pipeline(up.CentreBySite(), up.LinearDiscriminantAnalysis())
    here = federation(tables(1.0, 2.0, 4.0), "kind")
    assert refused(plan(model, here.federation, "kind")) == EVERYWHERE
    with pytest.raises(DataError):
        model.fit(here.federation, "kind")


def test_a_model_that_takes_constant_columns_compares_nothing():
    here = federation(tables(3.5, 3.5, 3.5), None)
    planned = plan(up.PCA(2), here.federation)
    assert (refused(planned), notes(planned)) == (set(), [])
    assert here.wire.of_kind("offer") == []


@pytest.mark.parametrize(
    ("filled", "constants", "says_yes"),
    [
        (up.SimpleImputer(), (3.5, 3.5, 3.5), False),
        (up.SimpleImputer(), (3.5, 4.5, 3.5), True),
        # The study's own number is the column's only other value.
        (up.SimpleImputer(strategy="constant", fill_value=9), (3.5, 3.5, 3.5), True),
    ],
)
def test_what_fills_missing_cells_decides_whether_a_column_varies(
    filled, constants, says_yes
):
    rows = tables(*constants)
    rows["south"].loc[:20, "c"] = np.nan
    here = federation(rows, "kind")
    model = make_pipeline(filled, up.LinearDiscriminantAnalysis())

    planned = plan(model, here.federation, "kind")

    assert refused(planned) == (set() if says_yes else EVERYWHERE)
    assert notes(planned) == []
    if says_yes:
        model.fit(here.federation, "kind")
    else:
        with pytest.raises(DataError, match="constant or collinear"):
            model.fit(here.federation, "kind")


@pytest.mark.parametrize("observed", [3, 10])
def test_a_value_of_few_people_is_neither_told_nor_compared(observed):
    rows = tables(3.5, 3.5, 3.5)
    rows["south"].loc[observed:, "c"] = np.nan
    here = federation(rows, "kind", policy=replace(OPEN, min_rows=10))
    model = make_pipeline(up.SimpleImputer(), up.LinearDiscriminantAnalysis())

    planned = plan(model, here.federation, "kind")

    told = "constant_columns" in {rule for _, rule in refused(planned)}
    assert told == (observed == 10)
    assert bool(here.wire.of_kind("compared")) == told


@pytest.mark.parametrize("sparse", [False, True])
def test_constant_columns_of_cells_with_a_value(sparse):
    X = np.array(
        [[1.0, 0.0, np.nan, 2.0, 0.0, np.nan], [1.0, 0.0, np.nan, np.nan, 5.0, 3.0]]
    )
    table = ArrayTable(scipy.sparse.csr_array(X) if sparse else X)

    found = constant_columns(table, table.columns)

    assert [*found] == [table.columns[j] for j in (0, 1, 2, 3, 5)]
    np.testing.assert_array_equal([*found.values()], [1.0, 0.0, np.nan, 2.0, 3.0])
    few = constant_columns(table, table.columns, 2)
    assert [*few] == [table.columns[j] for j in (0, 1, 2)]


def test_nothing_that_is_sent_depends_on_the_value():
    """Messages of two plans have the same kinds and sizes, and fresh shares."""
    sent = []
    for value in (3.5, -1e300):
        here = federation(tables(value, value, value), "kind")
        plan(up.LinearDiscriminantAnalysis(), here.federation, "kind")
        sent.append(
            [(party, kind(data), len(data)) for party, data in here.wire.received]
        )
        shares = [
            share
            for _, data in here.wire.of_kind("compared")
            for share in decode(data).header["shares"].values()
        ]
        assert len(shares) == len(set(shares)) == len(SILOS)
    assert sent[0] == sent[1]
    assert {"offer", "compared"} <= {found for _, found, _ in sent[0]}


@pytest.mark.parametrize("change", ["one value", "another roster"])
def test_a_comparison_is_answered_once_and_only_after_a_plan_that_told(change):
    here = federation(tables(3.5, 3.5, 3.5), "kind")
    asked = {
        "kind": "offer comparison",
        "study": "study",
        "session": "s",
        "parties": list(SILOS),
        "partition": "rows",
    }

    def say(header: dict[str, Any]) -> dict[str, Any]:
        replies = here.answers(dict.fromkeys(SILOS, encode(header, {})))
        return {p: decode(data, here.roster, p).header for p, data in replies.items()}

    before = say(asked)
    assert {one["rule"] for one in before.values()} == {"out_of_order"}
    plan(up.LinearDiscriminantAnalysis(), here.federation, "kind")
    if change == "another roster":
        rules = {p: one["rule"] for p, one in say({**asked, "parties": TWO}).items()}
        assert rules.pop("west") == "wrong_roster"
        assert set(rules.values()) == {"out_of_order"}
        return
    offers = {
        party: [one[part] for part in ("key", "signature", "head")]
        for party, one in say(asked).items()
    }
    question = {**asked, "kind": "compare constants", "columns": ["a", "c", "d"]}
    first = say({**question, "offers": offers})
    assert {tuple(one["shares"]) for one in first.values()} == {("c",)}
    again = say({**question, "offers": offers})
    assert {one["rule"] for one in again.values()} == {"out_of_order"}
    # A relay that puts another key in the place of a silo's.
    offers = {
        party: [one[part] for part in ("key", "signature", "head")]
        for party, one in say(asked | {"session": "t"}).items()
    }
    offers["west"][0] = "00" * 32
    forged = say({**question, "session": "t", "offers": offers})
    assert {one["kind"] for one in forged.values()} <= {"refused", "error"}
    assert all("shares" not in one for one in forged.values())


def test_a_comparison_is_an_answer_to_its_silos_and_stands_in_the_log():
    """Whoever compares every three of many silos would know which have one value."""
    rows = tables(3.5, 3.5, 3.5)
    rows |= {f"new {name}": table.copy() for name, table in rows.items()}
    here = federation(rows, "kind", policy=up.Policy())
    model = up.LinearDiscriminantAnalysis()
    assert {rule for _, rule in refused(plan(model, here.federation, "kind"))} == {
        "constant_columns"
    }

    (entry,) = [
        entry
        for entry in here.parties["north"]._studies._audit_log.entries()
        if entry.kind == "compared"
    ]
    assert entry.record["columns"] == ["c"]
    assert event(entry).startswith("compared 1 constant column in secret, with new")
    three = Rogue(here, SILOS, study="three", columns=("a", "b", "c"))
    header, _ = three.request("pca.local_total").as_message()
    header |= {"kind": "plan", "parties": list(SILOS), "varying": True}
    assert {reply.header["rule"] for reply in three.ask_all(header).values()} == {
        "allow_roster_change"
    }


def test_a_study_that_nobody_approved_compares_nothing():
    here = federation(tables(3.5, 3.5, 3.5), "kind")
    for party in here.parties.values():
        party._studies._asks_people = True
    planned = plan(up.LinearDiscriminantAnalysis(), here.federation, "kind")
    assert refused(planned) == set()
    assert len(notes(planned)) == 1
    assert here.wire.of_kind("compared") == []


def test_a_silo_that_may_refuse_no_more_compares_nothing():
    policy = up.Policy(max_refusals=1)
    here = federation(tables(3.5, 3.5, 3.5), "kind", policy=policy)
    # That a column is constant was the one answer about rows which it gives.
    planned = plan(up.LinearDiscriminantAnalysis(), here.federation, "kind")
    assert here.wire.of_kind("compared") == []
    assert "constant_columns" not in {rule for _, rule in refused(planned)}


def test_a_reply_that_a_silo_did_not_sign_ends_the_plan():
    here = federation(tables(3.5, 3.5, 3.5), "kind")

    def altered(replies):
        return [
            (party, data.replace(b'"compared"', b'"comparee"'))
            for party, data in replies
        ]

    here.wire.on_replies = altered
    with pytest.raises(up.errors.AggregationError):
        plan(up.LinearDiscriminantAnalysis(), here.federation, "kind")


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner)
    ),
    max_leaves=8,
)


@given(JSON, st.sampled_from(["compared", "refused"]))
def test_shares_are_read_from_anything_without_an_error(said, found):
    read = shares_of({"kind": found, "shares": said}, ["c", "d"])
    assert set(read) <= {"c", "d"}
    assert all(len(share) == 32 for share in read.values())


PARTS = ("parties", "offers", "columns", "study", "session", "partition")


@pytest.fixture(scope="module")
def told() -> Silos:
    here = federation(tables(3.5, 3.5, 3.5), "kind")
    plan(up.LinearDiscriminantAnalysis(), here.federation, "kind")
    return here


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(["offer comparison", "compare constants"]),
    st.dictionaries(st.sampled_from(PARTS), JSON),
)
def test_a_silo_answers_any_question_with_a_rule(told, found, said):
    header = {
        "study": "study",
        "session": "s",
        "parties": list(SILOS),
        "partition": "rows",
        "columns": ["c"],
        "offers": {},
    }
    (reply,) = told.answers(
        {"north": encode({**header, **said, "kind": found}, {})}
    ).values()
    assert decode(reply).header["kind"] in {"refused", "error", "offer"}

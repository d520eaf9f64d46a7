"""A plan is the ledger, line by line, before anything has left."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline

import unpooled as up
from unpooled.arrays import Array
from unpooled.data import heart_disease
from unpooled.errors import RULES, AggregationError, DataError, ReleaseRefusedError
from unpooled.ledger import Ledger
from unpooled.models.base import FederatedEstimator
from unpooled.models.model_selection.cross_validation import CrossValidation
from unpooled.models.moments import local_squares, local_total
from unpooled.protocol.message import decode
from unpooled.protocol.step import disclosed, kept
from wire import Silos, kind, rows, silos

SECRET = 918273.5
DERIVED = up.DerivedColumns({"new": "x1 * flag"}), up.StandardScaler()


@disclosed(largest="p")
def shown(X: Array) -> dict[str, Array]:
    return {"largest": X.max(axis=0)}


@kept(mean="p")
def stays_here(X: Array) -> dict[str, Array]:
    return {"mean": X.mean(axis=0)}


class Everything(FederatedEstimator):
    """Uses every verb, and a total that only the parties may open."""

    def _fit(self, federation: up.Federation, y: Any) -> None:
        asked = federation.asked_by("pca")
        totals = asked.sum(local_total, to="parties")
        asked.sum(local_squares, mean=totals["total"])
        for values in federation.collect(shown).values():
            assert values["largest"].shape == (federation.n_features,)
        federation.keep(stays_here)


@pytest.fixture
def here() -> Silos:
    tables = {name: rows(40, 4, i) for i, name in enumerate("cab")}
    for X in tables.values():
        X[3, 1] = SECRET
    # One row carries x1, which the silos allow here.
    return silos(tables, policy={"allow_disclosed": True, "max_leverage": 1.0})


MODELS = {
    "imputer": lambda: up.SimpleImputer(),
    "constant": lambda: up.SimpleImputer(strategy="constant"),
    "scaler": lambda: up.StandardScaler(),
    "centring": lambda: up.StandardScaler(with_std=False),
    "pca": lambda: up.PCA(2),
    "all components": lambda: up.PCA(),
    "share": lambda: up.PCA(0.9),
    "pipeline": lambda: make_pipeline(
        up.SimpleImputer(), up.StandardScaler(), up.PCA(2)
    ),
    "twice": lambda: make_pipeline(
        up.StandardScaler(), up.PCA(3), up.StandardScaler(), up.PCA(2)
    ),
    "every verb": lambda: Everything(),
}
FIELDS = (
    "study",
    "round",
    "step",
    "name",
    "shape",
    "dtype",
    "bytes",
    "visibility",
    "direction",
)


def told(lines: Any) -> list[tuple[Any, ...]]:
    return [
        (*(getattr(x, field) for field in FIELDS), sorted(x.parties)) for x in lines
    ]


@pytest.mark.thinned
@pytest.mark.parametrize("secure_sum", ["masked", "plain"])
@pytest.mark.parametrize("model", MODELS)
def test_the_plan_is_the_ledger_line_by_line(model, secure_sum):
    tables = {name: rows(40, 4, i) for i, name in enumerate("cab")}
    here = silos(tables, secure_sum=secure_sum, policy={"allow_disclosed": True})
    plan = up.plan(MODELS[model](), here.federation)
    before = len(here.ledger)

    MODELS[model]().fit(here.federation)

    assert before == 0
    assert told(plan.releases) == told(here.ledger)
    assert plan.bytes == here.ledger.bytes_out()
    assert plan.bytes_in == sum(x.bytes for x in here.ledger if x.direction == "in")
    assert plan.rounds == len({line.round for line in here.ledger})
    assert plan.refusals == ()
    assert plan.protection == secure_sum
    assert sorted(plan.parties) == ["a", "b", "c"]


@pytest.mark.slow
def test_the_plan_of_the_heart_study_is_its_ledger():
    federation = up.simulate(heart_disease.load(), label="num", study="heart")
    pipeline = make_pipeline(up.SimpleImputer(), up.StandardScaler(), up.PCA(5))
    plan = up.plan(pipeline, federation)
    pipeline.fit(federation)
    assert told(plan.releases) == told(federation.ledger)
    assert plan.rounds == 8
    assert {x.visibility for x in federation.ledger if x.direction == "out"} == {
        "summed"
    }


def test_the_plan_of_a_view_and_of_a_fold(here):
    train, _ = here.federation.select(["x2", "x0"]).folds(2, random_state=0)[0]
    plan = up.plan(up.PCA(2), train)
    up.PCA(2).fit(train)
    assert told(plan.releases) == told(here.ledger)


def test_a_plan_leaves_no_trace(here):
    model = up.PCA(2)
    up.plan(model, here.federation)

    assert len(here.ledger) == 0
    assert here.federation.rounds == []
    assert not hasattr(model, "components_")
    assert {kind(data) for _, data in here.wire.sent} == {"plan"}
    for party in here.parties.values():
        assert party.studies == {}
        assert party._sessions == {}
    # And the study goes on as if it had not been: rounds, history, masks.
    model.fit(here.federation)
    assert [x.round for x in here.ledger] == [1, 1, 2, 2, 2, 3, 3]
    assert here.ledger.verify(here.roster)


def test_a_plan_between_two_fits_changes_nothing(here):
    up.PCA(2).fit(here.federation)
    up.plan(up.PCA(2), here.federation)
    up.PCA(2).fit(here.federation)
    assert here.ledger.verify(here.roster)
    assert here.ledger[-1].round == 6


def test_what_the_silos_say_to_a_plan_holds_no_numbers(here):
    up.plan(up.PCA(2), here.federation)
    for _, data in here.wire.received:
        message = decode(data)
        assert message.arrays == {}
        said = {"rule": "", "columns": [], "complete_in": [], "further": True}
        assert set(message.header) == {"party", "request", "kind", *said}
        assert {name: message.header[name] for name in said} == said


def test_refusals_are_foretold_and_come_true():
    tables = {"a": rows(9, 4), "b": rows(40, 4, 1), "c": rows(10, 4, 2)}
    here = silos(tables, policy={"b": {"allowed_steps": ["pca.local_*"]}})
    plan = up.plan(make_pipeline(up.StandardScaler(), up.PCA(2)), here.federation)

    assert plan.refusals == (
        ("a", "scaler.local_counts", "min_rows"),
        ("b", "scaler.local_counts", "allowed_steps"),
        ("a", "scaler.local_observed", "min_rows"),
        ("b", "scaler.local_observed", "allowed_steps"),
        ("a", "scaler.local_squares", "min_rows"),
        ("b", "scaler.local_squares", "allowed_steps"),
        ("a", "pca.local_total", "min_rows"),
        ("a", "pca.local_squares", "min_rows"),
        ("a", "pca.local_scatter", "min_rows"),
        ("c", "pca.local_scatter", "max_feature_ratio"),
    )
    text = str(plan)
    few, _, ratio = text.partition("Refused by max_feature_ratio: ")
    assert "\n  c: pca.local_scatter\n" in ratio
    # By rule, with what can be done: three of them, not a line for each step.
    few = few.partition("Refused by min_rows: ")[2]
    assert "\n  a: scaler.local_counts, scaler.local_observed, scaler" in few
    assert RULES["min_rows"][1] in few
    assert text.count("Refused by") == 3
    assert "Refused by min_rows" in plan._repr_html_()
    with pytest.raises(Exception, match=r"a refused scaler.local_counts: min_rows"):
        up.StandardScaler().fit(here.federation)


def with_one(what):
    """Return tables in which one row of b is of a class, or lacks a cell of x0."""
    rng = np.random.default_rng(0)
    tables = {}
    for name in "abc":
        table = pd.DataFrame(rng.standard_normal((40, 3)), columns=["x0", "x1", "x2"])
        table["kind"] = np.where(np.arange(40) < 20, "one", "two")
        table.loc[:4, "x0"] = np.nan
        tables[name] = table
    b = tables["b"]
    if what == "class":
        b["kind"] = np.where(np.arange(40) < 1, "one", "two")
    elif what == "cell":
        b["x0"] = np.where(np.arange(40) < 1, np.nan, b.x0.fillna(1.0))
    return tables


@pytest.mark.thinned(1)
@pytest.mark.parametrize(
    ("model", "what"),
    [
        (up.Describe(), "class"),
        (make_pipeline(up.SimpleImputer(), up.LinearDiscriminantAnalysis()), "class"),
        (up.SimpleImputer(add_indicator=True), "cell"),
        (up.Correlation("pairwise"), "cell"),
    ],
    ids=repr,
)
def test_a_single_row_of_a_class_and_a_single_missing_cell_are_foretold(model, what):
    here = up.simulate(with_one(what), label="kind", follow=True)
    foretold = {(party, rule) for party, _, rule in up.plan(model, here).refusals}
    assert foretold == {("b", "min_own_cells")}
    with pytest.raises(ReleaseRefusedError, match=r"b refused .* min_own_cells"):
        model.fit(here)


def with_one_flag():
    """Return tables in which one row of b has a flag."""
    tables = with_one("none")
    for name, table in tables.items():
        table["x0"] = np.random.default_rng(1).standard_normal(40)
        table["flag"] = np.where(np.arange(40) == 7, float(name == "b"), 0.0)
    return tables


@pytest.mark.slow
@pytest.mark.parametrize("before", [(), (up.StandardScaler(),)], ids=repr)
def test_a_plan_of_folds_costs_one_refusal(before):
    """Each fold would be another one, and the silo then answer nothing for 30 days."""
    policy = {"max_refusals": 2, "max_released_share": 9.0}
    here = up.simulate(with_one_flag(), label="kind", policy=policy)
    model = make_pipeline(*before, up.LinearDiscriminantAnalysis())
    plan = up.plan(CrossValidation(model, cv=5), here)
    refused = ("b", "discriminant.local_within_scatter", "max_leverage")
    assert plan.refusals == (refused,)
    with pytest.raises(ReleaseRefusedError, match="max_leverage"):
        model.fit(here)
    # The fit repeated the plan's verdict.
    up.PCA(2).fit(here.select(["x0", "x1", "x2"]))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("between", "rule"),
    [
        ((), "max_leverage"),
        ((up.StandardScaler(),), "max_leverage"),
        (DERIVED, "derived_rows"),
    ],
    ids=repr,
)
def test_a_row_that_carries_a_column_is_foretold_behind_fitted_steps(between, rule):
    """Its leverage is no less beside other columns, whatever fills their cells."""
    tables = with_one_flag()
    for table in tables.values():
        table.loc[20:, "x0"] = np.nan
    here = up.simulate(tables, label="kind", follow=True)
    model = make_pipeline(up.SimpleImputer(), *between, up.PCA(2))
    foretold = {(party, rule) for party, _, rule in up.plan(model, here).refusals}
    assert foretold == {("b", rule)}
    with pytest.raises(ReleaseRefusedError, match=f"b refused .* {rule}"):
        model.fit(here)
    # The plan's verdict is about columns as they are, and others are asked about.
    up.PCA(2).fit(here.select(["x1", "x2"]))


def test_a_plan_refuses_no_column_for_what_fills_its_cells():
    tables = with_one_flag()
    for table in tables.values():
        table.loc[20:, "flag"] = np.nan
        table.loc[30:, "x0"] = np.nan
    here = up.simulate(tables, label="kind", follow=True)
    plan = up.plan(make_pipeline(up.SimpleImputer(), up.PCA(2)), here)
    assert plan.refusals == ()


def test_two_parties_are_foretold():
    here = silos({name: rows(seed=i) for i, name in enumerate("ab")})
    plan = up.plan(up.SimpleImputer(), here.federation)
    assert plan.refusals == (
        ("a", "imputer.local_counts", "min_parties"),
        ("b", "imputer.local_counts", "min_parties"),
        ("a", "imputer.local_observed", "min_parties"),
        ("b", "imputer.local_observed", "min_parties"),
    )


def test_a_party_that_is_not_there_is_noticed(here):
    here.wire.on_request = lambda party, data: None if party == "b" else data
    with pytest.raises(AggregationError, match="b did not answer plan"):
        up.plan(up.PCA(2), here.federation)


def test_what_a_fit_would_refuse_before_asking_a_plan_refuses_too(here):
    with pytest.raises(DataError, match="n_components"):
        up.plan(up.PCA(9), here.federation)
    with pytest.raises(DataError, match="takes a Federation"):
        up.PCA(2).fit(np.zeros((3, 3)))


def test_a_plan_needs_a_federation(here):
    table: Any = np.ones((30, 3))
    # In the tests the annotation is checked before the function is.
    with pytest.raises((DataError, TypeError)):
        up.plan(up.PCA(), table)


def test_a_plan_reads_well(here):
    plan = up.plan(up.PCA(2), here.federation)
    text = str(plan)
    assert text.startswith("3 parties, 3 rounds, each sends")
    assert "(masked)" in text
    assert len(text.splitlines()) == 3 + len(plan.releases)


def test_equal_rounds_of_a_search_are_printed_once():
    X = np.random.default_rng(0).normal(size=(2000, 9))
    tables = {"a": X[:, :3], "b": X[:, 3:5], "c": X[:, 5:]}
    federation = up.simulate(tables, partition="columns", aligned=True)
    plan = up.plan(up.PCA(2), federation)

    assert plan.rounds == 102
    assert str(Ledger(plan.releases)).count("pca.own_image") == 2
    assert "\n2 to 101  " in str(plan)
    assert ">2 to 101</td>" in plan._repr_html_()

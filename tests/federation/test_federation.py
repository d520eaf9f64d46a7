"""Views of a federation: columns, what they share, and the verbs."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn.decomposition
from numpy.testing import assert_allclose, assert_array_equal

from silo_rows import NAMES, SIZES, frames, rows_of
from twins import assert_same_pca
from unpooled import PCA, Policy, simulate
from unpooled.errors import DataError
from unpooled.models.moments import local_total
from unpooled.protocol.step import derived, disclosed, kept, summed


@disclosed(count="")
def own_count(X):
    return {"count": np.array(len(X), float)}


@kept(total="p")
def own_total(X):
    return {"total": X.sum(axis=0)}


@pytest.fixture
def federation():
    return simulate(frames(), label="sick", policy=Policy.open())


# --- Columns -------------------------------------------------------------------------


def test_what_a_federation_says_of_itself(federation):
    assert federation.partition == "rows"
    assert federation.parties == ("a", "b", "c")
    assert federation.feature_names == tuple(NAMES)
    assert federation.n_features == 4
    assert federation.label == "sick"
    assert federation.named
    assert len(federation.ledger) == 0
    assert repr(federation) == "<Federation: 3 parties, 4 columns, partition by rows>"


def test_select_keeps_columns_in_the_order_asked(federation):
    view = federation.select(["height", "age"])
    assert view.feature_names == ("height", "age")
    for party, X in rows_of(view).items():
        assert_array_equal(X, frames()[party][["height", "age"]])
    assert federation.feature_names == tuple(NAMES), "the federation itself changed"


def test_select_twice_is_select_once(federation):
    once = federation.select(["weight", "age"])
    twice = once.select(["weight", "age"])
    assert twice.feature_names == once.feature_names
    for party, X in rows_of(once).items():
        assert_array_equal(rows_of(twice)[party], X)
    narrower = federation.select(NAMES).select(["age"])
    for party, X in rows_of(federation.select("age")).items():
        assert_array_equal(rows_of(narrower)[party], X)


def test_a_model_sees_the_selected_columns_only(federation):
    pca = PCA().fit(federation.select(["weight", "pulse"]))
    pooled = pd.concat(frames().values())[["weight", "pulse"]].to_numpy()
    assert_same_pca(pca, sklearn.decomposition.PCA(svd_solver="full").fit(pooled))
    assert_array_equal(pca.feature_names_in_, ["weight", "pulse"])


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        (["age", "sick"], "no column 'sick'. It has 'age', 'pulse'"),
        (["Age"], "no column 'Age'. Did you mean 'age' for 'Age'"),
        ([], "at least one column"),
        (["age", "age"], "none twice"),
    ],
)
def test_impossible_selections(federation, columns, said):
    with pytest.raises(DataError, match=said):
        federation.select(columns)


def test_views_share_ledger_and_rounds(federation):
    view = federation.select(["age", "pulse"])
    PCA(1).fit(view)
    assert view.ledger is federation.ledger
    assert len(federation.ledger) > 0
    assert view.rounds is federation.rounds


# --- Verbs ---------------------------------------------------------------------------


def test_steps_are_declared_where_silos_look_for_them(federation):
    @summed(total="p")
    def local_total(X: Any) -> Any:
        return {"total": X.sum(axis=0)}

    @derived(takes={}, fitted_by=())
    def shifted(X: Any) -> Any:
        return X + 1.0

    with pytest.raises(
        DataError, match=r"find test_federation.local_total. .* top of a mod"
    ):
        federation.sum(local_total)
    with pytest.raises(DataError, match=r"not find test_federation.shifted"):
        federation.derive(shifted, NAMES)
    assert not len(federation.ledger)


def test_each_verb_takes_the_steps_declared_for_it(federation):
    for ask, said in (
        (lambda: federation.sum(own_count), "is declared disclosed, not summed"),
        (lambda: federation.collect(local_total), "is declared summed, not disclosed"),
        (lambda: federation.keep(local_total), "is declared summed, not kept"),
        (lambda: federation.sum(local_total, to="me"), 'choose "coordinator" or'),
    ):
        with pytest.raises(DataError, match=said):
            ask()
    assert len(federation.ledger) == 0


def test_sum_collect_and_keep(federation):
    totals = federation.sum(local_total)
    everything = pd.concat(frames().values())[NAMES].to_numpy()
    assert_allclose(totals["total"], everything.sum(axis=0), rtol=1e-14)
    assert float(totals["count"]) == sum(SIZES.values())

    counts = federation.collect(own_count)
    assert {party: float(c["count"]) for party, c in counts.items()} == SIZES

    assert federation.keep(own_total) is None
    line = federation.ledger[-1]
    assert (line.visibility, line.direction, line.bytes) == ("kept", "in", 0)
    assert federation.ledger.verify()


@pytest.mark.parametrize("value", [object(), {1, 2}, b"bytes"])
def test_arguments_that_cannot_travel(federation, value):
    with pytest.raises(DataError, match="numbers, texts and arrays of numbers"):
        federation.sum(local_total, mean=value)


def test_a_fit_that_fails_leaves_no_session_open(federation):
    with pytest.raises(DataError), federation.fitting():
        federation.sum(local_total, mean=1.0)
    pca = PCA(1).fit(federation)
    assert pca.n_samples_ == sum(SIZES.values())

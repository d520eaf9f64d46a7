"""Fits brought up to date: the refit's answer, for one secure sum and few rows read."""

import functools
from typing import Any

import numpy as np
import pytest
import sklearn.decomposition

from line_fields import fields
from twins import assert_same_pca
from unpooled import (
    PCA,
    GaussianPrivacy,
    Policy,
    StandardScaler,
    load,
    plan,
    save,
    simulate,
)
from unpooled.data.row_blocks import Block
from unpooled.data.table import ArrayTable
from unpooled.errors import AggregationError, DataError, ReleaseRefusedError
from unpooled.models.pca import update
from unpooled.party.memory.partial_totals import TotalsCache
from unpooled.party.steps.incremental import run_incrementally
from unpooled.party.views.view import View
from unpooled.protocol.step import find_step
from wire import silos

P = 6
UPDATED = find_step("pca.local_moments")


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(7)
    return rng.standard_normal((400, P)) @ rng.standard_normal((P, P)) + 10.0


def open_silos(tables, **options):
    return simulate(tables, policy=Policy.open(), **options)


def pooled(tables, k=None):
    return sklearn.decomposition.PCA(k, svd_solver="full").fit(
        np.concatenate(list(tables.values()))
    )


def cut(rows, *ends):
    return {
        name: part for name, part in zip("abcde", np.split(rows, ends), strict=False)
    }


@pytest.mark.thinned
@pytest.mark.parametrize(
    ("secure_sum", "k"), [("plain", None), ("masked", 3), ("masked", 0.9)]
)
@pytest.mark.parametrize(
    "change",
    ["appended", "replaced", "joined", "left", "moved"],
)
def test_equals_a_refit(rows, secure_sum, k, change):
    tables = cut(rows[:300], 100, 180)
    model = PCA(k).fit(open_silos(tables, secure_sum=secure_sum))
    if change == "appended":
        tables["b"] = np.concatenate([tables["b"], rows[300:]])
    elif change == "replaced":
        tables["b"] = np.concatenate([rows[300:360], tables["b"][20:]])
    elif change == "joined":
        tables["d"] = rows[300:]
    elif change == "left":
        del tables["b"]
    else:
        tables["c"] = tables["c"] + 3.0
    present = open_silos(tables, secure_sum=secure_sum)

    assert model.update(present) is model

    assert_same_pca(model, pooled(tables, k), rtol=1e-10)
    assert fields(present.ledger, "round step name", direction="out") == [
        (1, "pca.local_moments", "count"),
        (1, "pca.local_moments", "total"),
        (1, "pca.local_moments", "scatter"),
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    "times", [3, *(pytest.param(n, marks=pytest.mark.slow) for n in (30, 100))]
)
def test_no_drift_however_often(rows, times):
    here = silos(cut(rows[:60], 20, 40), policy=Policy.open())
    model = PCA(3).fit(here.federation)
    rng = np.random.default_rng(1)
    tables = cut(rows[:60], 20, 40)
    for turn in range(times):
        name = "abc"[turn % 3]
        tables[name] = np.concatenate([tables[name], rng.normal(9, 2, (1, P))])
        here.parties[name].table = ArrayTable(tables[name])
        model.update(here.federation)
    assert_same_pca(model, pooled(tables, 3), rtol=1e-10)


@pytest.mark.slow
def test_a_silo_reads_only_what_was_appended(rows, monkeypatch):
    here = silos(cut(rows[:300], 100, 200), policy=Policy.open())
    model = PCA(3).fit(here.federation).update(here.federation)
    read = []
    step = update.local_moments.function

    @functools.wraps(step)
    def counting(X, **public):
        read.append(len(X))
        return step(X, **public)

    for named in (update.local_moments, UPDATED):
        object.__setattr__(named, "function", counting)
    try:
        here.parties["a"].table = ArrayTable(np.concatenate([rows[:100], rows[300:]]))
        model.update(here.federation)
        assert read == [100]
        # A row in the middle replaced: that silo reads all of its own again.
        changed = rows[100:200].copy()
        changed[50] += 1.0
        here.parties["b"].table = ArrayTable(changed)
        read.clear()
        model.update(here.federation)
        assert read == [100]
    finally:
        for named in (update.local_moments, UPDATED):
            object.__setattr__(named, "function", step)
    parts = [rows[:100], rows[300:], changed, rows[200:300]]
    theirs = sklearn.decomposition.PCA(3, svd_solver="full").fit(np.concatenate(parts))
    assert_same_pca(model, theirs, rtol=1e-10)


@pytest.mark.slow
def test_a_thousand_appended_rows_are_added_without_drift(rows):
    every = np.concatenate([rows, rows[:100] - 3.0, 9.0 + rows, 2.0 * rows])
    kept, public, found = TotalsCache(), {"origin": rows[0]}, {}
    for n in range(60, 1061):
        view = View(ArrayTable(every[:n]), [])
        found = run_incrementally(UPDATED, view, "key", public, kept)
    moved = every[:1060] - rows[0]
    wanted = {"total": moved.sum(0), "scatter": np.triu(moved.T @ moved)}
    for name, value in wanted.items():
        # A thousand additions, each of at most one unit in the last place.
        size = np.abs(value).max()
        np.testing.assert_allclose(found[name], value, rtol=0, atol=1e-13 * size)


def test_blocks_may_end_anywhere(rows, monkeypatch):
    def blocks_of_seven(table):
        for start in range(0, table.n_rows, 7):
            yield Block(start, table._X[start : start + 7], {})

    kept, public = TotalsCache(), {"origin": rows[0]}
    for n in (50, 50, 53, 140, 139):
        table = ArrayTable(rows[:n])
        view = View(table, [])
        monkeypatch.setattr(view, "blocks", functools.partial(blocks_of_seven, table))
        found = run_incrementally(UPDATED, view, "key", public, kept)
        wanted = update.local_moments(rows[:n], **public)
        for name, value in wanted.items():
            np.testing.assert_allclose(found[name], value, rtol=1e-12, atol=1e-9)


@pytest.mark.slow
def test_a_mean_that_moved_far_is_fitted_anew(rows):
    tables = cut(rows[:300], 100, 200)
    model = PCA(3).fit(open_silos(tables))
    far = {name: part + 1e6 for name, part in tables.items()}
    present = open_silos(far)
    model.update(present)
    assert_same_pca(model, pooled(far, 3))
    assert max(x.round for x in present.ledger) == 4
    assert not hasattr(model, "origin_")


def test_an_update_that_fails_leaves_the_model_as_it_was(rows):
    tables = cut(rows[:300], 100, 200)
    model = PCA(3).fit(open_silos(tables))
    far = silos({name: part + 1e6 for name, part in tables.items()})
    # The first step tells that the mean has moved; the fit that follows is cut short.
    far.wire.on_request = lambda party, data: (
        None if "pca.local_total" in str(data) else data
    )

    with pytest.raises(AggregationError, match="did not answer"):
        model.update(far.federation)

    assert_same_pca(model, pooled(tables, 3))


@pytest.mark.slow
def test_rows_are_transformed_after_an_update(rows):
    tables = cut(rows, 150, 280)
    model = PCA(3).fit(open_silos(tables))
    present = open_silos(tables)
    view = model.update(present).transform(present)
    assert view.n_features == 3
    again = PCA(3).fit(view)
    np.testing.assert_allclose(again.explained_variance_, model.explained_variance_)


@pytest.mark.slow
def test_saves_and_loads_and_goes_on(rows, tmp_path):
    tables = cut(rows[:300], 100, 200)
    model = PCA(3).fit(open_silos(tables)).update(open_silos(tables))
    loaded = load(save(model, tmp_path / "model.unpooled"))
    tables["d"] = rows[300:]
    loaded.update(open_silos(tables))
    assert_same_pca(loaded, pooled(tables, 3), rtol=1e-10)
    np.testing.assert_array_equal(loaded.origin_, model.origin_)


def test_another_roster_needs_leave(rows):
    here = silos(cut(rows, 100, 200, 300))
    model = PCA(3).fit(here.federation)
    coordinator: Any = here.federation.coordinator
    coordinator.parties = ("a", "b", "c")
    coordinator.roster = type(here.roster)({n: here.roster[n] for n in "abc"})
    with pytest.raises(ReleaseRefusedError, match="allow_roster_change"):
        model.update(here.federation)


@pytest.mark.thinned(1)
@pytest.mark.parametrize(
    "options",
    [
        {"bits": 16},
        {"rank": 4},
        {"privacy": GaussianPrivacy(300.0, 1e-5, 60.0)},
        {"svd_solver": "krylov"},
    ],
)
def test_what_cannot_be_updated(rows, options):
    if "privacy" in options:
        pytest.importorskip("opendp")
    federation = open_silos(cut(rows, 150, 280))
    model = PCA(2, **options).fit(federation)
    left = len(federation.ledger)
    with pytest.raises(DataError, match="update"):
        model.update(federation)
    assert len(federation.ledger) == left


def test_other_columns_are_refused(rows):
    model = PCA(2).fit(open_silos(cut(rows, 150, 280)))
    with pytest.raises(DataError, match="expecting 6 features"):
        model.update(open_silos(cut(rows[:, :4], 150, 280)))


@pytest.mark.slow
def test_an_update_is_planned_before_it_runs(rows):
    tables = cut(rows, 150, 280)
    model = PCA(3).fit(open_silos(tables))
    before = model.explained_variance_.copy()
    present = open_silos(tables)
    planned = plan(model, present, update=True)
    assert len(present.ledger) == 0
    np.testing.assert_array_equal(model.explained_variance_, before)
    assert not hasattr(model, "origin_")
    model.update(present)
    assert fields(planned.releases, "step name shape bytes") == fields(
        present.ledger, "step name shape bytes"
    )
    with pytest.raises(DataError, match="no update to plan"):
        plan(StandardScaler(), present, update=True)

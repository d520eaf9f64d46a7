"""Scaling and imputing on column partitions: each silo its own, and nothing leaves."""

import copy

import numpy as np
import pandas as pd
import pytest
import sklearn.impute
import sklearn.preprocessing
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.pipeline import make_pipeline

import unpooled as up
from twins import RTOL, assert_close
from unpooled.arrays import Array
from unpooled.errors import DataError, ReleaseRefusedError, UnpooledError
from unpooled.protocol.step import disclosed

N = 60
OPEN = up.Policy.open()
CUTS = {"balanced": [2, 4], "one-column": [1, 2], "two": [5]}


@disclosed(by="party", rows="N p", missing="N p")
def everything(X: Array) -> dict[str, Array]:
    missing = np.isnan(X)
    return {"rows": np.where(missing, 0.0, X), "missing": missing}


@pytest.fixture(scope="module")
def holes():
    rng = np.random.default_rng(5)
    X = rng.standard_normal((N, 6)) * [1, 2, 3, 1e-3, 1e3, 1] + [0, 1, 2, 10, 4, 5]
    X[rng.random(X.shape) < 0.1] = np.nan
    X[:, 5] = 7.25
    return X


@pytest.fixture(params=list(CUTS))
def cut(request):
    return CUTS[request.param]


def federate(X, cut=(2, 4), policy: up.Policy | dict = OPEN):
    names = [f"c{j}" for j in range(X.shape[1])]
    parts = np.split(np.arange(X.shape[1]), list(cut))
    frame = pd.DataFrame(X, columns=names)
    tables = {f"silo{i}": frame.iloc[:, part] for i, part in enumerate(parts)}
    return up.simulate(tables, partition="columns", policy=policy)


def rows_of(view):
    told = view.collect(everything).values()
    X = np.hstack([one["rows"] for one in told])
    X[np.hstack([one["missing"] for one in told]) == 1.0] = np.nan
    return X


def test_equals_the_twins_on_joined_columns(holes, cut):
    theirs = make_pipeline(
        sklearn.impute.SimpleImputer(), sklearn.preprocessing.StandardScaler()
    ).fit(holes)
    federation = federate(holes, cut)

    ours = make_pipeline(up.SimpleImputer(), up.StandardScaler()).fit(federation)

    assert_close(rows_of(ours.transform(federation)), theirs.transform(holes))
    # New rows, in silos that are asked anew.
    other = np.where(np.isnan(holes), np.nan, holes * 1.5 + 1.0)[:20]
    view = ours.transform(federate(other, cut))
    assert_close(rows_of(view), theirs.transform(other))


def test_nothing_leaves(holes):
    federation = federate(holes, policy={})
    make_pipeline(up.SimpleImputer(), up.StandardScaler()).fit(federation)
    assert {line.visibility for line in federation.ledger} == {"kept"}
    assert [(x.round, x.step, x.name) for x in federation.ledger] == [
        (1, "imputer.own_observed", "count"),
        (1, "imputer.own_observed", "total"),
        (2, "imputer.own_statistics", "statistics"),
        (3, "scaler.own_observed", "count"),
        (3, "scaler.own_observed", "total"),
        (4, "scaler.own_squares", "squares"),
    ]


@pytest.mark.thinned(1)
def test_figures_are_gathered_where_the_silos_allow_it(holes, cut):
    federation = federate(holes, cut)
    imputer = up.SimpleImputer().fit(federation)
    scaler = up.StandardScaler().fit(federation)

    assert len(federation.ledger.to_json()) > 0
    theirs = sklearn.preprocessing.StandardScaler().fit(holes)
    for name in ("mean_", "var_", "scale_"):
        assert_allclose(getattr(scaler, name), getattr(theirs, name), RTOL, 1e-15)
    assert_array_equal(scaler.n_samples_seen_, theirs.n_samples_seen_)
    assert_allclose(imputer.statistics_, np.nanmean(holes, axis=0), RTOL)
    assert federation.ledger[-1].visibility == "disclosed"
    # Asked for once.
    lines = len(federation.ledger)
    _ = scaler.mean_, scaler.transform(holes)
    assert len(federation.ledger) == lines


def test_figures_are_not_shown_unless_the_silos_allow_it(holes):
    scaler = up.StandardScaler().fit(federate(holes, policy={}))
    with pytest.raises(ReleaseRefusedError, match="allow_disclosed"):
        _ = scaler.mean_
    with pytest.raises(ReleaseRefusedError, match="allow_disclosed"):
        scaler.transform(holes)
    with pytest.raises(AttributeError, match="no attribute 'mean'"):
        _ = scaler.mean


def test_a_copy_knows_where_the_silos_part_is(holes, tmp_path):
    federation = federate(holes)
    scaler = up.StandardScaler().fit(federation)
    up.save(scaler, tmp_path / "scaler.unpooled")
    for other in (copy.deepcopy(scaler), up.load(tmp_path / "scaler.unpooled")):
        view = other.transform(federation)
        assert_array_equal(rows_of(view), rows_of(scaler.transform(federation)))
        with pytest.raises(DataError, match="is kept in the silos"):
            _ = other.mean_


@pytest.mark.slow
def test_a_model_is_of_its_last_fit(holes):
    federation = federate(holes)
    scaler = up.StandardScaler().fit(federation)
    _ = scaler.mean_
    scaler.fit(up.simulate(up.partition_rows(holes, 3), policy=OPEN))
    assert not hasattr(scaler, "kept_")
    scaler.fit(federation)
    assert "mean_" not in vars(scaler)


@pytest.mark.parametrize("options", [{"with_mean": False}, {"with_std": False}])
def test_options_are_the_twins(holes, options):
    federation = federate(holes)
    theirs = sklearn.preprocessing.StandardScaler(**options).fit(holes)
    ours = up.StandardScaler(**options).fit(federation)
    X = rows_of(ours.transform(federation))
    assert_allclose(X, theirs.transform(holes), RTOL, 1e-9)


def assert_filled(model, holes, value):
    federation = federate(holes)
    X = rows_of(model.fit(federation).transform(federation))
    assert (X[np.isnan(holes)] == value).all()


def test_constants_fill_too(holes):
    assert_filled(up.SimpleImputer("constant", fill_value=3.5), holes, 3.5)


def test_an_empty_column_is_an_error_unless_it_is_kept(holes):
    empty = holes.copy()
    empty[:, 2] = np.nan
    with pytest.raises(UnpooledError, match="empty_column"):
        up.SimpleImputer().fit(federate(empty))
    kept = up.SimpleImputer(keep_empty_features=True).fit(federate(empty))
    assert kept.statistics_[2] == 0.0


def test_transforms_read_what_was_kept_for_their_own_view(holes):
    """A scaler of some rows standardises all rows by the figures of those."""
    federation = federate(holes)
    train, test = federation.train_test_split(test_size=0.3, random_state=2)
    theirs = sklearn.preprocessing.StandardScaler().fit(rows_of(train))
    scaler = up.StandardScaler().fit(train)
    X = rows_of(scaler.transform(test))
    assert_allclose(X, theirs.transform(rows_of(test)), RTOL, 1e-9)

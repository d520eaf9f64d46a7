"""Views of a federation: columns, rows, folds, fitted transforms."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn.decomposition
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.pipeline import make_pipeline

from twins import assert_close, assert_same_pca
from unpooled import PCA, Policy, StandardScaler, simulate
from unpooled.errors import DataError
from unpooled.models.pca import local_total, projected
from unpooled.models.scaler import standardised
from unpooled.party import operations
from unpooled.party.step import derived, disclosed, kept, summed
from unpooled.party.view import View

SIZES = {"a": 31, "b": 8, "c": 50}
NAMES = ["age", "pulse", "weight", "height"]


@disclosed(count="")
def own_count(X):
    return {"count": np.array(len(X), float)}


@kept(total="p")
def own_total(X):
    return {"total": X.sum(axis=0)}


def frames(sizes=SIZES):
    """Return tables whose rows are told apart by the column `age`."""
    rng = np.random.default_rng(0)
    made, start = {}, 0
    for name, n in sizes.items():
        X = rng.standard_normal((n, 4)) * [1, 2, 3, 4] + [0, 10, 20, 30]
        X[:, 0] = np.arange(start, start + n)
        made[name] = pd.DataFrame(X, columns=NAMES).assign(sick=X[:, 0] % 2)
        start += n
    return made


def table_of(federation, party):
    """Return a silo's own table, as only a test in the same process can."""
    return federation.coordinator.channel._doors[party].__self__.table


def rows_of(federation):
    """Return the rows that steps would read, by silo."""
    found = {}
    for party in federation.parties:
        view = View(table_of(federation, party), federation.operations)
        blocks = list(view.blocks(["sick"] if federation.label else []))
        found[party] = np.concatenate([block.X for block in blocks])
        assert len(found[party]) == view.n_rows, "counted without reading, wrongly"
        assert view.columns == federation.feature_names
        for block in blocks:
            if federation.label and "age" in view.columns and not view.transforms:
                # The label stays beside its row.
                age = block.X[:, view.columns.index("age")]
                assert_array_equal(block.extra["sick"], age % 2)
    return found


@pytest.fixture
def federation():
    return simulate(frames(), label="sick", policy=Policy.open())


def ages(federation):
    return {party: X[:, 0] for party, X in rows_of(federation).items()}


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
        (["age", "sick"], "Unknown columns .'sick'.. The columns are age, pulse"),
        (["Age"], "Unknown columns"),
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


# --- Rows ----------------------------------------------------------------------------


def assert_partition(views_of_parts, whole):
    """Check that every row of every silo is in exactly one part."""
    parts = [ages(view) for view in views_of_parts]
    for party, expected in ages(whole).items():
        found = np.concatenate([part[party] for part in parts])
        assert_array_equal(np.sort(found), expected)


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("n", [2, 3, 8])
def test_folds_partition_the_rows(federation, n, shuffle):
    folds = federation.folds(n, shuffle=shuffle, random_state=3)

    assert len(folds) == n
    assert_partition([test for _, test in folds], federation)
    for train, test in folds:
        assert_partition([train, test], federation)
        for party, size in SIZES.items():
            # Each fold has its share of every silo.
            assert abs(len(ages(test)[party]) - size / n) < 1


def test_unshuffled_folds_deal_rows_in_turn(federation):
    _, test = federation.folds(5, shuffle=False)[2]
    for party, frame in frames().items():
        assert_array_equal(ages(test)[party], frame["age"][2::5])


def test_folds_repeat_by_their_seed_and_differ_without(federation):
    def first(random_state):
        return ages(federation.folds(3, random_state=random_state)[0][1])["c"].tolist()

    assert first(7) == first(7)
    assert first(7) != first(8)
    assert first(None) != first(None)


def test_folds_of_folds(federation):
    train, test = federation.folds(3, random_state=0)[1]
    inner = train.folds(2, random_state=1)
    assert_partition([part for _, part in inner], train)
    assert_partition([test, *[part for _, part in inner]], federation)


@pytest.mark.parametrize("test_size", [0.01, 0.25, 0.5, 0.99])
def test_train_and_test_are_all(federation, test_size):
    train, test = federation.train_test_split(test_size=test_size, random_state=5)
    assert_partition([train, test], federation)
    for party, size in SIZES.items():
        assert len(ages(test)[party]) == np.ceil(test_size * size)


@pytest.mark.parametrize("train_size", [0.1, 0.5, 0.7, 0.9])
def test_a_split_by_its_train_size(train_size):
    federation = simulate(
        frames({"a": 10, "b": 30}), label="sick", policy=Policy.open()
    )
    split = federation.train_test_split(train_size=train_size, random_state=5)
    assert_partition(list(split), federation)
    for party, size in {"a": 10, "b": 30}.items():
        assert len(ages(split[0])[party]) == round(train_size * size)


def test_a_federation_with_a_seed_deals_rows_alike():
    def dealt(seed):
        federation = simulate(frames(), label="sick", random_state=seed)
        views = [test for _, test in federation.folds(3)]
        return [ages(view) for view in [*views, *federation.train_test_split()]]

    def same(first, second):
        return all(
            np.array_equal(one[party], other[party])
            for one, other in zip(first, second, strict=True)
            for party in SIZES
        )

    assert same(dealt(0), dealt(0))
    assert not same(dealt(0), dealt(1))
    assert not same(dealt(None), dealt(None))


def test_a_model_sees_the_rows_of_its_fold_only(federation):
    train, test = federation.folds(3, random_state=0)[0]

    pipe = make_pipeline(StandardScaler(), PCA(2)).fit(train)

    # The pooled twin on the very rows, which only a simulation can gather.
    rows = np.concatenate(list(rows_of(train).values()))
    theirs = sklearn.pipeline.make_pipeline(
        sklearn.preprocessing.StandardScaler(),
        sklearn.decomposition.PCA(2, svd_solver="full"),
    ).fit(rows)
    assert_same_pca(pipe[1], theirs[1])
    for party, scores in rows_of(pipe.transform(test)).items():
        assert_close(scores, theirs.transform(rows_of(test)[party]), 1e-9)


@settings(max_examples=12, deadline=None)
@given(
    stretch=st.integers(1, 40),
    block=st.integers(1, 60),
    of=st.integers(2, 5),
    seed=st.integers(0, 5),
)
def test_folds_do_not_depend_on_how_the_rows_are_read(stretch, block, of, seed):
    # Rows are dealt within stretches; blocks of a file cut across them anywhere.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(operations, "_STRETCH", stretch)
        federation = simulate(frames(), label="sick", policy=Policy.open())
        folds = federation.select(["age"]).folds(of, random_state=seed)
        whole = [ages(test) for _, test in folds]
        patch.setattr("unpooled.data.table.FEWEST_ROWS", block)
        patch.setattr("unpooled.data.table.BLOCK_BYTES", 0)
        in_blocks = [ages(test) for _, test in folds]
        for first, second in zip(whole, in_blocks, strict=True):
            for party in SIZES:
                assert_array_equal(first[party], second[party])
        assert_partition([test for _, test in folds], federation.select(["age"]))


@pytest.mark.parametrize("n", [1, 0, -3])
def test_impossible_folds(federation, n):
    with pytest.raises(DataError, match="whole number of at least 2"):
        federation.folds(n)


@pytest.mark.parametrize("test_size", [0.0, 1.0, -0.1, 5.0])
def test_impossible_splits(federation, test_size):
    with pytest.raises(DataError, match="share between 0 and 1"):
        federation.train_test_split(test_size=test_size)
    with pytest.raises(DataError, match=r"train_size=.* share between 0 and 1"):
        federation.train_test_split(train_size=test_size)
    with pytest.raises(DataError, match="test_size or train_size"):
        federation.train_test_split(test_size=0.5, train_size=0.5)


def test_impossible_seeds(federation):
    with pytest.raises(DataError, match="whole number >= 0"):
        federation.folds(2, random_state=-1)


# --- Transforms ----------------------------------------------------------------------


def test_derived_rows_are_what_the_step_returns(federation):
    mean, scale = np.array([1.0, 2, 3, 4]), np.array([1.0, 2, 1, 2])

    view = federation.derive(standardised, list("wxyz"), mean=mean, scale=scale)

    assert view.feature_names == ("w", "x", "y", "z")
    for party, X in rows_of(view).items():
        assert_array_equal(X, (frames()[party][NAMES].to_numpy() - mean) / scale)


def test_selections_rows_and_transforms_go_on_from_one_another(federation):
    scaler = StandardScaler().fit(federation)
    pca = PCA(3).fit(scaler.transform(federation))
    train, _ = federation.folds(2, shuffle=False)[0]

    view = pca.transform(scaler.transform(train)).select(["pca2", "pca0"])

    for party, frame in frames().items():
        rows = frame[NAMES].to_numpy()[1::2]
        expected = pca.transform(scaler.transform(rows))[:, [2, 0]]
        assert_allclose(rows_of(view)[party], expected, rtol=0, atol=1e-13)


def test_only_selected_columns_are_read_from_the_source(federation):
    view = View(table_of(federation, "a"), federation.select(["pulse"]).operations)
    assert view.source_columns == ("pulse",)


def test_a_transform_takes_the_fitted_columns_in_any_order(federation):
    scaler = StandardScaler().fit(federation)
    turned = federation.select(NAMES[::-1])
    view = scaler.transform(turned)
    assert view.feature_names == tuple(NAMES)
    straight = rows_of(scaler.transform(federation))
    for party, X in rows_of(view).items():
        assert_array_equal(X, straight[party])


def test_a_transform_leaves_columns_out_that_it_was_not_fitted_on(federation):
    scaler = StandardScaler().fit(federation.select(["age", "height"]))
    assert scaler.transform(federation).feature_names == ("age", "height")
    with pytest.raises(DataError, match=r"Unknown columns .'age'"):
        scaler.transform(federation.select(["height", "pulse"]))


@pytest.mark.parametrize(
    ("step", "public", "said"),
    [
        (local_total, {}, "is declared summed, not derived"),
        (standardised, {"mean": np.zeros(4)}, "takes the public arguments"),
        (standardised, {"mean": np.zeros(4), "scale": np.zeros(3)}, "with axes"),
        (standardised, {"mean": np.zeros((4, 1)), "scale": np.ones(4)}, "with axes"),
        (
            projected,
            {"mean": np.zeros(4), "components": np.eye(4, 3), "scale": np.ones(4)},
            "with axes",
        ),
    ],
)
def test_impossible_transforms(federation, step, public, said):
    with pytest.raises(DataError, match=said):
        federation.derive(step, NAMES, **public)


# --- Verbs ---------------------------------------------------------------------------


def test_steps_are_declared_where_silos_look_for_them(federation):
    @summed(total="p")
    def local_total(X: Any) -> Any:
        return {"total": X.sum(axis=0)}

    @derived(takes={}, fitted_by=())
    def shifted(X: Any) -> Any:
        return X + 1.0

    with pytest.raises(DataError, match=r"find test_base.local_total. .* top of a mod"):
        federation.sum(local_total)
    with pytest.raises(DataError, match=r"not find test_base.shifted"):
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

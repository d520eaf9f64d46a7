"""Views of a federation: folds, and rows to train on and to test on."""

import math

import numpy as np
import pytest
import sklearn.decomposition
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from sklearn.pipeline import make_pipeline

from silo_rows import NAMES, SIZES, ages, frames, rows_of, view_of
from twins import assert_close, assert_same_pca
from unpooled import PCA, Policy, StandardScaler, simulate
from unpooled.errors import DataError


@pytest.fixture
def federation():
    return simulate(frames(), label="sick", policy=Policy.open())


def assert_partition(views_of_parts, whole):
    """Check that every row of every silo is in exactly one part."""
    parts = [ages(view) for view in views_of_parts]
    for party, expected in ages(whole).items():
        found = np.concatenate([part[party] for part in parts])
        assert_array_equal(np.sort(found), expected)


def sizes_of_blocks(federation, party):
    """Return the numbers of rows of a silo's blocks."""
    cut = view_of(federation.folds(2, shuffle=False)[0][0], party).cut
    assert cut is not None
    return cut.sizes


@pytest.mark.thinned
@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("n", [2, 3, 8])
def test_folds_partition_the_rows(federation, n, shuffle):
    folds = federation.folds(n, shuffle=shuffle, random_state=3)

    assert len(folds) == n
    assert_partition([test for _, test in folds], federation)
    for train, test in folds:
        assert_partition([train, test], federation)
        for party in SIZES:
            # Each fold has its share of every silo's blocks.
            sizes = sorted(sizes_of_blocks(federation, party))
            least = len(sizes) // n
            most = sum(sizes[-least - 1 :])
            assert sum(sizes[:least]) <= len(ages(test)[party]) <= most


@pytest.mark.slow
def test_a_silo_with_fewer_blocks_than_folds_has_no_rows_in_some():
    sizes = {"a": 200, "b": 35, "c": 200, "d": 200}
    # Ten fits of b's 35 rows are more numbers than the budget has room for.
    policy = {"max_released_share": math.inf}
    federation = simulate(frames(sizes), label="sick", policy=policy).select(NAMES[:3])
    folds = federation.folds(5, random_state=0)
    assert_partition([test for _, test in folds], federation)
    of_b = [len(ages(test)["b"]) for _, test in folds]
    assert sorted(map(bool, of_b)) == [False, False, True, True, True]
    for train, test in folds:
        for view in (train, test):
            pooled = np.concatenate(list(rows_of(view).values()))
            assert_same_pca(
                PCA(2).fit(view),
                sklearn.decomposition.PCA(2, svd_solver="full").fit(pooled),
            )


@pytest.mark.slow
def test_unshuffled_folds_are_the_same_each_time(federation):
    first, second = (federation.folds(5, shuffle=False) for _ in range(2))
    for (_, one), (_, other) in zip(first, second, strict=True):
        for party in SIZES:
            assert_array_equal(ages(one)[party], ages(other)[party])


def test_folds_repeat_by_their_seed_and_without(federation):
    def first(random_state):
        return ages(federation.folds(3, random_state=random_state)[0][1])["c"].tolist()

    assert first(7) == first(7)
    assert first(7) != first(8)
    # A second study has the same folds, where differences would be refused.
    with federation.fitting():
        assert first(None) == first(None) == first(0)


def test_folds_of_folds(federation):
    train, test = federation.folds(3, random_state=0)[1]
    inner = train.folds(2, random_state=1)
    assert_partition([part for _, part in inner], train)
    assert_partition([test, *[part for _, part in inner]], federation)


@pytest.mark.thinned(1)
@pytest.mark.parametrize("test_size", [0.01, 0.25, 0.5, 0.99])
def test_train_and_test_are_all(federation, test_size):
    train, test = federation.train_test_split(test_size=test_size, random_state=5)
    assert_partition([train, test], federation)
    for party in SIZES:
        sizes = sizes_of_blocks(federation, party)
        K = len(sizes)
        few, many = (
            max(int(test_size * K - 0.5), 1),
            min(int(test_size * K + 1.5), K - 1),
        )
        least, most = sum(sorted(sizes)[:few]), sum(sorted(sizes)[-max(many, 1) :])
        assert least <= len(ages(test)[party]) <= most


@pytest.mark.thinned(1)
@pytest.mark.parametrize("train_size", [0.1, 0.5, 0.7, 0.9])
def test_a_split_by_its_train_size(train_size):
    # Of 10 rows and 200, in 10 blocks and 20.
    sizes = {"a": 10, "b": 200}
    federation = simulate(frames(sizes), label="sick", policy=Policy.open())
    split = federation.train_test_split(train_size=train_size, random_state=5)
    assert_partition(list(split), federation)
    for party, size in sizes.items():
        n = len(ages(split[0])[party])
        assert abs(n - train_size * size) <= size / min(size, 20)


def test_one_block_is_on_one_side():
    federation = simulate(frames({"a": 19, "b": 40, "c": 40}), label="sick")
    train, test = federation.train_test_split(random_state=0)
    assert_partition([train, test], federation)
    assert sorted(len(ages(view)["a"]) for view in (train, test)) == [0, 19]


@pytest.mark.slow
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
    # Of other blocks in each federation.
    deal = [simulate(frames(), label="sick", random_state=seed) for seed in (None, 0)]
    none, zero = ([view.operations for _, view in one.folds(3)] for one in deal)
    assert none == zero


@pytest.mark.slow
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


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(
    block=st.integers(1, 60),
    of=st.integers(2, 5),
    seed=st.integers(0, 5),
)
def test_folds_do_not_depend_on_how_the_rows_are_read(block, of, seed):
    with pytest.MonkeyPatch.context() as patch:
        federation = simulate(frames(), label="sick", policy=Policy.open())
        folds = federation.select(["age"]).folds(of, random_state=seed)
        whole = [ages(test) for _, test in folds]
        patch.setattr("unpooled.data.row_blocks.FEWEST_ROWS", block)
        patch.setattr("unpooled.data.row_blocks.BLOCK_BYTES", 0)
        in_blocks = [ages(test) for _, test in folds]
        for first, second in zip(whole, in_blocks, strict=True):
            for party in SIZES:
                assert_array_equal(first[party], second[party])
        assert_partition([test for _, test in folds], federation.select(["age"]))


@pytest.mark.parametrize("n", [1, 0, -3, 21])
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

"""KBinsDiscretizer equals scikit-learn's on pooled rows, within the silos' rules."""

import numpy as np
import pytest
import sklearn.preprocessing as theirs
from numpy.testing import assert_allclose, assert_array_equal

import unpooled as up
from unpooled.errors import DataError, ReleaseRefusedError
from unpooled.testing import check_estimator

# An edge between two values is their weighted mean, rounded once or twice.
RTOL = 1e-14


@pytest.fixture(scope="module")
def rows():
    """Rows with a column of many equal values, and one that never varies."""
    rng = np.random.default_rng(6)
    X = np.exp(rng.standard_normal((203, 4))) * [1.0, 10.0, 1e4, 1.0]
    X[:, 1] = np.where(rng.random(203) < 0.55, 0.0, np.floor(X[:, 1]))
    X[:, 3] = 7.0
    return X


def silos(X, cuts=(60, 120), **options):
    return up.simulate(dict(zip("abc", np.split(X, cuts), strict=True)), **options)


def twin_of(X, **parameters):
    twin = theirs.KBinsDiscretizer(
        quantile_method="linear", subsample=None, **parameters
    )
    return twin.fit(X)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Feature 3 is constant", "ignore:Bins whose width")
@pytest.mark.parametrize(
    ("cuts", "strategy", "encode"),
    [
        ((60, 120), "quantile", "ordinal"),
        ((4, 200), "quantile", "onehot-dense"),
        ((60, 120), "uniform", "onehot-dense"),
        ((1, 2), "uniform", "ordinal"),
    ],
)
def test_equals_scikit_learn_on_pooled_rows(rows, cuts, strategy, encode):
    named = {"n_bins": 5, "strategy": strategy, "encode": encode}
    federation = silos(rows, cuts, policy=up.Policy.open(), follow=True)
    twin = twin_of(rows, **named)

    ours = up.KBinsDiscretizer(min_rows=1, **named).fit(federation)

    assert_array_equal(ours.n_bins_, twin.n_bins_)
    for own, other in zip(ours.bin_edges_, twin.bin_edges_, strict=True):
        assert_allclose(own, other, rtol=RTOL)
    new = rows[::-3] * 1.5
    assert_array_equal(ours.transform(new), twin.transform(new))
    assert_array_equal(ours.to_sklearn().transform(new), twin.transform(new))
    assert_array_equal(ours.get_feature_names_out(), twin.get_feature_names_out())
    numbers = twin_of(rows, **named | {"encode": "ordinal"}).transform(rows)
    for own, column in zip(ours.bin_counts_, numbers.T, strict=True):
        # An edge at a value may differ from the twin's in the last digit.
        assert np.abs(own - np.bincount(column.astype(int))).max() <= 1
    made = ours.transform(rows)
    view = ours.transform(federation)
    assert view.feature_names == tuple(ours.get_feature_names_out())
    observed = up.SimpleImputer().fit(view).statistics_
    assert_allclose(observed, made.mean(axis=0), rtol=1e-12)


@pytest.mark.slow
def test_outer_edges_are_nobodys_cells(rows):
    model = up.KBinsDiscretizer(3, strategy="uniform").fit(silos(rows[:, [0]]))
    ordered, edges = np.sort(rows[:, 0]), model.bin_edges_[0]
    assert ordered[0] < edges[0] < ordered[25]
    assert ordered[-25] < edges[-1] < ordered[-1]
    assert_allclose(np.diff(edges), np.diff(edges)[0])


def test_declared_ranges_ask_no_quantile():
    X = np.random.default_rng(3).uniform(20, 90, (200, 2))
    federation, ranges = silos(X), {"x0": [20, 90], "x1": [20.0, 90.0]}
    model = up.KBinsDiscretizer(7, strategy="uniform", ranges=ranges).fit(federation)
    assert_array_equal(model.bin_edges_[1], np.linspace(20, 90, 8))
    assert_array_equal(model.bin_counts_[0], np.histogram(X[:, 0], 7, (20, 90))[0])
    out = {line.step for line in federation.ledger if line.direction == "out"}
    assert out == {"k_bins_discretizer.local_bins"}


@pytest.mark.slow
def test_releases_what_the_docstring_says(rows):
    federation = silos(rows[:, :1], follow=True)
    up.KBinsDiscretizer(3).fit(federation)
    out = [line for line in federation.ledger if line.direction == "out"]
    opened = {
        (line.step.split(".")[1], line.name)
        for line in out
        if line.visibility == "summed"
    }
    assert opened == {
        ("found_quantiles", "value"),
        ("found_quantiles", "error"),
        ("local_bins", "count"),
    }
    assert {line.visibility for line in out} == {"summed", "veiled"}


@pytest.mark.slow
def test_two_sets_of_edges_do_not_subtract_to_the_rows_between_them():
    X = np.random.default_rng(4).uniform(0, 1, (300, 2))
    federation = silos(X, (100, 200))

    def bins(n, high, columns=("x0", "x1")):
        view = federation.select(list(columns))
        ranges = {name: [0.0, high] for name in columns}
        model = up.KBinsDiscretizer(n, strategy="uniform", ranges=ranges)
        return model.fit(view)

    first = bins(2, 1.0)
    # The same edges of one column are no other edges, in another view too.
    bins(2, 1.0, ["x1"])
    for n, high in [(2, 1.001), (3, 1.0)]:
        with pytest.raises(ReleaseRefusedError, match="one_setting"):
            bins(n, high, ["x1"])
    moved = first.transform(federation)
    up.StandardScaler().fit(moved)
    # A view with edges that were never counted is refused as well.
    first.bin_edges_ = [edges + np.array([0, 1e-3, 0]) for edges in first.bin_edges_]
    with pytest.raises(ReleaseRefusedError, match="one_setting"):
        up.StandardScaler().fit(first.transform(federation))


def test_bins_of_few_rows_are_refused():
    X = np.random.default_rng(5).uniform(0, 1, (300, 1))
    X[[7, 8, 9, 10], 0] = 5.0
    federation = silos(X, (100, 200))
    model = up.KBinsDiscretizer(2, strategy="uniform", ranges={"x0": [0, 6]})
    view = model.fit(federation).transform(federation)
    with pytest.raises(ReleaseRefusedError, match="min_rows_per_class"):
        up.StandardScaler().fit(view)
    X[[7, 8, 9], 0] = 0.5
    with pytest.raises(ReleaseRefusedError, match="min_own_cells"):
        model.fit(silos(X, (100, 200)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"n_bins": 1}, "a whole number from 2"),
        ({"encode": "onehot"}, "encode='onehot'; choose "),
        ({"strategy": "kmeans"}, "strategy='kmeans'; choose "),
        ({"min_rows": 120}, "Fewer than 240 values"),
        ({"ranges": {"x0": [0, 1]}}, "ranges are for"),
        ({"ranges": {"x1": [0, 1]}, "strategy": "uniform"}, "of each column"),
        ({"ranges": {"x0": [1, 0]}, "strategy": "uniform"}, "of each column"),
        ({"ranges": {"x0": [0, np.inf]}, "strategy": "uniform"}, "infinite"),
    ],
)
def test_mistakes_are_named(rows, parameters, words):
    with pytest.raises(DataError, match=words):
        up.KBinsDiscretizer(**parameters).fit(silos(rows[:, :1]))


@pytest.mark.slow
def test_missing_cells_are_refused(rows):
    X = rows[:, :1].copy()
    X[3] = np.nan
    with pytest.raises(DataError, match="missing_values"):
        up.KBinsDiscretizer(3).fit(silos(X))


@pytest.mark.slow
def test_its_results_have_a_row_for_each_bin(rows):
    model = up.KBinsDiscretizer(3).fit(silos(rows[:, :1]))
    frame = model.summary().to_frame("bins")
    assert_array_equal(frame["n"], model.bin_counts_[0])
    assert_array_equal(frame["from"], model.bin_edges_[0][:-1])


X = np.random.default_rng(1).standard_normal((64, 3))


@pytest.mark.thinned(1)
@pytest.mark.parametrize(
    "check",
    check_estimator(up.KBinsDiscretizer(2), X, generate_only=True),
    ids=repr,
)
def test_checks_of_the_library(check):
    check()

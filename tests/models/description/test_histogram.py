"""Histograms equal NumPy's on pooled rows, but for bins that are withheld."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import unpooled as up
from unpooled.errors import DataError, ReleaseRefusedError
from unpooled.models.description.bins import round_edges
from unpooled.testing import check_estimator


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(400, 3)) * [1.0, 20.0, 1.0] + [0.0, 120.0, 0.0]
    X[:, 2] = rng.integers(1, 5, 400)
    X[rng.random(400) < 0.2, 1] = np.nan
    return X


def silos(X, cuts=(130, 260), **options):
    return up.simulate(dict(zip("abc", np.split(X, cuts), strict=True)), **options)


def counts_of(column, edges):
    """NumPy's, with values beyond the edges in the outermost bins."""
    inside = column[~np.isnan(column)]
    return np.histogram(inside, [-np.inf, *edges[1:-1], np.inf])[0]


@pytest.mark.thinned(1)
@pytest.mark.parametrize("cuts", [(130, 260), (1, 300)])
@pytest.mark.parametrize("secure_sum", ["masked", "plain"])
def test_equal_numpy_on_pooled_rows(rows, cuts, secure_sum):
    open_to_all = {"policy": up.Policy.open(), "secure_sum": secure_sum}
    federation = silos(rows, cuts, **open_to_all)

    found = up.Histogram(8, min_rows_per_class=1).fit(federation)

    for j, edges in enumerate(found.bin_edges_):
        assert_array_equal(found.counts_[j], counts_of(rows[:, j], edges))
    assert_array_equal(found.n_missing_, np.isnan(rows).sum(axis=0))
    frame = found.to_frame()
    assert list(frame) == ["column", "bin", "from", "to", "n", "share"]
    assert_allclose(frame.groupby("column").share.sum(), 1.0)


@pytest.mark.slow
def test_edges_are_round_and_nobodys_cells(rows):
    found = up.Histogram(8, decimals={"x2": 0}).fit(silos(rows, follow=True))
    assert_allclose(np.diff(found.bin_edges_[0]), 1.0, rtol=1e-12)
    assert_allclose(np.diff(found.bin_edges_[1]), 10.0, rtol=1e-12)
    assert_array_equal(found.bin_edges_[2], [0.5, 1.5, 2.5, 3.5, 4.5])
    narrow = up.Histogram(50).fit(silos(rows[:, [1]], follow=True))
    # Ten rows lie at or beyond the end that was found; it is rounded by a unit or less.
    assert narrow.bin_edges_[0][0] > np.nanmin(rows[:, 1])


def test_counts_of_few_people_and_those_that_give_them_back_are_withheld():
    column = np.repeat([0.5, 1.5, 2.5, 3.5], [200, 3, 40, 80])
    model = up.Histogram(4, ranges={"x0": [0, 4]})
    federation = silos(np.random.default_rng(0).permutation(column)[:, None])

    found = model.fit(federation)

    # With 3 goes the next smallest: 323 rows less 280 would be 3 otherwise.
    assert_array_equal(found.counts_[0], [200, np.nan, np.nan, 80])
    assert found.n_missing_[0] == 0
    frame = found.to_frame()
    assert frame.n.isna().sum() == 2
    assert frame.share.isna().all()
    sent = {x.name for x in federation.ledger if x.direction == "out"}
    assert sent == {"inside", "missing", "count", "empty"}
    veiled = {x.name for x in federation.ledger if x.visibility == "veiled"}
    assert veiled == {"inside", "missing"}


@pytest.mark.slow
def test_a_column_has_one_set_of_edges_whichever_model_asks(rows):
    federation = silos(rows[:, :2], follow=True)
    ranges = {"x0": [-3, 3], "x1": [50, 200]}
    up.Histogram(5, ranges=ranges).fit(federation)
    up.Histogram(5, ranges=ranges).fit(federation)
    with pytest.raises(ReleaseRefusedError, match="one_setting"):
        up.Histogram(5, ranges=ranges | {"x0": [-3, 3.01]}).fit(federation)
    cut = up.KBinsDiscretizer(5, strategy="uniform", ranges={"x0": [-3, 3.01]})
    with pytest.raises(ReleaseRefusedError, match="one_setting"):
        cut.fit(federation.select(["x0"]))
    cut.set_params(ranges={"x0": [-3, 3]}).fit(federation.select(["x0"]))


@pytest.mark.slow
def test_a_silo_takes_no_lower_limit_than_its_own(rows):
    model = up.Histogram(5, min_rows_per_class=4)
    with pytest.raises(ReleaseRefusedError, match="min_rows_per_class"):
        model.fit(silos(rows))


@pytest.mark.slow
def test_mistakes_are_named(rows):
    for parameters, words in [
        ({"bins": 1}, "a whole number from 2 to 200"),
        ({"ranges": {"x0": [1, 0]}}, "of each column"),
        ({"min_rows": 201}, "Fewer than 402 values"),
    ]:
        with pytest.raises(DataError, match=words):
            up.Histogram(**parameters).fit(silos(rows[:, :1]))
    with pytest.raises(DataError, match="Histograms are of all rows"):
        up.Histogram().fit(silos(rows).folds(2)[0][0])


@given(
    st.floats(-1e6, 1e6),
    st.floats(1e-6, 1e6),
    st.integers(2, 200),
    st.sampled_from([0.0, 1.0, 0.1, 0.01]),
)
def test_round_edges_cover_with_few_bins(low, length, bins, unit):
    if unit:
        low, length = np.round(low / unit) * unit, np.ceil(length / unit) * unit
    edges = round_edges(low, low + length, bins, unit)
    assert 2 <= len(edges) <= bins + 2
    assert (np.diff(edges) > 0).all()
    # Ends at an edge are on either side of it by a millionth of a bin.
    slack = 1e-5 * length + 1e-8 * max(length, abs(low))
    assert edges[0] <= low + slack
    assert edges[-1] >= low + length - slack


@pytest.mark.slow
def test_a_constant_column_has_one_bin(rows):
    X = np.column_stack([rows[:, 0], np.full(400, 7.0)])
    found = up.Histogram(5).fit(silos(X))
    assert_array_equal(found.counts_[1], [400])
    assert up.HistogramDisplay.from_estimator(found, "x1").name == "x1"
    plt.close("all")


@pytest.mark.slow
def test_displays_draw_counts_and_mark_what_is_withheld():
    column = np.repeat([0.5, 1.5, 2.5, 3.5], [200, 3, 40, 80])[:, None]
    found = up.Histogram(4, ranges={"x0": [0, 4]}).fit(silos(column, (100, 202)))
    display = up.HistogramDisplay.from_estimator(found)
    bars, hidden = display.ax_.containers
    assert [bar.get_height() for bar in bars] == [200, 0, 0, 80]
    assert [bar.get_x() for bar in hidden] == [1.0, 2.0]
    cut = up.KBinsDiscretizer(2, strategy="uniform", ranges={"x0": [0, 4]})
    cut.fit(silos(column, (100, 240)))
    drawn = up.HistogramDisplay.from_estimator(cut, "x0", ax=display.ax_)
    assert_array_equal(drawn.counts, [203, 120])
    with pytest.raises(DataError, match="is none of x0"):
        up.HistogramDisplay.from_estimator(found, "age")
    with pytest.raises(DataError, match="draws a Histogram"):
        up.HistogramDisplay.from_estimator(
            up.PCA(1).fit(silos(np.hstack([column] * 2)))
        )
    plt.close("all")


@pytest.mark.slow
def test_checks():
    check_estimator(up.Histogram(4))

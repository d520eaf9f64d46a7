"""Tables and bars of differences between silos."""

import numpy as np
import pytest
import scipy.stats
from numpy.testing import assert_allclose

import unpooled as up
from unpooled.results.plots.drawing import ACCENT, SECOND, settings


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(2)
    X = rng.standard_normal((240, 4))
    X[:80, 1] += 1.0  # of the first silo: a difference, and the others have none
    parts = dict(zip("abc", np.split(X, [80, 160]), strict=True))
    return up.Heterogeneity().fit(up.simulate(parts)), np.split(X, [80, 160])


@pytest.mark.slow
def test_degrees_of_freedom_stand_in_columns_of_their_own(fitted):
    model, groups = fitted

    table = model.summary().to_frame("columns").set_index("column")

    assert set(table["df_between"]) == {2}
    assert set(table["df_within"]) == {237}
    for j in range(4):
        exact = scipy.stats.f_oneway(*(X[:, j] for X in groups))
        row = table.loc[f"x{j}"]
        assert_allclose(row["f_statistic"], exact.statistic, rtol=1e-9)
        assert_allclose(row["p_value"], exact.pvalue, rtol=1e-9)
        wanted = scipy.stats.f.sf(row["f_statistic"], 2, 237)
        assert_allclose(row["p_value"], wanted, rtol=1e-9)
    tests = model.summary().to_frame("multivariate_tests")
    for _, row in tests.iterrows():
        if row["distribution"] == "F":
            p = scipy.stats.f.sf(row["approximation"], row["df_1"], row["df_2"])
        else:
            p = scipy.stats.chi2.sf(row["approximation"], row["df_1"])
            assert np.isnan(row["df_2"])
        assert_allclose(row["p_value"], p, rtol=1e-9)


def test_p_values_are_written_as_people_write_them(fitted):
    shown = fitted[0].summary().tables["columns"].shown

    texts = {row[0]: row[5] for row in shown}
    assert texts["x1"] == "< 0.001"
    assert all(len(text) == 5 for name, text in texts.items() if name != "x1")


def test_the_alarm_colour_is_that_of_significant_differences(fitted):
    from matplotlib.colors import to_rgba

    exhibit = fitted[0].summary().exhibits[0]
    assert exhibit.picture is not None
    with settings():
        (axes,) = exhibit.picture.draw().axes
        alarm, calm = to_rgba(SECOND), to_rgba(ACCENT)
    colours = [bar.get_facecolor() for bar in axes.patches]

    adjusted = exhibit.tables[0].column("p_adjusted")
    assert colours == [alarm if p < 0.05 else calm for p in adjusted]
    assert {alarm, calm} == set(colours)
    assert "Orange bars have an adjusted p-value below 0.05" in exhibit.text
    # The axis ends where the largest bar does, however small that is.
    largest = max(bar.get_width() for bar in axes.patches)
    assert axes.get_xlim() == pytest.approx((0.0, 1.08 * largest))

"""Results in the report: every number, means where they are new, fitting units."""

import numpy as np
import pytest

import unpooled as up
from report_pages import Page, facts, rows
from unpooled.report.facts import facts_of
from unpooled.report.html import render
from unpooled.report.phrases import byte_size
from unpooled.report.results import results
from unpooled.report.tables import duration, number


def test_numbers_under_every_picture(heart, page):
    pca = heart.models[-1][1]

    assert page.tags.count("svg") == 2
    for share in pca.explained_variance_ratio_:
        assert f"{100 * share:.1f} %" in page.text
    for value in pca.components_.ravel():
        assert f"{value:+.3f}".replace("-", "−") in page.text
    for value in heart.models[0][1].statistics_:
        assert number(value) in page.text


def test_many_columns_are_cut_to_the_largest_and_it_is_said():
    federation = up.simulate(
        up.partition_rows(rows(900, 64), 4), policy={"max_feature_ratio": 1.0}
    )
    pca = up.PCA(8).fit(federation)
    some = facts_of(pca, federation)

    ((result),) = results(some)
    page = Page(render(some))

    loadings = [one for one in result.exhibits if one.heading.startswith("Loadings")]
    assert len(loadings) == 6
    for values, exhibit in zip(pca.components_, loadings, strict=False):
        (table,) = exhibit.tables
        largest = np.argsort(-np.abs(values))[:15]
        assert [row[0] for row in table.rows] == [f"x{j}" for j in largest]
    assert "Of the 64 columns, the 15 with the largest loadings are shown" in page.text
    assert "Of 8 components, the first 6 are shown." in page.text


def test_means_of_standardised_columns_are_not_told_again(heart):
    last = results(heart)[-1]

    assert [one.heading for one in last.exhibits] == ["Explained variance", "Loadings"]


def test_means_of_other_columns_are():
    (result,) = results(facts(4))

    assert result.exhibits[-1].tables[0].head == ("Column", "Mean")


def test_missing_cells_are_counted_over_all_silos_only():
    X = rows()
    X[:7, 1] = np.nan
    federation = up.simulate(up.partition_rows(X, 4))
    scaler = up.StandardScaler().fit(federation)

    (result,) = results(facts_of(scaler, federation))

    (table,) = result.exhibits[0].tables
    assert [row[-1] for row in table.rows] == ["240", "233", "240", "240"]


@pytest.mark.parametrize(
    ("x", "text"),
    [
        (0.0, "0"),
        (53.5107, "53.51"),
        (-0.25, "−0.2500"),
        (246832.4, "246,832"),
        (1e-7, "1.000 × 10⁻⁷"),
        (-9.99996e-7, "−1.000 × 10⁻⁶"),
        (6.02e23, "6.020 × 10²³"),
        (float("nan"), "none"),
    ],
)
def test_numbers_have_four_digits(x, text):
    assert number(x) == text


def test_sizes_and_times_are_in_fitting_units():
    assert [byte_size(n) for n in (0, 9_999, 10_000, 2_511_968)] == [
        "0 bytes", "9,999 bytes", "10.0 kB", "2.5 MB",
    ]  # fmt: skip
    assert [duration(s) for s in (0.00412, 0.2, 75.0)] == [
        "4.1 ms",
        "0.20 s",
        "75.00 s",
    ]

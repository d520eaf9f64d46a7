"""Results in the report: every number, means where they are new, fitting units."""

from types import SimpleNamespace

import numpy as np
import pytest

import unpooled as up
from report_pages import Page, facts, rows
from unpooled.report.exhibits import Exhibit
from unpooled.report.facts import facts_of
from unpooled.report.html import render
from unpooled.report.results import exhibits_of, results
from unpooled.report.results.describe import describe
from unpooled.report.text.phrases import byte_size, duration, number, probability


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


def test_columns_that_silos_keep_to_themselves_are_said_to_be_kept():
    parts = up.partition_columns(rows(60, 6), 3)
    people = up.simulate(parts, partition="columns")

    (result,) = results(facts_of(up.StandardScaler().fit(people), people))

    assert [one.heading for one in result.exhibits] == ["Kept in the silos"]
    assert result.exhibits[0].tables == []


def test_numbers_of_transformed_columns_are_not_taken_for_the_columns_own():
    some = facts(4, model=up.PowerTransformer(comparison="summed"))

    ((exhibit,),) = [result.exhibits for result in results(some)]

    head = (
        "Column",
        "Exponent",
        "Mean, transformed",
        "Standard deviation, transformed",
    )
    assert exhibit.tables[0].head == head
    model = some.models[0][1]
    for row, exponent, variance in zip(
        exhibit.tables[0].rows, model.lambdas_, model.var_, strict=True
    ):
        assert row[1] == number(exponent)
        assert row[3] == number(variance**0.5)


def test_classes_without_a_description_have_their_fitted_attributes_listed():
    fitted = {"n_turns_": 52, "gain_": 0.25, "A_": np.eye(3), "kept_": "x", "tol": 1}
    fitted |= {"names_": np.array(["x", "y"], object), "v_": np.array([1.0, -2.5])}
    fitted |= {"method_": "b", "on_": True, "n_samples_": 3, "f_": len, "z_": None}

    (exhibit,) = describe(SimpleNamespace(**fitted), [])

    assert {row[0]: row[1] for row in exhibit.tables[0].rows} == {
        "A_": "3 × 3 numbers",
        "gain_": "0.2500",
        "method_": "b",
        "n_turns_": "52",
        "names_": "x, y",
        "on_": "yes",
        "v_": "1.000, −2.500",
    }


def test_an_estimator_of_a_user_may_register_its_own_description():
    class Residuals:
        pass

    @describe.register
    def _residuals(model: Residuals, columns: list[str]) -> list[Exhibit]:
        return [Exhibit("Residuals", f"Of {columns[0]}.")]

    assert exhibits_of(Residuals(), ["age"]) == [Exhibit("Residuals", "Of age.")]


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


@pytest.mark.parametrize(
    ("p", "text"),
    [
        (9.463e-115, "9.5 × 10⁻¹¹⁵"),
        (0.0050264, "0.0050"),
        (0.6278, "0.63"),
        (0.0, "0"),
        (1.0, "1.000"),
        (float("nan"), "none"),
    ],
)
def test_p_values_have_two_digits(p, text):
    assert probability(p) == text


def test_sizes_and_times_are_in_fitting_units():
    assert [byte_size(n) for n in (0, 9_999, 10_000, 2_511_968)] == [
        "0 bytes", "9,999 bytes", "10.0 kB", "2.5 MB",
    ]  # fmt: skip
    assert [duration(s) for s in (0.00412, 0.2, 75.0)] == [
        "4.1 ms",
        "0.20 s",
        "75.00 s",
    ]

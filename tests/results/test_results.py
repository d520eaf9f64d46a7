"""Results of models: every number, means where they are new, numbers as written."""

import numpy as np
import pytest

import unpooled as up
from report_pages import Page, fitted, rows
from unpooled.models.base import FederatedEstimator
from unpooled.report.facts import facts_of
from unpooled.report.html import render
from unpooled.results.exhibits import Column, Exhibit
from unpooled.results.formats import byte_size, duration, minute, number, probability
from unpooled.results.summary import summary_of


@pytest.mark.slow
def test_numbers_under_every_picture(heart, page):
    pca = heart.models[-1][1]

    assert page.tags.count("svg") == 4
    for share in pca.explained_variance_ratio_:
        assert f"{100 * share:.1f} %" in page.text
    for value in pca.components_.ravel():
        assert f"{value:+.3f}".replace("-", "−") in page.text
    for value in heart.models[0][1].statistics_:
        assert number(value) in page.text


@pytest.mark.slow
def test_many_columns_are_cut_to_the_largest_and_it_is_said():
    federation = up.simulate(
        up.partition_rows(rows(900, 64), 4), policy={"max_feature_ratio": 1.0}
    )
    pca = up.PCA(8).fit(federation)
    some = facts_of(pca, federation)

    result = summary_of(pca)
    page = Page(render(some))

    loadings = [one for one in result.exhibits if one.heading.startswith("Loadings")]
    assert len(loadings) == 6
    for values, exhibit in zip(pca.components_, loadings, strict=False):
        table = exhibit.on_pages[0]
        largest = np.argsort(-np.abs(values))[:15]
        assert [row[0] for row in table.rows] == [f"x{j}" for j in largest]
    assert "Of the 64 columns, the 15 with the largest loadings are shown" in page.text
    assert "Of 8 components, the first 6 are shown." in page.text


def test_means_of_standardised_columns_are_not_told_again(heart):
    last = heart.models[-1][1].summary()

    assert "means" not in last.tables


def test_means_of_other_columns_are():
    summary = fitted(4)[0].summary()

    heads = [c.heading for c in summary.tables["means"].columns]
    assert heads == ["Column", "Mean", "Standard deviation"]


def test_columns_that_silos_keep_to_themselves_are_said_to_be_kept():
    parts = up.partition_columns(rows(60, 6), 3)
    people = up.simulate(parts, partition="columns")

    result = up.StandardScaler().fit(people).summary()

    assert [one.heading for one in result.exhibits] == ["Kept in the silos"]
    assert result.exhibits[0].tables == []


@pytest.mark.slow
def test_numbers_of_transformed_columns_are_not_taken_for_the_columns_own():
    model, _ = fitted(4, model=up.PowerTransformer(comparison="summed"))

    table = model.summary().tables["columns"]

    assert [column.key for column in table.columns] == [
        "column",
        "exponent",
        "usual_transform_nearby",
        "mean_transformed",
        "standard_deviation_transformed",
        "n",
    ]
    assert table.column("exponent") == model.lambdas_.tolist()
    spread = table.column("standard_deviation_transformed")
    assert spread == np.sqrt(model.var_).tolist()


def test_classes_without_a_description_have_their_fitted_attributes_listed():
    attributes = {
        "n_turns_": 52,
        "gain_": 0.25,
        "A_": np.eye(3),
        "kept_": "x",
        "tol": 1,
    }
    attributes |= {"names_": np.array(["x", "y"], object), "v_": np.array([1.0, -2.5])}
    attributes |= {"method_": "b", "on_": True, "n_samples_": 9, "f_": len, "z_": None}

    class Foreign:
        """An estimator of another library."""

        def __init__(self):
            vars(self).update(attributes)

    summary = summary_of(Foreign())

    shown = summary.tables["fitted_attributes"].shown
    assert {row[0]: row[1] for row in shown} == {
        "A_": "3 × 3 numbers",
        "gain_": "0.2500",
        "method_": "b",
        "n_turns_": "52",
        "names_": "x, y",
        "on_": "yes",
        "v_": "1.000, −2.500",
    }
    # Arrays are in files, with every number.
    assert summary.tables["A"].rows[0] == ("1", 1.0, 0.0, 0.0)
    assert summary.tables["v"].column("value") == [1.0, -2.5]


def test_an_estimator_of_a_user_may_describe_its_results():
    class Residuals(FederatedEstimator):
        def _fit(self, federation, y):
            self.residuals_ = np.ones(2)

        def _exhibits(self, columns):
            return [Exhibit("Residuals", f"Of {columns[0]}.")]

    model = Residuals().fit(up.simulate(up.partition_rows(rows(), 3)))

    assert model.summary().exhibits == [Exhibit("Residuals", "Of x0.")]


def test_missing_cells_are_counted_over_all_silos_only():
    X = rows()
    X[:7, 1] = np.nan
    federation = up.simulate(up.partition_rows(X, 4))
    scaler = up.StandardScaler().fit(federation)

    table = scaler.summary().tables["columns"]
    assert table.column("n") == [240, 233, 240, 240]
    assert table.column("missing") == [0, 7, 0, 0]
    assert [row[1] for row in table.shown] == ["240", "233", "240", "240"]


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
        (9.463e-115, "< 0.001"),
        (0.00099, "< 0.001"),
        (0.0050264, "0.005"),
        (0.6278, "0.628"),
        (0.0, "< 0.001"),
        (1.0, "1.000"),
        (float("nan"), "none"),
    ],
)
def test_p_values_are_as_people_write_them(p, text):
    assert probability(p) == text


def test_sizes_and_times_are_in_fitting_units():
    assert [byte_size(n) for n in (0, 9_999, 10_000, 2_511_968)] == [
        "0 bytes", "9,999 bytes", "10.0 kB", "2.5 MB",
    ]  # fmt: skip
    assert minute("2026-11-26T23:15:09+00:00") == "2026-11-26 23:15"
    assert [duration(s) for s in (0.00412, 0.2, 75.0)] == [
        "4.1 ms",
        "0.20 s",
        "75.00 s",
    ]


def test_headings_that_are_numbers_say_what_they_count_beside_a_single_value():
    headings = [
        Column("2", "signed", "component_2").full_heading,
        Column("0", "number", "class_0").full_heading,
        Column("ill", "number", "class_ill").full_heading,
        Column("95 % from", "number", "low").full_heading,
    ]
    assert headings == ["component 2", "class 0", "ill", "95 % from"]

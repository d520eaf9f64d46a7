"""Tables of imputer, scaler, power transform and rare columns, against pooled rows."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import unpooled as up
from unpooled.data import heart_disease
from unpooled.models.preprocessing.preprocessing_results import usual_transform
from unpooled.report.facts import facts_of
from unpooled.report.text.cautions import cautions
from unpooled.results.summary import summaries_of

# Totals keep twelve digits.
RTOL = 1e-10


@pytest.fixture(scope="module")
def hospitals():
    tables = {name: t.to_pandas() for name, t in heart_disease.load().items()}
    pooled = pd.concat(tables.values()).drop(columns=[heart_disease.LABEL])
    return up.simulate(tables, label=heart_disease.LABEL), pooled.astype(float)


@pytest.fixture(scope="module")
def fitted(hospitals):
    federation, _ = hospitals
    imputer = up.SimpleImputer().fit(federation)
    filled = imputer.transform(federation)
    return imputer, up.StandardScaler().fit(filled), filled


def columns(summary):
    return summary.to_frame("columns").set_index("column")


@pytest.mark.slow
def test_an_imputer_tells_how_much_was_missing_and_what_filling_did(hospitals, fitted):
    _, pooled = hospitals
    imputer, scaler, _ = fitted

    table = columns(summaries_of([imputer, scaler])[0])

    assert (table["n"] == pooled.count()).all()
    assert (table["missing"] == pooled.isna().sum()).all()
    assert_allclose(table["missing_share"], pooled.isna().mean(), rtol=1e-15)
    assert_allclose(table["mean_filled_in"], pooled.mean(), rtol=RTOL)
    assert_allclose(table["sd_before"], pooled.std(ddof=0), rtol=RTOL)
    after = pooled.fillna(pooled.mean()).std(ddof=0)
    assert_allclose(table["sd_after"], after, rtol=RTOL)


@pytest.mark.slow
def test_an_imputer_alone_says_what_was_not_opened(fitted):
    table = fitted[0].summary().tables["columns"]

    assert [column.key for column in table.columns][-1] == "mean_filled_in"
    assert "The number of rows was not opened" in table.note
    assert "Standard deviations were not opened" in table.note
    assert "More than a third of slope, ca and thal was filled in." in table.note


def test_a_scaler_of_other_rows_tells_nothing_of_the_imputers(fitted):
    imputer, _, filled = fitted
    other = up.StandardScaler().fit(filled.select(["age", "chol"]))

    table = summaries_of([imputer, other])[0].tables["columns"]

    assert "sd_before" not in [column.key for column in table.columns]
    assert "The number of rows was not opened" not in table.note


def test_the_report_warns_where_much_was_filled_in(hospitals, fitted):
    imputer, scaler, _ = fitted
    facts = facts_of([imputer, scaler], hospitals[0])

    (found,) = [c for c in cautions(facts) if "filled in" in c.heading]

    assert found.text.startswith("More than a third of slope, ca and thal was missing")
    scaled = facts_of(scaler, hospitals[0])
    assert not any("filled in" in c.heading for c in cautions(scaled))


def test_no_warning_where_less_than_a_third_was_missing():
    X = np.random.default_rng(0).standard_normal((120, 3))
    X[:40, 0] = np.nan  # a third, and not more
    federation = up.simulate(up.partition_rows(X, 3))
    imputer = up.SimpleImputer().fit(federation)

    assert not any(
        "filled in" in c.heading for c in cautions(facts_of(imputer, federation))
    )


def test_a_scaler_tells_means_and_deviations_before_and_after(hospitals):
    _, pooled = hospitals
    constant = pooled.assign(same=3.0)
    federation = up.simulate(up.partition_rows(constant, 3))
    scaler = up.StandardScaler().fit(federation)

    table = columns(scaler.summary())

    assert_allclose(table["mean"], constant.mean(), rtol=RTOL)
    assert_allclose(table["sd_before"], constant.std(ddof=0), rtol=RTOL, atol=1e-12)
    scaled = (constant - scaler.mean_) / scaler.scale_
    assert_allclose(table["mean_after"], scaled.mean(), atol=1e-12)
    assert_allclose(table["sd_after"], scaled.std(ddof=0), rtol=RTOL, atol=1e-12)
    assert (table["missing"] == constant.isna().sum()).all()


@pytest.mark.parametrize(
    ("exponent", "name"),
    [
        (1.0, "none"),
        (0.8, "none"),
        (0.06, "logarithm"),
        (0.34, "cube root"),
        (0.5, "square root"),
        (-0.9, "reciprocal"),
        (1.5, ""),
        (2.1, "square"),
        (40.0, ""),
    ],
)
def test_exponents_have_the_name_of_the_transform_nearby(exponent, name):
    assert usual_transform(exponent) == name


def test_columns_kept_and_left_out_have_their_reason():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((200, 4))
    X[:, 1] = 5.0
    X[:, 2] = 0.0
    X[:6, 2] = 1.0
    federation = up.simulate(up.partition_rows(X, 2), policy=up.Policy.open())
    model = up.RareColumns(min_rows=10).fit(federation)

    table = columns(model.summary())

    assert table["kept"].to_dict() == {
        "x0": "kept",
        "x1": "left out",
        "x2": "left out",
        "x3": "kept",
    }
    assert table["reason"].to_dict() == {
        "x0": "",
        "x1": "never varies",
        "x2": "fewer than 10 rows differ",
        "x3": "",
    }
    # A root of totals that keep twelve digits.
    assert_allclose(table["rows_that_differ"][["x1", "x2"]], [0, 6], atol=1e-6)


@pytest.mark.slow
def test_a_robust_scaler_shows_medians_and_ranges(fitted):
    federation = fitted[2]
    scaler = up.RobustScaler(quantile_range=(10.0, 90.0)).fit(federation)

    (exhibit,) = scaler.summary().exhibits
    table = columns(scaler.summary())

    assert_allclose(table["median"], scaler.center_, rtol=0)
    assert_allclose(table["scale"], scaler.scale_, rtol=0)
    assert "the distance of its 10 % and 90 % quantiles" in exhibit.text
    alone = up.RobustScaler(with_scaling=False).fit(federation).summary()
    assert alone.exhibits[0].text == "A column’s median is subtracted."
    assert list(columns(alone)) == ["median"]


@pytest.mark.slow
def test_a_quantile_transformer_shows_its_quantiles_and_a_page_both_ends(fitted):
    federation = fitted[2]
    model = up.QuantileTransformer(output_distribution="normal").fit(federation)

    (exhibit,) = model.summary().exhibits
    whole, page = exhibit.tables

    assert whole.place == "files"
    assert_allclose(
        np.array([row[1:] for row in whole.rows]), model.quantiles_.T, rtol=0
    )
    assert [c.heading for c in page.columns] == [
        *("Column", "0 %", "21.05 %", "42.11 %", "57.89 %", "78.95 %", "100 %")
    ]
    assert page.column("quantile_0") == model.quantiles_[0].tolist()
    assert page.column("quantile_1") == model.quantiles_[-1].tolist()
    assert page.note == "Of 20 quantiles, 6 are shown."
    assert "the normal quantile of that share" in exhibit.text
    few = up.QuantileTransformer(n_quantiles=3).fit(federation).summary()
    assert [t.place for t in few.exhibits[0].tables] == ["everywhere"]

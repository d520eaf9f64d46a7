"""A transform of each kind of column gives what scikit-learn's gives on pooled rows."""

import numpy as np
import pandas as pd
import pytest
import sklearn.compose
import sklearn.decomposition
import sklearn.impute
import sklearn.preprocessing
from numpy.testing import assert_allclose
from sklearn.pipeline import make_pipeline

import unpooled as up
from unpooled.errors import DataError, ReleaseRefusedError
from unpooled.testing import check_estimator

rng = np.random.default_rng(2)
ROWS = pd.DataFrame(
    {
        "age": rng.normal(50, 9, 240),
        "chol": np.where(rng.random(240) < 0.2, np.nan, rng.normal(200, 30, 240)),
        "site": rng.choice(["north", "south", "east"], 240),
        "sex": rng.choice(["f", "m"], 240),
    }
)
CATEGORICAL = ["site", "sex"]
NUMBERS = np.column_stack([ROWS.age, rng.normal(size=240), rng.integers(0, 3, 240)])


@pytest.mark.parametrize(
    "check",
    check_estimator(
        up.ColumnTransformer(
            [
                {"model": "StandardScaler", "columns": ["x0"]},
                {"model": "OneHotEncoder", "columns": "categorical"},
            ],
            remainder="passthrough",
        ),
        NUMBERS,
        categorical=["x2"],
        expected_failed_checks={"check_ledger": "rounds are those of its parts"},
        generate_only=True,
    ),
    ids=repr,
)
def test_convention(check):
    check()


def silos(**options):
    frames = {f"s{i}": ROWS.iloc[i::3] for i in range(3)}
    return up.simulate(frames, categorical=CATEGORICAL, **options)


@pytest.mark.slow
def test_a_pipeline_of_mixed_columns_is_that_of_scikit_learn():
    here = silos(follow=True)
    ours = make_pipeline(
        up.make_column_transformer(
            (up.SimpleImputer(), "numeric"),
            (up.OneHotEncoder(drop="first"), up.make_column_selector("s*")),
        ),
        up.StandardScaler(),
        up.PCA(3),
    ).fit(here)
    twin = make_pipeline(
        sklearn.compose.make_column_transformer(
            (sklearn.impute.SimpleImputer(), ["age", "chol"]),
            (sklearn.preprocessing.OneHotEncoder(drop="first"), ["site", "sex"]),
        ),
        sklearn.preprocessing.StandardScaler(),
        sklearn.decomposition.PCA(3),
    ).fit(ROWS)
    # Secure sums keep twelve digits; a mean is added up in another order.
    variance = twin[-1].explained_variance_
    assert_allclose(ours[-1].explained_variance_, variance, rtol=1e-9)
    assert_allclose(
        np.abs(ours.transform(ROWS)), np.abs(twin.transform(ROWS)), atol=1e-8
    )


def test_columns_that_pass_stand_first():
    here = silos()
    parts = [(up.OneHotEncoder(), ["sex"]), ("passthrough", ["age"])]
    kept = up.ColumnTransformer(parts, remainder="passthrough").fit(here)
    names = ("age", "chol", "site", "sex_f", "sex_m")
    view = kept.transform(here)
    assert (view.feature_names, view.categorical) == (names, ("site",))
    dropped = up.ColumnTransformer(parts).fit(here)
    assert tuple(dropped.get_feature_names_out()) == ("age", "sex_f", "sex_m")


def test_a_choice_of_columns_names_them_in_its_results():
    """They had a table "fitted_attributes" with the word "passthrough"."""
    rows = {name: pd.DataFrame(np.eye(30, 3), columns=list("abc")) for name in "xyz"}
    chosen = up.ColumnTransformer([("passthrough", ["a", "c"])]).fit(up.simulate(rows))
    (exhibit,) = chosen.summary().exhibits
    assert exhibit.text == "These columns pass as they are: a and c."
    assert not chosen.summary().tables


def test_each_part_has_tables_of_its_own_in_the_results():
    parts = [
        (up.SimpleImputer(), "numeric"),
        (up.SimpleImputer(strategy="most_frequent"), "categorical"),
    ]
    model = up.make_column_transformer(*parts).fit(silos())

    summary = model.summary()
    assert list(summary.tables) == ["columns", "columns_2"]
    missing = {
        column: n
        for name in summary.tables
        for column, n in summary.to_frame(name)[["column", "missing"]].to_numpy()
    }
    assert missing == ROWS.isna().sum().to_dict()

    # Pictures too, with the names of their tables.
    parts = [(up.OneHotEncoder(), ["site"]), (up.OneHotEncoder(), ["sex"])]
    shown = up.make_column_transformer(*parts).fit(silos()).summary()
    assert list(shown.tables) == ["categories", "categories_2"]


def test_a_column_has_one_filling_within_a_transform_too():
    rows = ROWS.assign(chol=ROWS.chol.fillna(200.0))
    rows.loc[[3, 6, 9], "chol"] = np.nan
    frames = {f"s{i}": rows.iloc[i::3] for i in range(3)}
    here = up.simulate(frames, categorical=CATEGORICAL)

    def filled(value):
        imputer = up.SimpleImputer(strategy="constant", fill_value=value)
        parts = [(imputer, ["chol"]), (up.OneHotEncoder(drop="first"), ["sex"])]
        return up.ColumnTransformer(parts).fit(here).transform(here)

    up.PCA(1).fit(filled(150.0))
    with pytest.raises(ReleaseRefusedError, match="another_filling"):
        up.PCA(1).fit(filled(151.0))


def test_missing_cells_of_other_columns_are_still_refused_in_a_plan():
    here = silos()
    model = up.ColumnTransformer([(up.OneHotEncoder(), CATEGORICAL)],
                                 remainder="passthrough")  # fmt: skip
    view = model.fit(here).transform(here)
    assert {rule for _, _, rule in up.plan(up.PCA(1), view).refusals} == {
        "missing_values"
    }


@pytest.mark.parametrize(
    ("transformers", "message"),
    [
        ([], "at least one"),
        ([("pca", up.PCA(1), "numeric")], "is no pair .* name .* is left out"),
        ([("scale", "numeric")], "does not transform rows"),
        ([{"model": "Scaler", "columns": "numeric"}], "needs model, one of the"),
        ([{"model": "PCA", "columns": ["age"], "k": 1}], "unexpected keyword"),
        ([(up.PCA(1), ["ages"])], "Did you mean 'age'"),
        ([(up.PCA(1), {"kind": "text"})], "chooses no columns"),
        ([(up.PCA(1), ["age"]), ("passthrough", ["age"])], "Two transforms read 'age'"),
        (
            [(up.PCA(1), {"pattern": "numeric"})],
            "none of .* is chosen by {'pattern': 'numeric'}. .* kind=\"categorical\"",
        ),
    ],
    ids=repr,
)
def test_what_is_no_transform_is_refused(transformers, message):
    with pytest.raises(DataError, match=message):
        up.ColumnTransformer(transformers).fit(silos())

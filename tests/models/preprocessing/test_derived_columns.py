"""Derived columns are the same in all silos, on new rows, and judged like any other."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn import decomposition
from sklearn.pipeline import make_pipeline

import unpooled as up
from unpooled.data.expressions import EQUAL, PRODUCT, Expression
from unpooled.errors import DataError, ReleaseRefusedError
from unpooled.testing import check_estimator

rng = np.random.default_rng(3)
ROWS = pd.DataFrame(
    {
        "age": rng.uniform(20, 80, 180),
        "chol total": rng.uniform(100, 300, 180),
        "site": rng.choice(["north", "south"], 180),
    }
)
MADE = {
    "log_chol": "log(`chol total`)",
    "ratio": "`chol total` / age",
    "change": "age - `chol total`",
    "both": "age * `chol total`",
    "north": "site == 'north'",
}
WANTED = {
    "both": ROWS.age * ROWS["chol total"],
    "change": ROWS.age - ROWS["chol total"],
    "log_chol": np.log(ROWS["chol total"]),
    "north": (ROWS.site == "north").astype(float),
    "ratio": ROWS["chol total"] / ROWS.age,
}


@pytest.mark.parametrize(
    "check",
    check_estimator(
        up.DerivedColumns({"product": "x0 * x1", "difference": "x0 - x2"}),
        rng.standard_normal((60, 3)),
        generate_only=True,
    ),
    ids=repr,
)
def test_convention(check):
    check()


def silos(rows=ROWS, **options):
    frames = {f"s{i}": rows.iloc[i::3] for i in range(3)}
    return up.simulate(frames, categorical=["site"], **options)


def test_columns_are_those_of_the_pooled_rows():
    here = silos(follow=True)
    model = up.DerivedColumns(MADE).fit(here)
    view = model.transform(here)
    assert view.feature_names == (*ROWS, *WANTED)
    scaler = up.StandardScaler().fit(view.select(list(WANTED)))
    wanted = pd.DataFrame(WANTED)
    assert_allclose(scaler.mean_, wanted.mean(), rtol=1e-10)
    assert_allclose(scaler.var_, wanted.var(ddof=0), rtol=1e-9)
    assert_allclose(model.transform(ROWS)[:, 3:].astype(float), wanted)


def test_cells_without_a_value_are_refused():
    for rows in (
        ROWS.assign(age=ROWS.age.where(ROWS.index != 5)),
        ROWS.assign(age=0.0),
    ):
        here = silos(rows)
        view = (
            up.DerivedColumns({"ratio": "`chol total` / age"}).fit(here).transform(here)
        )
        with pytest.raises(DataError, match="derived_cells"):
            up.StandardScaler().fit(view[["ratio"]])


def test_columns_are_derived_of_own_and_of_filled_ones_alone():
    """Behind any other transform a logarithm would compare values with chosen ones."""
    missing = ROWS[["age", "chol total"]].copy()
    missing.loc[::9, "age"] = np.nan
    here = up.simulate({f"s{i}": missing.iloc[i::3] for i in range(3)})
    filled = up.SimpleImputer().fit(here).transform(here)
    derived = up.DerivedColumns({"log_age": "log(age)"})

    view = derived.fit(filled).transform(filled)
    wanted = np.log(missing.age.fillna(missing.age.mean()))
    found = up.StandardScaler().fit(view[["log_age"]])
    assert_allclose(found.mean_, wanted.mean(), rtol=1e-10)

    scaled = up.StandardScaler(with_mean=False).fit(filled).transform(filled)
    view = derived.fit(scaled).transform(scaled)
    with pytest.raises(ReleaseRefusedError) as refused:
        up.StandardScaler().fit(view[["log_age"]])
    assert refused.value.rule == "derived_order"


def test_a_column_of_one_person_is_refused():
    rows = ROWS.assign(flag=(np.arange(180) == 4).astype(float))
    here = silos(rows)
    view = up.DerivedColumns({"theirs": "flag * age"}).fit(here).transform(here)
    with pytest.raises(ReleaseRefusedError, match="derived_rows"):
        up.PCA(1).fit(view[["age", "theirs"]])


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({}, "give a dict"),
        ({"a": "exp(age)"}, "is not understood"),
        ({"a": "log(weight)"}, "no column 'weight'"),
        ({"age": "log(age)"}, "is a column already"),
        ({"a": "log(site)"}, "needs numbers"),
        ({"a": "age == '50'"}, "needs a column of categories"),
        ({"a": 1}, "is no expression"),
    ],
)
def test_what_is_no_expression_is_refused(columns, message):
    with pytest.raises(DataError, match=message):
        up.DerivedColumns(columns).fit(silos())


@given(st.text(alphabet="ab`'\"()*/-= log.", max_size=20))
def test_any_text_is_an_expression_or_a_data_error(text):
    try:
        found = Expression.of(text)
    except DataError:
        return
    assert all(found.columns)


def test_expressions():
    assert Expression.of(" `a-b`*c ") == Expression(PRODUCT, ("a-b", "c"))
    assert Expression.of('s == "x y"') == Expression(EQUAL, ("s",), "x y")


STUDY = """
[study]
name = "mixed"
categorical = ["site"]
[policy]
max_released_share = 2.0
{parties}
[derived]
log_chol = "log(`chol total`)"
north = "site == 'north'"
[[steps]]
model = "ColumnTransformer"
transformers = [
  {{ model = "StandardScaler", columns = "numeric" }},
  {{ model = "OneHotEncoder", columns = "categorical", drop = "first" }},
]
[[steps]]
model = "PCA"
n_components = 2
"""


@pytest.mark.slow
def test_a_study_file_has_all_of_it(tmp_path):
    parties = ""
    for number in range(3):
        ROWS.iloc[number::3].to_csv(tmp_path / f"s{number}.csv", index=False)
        parties += f'[parties.s{number}]\nsource = "s{number}.csv"\n'
    (tmp_path / "study.toml").write_text(STUDY.format(parties=parties))
    study = up.Study.from_file(tmp_path / "study.toml")
    assert not study.plan().refusals
    run = study.run(follow=True)
    names = ["age", "chol total", "log_chol", "north", "site_south"]
    *_, pca = run.models.values()
    assert list(pca.feature_names_in_) == names
    assert (study.folder / "report.html").exists()


def test_a_mistake_in_a_study_file_is_named(tmp_path):
    (tmp_path / "study.toml").write_text(
        STUDY.format(parties='[parties.a]\nsource = "a.csv"').replace("log(`", "ln(`")
    )
    with pytest.raises(up.errors.StudyError, match=r"\[derived\] log_chol: .*ln"):
        up.Study.from_file(tmp_path / "study.toml")


@pytest.mark.slow
@pytest.mark.parametrize("follow", [False, True])
def test_a_silo_where_nobody_has_a_flag_takes_part_in_its_products(follow):
    """Its products are 0 in all rows, and give nobody's value."""
    tables = {}
    for number, name in enumerate("abc"):
        rng = np.random.default_rng(number)
        table = pd.DataFrame(rng.standard_normal((100, 2)), columns=["x", "y"])
        table["flag"] = (rng.random(100) < 0.3) * float(name != "a")
        tables[name] = table
    pooled = pd.concat(tables.values()).assign(new=lambda t: t.x * t.flag)
    here = up.simulate(tables, follow=follow)
    model = make_pipeline(up.DerivedColumns({"new": "x * flag"}), up.PCA(4))
    assert up.plan(model, here).refusals == ()
    theirs = decomposition.PCA(4).fit(pooled.to_numpy())
    # Fixed-point totals have some 1e-13 of the largest.
    assert_allclose(
        model.fit(here)[-1].explained_variance_, theirs.explained_variance_, rtol=1e-10
    )

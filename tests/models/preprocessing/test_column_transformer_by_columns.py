"""Transforms of some columns each, where silos have other columns of the people."""

import numpy as np
import pandas as pd
import pytest
import sklearn.decomposition
import sklearn.impute
import sklearn.preprocessing
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline

import unpooled as up
from unpooled.errors import DataError, ReleaseRefusedError

N = 240
TEXTS = ["sex", "site", "blood"]
COLUMNS = {"bank": ["age", "sex", "site"], "shop": ["blood", "bmi"], "tax": ["marker"]}


@pytest.fixture(scope="module")
def rows():
    random = np.random.default_rng(5)
    site = random.choice(["north", "south", "east"], N).astype(object)
    # Rare names are eight rows together, and four each.
    site[:4], site[4:8], site[30:50] = "moon", "mars", None
    bmi = random.normal(25.0, 4.0, N).round(2)
    bmi[100:130] = np.nan
    return pd.DataFrame(
        {
            "age": random.normal(50.0, 9.0, N).round(1),
            "sex": random.choice(["f", "m"], N),
            "site": site,
            "blood": random.choice(["A", "B", "0"], N),
            "bmi": bmi,
            "marker": random.standard_normal(N),
        }
    )


def federation_of(rows, **options):
    parts = {name: rows[own] for name, own in COLUMNS.items()}
    options = {"policy": up.Policy.open(), "categorical": TEXTS, **options}
    return up.simulate(parts, partition="columns", aligned=True, **options)


def encoder(**options):
    options = {"min_frequency": 5, "sparse_output": False, **options}
    return sklearn.preprocessing.OneHotEncoder(**options)


def ordinal(**options):
    return sklearn.preprocessing.OrdinalEncoder(min_frequency=5, **options)


def bins(**options):
    return sklearn.preprocessing.KBinsDiscretizer(
        4, quantile_method="linear", subsample=None, **options
    )


# Of each transform and its twin: columns of one silo, and of two.
EACH = {
    "scaler": (up.StandardScaler(), sklearn.preprocessing.StandardScaler(), "age bmi"),
    "robust": (up.RobustScaler(), sklearn.preprocessing.RobustScaler(), "bmi marker"),
    "quantile": (
        up.QuantileTransformer(n_quantiles=20, min_rows=1),
        sklearn.preprocessing.QuantileTransformer(n_quantiles=20, subsample=None),
        "marker",
    ),
    "bins": (
        up.KBinsDiscretizer(4),
        bins(encode="onehot-dense"),
        "age marker",
    ),
    "numbers of bins": (
        up.KBinsDiscretizer(4, encode="ordinal"),
        bins(encode="ordinal"),
        "age",
    ),
    "mean": (up.SimpleImputer(), sklearn.impute.SimpleImputer(), "bmi"),
    "median": (
        up.SimpleImputer("median", min_rows=1),
        sklearn.impute.SimpleImputer(strategy="median"),
        "marker bmi",
    ),
    "mode": (
        up.SimpleImputer("most_frequent"),
        sklearn.impute.SimpleImputer(strategy="most_frequent"),
        "bmi",
    ),
    "constant": (
        up.SimpleImputer("constant", fill_value=3.0),
        sklearn.impute.SimpleImputer(strategy="constant", fill_value=3.0),
        "bmi",
    ),
    "indicator": (
        up.SimpleImputer(add_indicator=True),
        sklearn.impute.SimpleImputer(add_indicator=True),
        "age bmi",
    ),
    "one hot": (up.OneHotEncoder(), encoder(), "site blood"),
    "ignored": (
        up.OneHotEncoder(handle_unknown="ignore", drop="if_binary"),
        encoder(handle_unknown="ignore", drop="if_binary"),
        "sex blood",
    ),
    "ordinal": (up.OrdinalEncoder(), ordinal(), "sex site"),
}


@pytest.mark.thinned(1)
@pytest.mark.parametrize("follow", [False, True])
@pytest.mark.parametrize("name", EACH)
def test_a_part_is_what_scikit_learn_makes_of_its_columns(rows, name, follow):
    """Silos without a column of the part run its steps on none."""
    ours, twin, text = EACH[name]
    own = text.split()
    passed = ["age", "bmi", "marker"]
    model = up.make_column_transformer(
        (ours, own), ("passthrough", [n for n in passed if n not in own])
    )
    federation = federation_of(rows, follow=follow)
    whole = rows.replace({None: np.nan})
    # New people, so many that no category is rare.
    some = pd.concat([rows, rows.sample(N // 2, random_state=1)], ignore_index=True)
    twin.fit(whole[own])
    wanted = twin.transform(some.replace({None: np.nan})[own])

    model.fit(federation)
    later = federation_of(some)
    made = model.transform(later)

    described = up.Describe().fit(made)
    names = list(model.get_feature_names_out())
    assert described.columns_ == names == list(made.feature_names)
    places = [j for j, name in enumerate(names) if name not in passed or name in own]
    missing = np.isnan(wanted).sum(axis=0)
    found = np.array(described.mean_[0, places])
    # Of a silo's columns those of a part stand together, in its order.
    order = np.argsort(
        [_silo_of(n) for n in twin.get_feature_names_out()], kind="stable"
    )
    assert_allclose(found, np.nanmean(wanted, axis=0)[order], rtol=1e-10, atol=1e-12)
    assert described.n_missing_[0, places].tolist() == missing[order].tolist()


def _silo_of(name):
    column = name.removeprefix("missingindicator_").partition("_")[0]
    return next(j for j, own in enumerate(COLUMNS.values()) if column in own)


def mixed(**options):
    """Return a transform of each kind of column, and its twin on the pooled rows."""
    ours = up.make_column_transformer(
        (up.SimpleImputer("median", min_rows=1), ["bmi", "age"]),
        (up.OneHotEncoder(drop="first"), "categorical"),
        **options,
    )
    twin = make_column_transformer(
        (sklearn.impute.SimpleImputer(strategy="median"), ["bmi", "age"]),
        (encoder(drop="first"), TEXTS),
        **options,
    )
    return ours, twin


@pytest.mark.slow
@pytest.mark.parametrize("follow", [False, True])
@pytest.mark.parametrize("remainder", ["drop", "passthrough"])
def test_components_are_those_of_scikit_learn(rows, remainder, follow):
    ours, twin = mixed(remainder="passthrough")
    if remainder == "drop":
        ours.transformers += [("passthrough", up.make_column_selector("mark*"))]
        ours.remainder = "drop"
    ours = make_pipeline(ours, up.StandardScaler(), up.PCA(3))
    twin = make_pipeline(
        twin,
        sklearn.preprocessing.StandardScaler(),
        sklearn.decomposition.PCA(3),
    )
    some = rows.iloc[::2].reset_index(drop=True)

    scores = ours.fit_transform(federation_of(rows, follow=follow))

    wanted = twin.fit_transform(rows.replace({None: np.nan}))
    assert_allclose(np.abs(scores), np.abs(wanted), atol=1e-9)
    later = ours.transform(federation_of(some))
    theirs = twin.transform(some.replace({None: np.nan}))
    assert_allclose(np.abs(later), np.abs(theirs), atol=1e-9)
    variance = twin[-1].explained_variance_
    assert_allclose(ours[-1].explained_variance_, variance, rtol=1e-10)


def test_columns_of_a_silo_stay_together(rows):
    ours, _ = mixed(remainder="passthrough")
    made = ours.fit_transform(federation_of(rows))

    assert made.columns_of == {
        "bank": ("age", "sex_1", "site_1", "site_2", "site_3", "site_4"),
        "shop": ("bmi", "blood_1", "blood_2"),
        "tax": ("marker",),
    }
    assert list(ours.get_feature_names_out()) == list(made.feature_names)
    assert ours.sizes_.tolist() == [[1, 2, 0], [1, 1, 0], [0, 0, 1]]
    assert made.categorical == ()


def test_columns_that_pass_stay_categories(rows):
    parts = [("passthrough", ["site"]), (up.StandardScaler(), "numeric")]
    chosen = up.ColumnTransformer(parts)
    made = chosen.fit_transform(federation_of(rows))
    assert made.feature_names == ("site", "age", "bmi", "marker")
    assert made.categorical == ("site",)
    encoded = up.OneHotEncoder().fit(made)
    assert [name for name in encoded.get_feature_names_out() if "site" in name][1:]


@pytest.mark.slow
@pytest.mark.parametrize("follow", [False, True])
def test_one_transform_follows_another(rows, follow):
    """The second reads columns that the first made, and columns that it left."""
    first = up.make_column_transformer(
        (up.OneHotEncoder(), ["blood"]), remainder="passthrough"
    )
    second = up.make_column_transformer(
        (up.DerivedColumns({"old": "log(age)"}), ["age"]),
        (up.OrdinalEncoder(), "categorical"),
        (up.SimpleImputer(), ["bmi"]),
        ("passthrough", up.make_column_selector("blood*")),
        ("passthrough", ["marker"]),
    )
    model = make_pipeline(first, second, up.StandardScaler(), up.PCA(2))
    model.fit(federation_of(rows.fillna({"site": "east"}), follow=follow))

    whole = rows.fillna({"site": "east", "bmi": rows.bmi.mean()})
    coded = ordinal().fit_transform(whole[["sex", "site"]])
    blood = encoder().fit_transform(whole[["blood"]])
    numbers = whole[["age", "bmi", "marker"]]
    X = np.column_stack([numbers, np.log(whole.age), coded, blood])
    X = sklearn.preprocessing.StandardScaler().fit_transform(X)
    variance = sklearn.decomposition.PCA(2).fit(X).explained_variance_
    assert_allclose(model[-1].explained_variance_, variance, rtol=1e-10)
    names = ["blood_1", "blood_2", "blood_3", "bmi", "marker"]
    assert list(second.get_feature_names_out())[4:] == names


@pytest.mark.slow
def test_models_of_two_views_read_what_it_makes(rows):
    whole = rows.fillna({"bmi": rows.bmi.mean()})
    federation = federation_of(whole)
    model = make_pipeline(
        up.make_column_transformer(
            (up.OneHotEncoder(drop="first"), "categorical"), remainder="passthrough"
        ),
        up.CCA(1),
    ).fit(federation)

    tables = {name: encoded(whole[own]) for name, own in COLUMNS.items()}
    options = {"partition": "columns", "aligned": True, "policy": up.Policy.open()}
    alone = up.CCA(1).fit(up.simulate(tables, **options))
    assert model[-1].n_features_in_ == alone.n_features_in_
    assert_allclose(model[-1].eigenvalues_, alone.eigenvalues_, rtol=1e-9)


def encoded(rows):
    texts = [name for name in rows.columns if name in TEXTS]
    numbers = rows.drop(columns=texts)
    if not texts:
        return numbers
    made = encoder(drop="first").fit_transform(rows[texts].replace({None: np.nan}))
    frame = pd.DataFrame(
        made, columns=[f"t{j}{texts[0]}" for j in range(made.shape[1])]
    )
    return pd.concat([numbers, frame], axis=1)


def test_releases_what_the_docstring_says(rows):
    federation = federation_of(rows, policy={"min_parties": 3})
    parts = [(up.StandardScaler(), "numeric"), (up.OneHotEncoder(), ["blood"])]
    up.ColumnTransformer(parts).fit(federation)

    left = [line for line in federation.ledger if line.direction == "out"]
    assert {(one.step, one.name, one.visibility) for one in left} == {
        ("column_transformer.shown_parts", "sizes", "disclosed"),
        ("one_hot_encoder.shown_made", "made", "disclosed"),
    }
    kept = [line for line in federation.ledger if line.visibility == "kept"]
    assert {(line.name, line.shape) for line in kept if "tax" in line.parties} >= {
        ("count", (1,)),
        ("made", (0,)),
    }


@pytest.mark.slow
@pytest.mark.parametrize("follow", [False, True])
def test_silos_disclose_what_they_keep_of_a_part(rows, follow):
    """One part after the other, of columns that several silos or one of them has."""
    federation = federation_of(rows, follow=follow)
    model = up.make_column_transformer(
        (up.OrdinalEncoder(), {"pattern": "none*"}),
        (up.StandardScaler(), ["age", "marker"]),
        (up.OneHotEncoder(), "categorical"),
        (up.SimpleImputer(), ["bmi"]),
    ).fit(federation)
    scaler, _, imputer = model.fitted_

    assert_allclose(imputer.statistics_, [rows.bmi.mean()], rtol=1e-12)
    assert_allclose(scaler.mean_, rows[["age", "marker"]].mean(), rtol=1e-12)
    assert_allclose(scaler.var_, rows[["age", "marker"]].var(ddof=0), rtol=1e-10)
    made = model.transform(federation)
    variance = up.PCA(2).fit(made).explained_variance_
    other = federation_of(rows, follow=follow)
    fresh = make_pipeline(clone(model), up.PCA(2)).fit(other)
    assert_allclose(variance, fresh[-1].explained_variance_, rtol=1e-12)

    before = fresh[0].fitted_[0]
    fresh[0].fit(other)
    with pytest.raises(DataError, match="keep a later fit of the ColumnTransformer"):
        _ = before.mean_
    assert_allclose(fresh[0].fitted_[0].mean_, scaler.mean_, rtol=1e-12)


def test_a_silo_discloses_nothing_of_a_part_that_its_rules_do_not_allow(rows):
    federation = federation_of(
        rows, policy={"min_parties": 3, "allow_disclosed": False}
    )
    parts = [(up.StandardScaler(), ["age", "bmi", "marker"])]
    model = up.ColumnTransformer(parts, remainder="passthrough").fit(federation)
    with pytest.raises(ReleaseRefusedError, match=r"shown_sums: allow_disclosed"):
        _ = model.fitted_[0].mean_
    assert "mean_" not in vars(model.fitted_[0])


def refused(rows, match, transformers, **options):
    with pytest.raises(DataError, match=match):
        up.ColumnTransformer(transformers, **options).fit(federation_of(rows))


@pytest.mark.slow
def test_refusals(rows):
    every = up.make_column_selector()
    refused(rows, "has no column 'size'", [(up.StandardScaler(), ["size"])])
    refused(
        rows,
        "Two transforms read 'age'",
        [(up.StandardScaler(), "numeric"), ("passthrough", ["age"])],
    )
    refused(rows, "No transform has a column", [("passthrough", {"pattern": "x*"})])
    refused(rows, "'tax' is left", [(up.OneHotEncoder(), "categorical")])
    refused(rows, "a silo's own columns", [(up.PCA(1), "numeric")])
    refused(rows, "a silo's own columns", [(up.PowerTransformer(), every)])
    refused(rows, "holds? categories", [(up.StandardScaler(), ["age", "sex"])],
            remainder="passthrough")  # fmt: skip


def test_a_silo_refuses_a_category_of_few_in_its_part(rows):
    few = rows.assign(blood=np.where(np.arange(N) < 2, "AB", rows.blood))
    federation = federation_of(few, policy={"min_rows_per_class": 5})
    parts = [(up.OneHotEncoder(min_frequency=1), ["blood"])]
    with pytest.raises(ReleaseRefusedError, match="shop refused one_hot_encoder"):
        up.ColumnTransformer(parts, remainder="passthrough").fit(federation)


@pytest.mark.slow
def test_a_column_has_one_setting_whatever_stands_beside_it(rows):
    federation = federation_of(rows, policy={"min_parties": 3})

    def of(least, columns):
        parts = [(up.OneHotEncoder(min_frequency=least), columns)]
        return up.ColumnTransformer(parts, remainder="passthrough").fit(federation)

    of(5, ["blood"])
    of(5, "categorical")
    up.OneHotEncoder(min_frequency=5).fit(federation)
    for columns in (["blood"], "categorical", ["sex"]):
        with pytest.raises(ReleaseRefusedError, match="one_setting"):
            of(20, columns)
    filled = up.SimpleImputer("most_frequent").fit(federation).transform(federation)
    with pytest.raises(ReleaseRefusedError, match="one_setting"):
        up.OneHotEncoder(min_frequency=5).fit(filled)

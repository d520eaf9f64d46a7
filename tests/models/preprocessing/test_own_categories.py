"""Categories of whole columns: each silo encodes its own, whose names nobody sees."""

import csv

import numpy as np
import pandas as pd
import pytest
import sklearn.cross_decomposition
import sklearn.decomposition
import sklearn.linear_model
import sklearn.preprocessing
from numpy.testing import assert_allclose
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from typer.testing import CliRunner

import unpooled as up
from unpooled.cli import app
from unpooled.data.categories import category_code
from unpooled.errors import DataError, ReleaseRefusedError
from unpooled.models.preprocessing.own_categories import (
    own_categories,
    own_groups,
    shown_made,
)
from unpooled.testing import check_step

N = 240
TEXTS = ["sex", "site", "smokes", "blood"]
NUMBERS = ["age", "bmi", "marker"]
# PCA on columns is opened to the silos.
POLICY = {"allow_row_level": True}


@pytest.fixture(scope="module")
def parts():
    """Return columns of text beside numbers; one silo has text alone, one none."""
    random = np.random.default_rng(5)
    site = random.choice(["north", "south", "east"], N).astype(object)
    # Rare names are eight rows together, and four each.
    site[:4], site[4:8], site[30:50] = "moon", "mars", None
    bmi = random.normal(25.0, 4.0, N)
    bmi[100:130] = np.nan
    frame = pd.DataFrame(
        {
            "age": random.normal(50.0, 9.0, N),
            "sex": random.choice(["f", "m"], N),
            "site": site,
            "bmi": bmi,
            "smokes": random.choice(["yes", "no", "ex"], N, p=[0.2, 0.5, 0.3]),
            "blood": random.choice(["A", "B", "0"], N),
            "marker": random.standard_normal(N),
        }
    )
    columns = {
        "bank": ["age", "sex", "site", "bmi"],
        "shop": ["smokes", "blood"],
        "tax": ["marker"],
    }
    return {name: frame[own] for name, own in columns.items()}


def whole(parts):
    """Return the pooled table, with missing names as scikit-learn has them."""
    return pd.concat(parts.values(), axis=1).replace({None: np.nan})


def federation_of(parts, **options):
    options = {"policy": POLICY, "categorical": TEXTS, **options}
    return up.simulate(parts, partition="columns", aligned=True, **options)


def encoded(parts, twin):
    """Return what scikit-learn's encoder makes, beside the numbers."""
    both = make_column_transformer((twin, TEXTS), remainder="passthrough")
    return both.fit_transform(whole(parts))


def filled_and_scaled(rows):
    return scaled(SimpleImputer().fit_transform(rows))


def assert_same_components(ours, rows):
    theirs = sklearn.decomposition.PCA(ours.n_components).fit(rows)
    # A Krylov space that is certified to 1e-12 of the largest variance.
    size = theirs.explained_variance_[0]
    for name in ("explained_variance_", "singular_values_"):
        found, wanted = getattr(ours, name), getattr(theirs, name)
        assert_allclose(found, wanted, rtol=1e-10, atol=1e-10 * size)


def one_hot_twin(**options):
    options = {"min_frequency": 5, "sparse_output": False, **options}
    return sklearn.preprocessing.OneHotEncoder(**options)


@pytest.mark.slow
@pytest.mark.parametrize("follow", [False, True])
@pytest.mark.parametrize("drop", [None, "first", "if_binary"])
def test_components_are_those_of_encoded_pooled_columns(parts, drop, follow):
    encoder = up.OneHotEncoder(drop=drop)
    ours = make_pipeline(encoder, up.SimpleImputer(), up.StandardScaler(), up.PCA(3))
    federation = federation_of(parts, follow=follow)

    scores = ours.fit_transform(federation)

    rows = encoded(parts, one_hot_twin(drop=drop))
    assert_same_components(ours[-1], filled_and_scaled(rows))
    assert len(encoder.get_feature_names_out()) == rows.shape[1]
    # New people are encoded by what the silos kept: here the same ones.
    later = ours.transform(federation_of(parts))
    assert_allclose(later, scores, atol=1e-8)


@pytest.mark.thinned(1)
@pytest.mark.parametrize("follow", [False, True])
@pytest.mark.parametrize("min_frequency", [5, 20])
@pytest.mark.parametrize("unknown", ["ignore", "infrequent_if_exist", "error"])
def test_names_that_nobody_had_are_encoded_as_by_scikit_learn(
    parts, unknown, min_frequency, follow
):
    """Moon and mars are infrequent, "pluto" is new; every cell has a name here."""
    bank = parts["bank"].assign(site=parts["bank"]["site"].fillna("x"), bmi=20.0)
    bank["bmi"] = parts["tax"]["marker"] ** 2
    parts = {**parts, "bank": bank}
    later = {
        **parts,
        "bank": bank.assign(site=bank["site"].where(np.arange(N) % 5 > 0, "pluto")),
        "shop": parts["shop"].assign(blood=parts["shop"]["blood"].replace("0", "AB")),
    }
    options = {"handle_unknown": unknown, "min_frequency": min_frequency}
    federation = federation_of(parts, policy=up.Policy.open(), follow=follow)
    encoder = up.OneHotEncoder(**options).fit(federation)
    again = federation_of(later, policy=up.Policy.open())
    described = up.Describe().fit(encoder.transform(again))

    # In silos an error would tell that there is such a name.
    twin = one_hot_twin(**options)
    twin.set_params(handle_unknown="ignore" if unknown == "error" else unknown)
    wanted = twin.fit(whole(parts)[TEXTS]).transform(whole(later)[TEXTS])
    names = [name for name in described.columns_ if name not in NUMBERS]
    places = [described.columns_.index(name) for name in names]
    assert_allclose(described.mean_[0, places], wanted.mean(axis=0), rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("follow", [False, True])
@pytest.mark.parametrize("fill_value", [None, 7])
def test_a_constant_fills_text_and_numbers(parts, fill_value, follow):
    federation = federation_of(parts, follow=follow)
    imputer = up.SimpleImputer("constant", fill_value=fill_value)
    ours = make_pipeline(imputer, up.OneHotEncoder(), up.StandardScaler(), up.PCA(3))
    assert not up.plan(ours, federation).refusals
    ours.fit(federation)

    rows = whole(parts).fillna(
        {"site": "missing_value" if fill_value is None else "7", "bmi": fill_value or 0}
    )
    both = make_column_transformer((one_hot_twin(), TEXTS), remainder="passthrough")
    assert_same_components(ours[-1], scaled(both.fit_transform(rows)))
    known = dict(zip(federation.feature_names, imputer.statistics_, strict=True))
    assert known["bmi"] == (fill_value or 0)
    assert known["site"] == ("missing_value" if fill_value is None else "7")
    assert {line.visibility for line in federation.ledger} >= {"kept"}
    assert "imputer.own_constants" in {line.step for line in federation.ledger}


@pytest.mark.slow
@pytest.mark.parametrize("follow", [False, True])
def test_numbers_of_categories_are_those_of_pooled_columns(parts, follow):
    # scikit-learn numbers rare names behind the others too, and keeps missing cells.
    twin = sklearn.preprocessing.OrdinalEncoder(min_frequency=5)
    parts = {
        **parts,
        "bank": parts["bank"].assign(site=parts["bank"]["site"].fillna("x")),
    }
    ours = make_pipeline(
        up.OrdinalEncoder(), up.SimpleImputer(), up.StandardScaler(), up.PCA(2)
    )
    ours.fit(federation_of(parts, follow=follow))
    assert_same_components(ours[-1], filled_and_scaled(encoded(parts, twin)))


@pytest.mark.slow
def test_missing_categories_stay_missing_numbers(parts):
    federation = federation_of(parts, policy=up.Policy.open())
    encoder = up.OrdinalEncoder().fit(federation)
    described = up.Describe().fit(encoder.transform(federation))
    twin = sklearn.preprocessing.OrdinalEncoder(min_frequency=5)
    theirs = pd.DataFrame(encoded(parts, twin), columns=[*TEXTS, *NUMBERS])
    theirs = theirs[list(federation.feature_names)]
    # A silo names the columns as before, and shows what its policy allows.
    assert_allclose(described.n_missing_.ravel(), theirs.isna().sum())
    assert_allclose(described.mean_.ravel(), theirs.mean(), rtol=1e-9)


@pytest.mark.thinned(1)
@pytest.mark.parametrize("kind", [up.CCA, up.PLSSVD])
def test_two_views_of_encoded_columns_are_those_of_pooled_ones(parts, kind):
    two = {"bank": parts["bank"].drop(columns="bmi"), "shop": parts["shop"]}
    rules = {**POLICY, "min_parties": 2, "allow_disclosed": True}
    federation = federation_of(two, policy=rules)
    ours = make_pipeline(up.OneHotEncoder(drop="first"), up.StandardScaler(), kind(2))

    ours.fit(federation)

    x, y = (scaled(first_dropped(part)) for part in two.values())
    if kind is up.CCA:
        # Correlations are singular values between orthonormal bases (Björck, Golub).
        product = np.linalg.qr(x)[0].T @ np.linalg.qr(y)[0]
        wanted = np.linalg.svd(product, compute_uv=False)[:2]
        assert_allclose(ours[-1].canonical_correlations_, wanted, rtol=1e-8)
    else:
        theirs = sklearn.cross_decomposition.PLSSVD(2, scale=False).fit(x, y)
        pairs = zip(*(scores.T for scores in theirs.transform(x, y)), strict=True)
        wanted = [np.corrcoef(*pair)[0, 1] for pair in pairs]
        assert_allclose(ours[-1].score_correlations_, wanted, rtol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("follow", [False, True])
def test_names_that_are_missing_are_the_most_frequent_ones(parts, follow):
    # Of equally frequent names both take the first in the order of text.
    blood = np.repeat(["B", "A", "0"], N // 3).astype(object)
    blood[[0, 1, 2, 3, 4, 80, 81, 82, 83, 84]] = None
    parts = {**parts, "shop": parts["shop"].assign(blood=blood)}
    ours = make_pipeline(
        up.SimpleImputer("most_frequent"),
        up.OneHotEncoder(),
        up.StandardScaler(),
        up.PCA(3),
    )
    ours.fit(federation_of(parts, follow=follow))

    twin = SimpleImputer(strategy="most_frequent")
    filled = pd.DataFrame(
        twin.fit_transform(whole(parts)), columns=whole(parts).columns
    )
    both = make_column_transformer((one_hot_twin(), TEXTS), remainder="passthrough")
    assert_same_components(ours[-1], scaled(both.fit_transform(filled).astype(float)))
    with pytest.raises(DataError, match="no silo shows them"):
        _ = ours[0].statistics_


@pytest.mark.slow
def test_rows_that_are_matched_by_ids_keep_their_categories(parts):
    random, ids = np.random.default_rng(1), [f"p{i}" for i in range(N)]
    # Each silo has the rows in an order of its own, and some that others lack.
    mixed = {
        name: part.assign(id=ids).sample(frac=1.0, random_state=random)[:-10]
        for name, part in parts.items()
    }
    federation = up.simulate(
        mixed, partition="columns", ids="id", policy=POLICY, categorical=TEXTS
    )
    steps = up.OneHotEncoder(), up.SimpleImputer(), up.StandardScaler(), up.PCA(2)
    ours = make_pipeline(*steps).fit(federation)
    known = set.intersection(*(set(part["id"]) for part in mixed.values()))
    kept = [i in known for i in ids]
    common = {name: part[kept] for name, part in parts.items()}
    assert sum(kept) < N
    assert_same_components(ours[-1], filled_and_scaled(encoded(common, one_hot_twin())))


@pytest.mark.slow
def test_other_models_of_columns_read_encoded_ones(parts):
    parts = {**parts, "bank": parts["bank"].drop(columns="bmi")}
    federation = federation_of(parts, policy=up.Policy.open())
    view = up.OneHotEncoder(drop="first").fit(federation).transform(federation)
    rows = np.column_stack([first_dropped(part) for part in parts.values()])
    assert view.n_features == rows.shape[1]

    kernel = up.KernelPCA(3, gamma=0.01).fit(view)
    theirs = sklearn.decomposition.KernelPCA(3, kernel="rbf", gamma=0.01).fit(rows)
    assert_allclose(kernel.eigenvalues_, theirs.eigenvalues_, rtol=1e-8)

    names = list(view.feature_names)
    place = names.index("age")
    ours = up.LinearRegression().fit(view, y=["age"])
    x = np.delete(rows, place, axis=1)
    theirs = sklearn.linear_model.LinearRegression().fit(x, rows[:, place])
    predictors = [name for name in names if name != "age"]
    assert list(ours.predictors_) == predictors
    assert_allclose(ours.coef_, theirs.coef_, rtol=1e-6, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("follow", [False, True])
def test_mmvfl_selects_among_encoded_columns(parts, follow):
    ill = (parts["tax"]["marker"] > 0).astype(int)
    labelled = {**parts, "tax": parts["tax"].assign(ill=ill, other=1.0 - parts["tax"])}
    labelled["bank"] = labelled["bank"].drop(columns="bmi")
    federation = federation_of(
        labelled, policy=up.Policy.open(), label="ill", follow=follow
    )
    numbers = {
        name: pd.DataFrame(
            first_dropped(part.drop(columns="ill", errors="ignore")),
            columns=None,
        ).add_prefix(f"{name}_")
        for name, part in labelled.items()
    }
    numbers["tax"]["ill"] = ill
    by_hand = federation_of(
        numbers, policy=up.Policy.open(), label="ill", categorical=None
    )
    view = up.OneHotEncoder(drop="first").fit(federation).transform(federation)
    options = {"max_iter": 5, "tol": 0.0, "beta": 1.0}
    ours = up.MMVFL(**options).fit(view)
    theirs = up.MMVFL(**options).fit(by_hand)
    for party, found in ours.feature_importances_.items():
        assert_allclose(found, theirs.feature_importances_[party], rtol=1e-9)


def test_the_ledger_is_what_the_docstring_says(parts):
    federation = federation_of(parts)
    encoder = up.OneHotEncoder().fit(federation)
    encoder.transform(federation)
    lines = [
        (line.step, line.name, line.visibility)
        for line in federation.ledger
        if line.step.startswith("one_hot_encoder") and "bank" in line.parties
    ]
    assert lines == [
        ("one_hot_encoder.own_groups", "made", "kept"),
        ("one_hot_encoder.own_groups", "fewest", "kept"),
        ("one_hot_encoder.shown_made", "made", "disclosed"),
        ("one_hot_encoder.own_categories", "categories", "kept"),
        ("one_hot_encoder.own_categories", "unknown", "kept"),
        ("one_hot_encoder.own_categories", "form", "kept"),
    ]
    # What was disclosed are numbers of columns: the site has three names, missing
    # ones, and the rare ones together.
    assert encoder.n_made_.tolist() == [-1, -1, 2, 5, 3, 3, -1]
    names = list(encoder.get_feature_names_out())
    assert names == list(encoder.transform(federation).feature_names)
    assert names[:5] == ["age", "bmi", "sex_1", "sex_2", "site_1"]
    for name in ("categories_", "counts_", "infrequent_categories_"):
        with pytest.raises(DataError, match="no silo shows their names"):
            getattr(encoder, name)
    shown = str(encoder.summary()) + repr(vars(encoder))
    assert not any(word in shown for word in ("north", "moon", "yes"))


@pytest.mark.slow
def test_columns_have_the_names_that_silos_have_for_them(parts):
    federation = federation_of(parts)
    encoder = up.OneHotEncoder(drop="if_binary").fit(federation)
    view = encoder.transform(federation)
    assert view.columns_of["shop"] == (
        *("smokes_1", "smokes_2", "smokes_3"),
        *("blood_1", "blood_2", "blood_3"),
    )
    assert view.categorical == ()
    # A choice among them is one that the silos know.
    chosen = ["sex_1", "smokes_2", "blood_1", "marker"]
    ours = up.PCA(2).fit(view.select(chosen))
    rows = pd.get_dummies(whole(parts)[TEXTS], dtype=float)
    rows = rows[["sex_m", "smokes_no", "blood_0"]].assign(marker=parts["tax"]["marker"])
    assert_same_components(ours, rows.to_numpy())


@pytest.mark.thinned(1)
@pytest.mark.parametrize("order", [("one", "ordinal"), ("ordinal", "one")])
def test_silos_tell_encoders_of_the_same_columns_apart(parts, order):
    # What a silo keeps for a fit of a view takes the place of what it kept before.
    federation = federation_of(parts)
    kinds = {"one": up.OneHotEncoder(), "ordinal": up.OrdinalEncoder()}
    first, second = (kinds[name].fit(federation) for name in order)
    second.transform(federation)
    with pytest.raises(DataError, match="nothing_kept"):
        up.SimpleImputer().fit(first.transform(federation))


@pytest.mark.slow
def test_a_silo_has_the_names_in_its_own_results(parts, tmp_path):
    folder = study_of(parts, tmp_path, '[[steps]]\nmodel = "OneHotEncoder"\n')
    up.Study.from_file(folder / "study.toml").run()
    run = folder / "runs" / "encoded"
    methods = (run / "results" / "methods.txt").read_text("utf-8")
    assert "Each organisation encoded the categories of its own columns" in methods
    for path in run.rglob("*"):
        if path.is_file() and "silos" not in path.parts:
            assert b"north" not in path.read_bytes()
    silos = run / "silos"
    bank = read(silos / "bank" / "results" / "one_hot_encoder_categories.csv")
    assert read(silos / "tax" / "results" / "one_hot_encoder_categories.csv") == []
    assert [(row["column"], row["category"], row["number"]) for row in bank] == [
        ("sex", "f", "1"),
        ("sex", "m", "2"),
        ("site", "east", "1"),
        ("site", "north", "2"),
        ("site", "south", "3"),
        ("site", "(missing)", "4"),
        ("site", "(infrequent, and others)", "5"),
    ]
    counts = parts["bank"]["site"].value_counts()
    assert int(bank[3]["rows"]) == counts["north"]


def test_steps_keep_what_they_declare(parts):
    rows = parts["shop"][["smokes"]].assign(number=np.arange(N) / 7.0)
    names = sorted(rows["smokes"].unique())
    dictionary = {category_code(name): name for name in names}
    cells = rows.assign(smokes=[category_code(name) for name in rows["smokes"]])
    own = {"columns": tuple(rows), "coded": ("smokes",), "dictionary": dictionary}
    options = {"min_frequency": 5, "drop": None, "numbered": False}
    check_step(own_groups, cells.to_numpy(), **own, **options)
    check_step(own_categories, cells.to_numpy(), **own, most=4, **options)
    kept = own_groups(cells.to_numpy(), **own, **options)
    assert kept["made"].tolist() == [3.0, -1.0]
    assert kept["fewest"].tolist() == [rows["smokes"].value_counts().min(), 0.0]
    check_step(shown_made, cells.to_numpy(), kept=kept)


@pytest.mark.slow
def test_a_silo_answers_one_min_frequency(parts):
    # With 1, 2, 3, ... the number of columns would tell the rows of each category.
    federation = federation_of(parts)
    up.OneHotEncoder(min_frequency=5).fit(federation)
    up.OrdinalEncoder(min_frequency=5).fit(federation)
    for view in (federation, federation.select(["sex", "site", "blood", "marker"])):
        for kind in (up.OneHotEncoder, up.OrdinalEncoder):
            with pytest.raises(ReleaseRefusedError, match="one_setting"):
                kind(min_frequency=60).fit(view)
    # Control: a silo that lets its own values be seen.
    federation = federation_of(parts, policy={**POLICY, "allow_disclosed": True})
    n_columns = [
        up.OneHotEncoder(min_frequency=n).fit(federation).n_made_.clip(0).sum()
        for n in (5, 60)
    ]
    assert n_columns[0] > n_columns[1]


@pytest.mark.slow
def test_a_silo_refuses_categories_of_few_people(parts):
    blood = ["AB"] * 3 + ["0"] * (N - 3)
    few = {**parts, "bank": parts["bank"].drop(columns="site")}
    few["shop"] = parts["shop"].assign(blood=blood)
    known = ["sex", "smokes", "blood"]
    with pytest.raises(ReleaseRefusedError, match=r"shop.*min_rows_per_class"):
        up.OneHotEncoder(min_frequency=None).fit(federation_of(few, categorical=known))
    with pytest.raises(ReleaseRefusedError, match=r"shop.*min_rows_per_class"):
        up.OrdinalEncoder(min_frequency=2).fit(federation_of(few, categorical=known))
    # As on rows, the next category joins the rare ones where these are few.
    encoder = up.OneHotEncoder().fit(federation_of(few, categorical=known))
    assert encoder.n_made_[-2] == 1


def test_what_is_for_rows_is_refused(parts):
    federation = federation_of(parts)
    train, _ = federation.train_test_split(random_state=0)
    with pytest.raises(DataError, match="Encode before folds"):
        up.OneHotEncoder().fit(train)
    with pytest.raises(DataError, match="OneHotEncoder, which leaves columns of num"):
        up.PCA(2).fit(federation)
    with pytest.raises(DataError, match="which have no mean"):
        up.SimpleImputer().fit(federation)
    with pytest.raises(DataError, match="cannot be cast to a finite number"):
        up.SimpleImputer("constant", fill_value="none").fit(federation)
    without = {
        name: part.drop(columns=TEXTS, errors="ignore")
        for name, part in parts.items()
        if name != "shop"
    }
    without = federation_of(without, categorical=None, policy=up.Policy.open())
    with pytest.raises(DataError, match="No silo has a column of categories"):
        up.OneHotEncoder().fit(without)
    with pytest.raises(DataError, match="No silo has 'colour', named as columns"):
        federation_of(parts, categorical=[*TEXTS, "colour"])
    clash = {**parts, "tax": parts["tax"].assign(sex_1=1.0)}
    clash = federation_of(clash)
    with pytest.raises(DataError, match="have the names of others: 'sex_1'"):
        up.OneHotEncoder().fit(clash).transform(clash)


def read(path):
    with path.open() as lines:
        return list(csv.DictReader(lines))


def study_of(parts, tmp_path, steps):
    """Write a study with its tables; return its folder."""
    text = '[study]\nname = "encoded"\npartition = "columns"\naligned = true\n'
    text += f"categorical = {TEXTS}\n".replace("'", '"')
    text += "[policy]\nallow_row_level = true\n"
    for name, part in parts.items():
        part.to_csv(tmp_path / f"{name}.csv", index=False)
        text += f'[parties.{name}]\nsource = "{name}.csv"\n'
    (tmp_path / "study.toml").write_text(text + steps)
    return tmp_path


def scaled(rows):
    return sklearn.preprocessing.StandardScaler().fit_transform(rows)


def first_dropped(part):
    """Return a silo's numbers and its encoded columns, without each first one."""
    texts = [name for name in part.columns if name in TEXTS]
    if not texts:
        return part.to_numpy(float)
    named = part[texts].replace({"moon": "~~", "mars": "~~", None: "~"})
    dummies = pd.get_dummies(named, drop_first=True, dtype=float)
    return np.column_stack([part.drop(columns=texts).to_numpy(float), dummies])


@pytest.mark.slow
def test_a_study_fills_text_and_ignores_unknown_names(parts, tmp_path):
    out, study = tmp_path / "run", tmp_path / "study.toml"
    text = '[study]\nname = "own"\npartition = "columns"\naligned = true\n'
    text += f"categorical = {TEXTS}\n[policy]\nallow_row_level = true\n"
    text += '[[steps]]\nmodel = "SimpleImputer"\nstrategy = "constant"\n'
    text += '[[steps]]\nmodel = "OneHotEncoder"\nhandle_unknown = "ignore"\n'
    text += '[[steps]]\nmodel = "PCA"\nn_components = 2\n'
    for name, part in parts.items():
        part.to_csv(tmp_path / f"{name}.csv", index=False)
        text += f'[parties.{name}]\nsource = "{name}.csv"\n'
    study.write_text(text)
    commands = (["plan", study], ["run", study, "--out", out], ["resume", out])
    for command in (*commands, ["report", out]):
        done = CliRunner().invoke(app, [str(part) for part in command])
        assert done.exit_code == 0, done.output
        assert not done.stderr
    (path,) = (out / "silos" / "bank").rglob("one_hot_encoder_categories.csv")
    rows = csv.DictReader(path.read_text("utf-8").splitlines())
    found = {row["category"]: int(row["rows"]) for row in rows}
    assert found["(filled in)"] == parts["bank"]["site"].isna().sum()

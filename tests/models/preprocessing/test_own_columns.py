"""Scalers and imputers of whole columns: each silo's own, which nobody else sees."""

import csv
import warnings

import numpy as np
import pandas as pd
import pytest
import sklearn.decomposition
import sklearn.impute
import sklearn.preprocessing
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from typer.testing import CliRunner

import unpooled as up
from federations import federation_of
from unpooled.cli import app
from unpooled.errors import DataError, ReleaseRefusedError, StudyError
from unpooled.models import base
from unpooled.models.files.catalogue import estimators
from unpooled.models.preprocessing import k_bins_discretizer
from unpooled.study.study_file import StudyFile

N = 200
# PCA on columns is opened to the silos.
POLICY = {"allow_row_level": True}
# What each silo does for itself.
ALONE = (
    "Describe",
    "ColumnTransformer",
    "DerivedColumns",
    "KBinsDiscretizer",
    "OneHotEncoder",
    "OrdinalEncoder",
    "QuantileTransformer",
    "Quantiles",
    "RobustScaler",
    "SimpleImputer",
    "StandardScaler",
)
BINS = {"encode": "ordinal", "n_bins": 4}


@pytest.fixture(scope="module")
def parts():
    """Return heavy tails with missing cells; one column is constant."""
    rows = np.random.default_rng(3).standard_t(2, (N, 6))
    rows[:, 4] = 7.0
    rows[:60, 1] = rows[20:55, 5] = np.nan
    columns = {"bank": "ab", "shop": "cd", "tax": "ef"}
    whole = pd.DataFrame(rows, columns=list("abcdef"))
    return {name: whole[list(own)] for name, own in columns.items()}


@pytest.mark.thinned
@pytest.mark.parametrize("follow", [False, True])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"with_centering": False},
        {"with_scaling": False},
        {"unit_variance": True, "quantile_range": (10.0, 80.0)},
    ],
    ids=str,
)
def test_components_are_those_of_pooled_columns(parts, options, follow):
    imputer, scaler = up.SimpleImputer(strategy="median"), up.RobustScaler(**options)
    ours = make_pipeline(imputer, scaler, up.PCA(2))
    federation = federation_of(parts, policy=POLICY, follow=follow)
    planned = up.plan(ours, federation)

    ours.fit(federation)

    rows = sklearn.impute.SimpleImputer(strategy="median").fit_transform(
        np.hstack(list(parts.values()))
    )
    twin = sklearn.preprocessing.RobustScaler(**options)
    theirs = sklearn.decomposition.PCA(2).fit(twin.fit_transform(rows))
    # A Krylov space that is certified to 1e-12 of the largest variance.
    size = theirs.explained_variance_[0]
    for name in ("explained_variance_", "singular_values_"):
        assert_allclose(
            getattr(ours[-1], name),
            getattr(theirs, name),
            rtol=1e-10,
            atol=1e-10 * size,
        )
    # Nothing left any silo, and no plan offers to compare in secret.
    for step in ("imputer.own_medians", "robust_scaler.own_location"):
        lines = [line for line in federation.ledger if line.step == step]
        assert {(line.visibility, line.bytes) for line in lines} == {("kept", 0)}
    assert not any("comparison=" in note for note in planned.notes)


def twin_of(model, **options):
    """Return scikit-learn's model of the same name and parameters."""
    name = type(model).__name__
    kind = getattr(sklearn.impute, name, None) or getattr(sklearn.preprocessing, name)
    return kind(**options)


@pytest.mark.thinned
@pytest.mark.parametrize("follow", [False, True])
@pytest.mark.parametrize(
    ("model", "more"),
    [
        (up.SimpleImputer(strategy="most_frequent"), {}),
        (up.QuantileTransformer(output_distribution="normal"), {"subsample": None}),
        (up.QuantileTransformer(n_quantiles=7), {"subsample": None}),
        (
            up.KBinsDiscretizer(**BINS),
            {"subsample": None, "quantile_method": "linear"},
        ),
        (
            up.KBinsDiscretizer(4),
            {"subsample": None, "quantile_method": "linear"},
        ),
        (up.KBinsDiscretizer(**BINS, strategy="uniform"), {"subsample": None}),
    ],
    ids=str,
)
def test_components_of_transformed_columns_are_those_of_scikit_learns(
    parts, model, more, follow
):
    # In whole numbers, so that values are frequent, and few in no bin of equal width.
    parts = {name: np.clip(part.round(), -3.0, 3.0) for name, part in parts.items()}
    model, names = clone(model), ("strategy", "n_quantiles", "output_distribution")
    own = {n: v for n, v in model.get_params().items() if n in (*names, *BINS)}
    filled = [up.SimpleImputer(strategy="median")]
    ours = make_pipeline(*filled, model, up.PCA(2))
    if isinstance(model, up.SimpleImputer):
        ours = make_pipeline(model, up.PCA(2))
    federation = federation_of(parts, policy=POLICY, follow=follow)
    up.plan(ours, federation)

    ours.fit(federation)

    rows = np.hstack(list(parts.values()))
    if not isinstance(model, up.SimpleImputer):
        rows = sklearn.impute.SimpleImputer(strategy="median").fit_transform(rows)
    with warnings.catch_warnings():
        # Of bins that coincide, and of a constant column.
        warnings.simplefilter("ignore", UserWarning)
        made = twin_of(model, **own, **more).fit_transform(rows)
    theirs = sklearn.decomposition.PCA(2).fit(made).explained_variance_
    # A Krylov space that is certified to 1e-12 of the largest variance.
    assert_allclose(ours[-1].explained_variance_, theirs, rtol=1e-10)
    for line in federation.ledger:
        if ".own_" in line.step and not line.step.startswith("pca."):
            # Public are the probabilities of quantiles, which come in.
            out = line.visibility != "public"
            assert not out or (line.visibility, line.bytes) == ("kept", 0)


@pytest.mark.slow
def test_a_silo_cuts_its_columns_at_one_set_of_its_own_quantiles(parts):
    whole = {name: part.fillna(0.0) for name, part in parts.items()}
    federation = federation_of(whole, policy=POLICY)
    first = up.QuantileTransformer(n_quantiles=10).fit(federation)
    up.PCA(2).fit(first.transform(federation))
    # The same once more.
    again = up.QuantileTransformer(n_quantiles=10).fit(federation)
    up.PCA(1).fit(again.transform(federation))

    others = [up.QuantileTransformer(n_quantiles=9), up.KBinsDiscretizer(**BINS)]
    folds = [train for train, _ in federation.folds(2)]
    asked = [(model, federation) for model in others] + [(first, folds[0])]
    for model, rows in asked:
        mapped = clone(model).fit(rows).transform(federation)
        with pytest.raises(ReleaseRefusedError, match="one_setting"):
            up.PCA(2).fit(mapped)


@pytest.mark.slow
@pytest.mark.parametrize("follow", [False, True])
@pytest.mark.parametrize("strategy", ["mean", "median", "most_frequent", "constant"])
def test_indicators_are_those_of_pooled_columns(parts, strategy, follow):
    parts = {name: part.round() for name, part in parts.items()}
    federation = federation_of(parts, policy=POLICY, follow=follow)
    imputer = up.SimpleImputer(strategy, add_indicator=True)
    ours = make_pipeline(imputer, up.RobustScaler(), up.PCA(3))
    assert not up.plan(ours, federation).refusals

    ours.fit(federation)

    twin = sklearn.impute.SimpleImputer(strategy=strategy, add_indicator=True)
    rows = twin.fit_transform(pd.concat(parts.values(), axis=1))
    rows = sklearn.preprocessing.RobustScaler().fit_transform(rows)
    theirs = sklearn.decomposition.PCA(3).fit(rows)
    size = theirs.explained_variance_[0]
    found, wanted = ours[-1].explained_variance_, theirs.explained_variance_
    assert_allclose(found, wanted, rtol=1e-10, atol=1e-10 * size)
    names = ["a", "b", "missingindicator_b", "c", "d", "e", "f", "missingindicator_f"]
    assert list(imputer.get_feature_names_out()) == names
    assert imputer.transform(federation).feature_names == tuple(names)
    seen = {
        (line.step, line.name, line.visibility)
        for line in federation.ledger
        if line.step.startswith("imputer") and line.direction == "out"
        if line.visibility != "kept"
    }
    assert seen == {("imputer.shown_lacks", "lacks", "disclosed")}


def test_a_silo_refuses_indicators_of_few_people(parts):
    few = {
        **parts,
        "shop": parts["shop"].assign(c=[np.nan] * 3 + [1.0, 2.0] * 98 + [0.0]),
    }
    federation = federation_of(few, policy=POLICY)
    with pytest.raises(ReleaseRefusedError, match=r"shop.*min_rows_per_class"):
        up.SimpleImputer(add_indicator=True).fit(federation)
    up.SimpleImputer().fit(federation)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "name"),
    [(up.StandardScaler(), "mean_"), (up.Describe(), "mean_")],
    ids=str,
)
@pytest.mark.parametrize("strategy", ["median", "most_frequent"])
def test_what_a_silo_shows_does_not_give_what_fills_its_columns(
    parts, model, name, strategy
):
    # The mean of filled columns, times N, less the sum of the cells that are there, is
    # what fills them times the number of missing cells.
    rules = {"allow_disclosed": True}
    federation = federation_of(parts, policy=rules)
    assert len(getattr(clone(model).fit(federation), name).ravel()) == 6
    filled = up.SimpleImputer(strategy=strategy).fit(federation).transform(federation)
    with pytest.raises(ReleaseRefusedError, match="own_cells"):
        getattr(clone(model).fit(filled), name)
    # Control: a silo that lets such cells be seen.
    rules["allow_order_statistics"] = True
    federation = federation_of(parts, policy=rules)
    filled = up.SimpleImputer(strategy=strategy).fit(federation).transform(federation)
    before, after = (
        np.ravel(getattr(clone(model).fit(view), name))[1]
        for view in (federation, filled)
    )
    found = (after * N - before * (N - 60)) / 60
    values = parts["bank"]["b"]
    wanted = values.median() if strategy == "median" else values.mode()[0]
    assert_allclose(found, wanted, rtol=1e-9)


def test_bins_have_the_names_that_they_have_on_rows(parts):
    federation = federation_of(parts, policy=POLICY)
    numbers = federation.select(["a", "d", "e"])
    bins = up.KBinsDiscretizer(2).fit(numbers)
    # A column with one value has one bin.
    names = ("a_0.0", "a_1.0", "d_0.0", "d_1.0", "e_0.0")
    assert bins.transform(numbers).feature_names == names
    assert tuple(bins.get_feature_names_out()) == names
    with pytest.raises(DataError, match="no silo shows them"):
        _ = bins.bin_edges_


@pytest.mark.slow
def test_a_silo_shows_how_many_bins_it_has_for_one_number(parts):
    # Zeros that are 55% of a column are the median, and not the lowest of three
    # quantiles: numbers of bins for 2, 3, ... would tell their share.
    zeros = np.where(np.arange(N) < 110, 0.0, np.linspace(1.0, 2.0, N))
    silos = {**parts, "shop": parts["shop"].assign(c=zeros)}
    federation = federation_of(silos, policy=POLICY).select(["a", "c", "d", "e"])
    up.KBinsDiscretizer(3).fit(federation)
    with pytest.raises(ReleaseRefusedError, match="one_setting"):
        up.KBinsDiscretizer(4).fit(federation)
    up.KBinsDiscretizer(4, encode="ordinal").fit(federation)
    step = k_bins_discretizer.own_bins
    assert not step(zeros[:, None], n_bins=4, strategy="quantile", shown=False)["bins"]
    for other in (3, True):
        with pytest.raises(DataError, match="shown for their number"):
            step(zeros[:, None], n_bins=4, strategy="quantile", shown=other)
    # Control: a silo that lets its own values be seen.
    federation = federation_of(silos, policy={**POLICY, "allow_disclosed": True})
    view = federation.select(["a", "c", "d", "e"])
    found = [int(up.KBinsDiscretizer(k).fit(view).n_bins_[1]) for k in (2, 3, 4, 5)]
    assert found == [1, 2, 2, 3]


def test_a_silo_refuses_bins_of_few_people(parts):
    few = {name: part.fillna(0.0) for name, part in parts.items()}
    few["bank"] = few["bank"].assign(a=np.r_[100.0, np.linspace(0.0, 1.0, N - 1)])
    model = up.KBinsDiscretizer(**BINS, strategy="uniform")
    with pytest.raises(ReleaseRefusedError, match="min_own_cells"):
        model.fit(federation_of(few, policy=POLICY))


@pytest.mark.slow
def test_other_people_are_scaled_by_what_was_kept(parts):
    whole = {name: part.fillna(0.0) for name, part in parts.items()}
    fitted = up.RobustScaler().fit(federation_of(whole, policy=POLICY))
    others = {name: part.iloc[:150] * 3.0 + 1.0 for name, part in whole.items()}

    ours = up.PCA(2).fit(fitted.transform(federation_of(others, policy=POLICY)))

    twin = sklearn.preprocessing.RobustScaler().fit(np.hstack(list(whole.values())))
    rows = twin.transform(np.hstack(list(others.values())))
    theirs = sklearn.decomposition.PCA(2).fit(rows).explained_variance_
    assert_allclose(ours.explained_variance_, theirs, rtol=1e-10)


@pytest.mark.thinned(1)
@pytest.mark.parametrize(
    ("model", "name"),
    [
        (up.RobustScaler(), "center_"),
        (up.SimpleImputer(strategy="median"), "statistics_"),
        (up.SimpleImputer(strategy="most_frequent"), "statistics_"),
        (up.QuantileTransformer(), "quantiles_"),
    ],
    ids=str,
)
def test_no_silo_shows_its_quantiles(parts, model, name):
    model = clone(model).fit(federation_of(parts, policy=up.Policy.open()))
    with pytest.raises(DataError, match="no silo shows them"):
        getattr(model, name)
    assert "its folder of results" in str(model.summary())


def test_a_column_without_a_value_is_named_by_its_rule(parts):
    parts = {**parts, "bank": parts["bank"].assign(b=np.nan)}
    for model in (up.RobustScaler(), up.SimpleImputer(strategy="median")):
        with pytest.raises(DataError, match="empty_column"):
            clone(model).fit(federation_of(parts))
    kept = up.SimpleImputer(strategy="median", keep_empty_features=True)
    kept.fit(federation_of(parts))


@pytest.mark.slow
def test_a_silo_fills_few_cells_in_one_way_only(parts):
    few = {
        **parts,
        "tax": parts["tax"].assign(f=np.where(np.arange(N) < 3, np.nan, 1.0)),
    }
    few["tax"]["f"] += np.linspace(0.0, 1.0, N) ** 2
    federation = federation_of(few, policy=POLICY)
    rest = up.SimpleImputer().fit(federation).transform(federation)
    up.PCA(2).fit(rest)

    by_median = up.SimpleImputer(strategy="median").fit(federation)
    with pytest.raises(ReleaseRefusedError, match="another_filling"):
        up.PCA(2).fit(by_median.transform(federation))


def test_what_is_not_offered_says_what_is(parts):
    federation = federation_of(parts)
    with pytest.raises(DataError, match="Leave ranges out"):
        up.KBinsDiscretizer(**BINS, strategy="uniform", ranges={"a": (0, 1)}).fit(
            federation
        )
    private = up.RobustScaler(privacy={"epsilon": 1.0, "delta": 1e-5})
    with pytest.raises(DataError, match="Leave privacy out"):
        private.fit(federation)
    with pytest.raises(DataError, match="each can do for its own") as refused:
        up.FactorAnalysis().fit(federation)
    of_several = [
        name
        for name, kind in estimators().items()
        if "columns" in kind._partitions and name not in ALONE
    ]
    assert of_several
    for name in of_several:
        assert name in str(refused.value)
    assert base._ON_COLUMNS in str(refused.value)


STUDY = """
[study]
name = "columns"
partition = "columns"
aligned = true
{policy}
[[steps]]
model = "SimpleImputer"
strategy = "median"
{more}
[[steps]]
model = "PCA"
n_components = 2
"""


def written(parts, folder, more='[[steps]]\nmodel = "RobustScaler"'):
    text = STUDY.format(policy="[policy]\nallow_row_level = true", more=more)
    for name, part in parts.items():
        part.to_csv(folder / f"{name}.csv", index=False)
        text += f'[parties.{name}]\nsource = "{name}.csv"\n'
    (folder / "study.toml").write_text(text)
    return folder / "study.toml"


@pytest.mark.slow
def test_from_a_study_file_to_each_silos_own_results(parts, tmp_path):
    study, out = written(parts, tmp_path), tmp_path / "run"
    for command in (["plan", study], ["run", study, "--out", out], ["report", out]):
        done = CliRunner().invoke(app, [str(part) for part in command])
        assert done.exit_code == 0, done.output
        assert not done.stderr
    found = list((out / "silos" / "bank").rglob("*.csv"))
    cells = "".join(path.read_text("utf-8") for path in found)
    numbers = {cell for line in csv.reader(cells.splitlines()) for cell in line}
    medians = parts["bank"].median()
    assert {repr(float(value)) for value in medians} <= numbers


@pytest.mark.slow
@pytest.mark.parametrize(
    ("step", "kept"),
    [
        ('model = "QuantileTransformer"', "quantile_transformer_quantiles"),
        (
            'model = "KBinsDiscretizer"\nn_bins = 4\nencode = "ordinal"',
            "k_bins_discretizer_edges",
        ),
        ('model = "SimpleImputer"\nstrategy = "most_frequent"', "imputer_statistics"),
    ],
)
def test_studies_map_cut_and_fill_own_columns(parts, step, kept, tmp_path):
    study, out = written(parts, tmp_path, f"[[steps]]\n{step}"), tmp_path / "run"
    commands = (["plan", study], ["run", study, "--out", out], ["resume", out])
    for command in (*commands, ["report", out]):
        done = CliRunner().invoke(app, [str(part) for part in command])
        assert done.exit_code == 0, done.output
        assert not done.stderr
    assert list((out / "silos" / "bank").rglob(f"{kept}*.csv"))
    # A silo's quantiles of its own cells are exact, and nothing else was found.
    page = (out / "report.html").read_text("utf-8")
    assert "interpolated between" not in page
    assert not list((out / "results").rglob("fitted_attributes*"))


def test_a_study_cannot_ask_for_quantiles(parts, tmp_path):
    study = written(
        parts, tmp_path, '[[steps]]\nmodel = "RobustScaler"\ndisclose = ["center_"]'
    )
    with pytest.raises(StudyError, match="they keep no attributes"):
        StudyFile.from_file(study)


@pytest.mark.thinned(1)
@pytest.mark.parametrize(
    "model",
    [
        up.RobustScaler(),
        up.QuantileTransformer(n_quantiles=3),
        up.KBinsDiscretizer(encode="ordinal"),
        up.SimpleImputer(strategy="median"),
        up.SimpleImputer(strategy="most_frequent"),
        up.SimpleImputer(strategy="most_frequent", add_indicator=True),
    ],
    ids=str,
)
def test_an_infinite_cell_is_refused_as_a_plan_says(model):
    tables = {name: np.random.default_rng(0).normal(size=(60, 2)) for name in "abc"}
    tables["a"][3, 0] = np.inf
    policy = up.Policy.open()
    people = up.simulate(tables, partition="columns", aligned=True, policy=policy)
    assert {rule for _, _, rule in up.plan(model, people).refusals} == {
        "infinite_values"
    }
    with pytest.raises(DataError, match="infinite_values"):
        model.fit(people)

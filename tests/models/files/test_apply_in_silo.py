"""Fitted models applied in a silo: what the study's views have there, row by row."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline

import unpooled as up
from integration.matrix import CASES, model_of, text_of
from integration.rows import WRITERS
from logged_silos import place
from silo_rows import table_of
from unpooled.data.sources.open_source import open_source
from unpooled.errors import DataError, StudyError
from unpooled.models.files.apply_in_silo import apply
from unpooled.models.files.catalogue import estimators
from unpooled.models.files.model_file import load
from unpooled.party.memory.audit_log import AuditLog
from unpooled.party.memory.kept_arrays import KeptArrays, shared_kept
from unpooled.party.memory.studies import kept_of_fit
from unpooled.party.views.view import View
from unpooled.protocol.view_operations import split_address
from unpooled.study import Study

# Fixtures of another module.
__all__ = ["place"]

# Secure comparisons take their time, and their exponents are applied like any others.
SLOW = ("PowerTransformer", "PCA-power")
# Whose directions are of columns that each silo whitened for itself.
NO_SCORES = ("CCA-dcca-power",)
BY_ROWS = [
    name
    for name, case in CASES.items()
    if case.partition == "rows"
    and name not in (*SLOW, *NO_SCORES)
    and hasattr(estimators()[model_of(name)], "transform")
]
# Of people whose columns three silos have.
BY_COLUMNS = ["CCA-columns", "KernelPCA-columns", "StandardScaler-columns"]


def fitted(name, folder):
    """Run a case in this process; return its study, and its pipeline as delivered."""
    case = CASES[name]
    sources = {
        silo: WRITERS[case.partition](silo, folder)
        for silo in ("cleveland", "hungary", "va")
    }
    study = Study.from_text(folder / f"{name}.toml", text_of(name, sources))
    done = study.run()
    return study, load(done.folder / "pipeline.unpooled"), sources["hungary"]


def kept(address):
    """Return what the silo keeps of a fit in this process."""
    study, view = split_address(address)
    store = shared_kept("hungary", study)
    assert store is not None
    return KeptArrays(view, [store])


@pytest.mark.slow
@pytest.mark.parametrize("name", BY_ROWS)
def test_a_silo_writes_what_the_study_reads_of_its_rows(name, tmp_path):
    study, pipeline, source = fitted(name, tmp_path)
    table = open_source(str(source), label="num", categorical=CASES[name].categorical)
    view = study.federation()
    for _, part in pipeline.steps:
        view = part.transform(view)
    own = View(table_of(view, "hungary"), view.operations, kept)
    wanted = np.concatenate([block.X for block in own.blocks([])])

    n_rows, columns = apply(pipeline, table, tmp_path / "out.csv", kept)

    written = pd.read_csv(tmp_path / "out.csv")
    assert n_rows == len(wanted) == 294
    assert columns == ["num", *view.feature_names] == list(written.columns)
    # A name that one row of the silo has counts as "other" in a study, and as itself in
    # the silo's own file, where nobody else sees it.
    frame = pd.read_parquet(source)
    alone = np.zeros(n_rows, dtype=bool)
    for column in CASES[name].categorical:
        # A missing cell has a name of its own.
        sizes = frame.groupby(column, dropna=False)[column].transform("size")
        alone |= sizes.eq(1).to_numpy()
    assert alone.sum() <= 1
    own_rows = written.drop(columns="num")[~alone]
    np.testing.assert_allclose(own_rows, wanted[~alone], rtol=1e-9)


def nothing_kept(address):
    """Stand for a silo that keeps no arrays of any fit."""
    return KeptArrays(address, ())


def mixed_silos(n=60):
    """Return three silos of numbers, some missing, and of names."""
    rng = np.random.default_rng(0)
    silos = {}
    for silo in "abc":
        site = rng.choice(["north", "south", "west"], n).astype(object)
        frame = pd.DataFrame(
            {
                "ward": rng.choice(["1", "02", "icu"], n),
                "age": rng.normal(60, 9, n),
                "chol": rng.normal(240, 40, n),
                "site": site,
            }
        )
        frame.loc[:4, "chol"] = np.nan
        frame.loc[3:6, "site"] = None
        silos[silo] = frame
    return silos


PIPELINES = {
    "FAMD": lambda: (
        up.ColumnTransformer(
            [(up.SimpleImputer(), ["age", "chol"])], remainder="passthrough"
        ),
        up.FAMD(),
    ),
    "PCA": lambda: (
        up.ColumnTransformer(
            [
                (up.OneHotEncoder(drop="first"), "categorical"),
                (up.SimpleImputer(), "numeric"),
            ]
        ),
        up.PCA(2),
    ),
    "DerivedColumns": lambda: (
        up.DerivedColumns({"icu": "ward == 'icu'", "old": "log(age)"}),
    ),
}


# A name that one row of a silo has is none that the study knows.
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Found unknown categories")
@pytest.mark.parametrize("name", PIPELINES)
@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_names_of_a_file_are_the_models_categories(name, ending, tmp_path):
    silos = mixed_silos()
    categories = ["ward", "site"]
    federation = up.simulate(silos, categorical=categories)
    model = make_pipeline(*PIPELINES[name]()).fit(federation)
    # New rows, of which some names have one row, and one nobody had in the fit.
    rows = silos["a"][:12].assign(site=["north", "east", *silos["a"].site[2:12]])
    rows[["chol", "site", "ward", "age"]].to_csv(tmp_path / "new.csv", index=False)
    table = open_source(str(tmp_path / "new.csv"), categorical=categories)
    path = up.save(model, tmp_path / "model.unpooled")

    n_rows, columns = apply(load(path), table, tmp_path / f"out{ending}", kept)

    out = tmp_path / f"out{ending}"
    # A ward is called "02", which is no number.
    typed = {"dtype": {"ward": str}} if "ward" in columns else {}
    written = pd.read_csv(out, **typed) if ending == ".csv" else pd.read_parquet(out)
    order = [*federation.feature_names]
    wanted = pd.DataFrame(model.transform(rows[order]), columns=columns)
    assert n_rows == 12
    pd.testing.assert_frame_equal(
        written.astype(wanted.infer_objects().dtypes),
        wanted.infer_objects(),
        rtol=1e-12,
    )


def test_a_column_of_categories_is_no_number(tmp_path):
    silos = {name: frame[["age", "chol"]] for name, frame in mixed_silos().items()}
    model = up.SimpleImputer().fit(up.simulate(silos))
    rows = silos["a"].astype(str)
    rows.to_csv(tmp_path / "new.csv")
    table = open_source(
        str(tmp_path / "new.csv"), columns=["age", "chol"], categorical=["chol"]
    )

    with pytest.raises(DataError, match="and this silo's file has 'chol' among"):
        apply(model, table, tmp_path / "out.csv", kept)


def test_a_silo_centres_by_the_means_that_it_kept(place, tmp_path):
    """Between organisations they are on the silo's disk, until it forgets the study."""
    model = up.CentreBySite().fit(place.federation())
    table = place.parties["b"].table
    rows = next(iter(table.blocks(table.columns))).X
    new = rows[:9] + 1.0
    log = AuditLog(place.log("b"))

    apply(model, open_source(new), tmp_path / "out.csv", partial(kept_of_fit, log))

    written = pd.read_csv(tmp_path / "out.csv").to_numpy()
    np.testing.assert_allclose(written, new - rows.mean(axis=0), atol=1e-12)
    log.forgotten("s", [])
    with pytest.raises(DataError, match="study s, and there are none"):
        apply(model, open_source(new), tmp_path / "2.csv", partial(kept_of_fit, log))


@pytest.mark.slow
@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_a_model_that_predicts_writes_classes_and_probabilities(ending, tmp_path):
    """It had nothing to write: a classifier was of no use where it was sent to."""
    silos = mixed_silos()
    rng = np.random.default_rng(1)
    for frame in silos.values():
        frame["ill"] = np.where(frame["age"] + rng.normal(0, 9, len(frame)) > 60, 1, 0)
        frame["ill"] = frame["ill"].map({0: "no", 1: "yes"})
    encoded = up.ColumnTransformer(
        [(up.SimpleImputer(), "numeric"), (up.OneHotEncoder(drop="first"), ["ward"])]
    )
    model = make_pipeline(encoded, up.LogisticRegression()).fit(
        up.simulate(
            silos, label="ill", categorical=["ward", "site"], policy=up.Policy.open()
        )
    )
    source = tmp_path / "rows.parquet"
    silos["a"].to_parquet(source)
    table = open_source(source, label="ill", categorical=["ward", "site"])

    n, columns = apply(model, table, tmp_path / f"out{ending}", nothing_kept)

    read = pd.read_csv if ending == ".csv" else pd.read_parquet
    written = read(tmp_path / f"out{ending}")
    rows = silos["a"].drop(columns="ill")
    assert n == len(rows)
    assert columns == ["ill", "predicted", "probability_no", "probability_yes"]
    assert written["predicted"].tolist() == model.predict(rows).tolist()
    np.testing.assert_allclose(
        written.iloc[:, 2:], model.predict_proba(rows), rtol=1e-12
    )


@pytest.mark.slow
def test_a_regression_writes_predicted_numbers(tmp_path):
    cells = np.random.default_rng(2).normal(size=(90, 3))
    rows = pd.DataFrame(cells, columns=["a", "b", "c"])
    federation = up.simulate({name: rows[k::3] for k, name in enumerate("xyz")})
    model = up.LinearRegression().fit(federation, "c")
    table = open_source(rows)

    _, columns = apply(model, table, tmp_path / "out.csv", nothing_kept)

    written = pd.read_csv(tmp_path / "out.csv")
    assert columns == ["predicted"]
    np.testing.assert_allclose(written["predicted"], model.predict(rows[["a", "b"]]))
    within = up.LinearRegression(site_effects=True).fit(federation, "c")
    with pytest.raises(StudyError, match="own intercept for each silo"):
        apply(within, table, tmp_path / "2.csv", nothing_kept)
    with pytest.raises(StudyError, match="neither transforms nor predicts"):
        apply(up.describe(federation), table, tmp_path / "3.csv", nothing_kept)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.csv"]


@pytest.mark.slow
@pytest.mark.parametrize("name", NO_SCORES)
def test_a_model_without_scores_says_so(name, tmp_path):
    _, pipeline, source = fitted(name, tmp_path)
    table = open_source(str(source), label="num")

    with pytest.raises(DataError, match=r"no scores along them. Fit with solver"):
        apply(pipeline, table, tmp_path / "out.csv", kept)
    assert not (tmp_path / "out.csv").exists()


@pytest.mark.slow
@pytest.mark.parametrize("name", BY_COLUMNS)
def test_a_model_of_other_silos_columns_says_why_it_is_not_applied(name, tmp_path):
    _, pipeline, source = fitted(name, tmp_path)
    table = open_source(str(source), label="num")

    with pytest.raises(StudyError, match="own columns are enough to apply it"):
        apply(pipeline, table, tmp_path / "out.csv", kept)
    assert not (tmp_path / "out.csv").exists()


def test_a_silo_writes_how_far_its_rows_lie(tmp_path):
    rng = np.random.default_rng(1)
    silos = {
        name: pd.DataFrame(rng.normal(size=(80, 5)), columns=list("vwxyz"))
        for name in "abc"
    }
    silos["b"].iloc[4] = 9.0
    pca = up.PCA(2, outliers=True).fit(up.simulate(silos))
    silos["b"].to_csv(tmp_path / "b.csv", index=False)
    table = open_source(str(tmp_path / "b.csv"))

    apply(pca, table, tmp_path / "far.csv", kept, outliers=True)

    far = pd.read_csv(tmp_path / "far.csv")
    X = silos["b"].to_numpy()
    np.testing.assert_allclose(far["mahalanobis"], pca.mahalanobis(X), rtol=1e-9)
    np.testing.assert_allclose(far["q_residual"], pca.q_residuals(X), rtol=1e-9)
    assert far["beyond"][4] == 99.9
    assert set(far["beyond"]) <= {0.0, 95.0, 99.0, 99.9}
    ordinary = far[(far["mahalanobis"] < pca.mahalanobis_limits_[0])
                   & (far["q_residual"] < pca.q_limits_[0])]  # fmt: skip
    assert set(ordinary["beyond"]) == {0.0}


def test_distances_take_a_pca_with_limits(tmp_path):
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(90, 3)))
    frame.columns = list("abc")
    pca = up.PCA(2).fit(up.simulate({str(i): frame[i::3] for i in range(3)}))
    frame.to_csv(tmp_path / "a.csv", index=False)
    with pytest.raises(StudyError, match="outliers=True"):
        apply(pca, open_source(str(tmp_path / "a.csv")), tmp_path / "b.csv", kept,
              outliers=True)  # fmt: skip

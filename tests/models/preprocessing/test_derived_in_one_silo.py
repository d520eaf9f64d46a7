"""Derived columns and row filters where silos have other columns of the same people."""

import csv

import numpy as np
import pandas as pd
import pytest
import sklearn.decomposition
from numpy.testing import assert_allclose
from sklearn.pipeline import make_pipeline
from typer.testing import CliRunner

import unpooled as up
from unpooled.cli import app
from unpooled.errors import DataError, ReleaseRefusedError

N = 240
OF = {"clinic": ["age", "chol total", "site"], "lab": ["before", "after"], "tax": ["w"]}
MADE = {
    "log_chol": "log(`chol total`)",
    "ratio": "`chol total` / age",
    "change": "after - before",
    "both": "age * `chol total`",
    "north": "site == 'north'",
}
# The new columns stand behind those of their silo, in the order of their names.
NAMES = ["age", "chol total", "site", "both", "log_chol", "north", "ratio"]
NAMES += ["before", "after", "change", "w"]


@pytest.fixture(scope="module")
def joined():
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(
        {
            "age": rng.uniform(20, 80, N),
            "chol total": rng.uniform(100, 300, N),
            "site": rng.choice(["north", "south"], N),
            "before": rng.standard_normal(N),
            "after": rng.standard_normal(N),
            "w": rng.lognormal(2, 0.3, N),
        }
    )
    return frame.set_index(pd.Index([f"p{i}" for i in range(N)], name="id"))


def with_derived(frame):
    return frame.assign(
        both=frame.age * frame["chol total"],
        change=frame.after - frame.before,
        log_chol=np.log(frame["chol total"]),
        north=(frame.site == "north").astype(float),
        ratio=frame["chol total"] / frame.age,
    )[[name for name in NAMES]]


def federation_of(joined, **options):
    parts = {silo: joined[own].reset_index(drop=True) for silo, own in OF.items()}
    options = {"policy": {"allow_row_level": True}, "categorical": ["site"]} | options
    return up.simulate(parts, partition="columns", aligned=True, **options)


def assert_components(model, rows):
    rows = (rows - rows.mean()) / rows.std(ddof=0)
    theirs = sklearn.decomposition.PCA(2).fit(rows)
    found, wanted = model.explained_variance_, theirs.explained_variance_
    assert_allclose(found, wanted, rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("follow", [False, True])
def test_columns_are_made_in_the_silo_that_has_their_own(joined, follow):
    federation = federation_of(joined, follow=follow)
    derived = up.DerivedColumns(MADE)
    ours = make_pipeline(
        derived, up.OneHotEncoder(drop="first"), up.StandardScaler(), up.PCA(2)
    )
    assert not up.plan(ours, federation).refusals
    ours.fit(federation)

    assert list(derived.get_feature_names_out()) == NAMES
    assert derived.transform(federation).feature_names == tuple(NAMES)
    assert {line.step.partition(".")[0] for line in federation.ledger} == {
        *("one_hot_encoder", "scaler", "pca")
    } | {line.step.partition(".")[0] for line in federation.ledger if not line.leaves}
    rows = with_derived(joined)
    assert_components(ours[-1], rows.assign(site=(rows.site == "south").astype(float)))
    # New people, and rows at hand.
    assert ours.transform(federation_of(joined.iloc[:60])).shape == (60, 2)
    table = joined[[name for own in OF.values() for name in own]]
    own = pd.DataFrame(derived.transform(table))
    assert own.shape == (N, len(NAMES))


def test_columns_of_two_silos_are_refused_by_name(joined):
    federation = federation_of(joined)
    with pytest.raises(DataError, match="reads columns of 'clinic', 'lab'"):
        up.DerivedColumns({"x": "age / before"}).fit(federation)
    with pytest.raises(DataError, match="is a column already"):
        up.DerivedColumns({"w": "age * age"}).fit(federation)
    with pytest.raises(DataError, match="has no column"):
        up.DerivedColumns({"x": "age / height"}).fit(federation)
    with pytest.raises(DataError, match="needs numbers"):
        up.DerivedColumns({"x": "log(site)"}).fit(federation)


def test_a_silo_judges_what_it_makes(joined):
    negative = up.DerivedColumns({"x": "log(before)"})
    federation = federation_of(joined)
    view = negative.fit_transform(federation).select(exclude=["site"])
    with pytest.raises(DataError, match="derived_cells"):
        up.StandardScaler().fit(view)
    few = joined.assign(site=np.where(np.arange(N) < 4, "east", joined.site))
    rare = up.DerivedColumns({"east": "site == 'east'"})
    federation = federation_of(few)
    view = rare.fit_transform(federation).select(exclude=["site"])
    with pytest.raises(ReleaseRefusedError, match="clinic refused"):
        up.PCA(2).fit(up.StandardScaler().fit_transform(view))


@pytest.mark.slow
def test_a_study_derives_columns_and_filters_rows(joined, tmp_path):
    """A silo leaves out rows by its own columns; the ids tell the others which."""
    out, study = tmp_path / "run", tmp_path / "study.toml"
    text = '[study]\nname = "made"\npartition = "columns"\nids = "id"\n'
    text += 'categorical = ["site"]\n[policy]\nallow_row_level = true\n'
    text += "[derived]\n" + "".join(f'{n} = "{made}"\n' for n, made in MADE.items())
    text += '[[steps]]\nmodel = "OneHotEncoder"\ndrop = "first"\n'
    text += '[[steps]]\nmodel = "StandardScaler"\n'
    text += '[[steps]]\nmodel = "PCA"\nn_components = 2\n'
    for name, own in OF.items():
        joined[own].sample(frac=1, random_state=1).to_csv(tmp_path / f"{name}.csv")
        text += f'[parties.{name}]\nsource = "{name}.csv"\n'
        text += 'where = "age >= 40"\n' if name == "clinic" else ""
    study.write_text(text)
    commands = (["plan", study], ["run", study, "--out", out], ["resume", out])
    for command in (*commands, ["report", out], ["results", out]):
        done = CliRunner().invoke(app, [str(part) for part in command])
        assert done.exit_code == 0, done.output
        assert not done.stderr
    (path,) = out.rglob("*-pca.unpooled")
    model = up.load(path)
    rows = with_derived(joined[joined.age >= 40])
    assert_components(model, rows.assign(site=(rows.site == "south").astype(float)))
    (path,) = (out / "silos" / "lab").rglob("pca_components.csv")
    own = csv.DictReader(path.read_text("utf-8").splitlines())
    assert [row["column"] for row in own] == ["before", "after", "change"]


def test_conditions_on_the_columns_of_another_silo_are_refused(joined, tmp_path):
    text = '[study]\nname = "made"\npartition = "columns"\nids = "id"\n'
    text += '[[steps]]\nmodel = "StandardScaler"\n'
    for name, own in OF.items():
        own = [one for one in own if one != "site"]
        joined[own].to_csv(tmp_path / f"{name}.csv")
        text += f'[parties.{name}]\nsource = "{name}.csv"\n'
        text += 'where = "age >= 40"\n' if name == "lab" else ""
    (tmp_path / "study.toml").write_text(text)
    with pytest.raises(DataError, match="age"):
        up.Study.from_file(tmp_path / "study.toml").run()

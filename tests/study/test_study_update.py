"""Study files that bring a fitted model up to date, in one process."""

import os

import numpy as np
import polars
import pytest
import sklearn.decomposition
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import unpooled as up
from small_study import Killed, kill_at
from twins import assert_same_pca
from unpooled.errors import DataError, StudyError

SILOS = ("north", "south", "west")
JANUARY = "runs/january/models/01-pca.unpooled"
FIT = 'model = "PCA"\nn_components = 2\n'
TELLS = "An update tells more than a fit"


@pytest.fixture(autouse=True)
def quick_disk(monkeypatch):
    """A process that dies loses nothing that it has written; only a machine would."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


def update(file=JANUARY):
    return f'model = "PCA"\nupdate = "{file}"\n'


@pytest.fixture
def rows():
    rng = np.random.default_rng(5)
    mixed = rng.normal(size=(150, 4)) @ rng.normal(size=(4, 4)) + [0, 5, -3, 100]
    return dict(zip(SILOS, np.split(mixed, [40, 90]), strict=True))


@pytest.fixture
def study(tmp_path, rows):
    """Write the silos' rows as they are now, and a study; read it."""

    def write(name, *steps, silos=SILOS, report="false"):
        for silo in silos:
            frame = polars.DataFrame(rows[silo], list("abcd"))
            frame.write_csv(tmp_path / f"{silo}.csv", float_precision=17)
        parties = "".join(f'{silo} = "{silo}.csv"\n' for silo in silos)
        tables = "".join(f"[[steps]]\n{step}" for step in steps)
        (tmp_path / f"{name}.toml").write_text(
            f'[study]\nname = "{name}"\n[parties]\n{parties}{tables}'
            f"[outputs]\nreport = {report}\n"
        )
        return up.Study.from_file(tmp_path / f"{name}.toml")

    return write


def pooled(rows, k=2):
    joined = np.concatenate(list(rows.values()))
    return sklearn.decomposition.PCA(k, svd_solver="full").fit(joined)


def grow(rows, silo="south", by=25, seed=9):
    more = np.random.default_rng(seed).normal(size=(by, 4)) * 3 + [1, 4, 0, 90]
    rows[silo] = np.concatenate([rows[silo], more])


def told(lines):
    return [(x.round, x.step, x.name, x.shape, x.bytes, x.direction) for x in lines]


@pytest.mark.slow
def test_equals_a_refit_in_one_round(study, rows):
    study("january", FIT).run()
    grow(rows)
    rows["west"][:12] += 2.0
    february = study("february", update())
    plan = february.plan()
    assert not february.folder.exists()

    done = february.run()

    assert_same_pca(done.models["pca"], pooled(rows), rtol=1e-10)
    assert done.models["pca"].feature_names_in_.tolist() == list("abcd")
    assert {line.step for line in done.ledger} == {"pca.local_moments"}
    assert told(plan.releases) == told(done.ledger)
    assert plan.rounds == 1
    assert any(TELLS in note for note in plan.notes)


@pytest.mark.slow
def test_silos_join_and_leave_and_months_pass(study, rows):
    study("january", FIT).run()
    del rows["west"]
    rows["east"] = np.random.default_rng(1).normal(size=(33, 4))
    rows["far"] = rows["east"] + 1.0
    study("february", update(), silos=tuple(rows)).run()
    grow(rows, "far")
    file = "runs/february/models/01-pca.unpooled"

    done = study("march", update(file), silos=tuple(rows)).run()

    assert_same_pca(done.models["pca"], pooled(rows), rtol=1e-10)
    assert max(line.round for line in done.ledger) == 1


@pytest.mark.slow
def test_stands_between_other_steps(study, rows):
    """The scaler is fitted anew, the components are updated, and another step reads."""
    scale, last = 'model = "StandardScaler"\n', 'model = "PCA"\nname = "last"\n'
    study("january", scale, FIT).run()
    grow(rows)
    file = "runs/january/models/02-pca.unpooled"

    done = study("february", scale, update(file), last).run()

    joined = np.concatenate(list(rows.values()))
    twin = make_pipeline(
        StandardScaler(), sklearn.decomposition.PCA(2, svd_solver="full")
    ).fit(joined)
    assert_same_pca(done.models["pca"], twin[-1], rtol=1e-10)
    wanted = sklearn.decomposition.PCA(svd_solver="full").fit(twin.transform(joined))
    assert_same_pca(done.models["last"], wanted)
    assert (done.folder / "pipeline.unpooled").exists()


@pytest.mark.slow
def test_goes_on_with_the_model_that_it_began_with(study, rows, tmp_path):
    study("january", FIT).run()
    grow(rows)
    february = study("february", update(), 'model = "PCA"\nname = "last"\n')
    # Of some twenty replies: in the handshake, in the update, and in the step behind.
    for event in (5, 9, 16):
        with pytest.raises(Killed):
            february.run(tmp_path / f"run-{event}", listener=kill_at(event))
    (tmp_path / JANUARY).unlink()

    for event in (5, 9, 16):
        done = february.resume(tmp_path / f"run-{event}")
        assert_same_pca(done.models["pca"], pooled(rows), rtol=1e-10)
    with pytest.raises(StudyError, match="no model file"):
        february.run(tmp_path / "again")
    assert not (tmp_path / "again").exists()


@pytest.mark.slow
def test_the_report_says_what_an_update_discloses(study, rows):
    study("january", FIT).run()
    grow(rows)

    done = study("february", update(), report="true").run()

    assert done.report is not None
    page = " ".join(done.report.read_text().split())
    assert "pca was fitted before, over 150 rows" in page
    assert "updated it, over 175" in page
    assert "over rows of one silo alone if only that silo changed" in page
    assert "How totals changed with an update" in page


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (update() + "n_components = 3\n", r"\[steps 1\] n_components: an update keeps"),
        (update() + 'y = ["a"]\n', r"\[steps 1\] y: an update keeps"),
        ('model = "StandardScaler"\nupdate = "x"\n', "a StandardScaler cannot be"),
        ('model = "PCA"\nupdate = 3\n', r"\[steps 1\] update: must be a text"),
    ],
    ids=["parameter", "y", "model", "number"],
)
def test_what_an_update_cannot_be_is_refused_when_it_is_read(study, step, message):
    with pytest.raises(StudyError, match=message):
        study("february", step)


@pytest.mark.thinned(3)
@pytest.mark.parametrize(
    ("fit", "file", "message"),
    [
        (FIT, "runs/january/models/01-pc.unpooled", "There is no model file"),
        (FIT, "runs/january/pipeline.unpooled", "holds a Pipeline, and step pca"),
        (FIT, "january.toml", "not a model file"),
        (FIT + "bits = 16\n", JANUARY, "update takes exact moments"),
        (FIT + 'svd_solver = "krylov"\n', JANUARY, "update sums a scatter"),
    ],
    ids=["absent", "pipeline", "text", "bits", "krylov"],
)
def test_models_that_cannot_be_updated(study, fit, file, message):
    study("january", fit).run()
    february = study("february", update(file))
    for act in (february.plan, february.run):
        with pytest.raises((StudyError, DataError), match=message):
            act()
    assert not february.folder.exists()

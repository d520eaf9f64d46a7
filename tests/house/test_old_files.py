"""What the library wrote at 7de5e95 is still what it reads; fixtures/7de5e95 has it."""

import inspect
import json
import os
import tomllib
import zipfile
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.pipeline import Pipeline

import logged_silos
import small_study
import unpooled as up
from logged_silos import Place
from model_archives import content_of
from step_declarations import declaration
from unpooled.data.heart_disease import load
from unpooled.errors import ReleaseRefusedError, StudyError
from unpooled.ledger import Ledger
from unpooled.party.memory.audit_log import AuditLog
from unpooled.party.setup.silo_file import SiloFile
from unpooled.protocol.step import find_step
from unpooled.study.reporting import report_of

OLD = Path(__file__).parents[1] / "fixtures" / "7de5e95"
STEPS = json.loads((OLD / "steps.json").read_text())
# Since then sums take counts that were opened before, and silos follow the program.
STEPS |= json.loads((OLD.parent / "later_steps.json").read_text())
MODELS = sorted(path.stem for path in (OLD / "models").glob("*.unpooled"))
LEDGERS = {"rows": "summed", "columns": "summed", "exchange": "exchanged"}


def unpacked(name, folder):
    with zipfile.ZipFile(OLD / f"{name}.zip") as archive:
        archive.extractall(folder)
    return folder


# --- Steps ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", STEPS)
def test_every_step_has_its_name_and_declaration(name):
    step = find_step(name)

    assert step.name == name
    # How silos checked a transform before they followed the whole program.
    before = {"fitted_by", "further", "is_checked"}
    assert declaration(step) == {
        key: value for key, value in STEPS[name].items() if key not in before
    }


# --- Model files ---------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
def test_a_model_loads_and_saves_as_it_was(name, tmp_path):
    path = OLD / "models" / f"{name}.unpooled"

    model = up.load(path)

    assert type(model).__name__ == name.partition("-")[0]
    again, before = content_of(up.save(model, tmp_path / path.name)), content_of(path)
    assert again.keys() == before.keys()
    for member in before:
        if member == "model.json":
            texts = [json.loads(content[member]) for content in (again, before)]
            for text in texts:
                del text["unpooled"]  # the version of the library that wrote it
            for ours, theirs in zip(*map(of_models, texts), strict=True):
                parameters, known = (
                    one.get("parameters", {}) for one in (ours, theirs)
                )
                defaults = inspect.signature(getattr(up, ours["class"], Pipeline))
                for new in parameters.keys() - known.keys():
                    # What came since has its default, which does what was done before.
                    default = defaults.parameters[new].default
                    assert parameters.pop(new) == default
            assert texts[0] == texts[1]
        else:
            assert again[member] == before[member]


def of_models(text):
    """Return what a model file says of the model, and of a pipeline's steps."""
    return [text["model"], *(step for _, step in text["model"].get("steps", ()))]


def test_models_transform_as_they_did():
    people = load()["cleveland"].to_pandas().dropna().head(5).astype(float)
    with np.load(OLD / "models" / "transformed.npz") as expected:
        assert len(expected) > 12
        for name, scores in expected.items():
            model = up.load(OLD / "models" / f"{name}.unpooled")
            columns = list(model.feature_names_in_)
            made = np.asarray(model.transform(people[columns]), float)
            assert_allclose(made, scores, rtol=1e-9, atol=1e-9, err_msg=name)


# --- Ledgers -------------------------------------------------------------------------


@pytest.mark.parametrize("kind", LEDGERS)
def test_a_ledger_is_read_and_verified(kind, tmp_path):
    text = (unpacked("ledgers", tmp_path) / f"{kind}.json").read_text()

    ledger = Ledger.from_json(text)

    assert ledger.verify()
    assert ledger.to_json() == text
    assert LEDGERS[kind] in {line.visibility for line in ledger}
    for line in ledger:
        assert find_step(line.step).name == line.step


# --- Studies -------------------------------------------------------------------------


@pytest.fixture
def study(tmp_path, monkeypatch):
    """Return the folder of a study with a run that ended and one that was killed."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    return unpacked("study", tmp_path)


@pytest.fixture
def fitted(study):
    """Return the fitted attributes that the run that ended had."""
    with np.load(study / "fitted.npz") as file:
        return dict(file)


def check_fitted(run, fitted):
    made = small_study.arrays(run)
    # Later versions may keep more of what was opened.
    assert made.keys() >= fitted.keys()
    for name, value in fitted.items():
        assert_allclose(made[name], value, rtol=1e-12, atol=1e-12, err_msg=name)


@pytest.mark.slow
def test_the_report_of_a_finished_run_is_written_again(study, fitted):
    page = report_of(study / "finished").read_text()

    share = fitted["pca.explained_variance_ratio_"][0]
    for words in ("PCA", *small_study.SILOS, f"{100 * share:.1f}"):
        assert words in page


@pytest.mark.slow
def test_a_finished_run_is_read(study, fitted):
    run = up.Study.from_file(study / "study.toml").resume(study / "finished")

    own = {n: value for n, value in fitted.items() if not n.startswith("updated.")}
    check_fitted(run, own)
    assert run.ledger.verify()


@pytest.mark.slow
def test_a_killed_run_goes_on_to_the_same_end(study, fitted):
    before = Ledger.from_json((study / "killed" / "ledger.jsonl").read_text())
    assert before[-1].step.startswith("pca.")

    run = up.Study.from_file(study / "study.toml").resume(study / "killed")

    own = {n: value for n, value in fitted.items() if not n.startswith("updated.")}
    check_fitted(run, own)
    assert run.ledger[: len(before)] == before
    assert run.ledger.verify()
    # What was finished before is not asked for again.
    assert {line.step for line in run.ledger[len(before) :]} <= {
        "pca.local_total",
        "pca.local_squares",
        "pca.local_scatter",
        "imputer.imputed",
        "scaler.standardised",
    }


@pytest.mark.slow
def test_a_model_is_brought_up_to_date(study, fitted):
    run = up.Study.from_file(study / "update.toml").run(study / "updated")

    prefix = "updated."
    own = {n.removeprefix(prefix): v for n, v in fitted.items() if n.startswith(prefix)}
    check_fitted(run, own)


# --- Silos ---------------------------------------------------------------------------


@pytest.fixture
def silos(tmp_path, monkeypatch):
    """Return three silos by name, in folders that an earlier library wrote."""
    folder, found = unpacked("silos", tmp_path), {}
    for name in "abc":
        local = folder / name / "local"
        # An archive has no rights, and a key must be its owner's alone.
        (local / "identity.key").chmod(0o600)
        rules = (local / "policy.toml").read_text()
        if name == "a":
            # A limit that was set is not dropped: the silo decides about the new one.
            with pytest.raises(StudyError, match="max_leverage"):
                SiloFile.from_file(local / "silo.toml").rules()
        rules = rules.replace("max_row_share = 0.5", "max_leverage = 0.95")
        (local / "policy.toml").write_text(rules)
        found[name] = SiloFile.from_file(local / "silo.toml")
        monkeypatch.setitem(logged_silos.IDENTITIES, name, found[name].key())
    return found


@pytest.fixture
def expected(silos, tmp_path):
    return json.loads((tmp_path / "expected.json").read_text())


@pytest.fixture
def place(silos, tmp_path):
    """Return the silos after a restart."""
    return Place(tmp_path, {name: silo.party() for name, silo in silos.items()})


@pytest.fixture
def ledger(silos, tmp_path):
    """Return the coordinator's ledger of the first study."""
    return Ledger.from_json((tmp_path / "ledger.json").read_text())


def test_settings_and_policy_are_read(silos):
    silo = silos["b"]
    text = silo.policy.read_text()

    assert silo.rules() == up.Policy(**tomllib.loads(text))
    assert set(tomllib.loads(text)) <= set(up.Policy.__dataclass_fields__)
    assert (silo.name, silo.label, silo.partition) == ("b", "kind", "rows")
    assert (silo.block_mb, silo.audit_pages) == (32, 5000)
    assert silo.approval == "each-study"
    assert silo.columns == ("x0", "x1", "x2")
    assert silo.missing == {"x1": [999]}
    assert silo.pinned()["b"] == silo.key().public


@pytest.mark.slow
def test_an_audit_log_is_verified_and_remembers_what_it_did(silos, expected, ledger):
    for name, silo in silos.items():
        log, before = AuditLog(silo.audit), expected["silos"][name]

        assert log.verify([silo.key().public])
        assert [entry.kind for entry in log.entries()] == before["entries"]
        assert {study: memory(log, study) for study in log.studies()} == (
            before["studies"]
        )
        assert {n: len(log.state().notes[n]) for n in ("version", "filled")} == before[
            "notes"
        ]
        assert log.spent() == pytest.approx(before["spent"], rel=1e-12)
        assert log.spent() > 0
        assert log.check_against(ledger, name) == 0


def memory(log, study):
    told = log.study(study)
    return {
        "lines": told.lines,
        "fitted": sorted([step, list(front)] for step, front in told.fitted),
        "answered": sorted(told.answered),
        "sessions": sorted(told.sessions),
        "approval": told.approval,
        "models": told.models,
        "forgotten": told.forgotten,
        "refusals": told.refusals,
    }


@pytest.mark.slow
def test_a_restarted_silo_goes_on(place, ledger, silos):
    last = max(line.round for line in ledger)
    before = len(ledger)
    federation = place.federation(study="first", ledger=ledger, first_round=last + 1)

    up.SimpleImputer().fit(federation)

    keys = {name: silo.key().public for name, silo in silos.items()}
    assert federation.ledger.verify(keys)
    assert len(federation.ledger) > before
    assert AuditLog(silos["a"].audit).verify()


def test_a_restarted_silo_has_what_it_kept(place, ledger, expected):
    last = max(line.round for line in ledger)
    federation = place.federation(study="first", ledger=ledger, first_round=last + 1)

    shown = federation.collect(find_step("scaler.shown_squares"))

    for name in "abc":
        for array, values in expected["silos"][name]["shown"].items():
            assert_array_equal(shown[name][array], values)


def test_a_restarted_silo_refuses_what_it_refused(place, expected, silos):
    def rule(ask):
        with pytest.raises(ReleaseRefusedError) as refused:
            ask()
        return refused.value.rule

    others, denied = place.federation("ab", "second"), place.federation(study="denied")
    filled = up.SimpleImputer(strategy="constant", fill_value=3.0).fit_transform(
        place.federation(study="second")
    )
    assert expected["rules"] == {
        "others": rule(lambda: up.PCA(2).fit(others)),
        "denied": rule(lambda: up.PCA(2).fit(denied)),
        "filled otherwise": rule(lambda: up.PCA(2).fit(filled)),
    }
    # A study that is new to it waits for a person.
    fresh = place.federation(study="new")
    assert rule(lambda: up.PCA(2).fit(fresh)) == "approval"


def test_a_restarted_silo_refuses_a_session_that_is_over(place, expected):
    (session, *_) = expected["silos"]["a"]["studies"]["first"]["sessions"]
    with pytest.raises(StudyError, match="is over"):
        AuditLog(place.folder / "a" / "state" / "audit.sqlite").joined(
            logged_silos.IDENTITIES["a"], "first", session, dict.fromkeys("abc", "00")
        )


def test_a_restarted_silo_knows_the_table_that_it_answered_about(silos, tmp_path):
    path = tmp_path / "a" / "rows.csv"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:-1], "7.5,8.5,9.5,0", ""]))
    place = Place(tmp_path, {name: silo.party() for name, silo in silos.items()})

    with pytest.raises(ReleaseRefusedError, match=r"a refused .*min_changed_rows"):
        up.SimpleImputer().fit(place.federation(study="second"))


def test_a_delivered_model_is_read(silos):
    for silo in silos.values():
        model = up.load(silo.models / "first" / "pca.unpooled")
        assert model.n_components_ == 2

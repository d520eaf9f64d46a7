"""Studies over a consortium from a shell, at the coordinator and in a silo."""

import json
import shlex

import numpy as np
import polars
import pytest

from integration.consortium import HEART, study_text, wait_for
from integration.mishaps import assert_ledger_tells_what_left
from integration.terminal import Terminal, unpooled
from unpooled.data import heart_disease
from unpooled.models.files.model_file import load
from unpooled.study.run_folder import RunFolder


def study_file(consortium, name, steps=HEART):
    path = consortium.folder / f"{name}.toml"
    path.write_text(study_text(name, steps) + "[outputs]\nreport = false\n")
    return path


def test_plan_and_run(consortium):
    file, kit = study_file(consortium, "by-command"), consortium.coordinator

    plan = unpooled("plan", file, "--kit", kit)
    assert plan.returncode == 0, plan.stderr
    assert "local_scatter" in plan.stdout
    run = unpooled("run", file, "--kit", kit)
    assert run.returncode == 0, run.stderr
    assert "round 8 of 8" in run.stdout
    again = unpooled("run", file, "--kit", kit, "--out", file.with_suffix(".other"))
    assert again.returncode == 1
    assert "has a run of a study by-command already" in again.stderr


def test_ctrl_c_that_was_a_slip(consortium):
    file = study_file(consortium, "slip")
    wait_for(lambda: not consortium.jobs("va"))
    window = Terminal("run", file, "--kit", consortium.coordinator)
    wait_for(lambda: consortium.jobs("va"), pause=0.02)

    window.types("\x03")
    window.sees("Stop the job of study slip? [Y/n]")
    window.types("n\n")

    assert window.ends() == 0, window.shown
    assert "8/8 rounds" in window.shown


def test_ctrl_c_stops_the_job_and_resume_goes_on(consortium):
    file = study_file(consortium, "stopped")
    wait_for(lambda: not consortium.jobs("va"))
    window = Terminal("run", file, "--kit", consortium.coordinator)
    wait_for(lambda: consortium.jobs("va"), pause=0.02)

    window.types("\x03")
    window.sees("Stop the job of study stopped? [Y/n]")
    window.types("y\n")

    assert window.ends() == 1, window.shown
    told = " ".join(window.shown.split())
    assert f"Continue with: unpooled resume {shlex.quote(str(file))}" in told
    wait_for(lambda: not consortium.jobs("server") and not consortium.jobs("va"))

    run = unpooled("run", file, "--resume", "--kit", consortium.coordinator)
    assert run.returncode == 0, run.stderr
    place = RunFolder.open(consortium.folder / "runs" / "stopped")
    assert_ledger_tells_what_left(consortium, "stopped", place.ledger)


@pytest.fixture
def asking(consortium):
    """A silo where people decide; no process has to start again for that."""
    text = (consortium.kit("va") / "local" / "silo.toml").read_text()
    with consortium.changed("va", "silo.toml", text + 'approval = "each-study"\n'):
        yield


def test_a_silo_approves_a_study_applies_its_model_and_forgets_it(
    consortium, asking, tmp_path
):
    file, kit = study_file(consortium, "decided"), consortium.kit("va")

    def run(*more):
        return unpooled("run", file, *more, "--kit", consortium.coordinator)

    def silo(*words):
        return unpooled("silo", *words, "--kit", kit)

    refused = run()
    assert refused.returncode == 1
    assert "va refused the study decided: approval" in refused.stderr
    assert silo("deny", "decided").returncode == 0
    assert "va refused the study decided: denied" in run("--resume").stderr

    approved = silo("approve", "decided", "--yes")
    assert approved.returncode == 0, approved.stderr
    assert "local_scatter" in approved.stdout
    done = run("--resume")
    assert done.returncode == 0, done.stderr

    scores = tmp_path / "scores.csv"
    applied = silo("apply", "decided/pipeline", "--out", scores)
    assert applied.returncode == 0, applied.stderr
    frame, table = polars.read_csv(scores), heart_disease.load()["va"]
    rows = table.drop_columns("num").to_pandas().to_numpy(float)
    model = load(consortium.folder / "runs" / "decided" / "pipeline.unpooled")
    expected = model.transform(rows)
    names = [name for name in frame.columns if name.startswith("pca")]
    np.testing.assert_allclose(frame.select(names).to_numpy(), expected, atol=1e-9)

    assert silo("forget", "decided", "--yes").returncode == 0
    assert not (kit / "state" / "models" / "decided").exists()
    gone = silo("apply", "decided/pipeline", "--out", tmp_path / "again.csv")
    assert gone.returncode == 1
    assert "There is no model decided/pipeline" in gone.stderr
    log = silo("log", "decided", "--verify")
    assert log.returncode == 0, log.stderr
    ledger = consortium.folder / "runs" / "decided" / "ledger.jsonl"
    assert json.loads(ledger.read_text().splitlines()[0])
    against = silo("log", "decided", "--against", ledger)
    assert "lacks none of its lines" in against.stdout

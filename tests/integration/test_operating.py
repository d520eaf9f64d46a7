"""What operators meet over the years: other versions, absent silos, odd jobs, waits."""

import re
import shutil
import threading

import pytest

import unpooled as up
from integration.consortium import HEART, study_text, wait_for
from integration.mishaps import LOST, as_soon_as, entries, within
from integration.rows import SILOS
from unpooled.errors import AggregationError, ReleaseRefusedError
from unpooled.federation.nvflare import jobs
from unpooled.federation.nvflare.submission import is_over, submission
from unpooled.protocol.library_build import library_build
from unpooled.study import Run

NO_REPORT = "[outputs]\nreport = false\n"
# Within this an absent silo is named; a study takes longer to start.
AT_ONCE = 10.0


def asked(consortium, name, steps=HEART):
    path = consortium.folder / f"{name}.toml"
    path.write_text(study_text(name, steps) + NO_REPORT)
    return up.Study.from_file(path)


def test_an_altered_library_is_refused_by_name(consortium, tmp_path):
    """A copy that returns 1.5 times each total took part without a word once."""
    from pathlib import Path

    copy = tmp_path / "unpooled"
    source = Path(up.__file__).parent
    shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__"))
    (model,) = [
        path for path in copy.rglob("*.py") if "def local_observed" in path.read_text()
    ]
    model.write_text(model.read_text() + "\n_FACTOR = 1.5\n")
    tests = Path(__file__).resolve().parents[1]
    consortium.kill("va")
    try:
        paths = f"{tmp_path}:{tests}:{tests / 'support'}"
        consortium.start("va", PYTHONPATH=paths)
        study = asked(consortium, "altered")
        for act in (study.plan, study.run):
            with pytest.raises(ReleaseRefusedError, match="va refused") as refused:
                act(kit=consortium.coordinator)
            assert refused.value.rule == "version"
            assert library_build() in str(refused.value)
    finally:
        consortium.kill("va")
        consortium.start("va")
    plan = study.plan(kit=consortium.coordinator)
    assert set(plan.libraries.values()) == {library_build()}
    done = study.resume(kit=consortium.coordinator)
    assert set(done.ledger.libraries.values()) == {(library_build(),)}


def test_an_absent_silo_is_named_at_once_and_waited_for(consortium):
    study = asked(consortium, "absent")
    reasons, ends, waited = list[str](), list[object](), threading.Event()

    def waits(reason, left):
        reasons.append(reason)
        waited.set()

    def run():
        try:
            kit = consortium.coordinator
            ends.append(study.run(kit=kit, wait=200.0, waiting=waits))
        except BaseException as problem:
            ends.append(problem)

    runner = threading.Thread(target=run, daemon=True)
    consortium.kill("va")
    try:
        with pytest.raises(AggregationError, match="Not connected to the server: va"):
            within(AT_ONCE, study.run, kit=consortium.coordinator)
        runner.start()
        assert waited.wait(60.0)
    finally:
        # By this thread: a process ends with the thread that started it.
        consortium.start("va")
    runner.join(240.0)
    (done,) = ends
    assert isinstance(done, Run), done
    assert done.ledger.verify()
    assert all("va" in reason for reason in reasons)


def test_the_silo_whose_process_was_killed_is_blamed(consortium):
    pytest.importorskip("mpyc", reason="mpyc absent")
    steps = (
        '[[steps]]\nmodel = "SimpleImputer"\n'
        '[[steps]]\nmodel = "PowerTransformer"\ncomparison = "mpc"\n'
    )
    study = asked(consortium, "blamed", steps)
    with (
        as_soon_as(
            lambda: entries(consortium, "va", "blamed") >= 8,
            lambda: consortium.kill("va", "job"),
        ),
        pytest.raises(AggregationError) as error,
    ):
        within(240.0, study.run, kit=consortium.coordinator)
    said = str(error.value)
    assert re.search(LOST, said)
    # One that was asked twice on a busy machine may be named beside it, not for it.
    blamed = said.partition(" did not answer")[0].split(", ")
    assert " did not answer" not in said or "va" in blamed
    wait_for(lambda: not consortium.jobs("va"))


def test_a_job_with_an_odd_name_is_over_at_once(consortium, tmp_path):
    jobs.write_job(tmp_path / "job", "../../evil", consortium.silos, {"do": "plan"})
    with submission(consortium.coordinator) as session:
        job = str(session._session.submit_job(str(tmp_path / "job")))
        wait_for(lambda: is_over(session.status(job, 60.0)), 40.0)
        assert "COMPLETED" not in session.status(job, 60.0)
    # It asked nothing of a silo.
    assert all(entries(consortium, silo, "../../evil") == 0 for silo in SILOS)

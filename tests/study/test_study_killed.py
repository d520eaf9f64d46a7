"""Runs of a study that end anywhere and go on from there."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import unpooled as up
from small_study import (
    COLUMNS,
    SILOS,
    STEPS,
    Killed,
    assert_same_models,
    files,
    kill_at,
    killed,
    quick_disk,
    reported,
    study,
    text_of,
    write,
    write_data,
)
from unpooled.errors import StudyError
from unpooled.ledger import Ledger
from unpooled.party.party import Party
from unpooled.study.audit import audit

# Fixtures of another module.
__all__ = ["quick_disk", "reported", "study", "write"]


@pytest.fixture(scope="module")
def heard():
    """The events of a run that nothing disturbs."""
    return []


@pytest.fixture(scope="module")
def whole(tmp_path_factory, heard):
    """A run that nothing disturbs."""
    folder = tmp_path_factory.mktemp("whole")
    write_data(folder)
    (folder / "study.toml").write_text(text_of(COLUMNS))
    study = up.Study.from_file(folder / "study.toml")
    return study.run(listener=lambda *event: heard.append(event))


@pytest.mark.slow
def test_a_run_goes_on_from_wherever_it_was_killed(study, whole):
    # Every fourth of some 45 replies: in handshakes, within rounds, between steps.
    event = 1
    while killed(study, event):
        before = Ledger()
        if (study.folder / "ledger.jsonl").exists():
            before = Ledger.from_json((study.folder / "ledger.jsonl").read_text())

        run = study.resume()

        assert_same_models(run, whole)
        assert run.ledger.verify()
        assert run.ledger[: len(before)] == before
        numbers = [line.round for line in run.ledger]
        assert numbers == sorted(numbers)
        assert set(numbers) == set(range(1, max(numbers) + 1))
        assert run.ledger == Ledger.from_json((run.folder / "ledger.jsonl").read_text())
        shutil.rmtree(study.folder)
        event += 4
    assert event > 40


@pytest.mark.thinned(1)
@pytest.mark.parametrize(
    ("finished", "last"),
    [
        (1, "imputer.local_observed"),
        (2, "scaler.local_squares"),
        (3, "pca.local_scatter"),
    ],
)
def test_finished_steps_are_not_asked_for_again(study, whole, heard, finished, last):
    ends = [n for n, event in enumerate(heard, 1) if event[1] == last]
    # The replies that follow are those of leaving the fit; then the step is finished.
    event = ends[-1] + len(SILOS) + 1
    again = []
    came_so_far = killed(study, event)
    assert came_so_far == (finished < 3)
    state = json.loads((study.folder / "state.json").read_text())
    assert state["finished"] == list(STEPS[:finished])

    run = study.resume(listener=lambda *event: again.append(event))

    asked = {event[1].split(".")[0] for event in again if "." in event[1]}
    assert asked == set(["imputer", "scaler", "pca"][finished:])
    assert_same_models(run, whole)


@pytest.mark.slow
def test_a_run_can_be_killed_again_and_again(reported, whole):
    assert killed(reported, 20)
    with pytest.raises(Killed):
        reported.resume(listener=kill_at(4))
    with pytest.raises(Killed):
        reported.resume(listener=kill_at(10))

    run = reported.resume()

    assert_same_models(run, whole)
    assert run.ledger.verify()
    state = json.loads((reported.folder / "state.json").read_text())
    assert len(state["resumed"]) == 3
    assert state["resumed"] == sorted(state["resumed"])
    # The simulated silos of each process had keys of their own.
    assert all(found.good for found in audit(run.folder))
    assert run.report is not None
    assert run.report.read_text().count("was interrupted before round") == 3


@pytest.mark.slow
def test_a_continued_run_reads_its_silos_memory(study, monkeypatch):
    assert killed(study, 20)
    before = {
        silo: json.loads((study.folder / "silos" / f"{silo}.json").read_text())
        for silo in SILOS
    }
    parties, resume = dict[str, Party](), Party.resume

    def seen(party, *memory):
        parties[party.name] = party
        resume(party, *memory)

    monkeypatch.setattr(Party, "resume", seen)
    study.resume()

    assert set(parties) == set(SILOS)
    for silo, party in parties.items():
        known = party.audit_log.study("small").as_record()
        # The imputer's rounds were answered by the process that was killed.
        asked = [answered["step"] for answered in before[silo]["answered"].values()]
        assert asked == ["imputer.local_counts", "imputer.local_observed"]
        assert before[silo]["answered"].items() <= known["answered"].items()
        assert all(fitted in known["fitted"] for fitted in before[silo]["fitted"])


@pytest.mark.slow
def test_a_done_run_is_returned_as_it_is(study):
    run = study.run()
    before = {name: (run.folder / name).read_bytes() for name in files(run.folder)}
    # Not even the sources are needed any more.
    shutil.rmtree(study.path.parent / "data")

    again = study.resume(listener=kill_at(1))

    assert_same_models(again, run)
    assert again.ledger == run.ledger
    assert again.report == run.report
    assert {n: (run.folder / n).read_bytes() for n in files(run.folder)} == before


@pytest.mark.slow
def test_a_line_that_was_written_in_part_is_dropped(study, whole):
    # After round 6: lines of rounds 1 to 5 belong to the imputer and the scaler, which
    # are finished, the last ones are of the step under way.
    assert killed(study, 48)
    path = study.folder / "ledger.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    state = json.loads((study.folder / "state.json").read_text())
    assert len(lines) > state["lines"] > 0
    for name in ("ledger.jsonl", "rounds.jsonl"):
        content = (study.folder / name).read_bytes()
        (study.folder / name).write_bytes(content[:-17])

    run = study.resume()

    assert_same_models(run, whole)
    assert run.ledger.verify()
    assert run.ledger == Ledger.from_json(path.read_text())
    assert run.ledger[len(lines) - 2] == Ledger.from_json(lines[-2].decode())[0]


@pytest.mark.slow
def test_two_processes_never_run_in_one_folder(study):
    assert killed(study, 20)
    refused = []

    def listener(party, step, number):
        if not refused:
            with pytest.raises(StudyError, match="Another process") as caught:
                study.resume()
            refused.append(caught)

    study.resume(listener=listener)

    assert refused


SCRIPT = """
import os, signal, sys
import unpooled as up

count = [int(sys.argv[2])]
def listener(*event):
    count[0] -= 1
    if count[0] == 0:
        os.kill(os.getpid(), signal.SIGKILL)

study = up.Study.from_file(sys.argv[1])
(study.resume if sys.argv[3] == "resume" else study.run)(listener=listener)
"""


def in_a_process(study, event, how):
    """Run or resume in a process that is killed at an event; return its exit code."""
    source = Path(up.__file__).parents[1]
    return subprocess.run(
        [sys.executable, "-c", SCRIPT, study.path, str(event), how],
        env={**os.environ, "PYTHONPATH": str(source)},
        check=False,
    ).returncode


@pytest.mark.slow
def test_a_process_that_was_killed_loses_nothing(study, whole):
    # The 20th reply is of the scaler's second round, the next of the PCA's last.
    assert in_a_process(study, 20, "run") == -signal.SIGKILL
    state = json.loads((study.folder / "state.json").read_text())
    assert state["finished"] == ["simpleimputer"]
    assert in_a_process(study, 26, "resume") == -signal.SIGKILL

    run = study.resume()

    assert_same_models(run, whole)
    assert run.ledger.verify()
    keys = {seal.key for line in run.ledger for seal in line.seals.values()}
    assert len(keys) == 3 * len(SILOS)  # three processes, each with its own identities

"""From an empty folder to a first study by the page's commands, and on from there.

The consortium that the page's commands made then has its first study that a person
decides about at a desk, its first power failure and its first strangers.
"""

import json
import os
import re
import shutil
import signal
import zipfile
from datetime import UTC, datetime
from pathlib import Path
from socket import gethostname

import httpx2
import pytest
from cryptography.hazmat.primitives import serialization

import unpooled as up
from desk_silo import read, words
from integration.certificates import DAY, at_another_time, signed_anew
from integration.comparing import assert_equal_models
from integration.consortium import HEART, processes_of, study_text, wait_for
from integration.first_study import FirstStudy, commands
from integration.mishaps import as_soon_as, assert_ledger_tells_what_left, entries
from integration.rows import SILOS
from served_desk import link_of, served
from unpooled.desk.coordinator_desk import CoordinatorDesk, ask_server
from unpooled.desk.history import key_of
from unpooled.federation.nvflare.submission import is_over, submission
from unpooled.ledger import Ledger
from unpooled.models.files.model_file import load

START = [line for line in commands() if "start" in line or "serve" in line]


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    pytest.importorskip("nvflare", reason="nvflare absent")
    made = FirstStudy(tmp_path_factory.mktemp("first"))
    try:
        made.type(commands())
        yield made
    finally:
        made.kill_all()


def study_file(first, name):
    path = first.folder / f"{name}.toml"
    path.write_text(study_text(name, HEART) + "[outputs]\nreport = false\n")
    return path


def models_of(first, name):
    return list(load(first.folder / "runs" / name / "pipeline.unpooled"))


def ledger_of(first, name):
    path = first.folder / "runs" / name / "ledger.jsonl"
    return Ledger.from_json(path.read_text())


def test_thirteen_commands_lead_to_the_first_study(first, tmp_path):
    assert len(commands()) == 13
    pinned = [first.outputs[line] for line in commands() if "silo pin" in line]
    said = {re.search(r"by phone: (.+)", text)[1] for text in pinned}  # type: ignore[index]
    assert len(pinned) == 4
    assert len(said) == 1
    assert "round 8 of 8" in first.outputs[commands()[-1]]
    # The silos' own logs name the study, and not only the engine's number of its job.
    said_in_windows = (first.folder / "windows.log").read_text("utf-8", "replace")
    for silo in SILOS:
        assert f"{silo} joins the study heart" in said_in_windows

    alone = (first.folder / "heart.toml").read_text()
    for silo in SILOS:
        source = f'source = "{first.folder / f"{silo}.csv"}"'
        alone = alone.replace(f"[parties.{silo}]", f"[parties.{silo}]\n{source}")
    pooled = up.Study.from_text(tmp_path / "alone.toml", alone).run().pipeline
    for ours, theirs in zip(models_of(first, "heart"), pooled, strict=True):
        assert_equal_models(ours, theirs)
    assert_ledger_tells_what_left(first, "heart", ledger_of(first, "heart"))


def test_a_study_is_decided_at_the_desk(first):
    file, kit = study_file(first, "decided"), first.kit("va")
    own = kit / "local" / "silo.toml"
    before = own.read_text()
    own.write_text(re.sub(r'approval = ".*"', "", before) + 'approval = "each-study"\n')
    page = f"/studies/{key_of('decided')}"
    try:
        planned = first.call(f"unpooled plan {file} --kit kits/coordinator").stdout
        assert "va waits for a person's approval" in planned
        with served("silo", "desk", "--kit", kit) as (_, lines):
            link = link_of(lines)
            origin = link.partition("/open")[0]
            with httpx2.Client(
                base_url=origin, follow_redirects=True, timeout=60.0
            ) as browser:
                assert browser.get(link).status_code == 200

                shown = browser.get(page)
                assert "Waits for your decision" in words(shown)
                assert "Cross-product matrix" in words(shown)
                form = read(shown).fields | {
                    "name": "Dr. Livia Conti",
                    "reason": "as agreed in March",
                    "read": "yes",
                    "decision": "approve",
                }
                sent = browser.post(
                    f"{page}/decision", data=form, headers={"origin": origin}
                )
                assert sent.status_code == 200, words(sent)

                run = first.begin(f"unpooled run {file} --kit kits/coordinator")
                _assert_progress_is_shown(first, "decided")
                assert run.wait(240) == 0

                shown = words(browser.get(page))
                assert "as agreed in March" in shown
                assert "none altered" in shown
                # The model that came back, and scores of its own rows.
                assert "Explained variance" in shown
                overview = words(browser.get("/"))
                assert "Dr. Livia Conti" in overview
    finally:
        own.write_text(before)
    log = first.call("unpooled silo log --verify --kit kits/silos/va").stdout
    assert "Verified:" in log
    assert "as agreed in March" in " ".join(log.split())


def _assert_progress_is_shown(first, name):
    """While a silo's job is stopped the coordinator's desk says which round is on."""
    wait_for(lambda: entries(first, "va", name) >= 2, pause=0.005)
    stopped = first.jobs("va")
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    try:
        asked = ask_server(first.coordinator)
        desk = CoordinatorDesk(first.coordinator, first.folder / "runs")
    finally:
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
    assert desk.kit == first.coordinator
    progress = [job["progress"] for job in asked.jobs if job["name"] == name]
    assert re.fullmatch(r"round \d of 8", progress[0]), asked
    assert set(asked.silos) == set(SILOS)


def test_the_machine_restarts_in_mid_study(first):
    file = study_file(first, "restarted")
    with as_soon_as(lambda: entries(first, "va", "restarted") >= 3, first.kill_all):
        run = first.begin(f"unpooled run {file} --kit kits/coordinator")
        assert run.wait(240) != 0
    assert entries(first, "va", "restarted") < 8

    first.type(START)
    first.call(f"unpooled resume {file} --kit kits/coordinator --wait 3m")

    for ours, theirs in zip(
        models_of(first, "restarted"), models_of(first, "heart"), strict=True
    ):
        assert_equal_models(ours, theirs)
    assert_ledger_tells_what_left(first, "restarted", ledger_of(first, "restarted"))
    first.call("unpooled audit runs/restarted --roster kits/silos/va/local/roster.toml")


def asked_by(job):
    """Return what a job's zip file asks of the server, and the study's name."""
    with zipfile.ZipFile(job) as archive:
        (name,) = [one for one in archive.namelist() if "fed_server.json" in one]
        (content,) = re.findall(rb'"content": "([0-9a-f]+)"', archive.read(name))
    asked = json.loads(bytes.fromhex(content.decode()))
    return asked | {"study": Path(asked["file"]).stem}


def kept_jobs(first, study, do):
    """Return the zip files of a study's jobs as the server keeps them, oldest first."""
    jobs = (first.kit("server") / "state" / "jobs").glob("*/data")
    found = [
        job for job in jobs if is_subset({"study": study, "do": do}, asked_by(job))
    ]
    return sorted(found, key=lambda job: job.stat().st_mtime)


def is_subset(part, whole):
    return part.items() <= whole.items()


def submitted_again(first, kept, study, folder, monkeypatch):
    """Submit a job's zip file once more, and return the outcome and the run in it."""
    from nvflare.fuel.hci.client import file_transfer

    sent = []

    def again(root, folder, path):
        shutil.copyfile(kept, path)
        sent.append(Path(path).read_bytes())

    monkeypatch.setattr(file_transfer, "zip_directory_to_file", again)
    monkeypatch.setattr(file_transfer, "sign_folders", lambda *given: None)
    (folder / study).mkdir(parents=True)
    with submission(first.coordinator) as session:
        job = str(session._session.submit_job(str(folder / study)))
        wait_for(lambda: "size" in session.ask(job, {"since": 0}), pause=0.1)
        size = int(session.ask(job, {"since": 0})["size"])
        place = session.take(job, size, folder / "fetched")
        wait_for(lambda: is_over(session.status(job, 60.0)), pause=0.1)
    assert sent == [kept.read_bytes()]
    assert place is not None
    return place.read_text()


def what_is_known(first, study):
    """Return what silos wrote of a study's rounds, and the server's run of it."""
    run = first.kit("server") / "studies" / study
    files = {
        path.relative_to(run): path.read_bytes()
        for path in run.rglob("*")
        if path.is_file()
    }
    return {silo: entries(first, silo, study) for silo in SILOS}, files


def test_an_old_job_is_refused_byte_for_byte(first, tmp_path, monkeypatch):
    """The zip file that the server kept, with its signatures, is submitted again."""
    (kept,) = kept_jobs(first, "heart", "run")
    before = what_is_known(first, "heart")

    outcome = submitted_again(first, kept, "heart", tmp_path, monkeypatch)

    assert "has a run of a study heart already" in outcome
    # It asked nothing of a silo.
    assert what_is_known(first, "heart") == before


def test_old_jobs_of_a_resumed_study_learn_nothing(first, tmp_path, monkeypatch):
    """Neither the job that was interrupted nor the one that ended the study."""
    study = "restarted"
    before = what_is_known(first, study)
    for number, do in enumerate(("run", "resume")):
        (kept,) = kept_jobs(first, study, do)

        outcome = submitted_again(
            first, kept, study, tmp_path / str(number), monkeypatch
        )

        if do == "run":
            assert f"has a run of a study {study} already" in outcome
        assert what_is_known(first, study) == before


# --- who comes at a wrong time --------------------------------------------------------


def test_an_expired_certificate_ends_the_start_of_a_silo(first, tmp_path):
    kit = shutil.copytree(first.kit("va"), tmp_path / "va")
    path = kit / "startup" / "client.crt"
    root = (first.folder / "kits" / "authority" / "rootCA.key").read_bytes()
    authority = serialization.load_pem_private_key(root, None)
    yesterday = datetime.now(UTC) - DAY
    path.write_bytes(signed_anew(path.read_bytes(), authority, yesterday))

    said = first.call(f"unpooled silo start --kit {kit}", code=1).stderr

    assert "EXPIRED" in said
    assert "not expired?" in " ".join(said.split())


@pytest.mark.parametrize("shift", ["-1d", "+400d"])
def test_a_clock_outside_of_the_certificates_ends_the_start_of_a_silo(
    first, tmp_path, shift
):
    clock = at_another_time(shift)
    if clock is None:
        pytest.skip("libfaketime absent")
    # The kit itself is running.
    kit = shutil.copytree(first.kit("va"), tmp_path / "va")
    said = first.call(f"unpooled silo start --kit {kit}", code=1, **clock)

    assert "Is the clock of this machine right?" in " ".join(said.stderr.split())


@pytest.mark.parametrize(
    "which", ["serve kits/server", "silo start --kit kits/silos/va"]
)
def test_a_second_start_is_refused_and_names_the_first(first, which):
    kit = first.kit("server" if "serve" in which else "va")

    said = " ".join(first.call(f"unpooled {which}", code=1).stderr.split())

    (pid,) = re.findall(rf"is running already: process (\d+) on {gethostname()}", said)
    assert int(pid) in processes_of(kit)

"""A process that stands by takes one job, with the library that is installed then."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import unpooled

pytest.importorskip("nvflare", reason="needs the extra nvflare")

from nvflare.apis.event_type import EventType
from nvflare.apis.fl_constant import FLContextKey
from nvflare.apis.fl_context import FLContext
from nvflare.apis.job_launcher_spec import JobProcessArgs
from nvflare.apis.workspace import Workspace

from unpooled.federation.nvflare.standby import ServerLauncher, SiloLauncher

pytestmark = pytest.mark.slow

PROGRAMS = {
    SiloLauncher: "nvflare.private.fed.app.client.worker_process",
    ServerLauncher: "nvflare.private.fed.app.server.runner_process",
}


def context(kit, program):
    """What NVFlare gives a launcher: arguments that its program finds too few."""
    for name in ("startup", "local"):
        (kit / name).mkdir(exist_ok=True)
    fl_ctx = FLContext()
    arguments = {
        JobProcessArgs.EXE_MODULE: ("-m", program),
        JobProcessArgs.JOB_ID: ("-n", "job"),
        JobProcessArgs.AUTH_TOKEN: ("-t", "secret"),
    }
    private = {"private": True, "sticky": False}
    fl_ctx.set_prop(FLContextKey.JOB_PROCESS_ARGS, arguments, **private)
    place = Workspace(str(kit), site_name="va")
    fl_ctx.set_prop(FLContextKey.WORKSPACE_OBJECT, place, **private)
    return fl_ctx


@pytest.fixture
def kit(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(Path(unpooled.__file__).parents[1]))
    return tmp_path


@pytest.mark.parametrize("kind", PROGRAMS, ids=lambda kind: kind.kind)
def test_it_becomes_nvflares_program(kit, kind, capfd):
    launcher, fl_ctx = kind(), context(kit, PROGRAMS[kind])
    launcher.handle_event(EventType.SYSTEM_START, fl_ctx)
    assert launcher._standby is not None
    stood_by = launcher._standby.pid

    handle = launcher.launch_job({"job_id": "job"}, fl_ctx)
    handle.wait()

    assert handle.adapter.pid == stood_by
    shown = capfd.readouterr().err
    assert f"usage: {PROGRAMS[kind].rpartition('.')[2]}" in shown
    # The job's number came as an argument, and the secret in the environment only.
    assert "the following arguments are required" in shown
    lacking = shown.partition("are required")[2]
    assert "--job_id" not in lacking
    assert "--token/" not in lacking
    launcher.handle_event(EventType.SYSTEM_END, fl_ctx)


def test_a_second_job_at_once_is_started_as_nvflare_does(kit, capfd, monkeypatch):
    ends = []
    monkeypatch.setattr(SiloLauncher, "has_ended", lambda launcher: ends.append(1))
    launcher, fl_ctx = SiloLauncher(), context(kit, PROGRAMS[SiloLauncher])

    handle = launcher.launch_job({"job_id": "job"}, fl_ctx)
    handle.wait()

    assert ends
    assert "usage: worker_process" in capfd.readouterr().err


def test_none_is_started_in_the_processes_of_jobs(kit):
    launcher = SiloLauncher()
    launcher.handle_event(EventType.START_RUN, context(kit, PROGRAMS[SiloLauncher]))
    launcher.has_ended()
    assert launcher._standby is None


def test_it_ends_with_the_kits_process(kit):
    launcher, fl_ctx = SiloLauncher(), context(kit, PROGRAMS[SiloLauncher])
    launcher.handle_event(EventType.SYSTEM_START, fl_ctx)
    standby = launcher._standby
    assert standby is not None
    assert standby.stdin is not None

    # What the death of the other end does, when nobody is left to say a word.
    standby.stdin.close()

    assert standby.wait(60) == 0


@pytest.mark.parametrize("replaced", [False, True])
def test_a_library_that_was_replaced_is_loaded_anew(tmp_path, replaced):
    source = Path(unpooled.__file__).parent
    copy = tmp_path / "unpooled"
    shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__"))
    standby = subprocess.Popen(
        [sys.executable, "-m", "unpooled.federation.nvflare.standby", "silo", "KIT"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
    )
    # The digest is read before all else: before the models are loaded.
    while standby.poll() is None and not _has_open(standby.pid, "numpy"):
        pass
    if replaced:
        (copy / "extra.py").write_text("")

    command = f'["/bin/echo", "-m", "{PROGRAMS[SiloLauncher]}"]'
    text = f'{{"command": {command}, "environment": {{}}}}\n'
    output, errors = standby.communicate(text, 60)

    assert ("worker_process" in output) == replaced
    assert ("usage: worker_process" in errors) == (not replaced)


def _has_open(pid, name):
    """Whether a library is loaded in a process."""
    return name in Path(f"/proc/{pid}/maps").read_text()

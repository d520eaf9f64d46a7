"""Jobs get copies of one process, with the library that is installed then."""

import gc
import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import weakref
from collections import OrderedDict
from pathlib import Path
from types import SimpleNamespace

import pytest

import unpooled

pytest.importorskip("nvflare", reason="needs the extra nvflare")

from nvflare.apis.event_type import EventType
from nvflare.apis.fl_constant import FLContextKey
from nvflare.apis.fl_context import FLContext
from nvflare.apis.job_launcher_spec import JobProcessArgs, JobReturnCode
from nvflare.apis.workspace import Workspace
from nvflare.fuel.f3.stats_pool import StatsPoolManager
from nvflare.fuel.f3.streaming import byte_streamer

from unpooled.federation.nvflare import standby as standby_module
from unpooled.federation.nvflare.standby import (
    JobProcess,
    ServerLauncher,
    SiloLauncher,
    Standby,
)
from unpooled.federation.nvflare.startup_kits import MALLOC, environment

pytestmark = pytest.mark.slow

PROGRAMS = {
    SiloLauncher: "nvflare.private.fed.app.client.worker_process",
    ServerLauncher: "nvflare.private.fed.app.server.runner_process",
}
PATIENCE = 60.0


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


@pytest.mark.parametrize("launcher", PROGRAMS)
def test_a_kit_s_folder_may_have_blanks_and_other_signs(tmp_path, launcher):
    """NVFlare's own launchers write the folder into a line without quotes."""
    kit = tmp_path / "Spital Zürich #1 'a'"
    kit.mkdir()
    fl_ctx = context(kit, PROGRAMS[launcher])
    arguments = fl_ctx.get_prop(FLContextKey.JOB_PROCESS_ARGS)
    arguments[JobProcessArgs.WORKSPACE] = ("-m", str(kit))
    arguments[JobProcessArgs.OPTIONS] = ("--set", "secure_train=true  org=a")

    words = shlex.split(launcher().get_command({}, fl_ctx), comments=True)

    assert words == [
        *(sys.executable, "-m", PROGRAMS[launcher], "-m", str(kit), "-n", "job"),
        *("--set", "secure_train=true", "org=a"),
    ]


@pytest.fixture
def kit(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(Path(unpooled.__file__).parents[1]))
    return tmp_path


@pytest.fixture
def started(kit):
    """A launcher of a silo's kit, started as the kit's process does it."""
    launcher, fl_ctx = SiloLauncher(), context(kit, PROGRAMS[SiloLauncher])
    launcher.handle_event(EventType.SYSTEM_START, fl_ctx)
    assert launcher._standby is not None
    yield launcher, launcher._standby, fl_ctx
    launcher.handle_event(EventType.SYSTEM_END, fl_ctx)
    assert launcher._standby.process.wait(PATIENCE) == -signal.SIGKILL


@pytest.mark.parametrize("kind", PROGRAMS, ids=lambda kind: kind.kind)
def test_a_copy_becomes_nvflares_program(kit, kind, capfd):
    launcher, fl_ctx = kind(), context(kit, PROGRAMS[kind])
    launcher.handle_event(EventType.SYSTEM_START, fl_ctx)
    assert launcher._standby is not None

    handles = []
    for _ in range(2):
        handles.append(launcher.launch_job({"job_id": "job"}, fl_ctx))
        handles[-1].wait()

    assert all(isinstance(handle, JobProcess) for handle in handles)
    pids = {launcher._standby.process.pid, *(handle.pid for handle in handles)}
    assert len(pids) == 3
    assert {handle.poll() for handle in handles} == {JobReturnCode.EXECUTION_ERROR}
    shown = capfd.readouterr().err
    assert shown.count(f"usage: {PROGRAMS[kind].rpartition('.')[2]}") == 2
    # The job's number came as an argument, and the secret in the environment only.
    assert "the following arguments are required" in shown
    lacking = shown.rpartition("are required")[2]
    assert "--job_id" not in lacking
    assert "--token/" not in lacking
    launcher.handle_event(EventType.SYSTEM_END, fl_ctx)


def test_a_job_may_begin_before_it_was_handed_over(started):
    """As on a busy machine, where the thread that hands it over has to wait."""
    launcher, standby, fl_ctx = started
    heard, own = threading.Event(), standby._socket

    class Slow:
        close = own.close

        @staticmethod
        def sendall(data):
            own.sendall(data)
            assert heard.wait(PATIENCE)

    hear = standby._hear

    def heard_first(news):
        try:
            hear(news)
        finally:
            heard.set()

    standby._socket, standby._hear = Slow(), heard_first
    handle = launcher.launch_job({"job_id": "job"}, fl_ctx)

    assert handle._over.wait(PATIENCE)
    assert handle.pid is not None


def test_what_grows_by_every_job_is_forgotten(started):
    launcher, _, fl_ctx = started
    pool = StatsPoolManager.add_time_hist_pool("Of-This-Test", "of messages")
    pool.record_value("va.old-job#request", 0.1)

    launcher.launch_job({"job_id": "job"}, fl_ctx).wait()

    assert pool.cat_bins == {}
    StatsPoolManager.delete_pool("Of-This-Test")


def test_where_messages_went_is_forgotten_after_a_minute(started, monkeypatch):
    launcher, _, fl_ctx = started
    now, kept = time.monotonic(), OrderedDict[str, SimpleNamespace]()
    for age in (200.0, 61.0, 0.0):
        until = now - age + byte_streamer.STREAM_ERROR_CONTEXT_TTL
        kept[f"{age:.0f} s ago"] = SimpleNamespace(expires_at=until)
    monkeypatch.setattr(byte_streamer.ByteStreamer, "error_context_map", kept)

    launcher.launch_job({"job_id": "job"}, fl_ctx).wait()

    assert list(kept) == ["0 s ago"]


def test_what_a_job_left_is_freed_after_its_end(kit, monkeypatch):
    """Sent messages refer to themselves; a kit that waits makes no others."""
    monkeypatch.setattr(standby_module, "_LEFT", (0.0, 0.2))
    launcher, fl_ctx = SiloLauncher(), context(kit, PROGRAMS[SiloLauncher])
    launcher.handle_event(EventType.SYSTEM_START, fl_ctx)
    gc.disable()
    try:
        job = launcher.launch_job({"job_id": "job"}, fl_ctx)
        message = Message()
        message.future = message
        is_there = weakref.ref(message)
        del message
        job.wait()
        until = time.monotonic() + PATIENCE
        while is_there() is not None and time.monotonic() < until:
            time.sleep(0.01)
    finally:
        gc.enable()
        launcher.handle_event(EventType.SYSTEM_END, fl_ctx)
    assert is_there() is None


class Message:
    """Stands for one of NVFlare's."""

    future: "Message"


def test_processes_of_jobs_use_memory_as_the_system_does(kit, monkeypatch):
    """The kit's own process gives blocks back, which computing would make slow."""
    for name in MALLOC:
        monkeypatch.setenv(name, environment()[name])
    standby = Standby("silo")
    theirs = Path(f"/proc/{standby.process.pid}/environ").read_bytes().split(b"\0")
    standby.process.kill()

    names = {line.partition(b"=")[0].decode() for line in theirs}
    assert "PYTHONPATH" in names
    assert names.isdisjoint(MALLOC)


def test_it_has_no_threads_that_a_copy_would_miss(kit, monkeypatch):
    """A copy has the one thread that forked: a lock of others would stay locked."""
    # OpenBLAS ends its own before a fork, and jemalloc, of polars, begins its anew.
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    standby = Standby("silo")
    _once_loaded(standby)
    tasks = Path(f"/proc/{standby.process.pid}/task").iterdir()
    others = {(t / "comm").read_text().strip() for t in tasks if t.name != t.parts[2]}
    standby.process.kill()
    assert others <= {"jemalloc_bg_thd"}


def _once_loaded(standby):
    """Wait until it has served a job: one whose command is another one."""
    process = standby.begin({"command": ["/bin/true"], "environment": {}})
    process.wait()
    assert process.poll() == JobReturnCode.SUCCESS


def test_a_job_is_ended_with_all_that_it_started(started):
    _, standby, _ = started
    word = f"sleep 60 & echo $! > {Path.cwd() / 'child'}; wait"
    job = {"command": ["/bin/sh", "-c", word], "environment": {}}
    process = standby.begin(job)
    assert process.poll() == JobReturnCode.UNKNOWN
    file = Path("child")
    while not file.exists() or not file.read_text().strip():
        time.sleep(0.01)

    process.terminate()
    process.wait()

    assert process.poll() == JobReturnCode.EXECUTION_ERROR
    status = Path(f"/proc/{int(file.read_text())}/stat")
    while status.exists() and status.read_text().rpartition(")")[2].split()[0] != "Z":
        time.sleep(0.01)
    # Before it has begun, too.
    early = standby.begin(job)
    early.terminate()
    early.wait()
    assert early.poll() == JobReturnCode.EXECUTION_ERROR


def test_a_job_ends_with_what_would_tell_of_its_end(started):
    launcher, standby, fl_ctx = started
    _once_loaded(standby)
    process = standby.begin({"command": ["/bin/sleep", "60"], "environment": {}})
    while process.pid is None:
        time.sleep(0.01)

    standby.process.kill()
    process.wait()

    assert process.poll() == JobReturnCode.EXECUTION_ERROR
    # The next job is started in NVFlare's way, and the one after it is copied again.
    handle = launcher.launch_job({"job_id": "job"}, fl_ctx)
    handle.wait()
    assert not isinstance(handle, JobProcess)
    assert launcher._standby is not standby
    _once_loaded(launcher._standby)


def test_none_is_started_in_the_processes_of_jobs(kit, capfd):
    launcher, fl_ctx = SiloLauncher(), context(kit, PROGRAMS[SiloLauncher])
    launcher.handle_event(EventType.START_RUN, fl_ctx)
    launcher.launch_job({"job_id": "job"}, fl_ctx).wait()
    assert "usage: worker_process" in capfd.readouterr().err
    assert launcher._standby is None


def test_it_ends_with_the_kits_process(kit):
    standby = Standby("silo")

    # What the death of the other end does, when nobody is left to say a word.
    standby._socket.shutdown(socket.SHUT_RDWR)

    assert standby.process.wait(PATIENCE) == 0


def test_copies_do_not_draw_the_same_numbers(kit):
    """Where scikit-learn draws from NumPy's one generator."""
    ours, theirs = socket.socketpair()
    script = (
        "import numpy, runpy\n"
        "from unpooled.federation.nvflare import standby\n"
        "draws = lambda *a, **k: print('drawn', numpy.random.rand())\n"
        "runpy.run_module = draws\n"
        "standby.stand_by('silo')\n"
    )
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-c", script],
            stdin=theirs.fileno(),
            stdout=subprocess.PIPE,
        )
    command = [sys.executable, "-m", PROGRAMS[SiloLauncher]]
    job = {"command": command, "environment": {}}
    ours.sendall(2 * (json.dumps(job).encode() + b"\n"))
    assert process.stdout is not None
    found = {process.stdout.readline() for _ in range(2)}
    ours.close()
    process.wait(PATIENCE)
    process.stdout.close()
    assert len(found) == 2
    assert all(line.startswith(b"drawn 0.") for line in found)


@pytest.mark.parametrize("replaced", [False, True])
def test_a_library_that_was_replaced_is_loaded_anew(tmp_path, replaced):
    source = Path(unpooled.__file__).parent
    copy = tmp_path / "unpooled"
    shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__"))
    ours, theirs = socket.socketpair()
    with theirs:
        standby = subprocess.Popen(
            [sys.executable, "-m", "unpooled.federation.nvflare.standby", "silo", "."],
            stdin=theirs.fileno(),
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

    command = ["/bin/echo", "-m", PROGRAMS[SiloLauncher]]
    news = ours.makefile()
    for number in range(2):
        job = {"command": command, "environment": {}}
        ours.sendall(json.dumps(job).encode() + b"\n")
        begun, ended = json.loads(news.readline()), json.loads(news.readline())
        assert begun["begun"] == ended["ended"]
        # After the first, the process has the library as it is now.
        assert (ended["status"] == 0) == (replaced and number == 0)
    news.close()
    ours.close()
    output, errors = standby.communicate(timeout=PATIENCE)

    assert ("worker_process" in output) == replaced
    assert errors.count("usage: worker_process") == 2 - replaced
    assert standby.returncode == 0


def _has_open(pid, name):
    """Whether a library is loaded in a process."""
    return name in Path(f"/proc/{pid}/maps").read_text()

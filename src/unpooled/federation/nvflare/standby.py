"""A process that stands by for the jobs of a server or silo, with everything loaded.

    kit's process ── starts ──> standby: loads NVFlare, NumPy, scikit-learn, all models
          │                        │ waits
    a job ─┴─ a line of JSON ───> forks ──> the copy becomes the job's process
          │<── its number ─────────┤                    │
          └<── its exit status ────┴──── has ended ─────┘

NVFlare starts a Python for every job, which loads for seconds before it asks what to
do: with a server and three silos on two cores, most of a small study's time. Here it
is loaded once. Each job has a process of its own, copied from one that never saw a
job: nothing of a job is left for the next.

A job for which no process stands by is started in NVFlare's way.
"""

import contextlib
import gc
import importlib
import inspect
import json
import logging
import os
import runpy
import select
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from pathlib import Path
from typing import Any, final

from nvflare.apis.event_type import EventType
from nvflare.apis.fl_constant import FLContextKey, SystemComponents
from nvflare.apis.job_launcher_spec import (
    JobHandleSpec,
    JobProcessArgs,
    JobReturnCode,
)
from nvflare.app_common.job_launcher.process_launcher import (
    JOB_RETURN_CODE_MAPPING,
    ProcessJobLauncher,
)
from nvflare.fuel.f3.stats_pool import HistPool, StatsPoolManager
from nvflare.fuel.f3.streaming.byte_streamer import (
    STREAM_ERROR_CONTEXT_TTL,
    STREAM_RETRY_TIMEOUT,
    ByteStreamer,
)
from nvflare.private.fed.client import fed_client_base
from nvflare.utils.job_launcher_utils import (
    get_client_job_args,
    get_credential_env,
    get_server_job_args,
)

from unpooled.federation.nvflare.connected_cell import connected_cells
from unpooled.federation.nvflare.jobs import CONTROLLER, EXECUTOR
from unpooled.federation.nvflare.startup_kits import MALLOC
from unpooled.posix import COPY_ENDED, KILLED, ended_copies, forked, kill_copy
from unpooled.protocol.library_build import is_installed, library_build

log = logging.getLogger("unpooled.engine")

# Modules that a job's process loads: NVFlare's program and class, and our end, whose
# `LOADED` names the rest. By name: the kit's own process stays small without them.
_LOADED = {
    "server": (
        "nvflare.private.fed.app.server.runner_process",
        CONTROLLER.rpartition(".")[0],
        "unpooled.federation.nvflare.coordinator_end",
    ),
    "silo": (
        "nvflare.private.fed.app.client.worker_process",
        EXECUTOR.rpartition(".")[0],
        "unpooled.federation.nvflare.silo_end",
    ),
}
# Modules that are loaded late elsewhere: by NVFlare when it looks for drivers and
# components, by a silo that opens its table, by a server that draws pictures, by steps
# and estimators.
_LATE = {
    "server": (
        "nvflare.app_common.job_schedulers.job_scheduler",
        "nvflare.app_common.state_persistors.storage_state_persistor",
        "nvflare.app_common.storages.filesystem_storage",
        "unpooled.results.plots.charts",
        "unpooled.results.plots.heatmap",
        "unpooled.results.plots.scatter_plots",
        "matplotlib.backends.backend_agg",
        "matplotlib.backends.backend_svg",
        "matplotlib.figure",
        "matplotlib.style",
        "openpyxl",
    ),
    "silo": (
        "nvflare.app_common.executors.client_api_executor",
        "nvflare.app_common.resource_consumers.gpu_resource_consumer",
        "nvflare.app_common.resource_managers.gpu_resource_manager",
        "pyarrow.csv",
        "pyarrow.pandas_compat",
        "pyarrow.parquet",
        "unpooled.data.sources.delimited",
        "unpooled.data.sources.arrow_files",
        "unpooled.federation.nvflare.housekeeping",
        "unpooled.federation.nvflare.job_guard",
        "unpooled.study.announcement",
    ),
}
_LATE_AT_BOTH = (
    "cryptography.hazmat.backends.openssl.backend",
    "cryptography.x509",
    "narwhals.stable.v2",
    "nvflare.app_common.decomposers.numpy_decomposers",
    "nvflare.fuel.f3.drivers.aio_grpc_driver",
    "nvflare.fuel.f3.drivers.aio_http_driver",
    "nvflare.fuel.f3.drivers.aio_tcp_driver",
    "nvflare.fuel.f3.drivers.file_driver",
    "nvflare.fuel.f3.drivers.grpc_driver",
    "nvflare.fuel.f3.drivers.tcp_driver",
    "nvflare.fuel.utils.fobs.decomposers.core_decomposers",
    "pandas",
    "scipy.cluster.hierarchy",
    "scipy.optimize",
    "scipy.special",
    "scipy.stats",
)


# Seconds after a job's end at which what it left is freed: after its last messages, and
# when NVFlare no longer keeps them for a silo that sends them again.
_LEFT = (2.0, 65.0)


class StandbyLauncher(ProcessJobLauncher):
    """NVFlare's launcher of processes, with one of them loaded before any job."""

    kind: str

    def __init__(self) -> None:
        super().__init__()
        # NVFlare makes it in the processes of jobs, too, where no event starts it.
        self._standby: Standby | None = None
        self._starts = False

    def handle_event(self, event_type: str, fl_ctx: Any) -> None:
        """Start the process with the kit's own, and end it with that one."""
        super().handle_event(event_type, fl_ctx)
        if event_type == EventType.SYSTEM_START:
            self._starts = True
            self._prepare()
        elif event_type == EventType.SYSTEM_END:
            self._starts = False
            if self._standby is not None:
                self._standby.process.kill()

    def launch_job(self, job_meta: dict[str, Any], fl_ctx: Any) -> JobHandleSpec:
        """Have the job's process copied from the one that stands by, or start one."""
        _forget_earlier_jobs()
        arguments = fl_ctx.get_prop(FLContextKey.JOB_PROCESS_ARGS) or {}
        job = {
            "command": shlex.split(self.get_command(job_meta, fl_ctx)),
            "environment": get_credential_env(arguments),
        }
        process = None if self._standby is None else self._standby.begin(job)
        if process is None:
            process = super().launch_job(job_meta, fl_ctx)
            # If there was one, somebody killed it.
            self._prepare()
        return process

    def _prepare(self) -> None:
        if self._starts:
            try:
                self._standby = Standby(self.kind)
            except OSError:
                log.warning("No process stands by for jobs", exc_info=True)


def _forget_earlier_jobs() -> None:
    """Free what NVFlare keeps of each job, so that this process does not grow."""
    # Tables of how long messages took and how large they were, with rows for every
    # process that one came from. Administrators could read them; kits allow none.
    for pool in tuple(StatsPoolManager.pools.values()):
        if isinstance(pool, HistPool):
            with pool.update_lock:
                pool.cat_bins.clear()
    # Where each message of the last five minutes went, for an error that comes back
    # late. After a minute none does: NVFlare has given the message up.
    late = time.monotonic() + STREAM_ERROR_CONTEXT_TTL - STREAM_RETRY_TIMEOUT
    with ByteStreamer.map_lock:
        contexts = ByteStreamer.error_context_map
        for sent, context in tuple(contexts.items()):
            if context.expires_at < late:
                del contexts[sent]
    # Messages that were sent refer to themselves, and each holds a buffer of 1 MB: the
    # collector counts objects, and would come after many jobs.
    gc.collect()


@final
class ServerLauncher(StandbyLauncher):
    """Named in a server's kit."""

    kind = "server"

    def handle_event(self, event_type: str, fl_ctx: Any) -> None:
        """Also note, before any job begins, that those of a former process ended."""
        super().handle_event(event_type, fl_ctx)
        if event_type == EventType.SYSTEM_BOOTSTRAP:
            # NVFlare keeps them as running, and calls this nowhere: they would be
            # listed for ever, could not be stopped, and would not be pruned.
            runner = fl_ctx.get_engine().get_component(SystemComponents.JOB_RUNNER)
            runner.update_unfinished_jobs(fl_ctx)

    def get_command(self, job_meta: Any, fl_ctx: Any) -> str:
        """Return the command by which NVFlare starts the job's process."""
        return _command(fl_ctx, get_server_job_args())


@final
class SiloLauncher(StandbyLauncher):
    """Starts the jobs of a silo; the silo's kit names this class."""

    kind = "silo"

    def get_command(self, job_meta: Any, fl_ctx: Any) -> str:
        """Return the command by which NVFlare starts the job's process."""
        return _command(fl_ctx, get_client_job_args())


def _command(fl_ctx: Any, names: list[str]) -> str:
    """Return the line of NVFlare's own launchers, which do not quote a kit's folder."""
    arguments = fl_ctx.get_prop(FLContextKey.JOB_PROCESS_ARGS)
    words = [sys.executable]
    for name in names:
        if given := arguments.get(name):
            flag, value = given
            # Only the options are several words: key=value key=value.
            several = name == JobProcessArgs.OPTIONS
            words += [flag, *(str(value).split() if several else [str(value)])]
    return shlex.join(words)


@final
class JobProcess(JobHandleSpec):
    """The process of a job: not a child of the kit's process, but of the standby.

    Attributes
    ----------
    pid : int or None
        None until it has begun.
    """

    def __init__(self) -> None:
        self.pid: int | None = None
        self._status: int | None = None
        self._unwanted = False
        self._over, self._lock = threading.Event(), threading.Lock()

    def terminate(self) -> None:
        """Kill it, with what it started; one that has not begun, as soon as it has."""
        with self._lock:
            self._unwanted = True
            if self.pid is not None and self._status is None:
                kill_copy(self.pid)

    def poll(self) -> Any:
        """Return NVFlare's code of how it ended, or of that it has not."""
        if self._status is None:
            return JobReturnCode.UNKNOWN
        failed = JobReturnCode.EXECUTION_ERROR
        return JOB_RETURN_CODE_MAPPING.get(self._status, failed)

    def wait(self) -> None:
        """Return when it has ended."""
        self._over.wait()

    def has_begun(self, pid: int) -> None:
        """Note the number of the process, and end it if it is no longer wanted."""
        with self._lock:
            self.pid = pid
        if self._unwanted:
            self.terminate()

    def has_ended(self, status: int) -> None:
        """Note its exit status, negative for a signal."""
        with self._lock:
            self._status = status
        self._over.set()


@final
class Standby:
    """The kit's end: hands jobs over, and receives notice of their beginnings and ends.

    Parameters
    ----------
    kind : {"server", "silo"}
        Kind of the kit.
    """

    def __init__(self, kind: str) -> None:
        self._socket, theirs = socket.socketpair()
        with theirs:
            self.process = subprocess.Popen(
                _words(kind),
                stdin=theirs.fileno(),
                start_new_session=True,
                # Jobs compute, and use large blocks again and again.
                env={k: v for k, v in os.environ.items() if MALLOC.get(k) != v},
            )
        # Jobs are begun in the order in which they are handed over.
        self._given = deque[JobProcess]()
        self._begun: dict[int, JobProcess] = {}
        self._lock, self._is_there = threading.Lock(), True
        self._one_has_ended = threading.Event()
        for work in (self._listen, self._clear_up):
            threading.Thread(target=work, daemon=True).start()

    def begin(self, job: dict[str, Any]) -> JobProcess | None:
        """Hand a job over; None if nobody is there to take it."""
        process = JobProcess()
        with self._lock:
            if not self._is_there:
                return None
            # Before it is sent: the answer may be heard before `sendall` has returned.
            self._given.append(process)
            try:
                self._socket.sendall(json.dumps(job).encode() + b"\n")
            except OSError:  # somebody killed it
                self._given.pop()
                return None
        return process

    def _listen(self) -> None:
        with contextlib.suppress(OSError), self._socket.makefile() as lines:
            for line in lines:
                self._hear(json.loads(line))
        with self._lock:
            self._is_there = False
        # Nobody would tell how these end.
        for process in (*self._given, *self._begun.values()):
            process.terminate()
            process.has_ended(KILLED)
        self._one_has_ended.set()
        self._socket.close()
        self.process.wait()

    def _clear_up(self) -> None:
        """Free what jobs left, so that a kit that waits has the memory of before."""
        while self._is_there:
            self._one_has_ended.wait()
            self._one_has_ended.clear()
            for pause in _LEFT:
                # Jobs in a row are cleared up after each, and at length after the last.
                if not self._one_has_ended.wait(pause):
                    _forget_earlier_jobs()

    def _hear(self, news: dict[str, int]) -> None:
        if "begun" in news:
            process = self._begun[news["begun"]] = self._given.popleft()
            process.has_begun(news["begun"])
            log.info("The job has process %d, copied from the standby", process.pid)
        elif "ended" in news:
            self._begun.pop(news["ended"]).has_ended(news["status"])
            self._one_has_ended.set()
        else:
            self._given.popleft().has_ended(1)


def _words(kind: str) -> list[str]:
    # The kit's folder is an argument of all of its processes.
    return [sys.executable, "-u", "-m", __spec__.name, kind, str(Path.cwd())]


# --- The process that stands by -------------------------------------------------------


def stand_by(kind: str) -> None:
    """Load what a job's process needs, and copy this process for every job.

    Parameters
    ----------
    kind : {"server", "silo"}
        Kind of the kit.
    """
    library_build()  # of the source that is loaded now, which may be replaced later
    _load(kind)
    # Loaded objects stay where they are in memory, which the copies share.
    gc.collect()
    gc.freeze()
    kit = socket.socket(fileno=0)
    ended, ends = socket.socketpair()
    ended.setblocking(False)
    ends.setblocking(False)
    signal.set_wakeup_fd(ends.fileno())
    signal.signal(COPY_ENDED, lambda *_: None)
    unread = b""
    while True:
        for pid, status in ended_copies():
            _tell(kit, {"ended": pid, "status": status})
        ready, _, _ = select.select([kit, ended], [], [])
        if ended in ready:
            ended.recv(2**12)
        if kit not in ready:
            continue
        data = kit.recv(2**16)
        if not data:
            return  # the kit's process has ended
        *jobs, unread = (unread + data).split(b"\n")
        if not jobs:
            continue
        is_current = is_installed()
        for job in jobs:
            if _is_copy(kit):
                signal.set_wakeup_fd(-1)
                signal.signal(COPY_ENDED, signal.SIG_DFL)
                for pipe in (ended, ends):
                    pipe.close()
                _become(kind, json.loads(job), is_current)
                return
        if not is_current and not unread:
            # Further jobs get the library as it is now. Processes of jobs stay its own.
            os.execv(sys.executable, _words(kind))


def _load(kind: str) -> None:
    program, *modules = _LOADED[kind]
    for name in (program, *modules):
        importlib.import_module(name)
    for name in (*sys.modules[modules[-1]].LOADED, *_LATE[kind], *_LATE_AT_BOTH):
        with contextlib.suppress(ModuleNotFoundError):  # an extra
            importlib.import_module(name)
    package = sys.modules["unpooled"]
    for name in package.__all__:
        getattr(package, name)  # which loads the module that defines it
    # NVFlare names its loggers by the stack of calls, for which Python first resolves
    # the path of every module, and remembers it.
    inspect.stack()


def _is_copy(kit: socket.socket) -> bool:
    """Fork; return whether this is the job's process."""
    try:
        pid = forked()
    except OSError:
        log.exception("No process could be started for a job")
        _tell(kit, {})
        return False
    if pid == 0:
        kit.detach()
        quiet = os.open(os.devnull, os.O_RDONLY)
        os.dup2(quiet, 0)
        os.close(quiet)
        return True
    _tell(kit, {"begun": pid})
    return False


def _tell(kit: socket.socket, news: dict[str, int]) -> None:
    with contextlib.suppress(OSError):  # it ended, which reading from it tells
        kit.sendall(json.dumps(news).encode() + b"\n")


def _become(kind: str, job: dict[str, Any], is_current: bool) -> None:
    """Run a job's program in this process."""
    os.environ.update(job["environment"])
    command = [str(word) for word in job["command"]]
    program = _LOADED[kind][0]
    if not is_current or command[1:3] != ["-m", program]:
        # Start anew, with the library as it is now.
        os.execv(command[0], command)
    # Copies would all draw the same numbers where scikit-learn draws from it.
    importlib.import_module("numpy.random").seed()
    sys.argv = command[2:]
    # So that `runpy` runs it as the program; what it imports stays loaded.
    del sys.modules[program]
    with connected_cells(fed_client_base):
        runpy.run_module(program, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    stand_by(sys.argv[1])

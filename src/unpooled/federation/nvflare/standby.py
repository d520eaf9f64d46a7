"""A process that stands by for the next job of a server or silo, everything loaded.

    kit's process ── starts ──> standby: loads NVFlare, NumPy, scikit-learn, all models
          │                        │ waits
    a job ─┴─ a line of JSON ───> becomes the job's process
          │                        │
          └──<── it has ended ─────┘   and the next one is started

NVFlare starts a Python for every job, which loads for seconds before it asks what to
do: with a server and three silos on two cores, most of a small study's time. Here it
has loaded before. It is an ordinary process, and serves one job: nothing of a job is
left for the next.

While a job runs no process stands by. A second job at the same time, and a job for
which no process is ready to be written to, is started in NVFlare's way.
"""

import contextlib
import importlib
import json
import logging
import os
import runpy
import shlex
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, final

from nvflare.apis.event_type import EventType
from nvflare.apis.fl_constant import FLContextKey
from nvflare.apis.job_launcher_spec import JobHandleSpec
from nvflare.app_common.job_launcher.process_launcher import (
    ProcessHandle,
    ProcessJobLauncher,
)
from nvflare.utils.job_launcher_utils import (
    generate_client_command,
    generate_server_command,
    get_credential_env,
)
from nvflare.utils.process_utils import ProcessAdapter

from unpooled.federation.nvflare.jobs import CONTROLLER, EXECUTOR
from unpooled.protocol.library_build import is_installed, library_build

log = logging.getLogger("unpooled.engine")

# What a job's process loads: NVFlare's program and class, and our end, whose `LOADED`
# names the rest. By name: the kit's own process stays small without them.
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
# What is loaded late elsewhere: a job's process loads it while others wait.
_LATE = {
    "server": (
        "unpooled.results.plots.charts",
        "unpooled.results.plots.heatmap",
        "unpooled.results.plots.scatter_plots",
        "matplotlib.backends.backend_agg",
        "matplotlib.backends.backend_svg",
        "openpyxl",
    ),
    "silo": (),
}
# Seconds after the end of a job until the next process loads: the job's results are
# read meanwhile, perhaps on the same machine.
_PAUSE = 2.0


class StandbyLauncher(ProcessJobLauncher):
    """NVFlare's launcher of processes, with one of them started before its job."""

    kind: str

    def __init__(self) -> None:
        super().__init__()
        # NVFlare makes it in the processes of jobs, too, where no event starts it.
        self._lock = threading.Lock()
        self._standby: subprocess.Popen[bytes] | None = None
        self._starts = False

    def handle_event(self, event_type: str, fl_ctx: Any) -> None:
        """Start the first process with the kit's own, and none when that one ends."""
        super().handle_event(event_type, fl_ctx)
        if event_type == EventType.SYSTEM_START:
            self._starts = True
            self._prepare()
        elif event_type == EventType.SYSTEM_END:
            self._starts = False
            if (standby := self._taken()) is not None:
                _end(standby)

    def launch_job(self, job_meta: dict[str, Any], fl_ctx: Any) -> JobHandleSpec:
        """Give the job to the process that stands by, or start one."""
        arguments = fl_ctx.get_prop(FLContextKey.JOB_PROCESS_ARGS) or {}
        job = {
            "command": shlex.split(self.get_command(job_meta, fl_ctx)),
            "environment": get_credential_env(arguments),
        }
        standby = self._taken()
        if standby is not None and _is_given(standby, job):
            log.info("The job has process %d, which stood by", standby.pid)
            return _Handle(ProcessAdapter(process=standby), self)
        handle: Any = super().launch_job(job_meta, fl_ctx)
        return _Handle(handle.adapter, self)

    def has_ended(self) -> None:
        """Start the next process, a little later."""
        if self._starts:
            later = threading.Timer(_PAUSE, self._prepare)
            later.daemon = True
            later.start()

    def _prepare(self) -> None:
        with self._lock:
            if not self._starts or self._standby is not None:
                return
            # The kit's folder is an argument of all of its processes.
            words = [sys.executable, "-u", "-m", __name__, self.kind, str(Path.cwd())]
            try:
                self._standby = subprocess.Popen(
                    words, stdin=subprocess.PIPE, start_new_session=True
                )
            except OSError:
                log.warning("No process stands by for the next job", exc_info=True)

    def _taken(self) -> "subprocess.Popen[bytes] | None":
        with self._lock:
            standby, self._standby = self._standby, None
        return standby


@final
class ServerLauncher(StandbyLauncher):
    """Named in a server's kit."""

    kind = "server"

    def get_command(self, job_meta: Any, fl_ctx: Any) -> str:
        """Return the command by which NVFlare starts the job's process."""
        return generate_server_command(fl_ctx)


@final
class SiloLauncher(StandbyLauncher):
    """Named in a silo's kit."""

    kind = "silo"

    def get_command(self, job_meta: Any, fl_ctx: Any) -> str:
        """Return the command by which NVFlare starts the job's process."""
        return generate_client_command(fl_ctx)


@final
class _Handle(ProcessHandle):
    """NVFlare's handle of a job's process; its end is told to the launcher."""

    def __init__(self, adapter: ProcessAdapter, launcher: StandbyLauncher) -> None:
        super().__init__(process_adapter=adapter)
        self._launcher = launcher

    def wait(self) -> None:
        super().wait()
        self._launcher.has_ended()


def _is_given(standby: "subprocess.Popen[bytes]", job: dict[str, Any]) -> bool:
    """Hand a job to a process; return whether it was there to take it."""
    try:
        assert standby.stdin is not None
        with standby.stdin:
            standby.stdin.write(json.dumps(job).encode() + b"\n")
    except OSError:  # somebody killed it
        _end(standby)
        return False
    return True


def _end(standby: "subprocess.Popen[bytes]") -> None:
    standby.kill()
    with contextlib.suppress(OSError):
        standby.communicate()


def stand_by(kind: str) -> None:
    """Load what a job's process needs, wait for the job, and become its process.

    Parameters
    ----------
    kind : {"server", "silo"}
        Of the kit.
    """
    library_build()  # of the source that is loaded now, which may be replaced later
    program, *modules = _LOADED[kind]
    for name in (program, *modules):
        importlib.import_module(name)
    for name in (*sys.modules[modules[-1]].LOADED, *_LATE[kind]):
        with contextlib.suppress(ModuleNotFoundError):  # an extra
            importlib.import_module(name)
    package = sys.modules["unpooled"]
    for name in package.__all__:
        getattr(package, name)  # which loads the module that defines it
    line = sys.stdin.readline()
    if not line:
        return  # the kit's process has ended
    job = json.loads(line)
    os.environ.update(job["environment"])
    command = [str(word) for word in job["command"]]
    quiet = os.open(os.devnull, os.O_RDONLY)
    os.dup2(quiet, 0)
    if not is_installed() or command[1:3] != ["-m", program]:
        # Start anew, with the library as it is now.
        os.execv(command[0], command)
    sys.argv = command[2:]
    # So that `runpy` runs it as the program; what it imports stays loaded.
    del sys.modules[program]
    runpy.run_module(program, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    stand_by(sys.argv[1])

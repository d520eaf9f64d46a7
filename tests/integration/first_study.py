"""A consortium that is set up by the commands of a page of the documentation."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.csv

from integration.consortium import BOUND, free_ports, processes_of, surroundings
from integration.rows import SILOS
from unpooled.data.heart_disease import load

PAGE = Path(__file__).parents[2] / "docs" / "between-organisations.md"
# From the empty folder to the results, as the page promises.
MOST_SECONDS = 600.0
# These stay in the foreground of a window.
STAY = ("unpooled serve ", "unpooled silo start ")


def blocks(title: str) -> list[str]:
    """Return the page's blocks whose titles match, in order."""
    fence = rf'^```\w+ title="{title}"\n((?:.*\n)*?)```$'
    return re.findall(fence, PAGE.read_text("utf-8"), re.MULTILINE)


def commands() -> list[str]:
    """Return the page's commands."""
    return "".join(blocks("Commands? .*")).splitlines()


class FirstStudy:
    """A folder with rows and the page's two files, where its commands are typed."""

    silos = SILOS

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.outputs: dict[str, str] = {}
        self._windows: list[subprocess.Popen[bytes]] = []
        for silo in SILOS:
            pyarrow.csv.write_csv(load()[silo], folder / f"{silo}.csv")
        for name in ("federation.toml", "heart.toml"):
            (text,) = blocks(re.escape(name))
            # The page's port may be taken on a machine that has other servers.
            port, admin_port = free_ports(2)
            ports = f"port = {port}\nadmin_port = {admin_port}"
            (folder / name).write_text(text.replace("port = 8002", ports))

    @property
    def coordinator(self) -> Path:
        return self.folder / "kits" / "coordinator"

    def kit(self, name: str) -> Path:
        kits = self.folder / "kits"
        return kits / "server" if name == "server" else kits / "silos" / name

    def begin(self, line: str, **environment: str) -> subprocess.Popen[bytes]:
        """Type a command that stays in the foreground, in a window of its own."""
        with (self.folder / "windows.log").open("ab") as output:
            window = subprocess.Popen(
                [*BOUND, "bash", "-c", f"exec {line}"],
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=self._environment() | environment,
                start_new_session=True,
            )
        self._windows.append(window)
        return window

    def call(
        self, line: str, code: int = 0, patience: float = 240.0, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Type a command, and wait until it has ended."""
        done = subprocess.run(
            ["bash", "-c", line],
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=self._environment() | environment,
            timeout=patience,
            check=False,
        )
        assert done.returncode == code, f"{line}\n{done.stdout}{done.stderr}"
        return done

    def type(self, lines: list[str]) -> None:
        """Type commands one after the other; all together may take `MOST_SECONDS`."""
        until = time.monotonic() + MOST_SECONDS
        for line in lines:
            if line.startswith(STAY):
                self.begin(line)
            else:
                left = max(until - time.monotonic(), 0.0)
                self.outputs[line] = self.call(line, patience=left).stdout

    def jobs(self, name: str) -> list[int]:
        """Return the processes of the jobs of a kit, and of no desk."""
        found = []
        for pid in processes_of(self.kit(name)):
            with contextlib.suppress(OSError):
                words = Path(f"/proc/{pid}/cmdline").read_bytes()
                if b"_process\0" in words or b"nvflare.standby\0" in words:
                    found.append(pid)
        return found

    def kill_all(self) -> None:
        """What a power failure does: every process of the machine ends at once."""
        for name in ("server", *SILOS):
            for pid in processes_of(self.kit(name)):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        while self._windows:
            window = self._windows.pop()
            window.kill()
            window.wait()

    def _environment(self) -> dict[str, str]:
        programs = [str(Path(sys.executable).parent), os.environ["PATH"]]
        return surroundings() | {"PATH": os.pathsep.join(programs), "COLUMNS": "200"}

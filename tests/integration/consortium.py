"""A consortium of real processes on this machine: a server, three silos, real TLS."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from unpooled.data.heart_disease import load
from unpooled.federation.kits import command_of, environment
from unpooled.federation.provisioning import provision
from unpooled.federation.submission import submission
from unpooled.party.silo import make_identity
from unpooled.secure.roster import Roster

SILOS = ("cleveland", "hungary", "va")
PATIENCE = 120.0


class Consortium:
    """Kits in a folder, and the processes that were started from them."""

    def __init__(self, folder: Path, silos: tuple[str, ...] = SILOS) -> None:
        self.folder, self.silos = folder, silos
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        port, admin_port = free_ports(2)
        lines = [
            "[federation]",
            'name = "hearts"',
            'server = "localhost"',
            f"port = {port}",
            f"admin_port = {admin_port}",
            'coordinator = "ada@example.org"',
            *[f"[silos.{name}]" for name in silos],
        ]
        file = folder / "federation.toml"
        file.write_text("\n".join(lines) + "\n")
        self.kits = provision(file, folder / "kits")
        self.coordinator = self.kits / "coordinator"
        self.server = self.kits / "server"
        self._found()

    def kit(self, name: str) -> Path:
        return self.server if name == "server" else self.kits / "silos" / name

    def _found(self) -> None:
        tables = load()
        keys = {
            name: make_identity(self.kit(name) / "local" / "identity.key").public
            for name in self.silos
        }
        roster = Roster(keys).to_toml()
        (self.server / "local" / "roster.toml").write_text(roster)
        for number, name in enumerate(self.silos):
            local = self.kit(name) / "local"
            (local / "roster.toml").write_text(roster)
            (local / "policy.toml").write_text("min_rows = 10\n")
            source = write(tables[name], local / "rows", number)
            (local / "silo.toml").write_text(
                f'[silo]\nname = "{name}"\nsource = "{source}"\nlabel = "num"\n'
            )

    def start(self, *names: str) -> None:
        """Start server and silos, or those named, and wait until they are connected."""
        for name in names or ("server", *self.silos):
            kit = self.kit(name)
            (kit / "transfer").mkdir(exist_ok=True)
            with (self.folder / f"{name}.log").open("ab") as output:
                self.processes[name] = subprocess.Popen(
                    command_of(kit),
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env=surroundings(),
                    # Its jobs are its children, and end with its group.
                    start_new_session=True,
                )
            if name == "server":
                wait_for(self._server_answers)
        wait_for(self._all_present)

    def kill(self, name: str) -> None:
        """Kill a process and all of its jobs, as a machine that loses its power."""
        self.send(name, signal.SIGKILL)
        self.processes.pop(name).wait()

    def send(self, name: str, number: signal.Signals) -> None:
        """Send a signal to a process and all of its jobs."""
        # NVFlare gives each job a group of its own: they are found by their kit.
        for pid in {self.processes[name].pid, *processes_of(self.kit(name))}:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def stop(self) -> None:
        for name in list(self.processes):
            self.kill(name)

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text("utf-8", "replace")

    def _server_answers(self) -> bool:
        with submission(self.coordinator, 5.0):
            return True

    def _all_present(self) -> bool:
        with submission(self.coordinator, 5.0) as session:
            return session.present() >= set(self.processes) - {"server"}


def processes_of(kit: Path) -> list[int]:
    """Return the processes that were started with a kit's folder as an argument."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (entry / "cmdline").read_bytes().split(b"\0")
            if str(kit).encode() in words:
                found.append(int(entry.name))
    return found


def write(table, path: Path, number: int) -> Path:
    """Write a silo's rows: every silo has another kind of source."""
    import pyarrow.csv
    import pyarrow.parquet

    if number % 2:
        path = path.with_suffix(".parquet")
        pyarrow.parquet.write_table(table, path)
    else:
        path = path.with_suffix(".csv")
        pyarrow.csv.write_csv(table, path)
    return path


def surroundings() -> dict[str, str]:
    """What the processes of a consortium find around them: this very source."""
    source = str(Path(__file__).resolve().parents[2] / "src")
    return environment() | {"PYTHONPATH": source, "OPENBLAS_NUM_THREADS": "1"}


def free_ports(number: int) -> list[int]:
    """Return ports that nobody listens on now."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(number)]
        for one in sockets:
            one.bind(("localhost", 0))
        return [one.getsockname()[1] for one in sockets]


def wait_for(holds, patience: float = PATIENCE, pause: float = 0.5) -> None:
    """Ask until it holds; an error counts as not yet."""
    until = time.monotonic() + patience
    problem: object = "it did not hold"
    while time.monotonic() < until:
        try:
            if holds():
                return
        except Exception as wrong:
            problem = wrong
        time.sleep(pause)
    raise AssertionError(f"waited {patience:.0f} s in vain: {problem}")


def study_text(name: str, steps: str, silos: tuple[str, ...] = SILOS) -> str:
    parties = "\n".join(f"[parties.{silo}]" for silo in silos)
    return (
        f'[study]\nname = "{name}"\nlabel = "num"\ntimeout = 30\n{parties}\n{steps}\n'
    )


HEART = """
[[steps]]
model = "SimpleImputer"
[[steps]]
model = "StandardScaler"
[[steps]]
model = "PCA"
n_components = 5
"""

if __name__ == "__main__":
    sys.exit("This is not a test; the tests beside it use it.")

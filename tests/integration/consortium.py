"""A consortium of real processes on this machine: a server, three silos, real TLS."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from integration.rows import SILOS, write_rows
from unpooled.federation.nvflare.hardening import ROLE
from unpooled.federation.nvflare.provisioning import provision
from unpooled.federation.nvflare.startup_kits import command_of, environment
from unpooled.federation.nvflare.submission import submission
from unpooled.party.setup.silo_file import make_identity
from unpooled.secure.keys.roster import Roster

PATIENCE = 120.0
REGISTERED = "Successfully registered client"
# Before a command: it is killed when the process of tests that started it is gone.
BOUND = ("setpriv", "--pdeathsig", "KILL")

# All tests that share a consortium share the silos' logs, where what they open adds up,
# and some of them ask fewer silos.
POLICY = "min_rows = 10\nallow_roster_change = true\nmax_released_share = 100.0\n"


class Consortium:
    """Kits in a folder, and the processes that were started from them."""

    def __init__(
        self,
        folder: Path,
        silos: tuple[str, ...] = SILOS,
        rows: Callable[[str, Path], Path] = write_rows,
        spare: tuple[str, ...] = (),
        server: str = "localhost",
        transport: str = "tcp",
        gently: bool = False,
    ) -> None:
        self.folder, self.silos, self._rows = folder, silos, rows
        # Silos that have kits, whom the others know, and who start when a test says so.
        self.spare = spare
        # Other processes come first, where those of tests with deadlines may be beside.
        self._before = (*BOUND, "nice", "-n", "10") if gently else BOUND
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.environment: dict[str, str] = {}
        port, admin_port = free_ports(2)
        lines = [
            "[federation]",
            'name = "hearts"',
            f'server = "{server}"',
            f'transport = "{transport}"',
            f"port = {port}",
            f"admin_port = {admin_port}",
            'coordinator = "ada@example.org"',
            *[f"[silos.{name}]" for name in (*silos, *spare)],
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
        keys = {
            name: make_identity(self.kit(name) / "local" / "identity.key").public
            for name in (*self.silos, *self.spare)
        }
        roster = Roster(keys).to_toml()
        (self.server / "local" / "roster.toml").write_text(roster)
        for name in keys:
            local = self.kit(name) / "local"
            (local / "roster.toml").write_text(roster)
            (local / "policy.toml").write_text(POLICY)
            source = self._rows(name, local)
            (local / "silo.toml").write_text(
                f'[silo]\nname = "{name}"\nsource = "{source}"\nlabel = "num"\n'
            )
        # For tests whose job runs many studies: a class of the tests' own, in the
        # server alone. Silos allow what they allow anywhere.
        self.allow("server", "integration.many.ManyStudies")
        self.allow("server", "integration.captured.CapturedServer")
        # Nor does it keep code from silos: they must refuse it themselves.
        with self.edited("server", "authorization.json") as content:
            content["permissions"][ROLE]["byoc"] = "any"

    def roster(self) -> Roster:
        return Roster.from_file(self.server / "local" / "roster.toml")

    def allow(self, name: str, path: str) -> None:
        """Let jobs name one more class at a server or silo."""
        with self.edited(name, "resources.json") as content:
            content["class_allow_list"].append(path)
            # Which knows one job only.
            content.pop("app_validator", None)

    @contextlib.contextmanager
    def edited(self, name: str, file: str) -> Iterator[dict[str, Any]]:
        path = self.kit(name) / "local" / file
        content = json.loads(path.read_text())
        yield content
        path.write_text(json.dumps(content))

    @contextlib.contextmanager
    def changed(self, name: str, file: str, text: str) -> Iterator[None]:
        """Let a file of a silo's `local` have another text for a while."""
        path = self.kit(name) / "local" / file
        before = path.read_text()
        path.write_text(text)
        try:
            yield
        finally:
            path.write_text(before)

    @contextlib.contextmanager
    def settled(
        self,
        policy: str,
        *,
        audit: str,
        sources: Mapping[str, Path] | None = None,
    ) -> Iterator[None]:
        """Let silos have other rules, a log of their own and maybe other rows."""
        with contextlib.ExitStack() as changes:
            for name in sources or self.silos:
                own = (self.kit(name) / "local" / "silo.toml").read_text()
                if sources:
                    own = f'[silo]\nname = "{name}"\nsource = "{sources[name]}"\n'
                own += f'audit = "../state/{audit}.sqlite"\n'
                changes.enter_context(self.changed(name, "silo.toml", own))
                changes.enter_context(self.changed(name, "policy.toml", policy))
            yield

    def start(self, *names: str, **environment: str) -> None:
        """Start server and silos, or those named, and wait until they are connected."""
        names = names or ("server", *self.silos)
        before = {name: self.log(name).count(REGISTERED) for name in names}
        for name in names:
            kit = self.kit(name)
            (kit / "transfer").mkdir(exist_ok=True)
            with (self.folder / f"{name}.log").open("ab") as output:
                self.processes[name] = subprocess.Popen(
                    [*self._before, *command_of(kit)],
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env=surroundings() | self.environment | environment,
                    start_new_session=True,
                )
            if name == "server":
                wait_for(self._server_answers)
        # The server counts a silo as connected for a minute after it died: what says
        # that it is back is its own log.
        for name in set(names) - {"server"}:
            known = before[name]
            wait_for(lambda n=name, k=known: self.log(n).count(REGISTERED) > k)
        wait_for(self._all_present)

    def jobs(self, name: str) -> list[int]:
        """Return the processes of the jobs of a server or silo."""
        return [pid for pid in self._children(name) if not stands_by(pid)]

    def standby(self, name: str) -> list[int]:
        """Return the process that stands by for the jobs of a server or silo."""
        return [pid for pid in self._children(name) if stands_by(pid)]

    def _children(self, name: str) -> list[int]:
        # NVFlare gives each job a group of its own: they are found by their kit.
        found = processes_of(self.kit(name))
        return [pid for pid in found if pid != self.processes[name].pid]

    def kill(self, name: str, what: str = "machine") -> None:
        """Kill the jobs of a server or silo, its parent process, or both at once."""
        self.send(name, signal.SIGKILL, what)
        if what != "job":
            self.processes.pop(name).wait()

    def send(self, name: str, number: signal.Signals, what: str = "machine") -> None:
        """Send a signal to a "job", to the "parent" or to the whole "machine"."""
        parent = [] if what == "job" else [self.processes[name].pid]
        jobs = [] if what == "parent" else self.jobs(name)
        jobs += self.standby(name) if what == "machine" else []
        for pid in (*parent, *jobs):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def stop(self) -> None:
        for name in list(self.processes):
            self.kill(name)

    def log(self, name: str) -> str:
        path = self.folder / f"{name}.log"
        return path.read_text("utf-8", "replace") if path.exists() else ""

    def _server_answers(self) -> bool:
        with submission(self.coordinator):
            return True

    def _all_present(self) -> bool:
        with submission(self.coordinator) as session:
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


def stands_by(pid: int) -> bool:
    """Whether a process waits for jobs: only that one hears of them."""
    with contextlib.suppress(OSError):
        words = Path(f"/proc/{pid}/cmdline").read_bytes()
        waits = os.readlink(f"/proc/{pid}/fd/0").startswith("socket:")
        return b"unpooled.federation.nvflare.standby" in words and waits
    return False


def surroundings() -> dict[str, str]:
    """What the processes of a consortium find around them: these very sources."""
    tests = Path(__file__).resolve().parents[1]
    paths = os.pathsep.join(map(str, (tests.parent / "src", tests, tests / "support")))
    return environment() | {"PYTHONPATH": paths, "OPENBLAS_NUM_THREADS": "1"}


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

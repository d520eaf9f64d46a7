"""The desk of a coordinator, read only: silos, studies, their progress and results.

    GET /                          silos, jobs at the server, and runs in the folder
    GET /runs/KEY                  a run: its steps, what left, its files
    GET /runs/KEY/report           its report, written from the run's files
    GET /runs/KEY/files/N          one of its files

The server is asked with the coordinator's own kit; the runs are folders on this
machine. No page changes anything: there is no form here.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from unpooled.data.toml import read_text
from unpooled.desk.history import key_of
from unpooled.desk.pages import Pages, attachment
from unpooled.errors import StudyError, UnpooledError
from unpooled.federation.nvflare.hardening import kind_of
from unpooled.federation.nvflare.startup_kits import expires_soon
from unpooled.federation.nvflare.submission import Submission, submission
from unpooled.report.html import render
from unpooled.report.text.people import people_answer
from unpooled.report.text.wording import what_left
from unpooled.results.summary import summaries_of
from unpooled.study.announcement import stated
from unpooled.study.job_messages import plan_of
from unpooled.study.reporting import facts_of_run
from unpooled.study.run_folder import RunFolder

_MENU = (("/", "Silos and studies"),)
# Files of a run that are for people, under its folder.
_FILES = (
    "results/*.*",
    "results/*/*.*",
    "models/*.unpooled",
    "*.unpooled",
    "ledger.jsonl",
    "study.toml",
)


@final
@dataclass(frozen=True)
class AtServer:
    """The server's answer: connected silos, and jobs.

    Attributes
    ----------
    problem : str
        Why there is no answer; empty where there is one.
    silos : sequence of str
        The silos that are connected.
    jobs : sequence of mapping
        "name", "status", "time" and "progress" of each job, the last first.
    """

    problem: str = ""
    silos: Sequence[str] = ()
    jobs: Sequence[Mapping[str, str]] = ()


@final
@dataclass(frozen=True)
class RunOnDisk:
    """A run's folder; without `place`, why it cannot be read."""

    name: str
    place: RunFolder | None
    problem: str = ""
    n_steps: int = 0

    @property
    def key(self) -> str:
        """Its name in addresses."""
        return key_of(self.name)

    @property
    def progress(self) -> str:
        """The number of finished steps and the next round, in words."""
        if self.place is None:
            return self.problem
        state = self.place.state
        if state.done:
            return "complete"
        all_of = f" of {self.n_steps}" if self.n_steps else ""
        return (
            f"not complete: {len(state.finished)}{all_of} steps finished, round "
            f"{state.next_round} is next"
        )


def ask_server(kit: Path) -> AtServer:
    """Ask the server which silos are connected, and for its jobs."""
    try:
        with submission(kit) as session:
            jobs = [
                job | {"progress": _progress(session, job)} for job in session.jobs()
            ]
            return AtServer(silos=sorted(session.present()), jobs=jobs)
    except UnpooledError as wrong:
        return AtServer(problem=str(wrong))


def _progress(session: Submission, job: Mapping[str, str]) -> str:
    """Return how far a running job is; empty where it does not say."""
    if job["status"] != "RUNNING":
        return ""
    news = session.ask(job["job"], {"since": 0})
    rounds = [number for _, step, number in news.get("events", []) if "." in step]
    if not rounds:
        return "begins, or waits for silos"
    of_all = ""
    if news.get("plan") is not None:
        with suppress(UnpooledError):
            of_all = f" of {plan_of(news['plan']).rounds}"
    return f"round {max(rounds)}{of_all}"


@final
class CoordinatorDesk:
    """The pages of a coordinator's desk.

    Parameters
    ----------
    kit : Path
        The coordinator's startup kit.
    runs : Path
        The folder that has the folders of runs.
    ask : callable, optional
        Returns what the server of a kit says.
    """

    def __init__(
        self, kit: Path, runs: Path, ask: Callable[[Path], AtServer] = ask_server
    ) -> None:
        if (kind := kind_of(kit)) != "coordinator":
            raise StudyError(
                f"{kit} is a {kind}'s kit. This desk is the coordinator's; that of a "
                f"silo: unpooled silo desk --kit {kit}"
            )
        self.kit, self.runs, self._ask = kit, runs, ask
        self._pages = Pages("Desk of the coordinator", _MENU)

    def app(self) -> Starlette:
        """Return the pages as an application."""
        routes = [
            Route("/", self._overview),
            Route("/runs/{key}", self._run),
            Route("/runs/{key}/report", self._report),
            Route("/runs/{key}/files/{number:int}", self._file),
        ]
        return Starlette(routes=routes, exception_handlers=self._pages.handlers)

    def _show(self, request: Request, name: str, **facts: Any) -> Response:
        return self._pages.show(request, name, problem="", waiting=(), **facts)

    def _overview(self, request: Request) -> Response:
        server, runs = self._ask(self.kit), self._found()
        wanted = {
            silo for one in runs if one.place is not None
            for silo in one.place.state.parties
        }  # fmt: skip
        silos = [
            (silo, silo in server.silos) for silo in sorted({*wanted, *server.silos})
        ]
        expires = ""
        with suppress(UnpooledError):  # there is no certificate
            expires = expires_soon(self.kit)
        return self._show(
            request, "coordinator", server=server, silos=silos, runs=runs,
            expires=expires,
        )  # fmt: skip

    def _run(self, request: Request) -> Response:
        one, place = self._of(request)
        facts = facts_of_run(place)
        models = [model for _, model in facts.models]
        return self._show(
            request, "run", one=one, facts=facts, state=place.state,
            people=people_answer(facts), left=what_left(facts),
            results=list(enumerate(summaries_of(models), 1)),
            files=[str(path.relative_to(place.path)) for path in _files(place)],
        )  # fmt: skip

    def _report(self, request: Request) -> Response:
        # Written anew: a page of the folder could have been altered.
        return HTMLResponse(render(facts_of_run(self._of(request)[1])))

    def _file(self, request: Request) -> Response:
        place, number = self._of(request)[1], int(request.path_params["number"])
        files = _files(place)
        if not 0 <= number < len(files):
            raise HTTPException(404, "There is no such file.")
        name = f"{place.state.study}-{files[number].name}"
        return attachment(name, files[number].read_bytes())

    def _of(self, request: Request) -> tuple[RunOnDisk, RunFolder]:
        key = str(request.path_params["key"])
        for one in self._found():
            if one.key == key and one.place is not None:
                return one, one.place
        raise HTTPException(404, "There is no such run.")

    def _found(self) -> list[RunOnDisk]:
        """Return the runs in the folder, the last first."""
        states = [p for p in self.runs.glob("*/state.json") if p.is_file()]
        states.sort(key=lambda path: path.stat().st_mtime, reverse=True)
        return [_opened(path.parent) for path in states]


def _opened(folder: Path) -> RunOnDisk:
    try:
        # A run that goes on may be writing: its files are read and left as they are.
        place = RunFolder.open(folder, mend=False)
    except UnpooledError as wrong:
        return RunOnDisk(folder.name, None, str(wrong))
    steps = 0
    with suppress(UnpooledError):
        steps = len(stated(place.state.study, read_text(folder / "study.toml")).steps)
    return RunOnDisk(folder.name, place, n_steps=steps)


def _files(place: RunFolder) -> list[Path]:
    """Return a run's files for people, in a fixed order; none that leads elsewhere."""
    root = place.path.resolve()
    return [
        path
        for pattern in _FILES
        for path in sorted(place.path.glob(pattern))
        if path.is_file() and not path.is_symlink()
        if path.resolve().is_relative_to(root)
    ]

"""The command ``unpooled``: demo, plan, run, resume, report, results, silo and others.

Exit codes: 0 done, 1 failed, 2 wrong use. Everything that takes time to import is
imported when a command runs, so that ``unpooled --help`` answers at once.
"""

import contextlib
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unpooled.cli.coordinator_studies import app as studies_commands
from unpooled.cli.desks import desk
from unpooled.cli.provisioning import health, provision, prune, serve
from unpooled.cli.registration import (
    about_run,
    command,
    duration,
    file_argument,
    file_option,
    folder_argument,
    folder_option,
    group,
)
from unpooled.cli.silo import app as silo_commands
from unpooled.cli.silo_keys import roster_app
from unpooled.cli.terminal import complain, console, say

if TYPE_CHECKING:
    from unpooled.cli.progress_display import ProgressDisplay
    from unpooled.study import Run, Study

app = group("unpooled", "Statistics across organisations that may not share rows.")

StudyFile = Annotated[Path, file_argument(metavar="STUDY", help="A study file (TOML).")]
StudyOrRun = Annotated[
    Path,
    typer.Argument(
        metavar="STUDY", help="A study file, or the folder of its run.", exists=True
    ),
]
RunPath = Annotated[Path, folder_argument(metavar="RUN", help="The folder of a run.")]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out", metavar="DIR", help="The run's folder, in place of the study's own."
    ),
]
Kit = Annotated[
    Path | None,
    folder_option(
        "--kit",
        metavar="DIR",
        help="The coordinator's startup kit: run over the silos of a consortium.",
    ),
]


class Form(StrEnum):
    """Kinds of files that results are written as."""

    CSV = "csv"
    JSON = "json"
    XLSX = "xlsx"


Wait = Annotated[
    str | None,
    typer.Option(
        "--wait",
        metavar="TIME",
        help="Wait so long for approvals and absent silos, such as 8h or 2d.",
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Plain lines, no progress bar.")]


def main() -> None:
    """Run the command."""
    app()


def _version(wanted: bool) -> bool:
    if wanted:
        typer.echo(f"unpooled {sys.modules['unpooled'].__version__}")
        raise typer.Exit
    return wanted


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Show the version.", callback=_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Statistics across organisations that may not share rows."""


@command(app)
def demo(
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Where report.html is written.")
    ] = Path(),
    study: Annotated[
        Path | None,
        typer.Option(
            "--study", metavar="DIR", help="Only write the study's file and data there."
        ),
    ] = None,
    raw: Annotated[
        Path | None,
        typer.Option(
            "--raw",
            metavar="DIR",
            help="Only write the data there, as four hospitals might export them.",
        ),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """PCA of heart disease at four hospitals, without pooling a row."""
    from unpooled.cli import heart_demo

    if raw is not None:
        for path in heart_demo.write_raw(raw):
            say(f"Wrote {path}.")
        return
    if study is None:
        heart_demo.demo(console(), out, quiet=quiet)
        return
    path = heart_demo.write_study(study)
    say(f"Wrote {path}. Next: unpooled plan {path}")


@command(app)
def plan(study: StudyFile, kit: Kit = None) -> None:
    """Show what would leave each silo, before anything does."""
    from unpooled.cli.tables import show_plan
    from unpooled.study import Study

    loaded = Study.from_file(study)
    if not show_plan(console(), loaded, loaded.plan(kit=kit)):
        raise typer.Exit(1)


@command(app)
def run(
    study: StudyFile,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume", help="Continue the run in the folder, if there is one."
        ),
    ] = False,
    kit: Kit = None,
    out: Out = None,
    wait: Wait = None,
    quiet: Quiet = False,
) -> None:
    """Fit a study's steps; write models, ledger, log and report into a folder."""
    from unpooled.federation.nvflare.submission import connecting

    with connecting(kit) as connected:
        from unpooled.study import Study

        loaded = Study.from_file(study)
        connected()
        folder = out or loaded.folder
        # Over a consortium the server knows whether there is a run to continue.
        begun = kit is not None or (folder / "state.json").exists()
        _execute(loaded, folder, kit, wait, resume=resume and begun, quiet=quiet)


@command(app)
def resume(
    study: StudyOrRun,
    kit: Kit = None,
    out: Out = None,
    wait: Wait = None,
    quiet: Quiet = False,
) -> None:
    """Continue a run that ended before it was done."""
    from unpooled.study import Study
    from unpooled.study.run_folder import study_file_of

    if study.is_dir():
        study, out = study_file_of(study), out or study
    loaded = Study.from_file(study)
    _execute(loaded, out or loaded.folder, kit, wait, resume=True, quiet=quiet)


@command(app)
def report(run: RunPath) -> None:
    """Write the report of a run again, from its folder."""
    from unpooled.study.reporting import report_of

    about_run(run)
    say(str(report_of(run)))


@command(app)
def results(
    run: RunPath,
    form: Annotated[
        Form | None,
        typer.Option(
            "--format", help="Write the tables as files of this kind, and no others."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="DIR", help="Where files are written: RUN/results."
        ),
    ] = None,
) -> None:
    """Show the results of a run, or write them as CSV, JSON or an Excel workbook."""
    from unpooled.study.run_results import steps_of_run, write_form

    if form is not None:
        for path in write_form(run, form.value, out):
            say(str(path))
        return
    from unpooled.cli.results_tables import show_results

    for one in steps_of_run(run):
        show_results(console(), one.step, one.summary)


@command(app)
def audit(
    run: RunPath,
    log: Annotated[
        list[Path] | None,
        file_option("--log", metavar="SQLITE", help="A copy of a silo's audit log."),
    ] = None,
    roster: Annotated[
        Path | None,
        file_option("--roster", help="The silos' public keys: local/roster.toml."),
    ] = None,
) -> None:
    """Check ledger, seals, models and report of a run against each other and logs."""
    from unpooled.cli.tables import show_checks
    from unpooled.study.audit import audit as checks_of

    checks = checks_of(run, roster=roster, logs=log or [])
    if not show_checks(console(), run, checks):
        raise typer.Exit(1)


def _execute(
    study: "Study",
    folder: Path,
    kit: Path | None,
    wait: str | None,
    *,
    resume: bool,
    quiet: bool,
) -> None:
    """Run or resume a study, with a progress bar, and show the results."""
    from unpooled.cli.progress_display import ProgressDisplay
    from unpooled.cli.results_tables import show_run

    window, seconds = console(), 0.0 if wait is None else duration("--wait", wait)
    if wait is not None and kit is None:
        raise typer.BadParameter("--wait is for a consortium: it needs --kit.")
    about_run(folder)
    start: Callable[..., Run] = study.resume if resume else study.run
    before = _finished(folder)
    try:
        with (
            _ended_by_sigterm() as ended,
            ProgressDisplay(window, quiet=quiet) as display,
        ):
            done = start(
                folder,
                kit=kit,
                listener=display.listener,
                planned=display.planned,
                stop=lambda: bool(ended) or _confirm_stop(study, display),
                wait=seconds,
                waiting=display.waiting,
            )
    except KeyboardInterrupt:
        words = ["unpooled", "resume", str(study.path)]
        words += [] if folder == study.folder else ["--out", str(folder)]
        words += [] if kit is None else ["--kit", str(kit)]
        # To be copied into a shell, also where a folder's name has a blank.
        complain(f"Stopped. Continue with: {shlex.join(words)}")
        raise typer.Exit(1) from None
    except Exception:
        # A fold that is refused takes nothing from what was fitted before it.
        if (finished := _finished(folder)) and (resume or finished != before):
            see = shlex.join(["unpooled", "results", str(folder)])
            say(f"Finished: {', '.join(finished)}. See the results with: {see}")
        raise
    show_run(window, study, done)


def _finished(folder: Path) -> list[str]:
    """Return the names of the steps that are finished in a run's folder."""
    from unpooled.errors import StudyError
    from unpooled.study.run_folder import RunState

    try:
        return list(RunState.read(folder).finished)
    except (StudyError, OSError):
        return []


@contextlib.contextmanager
def _ended_by_sigterm() -> Iterator[list[int]]:
    """Make SIGTERM what Ctrl-C is, without a question; give the signals that came.

    ``systemctl stop``, ``timeout`` and schedulers end a command by it, and the job at
    the server would go on with nobody waiting for it.
    """
    came: list[int] = []

    def end(number: int, _: object) -> None:
        came.append(number)
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield came  # as in a test; no other thread may set a handler
        return
    before = signal.signal(signal.SIGTERM, end)
    try:
        yield came
    finally:
        signal.signal(signal.SIGTERM, before)


def _confirm_stop(study: "Study", display: "ProgressDisplay") -> bool:
    """Ask whether Ctrl-C is meant to stop the job at the server."""
    if not sys.stdin.isatty():
        return True
    question = f"\nStop the job of study {study.name}?"
    # A second Ctrl-C, or no answer, is a yes.
    try:
        with display.paused():
            return typer.confirm(question, default=True)
    except (typer.Abort, KeyboardInterrupt):
        return True


command(app)(provision)
command(app)(serve)
command(app)(health)
command(app)(prune)
command(app)(desk)
app.add_typer(silo_commands)
app.add_typer(roster_app)
app.add_typer(studies_commands)

"""The command: ``unpooled demo``, ``plan``, ``run``, ``resume`` and ``report``.

Exit codes: 0 done, 1 failed, 2 wrong use. Everything heavy is imported when a command
runs, so that ``unpooled --help`` answers at once.
"""

import functools
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from unpooled.study import Run, Study

app = typer.Typer(
    name="unpooled",
    help="Statistics across organisations that may not share rows.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

StudyFile = Annotated[
    Path,
    typer.Argument(
        metavar="STUDY", help="A study file (TOML).", exists=True, dir_okay=False
    ),
]
StudyOrRun = Annotated[
    Path,
    typer.Argument(
        metavar="STUDY", help="A study file, or the folder of its run.", exists=True
    ),
]
RunPath = Annotated[
    Path,
    typer.Argument(
        metavar="RUN", help="The folder of a run.", exists=True, file_okay=False
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out", metavar="DIR", help="The run's folder, in place of the study's own."
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Plain lines, no progress bar.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show where an error came from.")]


def main() -> None:
    """Run the command."""
    app()


def _command(function: Callable[..., None]) -> Callable[..., None]:
    """Register a command whose errors of ours are one line, and exit code 1."""

    @functools.wraps(function)
    def told(*, debug: bool = False, **options: Any) -> None:
        from unpooled.errors import UnpooledError

        try:
            function(**options)
        except (UnpooledError, OSError) as reason:
            if debug:
                raise
            _complain(str(reason))
            raise typer.Exit(1) from None

    signature = inspect.signature(function)
    flag = inspect.Parameter(
        "debug", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Debug
    )
    parameters = [p.replace(kind=p.KEYWORD_ONLY) for p in signature.parameters.values()]
    told.__signature__ = signature.replace(parameters=[*parameters, flag])  # type: ignore[attr-defined]
    told.__annotations__ = {**function.__annotations__, "debug": Debug}
    return app.command()(told)


def _complain(reason: str) -> None:
    from rich.console import Console
    from rich.text import Text

    from unpooled.cli.words import printable

    text = Text("Error: ", "bold red") + Text(printable(reason), "red")
    # One line, however long: a window breaks it, a log keeps it whole.
    Console(stderr=True).print(text, soft_wrap=True)


def _console() -> "Console":
    from rich.console import Console

    return Console(highlight=False)


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


@_command
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
    quiet: Quiet = False,
) -> None:
    """PCA of heart disease at four hospitals, without pooling a row."""
    from unpooled.cli import hospitals

    if study is None:
        hospitals.demo(_console(), out, quiet=quiet)
        return
    path = hospitals.write_study(study)
    _print(f"Wrote {path}. Next: unpooled plan {path}")


@_command
def plan(study: StudyFile) -> None:
    """Show what would leave each silo, before anything does."""
    from unpooled.cli.results import show_plan
    from unpooled.study import Study

    loaded = Study.from_file(study)
    if not show_plan(_console(), loaded, loaded.plan()):
        raise typer.Exit(1)


@_command
def run(
    study: StudyFile,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume", help="Continue the run in the folder, if there is one."
        ),
    ] = False,
    out: Out = None,
    quiet: Quiet = False,
) -> None:
    """Fit a study's steps; write models, ledger, log and report into a folder."""
    from unpooled.study import Study

    loaded = Study.from_file(study)
    folder = out or loaded.folder
    _execute(loaded, folder, quiet, resume and (folder / "state.json").exists())


@_command
def resume(study: StudyOrRun, out: Out = None, quiet: Quiet = False) -> None:
    """Continue a run that ended before it was done."""
    from unpooled.study import Study
    from unpooled.study.folder import study_file_of

    if study.is_dir():
        study, out = study_file_of(study), out or study
    loaded = Study.from_file(study)
    _execute(loaded, out or loaded.folder, quiet, True)


@_command
def report(run: RunPath) -> None:
    """Write the report of a run again, from its folder."""
    from unpooled.study.reporting import report_of

    _print(str(report_of(run)))


def _execute(study: "Study", folder: Path, quiet: bool, going_on: bool) -> None:
    from unpooled.cli.progress import Display
    from unpooled.cli.results import show_run

    console = _console()
    start: Callable[..., Run] = study.resume if going_on else study.run
    try:
        with Display(console, quiet=quiet) as display:
            done = start(folder, listener=display.listener, planned=display.planned)
    except KeyboardInterrupt:
        where = "" if folder == study.folder else f" --out {folder}"
        _complain(f"Stopped. Continue with: unpooled resume {study.path}{where}")
        raise typer.Exit(1) from None
    show_run(console, study, done)


def _print(text: str) -> None:
    _console().print(text, markup=False, soft_wrap=True)

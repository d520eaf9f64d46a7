"""Registration of commands, so that all report errors in the same way.

A mistake of the user, or a refusal, is one line on standard error. So is a fault of the
library itself: its traceback, which may contain names of columns and paths, goes to a
log on this machine, that of the run or the user's own.
"""

import errno
import functools
import inspect
import os
import traceback
from collections.abc import Callable
from contextvars import ContextVar
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from unpooled.cli.terminal import complain

# Arguments and options for files and folders that must exist.
file_argument = functools.partial(typer.Argument, exists=True, dir_okay=False)
file_option = functools.partial(typer.Option, exists=True, dir_okay=False)
folder_argument = functools.partial(typer.Argument, exists=True, file_okay=False)
folder_option = functools.partial(typer.Option, exists=True, file_okay=False)

Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
StudyName = Annotated[str, typer.Argument(metavar="STUDY", help="A study's name.")]
# The option of the commands that run a kit.
Quiet = Annotated[
    bool,
    typer.Option("--quiet", help="Log to log.txt in the kit only, which rotates."),
]
Command = Callable[..., None]

# The folder of the run that the present command is about.
_run_folder: ContextVar[Path | None] = ContextVar("run folder", default=None)


def about_run(folder: Path) -> None:
    """Have the command's faults written to the log of a run, once there is a folder."""
    _run_folder.set(folder)


def duration(option: str, text: str) -> float:
    """Return the seconds of a text such as 90s, 30m, 8h or 2d."""
    units = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
    try:
        seconds = float(text[:-1]) * units[text[-1:]]
    except (KeyError, ValueError):
        seconds = -1.0
    if not 0.0 <= seconds < 1e9:
        raise typer.BadParameter(f"{option} {text}: give a time such as 90s, 8h or 2d.")
    return seconds


def group(name: str, description: str) -> typer.Typer:
    """Return an empty group of commands."""
    return typer.Typer(
        name=name,
        help=description,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )


def command(app: typer.Typer, name: str | None = None) -> Callable[[Command], Command]:
    """Register a command; whatever it raises is printed as one line, exit code 1."""

    def register(function: Command) -> Command:
        @functools.wraps(function)
        def run(*, debug: bool = False, **options: Any) -> None:
            from unpooled.errors import UnpooledError

            _run_folder.set(None)
            try:
                function(**options)
            except (typer.Exit, typer.Abort, typer.BadParameter):
                raise
            except Exception as error:
                if debug:
                    raise
                if isinstance(error, OSError):
                    complain(_refused_by_system(error))
                else:
                    ours = isinstance(error, UnpooledError)
                    complain(str(error) if ours else _fault(error))
                raise typer.Exit(1) from None

        # Typer reads the options from the signature: the command's own and --debug.
        signature = inspect.signature(function)
        flag = inspect.Parameter(
            "debug", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Debug
        )
        parameters = [
            p.replace(kind=p.KEYWORD_ONLY) for p in signature.parameters.values()
        ]
        run.__signature__ = signature.replace(parameters=[*parameters, flag])  # type: ignore[attr-defined]
        run.__annotations__ = {**function.__annotations__, "debug": Debug}
        return app.command(name)(run)

    return register


_REMEDIES = {
    errno.EACCES: "Run the command as the user who owns it, or change its mode.",
    errno.EDQUOT: "Make room, then repeat the command.",
    errno.ENOSPC: "Make room on that disk, then repeat the command.",
    errno.EROFS: "Name a folder on a disk that can be written.",
}


def _refused_by_system(error: OSError) -> str:
    """Return the file, the reason and a remedy, where there is one, in a sentence."""
    if not error.strerror:
        return str(error)
    where = "" if error.filename is None else f"{error.filename}: "
    return f"{where}{error.strerror}. {_REMEDIES.get(error.errno or 0, '')}".rstrip()


def _fault(error: Exception) -> str:
    """Write the traceback of an error that nobody foresaw; return the sentence."""
    kind = type(error).__name__
    what = f"The command stopped at an unexpected {kind}, a fault of unpooled itself."
    folder = _run_folder.get()
    own = Path(os.environ.get("XDG_STATE_HOME") or "~/.local/state").expanduser()
    log = own / "unpooled" / "log.txt"
    if folder is not None and folder.is_dir():
        log = folder / "log.txt"
    time = datetime.now(UTC).isoformat(timespec="seconds")
    lines = "".join(traceback.format_exception(error))
    try:
        log.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # For its owner alone: a traceback may have names of columns, and paths.
        handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(handle, "a", encoding="utf-8") as stream:
            stream.write(f"{time} {what}\n{lines}")
    except OSError as wrong:
        return f"{what} {log} cannot be written ({wrong.strerror}); see it with --debug"
    return f"{what} Its traceback is in {log.absolute()}"

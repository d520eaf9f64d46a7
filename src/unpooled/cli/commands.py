"""Registering commands so that every one tells its mistakes in the same way."""

import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

Debug = Annotated[bool, typer.Option("--debug", help="Show where an error came from.")]
Command = Callable[..., None]


def group(name: str, says: str) -> typer.Typer:
    """Return an empty group of commands."""
    return typer.Typer(
        name=name,
        help=says,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )


def command(app: typer.Typer, name: str | None = None) -> Callable[[Command], Command]:
    """Register a command whose errors of ours are one line, and exit code 1."""

    def register(function: Command) -> Command:
        @functools.wraps(function)
        def told(*, debug: bool = False, **options: Any) -> None:
            from unpooled.errors import UnpooledError

            try:
                function(**options)
            except (UnpooledError, OSError) as reason:
                if debug:
                    raise
                complain(str(reason))
                raise typer.Exit(1) from None

        signature = inspect.signature(function)
        flag = inspect.Parameter(
            "debug", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Debug
        )
        parameters = [
            p.replace(kind=p.KEYWORD_ONLY) for p in signature.parameters.values()
        ]
        told.__signature__ = signature.replace(parameters=[*parameters, flag])  # type: ignore[attr-defined]
        told.__annotations__ = {**function.__annotations__, "debug": Debug}
        return app.command(name)(told)

    return register


def complain(reason: str) -> None:
    """Write one red line to standard error."""
    from rich.console import Console
    from rich.text import Text

    from unpooled.cli.words import printable

    text = Text("Error: ", "bold red") + Text(printable(reason), "red")
    # One line, however long: a window breaks it, a log keeps it whole.
    Console(stderr=True).print(text, soft_wrap=True)


def console() -> "Console":
    """Return what commands write to."""
    from rich.console import Console

    # ":AB:" in a fingerprint is no emoji.
    return Console(highlight=False, emoji=False)


def say(text: str) -> None:
    """Write a line that no window breaks: paths are for copying."""
    console().print(text, markup=False, soft_wrap=True)

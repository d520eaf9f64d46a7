"""Registration of commands, so that all report errors in the same way."""

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer

from unpooled.cli.terminal import complain

# Of files and folders that must exist.
file_argument = functools.partial(typer.Argument, exists=True, dir_okay=False)
file_option = functools.partial(typer.Option, exists=True, dir_okay=False)
folder_argument = functools.partial(typer.Argument, exists=True, file_okay=False)
folder_option = functools.partial(typer.Option, exists=True, file_okay=False)

Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
Command = Callable[..., None]


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
    """Register a command; its `UnpooledError` is printed as one line, exit code 1."""

    def register(function: Command) -> Command:
        @functools.wraps(function)
        def run(*, debug: bool = False, **options: Any) -> None:
            from unpooled.errors import UnpooledError

            try:
                function(**options)
            except (UnpooledError, OSError) as error:
                if debug:
                    raise
                complain(str(error))
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

"""The option ``--kit`` of plan, run and resume: studies over a consortium."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from unpooled.cli.progress import Display
    from unpooled.study import Study

Kit = Annotated[
    Path | None,
    typer.Option(
        "--kit",
        metavar="DIR",
        help="The coordinator's startup kit: run over the silos of a consortium.",
        exists=True,
        file_okay=False,
    ),
]


def stops(study: "Study", display: "Display") -> bool:
    """Ask whether Ctrl-C means the job at the server, or was a slip."""
    if not sys.stdin.isatty():
        return True
    question = f"\nStop the job of study {study.name}?"
    # A second Ctrl-C, or no answer, is a yes.
    try:
        with display.aside():
            return typer.confirm(question, default=True)
    except (typer.Abort, KeyboardInterrupt):
        return True

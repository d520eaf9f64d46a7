"""Headings and empty tables in the style of all commands, which import no model."""

from collections.abc import Sequence

from rich import box
from rich.console import Console, RenderableType
from rich.table import Table as Grid
from rich.text import Text


def table(*columns: str, right: Sequence[str] = ()) -> Grid:
    """Return an empty table in the style that all commands share.

    Parameters
    ----------
    *columns : str
        Headings.
    right : sequence of str
        The headings of columns of numbers.
    """
    empty = Grid(
        box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold"
    )
    for column in columns:
        if column in right:
            empty.add_column(column, justify="right", no_wrap=True)
        else:
            empty.add_column(column, overflow="fold")
    return empty


def part(
    console: Console, title: str, sentence: str = "", *content: RenderableType
) -> None:
    """Write a heading, a sentence, and tables or texts."""
    console.print()
    console.print(Text(title, "bold cyan"))
    if sentence:
        console.print(Text(sentence, "dim"))
    for item in content:
        console.print()
        console.print(item)

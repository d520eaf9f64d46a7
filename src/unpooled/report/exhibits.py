"""Exhibits: what a report shows of a model, apart from where it is shown.

An exhibit is a heading, a few sentences, tables, and a picture of the tables' numbers
where there is one. The page sets pictures as SVG; whatever else shows an exhibit may
print its tables, or draw its picture into a file.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, final


@final
@dataclass(frozen=True)
class Table:
    """A table whose first column names its rows.

    Attributes
    ----------
    caption : str
        What the table shows.
    head : sequence of str
        Names of the columns.
    rows : sequence of sequence of str
        Cells as they are shown.
    note : str
        Which rows were left out, and why.
    total : bool
        Whether the last row adds up the others.
    words : int
        How many columns, from the left, hold words rather than numbers.
    """

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""
    total: bool = False
    words: int = 1


@final
@dataclass(frozen=True)
class Picture:
    """A picture of an exhibit's numbers, drawn when it is asked for.

    Attributes
    ----------
    title : str
        Its name for screen readers.
    description : str
        What a reader who cannot see it should know.
    draw : callable
        Returns the matplotlib `Figure`; call it under
        `unpooled.report.plots.svg.settings`.
    """

    title: str
    description: str
    draw: Callable[[], Any]


@final
@dataclass(frozen=True)
class Exhibit:
    """A heading, sentences, tables, and a picture of their numbers or none."""

    heading: str
    text: str
    tables: list[Table] = field(default_factory=list)
    picture: Picture | None = None

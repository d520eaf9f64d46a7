"""Exhibits: what a fitted model found, as values, apart from where they are shown.

    model ── _exhibits ──> Exhibit: heading, sentences, tables, picture
                             ├── terminal, notebook, page: cells written for people
                             └── files: every row, every digit

A table holds numbers and not their texts, so that a file has the digits that a page
rounds. What a cell looks like follows from the kind of its column.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, final

from unpooled.results import formats

# A page or a terminal shows at most this many rows of a table; files have all.
MOST_ROWS = 30

Value = str | int | float | bool | None
Kind = Literal[
    "text",
    "figures",
    "number",
    "ratio",
    "signed",
    "share",
    "p-value",
    "count",
    "df",
    "seconds",
    "setting",
    "measure",
]


def _setting(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return formats.number(value) if isinstance(value, float) else str(value)


_WRITERS: Mapping[str, Callable[[Any], str]] = {
    "text": str,
    "figures": str,
    "number": formats.number,
    "ratio": formats.ratio,
    "signed": formats.signed,
    "share": formats.per_cent,
    "p-value": formats.probability,
    "count": lambda n: f"{n:,.0f}",
    "df": formats.degrees_of_freedom,
    "seconds": formats.duration,
    "setting": _setting,
    "measure": _setting,
}


@final
@dataclass(frozen=True)
class Column:
    """A column of a table: its heading for people, and how its values are written.

    Attributes
    ----------
    heading : str
        As people read it, such as "Cumulative share".
    kind : str
        What the values are: "text"; "figures", numbers that are written out, such as
        "3.1 (0.4)"; "number", a measured number; "ratio", one that is compared with 1;
        "signed", a number within [-1, 1] such as a loading; "share", a part of 1, which
        is written as a percentage; "p-value"; "count", a whole number; "df", degrees of
        freedom; "seconds"; "setting", a text, number or truth value; "measure", a
        whole or a measured number.
    key : str
        As programs read it, such as "cumulative_share": the heading of the column in
        CSV files and data frames. By default made from `heading`.
    bar : bool
        Whether a terminal draws the values, from 0 up, as bars beside the column.
    """

    heading: str
    kind: Kind = "text"
    key: str = ""
    bar: bool = False

    def __post_init__(self) -> None:
        if not self.key:
            words = re.findall(r"\w+", self.heading.lower())
            object.__setattr__(self, "key", "_".join(words))

    @property
    def full_heading(self) -> str:
        """The heading as it stands beside a single value: "component 1" for "1"."""
        word, _, number = self.key.partition("_")
        numbered = self.heading.isdecimal() and number == self.heading
        return f"{word} {number}" if numbered else self.heading

    @property
    def numeric(self) -> bool:
        """Whether cells are numbers, which are aligned at the right."""
        return self.kind not in ("text", "figures", "setting")

    def text(self, value: Value) -> str:
        """Return a value as people read it; a missing one is empty."""
        return "" if value is None else _WRITERS[self.kind](value)


@final
@dataclass(frozen=True)
class ResultTable:
    """A table of values whose first column names its rows.

    Attributes
    ----------
    name : str
        Stem of the table's file, such as "loadings"; once in a model.
    columns : sequence of Column
        From the left.
    rows : sequence of sequence of value
        All of them: texts, numbers with all their digits, None for what is missing.
        Numbers of NumPy are made Python's, counts whole, and NaN is made None.
    caption : str
        What the table shows, where a heading above it does not say so.
    note : str
        What a reader should know who sees the table.
    total : bool
        Whether the last row adds up the others.
    items, which : str
        What the rows are ("columns"), and which of them come first ("largest"): of many
        rows pages and terminals show the first, and say so.
    most : int or None
        How many rows pages and terminals show; None is all.
    place : {"everywhere", "files", "pages"}
        Where the table stands. One that is too wide or too long to be read is for
        files, and an excerpt of it for pages, which include terminals and notebooks.
    """

    name: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Any]]
    caption: str = ""
    note: str = ""
    total: bool = False
    items: str = "rows"
    which: str = "first"
    most: int | None = MOST_ROWS
    place: Literal["everywhere", "files", "pages"] = "everywhere"

    @classmethod
    def of(cls, name: str, cells: Mapping[Column, Any], **about: Any) -> "ResultTable":
        """Return the table of columns with their values.

        Parameters
        ----------
        name : str
            See above, as for the others in `about`.
        cells : mapping of Column to sequence or value
            From the left, a value for each row, or one that all rows have. The first
            column names the rows.
        """
        n = len(next(iter(cells.values())))
        values = (own if _is_column(own) else [own] * n for own in cells.values())
        return cls(name, tuple(cells), list(zip(*values, strict=True)), **about)

    def __post_init__(self) -> None:
        width = len(self.columns)
        if any(len(row) != width for row in self.rows):
            raise ValueError(f"A row of table {self.name} has not {width} cells.")
        whole = [column.kind == "count" for column in self.columns]
        rows = [tuple(map(_plain, row, whole)) for row in self.rows]
        object.__setattr__(self, "columns", tuple(self.columns))
        object.__setattr__(self, "rows", rows)

    @property
    def shown(self) -> list[tuple[str, ...]]:
        """The cells as people read them, of at most `most` rows."""
        return [
            tuple(c.text(v) for c, v in zip(self.columns, row, strict=True))
            for row in self.rows[: self.most]
        ]

    @property
    def notes(self) -> str:
        """The note, and how many rows are not shown."""
        rest = formats.left_out(len(self.shown), len(self.rows), self.items, self.which)
        return " ".join(filter(None, (self.note, rest)))

    def column(self, key: str) -> list[Value]:
        """Return the values of the column with a key."""
        (place,) = [j for j, c in enumerate(self.columns) if c.key == key]
        return [row[place] for row in self.rows]

    def excerpt(
        self,
        *,
        rows: Sequence[int] | None = None,
        columns: Sequence[int] | None = None,
        note: str = "",
    ) -> list["ResultTable"]:
        """Return this table for files, and some of its rows and columns for pages.

        Parameters
        ----------
        rows, columns : sequence of int, optional
            Which, in this order; all when omitted.
        note : str
            What is left out.
        """
        across = range(len(self.columns)) if columns is None else columns
        down = range(len(self.rows)) if rows is None else rows
        part = replace(
            self,
            columns=[self.columns[j] for j in across],
            rows=[[self.rows[i][j] for j in across] for i in down],
            note=" ".join(filter(None, (self.note, note))),
            place="pages",
        )
        return [replace(self, place="files"), part]


def _is_column(value: Any) -> bool:
    """Whether cells are one for each row, and not the same in all."""
    return hasattr(value, "__len__") and not isinstance(value, str)


def _plain(value: Any, whole: bool) -> Value:
    """Return a value as Python's own, and None for NaN; a whole number as one."""
    value = value.item() if hasattr(value, "item") else value
    if isinstance(value, float) and math.isnan(value):
        return None
    if whole and isinstance(value, float) and value.is_integer():
        return int(value)
    if value is None or isinstance(value, str | int | float):
        return value
    raise TypeError(f"A cell cannot be {type(value).__name__}.")


@final
@dataclass(frozen=True)
class Picture:
    """A picture of an exhibit's numbers, drawn when it is asked for.

    Attributes
    ----------
    name : str
        Stem of the picture's files, such as "scree"; once in a model.
    title : str
        Its name for screen readers.
    description : str
        What a reader who cannot see it should know.
    draw : callable
        Returns the matplotlib `Figure`; call it under
        `unpooled.results.plots.drawing.settings`.
    tables : tuple of str
        Names of the tables that have the numbers.
    """

    name: str
    title: str
    description: str
    draw: Callable[[], Any]
    tables: tuple[str, ...]


@final
@dataclass(frozen=True)
class Exhibit:
    """A heading, sentences, tables, and a picture of their numbers or none."""

    heading: str
    text: str = ""
    tables: Sequence[ResultTable] = field(default_factory=list)
    picture: Picture | None = None

    @property
    def on_pages(self) -> list[ResultTable]:
        """The tables that a page, a terminal or a notebook shows."""
        return [table for table in self.tables if table.place != "files"]

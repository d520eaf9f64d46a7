"""Results of fitted models and of runs on the terminal, in 80 columns or more."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, final

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.text import Text

from unpooled.cli.table_style import part, table
from unpooled.cli.tables import PROTECTION, left_table
from unpooled.cli.terminal import printable
from unpooled.protocol.privacy_cost import spent
from unpooled.results.summary import summaries_of

if TYPE_CHECKING:
    from unpooled.results.exhibits import Column, ResultTable, Value
    from unpooled.results.summary import Summary
    from unpooled.study import Run, Study

_GAP = 3  # letters between columns
_BAR = 20  # letters of the longest; a table without room for its bars has none
# Letters of a column of texts, where there is no room for more: of the first column,
# of another, and of a single word.
_LABEL, _TEXT, _WORD = 26, 15, 40
# Loadings and correlations from here on are bold: the eye finds them in a large table.
_LARGE = 0.4


def show_run(console: Console, study: "Study", run: "Run") -> None:
    """Show the results of a finished run, and where its files are."""
    summaries = summaries_of(list(run.models.values()))
    for name, summary in zip(run.models, summaries, strict=True):
        show_results(console, name, summary)
    if run.evaluation is not None:
        show_results(console, "evaluation", run.evaluation.summary())
    left = left_table(run.ledger)
    cost = spent(run.ledger)
    private = () if cost is None else (Text(str(cost)),)
    part(console, "What left each silo", PROTECTION[study.secure_sum], left, *private)
    part(console, f"Study {study.name} is done", "In the run's folder:")
    files = {
        "results": "results/, for spreadsheets (CSV) and programs (results.json)",
        "models": "models/ and pipeline.unpooled, for unpooled.load",
        "ledger": "ledger.jsonl",
        "log": "log.txt",
    }
    if run.evaluation is not None:
        files["scores"] = "evaluation.json"
    if run.report is not None:
        files["report"] = run.report.name
    for content, file in files.items():
        console.print(Text.assemble((f"  {content:<8}", "dim"), file))
    # Without line breaks, so that the path can be copied.
    console.print(Text(printable(str(run.folder))), soft_wrap=True)


def show_results(console: Console, name: str, summary: "Summary") -> None:
    """Show the tables of a fitted model, and sentences where there is no table."""
    part(console, name, printable(summary.title), *exhibits(summary))


def exhibits(summary: "Summary") -> Iterator[RenderableType]:
    """Return what a terminal shows of a model, each under its heading."""
    for exhibit in summary.exhibits:
        content: list[RenderableType] = [Text(printable(exhibit.heading), "bold")]
        if not exhibit.on_pages:
            content.append(Text(printable(exhibit.text)))
        for one in exhibit.on_pages:
            content.append(Text())
            if one.caption:
                content.append(Text(printable(one.caption)))
            content.append(_Panels(one))
            if one.notes:
                content.append(Text(printable(one.notes), "dim"))
        yield Group(*content)


@final
class _Panels:
    """A table, in as many parts below each other as its columns need.

    Each part begins with the first column, which names the rows, so that no cell is
    cut off where a table is wider than the terminal.
    """

    def __init__(self, shown: "ResultTable") -> None:
        self._table = shown

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        least = [_width(self._table, j) for j in range(len(self._table.columns))]
        # Columns move together before the table is parted.
        fitting = (_panels(least, gap, options.max_width) for gap in (_GAP, _GAP - 1))
        panels = next((one for one in fitting if len(one) == 1), None)
        panels = panels or _panels(least, _GAP, options.max_width)
        for number, columns in enumerate(panels):
            if number:
                yield Text()
            yield _grid(self._table, columns, least, options.max_width)


def _panels(widths: Sequence[int], gap: int, most: int) -> list[list[int]]:
    """Return which columns stand side by side, each time after the first column."""
    panels = [[0]]
    for j in range(1, len(widths)):
        columns = [*panels[-1], j]
        needed = sum(widths[i] for i in columns) + gap * (len(columns) - 1)
        if needed > most and len(panels[-1]) > 1:
            panels.append([0, j])
        else:
            panels[-1].append(j)
    return panels


def _grid(
    one: "ResultTable", columns: Sequence[int], least: Sequence[int], most: int
) -> RenderableType:
    """Return some columns as wide as the terminal allows, with bars if they fit."""
    widths = {j: least[j] for j in columns}
    room = most - sum(widths.values()) - _GAP * (len(columns) - 1)
    grid = table()
    if room < 0:
        grid.collapse_padding = True
        room += len(columns) - 1
    short = {j: _whole(one, j) - widths[j] for j in columns}
    while wider := [j for j in columns if short[j]][: max(room, 0)]:
        for j in wider:
            widths[j], short[j], room = widths[j] + 1, short[j] - 1, room - 1
    # A bar is compared with others: that of a single row is always the longest.
    barred = [j for j in columns if one.columns[j].bar and len(one.rows) > 1]
    if (_BAR + _GAP) * len(barred) > room or len(columns) < len(one.columns):
        barred = []
    for j in columns:
        column = one.columns[j]
        grid.add_column(
            printable(column.heading),
            justify="right" if column.numeric else "left",
            overflow="fold",
            width=widths[j],
        )
    for _ in barred:
        grid.add_column("", no_wrap=True)
    drawn = [_bars(one, j) for j in barred]
    for number, texts in enumerate(one.shown):
        values = one.rows[number]
        cells = [_cell(one.columns[j], values[j], texts[j]) for j in columns]
        grid.add_row(*cells, *(Text(bar[number], "cyan") for bar in drawn))
    return grid


def _width(one: "ResultTable", j: int) -> int:
    """Return how narrow a column can be: numbers and words are not folded."""
    column = one.columns[j]
    texts = [printable(row[j]) for row in one.shown]
    words = [word for text in texts for word in text.split()]
    longest = max(map(len, texts if column.numeric else words), default=1)
    heading = max(map(len, printable(column.heading).split()), default=1)
    if column.numeric:
        return max(longest, heading)
    # A text has room for some words side by side; a very long word is folded.
    some = min(_whole(one, j), _LABEL if j == 0 else _TEXT)
    return max(min(longest, _WORD), heading, some)


def _whole(one: "ResultTable", j: int) -> int:
    """Return the width of a column in which nothing is folded."""
    texts = [*(row[j] for row in one.shown), one.columns[j].heading]
    return max(len(printable(text)) for text in texts)


def _cell(column: "Column", value: "Value", text: str) -> Text:
    if column.kind != "signed" or not isinstance(value, int | float):
        return Text(printable(text))
    style = "cyan" if value > 0 else "magenta"
    return Text(text, f"bold {style}" if abs(value) >= _LARGE else style)


def _bars(one: "ResultTable", j: int) -> list[str]:
    """Return a bar for each shown row, the longest for the largest value."""
    values = [row[j] for row in one.rows[: one.most]]
    lengths = [v if isinstance(v, int | float) and v > 0 else 0 for v in values]
    most = max(lengths, default=0)
    return ["━" * (max(round(_BAR * v / most), 1) if v else 0) for v in lengths]

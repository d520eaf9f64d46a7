"""Results of fitted models and of runs on the terminal, in 80 columns or more."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import Console, Group, RenderableType
from rich.text import Text

from unpooled.cli.tables import PROTECTION, left_table, part, table
from unpooled.cli.terminal import printable
from unpooled.protocol.privacy_cost import spent
from unpooled.results.summary import summaries_of

if TYPE_CHECKING:
    from unpooled.results.exhibits import Column, Table, Value
    from unpooled.results.summary import Summary
    from unpooled.study import Run, Study

_WIDTH, _GAP = 80, 3  # letters; a table without room for its bars has none
_BAR = 20  # letters of the longest
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
            content.append(_grid(one))
            if one.notes:
                content.append(Text(printable(one.notes), "dim"))
        yield Group(*content)


def _grid(one: "Table") -> RenderableType:
    grid = table()
    widths = [_narrowest(one, j) for j in range(len(one.columns))]
    bars = [_bars(one, j) for j, column in enumerate(one.columns) if column.bar]
    if sum(widths) + _GAP * len(widths) + _BAR * len(bars) > _WIDTH:
        bars = []
    for column, width in zip(one.columns, widths, strict=True):
        grid.add_column(
            printable(column.heading),
            justify="right" if column.numeric else "left",
            overflow="fold",
            min_width=width,
            # What could not be narrower keeps its width where others are folded.
            no_wrap=column.numeric and len(printable(column.heading)) <= width,
        )
    for _ in bars:
        grid.add_column("", no_wrap=True, overflow="ellipsis")
    for number, texts in enumerate(one.shown):
        values = one.rows[number]
        cells = [_cell(*each) for each in zip(one.columns, values, texts, strict=True)]
        grid.add_row(*cells, *(Text(bar[number], "cyan") for bar in bars))
    return grid


def _narrowest(one: "Table", j: int) -> int:
    """Return how narrow a column can be: numbers and words are not folded."""
    column = one.columns[j]
    words = printable(column.heading).split()
    cells = [row[j] for row in one.shown] if column.numeric else []
    return max(map(len, [*words, *cells]), default=1)


def _cell(column: "Column", value: "Value", text: str) -> Text:
    if column.kind != "signed" or not isinstance(value, int | float):
        return Text(printable(text))
    style = "cyan" if value > 0 else "magenta"
    return Text(text, f"bold {style}" if abs(value) >= _LARGE else style)


def _bars(one: "Table", j: int) -> list[str]:
    """Return a bar for each shown row, the longest for the largest value."""
    values = [row[j] for row in one.rows[: one.most]]
    lengths = [v if isinstance(v, int | float) and v > 0 else 0 for v in values]
    most = max(lengths, default=0)
    return ["━" * (max(round(_BAR * v / most), 1) if v else 0) for v in lengths]

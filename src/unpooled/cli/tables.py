"""Tables of plans, ledgers and models, for 80 columns and more."""

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np
from rich import box
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from unpooled.cli.words import count, printable, shape
from unpooled.federation.planning.plan import Plan
from unpooled.ledger import Ledger, Release
from unpooled.report.facts import declaration


def table(*columns: str, right: Sequence[str] = ()) -> Table:
    """Return an empty table in the one style of the command.

    Parameters
    ----------
    *columns : str
        Headings.
    right : sequence of str
        Those of them whose cells are numbers.
    """
    made = Table(
        box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold"
    )
    for column in columns:
        if column in right:
            made.add_column(column, justify="right", no_wrap=True)
        else:
            made.add_column(column, overflow="fold")
    return made


def part(
    console: Console, title: str, sentence: str = "", *content: RenderableType
) -> None:
    """Write a part: its heading, a sentence about it, and what it holds."""
    console.print()
    console.print(Text(title, "bold cyan"))
    if sentence:
        console.print(Text(sentence, "dim"))
    for one in content:
        console.print()
        console.print(one)


def plan_table(plan: Plan) -> Table:
    """Return what would cross each silo's door, round by round."""
    made = table("round", "way", "what", "numbers", "bytes", right=("numbers", "bytes"))
    for number, group in groupby(plan.releases, lambda line: line.round):
        lines = list(group)
        # The last line is always of the step that was asked for.
        step = lines[-1].step
        made.add_row(str(number), "", Text(printable(step), "bold"))
        for line in lines:
            style = "" if _leaves(line) else "dim"
            stays = line.visibility == "kept"
            made.add_row(
                "",
                Text("stays" if stays else line.direction, style),
                _what(line, step),
                Text(shape(line.shape), style),
                Text(f"{line.bytes:,}", style),
            )
    return made


def left_table(ledger: Ledger) -> Table:
    """Return what left each silo, by step, with the sum at the bottom."""
    made = table(
        "round",
        "step",
        "what left each silo, as a total only",
        "bytes",
        right=("bytes",),
    )
    lines = [line for line in ledger if _leaves(line)]
    if any(line.visibility != "summed" for line in lines):
        made.columns[2].header = "what left each silo"
    # One row per step of a fit: the same step may be asked again, as in a continuation.
    for (number, step), group in groupby(lines, lambda line: (line.round, line.step)):
        arrays = list(group)
        made.add_row(
            str(number),
            printable(step),
            Text("; ".join(_meaning(line) for line in arrays)),
            f"{sum(line.bytes for line in arrays):,}",
        )
    made.add_section()
    made.add_row(
        Text(count(len({line.round for line in lines}), "round"), "bold"),
        "",
        Text(f"{count(len(lines), 'array')} in all", "bold"),
        Text(f"{ledger.bytes_out():,}", "bold"),
    )
    return made


def variance_table(model: Any) -> Table:
    """Return the explained variance of a fitted PCA, with its cumulative share."""
    made = table(
        "component",
        "variance",
        "share",
        "cumulative",
        "",
        right=("variance", "share", "cumulative"),
    )
    shares = model.explained_variance_ratio_
    for k, (variance, share, total) in enumerate(
        zip(model.explained_variance_, shares, np.cumsum(shares), strict=True), 1
    ):
        bar = "━" * max(round(20 * share / shares[0]), 1) if shares[0] > 0 else ""
        made.add_row(
            f"PC{k}",
            f"{variance:.4g}",
            f"{share:.1%}",
            f"{total:.1%}",
            Text(bar, "cyan"),
        )
    return made


def loadings_table(model: Any, names: Sequence[str], most: int = 4) -> Table:
    """Return the largest loadings of each component of a fitted PCA."""
    made = table("component", "leading loadings", *[""] * (most - 1))
    for k, axis in enumerate(model.components_, 1):
        cells = []
        for j in np.argsort(-np.abs(axis), kind="stable")[:most]:
            # A true minus is as wide as the plus, so that the numbers stand in line.
            number = f"{axis[j]:+.2f}".replace("-", "−")
            style = "cyan" if axis[j] > 0 else "magenta"
            cells.append(Text.assemble((number, style), " ", printable(str(names[j]))))
        made.add_row(f"PC{k}", *cells)
    return made


def _leaves(line: Release) -> bool:
    return line.direction == "out" and line.visibility != "kept"


def _meaning(line: Release) -> str:
    declared = declaration(line.step, line.name)
    return printable(declared.meaning if declared and declared.meaning else line.name)


def _what(line: Release, step: str) -> Text:
    if line.visibility == "kept":
        return Text(_meaning(line), "dim")
    if line.direction == "in":
        whose = "" if line.step == step else f", for {line.step}"
        return Text(printable(f"{line.name}{whose}"), "dim")
    text = Text(_meaning(line))
    if line.visibility == "compared":
        text.append("  compared: all learn the sign alone", "dim")
    elif line.visibility == "veiled":
        text.append("  veiled: the silos alone open the total", "dim")
    elif line.visibility != "summed":
        text.append(f"  {line.visibility}: not only a total", "bold red")
    return text

"""Tables of plans and ledgers for a terminal, in 80 columns or more."""

from collections import Counter
from collections.abc import Hashable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from rich.console import Console, RenderableType
from rich.table import Table as Grid
from rich.text import Text

from unpooled.cli.table_style import part, table
from unpooled.cli.terminal import printable, shape
from unpooled.data.columns import listing
from unpooled.federation.planning.plan import Plan
from unpooled.ledger import Ledger, Release
from unpooled.ledger.rounds import equal_rounds, round_numbers
from unpooled.report.facts import declaration
from unpooled.results.formats import byte_size, counted

if TYPE_CHECKING:
    from pathlib import Path

    from unpooled.results.finding import Finding
    from unpooled.study import Study

PROTECTION = {
    "masked": "Masked sums: every number is seen only as a total over all silos.",
    "plain": "Plain sums, no protection, for tests: every silo's numbers are seen.",
}


def plan_table(plan: Plan) -> Grid:
    """Return a table of what would enter and leave each silo, by round.

    Rounds of the same arrays are shown once.
    """
    grid = table("round", "way", "what", "numbers", "bytes", right=("numbers", "bytes"))
    for rounds in equal_rounds(plan.releases):
        lines, first, last = rounds[0], rounds[0][0].round, rounds[-1][0].round
        # Lines of transforms come first, and those of the round's step last.
        step = lines[-1].step
        name = Text(printable(step), "bold")
        if len(rounds) > 1:
            name.append(f"  {counted(len(rounds), 'round')}, each:", "not bold dim")
        # How many of them stands beside the step.
        grid.add_row(round_numbers(range(first, last + 1)), "", name)
        # Each fold of a cross-validation has the same lines.
        times = Counter(map(_key, lines))
        for line in {_key(line): line for line in lines}.values():
            style = "" if line.leaves else "dim"
            stays, n = line.visibility == "kept", times[_key(line)]
            what = _description(line, step)
            grid.add_row(
                "",
                Text("stays" if stays else line.direction, style),
                Text.assemble((f"{n} times: ", "dim"), what) if n > 1 else what,
                Text(shape(line.shape), style),
                Text(f"{n * line.bytes:,}", style),
            )
    return grid


def _key(line: Release) -> Hashable:
    """Return the fields that are equal in the lines of different folds."""
    return line.step, line.name, line.shape, line.direction, line.visibility


def left_table(ledger: Ledger) -> Grid:
    """Return a table of what left each silo, by round, with the sum at the bottom.

    Rounds that sent the same arrays are one row, with the bytes of all of them.
    """
    grid = table(
        "round",
        "step",
        "what left each silo, as a total only",
        "bytes",
        right=("bytes",),
    )
    lines = [line for line in ledger if line.leaves]
    if any(line.visibility != "summed" for line in lines):
        grid.columns[2].header = "what left each silo"
    for rounds in equal_rounds(lines):
        numbers = [one[0].round for one in rounds]
        for step, arrays in groupby(rounds[0], lambda line: line.step):
            shown = list(arrays)
            times = Counter(map(_meaning, shown))
            said = [
                f"{n} times: {what}" if n > 1 else what for what, n in times.items()
            ]
            grid.add_row(
                round_numbers(numbers),
                printable(step),
                Text("; ".join(said)),
                f"{len(rounds) * sum(line.bytes for line in shown):,}",
            )
    grid.add_section()
    grid.add_row(
        Text(counted(len({line.round for line in lines}), "round"), "bold"),
        "",
        Text(f"{counted(len(lines), 'array')} in all", "bold"),
        Text(f"{ledger.bytes_out():,}", "bold"),
    )
    return grid


def _meaning(line: Release) -> str:
    declared = declaration(line.step, line.name)
    return printable(declared.meaning if declared and declared.meaning else line.name)


def _description(line: Release, step: str) -> Text:
    if line.visibility == "kept":
        return Text(_meaning(line), "dim")
    if line.direction == "in":
        use = "" if line.step == step else f", for {line.step}"
        return Text(printable(f"{line.name}{use}"), "dim")
    text = Text(_meaning(line))
    if line.visibility == "compared":
        text.append("  compared: only the sign is opened, to all", "dim")
    elif line.visibility == "computed":
        text.append("  computed in secret: only this is opened, to all", "dim")
    elif line.visibility == "veiled":
        text.append("  veiled: only the silos open the total", "dim")
    elif line.visibility != "summed":
        text.append(f"  {line.visibility}: not only a total", "bold red")
    return text


def show_plan(console: Console, study: "Study", plan: Plan) -> bool:
    """Show a plan; return whether no silo would refuse it."""
    part(
        console,
        f"Plan of study {study.name}",
        f"Nothing has left any silo. {PROTECTION[plan.protection]}",
        plan_table(plan),
        Text(
            "out: leaves each silo. in: is sent to each silo, and is public to all of "
            "them. stays: never leaves.",
            "dim",
        ),
        f"{counted(plan.rounds, 'round')}. Each of "
        f"{counted(len(plan.parties), 'silo')} "
        f"sends {byte_size(plan.bytes)} and receives {byte_size(plan.bytes_in)}. "
        f"{plan.opened}",
        *map(Text, plan.notes),
        *_ends(plan),
    )
    if not plan.refusals:
        return True
    part(
        console,
        "Would be refused",
        "By the silos' own rules.",
        *_refusals(plan),
    )
    return False


def show_checks(console: Console, run: "Path", checks: "Sequence[Finding]") -> bool:
    """Show the checks of a run; return whether all of them are good."""
    grid = table("", "checked", "found")
    for one in checks:
        mark = Text("good", "green") if one.good else Text("WRONG", "bold red")
        style = "" if one.good else "red"
        grid.add_row(mark, printable(one.what), Text(printable(one.text), style))
    part(console, f"Audit of {printable(str(run))}", "", grid)
    console.print()
    return all(one.good for one in checks)


def _ends(plan: Plan) -> list[RenderableType]:
    """Return the silos' answers about themselves, for a consortium."""
    shown: list[RenderableType] = []
    by_build: dict[str, list[str]] = {}
    for party, build in plan.libraries.items():
        by_build.setdefault(build, []).append(party)
    for build, parties in by_build.items():
        who = "all silos" if len(by_build) == 1 else ", ".join(parties)
        shown.append(Text(printable(f"unpooled {build} at {who}."), "dim"))
    for party, decision in plan.undecided.items():
        waits = f"{party} waits for a person's approval: unpooled silo approve."
        if decision == "denied":
            waits = f"{party}: a person denied this study."
        shown.append(Text(printable(waits), "bold red"))
    return shown


def _refusals(plan: Plan) -> list[RenderableType]:
    """Return a paragraph for each rule: its sentence, and who refuses what by it."""
    paragraphs: list[RenderableType] = []
    for refused in plan.refused:
        text = Text.assemble((refused.rule, "bold red"), f": {refused.sentence}.")
        for who, steps in refused.steps.items():
            text.append(f"\n  {printable(who)}: ", "bold")
            text.append(printable(", ".join(steps)))
        for party, columns in refused.columns.items():
            text.append(f"\n  {printable(party)}, columns: ", "bold")
            text.append(printable(listing(columns)))
        text.append(f"\n{refused.remedy}", "dim")
        for party, more in refused.explanations.items():
            text.append(f"\n{printable(party)}, which is simulated: {more}", "dim")
        paragraphs.append(text)
    return paragraphs

"""What ``unpooled silo log`` and ``silo approve`` show."""

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from unpooled.cli.tables import part, plan_table, table
from unpooled.cli.words import count, printable, shape, size
from unpooled.errors import RULES
from unpooled.party.memory.audit_log import AuditLog
from unpooled.party.memory.hash_chain import Entry
from unpooled.report.facts import declaration
from unpooled.study.announcement import Announced

_MOST_TEXT_LINES = 200


_DECISIONS = {
    "approved": " A person approved it.",
    "denied": " A person denied it.",
    "waiting": " It waits for a person: unpooled silo approve.",
}


def show_log(
    console: Console, journal: AuditLog, study: str | None, *, decides: bool
) -> None:
    """Show the log, study by study, in the order in which things happened.

    `decides` says whether a person must approve each study here.
    """
    entries = journal.entries()
    names = [name for name in journal.studies() if study in (None, name)]
    if not names:
        console.print("Nothing is written yet." if study is None else
                      f"Nothing is written about {printable(study)}.")  # fmt: skip
    for name in names:
        of_it = [entry for entry in entries if entry.study == name]
        lines = [e.record for e in of_it if e.kind == "line" and _left(e.record)]
        rounds = sum(entry.kind == "round" for entry in of_it)
        said = _DECISIONS.get(journal.study(name).approval, "") if decides else ""
        bytes_out = size(sum(line["bytes"] for line in lines))
        part(
            console,
            f"Study {printable(name)}" if name else "No study",
            f"{count(rounds, 'round')}; {count(len(lines), 'array')} left, "
            f"{bytes_out}.{said}",
            _events(of_it),
        )
    console.print()


def show_announced(
    console: Console, study: str, text: str, announced: Announced
) -> None:
    """Show what a person approves: the plan, made here, and the study's text."""
    plan = announced.plan
    part(
        console,
        f"Study {printable(study)}",
        f"With {', '.join(map(printable, plan.parties))}. It fits "
        f"{', '.join(announced.models)} on {count(len(announced.columns), 'column')}: "
        f"{', '.join(map(printable, announced.columns))}.",
        plan_table(plan),
        f"{count(plan.rounds, 'round')}; this silo sends {size(plan.bytes)} "
        f"and receives {size(plan.bytes_in)} ({plan.protection}).",
        *(Text(printable(note)) for note in plan.notes),
    )
    if plan.protection == "plain":
        warning = "Plain sums: this silo's own values are seen, not only totals."
        console.print(Text(warning, "bold red"))
    for _, step, rule in plan.refusals:
        sentence = RULES.get(rule, (rule, ""))[0]
        refused = f"Your policy would refuse {step}: {rule} ({sentence})."
        console.print(Text(printable(refused), "red"))
    lines = [printable(line) for line in text.splitlines()[:_MOST_TEXT_LINES]]
    part(console, "Its text", "", Text("\n".join(lines)))
    console.print()


def _events(entries: Sequence[Entry]) -> Any:
    made = table("when (UTC)", "what", "bytes", "with", right=("bytes",))
    left: list[dict[str, Any]] = []
    for entry in entries:
        when = entry.time[:16].replace("T", " ")
        if entry.kind == "line":
            left += [entry.record] if _left(entry.record) else []
        elif entry.kind == "round":
            company = printable(", ".join(entry.record["parties"]))
            for line in left:
                made.add_row(when, _what(line), f"{line['bytes']:,}", company)
                when = company = ""
            if not left:
                made.add_row(when, _stayed(entry), "0", company)
            left = []
        else:
            said = _said(entry)
            made.add_row(when, Text(printable(said), "dim"), "", "")
    return made


def _left(line: dict[str, Any]) -> bool:
    return line["direction"] == "out" and line["visibility"] != "kept"


def _what(line: dict[str, Any]) -> Text:
    declared = declaration(line["step"], line["name"])
    meaning = declared.meaning if declared else ""
    how = "" if line["visibility"] == "summed" else f", {line['visibility']}"
    what = meaning or f"{line['step']} {line['name']}"
    return Text(printable(f"{what} ({shape(tuple(line['shape']))}{how})"))


def _stayed(entry: Entry) -> Text:
    return Text(printable(f"{entry.record['step']}: nothing left"))


def _said(entry: Entry) -> str:
    record = entry.record
    if entry.kind == "announced":
        return "announced"
    if entry.kind == "decided":
        return f"{'approved' if record['approved'] else 'denied'} by {record['by']}"
    if entry.kind == "joined":
        return f"joined, with {', '.join(record['parties'])}"
    if entry.kind == "delivered":
        return f"model {record['name']} came in ({size(record['bytes'])})"
    if entry.kind == "forgotten":
        return f"forgotten, with {count(len(record['models']), 'model')}"
    if entry.kind == "version":
        return "answered about these rows for the first time"
    if entry.kind == "filled":
        columns = count(len(record["columns"]), "column")
        return f"answered about {columns} with missing cells, filled"
    if entry.kind == "refused":
        return f"refused {record['asked']}: {record['rule']}"
    return entry.kind

"""The output of ``unpooled silo log`` and ``unpooled silo approve``."""

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from unpooled.cli.table_style import part, table
from unpooled.cli.tables import plan_table
from unpooled.cli.terminal import printable, shape
from unpooled.desk.account import budget, refusals_left
from unpooled.errors import RULES
from unpooled.party.memory.audit_log import AuditLog
from unpooled.party.memory.hash_chain import Entry
from unpooled.party.rules.policy import Policy
from unpooled.report.facts import declaration
from unpooled.report.text.log_events import event
from unpooled.results.formats import byte_size, counted, minute
from unpooled.study.announcement import Announced

_DECISIONS = {
    "approved": " A person approved it.",
    "denied": " A person denied it.",
    "waiting": " It waits for approval: unpooled silo approve.",
}


def show_log(
    console: Console,
    audit_log: AuditLog,
    study: str | None,
    policy: Policy,
    *,
    decides: bool,
) -> None:
    """Show the entries of the log by study, oldest first, and what they add up to.

    `decides` says whether a person must approve each study at this silo.
    """
    entries = audit_log.entries()
    names = [name for name in audit_log.studies() if study in (None, name)]
    if not names:
        console.print("The log has no entries yet." if study is None else
                      f"The log has no entries of {printable(study)}.")  # fmt: skip
    for name in names:
        of_study = [entry for entry in entries if entry.study == name]
        lines = [e.record for e in of_study if e.kind == "line" and _left(e.record)]
        rounds = sum(entry.kind == "round" for entry in of_study)
        decision = _DECISIONS.get(audit_log.study(name).approval, "") if decides else ""
        bytes_out = byte_size(sum(line["bytes"] for line in lines))
        part(
            console,
            f"Study {printable(name)}" if name else "No study",
            f"{counted(rounds, 'round')}; {counted(len(lines), 'array')} left, "
            f"{bytes_out}.{decision}",
            _events(of_study),
        )
    state = audit_log.state()
    used = " ".join([*budget(state, policy), refusals_left(state, policy)])
    part(console, "All studies", used)
    console.print()


def show_announced(
    console: Console, study: str, text: str, announced: Announced
) -> None:
    """Show what a person approves: the silo's own plan, and the study's text."""
    plan = announced.plan
    part(
        console,
        f"Study {printable(study)}",
        f"With {', '.join(map(printable, plan.parties))}. It fits "
        f"{', '.join(announced.models)} on "
        f"{counted(len(announced.columns), 'column')}: "
        f"{', '.join(map(printable, announced.columns))}.",
        *(
            Text(f"{heading}: {printable(said)}")
            for heading, said in announced.statement.items()
        ),
        plan_table(plan),
        f"{counted(plan.rounds, 'round')}; this silo sends {byte_size(plan.bytes)} "
        f"and receives {byte_size(plan.bytes_in)} ({plan.protection}). {plan.opened}",
        *(Text(printable(note)) for note in plan.notes),
    )
    if plan.protection == "plain":
        warning = (
            "Plain sums: the coordinator sees this silo's own values, not only totals."
        )
        console.print(Text(warning, "bold red"))
    for _, step, rule in plan.refusals:
        sentence = RULES.get(rule, (rule, ""))[0]
        refused = f"Your policy would refuse {step}: {rule} ({sentence})."
        console.print(Text(printable(refused), "red"))
    # All of it: what a person does not see, a person has not approved.
    lines = [printable(line) for line in text.splitlines()]
    part(console, "The study's text", "", Text("\n".join(lines)))
    console.print()


def _events(entries: Sequence[Entry]) -> Any:
    grid = table("when (UTC)", "what", "bytes", "with", right=("bytes",))
    left: list[dict[str, Any]] = []
    for entry in entries:
        when = minute(entry.time)
        if entry.kind == "line":
            left += [entry.record] if _left(entry.record) else []
        elif entry.kind == "round":
            company = printable(", ".join(entry.record["parties"]))
            for line in left:
                grid.add_row(when, _released(line), f"{line['bytes']:,}", company)
                when = company = ""
            if not left:
                nothing = f"{entry.record['step']}: nothing left the silo"
                grid.add_row(when, Text(printable(nothing)), "0", company)
            left = []
        else:
            grid.add_row(when, Text(printable(event(entry)), "dim"), "", "")
    return grid


def _left(line: dict[str, Any]) -> bool:
    return line["direction"] == "out" and line["visibility"] != "kept"


def _released(line: dict[str, Any]) -> Text:
    """Return the meaning of an array that left, its shape, and who may open it."""
    declared = declaration(line["step"], line["name"])
    meaning = declared.meaning if declared else ""
    meaning = meaning or f"{line['step']} {line['name']}"
    visibility = "" if line["visibility"] == "summed" else f", {line['visibility']}"
    return Text(printable(f"{meaning} ({shape(tuple(line['shape']))}{visibility})"))

"""What ``unpooled silo check`` shows, at home: rows, columns, rules, roster."""

import csv
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from unpooled.cli.tables import part, table
from unpooled.cli.words import count, printable
from unpooled.data.ids import match_report
from unpooled.data.table import Table
from unpooled.party.rules.policy import Policy
from unpooled.party.setup.silo_file import SiloFile
from unpooled.secure.keys.roster import Roster

_MOST_CLASSES = 20


def show_silo(console: Console, silo: SiloFile) -> None:
    """Show a silo; what is wrong with its files is an error that says so."""
    rules, roster, rows = silo.rules(), silo.pinned(), silo.table()
    missing, classes = _counted(rows)
    n = rows.n_rows
    part(
        console,
        f"Silo {silo.name}",
        "Seen only here: none of this leaves.",
        Text(f"{count(n, 'row')} in {_place(silo)}"),
        _columns(rows, rules, missing, n),
    )
    if rows.label is not None:
        console.print(Text(f"Label {printable(rows.label)}: {_classes(classes)}"))
    if n < rules.min_rows:
        few = "Fewer rows than min_rows: every step would be refused."
        console.print(Text(few, "red"))
    for study, matched in _matched(silo.matches):
        told = f"Study {printable(study)}: {match_report(n, matched)}"
        console.print(Text(f"{told} Which: {silo.matches / study}.csv"))
    part(console, "What the policy allows", f"From {silo.policy}", _rules(rules))
    if silo.approval == "each-study":
        console.print(Text("A person must approve each study: unpooled silo approve"))
    part(
        console,
        "Whom this silo knows",
        "Compare the digest with the other silos, on the phone.",
        _roster(roster, silo.name),
        *_committee(roster),
        Text(f"digest {roster.digest()}"),
    )
    if len(roster) < rules.min_parties:
        few = (
            f"The roster has {count(len(roster), 'silo')}; the policy asks for "
            f"{rules.min_parties} in a study. Add lines: unpooled silo pin FILE..."
        )
        console.print(Text(few, "red"))
    console.print()


def _matched(folder: Path) -> list[tuple[str, int]]:
    """Return how many rows each study matched last."""
    found = []
    for path in sorted(folder.glob("[!.]*.csv")):
        # An id may hold a line break, so lines are not counted.
        with path.open(encoding="utf-8", newline="") as stream:
            found.append((path.stem, sum(1 for _ in csv.reader(stream)) - 1))
    return found


def _place(silo: SiloFile) -> str:
    if "://" not in silo.source:
        return printable(silo.source)
    # The address of a database may hold a password.
    return f"a database ({silo.source.partition('://')[0]})"


def _counted(rows: Table) -> tuple[np.ndarray, Counter[Any]]:
    """Count missing cells by column, and rows by label, in one pass."""
    missing, classes = np.zeros(len(rows.columns), int), Counter[Any]()
    extra = [] if rows.label is None else [rows.label]
    for block in rows.blocks(rows.columns, extra):
        missing += np.isnan(block.X).sum(axis=0)
        for name in extra:
            classes.update(map(str, block.extra[name].tolist()))
    return missing, classes


def _columns(rows: Table, rules: Policy, missing: np.ndarray, n: int) -> Grid:
    made = table("column", "missing", "studies may read it", right=("missing",))
    for name, absent in zip(rows.columns, missing.tolist(), strict=True):
        allowed = rules.allows_column(name)
        made.add_row(
            printable(name),
            f"{absent:,}" if absent else "",
            Text("yes") if allowed else Text("no", "red"),
        )
    return made


def _classes(classes: Counter[Any]) -> str:
    if len(classes) > _MOST_CLASSES:
        return f"{len(classes):,} different values"
    parts = [f"{printable(k)} {v:,} times" for k, v in sorted(classes.items())]
    return ", ".join(parts)


def _rules(rules: Policy) -> Grid:
    made = table("rule", "here", "by default")
    for (key, value), default in zip(
        rules.as_dict().items(), Policy().as_dict().values(), strict=True
    ):
        shown = Text(_value(key, value), "" if value == default else "bold")
        made.add_row(key, shown, Text(_value(key, default), "dim"))
    return made


def _value(key: str, value: Any) -> str:
    if value is None:
        return "never" if key == "roster_period_days" else "all"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return printable(", ".join(value))
    return value if isinstance(value, str) else f"{value:g}"


def _committee(roster: Roster) -> list[Text]:
    names = ", ".join(map(printable, roster.pinned_committee))
    return [Text(f"committee for comparisons: {names}")] if names else []


def _roster(roster: Roster, own: str) -> Grid:
    made = table("silo", "public key", "")
    for name, key in roster.items():
        made.add_row(
            printable(name), f"{key.hex()[:16]}…", "here" if name == own else ""
        )
    return made

"""The output of ``unpooled silo check``: rows, columns, rules and roster."""

import csv
import secrets
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from unpooled.cli.table_style import part, table
from unpooled.cli.terminal import printable
from unpooled.data.ids import match_report
from unpooled.data.sources.open_source import value_labels
from unpooled.data.table import Table
from unpooled.linalg.leverage import Leverage, largest_leverage
from unpooled.party.rules.leverage import NOTEWORTHY
from unpooled.party.rules.policy import Policy
from unpooled.party.rules.row_digests import row_digests
from unpooled.party.rules.same_rows import table_digest
from unpooled.party.rules.unusable_cells import (
    INFINITE,
    Cells,
    constant_columns,
    unusable_cells,
)
from unpooled.party.setup.silo_file import SiloFile
from unpooled.party.views.view import View
from unpooled.protocol.library_build import library_build
from unpooled.protocol.view_operations import Select
from unpooled.report.text.policies import value_text
from unpooled.results.formats import counted, listed
from unpooled.secure.keys.roster import Roster
from unpooled.secure.keys.spoken import spoken

_MOST_CLASSES = 20
# Columns whose cells are shown.
_MOST_LINES = 40
# The largest share of repeated rows that is told, and how many are named.
_MOST_REPEATED, _REPEATED_SHOWN = 0.1, 8
# Rows from which distinct whole numbers are no accident.
_FEWEST_NUMBERED = 50


def show_silo(console: Console, silo: SiloFile) -> None:
    """Show a silo; a file of it that is not valid raises its error."""
    rules, roster, rows = silo.rules(), silo.pinned(), silo.table()
    cells, classes = _counted(rows)
    n = rows.n_rows
    part(
        console,
        f"Silo {silo.name}",
        "Shown here only: none of this leaves the silo.",
        Text(f"{counted(n, 'row')} in {_place(silo)}{_chosen(silo, rows)}"),
        _columns(rows, rules, cells),
    )
    if rows.label is not None:
        console.print(Text(f"Label {printable(rows.label)}: {_classes(classes)}"))
    label = [] if rows.label is None else [rows.label]
    _show_codes(console, silo, [*rows.columns, *label])
    unusable = list(unusable_cells(View(rows, []), [*rows.columns, *label]))
    _show_cells(console, rows, unusable)
    _show_repeated(console, rows)
    if numbered := [name for name in _numbered(rows) if rules.allows_column(name)]:
        names = ", ".join(map(printable, numbered[:10]))
        text = (
            f"{names}: whole numbers, none of them twice, as an identifier has. It is "
            f"read as a measurement; name it as ids, or leave it out (exclude)."
        )
        console.print(Text(text, "red"))
    # Leverage is undefined with infinite cells, and no request about them is answered.
    finite = all(one.kind != INFINITE for one in unusable)
    carried = _carried(rows, rules) if finite else None
    if carried is not None and carried.at_least > NOTEWORTHY:
        names = [name for name in rows.columns if rules.allows_column(name)]
        heavy = ", ".join(printable(names[j]) for j in carried.columns[:10])
        alone = (
            f"One row has a leverage of {carried.at_least:.2f} (the policy allows "
            f"{rules.max_leverage:g}): it carries a direction of {heavy} nearly alone. "
            f"Covariances with these columns tell much about it."
        )
        console.print(Text(alone, "red"))
    if n < rules.min_rows:
        few = "Fewer rows than min_rows: every step would be refused."
        console.print(Text(few, "red"))
    for study, matched in _matched(silo.matches):
        report = f"Study {printable(study)}: {match_report(n, matched)}"
        console.print(Text(f"{report} The rows: {silo.matches / study}.csv"))
    console.print(Text(f"Library: unpooled {library_build()}, the same at all ends"))
    part(console, "What the policy allows", f"From {silo.policy}", _rules(rules))
    if rules.max_feature_ratio < 1e6:
        most = (
            f"With {counted(n, 'row')} here, totals over pairs of columns may have at "
            f"most {counted(rules.most_columns(n), 'column')} at a time "
            f"(max_feature_ratio)."
        )
        console.print(Text(most))
    if silo.approval == "each-study":
        console.print(Text("A person must approve each study: unpooled silo approve"))
    part(
        console,
        "The silos on the roster",
        "Compare the words, or the digest, with the other silos by phone.",
        _roster(roster, silo.name),
        *_committee(roster),
        Text(f"words {spoken(roster.digest())}"),
        Text(f"digest {roster.digest()}"),
        Text(
            f"digest of the rows {table_digest(rows, roster.digest().encode()[:64])}: "
            f"the same at another silo only where it has the same rows"
        ),
    )
    if len(roster) < rules.min_parties:
        few = (
            f"The roster has {counted(len(roster), 'silo')}; the policy asks for "
            f"{rules.min_parties} in a study. Add silos: unpooled silo pin FILE..."
        )
        console.print(Text(few, "red"))
    console.print()


def _chosen(silo: SiloFile, rows: Table) -> str:
    """Return how the silo's file chooses rows, where it does."""
    if not silo.rows:
        return ""
    keys = ", ".join(f'{key} = "{printable(text)}"' for key, text in silo.rows.items())
    return f", of {rows.n_source_rows:,} there ({keys})"


def _show_codes(console: Console, silo: SiloFile, names: list[str]) -> None:
    """Show what codes mean, where the silo's file says so."""
    form = {key: silo.format.get(key) for key in ("encoding", "rename")}
    labels = value_labels(silo.source, **form)
    lines = [
        f"{name}: " + listed([f"{code} = {text}" for code, text in meant.items()])
        for name in names
        if 0 < len(meant := labels.get(name, {})) <= _MOST_CLASSES
    ]
    if lines:
        part(
            console,
            "What the file says that codes mean",
            "Studies read the codes: compare with the other silos that theirs mean the "
            "same.",
            Text("\n".join(map(printable, lines[:_MOST_LINES]))),
        )


def _show_cells(console: Console, rows: Table, found: list[Cells]) -> None:
    """Show the cells for which a plan would say no, with their rows."""
    same = constant_columns(rows, rows.columns)
    constant = [f"{name}: the same value in all rows" for name in same]
    if lines := [printable(line) for line in [*map(str, found), *constant]]:
        part(
            console,
            "Cells that models may not take",
            "Data rows are counted from 1, without the line of names.",
            Text("\n".join(lines[:_MOST_LINES])),
        )
        if len(lines) > _MOST_LINES:
            console.print(
                Text(f"and {counted(len(lines) - _MOST_LINES, 'column')} more")
            )


def _show_repeated(console: Console, rows: Table) -> None:
    """Show rows that equal an earlier one, which were perhaps exported twice."""
    digests = row_digests(rows, rows.columns, rows.label or "", secrets.token_bytes(64))
    _, first = np.unique(digests, return_index=True)
    again = np.setdiff1d(np.arange(rows.n_rows), first)
    # With few columns of few values most rows are repeated, which means nothing.
    if not 0 < len(again) <= rows.n_rows * _MOST_REPEATED:
        return
    shown = rows.source_rows(again[:_REPEATED_SHOWN]) + 1
    numbers = ", ".join(f"{row:,}" for row in shown.tolist())
    more = ", ..." if len(again) > len(shown) else ""
    one = len(again) == 1
    text = (
        f"{counted(len(again), 'row')} {'is' if one else 'are'} the same as an earlier "
        f"one in all of these columns (data row{'' if one else 's'} {numbers}{more}): "
        f"each counts as a person of its own. Take them out if they were exported "
        f"twice."
    )
    console.print(Text(text, "red"))


def _numbered(rows: Table) -> list[str]:
    """Return the columns of whole numbers without a gap, and none of them twice."""
    names = [name for name in rows.columns if name not in rows.categorical]
    if rows.n_rows < _FEWEST_NUMBERED:
        return []
    seen: dict[str, list[np.ndarray]] = {name: [] for name in names}
    for block in rows.blocks(names):
        for name, cells in zip(names, block.X.T, strict=True):
            whole = name in seen and np.isfinite(cells).all()
            # By the first block most columns are none.
            if whole and (cells == np.rint(cells)).all() and _distinct(cells):
                seen[name].append(cells.copy())
            else:
                seen.pop(name, None)
    return [name for name, parts in seen.items() if _distinct(np.concatenate(parts))]


def _distinct(cells: np.ndarray) -> bool:
    return len(np.unique(cells)) == len(cells)


def _carried(rows: Table, rules: Policy) -> Leverage | None:
    """Return the largest leverage in the columns that studies may read."""
    names = [name for name in rows.columns if rules.allows_column(name)]
    if not 0 < len(names) < rows.n_rows - 1:
        return None
    view = View(rows, [Select(tuple(names))])
    return largest_leverage(
        lambda: (block.X for block in view.blocks(sparse=True)),
        view.n_rows,
        len(names),
        NOTEWORTHY,
    )


def _matched(folder: Path) -> list[tuple[str, int]]:
    """Return each study with the number of rows in its last match."""
    matched = []
    for path in sorted(folder.glob("[!.]*.csv")):
        # Rows and not lines: an id may contain a line break.
        with path.open(encoding="utf-8", newline="") as stream:
            matched.append((path.stem, sum(1 for _ in csv.reader(stream)) - 1))
    return matched


def _place(silo: SiloFile) -> str:
    if "://" not in silo.source:
        return printable(silo.source)
    # The address of a database may contain a password.
    return f"a database ({silo.source.partition('://')[0]})"


@dataclass
class _Cells:
    """Contents of a silo's columns: missing cells, smallest and largest value."""

    missing: np.ndarray
    low: np.ndarray
    high: np.ndarray


def _counted(rows: Table) -> tuple[_Cells, Counter[Any]]:
    """Return the contents of each column, and the number of rows with each label."""
    p, classes = len(rows.columns), Counter[Any]()
    cells = _Cells(np.zeros(p, int), np.full(p, np.nan), np.full(p, np.nan))
    extra = [] if rows.label is None else [rows.label]
    for block in rows.blocks(rows.columns, extra):
        cells.missing += np.isnan(block.X).sum(axis=0)
        cells.low = np.fmin(cells.low, np.fmin.reduce(block.X, axis=0))
        cells.high = np.fmax(cells.high, np.fmax.reduce(block.X, axis=0))
        for name in extra:
            classes.update(map(str, block.extra[name].tolist()))
    return cells, classes


def _columns(rows: Table, rules: Policy, cells: _Cells) -> Grid:
    numbers = ("missing", "smallest", "largest")
    grid = table("column", *numbers, "studies may read it", right=numbers)
    for j, name in enumerate(rows.columns):
        absent = int(cells.missing[j])
        ends = [f"{float(end[j]):.6g}" for end in (cells.low, cells.high)]
        if name in rows.categorical:
            ends = ["categories", ""]
        elif absent == rows.n_rows:
            ends = ["", ""]
        grid.add_row(
            printable(name),
            f"{absent:,}" if absent else "",
            *ends,
            Text("yes") if rules.allows_column(name) else Text("no", "red"),
        )
    return grid


def _classes(classes: Counter[Any]) -> str:
    if len(classes) > _MOST_CLASSES:
        return f"{len(classes):,} different values"
    parts = [f"{printable(k)} {v:,} times" for k, v in sorted(classes.items())]
    return ", ".join(parts)


def _rules(rules: Policy) -> Grid:
    grid = table("rule", "here", "by default")
    for (key, value), default in zip(
        rules.as_dict().items(), Policy().as_dict().values(), strict=True
    ):
        here = printable(value_text(key, value))
        shown = Text(here, "" if value == default else "bold")
        grid.add_row(key, shown, Text(value_text(key, default), "dim"))
    return grid


def _committee(roster: Roster) -> list[Text]:
    names = ", ".join(map(printable, roster.pinned_committee))
    return [Text(f"committee for comparisons: {names}")] if names else []


def _roster(roster: Roster, own: str) -> Grid:
    grid = table("silo", "public key", "")
    for name, key in roster.items():
        grid.add_row(
            printable(name), f"{key.hex()[:16]}…", "here" if name == own else ""
        )
    return grid

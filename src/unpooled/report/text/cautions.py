"""What a reader must know first."""

from dataclasses import dataclass
from itertools import groupby
from typing import final

from unpooled.errors import StudyError
from unpooled.ledger import Release
from unpooled.report.facts import Facts, declaration
from unpooled.report.text.phrases import listed
from unpooled.report.text.rules import WORDS, loosened, said
from unpooled.report.text.wording import (
    meaning,
    pairs_columns,
    per_person,
    rounds_label,
)

# Below this many rows per silo on average, a reader should look at the sizes.
_FEW_ROWS = 30
# Rows per column under which a total over pairs of columns is called wide.
_FEW_ROWS_PER_COLUMN = 3


@final
@dataclass(frozen=True)
class Caution:
    """A warning: serious where somebody saw, or can see, a silo’s own values."""

    heading: str
    text: str
    serious: bool = False


def cautions(facts: Facts) -> list[Caution]:
    """Return the warnings, serious ones first."""
    found = [
        *_about_the_ledger(facts),
        *_about_protection(facts),
        *_about_single_silos(facts),
        *_about_refusals(facts),
        *_about_few_rows(facts),
        *_about_rules(facts),
    ]
    return sorted(found, key=lambda one: not one.serious)


def _about_the_ledger(facts: Facts) -> list[Caution]:
    found = []
    try:
        facts.ledger.verify()
    except StudyError as wrong:
        text = f"{wrong} What is said below about what left cannot be relied on."
        found.append(Caution("The ledger does not hold together", text, True))
    unknown = {x.step for x in facts.ledger if declaration(x.step, x.name) is None}
    arguments = {x.step for x in facts.lines("in")}
    if strange := sorted(unknown - arguments):
        text = (
            f"The program that wrote this report does not know {listed(strange)}, so "
            f"it cannot say what these arrays mean."
        )
        found.append(Caution("Some steps are not known here", text))
    return found


def _about_protection(facts: Facts) -> list[Caution]:
    m = len(facts.parties)
    found = []
    if facts.protection != "masked":
        text = (
            'Totals were added in clear (secure_sum="plain"), which is meant for '
            "tests. The coordinator received each silo’s own values, not only sums."
        )
        found.append(Caution("There was no protection", text, True))
    if m == 1:
        text = "A total over one silo is that silo’s own value."
        found.append(Caution("Only one silo took part", text, True))
    elif m == 2:
        text = (
            "A total over two silos tells each of them the other’s value: it only has "
            "to subtract its own. Masks protect the two from everybody else, but not "
            "from each other."
        )
        found.append(Caution("Only two silos took part", text, True))
    elif m == 3:
        text = (
            "Two of them, if they put their own values together, can subtract them "
            "from any total they are told and are left with the value of the third."
        )
        found.append(Caution("Only three silos took part", text))
    return found


def _about_single_silos(facts: Facts) -> list[Caution]:
    found = []
    for visibility, who in (
        ("disclosed", "The coordinator saw"),
        ("exchanged", "Neighbouring silos saw"),
    ):
        if shown := _meanings(
            [x for x in facts.lines("out") if x.visibility == visibility]
        ):
            text = f"{who}, silo by silo and not only as a total: {'; '.join(shown)}."
            found.append(Caution("Some values were shown as they are", text, True))
    if people := _meanings([x for x in facts.lines("out") if per_person(x)]):
        text = (
            f"These have entries for single people: {'; '.join(people)}. Such tables "
            f"can often be turned back into records."
        )
        found.append(Caution("Something about single people left", text, True))
    return found


def _about_refusals(facts: Facts) -> list[Caution]:
    opened = facts.protection == "masked"
    after = (
        "What the others sent stayed under masks and was not opened."
        if opened
        else "What the others sent was in clear."
    )
    behind: dict[int, set[str]] = {}
    for line in facts.ledger:
        behind.setdefault(line.round, set()).update(line.parties)
    found = []
    for record in facts.rounds:
        absent = [p for p in facts.parties if p not in behind.get(record.round, ())]
        if record.round == 0 or not absent:
            continue
        everybody = len(absent) == len(facts.parties)
        who = (
            "no silo released anything"
            if everybody
            else f"nothing from {listed(absent)}"
        )
        text = (
            f"Round {record.round} ({record.step}) was refused or broke off: {who}. "
            f"{'' if everybody else after}"
        )
        found.append(Caution("A round was not completed", text.strip()))
    return found


def _about_few_rows(facts: Facts) -> list[Caution]:
    m, N = len(facts.parties), facts.n_rows
    if N is None or facts.partition != "rows":
        return []
    found = []
    if N < _FEW_ROWS * m:
        text = (
            f"All silos together have {N:,} rows, so at least one of them has no more "
            f"than {N // m:,}. The fewer rows stand behind a total, the more it says "
            f"about each."
        )
        found.append(Caution("Few rows", text))
    p = max([x.shape[0] for x in facts.lines("out") if pairs_columns(x)], default=0)
    if N < _FEW_ROWS_PER_COLUMN * p:
        text = (
            f"A total over all pairs of {p:,} columns was opened, from {N:,} rows in "
            f"all. When rows are few beside columns, such a table says much about "
            f"single rows."
        )
        found.append(Caution("Many columns for so few rows", text, N <= p))
    return found


def _about_rules(facts: Facts) -> list[Caution]:
    m, by_rules = len(facts.parties), dict[str, list[str]]()
    for silo, policy in (facts.policies or {}).items():
        if keys := loosened(policy):
            loose = [f"{_as_phrase(key)} ({said(key, policy[key])})" for key in keys]
            by_rules.setdefault("; ".join(loose), []).append(silo)
    return [
        Caution(
            "Rules looser than the library’s own",
            f"{listed(silos) if len(by_rules) > 1 or len(silos) < m else 'Every silo'} "
            f"allowed more than the defaults: {rules}.",
        )
        for rules, silos in by_rules.items()
    ]


def _as_phrase(key: str) -> str:
    words = WORDS[key].rstrip("?")
    return words[:1].lower() + words[1:]


def _meanings(lines: list[Release]) -> list[str]:
    said = [(meaning(x), x.round) for x in lines]
    return [
        f"{what} ({rounds_label([number for _, number in group]).lower()})"
        for what, group in groupby(sorted(set(said)), key=lambda pair: pair[0])
    ]

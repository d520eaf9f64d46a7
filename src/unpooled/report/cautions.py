"""What a reader must know first, and what could be learned from all that left."""

from collections import Counter
from dataclasses import dataclass
from itertools import groupby
from typing import Any, final

from unpooled.errors import StudyError
from unpooled.ledger import Release
from unpooled.report.facts import Facts, declaration, subject_of_step
from unpooled.report.rules import WORDS, loosened, said
from unpooled.report.wording import (
    counted,
    listed,
    meaning,
    per_person,
    shown_as_they_are,
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
    p = max([x.shape[0] for x in facts.lines("out") if _pairs(x)], default=0)
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


def could_learn(facts: Facts) -> list[str]:
    """Return what the coordinator, or silos together with it, could find out."""
    m, N = len(facts.parties), facts.n_rows
    plain = facts.protection != "masked"
    found = [
        "Every number listed above under what left, silo by silo, because nothing was "
        "masked."
        if plain
        else "The totals listed above and everything that follows from them by "
        "calculation. The results below are such calculations."
    ]
    if N is not None and not plain:
        found.append(
            f"That there are {N:,} rows in all; not how many of them any one silo has."
        )
    found.append(
        "The names of silos and columns, when each silo answered, and how long its "
        "messages were."
    )
    if m > 1 and not plain:
        found.append(_together(m))
    if repeated := _repeated(facts):
        found.append(
            f"Differences between totals of the same kind, which were taken more than "
            f"once ({'; '.join(repeated)}). Such a difference is itself a total over "
            f"all {m} silos, of the rows or columns in which the two differ."
        )
    if not any(getattr(model, "privacy", None) for _, model in facts.models):
        found.append(
            "What an exact total gives away by itself: a count of 1 is one person, and "
            "a column that never varies is known for everybody. No random noise was "
            "added."
        )
    found += [_promise(model) for _, model in facts.models if _is_private(model)]
    if any(x.step.endswith(".local_moments") for x in facts.ledger):
        found.append(
            "How totals changed with an update: those of the rows that changed, and of "
            "a silo that joined or left its own."
        )
    return found


def _is_private(model: Any) -> bool:
    return bool(getattr(model, "privacy_", None))


def _promise(model: Any) -> str:
    told = model.privacy_
    return (
        f"Of any one row, little: the totals of {type(model).__name__} left with "
        f"random noise in them, differentially private with ε = {told['epsilon']:g} "
        f"and δ = {told['delta']:g} (zero-concentrated ρ = {told['rho']:.3g}). That is "
        f"the promise for data that differ in {told['neighbours']}, as long as one "
        f"silo keeps its noise to itself. Rows were shortened to the public norm "
        f"{told['row_norm']:g} before."
    )


def _together(m: int) -> str:
    text = (
        "Whoever is told a total can subtract the values they know. One silo that is "
    )
    if m == 2:
        return (
            f"{text}told it learns the other’s value, and so does a coordinator that "
            f"works with one of the two."
        )
    text += f"told it learns the total over the other {m - 1}; "
    if m > 3:
        text += f"two silos together learn that over the other {m - 2}; "
    return text + (
        f"only if {m - 1} silos work together does the value of the last one come out. "
        f"A coordinator that works with some silos learns no more than they do."
    )


def could_not_learn(facts: Facts) -> list[str]:
    """Return what stayed hidden, as far as that is true of this study."""
    m, found = len(facts.parties), []
    if _only_large_totals(facts):
        found.append("Any row, that is, the values of any one person or record.")
    shown = shown_as_they_are(facts)
    if facts.protection == "masked":
        found.append(
            f"{'Otherwise, any' if shown else 'Any'} one silo’s own counts, sums or "
            f"products. What a silo sends is covered by random numbers that it shares "
            f"with each other silo; taken alone it cannot be told from chance. The "
            f"random numbers cancel only when the parts of all {m} silos are added."
        )
        found.append(
            "A total over some of the silos only. Had one been missing, the round "
            "would have stopped and nothing would have been opened."
        )
    return found


def _only_large_totals(facts: Facts) -> bool:
    """Whether what was opened says little enough of rows to promise that none shows.

    The values of a silo with a single row are that row, so the promise needs totals
    over all silos, and more rows than columns behind a total over pairs of columns.
    """
    lines, N = facts.lines("out"), facts.n_rows
    exposed = facts.protection != "masked" or shown_as_they_are(facts)
    if exposed or any(per_person(x) for x in lines):
        return False
    p = max([x.shape[0] for x in lines if _pairs(x)], default=0)
    return N is None or N > max(p, len(facts.parties))


def _repeated(facts: Facts) -> list[str]:
    rounds = {(x.study, x.round, x.step) for x in facts.lines("out")}
    counts = Counter(step for _, _, step in rounds)
    return [
        f"{subject_of_step(step)}, {step}: {counted(n, 'time')}"
        for step, n in sorted(counts.items())
        if n > 1
    ]


def _meanings(lines: list[Release]) -> list[str]:
    said = [(meaning(x), x.round) for x in lines]
    return [
        f"{what} (round {rounds[0][1]})"
        for what, group in groupby(sorted(said), key=lambda pair: pair[0])
        if (rounds := list(group))
    ]


def _pairs(line: Release) -> bool:
    declared = declaration(line.step, line.name)
    return declared is not None and declared.pairs_features

"""Plain sentences about the ledger's lines, made from the steps' own declarations."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import final

from unpooled.coordinator.comparisons import computed_for
from unpooled.ledger import Release
from unpooled.report.facts import Facts, argument, declaration, subject_of_step
from unpooled.report.phrases import byte_size, listed

# A chapter of more passages tells those of an iteration together.
_MANY_PASSAGES = 12
# How values leave that are more than a part of a total.
_SHOWN = ("disclosed", "exchanged")


@final
@dataclass(frozen=True)
class Sentence:
    """What is said of one array.

    Attributes
    ----------
    text : str
        What it is and how large.
    fate : str
        How it was protected, or who may see it; empty where that goes without saying.
    source : str
        Step, array and type of number, for those who look it up in the ledger.
    exposed : bool
        Whether somebody saw more than a total over all silos.
    """

    text: str
    fate: str
    source: str
    exposed: bool = False


@final
@dataclass(frozen=True)
class Passage:
    """One round, or a run of rounds that exchanged the same arrays."""

    label: str
    sentences: list[Sentence]


@final
@dataclass(frozen=True)
class Chapter:
    """What belongs to one model's fit."""

    title: str
    passages: list[Passage]


def what_left(facts: Facts) -> list[Chapter]:
    """Return a sentence for every array that left a silo."""
    return _chapters(facts, facts.lines("out"))


def what_came_in(facts: Facts) -> list[Chapter]:
    """Return a sentence for every array that silos were sent, but for empty ones."""
    return _chapters(facts, [x for x in facts.lines("in") if 0 not in x.shape])


def what_stayed(facts: Facts) -> list[Chapter]:
    """Return a sentence for every array that a silo keeps for itself."""
    return _chapters(facts, [one for one in facts.ledger if one.visibility == "kept"])


def sentence(facts: Facts, line: Release, times: int = 1) -> Sentence:
    """Say in plain words what one line of the ledger means."""
    source = f"{line.step} · {line.name} · {line.dtype}"
    what = meaning(_as_sent(facts, line))
    if line.visibility == "kept":
        return Sentence(
            f"{_capital(what)} ({_numbers(line)}).", _kept(facts, line), source
        )
    way = "from" if line.direction == "out" else "to"
    whose = "each silo" if whole(facts, line) else listed(line.parties)
    if line.peers:
        whose += f" {'to' if line.direction == 'out' else 'from'} {listed(line.peers)}"
    size = f"{_numbers(line)}, {byte_size(line.bytes)} {way} {whose}"
    text = f"{_capital(what)} ({size}{', each time' if times > 1 else ''})."
    if line.direction == "in":
        fate, exposed = _told(facts, line)
        return Sentence(text, fate, source, exposed)
    fate, exposed = _protected(facts, line)
    return Sentence(text, fate, source, exposed)


def meaning(line: Release) -> str:
    """Return the phrase by which the step's declaration describes an array."""
    phrase = _declared(line.step, line.name)
    if not phrase and line.direction == "in":
        phrase = _proven(line)
    return phrase or f"the array “{line.name}” of the step {line.step}"


def _declared(step: str, name: str) -> str:
    """Return the phrase for one of a step's arrays, or for one of its arguments."""
    for declared in (declaration(step, name), argument(step, name)):
        if declared is not None and declared.meaning:
            return declared.meaning.replace("'", "’")
    return ""


def _as_sent(facts: Facts, line: Release) -> Release:
    """Return what neighbours told as they sent it: their step says what it means."""
    if line.direction == "out" or line.visibility != "exchanged":
        return line
    sent = [
        one
        for one in facts.lines("out")
        if (one.study, one.name, one.visibility) == (line.study, line.name, "exchanged")
        and one.round < line.round
    ]
    return max(sent, key=lambda one: one.round, default=line)


def _proven(line: Release) -> str:
    """Say what is shown to silos as evidence of a fit; its name is step and array."""
    step, _, name = line.name.rpartition(".")
    what = _declared(step, name)
    if not what:
        return ""
    if line.visibility == "public":
        return f"{what}, by which silos check a later transform"
    if line.visibility == "compared":
        return f"what the silos that compared found, and signed: {what}"
    return f"all silos’ parts, as they were sent, of: {what}"


def whole(facts: Facts, line: Release) -> bool:
    """Whether every silo of the study stands behind a line."""
    return set(line.parties) == set(facts.parties)


def shown_as_they_are(facts: Facts) -> bool:
    """Whether anything left that was not summed, by the step's own declaration."""
    return any(x.visibility in _SHOWN for x in facts.lines("out"))


def veiled(facts: Facts) -> list[Release]:
    """Return the lines of totals that the coordinator carried and could not open."""
    masked = facts.protection == "masked"
    return [x for x in facts.lines("out") if masked and x.visibility == "veiled"]


def per_person(line: Release) -> bool:
    """Whether an array has an axis over people."""
    declared = declaration(line.step, line.name)
    return declared is not None and declared.level == "row"


def pairs_columns(line: Release) -> bool:
    """Whether an array has an entry for every two columns."""
    declared = declaration(line.step, line.name)
    return declared is not None and declared.pairs_features


def _protected(facts: Facts, line: Release) -> tuple[str, bool]:
    """Return what is said of an array that left, and whether it was exposed."""
    m, people = len(facts.parties), ""
    if per_person(line):
        people = " It has entries for single people."
    if line.visibility == "disclosed":
        return f"Shown to the coordinator as it is, silo by silo.{people}", True
    if line.visibility == "exchanged":
        to = listed(line.peers) or "neighbouring silos"
        return f"Shown as it is to {to}; sealed, so that no other could.{people}", True
    if line.visibility == "compared":
        return f"Nobody sees it; all silos learn only a sign.{computed_for(m)}", False
    if facts.protection != "masked":
        seen = "Sent in clear: the coordinator saw each silo’s own value."
        return f"{seen}{people}", True
    if not whole(facts, line):
        why = "without a part from every silo the masks do not cancel."
        return f"Never opened: {why}", False
    if line.visibility == "veiled":
        seen = f"A total over all {m} silos that they alone opened; noise to all else."
        return f"{seen}{people}", per_person(line)
    declared = declaration(line.step, line.name)
    if declared is not None and declared.noise is not None:
        people = " Each silo added its share of random noise before." + people
    exposed = per_person(line)
    return f"Seen only as the total over all {m} silos.{people}", exposed


def _kept(facts: Facts, line: Release) -> str:
    """Return how long an array stays, and where it was used."""
    declared = declaration(line.step, line.name)
    until = declared.until if declared is not None else "study"
    text = "Kept in the silo until the study is over, or forgotten there."
    if until == "fit":
        text = "Kept in the silo and forgotten at the end of the fit."
    later = [
        one
        for one in facts.lines("out")
        if one.study == line.study
        and one.round > line.round
        and (one.name, one.shape) == (line.name, line.shape)
        and one.step.rpartition(".")[0] == line.step.rpartition(".")[0]
    ]
    if not later:
        return text
    first = min(later, key=lambda one: one.round)
    shown = [one for one in later if one.visibility in _SHOWN]
    if facts.protection != "masked":
        return f"{text} It left in round {first.round}."
    if shown:
        to = "the coordinator" if shown[0].visibility == "disclosed" else "neighbours"
        return f"{text} It was shown to {to} as it is, in round {shown[0].round}."
    return f"{text} Only its total over all silos was opened, in round {first.round}."


def _told(facts: Facts, line: Release) -> tuple[str, bool]:
    """Return what is said of an array that came in, and whether it was exposed."""
    if line.visibility == "exchanged":
        return "What neighbours told; it came sealed, and opened here only.", True
    # An earlier version wrote what is veiled as summed.
    if line.visibility not in ("summed", "veiled"):
        return "", False
    if "." not in line.name:
        text = "A total that only the silos can open; noise to everybody else."
        return text, False
    # Evidence: the coordinator opened the same parts when they left.
    if facts.protection != "masked":
        return "Sent in clear: every silo saw each other silo’s own value.", True
    return "Masked: they open to their total alone, which the coordinator has.", False


def _chapters(facts: Facts, lines: Iterable[Release]) -> list[Chapter]:
    # Transforms are told to the silos in the round of another model's step, which is
    # what they are for: a round belongs to the step that its last line names.
    steps = {(line.study, line.round): line.step for line in facts.ledger}
    subjects = {step: subject_of_step(step) for step in set(steps.values())}
    chapters = []
    for title, group in groupby(
        lines, key=lambda line: subjects[steps[line.study, line.round]]
    ):
        rounds = [
            list(r)
            for _, r in groupby(group, key=lambda line: (line.study, line.round))
        ]
        stretches = [list(run) for _, run in groupby(rounds, key=_signature)]
        if len(stretches) > _MANY_PASSAGES:
            alike: dict[str, list[list[Release]]] = {}
            for run in stretches:
                alike.setdefault(repr(_signature(run[0])), []).extend(run)
            stretches = list(alike.values())
        chapters.append(Chapter(title, [_passage(facts, run) for run in stretches]))
    return chapters


def _passage(facts: Facts, rounds: Sequence[Sequence[Release]]) -> Passage:
    label = rounds_label([lines[0].round for lines in rounds])
    return Passage(label, [sentence(facts, line, len(rounds)) for line in rounds[0]])


def _signature(lines: Sequence[Release]) -> list[tuple[object, ...]]:
    return [
        (x.step, x.name, x.shape, x.dtype, x.bytes, x.visibility, x.parties)
        for x in lines
    ]


def rounds_label(numbers: Sequence[int]) -> str:
    """Return "Round 3", "Rounds 3 to 7", or "Rounds 3 to 7, 3 of them"."""
    first, last, n = numbers[0], numbers[-1], len(set(numbers))
    some = f", {n} of them" * (last - first >= n > 1)
    return (f"Round {first}" if first == last else f"Rounds {first} to {last}") + some


def _numbers(line: Release) -> str:
    if line.shape in ((), (1,)):
        return "one number"
    text = "\u00a0×\u00a0".join(f"{size:,}" for size in line.shape) + " numbers"
    declared = declaration(line.step, line.name)
    if declared is not None and declared.symmetric and line.direction == "out":
        text += ", each pair once"
    return text


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]

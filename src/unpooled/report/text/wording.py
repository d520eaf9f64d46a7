"""Sentences about the lines of the ledger, made from the steps' own declarations.

A sentence says what an array is, how large it is, and who could see it: the array's
visibility in the ledger, its direction and the study's protection choose the last part
from one table.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import final

from unpooled.coordinator.comparisons import computed_for
from unpooled.ledger import Release
from unpooled.ledger.rounds import Round, equal_rounds, rounds_label
from unpooled.report.facts import Facts, argument, declaration, subject_of_step
from unpooled.results.formats import byte_size, listed

# Visibilities of a silo's own values, rather than of its part of a total.
_SHOWN = ("disclosed", "exchanged")

# Who could see an array, and whether that was more than a total over all silos; by
# direction and `_visibility`. An array that is not here needs no such sentence.
_FATES: Mapping[tuple[str, str], tuple[str, bool]] = {
    ("out", "summed"): ("Opened only as the total over all {m} silos.", False),
    ("out", "veiled"): (
        "Opened only as the total over all {m} silos, and only by the silos: to anyone "
        "else it is noise.",
        False,
    ),
    ("out", "compared"): (
        "Never opened: all silos learn only the sign of a result.{computed_for}",
        False,
    ),
    ("out", "computed"): (
        "Computed together from a total that stayed shared among the silos: only these "
        "numbers were opened, to all.{computed_for}",
        False,
    ),
    ("out", "incomplete"): (
        "Never opened: without a part from every silo the masks do not cancel.",
        False,
    ),
    ("out", "in clear"): (
        "Sent in clear: the coordinator saw each silo’s own value.",
        True,
    ),
    ("out", "disclosed"): (
        "Disclosed to the coordinator as it is, silo by silo.",
        True,
    ),
    ("out", "exchanged"): (
        "Sent as it is to {peers}, sealed so that nobody else could open it.",
        True,
    ),
    ("in", "exchanged"): (
        "Sent as it is by neighbours, sealed so that only this silo could open it.",
        True,
    ),
    ("in", "total"): (
        "A total that only the silos can open; to anyone else it is noise.",
        False,
    ),
    ("in", "opened"): (
        "A total that the coordinator had opened; each silo checked it and went on "
        "with it.",
        False,
    ),
    ("in", "disclosed"): (
        "Disclosed by the silos, and passed on to all silos of the study.",
        True,
    ),
    ("in", "compared"): (
        "Signs that the computing silos found, under their signatures.",
        False,
    ),
    ("in", "computed"): (
        "Results that the computing silos found together, under their signatures.",
        False,
    ),
    ("in", "masked parts"): (
        "Masked: the parts can be opened only as their total, which the coordinator "
        "has.",
        False,
    ),
    ("in", "parts in clear"): (
        "Sent in clear: every silo saw each other silo’s own value.",
        True,
    ),
}


@final
@dataclass(frozen=True)
class Sentence:
    """The description of one array.

    Attributes
    ----------
    text : str
        What it is and how large.
    fate : str
        How it was protected, or who could see it; empty where nothing needs saying.
    source : str
        Step, array and type of number, by which to find it in the ledger.
    exposed : bool
        Whether anyone saw more than a total over all silos.
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
    """The passages of one model's fit."""

    title: str
    passages: list[Passage]


def what_left(facts: Facts) -> list[Chapter]:
    """Return a sentence for every array that left a silo."""
    return _chapters(facts, facts.lines("out"))


def what_came_in(facts: Facts) -> list[Chapter]:
    """Return a sentence for every array that silos received, except empty ones."""
    return _chapters(facts, [x for x in facts.lines("in") if 0 not in x.shape])


def what_stayed(facts: Facts) -> list[Chapter]:
    """Return a sentence for every array that a silo keeps for itself."""
    return _chapters(
        facts, [line for line in facts.ledger if line.visibility == "kept"]
    )


def sentence(facts: Facts, line: Release, times: int = 1) -> Sentence:
    """Return the meaning of one line of the ledger, in plain words.

    `times` is how many rounds in a row have an equal line.
    """
    source = f"{line.step} · {line.name} · {line.dtype}"
    what = _capital(meaning(_line_of_sender(facts, line)))
    if line.visibility == "kept":
        return Sentence(f"{what}: {_numbers(line)}.", _kept(facts, line), source)
    way, opposite = ("from", "to") if line.direction == "out" else ("to", "from")
    silos = "each silo" if whole(facts, line) else listed(line.parties)
    silos = "this silo" if facts.silo else silos
    if line.peers:
        silos += f" {opposite} {listed(line.peers)}"
    size = f"{_numbers(line)}, {byte_size(line.bytes)} {way} {silos}"
    text = f"{what}: {size}{', each time' if times > 1 else ''}."
    fate, exposed = _fate(facts, line)
    return Sentence(text, fate, source, exposed)


def meaning(line: Release) -> str:
    """Return the phrase by which the step's declaration describes an array."""
    phrase = _declared(line.step, line.name)
    if not phrase and line.direction == "in":
        phrase = _followed(line)
    return phrase or f"the array “{line.name}” of the step {line.step}"


def _declared(step: str, name: str) -> str:
    """Return the phrase for one of a step's arrays, or for one of its arguments."""
    for declared in (declaration(step, name), argument(step, name)):
        if declared is not None and declared.meaning:
            return declared.meaning.replace("'", "’")
    return ""


def _line_of_sender(facts: Facts, line: Release) -> Release:
    """Return the line under which the sending neighbour's step declared this array.

    Lines of other arrays are returned as they are.
    """
    if line.direction == "out" or line.visibility != "exchanged":
        return line
    sent = [
        x
        for x in facts.lines("out")
        if (x.study, x.name, x.visibility) == (line.study, line.name, "exchanged")
        and x.round < line.round
    ]
    return max(sent, key=lambda x: x.round, default=line)


def _followed(line: Release) -> str:
    """Return the phrase for an array by which silos follow the computation."""
    if line.name.startswith("model."):
        return "a number of the model that the silos follow"
    return "a decomposition of opened totals, which silos check and go on with"


def whole(facts: Facts, line: Release) -> bool:
    """Return whether every silo of the study sent or received an array.

    A silo's own log has its own part of each, and rounds are of all silos or none.
    """
    return bool(facts.silo) or set(line.parties) == set(facts.parties)


def shown_as_they_are(facts: Facts) -> bool:
    """Return whether any silo sent values of its own, not only parts of totals."""
    return any(x.visibility in _SHOWN for x in facts.lines("out"))


def veiled(facts: Facts) -> list[Release]:
    """Return the lines of totals that the coordinator forwarded and could not open."""
    masked = facts.protection == "masked"
    return [x for x in facts.lines("out") if masked and x.visibility == "veiled"]


def per_person(line: Release) -> bool:
    """Return whether an array has an axis over people."""
    declared = declaration(line.step, line.name)
    return declared is not None and declared.level == "row"


def pairs_columns(line: Release) -> bool:
    """Return whether an array has an entry for every pair of columns."""
    declared = declaration(line.step, line.name)
    return declared is not None and declared.pairs_features


def _fate(facts: Facts, line: Release) -> tuple[str, bool]:
    """Return who could see an array, and whether that exposed more than a total."""
    visibility = _visibility(facts, line)
    text, exposed = _FATES.get((line.direction, visibility), ("", False))
    m = len(facts.parties)
    peers = listed(line.peers) or "neighbouring silos"
    text = text.format(m=m, peers=peers, computed_for=computed_for(m))
    if line.direction == "in" or visibility in ("compared", "incomplete"):
        return text, exposed
    declared = declaration(line.step, line.name)
    if visibility == "summed" and declared is not None and declared.noise is not None:
        text += " Each silo added its share of random noise before."
    if per_person(line):
        return f"{text} It has entries for single people.", True
    return text, exposed


def _visibility(facts: Facts, line: Release) -> str:
    """Return an array's visibility, where it was a total by what became of that."""
    # An earlier version wrote totals that the silos alone open as "summed".
    if line.visibility not in ("summed", "veiled"):
        return line.visibility
    masked = facts.protection == "masked"
    if line.direction == "in":
        if "." not in line.name:
            return "total"
        # Evidence: the parts that the coordinator had opened when they left.
        return "masked parts" if masked else "parts in clear"
    if not masked:
        return "in clear"
    return line.visibility if whole(facts, line) else "incomplete"


def _kept(facts: Facts, line: Release) -> str:
    """Return how long an array stays in the silo, and where it was used."""
    declared = declaration(line.step, line.name)
    text = "Kept in the silo until the study ends, unless it is deleted there before."
    if declared is not None and declared.until == "fit":
        text = "Kept in the silo and deleted at the end of the fit."
    later = [
        x
        for x in facts.lines("out")
        if x.study == line.study
        and x.round > line.round
        and (x.name, x.shape) == (line.name, line.shape)
        and x.step.rpartition(".")[0] == line.step.rpartition(".")[0]
    ]
    if not later:
        return text
    first = min(later, key=lambda x: x.round)
    shown = [x for x in later if x.visibility in _SHOWN]
    if facts.protection != "masked":
        return f"{text} It was sent in round {first.round}."
    if shown:
        to = "the coordinator" if shown[0].visibility == "disclosed" else "neighbours"
        return f"{text} It was sent to {to} as it is, in round {shown[0].round}."
    return f"{text} Only its total over all silos was opened, in round {first.round}."


def _chapters(facts: Facts, lines: Iterable[Release]) -> list[Chapter]:
    # The arrays of a transform are sent in the round of the next model's step, which
    # needs them: a round belongs to the step that its last line names.
    steps = {(line.study, line.round): line.step for line in facts.ledger}
    subjects = {step: subject_of_step(step) for step in set(steps.values())}
    chapters = []
    for title, group in groupby(
        lines, key=lambda line: subjects[steps[line.study, line.round]]
    ):
        passages = [_passage(facts, rounds) for rounds in equal_rounds(group)]
        chapters.append(Chapter(title, passages))
    return chapters


def _passage(facts: Facts, rounds: Sequence[Round]) -> Passage:
    label = rounds_label([lines[0].round for lines in rounds])
    # The folds of a cross-validation send the same arrays in the same round.
    folds = Counter(sentence(facts, line, len(rounds)) for line in rounds[0])
    sentences = [
        one if n == 1 else replace(one, text=f"{n} times: {one.text}")
        for one, n in folds.items()
    ]
    return Passage(label, sentences)


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

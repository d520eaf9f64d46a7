"""Whether data of single people left a silo: one sentence, and no more than is so."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

from unpooled.ledger import Release
from unpooled.report.facts import Facts, declaration
from unpooled.report.text.what_follows import only_large_totals, paired_columns
from unpooled.report.text.wording import (
    meaning,
    per_person,
    shown_as_they_are,
)
from unpooled.results.formats import listed


@final
@dataclass(frozen=True)
class Answer:
    """The answer to "did personal data leave a silo?".

    Attributes
    ----------
    short : str
        The answer in a few words.
    text : str
        What left, and who could open it.
    exposed : bool
        Whether arrays with entries for single people, or values of single silos, left.
    """

    short: str
    text: str
    exposed: bool = False


def people_answer(facts: Facts) -> Answer:
    """Return whether data of single people left a silo, by the ledger's lines.

    What counts is what the steps declare: an array with an axis over people has entries
    for single people, whoever could open it.
    """
    out = facts.lines("out")
    if not out:
        return Answer("No person’s data left a silo.", "No numbers left a silo at all.")
    m = len(facts.parties)
    unknown = sorted({x.step for x in out if declaration(x.step, x.name) is None})
    caveat = ""
    if unknown:
        caveat = f" This program does not know what {listed(unknown)} releases."
    if about_people := [line for line in out if per_person(line)]:
        return Answer(
            "Numbers about single people left a silo.",
            f"{_who_could_open(facts, about_people)} Records of people can often be "
            f"reconstructed from such arrays.{caveat}",
            True,
        )
    none = "No array with entries for single people left a silo."
    if facts.protection != "masked":
        return Answer(
            none,
            f"Sums, counts and products over each silo’s own rows did, in clear: the "
            f"coordinator could read each silo’s own.{caveat}",
            True,
        )
    if shown_as_they_are(facts):
        shown = [x for x in out if x.visibility in ("disclosed", "exchanged")]
        return Answer(
            none,
            f"Results of single silos were disclosed as they are: {_phrases(shown)}. "
            f"All else was masked, as part of a total over all silos.{caveat}",
            True,
        )
    if unknown:
        return Answer("What left a silo is not fully known.", caveat.strip(), True)
    if not only_large_totals(facts):
        return Answer(
            none,
            f"All that left was masked, as part of a total over all {m} silos. But so "
            f"few rows are behind the totals that rows can be reconstructed from them.",
            True,
        )
    if facts.n_rows is None and facts.rows_at_least <= paired_columns(facts) > 0:
        return Answer(
            none,
            f"All that left was masked, as part of a total over all {m} silos. How "
            f"many rows are behind the totals is not known here: from totals over "
            f"fewer rows than columns, rows can be reconstructed.",
            True,
        )
    shares = ""
    if any(x.visibility == "compared" for x in out):
        shares = ", and shares of secret comparisons of such totals"
    if any(x.visibility == "computed" for x in out):
        shares += ", and shares of a total of which only results were opened"
    return Answer(
        "No person’s data left a silo.",
        f"All that left were masked parts of totals over all {m} silos{shares}; no "
        f"array had an entry for a single person.",
    )


def _who_could_open(facts: Facts, lines: Sequence[Release]) -> str:
    """Return which arrays about people left, by who could open them."""
    masked = facts.protection == "masked"
    ways: list[tuple[str, Callable[[Release], bool]]] = [
        (
            "Sent in clear",
            lambda x: not masked and x.visibility in ("summed", "veiled"),
        ),
        ("Disclosed to the coordinator as they are", _is("disclosed")),
        ("Sent to neighbouring silos as they are", _is("exchanged")),
        (
            "Opened by the coordinator, as totals over all silos only",
            lambda x: masked and x.visibility == "summed",
        ),
        (
            "Opened by the silos, as totals over all of them only",
            lambda x: masked and x.visibility == "veiled",
        ),
        ("Compared in secret, and never opened", _is("compared")),
        ("Computed together in secret, and opened to all", _is("computed")),
    ]
    found = []
    for way, chosen in ways:
        if some := [line for line in lines if chosen(line)]:
            found.append(f"{way}: {_phrases(some)}.")
    return " ".join(found)


def _is(visibility: str) -> Callable[[Release], bool]:
    return lambda line: line.visibility == visibility


def _phrases(lines: Sequence[Release]) -> str:
    return "; ".join(dict.fromkeys(meaning(line) for line in lines))

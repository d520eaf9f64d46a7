"""The methods of a study as a paragraph to paste into a paper, with its references."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

from unpooled.models.files.model_file import library_version
from unpooled.models.model_selection import jackknife_results
from unpooled.report.facts import SIMULATED, Facts
from unpooled.report.versions import versions
from unpooled.results.citations import citation_of
from unpooled.results.formats import counted, listed

_MASKED_SUMS = (
    "Bonawitz K, Ivanov V, Kreuter B, et al. Practical secure aggregation for "
    "privacy-preserving machine learning. ACM CCS 2017: 1175-1191."
)
_PROGRAMS = ("Python", "numpy", "scipy", "scikit-learn")


@final
@dataclass(frozen=True)
class Methods:
    """A paragraph with numbers of references in brackets, and the references."""

    paragraph: str
    references: tuple[str, ...]

    def __str__(self) -> str:
        """Return both as text, to paste."""
        listed = [f"{n}. {work}" for n, work in enumerate(self.references, 1)]
        return "\n".join([self.paragraph, "", "References", "", *listed]) + "\n"


def methods(facts: Facts) -> Methods:
    """Return the methods section, in the past tense, model by model."""
    works: dict[str, int] = {}

    def cited(*references: str) -> str:
        numbers = [works.setdefault(work, len(works) + 1) for work in references]
        return f" [{', '.join(map(str, numbers))}]" if numbers else ""

    programs = versions()
    sentences = [_who(facts)]
    for _, model in facts.models:
        one = citation_of(model)
        sentences.append(f"{one.sentence.rstrip('.')}{cited(*one.references)}.")
    if facts.evaluation is not None:
        # The exhibits between these two describe the results.
        first, last = facts.evaluation.exhibits[0], facts.evaluation.exhibits[-1]
        if first.heading != jackknife_results.HEADING:
            sentences.append(first.text)
        if last.heading == jackknife_results.HEADING:
            work = cited(jackknife_results.WORK)
            sentences.append(f"{last.text.rstrip('.')}{work}.")
    sentences.append(_how(facts, cited))
    if agreement := _agreement(facts):
        sentences.append(agreement)
    others = [f"{name} {programs[name]}" for name in _PROGRAMS]
    sentences.append(
        f"Computations used unpooled {library_version()} with {listed(others)}."
    )
    return Methods(" ".join(sentences), tuple(works))


def _who(facts: Facts) -> str:
    N, p, m = facts.n_rows, len(facts.feature_names), len(facts.parties)
    rows = f"{counted(N, 'row')} with " if N else ""
    how = (
        "the same columns of different rows"
        if facts.partition == "rows"
        else "different columns of the same rows"
    )
    pooled = "were analysed without being pooled"
    if SIMULATED in facts.notes:
        pooled += ", in a simulation in one process"
    return (
        f"Data of {counted(m, 'organisation')} ({rows}{counted(p, 'column')} in all; "
        f"each organisation holds {how}) {pooled}."
    )


def _how(facts: Facts, cited: Callable[..., str]) -> str:
    kinds = {line.visibility for line in facts.lines("out")}
    if not kinds:
        return "No numbers left an organisation."
    if facts.protection != "masked":
        return "Totals over all organisations were added without encryption."
    parts = []
    if kinds & {"summed", "veiled"}:
        parts.append(
            "the organisations’ contributions to totals were added under pairwise "
            "masks, so that only totals over all organisations could be "
            f"opened{cited(_MASKED_SUMS)}"
        )
    if "compared" in kinds:
        parts.append("signs of totals were found by secure multi-party computation")
    if "computed" in kinds:
        parts.append(
            "results of a total that stayed in secret sharing were found by secure "
            "multi-party computation"
        )
    if kinds & {"disclosed", "exchanged"}:
        parts.append("some results of single organisations were disclosed as they are")
    text = "; ".join(parts)
    return f"{text[:1].upper()}{text[1:]}."


def _agreement(facts: Facts) -> str:
    cited = [(type(model).__name__, citation_of(model)) for _, model in facts.models]
    if not cited:
        return ""
    apart = listed(dict.fromkeys(o.apart_from for _, o in cited if o.apart_from))
    names = [name for name, one in cited if not one.exact]
    if not names:
        but = f", apart from {apart}" if apart else ""
        return f"Estimates equal those of pooled data, up to rounding error{but}."
    also = f", and so may {apart}" if apart else ""
    return (
        f"Estimates of {listed(names)} may differ from those of an exact analysis of "
        f"pooled data{also}."
    )

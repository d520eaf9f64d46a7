"""Differences between silos that the ranges declared in a study reveal.

[parties.a]  plausible = { Height = [100, 230] }
[parties.b]  plausible = { Height = [1.0, 2.3] }    the plan: run Heterogeneity

Totals over all silos do not tell that one of them measures in other units, and a silo
that compared its mean with the others' would reveal it. Ranges are declared: each
silo checks its own cells by its own range before it answers anything, so that cells of
two ranges that do not overlap differ throughout, and the study's text alone says so.
"""

from collections.abc import Sequence
from itertools import combinations
from typing import Any

from unpooled.results.formats import listed, plain_number
from unpooled.study.study_file import StudyFile, StudyStep

_HETEROGENEITY = "Heterogeneity"


def notes_on_ranges(study: StudyFile, steps: Sequence[StudyStep]) -> tuple[str, ...]:
    """Return a sentence for each column whose declared ranges do not all overlap.

    Parameters
    ----------
    study : StudyFile
        With the ranges of its silos, where it declares some.
    steps : sequence of StudyStep
        The steps that are planned.
    """
    ranges: dict[str, dict[str, Any]] = {}
    for silo, party in study.parties.items():
        for column, limits in party.plausible.items():
            ranges.setdefault(column, {})[silo] = limits
    tested = any(step.model == _HETEROGENEITY for step in steps)
    return tuple(
        f"{column} differs between silos more than chance explains: the ranges that "
        f"are declared plausible do not overlap ({_listed(of_silos)}). Convert it to "
        f"one unit{'' if tested else f', or run {_HETEROGENEITY}'}."
        for column, of_silos in ranges.items()
        if any(_apart(*pair) for pair in combinations(of_silos.values(), 2))
    )


def _apart(one: Sequence[float], other: Sequence[float]) -> bool:
    return one[1] < other[0] or other[1] < one[0]


def _listed(of_silos: dict[str, Any]) -> str:
    return listed(
        [
            f"{silo}: {plain_number(low)} to {plain_number(high)}"
            for silo, (low, high) in of_silos.items()
        ]
    )

"""What could be learned from all that left, and what could not."""

from collections import Counter
from typing import Any

from unpooled.report.facts import Facts, subject_of_step
from unpooled.report.text.phrases import counted
from unpooled.report.text.wording import (
    meaning,
    pairs_columns,
    per_person,
    shown_as_they_are,
    veiled,
)


def could_learn(facts: Facts) -> list[str]:
    """Return what the coordinator, or silos together with it, could find out."""
    m, N = len(facts.parties), facts.n_rows
    plain = facts.protection != "masked"
    found = [
        "Every number listed above under what left, silo by silo, because nothing was "
        "masked."
        if plain
        else f"The totals listed above{_but_for(facts)} and everything that follows "
        f"from them by calculation. The results below are such calculations."
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
    if hidden := veiled(facts):
        what = "; ".join(sorted({meaning(x) for x in hidden}))
        found.append(
            f"The totals that the silos alone opened: {what}. It carried them as "
            f"noise; a silo that works with it could tell it."
        )
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
    p = max([x.shape[0] for x in lines if pairs_columns(x)], default=0)
    return N is None or N > max(p, len(facts.parties))


def _repeated(facts: Facts) -> list[str]:
    hidden = {(x.study, x.round, x.step) for x in veiled(facts)}
    rounds = {(x.study, x.round, x.step) for x in facts.lines("out")} - hidden
    counts = Counter(step for _, _, step in rounds)
    return [
        f"{subject_of_step(step)}, {step}: {counted(n, 'time')}"
        for step, n in sorted(counts.items())
        if n > 1
    ]


def _but_for(facts: Facts) -> str:
    return ", but for those that the silos alone opened," if veiled(facts) else ""

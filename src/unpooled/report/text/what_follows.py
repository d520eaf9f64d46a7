"""Conclusions that the arrays which left allow, and those that they do not."""

from collections import Counter
from typing import Any

from unpooled.protocol.privacy_cost import spent
from unpooled.report.facts import Facts, subject_of_step
from unpooled.report.text.wording import (
    meaning,
    pairs_columns,
    per_person,
    shown_as_they_are,
    veiled,
)
from unpooled.results.formats import counted, listed
from unpooled.secure.sums.mask_graph import PEERS


def could_learn(facts: Facts) -> list[str]:
    """Return sentences on what the coordinator could learn, alone or with silos."""
    m, N = len(facts.parties), facts.n_rows
    plain = facts.protection != "masked"
    found = [
        "Every number listed above under what left, silo by silo, because nothing was "
        "masked."
        if plain
        else f"The totals listed above{_except_veiled(facts)} and everything that can "
        f"be computed from them, such as the results."
    ]
    if N is not None and not plain:
        size = f"The total sample size: {N:,} rows"
        if facts.partition == "columns":
            size = f"How many people all silos have in common: {N:,}"
        elif not shown_as_they_are(facts):
            size += "; not how many of them any one silo has"
        found.append(f"{size}.")
    found.append(
        "The names of silos and columns, when each silo answered, and how long its "
        "messages were."
    )
    if m > 1 and not plain:
        found.append(_collusion(m))
    if repeated := _repeated(facts):
        found.append(
            f"Differences between totals of the same kind that were released more than "
            f"once. Such a difference is itself a total over all {m} silos, of the "
            f"rows or columns in which the two differ. These totals are "
            f"{'; '.join(repeated)}."
        )
    if not any(getattr(model, "privacy", None) for _, model in facts.models):
        found.append(
            "What an exact total reveals by itself: a count of 1 is one person, and "
            "the value of a column that never varies is known for everyone. No random "
            "noise was added."
        )
    found += [_promise(m) for _, m in facts.models if getattr(m, "privacy_", None)]
    if (cost := spent(facts.ledger)) is not None:
        found.append(str(cost))
    if any(x.step.endswith(".local_moments") for x in facts.ledger):
        found.append(
            "How totals changed with an update. The difference is a total over the "
            "rows that changed, and for a silo that joined or left over its own rows."
        )
    return found


# The effect on variances of clipping to lengths that were found, by mechanism.
_CUT = {
    "power": "variances are too small by what was cut off.",
    "preconditioned": "variances are too small by what was cut off, or where most rows "
    "were cut scaled to their mean square length.",
}


def _promise(model: Any) -> str:
    privacy = model.privacy_
    # A model of an earlier version has no mechanism: there was one.
    cut = _CUT.get(privacy.get("mechanism", ""), "")
    clipped = (
        f" Rows were then clipped about their noisy mean, to lengths that were found "
        f"from totals with noise; {cut}"
        if cut
        else ""
    )
    return (
        f"Little about any one row: random noise was added to the totals of "
        f"{type(model).__name__}, which are differentially private with ε = "
        f"{privacy['epsilon']:g} and δ = {privacy['delta']:g} (ρ = "
        f"{privacy['rho']:.3g}). The guarantee is for data that differ in "
        f"{privacy['neighbours']}, as long as at least one silo keeps its noise "
        f"secret. Rows were clipped to the public norm {privacy['row_norm']:g} before."
        f"{clipped}"
    )


def _collusion(m: int) -> str:
    text = "Anyone who knows a total can subtract the values they know. "
    if m == 2:
        return (
            f"{text}A silo that receives it learns the other’s value, and so does a "
            f"coordinator that colludes with one of the two."
        )
    text += f"A silo that receives it learns the total over the other {m - 1}; "
    if m > 3:
        text += f"two silos together learn the total over the other {m - 2}; "
    return text + (
        f"the value of a single silo is learned only if {_all_others(m)} collude. A "
        f"coordinator that colludes with some silos learns no more than they do."
    )


def _all_others(m: int) -> str:
    if m - 1 <= PEERS:
        return f"the other {m - 1}"
    return f"the {PEERS} with which it shares masks, chosen at random, all"


def could_not_learn(facts: Facts) -> list[str]:
    """Return sentences on what nobody could learn, as they hold for this study."""
    m, found = len(facts.parties), []
    if only_large_totals(facts):
        found.append("Any row, that is, the values of any one person or record.")
    shown = shown_as_they_are(facts)
    if hidden := veiled(facts):
        what = "; ".join(sorted({meaning(x) for x in hidden}))
        found.append(
            f"The totals that the silos alone opened: {what}. The coordinator "
            f"forwarded them as noise; a silo that colludes with it could pass them on."
        )
    if facts.protection == "masked":
        found.append(
            f"{'Otherwise, any' if shown else 'Any'} one silo’s own counts, sums or "
            f"products. What a silo sends is masked by random numbers that it shares "
            f"with each other silo; by itself it cannot be distinguished from random "
            f"numbers. The masks cancel only when the parts of all {m} silos are added."
        )
        found.append(
            "A total over some of the silos only. If one had been missing, the round "
            "would have stopped and nothing would have been opened."
        )
    return found


def only_large_totals(facts: Facts) -> bool:
    """Return whether totals are over enough rows to promise that no row is known.

    The values of a silo with a single row are that row, so the promise needs totals
    over all silos, and more rows than columns behind a total over pairs of columns.
    """
    lines, N = facts.lines("out"), facts.n_rows
    exposed = facts.protection != "masked" or shown_as_they_are(facts)
    if exposed or any(per_person(x) for x in lines):
        return False
    p = paired_columns(facts)
    return N is None or N > max(p, len(facts.parties))


def paired_columns(facts: Facts) -> int:
    """Return the most columns of which a total over all pairs left."""
    paired = [x.shape[0] for x in facts.lines("out") if pairs_columns(x)]
    return max(paired, default=0)


def _repeated(facts: Facts) -> list[str]:
    hidden = {(x.study, x.round, x.step) for x in veiled(facts)}
    rounds = {(x.study, x.round, x.step) for x in facts.lines("out")} - hidden
    # In a study with folds there are many steps: those of one model share a sentence.
    together: dict[str, list[str]] = {}
    for step, n in sorted(Counter(step for _, _, step in rounds).items()):
        if n > 1:
            own = together.setdefault(subject_of_step(step), [])
            own.append(f"{step} ({counted(n, 'time')})")
    return [f"of “{about}” {listed(own)}" for about, own in together.items()]


def _except_veiled(facts: Facts) -> str:
    return ", except those that the silos alone opened," if veiled(facts) else ""

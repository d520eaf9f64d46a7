"""Warnings, which the report prints before anything else."""

from dataclasses import dataclass
from itertools import groupby
from typing import final

import numpy as np

from unpooled.errors import StudyError
from unpooled.ledger import Release
from unpooled.ledger.rounds import rounds_label
from unpooled.models.preprocessing.imputer import SimpleImputer
from unpooled.models.preprocessing.iterative_imputer import IterativeImputer
from unpooled.models.preprocessing.preprocessing_results import (
    MOST_FILLED,
    filling_name,
    much_filled,
)
from unpooled.report.facts import Facts, declaration
from unpooled.report.text.policies import DEFAULTS, DESCRIPTIONS, loosened, value_text
from unpooled.report.text.wording import (
    meaning,
    pairs_columns,
    per_person,
)
from unpooled.results.formats import listed

# Above this share of its variance between silos, the report warns of a column.
_MOSTLY_BETWEEN = 0.5
# Below this many rows per silo, on average, the report warns of few rows.
_FEW_ROWS = 30
# Below this many rows per column, it warns of a total over pairs of columns.
_FEW_ROWS_PER_COLUMN = 3


@final
@dataclass(frozen=True)
class Caution:
    """A warning; serious where anyone saw, or can compute, a silo’s own values."""

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
        *_about_single_rows(facts),
        *_about_filled_cells(facts),
        *_about_units(facts),
        *_about_rules(facts),
    ]
    return sorted(found, key=lambda caution: not caution.serious)


def _about_the_ledger(facts: Facts) -> list[Caution]:
    found = []
    try:
        facts.ledger.verify()
    except StudyError as wrong:
        text = f"{wrong} The statements below about what left cannot be relied on."
        found.append(Caution("The ledger is not consistent", text, True))
    unknown = {x.step for x in facts.ledger if declaration(x.step, x.name) is None}
    arguments = {x.step for x in facts.lines("in")}
    if strange := sorted(unknown - arguments):
        text = (
            f"The program that wrote this report does not have {listed(strange)} "
            f"installed, so it cannot say what these arrays mean."
        )
        found.append(Caution("Some steps are unknown to this program", text))
    return found


def _about_protection(facts: Facts) -> list[Caution]:
    m = len(facts.parties)
    found = []
    if facts.protection != "masked":
        text = (
            'Totals were added in clear (secure_sum="plain"), which is meant for '
            "tests. The coordinator received each silo’s own values, not only totals."
        )
        found.append(Caution("Totals were not protected", text, True))
    if m == 1:
        text = "A total over one silo is that silo’s own value."
        found.append(Caution("Only one silo took part", text, True))
    elif m == 2:
        text = (
            "Each of two silos can compute the other’s value from a total, by "
            "subtracting its own. Masks protect the two from everyone else, but not "
            "from each other."
        )
        found.append(Caution("Only two silos took part", text, True))
    elif m == 3:
        text = (
            "Two of the three silos, if they combine their own values, can subtract "
            "them from any total that they receive, which leaves the value of the "
            "third."
        )
        found.append(Caution("Only three silos took part", text))
    return found


def _about_single_silos(facts: Facts) -> list[Caution]:
    found, seen = [], []
    for visibility, observer in (
        ("disclosed", "The coordinator saw"),
        ("exchanged", "Neighbouring silos saw"),
    ):
        if shown := _meanings(
            [x for x in facts.lines("out") if x.visibility == visibility]
        ):
            what = "; ".join(shown)
            seen.append(f"{observer}, silo by silo and not only as a total: {what}.")
    if seen:
        text = " ".join(seen)
        found.append(Caution("Some values were disclosed as they are", text, True))
    if people := _meanings([x for x in facts.lines("out") if per_person(x)]):
        text = (
            f"These arrays have entries for single people: {'; '.join(people)}. "
            f"Records of people can often be reconstructed from such arrays."
        )
        found.append(Caution("Values of single people left a silo", text, True))
    return found


def _about_refusals(facts: Facts) -> list[Caution]:
    opened = facts.protection == "masked"
    after = (
        "What the others sent stayed masked and was not opened."
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
        nobody = len(absent) == len(facts.parties)
        effect = (
            "no silo released anything"
            if nobody
            else f"{listed(absent)} released nothing"
        )
        text = (
            f"Round {record.round} ({record.step}) was refused or broke off: {effect}. "
            f"{'' if nobody else after}"
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
            f"than {N // m:,}. The fewer rows a total is computed from, the more it "
            f"reveals about each of them."
        )
        found.append(Caution("Few rows", text))
    p = max([x.shape[0] for x in facts.lines("out") if pairs_columns(x)], default=0)
    if N < _FEW_ROWS_PER_COLUMN * p:
        text = (
            f"A total over all pairs of {p:,} columns (such as a cross-product matrix) "
            f"was opened, computed from {N:,} rows in all. With so few rows for the "
            f"number of columns, such a total reveals much about single rows."
        )
        found.append(Caution("Many columns for few rows", text, N <= p))
    return found


def _about_single_rows(facts: Facts) -> list[Caution]:
    """Warn of rows of large leverage, as far as the silos tell of them."""
    where = [f"{silo}: {listed(names[:10])}" for silo, names in facts.carried.items()]
    if not where:
        return []
    text = (
        f"One row carries half or more of a direction of these columns, so that "
        f"covariances with them tell much about that person: {'; '.join(where)}. "
        f"RareColumns leaves out columns in which few people differ from all others."
    )
    return [Caution("One person stands out in some columns", text)]


def _about_filled_cells(facts: Facts) -> list[Caution]:
    models, found = [model for _, model in facts.models], []
    for place, model in enumerate(models):
        if isinstance(model, IterativeImputer):
            found += _about_predicted_cells(facts, model)
        if not isinstance(model, SimpleImputer):
            continue
        names = vars(model).get("feature_names_in_", facts.feature_names)
        much = much_filled(model, [str(name) for name in names], models[place + 1 :])
        if much:
            value = filling_name(model.strategy)
            shown = listed(much[:10]) + (" and others" if len(much) > 10 else "")
            text = (
                f"More than a third of {shown} was missing and was filled with the "
                f"{value}. Filled cells lie at the {value}: standard "
                f"deviations, covariances and all that is computed from them are too "
                f"small for such a column."
            )
            found.append(Caution("Much of a column was filled in", text))
    return found


def _about_predicted_cells(facts: Facts, model: IterativeImputer) -> list[Caution]:
    names = vars(model).get("feature_names_in_", facts.feature_names)
    share = 1.0 - model.n_observed_ / max(model.n_samples_, 1)
    much = [str(name) for name, s in zip(names, share, strict=True) if s > MOST_FILLED]
    if not much:
        return []
    shown = listed(much[:10]) + (" and others" if len(much) > 10 else "")
    text = (
        f"More than a third of {shown} was missing and was predicted from the other "
        f"columns, or filled with the mean. Predicted cells lie on the regression: "
        f"standard deviations of such a column are too small, and its correlations "
        f"with the columns that predict it too large."
    )
    return [Caution("Much of a column was predicted", text)]


def _about_units(facts: Facts) -> list[Caution]:
    """Warn of columns of which silos differ more than people do.

    Only `Heterogeneity` opens totals that show this: pooled means and variances are the
    same whether silos differ or people do.
    """
    found = []
    for _, model in facts.models:
        # Not `getattr`: it would request what the silos keep.
        shares = np.nan_to_num(vars(model).get("eta_squared_", ()))
        names = vars(model).get("feature_names_in_", facts.feature_names)
        apart = {
            str(name): share
            for name, share in zip(names, shares, strict=False)
            if share > _MOSTLY_BETWEEN
        }
        if apart:
            each = [f"{name} ({share:.0%})" for name, share in apart.items()]
            text = (
                f"Of these columns most of the variance lies between the silos and "
                f"not between people: {listed(each)}. Silos may have them in other "
                f"units, or write other codes for missing cells: compare them, and let "
                f"each silo declare a plausible range."
            )
            found.append(Caution("Silos may measure in other units", text))
    return found


def _about_rules(facts: Facts) -> list[Caution]:
    m, by_rules = len(facts.parties), dict[str, list[str]]()
    for silo, policy in (facts.policies or {}).items():
        if keys := loosened(policy):
            loose = [
                f"{_as_phrase(key)} ({value_text(key, policy[key])}, by default "
                f"{value_text(key, DEFAULTS[key])})"
                for key in keys
            ]
            by_rules.setdefault("; ".join(loose), []).append(silo)
    return [
        Caution(
            "Rules looser than the library’s defaults",
            f"{listed(silos) if len(by_rules) > 1 or len(silos) < m else 'Every silo'} "
            f"allowed more than the defaults: {rules}.",
        )
        for rules, silos in by_rules.items()
    ]


def _as_phrase(key: str) -> str:
    text = DESCRIPTIONS[key].rstrip("?")
    return text[:1].lower() + text[1:]


def _meanings(lines: list[Release]) -> list[str]:
    """Return the meanings of the arrays of these lines, each with its rounds."""
    pairs = sorted({(meaning(line), line.round) for line in lines})
    return [
        f"{phrase} ({rounds_label([number for _, number in group]).lower()})"
        for phrase, group in groupby(pairs, key=lambda pair: pair[0])
    ]

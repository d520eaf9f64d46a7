"""The silos' policies in plain words, and which rules are looser than the defaults."""

import dataclasses
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from unpooled.party.rules.policy import Policy
from unpooled.results.exhibits import Column, ResultTable
from unpooled.results.formats import plain_number

if TYPE_CHECKING:
    from unpooled.report.facts import Facts

DESCRIPTIONS: Mapping[str, str] = {
    "min_parties": "Fewest silos in a study",
    "min_rows": "Fewest rows behind any array that leaves",
    "min_rows_per_class": "Fewest rows of a class, in totals by class",
    "min_own_cells": "Fewest values in a column, or rows of a class, if there are any",
    "max_feature_ratio": "Most columns per row, in totals over pairs of columns",
    "max_released_share": "Most numbers opened about a column, as a share of its cells",
    "max_leverage": "Largest leverage of one row, in totals over pairs of columns",
    "allow_disclosed": "May the silo’s own values be seen, not only totals?",
    "allow_row_level": "May arrays with entries for single people leave?",
    "allow_order_statistics": "May a quantile be a single person’s value?",
    "allow_roster_change": "May totals be released again with other silos?",
    "roster_period_days": "Days until totals may be released with other silos",
    "min_changed_rows": "Fewest rows that must differ before totals are released again",
    "max_refusals": "Most refusals in a period that depend on the rows",
    "refusal_period_days": "Days of that period",
    "require_privacy": "Must random noise be added to what leaves?",
    "privacy_budget": "Privacy budget: total ε of all differentially private releases",
    "privacy_delta": "δ at which the privacy budget is counted",
    "allowed_steps": "Which steps may run",
    "allowed_columns": "Which columns may be read",
}
DEFAULTS = Policy().as_dict()


def rules_table(facts: "Facts") -> ResultTable | None:
    """Return every rule with its value, by silo where the policies differ."""
    if not facts.policies:
        return None
    silos = list(facts.policies)
    keys = [field.name for field in dataclasses.fields(Policy)]
    same = all(facts.policies[silo] == facts.policies[silos[0]] for silo in silos)
    shown = silos[:1] if same else silos
    head = ("Rule", "Every silo") if same else ("Rule", *silos)
    rows = []
    for key in keys:
        values = [value_text(key, facts.policies[silo].get(key)) for silo in shown]
        rows.append((DESCRIPTIONS.get(key, key), *values))
    return ResultTable(
        "rules",
        [Column(one, "setting") for one in head],
        rows,
        "The silos’ own rules (policies), which nobody else can change.",
        most=None,
    )


def value_text(key: str, value: Any) -> str:
    """Return the value of a rule as text."""
    if value is None:
        return {
            "allowed_steps": "those of this library",
            "allowed_columns": "all",
            "roster_period_days": "never",
        }.get(key, "unknown")
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return "no limit" if math.isinf(value) else plain_number(value)
    if isinstance(value, str):
        return "to silos only" if value == "parties" else value
    names = [str(name) for name in value]
    return "all" if "*" in names else ", ".join(names) or "none"


def loosened(policy: Mapping[str, Any]) -> list[str]:
    """Return the rules of a policy that allow more than the library's defaults."""
    found = []
    for key, default in DEFAULTS.items():
        value = policy.get(key, default)
        if key == "roster_period_days":
            looser = value is not None
        elif key.startswith("min_") or key == "require_privacy":
            looser = value < default
        elif key.startswith(("max_", "allow_", "privacy_")):
            yes_or_no = isinstance(default, bool)
            looser = value is not default if yes_or_no else value > default
        else:
            # A wildcard also admits transforms that no study fitted.
            looser = key == "allowed_steps" and "*" in (value or ())
        if looser:
            found.append(key)
    return found

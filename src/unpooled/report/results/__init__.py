"""Results of the fitted models: one file for each family of models.

The files are named as the folders of `unpooled.models`, and one is imported when the
report has a model of that family. See `unpooled.report.results.describe`.
"""

import importlib
import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

from unpooled.report.exhibits import Exhibit
from unpooled.report.facts import Facts, subject
from unpooled.report.results.describe import describe

_MODELS = "unpooled.models."


@final
@dataclass(frozen=True)
class Result:
    """The exhibits of one model under its name and title."""

    name: str
    title: str
    exhibits: list[Exhibit]


def results(facts: Facts) -> list[Result]:
    """Return the exhibits of every model."""
    found = []
    for name, model in facts.models:
        what = subject(model)
        title = f"{type(model).__name__}: {what[:1].lower()}{what[1:]}"
        found.append(Result(name, title, exhibits_of(model, columns_of(facts, model))))
    return found


def exhibits_of(model: Any, columns: Sequence[str]) -> list[Exhibit]:
    """Return the exhibits of a fitted model; `columns` are those it was fitted on."""
    for base in type(model).__mro__:
        if base.__module__.startswith(_MODELS):
            family = base.__module__.removeprefix(_MODELS).partition(".")[0]
            # Imported when needed: a report of one model loads one family.
            if importlib.util.find_spec(f"{__name__}.{family}") is not None:
                importlib.import_module(f"{__name__}.{family}")
    return describe(model, columns)


def columns_of(facts: Facts, model: Any) -> list[str]:
    """Return names for the columns that a model was fitted on."""
    names = getattr(model, "feature_names_in_", None)
    p = getattr(model, "n_features_in_", len(facts.feature_names))
    if names is None and len(facts.feature_names) == p:
        names = facts.feature_names
    return [str(x) for x in (range(p) if names is None else names)]

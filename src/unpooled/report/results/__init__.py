"""What the fitted models say: tables, each under its picture where there is one."""

from dataclasses import dataclass, field
from typing import Any, final

import numpy as np

from unpooled.models.base import fitted_names
from unpooled.report.exhibit import Exhibit
from unpooled.report.exhibits import Table, number
from unpooled.report.facts import Facts, subject
from unpooled.report.results import pca as components
from unpooled.report.results.heterogeneity import site_effects
from unpooled.report.results.kernel_pca import spectrum
from unpooled.report.results.mmvfl import selection
from unpooled.report.results.preprocessing import by_column
from unpooled.report.results.two_views import canonical, discriminants, generalised

# Told elsewhere in the report, or of no use to its reader.
_SAID = ("kept_", "n_features_in_", "feature_names_in_", "n_samples_")


@final
@dataclass(frozen=True)
class Result:
    """What one model found."""

    name: str
    title: str
    exhibits: list[Exhibit] = field(default_factory=list)


def results(facts: Facts) -> list[Result]:
    """Return the exhibits of every model."""
    return [
        Result(
            name,
            f"{type(model).__name__}: {_lower(subject(model))}",
            _of(facts, model, i),
        )
        for i, (name, model) in enumerate(facts.models)
    ]


def _of(facts: Facts, model: Any, index: int) -> list[Exhibit]:
    columns = columns_of(facts, model)
    # Not `hasattr`: what silos keep of a model is asked for, not looked up.
    shown: list[Exhibit] = []
    if "explained_variance_" in vars(model):
        shown.append(components.variance(model, f"scree-{index}"))
    if {"scalings_", "means_"} <= set(vars(model)):
        shown += discriminants(model, f"classes-{index}")
    if {"eta_squared_", "spread_p_value_"} <= set(vars(model)):
        shown += site_effects(model, f"sites-{index}")
    if "gamma_" in vars(model) and len(model.eigenvalues_):
        shown.append(spectrum(model, f"kernel-{index}"))
    if {"canonical_correlations_", "score_correlations_"} & set(vars(model)):
        shown += canonical(model, f"canonical-{index}")
    elif {"eigenvalues_", "criterion"} <= set(vars(model)):
        shown.append(generalised(model))
    if hasattr(model, "signal_to_noise_"):
        shown.append(components.signal(model))
    if {"objective_", "classes_"} <= set(vars(model)):
        shown += selection(model, columns, f"selection-{index}")
    if "components_" in vars(model):
        shown += components.loadings(model.components_, columns, f"loadings-{index}")
    if exhibit := by_column(model, columns):
        shown.append(exhibit)
    return shown or [_attributes(model)]


def columns_of(facts: Facts, model: Any) -> list[str]:
    """Return names for the columns that a model was fitted on."""
    names = getattr(model, "feature_names_in_", None)
    p = getattr(model, "n_features_in_", len(facts.feature_names))
    if names is None and len(facts.feature_names) == p:
        names = facts.feature_names
    return [str(x) for x in (range(p) if names is None else names)]


def _attributes(model: Any) -> Exhibit:
    """Return what can be said of a model that the report has no picture for."""
    rows = []
    for name in sorted(fitted_names(model)):
        value = vars(model)[name]
        if name in _SAID:
            continue
        if isinstance(value, bool | int | np.integer):
            rows.append((name, f"{value:,}"))
        elif isinstance(value, float | np.floating):
            rows.append((name, number(float(value))))
        elif isinstance(value, np.ndarray) and value.size == 1:
            rows.append((name, number(float(value.item()))))
        elif isinstance(value, np.ndarray):
            rows.append((name, f"{' × '.join(map(str, value.shape))} numbers"))
    if not rows and "kept_" in vars(model):
        text = (
            "Each silo keeps what it found for its own columns. Nobody asked for it, "
            "so it is not here."
        )
        return Exhibit("Kept in the silos", text, [])
    text = "By the names that the program gives them; tables of numbers by their size."
    return Exhibit("What was fitted", text, [Table("", ("Attribute", "Value"), rows)])


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]

"""What the fitted models say: tables, each under its picture where there is one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np

from unpooled.models.base import fitted_names
from unpooled.report import components
from unpooled.report.directions import canonical, discriminants, generalised
from unpooled.report.exhibits import Exhibit
from unpooled.report.facts import Facts, subject
from unpooled.report.kernels import spectrum
from unpooled.report.site_effects import site_effects
from unpooled.report.tables import Table, number


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
    if "components_" in vars(model):
        shown += components.loadings(model.components_, columns, f"loadings-{index}")
    if exhibit := _by_column(model, columns):
        shown.append(exhibit)
    return shown or [_attributes(model)]


def columns_of(facts: Facts, model: Any) -> list[str]:
    """Return names for the columns that a model was fitted on."""
    names = getattr(model, "feature_names_in_", None)
    p = getattr(model, "n_features_in_", len(facts.feature_names))
    if names is None and len(facts.feature_names) == p:
        names = facts.feature_names
    return [str(x) for x in (range(p) if names is None else names)]


# Fitted attributes with one number per column, as a reader would call them.
_PER_COLUMN: dict[str, str] = {
    "statistics_": "Value filled in",
    "mean_": "Mean",
    "scale_": "Divided by",
    "lambdas_": "Exponent",
}


def _by_column(model: Any, columns: Sequence[str]) -> Exhibit | None:
    found = {
        words: np.asarray(value, dtype=float)
        for name, words in _PER_COLUMN.items()
        if _length(value := vars(model).get(name)) == len(columns)
    }
    count = vars(model).get("n_samples_seen_")
    variance = np.max(vars(model).get("explained_variance_", 0.0))
    if "Mean" in found and np.abs(found["Mean"]).max() <= 1e-9 * np.sqrt(variance):
        # Columns that were standardised before: what is left is rounding.
        del found["Mean"]
    if not found:
        return None
    formats: list[Callable[[float], str]] = [number] * len(found)
    if _length(count) == len(columns):
        found["Cells with a value"] = np.asarray(count, dtype=float)
        formats.append(lambda n: f"{n:,.0f}")
    shown = min(len(columns), components.MANY_COLUMNS)
    rows = [
        (
            columns[j],
            *[write(v[j]) for write, v in zip(formats, found.values(), strict=True)],
        )
        for j in range(shown)
    ]
    note = components.left_out(shown, len(columns), "columns", "first")
    table = Table("", ("Column", *found), rows, note)
    return Exhibit("By column, over all silos together", "", [table])


def _attributes(model: Any) -> Exhibit:
    """Return what can be said of a model that the report has no picture for."""
    rows = []
    for name in sorted(fitted_names(model)):
        value = vars(model)[name]
        if isinstance(value, int | float | np.number):
            rows.append((name, number(float(value))))
        elif isinstance(value, np.ndarray):
            rows.append(
                (name, f"array, {' × '.join(map(str, value.shape)) or 'single'}")
            )
        else:
            rows.append((name, type(value).__name__))
    return Exhibit("Fitted attributes", "", [Table("", ("Attribute", "Value"), rows)])


def _length(value: Any) -> int:
    """Return the length of a vector, and -1 for anything else."""
    return len(value) if isinstance(value, np.ndarray) and value.ndim == 1 else -1


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]

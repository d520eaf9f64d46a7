"""What the fitted models say: tables, each under its picture where there is one."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.report import figures
from unpooled.report.columns import by_column
from unpooled.report.directions import canonical, discriminants, generalised
from unpooled.report.exhibits import Exhibit
from unpooled.report.facts import Facts, subject
from unpooled.report.kernels import spectrum
from unpooled.report.phrases import counted
from unpooled.report.selection import selection
from unpooled.report.site_effects import site_effects
from unpooled.report.tables import (
    Table,
    left_out,
    number,
    per_cent,
    probability,
    signed,
)

MANY_COLUMNS = 30  # beyond this, only the largest loadings of a component are shown
TOP = 15
MANY_COMPONENTS = 6  # panels and columns of loadings
MANY_SHARES = 30  # bars and rows of explained variance
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
        whole = "explained_variance_ratio_" in vars(model)
        shown.append(_variance(model, f"scree-{index}") if whole else _merged(model))
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
        shown.append(_signal(model))
    if {"objective_", "classes_"} <= set(vars(model)):
        shown += selection(model, columns, f"selection-{index}")
    if "components_" in vars(model):
        shown += _loadings(model.components_, columns, f"loadings-{index}")
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


def _variance(model: Any, name: str) -> Exhibit:
    shares = np.asarray(model.explained_variance_ratio_)
    k = min(len(shares), MANY_SHARES)
    together = np.cumsum(shares)
    rows = [
        (f"{i + 1}", number(v), per_cent(s), per_cent(t))
        for i, (v, s, t) in enumerate(
            zip(model.explained_variance_[:k], shares[:k], together[:k], strict=True)
        )
    ]
    table = Table(
        "",
        ("Component", "Variance", "Share", "Together"),
        rows,
        left_out(k, len(shares), "components", "first"),
    )
    text = (
        f"{counted(len(shares), 'component')} together "
        f"{'explains' if len(shares) == 1 else 'explain'} {per_cent(together[-1])} of "
        f"the variance of all columns. Variances are divided by one less than "
        f"the number of rows."
    )
    if hasattr(model, "residuals_"):
        text += (
            f" They were found in {counted(model.n_iter_, 'round')} of products; the "
            f"largest residual is {_of_gap(model)} of the gap to the next variance, "
            f"which bounds the error of their directions."
        )
    picture = figures.scree(
        shares[:k],
        name,
        f"Bars: share of variance of components 1 to {k}, from {per_cent(shares[0])} "
        f"down to {per_cent(shares[k - 1])}. Line: share of all components up to each, "
        f"ending at {per_cent(together[k - 1])}. The numbers are in the table below.",
    )
    return Exhibit("Explained variance", text, [table], picture)


def _merged(model: Any) -> Exhibit:
    """Return the variances along directions that were merged, not fitted together."""
    variance = np.asarray(model.explained_variance_)
    k = min(len(variance), MANY_SHARES)
    table = Table(
        "",
        ("Component", "Variance"),
        [(f"{i + 1}", number(value)) for i, value in enumerate(variance[:k])],
        left_out(k, len(variance), "components", "first"),
    )
    text = (
        f"Variance of all columns along directions merged from the silos’ own in "
        f"{counted(len(model.history_), 'round')}, divided by one less than the number "
        f"of people. This is the published approximation: PCA on the same silos gives "
        f"the principal components of all columns together. The variance of all "
        f"columns was not released, so the directions’ shares of it are not known."
    )
    return Exhibit("Variance along merged directions", text, [table])


def _signal(model: Any) -> Exhibit:
    ratios = np.asarray(model.signal_to_noise_)
    k = min(len(ratios), MANY_SHARES)
    table = Table(
        "",
        ("Component", "Signal to noise"),
        [(f"{i + 1}", number(ratio)) for i, ratio in enumerate(ratios[:k])],
        left_out(k, len(ratios), "components", "first"),
    )
    text = (
        "Variances hold noise, added for privacy. This is each one divided by the "
        "largest variance that noise alone shows: near 1 a component is chance."
    )
    return Exhibit("Signal and noise", text, [table])


def _of_gap(model: Any) -> str:
    if model.gap_ <= 0:
        return "more than all"
    return probability(float(np.max(model.residuals_)) / model.gap_)


def _loadings(
    components: Float[Array, "k p"], columns: Sequence[str], name: str
) -> list[Exhibit]:
    k, p = components.shape
    shown = min(k, MANY_COMPONENTS)
    text = (
        "How much each column weighs in each component: bars to the right are "
        "positive, to the left negative. Within a component the squares add up to 1."
    )
    if p > MANY_COLUMNS:
        return _largest(components[:shown], k, columns, name, text)
    titles = [_component(i, shown) for i in range(shown)]
    picture = figures.loadings(
        components[:shown], columns, titles, name, _described(components[0], columns)
    )
    table = Table(
        "",
        ("Column", *[f"{i + 1}" for i in range(shown)]),
        [
            (column, *map(signed, components[:shown, j]))
            for j, column in enumerate(columns)
        ],
        left_out(shown, k, "components", "first"),
    )
    return [Exhibit("Loadings", text, [table], picture)]


def _largest(
    components: Float[Array, "l p"],
    k: int,
    columns: Sequence[str],
    name: str,
    text: str,
) -> list[Exhibit]:
    """Return an exhibit for each component with its largest loadings only."""
    p = components.shape[1]
    text += (
        f" Of the {p:,} columns, the {TOP} with the largest loadings are shown for "
        f"each component. {left_out(len(components), k, 'components', 'first')}"
    )
    found = []
    for i, values in enumerate(components):
        order = np.argsort(-np.abs(values), kind="stable")[:TOP]
        some: list[str] = [columns[int(j)] for j in order]
        picture = figures.loadings(
            values[None, order], some, [""], f"{name}-{i}", _described(values, columns)
        )
        share = float(np.sum(values[order] ** 2))
        table = Table(
            "",
            ("Column", "Loading"),
            [(columns[int(j)], signed(float(values[j]))) for j in order],
            f"Their squares add up to {share:.3f}.",
        )
        heading = f"Loadings of component {i + 1}"
        found.append(Exhibit(heading, "" if i else text.strip(), [table], picture))
    return found


def _described(values: Float[Array, " p"], columns: Sequence[str]) -> str:
    order = np.argsort(-np.abs(values), kind="stable")[:3]
    largest = ", ".join(f"{columns[int(j)]} {signed(float(values[j]))}" for j in order)
    return (
        f"Bars of loadings by column. The largest of the first component drawn are "
        f"{largest}. The numbers are in the table below."
    )


def _attributes(model: Any) -> Exhibit:
    """Return what can be said of a model that the report has no picture for."""
    rows = []
    for name, value in sorted(vars(model).items()):
        if not name.endswith("_") or name.startswith("_") or name in _SAID:
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


def _component(i: int, shown: int) -> str:
    return f"component {i + 1}" if shown < 4 else f"{i + 1}"


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]

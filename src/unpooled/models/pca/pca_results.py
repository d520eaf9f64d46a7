"""Results of principal component analysis: variances, loadings, and column measures.

scree                 shares of variance, beside those of a broken stick
loadings              weights of columns, and which columns drive a component
correlation circle    columns in the plane of the first two components
contributions, cos2   of each column to each component, as in FactoMineR
"""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.models.pca.column_measures import (
    broken_stick,
    column_variances,
    correlations,
    covariances,
    explains_everything,
)
from unpooled.models.pca.outliers import LEVELS
from unpooled.models.pca.standard_errors import NORMAL_95, half_intervals
from unpooled.results.exhibits import MOST_ROWS, Column, Exhibit, Picture, ResultTable
from unpooled.results.fitted_attributes import (
    MOST_ACROSS,
    by_column,
    fitting,
    numbered,
    ordinals,
)
from unpooled.results.formats import (
    counted,
    left_out,
    listed,
    number,
    per_cent,
    probability,
    signed,
)
from unpooled.results.plots import charts, scatter_plots
from unpooled.results.plots.heatmap import heatmap

if TYPE_CHECKING:
    from unpooled.models.pca.pca import PCA

TOP = 15  # columns that are shown of too many
_DESCRIBED = 3  # components of which a sentence names the columns that drive them
_NAMED = 4  # columns at each end of such a component
_MOST_CELLS = 20  # columns of a correlation matrix that is drawn
# Loadings of which the derived tables are written: of more they would be three files of
# tens of megabytes, which follow from the loadings and standard deviations.
_MOST_MEASURED = 100_000
_DOMINANT = 0.5  # share of all variance, above which a single column is named


def pca_exhibits(model: "PCA", columns: Sequence[str]) -> list[Exhibit]:
    """Return the exhibits of a fitted PCA."""
    # Not `hasattr`, here and below: silos would be asked for what they keep.
    if "explained_variance_ratio_" not in vars(model):
        return [_between_neighbours(model)] if "mixing_steps_" in vars(model) else []
    exhibits = [_variance(model, columns)]
    if "component_numbers_" in vars(model):
        exhibits.append(_numbers(model))
    if "signal_to_noise_" in vars(model):
        exhibits.append(_signal(model))
    if "components_" in vars(model):
        shares = model.explained_variance_ratio_
        exhibits += loadings(
            model.components_,
            columns,
            drivers(model.components_, shares, columns),
            half_intervals(model),
        )
        exhibits += _certainty(model, columns)
        exhibits += _outliers(model)
        exhibits += _column_measures(model, columns)
    if "mean_" in vars(model) and not _standardised(model):
        values = {Column("Mean", "number"): model.mean_}
        if "feature_variance_" in vars(model):
            spread = np.sqrt(model.feature_variance_)
            values[Column("Standard deviation", "number")] = spread
        table = by_column("means", columns, values)
        exhibits.append(Exhibit("Columns, over all silos", "", [table]))
    return exhibits


def _between_neighbours(model: "PCA") -> Exhibit:
    """Return the exhibits of a fit by "gossip", whose results the silos keep."""
    text = (
        f"{counted(model.n_components_, 'component')} of "
        f"{counted(model.n_samples_, 'row')}, computed by averages "
        f"between neighbouring silos. The more neighbours the silos have, the fewer "
        f"messages an average takes: the gap of the network is above 0, and 1 where "
        f"all silos are neighbours of each other."
    )
    rows = [
        ("averages", model.n_iter_),
        ("messages to each neighbour for one average", model.mixing_steps_),
        ("gap of the network", model.spectral_gap_),
    ]
    heads = (Column("Quantity"), Column("Value", "measure"))
    return Exhibit(
        "Averages between silos", text, [ResultTable("averages", heads, rows)]
    )


def _standardised(model: "PCA") -> bool:
    """Whether columns were standardised before: their means are rounding errors."""
    deviation = np.sqrt(np.max(model.explained_variance_))
    return bool(np.abs(model.mean_).max() <= 1e-9 * deviation)


def known_shares(model: "PCA") -> Float[Array, " l"]:
    """Return the shares of variance of all components that the fit found."""
    shares = np.asarray(model.explained_variance_ratio_)
    # The sum of all variances, by which the shares of those kept were computed.
    total = float(model.explained_variance_[0] / shares[0]) if shares[0] > 0 else 1.0
    every = vars(model).get("eigenvalues_", model.explained_variance_)
    rest = np.asarray(every)[len(shares) :] / total
    return np.concatenate([shares, rest])


def errors_of_shares(model: "PCA") -> Float[Array, " k"] | None:
    """Return the standard errors of the kept variances as shares of the total.

    None where the fit has none. The total is taken as known.
    """
    # Standard errors under privacy are about another value than is drawn.
    if "explained_variance_se_" not in vars(model) or "privacy_" in vars(model):
        return None
    shares = np.asarray(model.explained_variance_ratio_)
    total = float(model.explained_variance_[0] / shares[0]) if shares[0] > 0 else 1.0
    return model.explained_variance_se_ / total


def reference_shares(model: "PCA") -> tuple[str, Float[Array, " l"]]:
    """Return the name and values of the shares that those of components stand beside.

    With differential privacy it is what noise alone shows, elsewhere the broken stick
    of as many pieces as there are directions, min(N - 1, p).
    """
    count = len(known_shares(model))
    if "privacy_" in vars(model):
        edge = model.privacy_["noise_edge"]
        total = model.explained_variance_[0] / model.explained_variance_ratio_[0]
        return "noise alone", np.full(count, float(edge / total))
    pieces = max(min(model.n_samples_ - 1, model.n_features_in_), 1)
    expected = np.zeros(max(count, pieces))
    expected[:pieces] = broken_stick(pieces)
    return "broken stick", expected[:count]


def _variance(model: "PCA", columns: Sequence[str]) -> Exhibit:
    kept = len(model.explained_variance_ratio_)
    shares = known_shares(model)
    name, expected = reference_shares(model)
    count = len(shares)
    drawn = min(count, max(MOST_ROWS, kept if kept <= 2 * MOST_ROWS else 0))
    cumulative = np.cumsum(shares)
    variance = vars(model).get("eigenvalues_", model.explained_variance_)
    table = ResultTable.of(
        "explained_variance",
        {
            Column("Component"): ordinals(count),
            Column("Variance", "number"): variance,
            Column("Share", "share", bar=True): shares,
            Column("Cumulative share", "share"): cumulative,
            Column(name.capitalize(), "share"): expected,
            Column("Kept", "setting"): np.arange(count) < kept,
        },
        items="components",
    )
    tables = [table]
    if kept == count:
        # A column of "yes" tells a reader nothing; programs find it in the file.
        tables = table.excerpt(columns=range(5))
    text = _of_variance(model, columns, cumulative[kept - 1])
    text += f" {_against_reference(shares, expected, name)}"
    if kept < count:
        text += " In the picture, components that were not kept are paler."
    errors, lines = errors_of_shares(model), ""
    names_of_tables = (table.name,)
    if errors is not None:
        errors, lines = NORMAL_95 * errors, "; thin lines: intervals at 95 %"
        names_of_tables += ("variance_errors",)
        text += " The thin lines in the picture are 95 % confidence intervals."
    picture = Picture(
        "scree",
        "Share of variance by component",
        f"Above, bars: share of variance of components 1 to {drawn}, from "
        f"{per_cent(shares[0])} down to {per_cent(shares[drawn - 1])}; dashed line: "
        f"{name}{lines}. Below, line: cumulative share, ending at "
        f"{per_cent(cumulative[drawn - 1])}. The numbers are in the table below.",
        partial(
            charts.scree,
            shares[:drawn],
            min(kept, drawn),
            expected[:drawn],
            name,
            errors,
        ),
        names_of_tables,
    )
    return Exhibit("Explained variance", text, tables, picture)


def _of_variance(model: "PCA", columns: Sequence[str], share: float) -> str:
    kept = len(model.explained_variance_ratio_)
    text = (
        f"{counted(kept, 'component')} {'explains' if kept == 1 else 'explain'} "
        f"{per_cent(share)} of the total variance (the sum of the variances of all "
        f"columns). Variances have the denominator N − 1, one less than the number of "
        f"rows."
    )
    if "residuals_" in vars(model):
        text += (
            f" The components were computed in {counted(model.n_iter_, 'round')} of "
            f"products (block Krylov); the largest residual is {_share_of_gap(model)} "
            f"of the gap to the next variance, which bounds the error of their "
            f"directions."
        )
    spread = vars(model).get("feature_variance_")
    if spread is not None and (total := float(np.sum(spread))) > 0 and len(spread) > 1:
        j = int(np.argmax(spread))
        if spread[j] > _DOMINANT * total:
            text += (
                f" Column {columns[j]} alone has {per_cent(spread[j] / total)} of the "
                f"total variance, so that it dominates the first component. Where "
                f"columns have different units, standardise them first "
                f"(StandardScaler)."
            )
    return text


def _against_reference(
    shares: Float[Array, " l"], expected: Float[Array, " l"], name: str
) -> str:
    """Return how many components lie above their reference, and what it means."""
    below = np.flatnonzero(shares <= expected)
    above = int(below[0]) if len(below) else len(shares)
    which = {0: "Not even the first component lies", 1: "The first component lies"}.get(
        above, f"The first {above} components lie"
    )
    if name == "broken stick":
        return (
            f"{which} above the broken stick: the share expected of a component of "
            f"that rank if the variance were divided among all at random."
        )
    return f"{which} above the largest variance that noise alone shows."


def _share_of_gap(model: "PCA") -> str:
    if model.gap_ <= 0:
        return "more than all"
    return number(float(np.max(model.residuals_)) / model.gap_)


_RULES = {
    "parallel": "parallel analysis (Horn)",
    "map": "minimum average partial (Velicer)",
    "mle": "maximum likelihood (Minka)",
    "kaiser": "eigenvalues of correlations above 1 (Kaiser)",
    "broken_stick": "broken stick",
    "press": "cross-validated reconstruction (PRESS)",
}


def _numbers(model: "PCA") -> Exhibit:
    statistic, dof, p = model.bartlett_
    text = (
        f"The model keeps the number of components that {_RULES[model.n_components]} "
        f"gives, at least one. The rules answer different questions and need not "
        f"agree. Sampling adequacy (Kaiser-Meyer-Olkin) is {model.kmo_:.2f}: above 0.8 "
        f"columns share much, below 0.5 too little for common components. Bartlett’s "
        f"test that columns are uncorrelated: chi-squared {number(statistic)} with "
        f"{dof:,} degrees of freedom, p {probability(p)}."
    )
    rows = [(_RULES[name], n) for name, n in model.component_numbers_.items()]
    columns = (Column("Rule"), Column("Components", "count"))
    tables = [ResultTable("component_numbers", columns, rows)]
    if "press_" in vars(model):
        text += (
            f" PRESS is the sum of squared errors where each cell of a row is "
            f"predicted from the row’s others, by components of the {model.cv - 1} "
            f"folds that the row is not in."
        )
        numbers = [f"{k}" for k in range(len(model.press_))]
        cells = {Column("Components"): numbers, Column("PRESS", "number"): model.press_}
        tables.append(ResultTable.of("press", cells))
    return Exhibit("Number of components", text, tables)


def _signal(model: "PCA") -> Exhibit:
    text = (
        "The variances contain noise, which was added for differential privacy. The "
        "signal-to-noise ratio is a component’s variance divided by the largest "
        "variance that noise alone gives: a component with a ratio near 1 or below may "
        "be noise."
    )
    ratios = model.signal_to_noise_
    cells: dict[Column, Any] = {
        Column("Component"): ordinals(len(ratios)),
        Column("Signal-to-noise ratio", "number"): ratios,
    }
    if "explained_variance_bounds_" in vars(model):
        text += (
            " Rows were clipped to a length as well, which changes variances by an "
            "amount that nobody knows, so that there are no standard errors. Along as "
            "many orthogonal directions the mean squares of these rows about "
            "the mean lie within the bounds, all together with 95 % probability, if no "
            "row is further than the public norm from the centre."
        )
        low, high = model.explained_variance_bounds_.T
        cells |= {
            Column("Mean square from", "number", "low"): low,
            Column("Mean square to", "number", "high"): high,
        }
    table = ResultTable.of("signal_to_noise", cells, items="components")
    return Exhibit("Signal and noise", text, [table])


def drivers(
    components: Float[Array, "k p"], shares: Float[Array, " k"], columns: Sequence[str]
) -> str:
    """Return in a sentence each which columns drive the first components.

    Those are named that contribute more than the average column does: whose squared
    loading is above 1 / p.
    """
    p = len(columns)
    if p < 2:
        return ""
    sentences = []
    for i, values in enumerate(components[:_DESCRIBED]):
        order = np.argsort(-np.abs(values), kind="stable")
        large = [int(j) for j in order if values[j] ** 2 > 1 / p]
        up = [columns[j] for j in large if values[j] > 0][:_NAMED]
        down = [columns[j] for j in large if values[j] < 0][:_NAMED]
        if not up + down:
            continue
        ends = [f"increases with {listed(up)}"] if up else []
        ends += [f"decreases with {listed(down)}"] if down else []
        sentences.append(
            f"Component {i + 1} ({per_cent(shares[i])} of the variance) "
            f"{' and '.join(ends)}."
        )
    if sentences:
        sentences.append(
            f"The columns named are the largest of those that contribute more than the "
            f"average of {per_cent(1 / p)}."
        )
    return " ".join(sentences)


def _outliers(model: "PCA") -> list[Exhibit]:
    """Return how many rows lie far from the components, where the fit has it."""
    if "n_beyond_q_" not in vars(model):
        return []
    expected = [(1 - level) * model.n_samples_ for level in LEVELS]
    beyond = Column("Rows beyond T²", "count", "beyond_mahalanobis")
    cells = {
        Column("Normal rows within", "text", "level"): list(map(per_cent, LEVELS)),
        Column("T² limit", "number", "mahalanobis_limit"): model.mahalanobis_limits_,
        beyond: model.n_beyond_mahalanobis_,
        Column("Q limit", "number"): model.q_limits_,
        Column("Rows beyond Q", "count", "beyond_q"): model.n_beyond_q_,
        Column("Expected, if normal", "number", "expected"): expected,
    }
    text = (
        "T² is the squared Mahalanobis distance within the components, Q the squared "
        "distance from their span. Many more rows beyond a limit than expected mean "
        "heavy tails, or single rows that are far away: each silo finds its own with "
        "unpooled silo apply MODEL --outliers."
    )
    table = ResultTable.of("outliers", cells)
    return [Exhibit("Rows far from the components", text, [table])]


def _certainty(model: "PCA", columns: Sequence[str]) -> list[Exhibit]:
    """Return standard errors of variances and loadings, where the fit has them."""
    fitted = vars(model)
    if "explained_variance_se_" not in fitted:
        return []
    if "privacy_" in fitted:
        return _private_certainty(model, columns)
    variance, se = model.explained_variance_, model.explained_variance_se_
    half = NORMAL_95 * se
    cells = {
        Column("Component"): ordinals(len(se)),
        Column("Variance", "number"): variance,
        Column("Standard error", "number"): se,
        Column("95 % from", "number", "low"): variance - half,
        Column("95 % to", "number", "high"): variance + half,
    }
    if (normal := fitted.get("explained_variance_se_normal_")) is not None:
        cells[Column("SE if normal", "number", "standard_error_normal")] = normal
    if "angle_se_" in fitted:
        cells |= _angles(model)
    if "components_ci_factor_" in fitted:
        half_of_loadings = Column("Half interval of loadings, SEs", "number", "factor")
        cells[half_of_loadings] = model.components_ci_factor_
    tables = [ResultTable.of("variance_errors", cells, items="components")]
    case = (
        "The columns were standardised by standard deviations estimated from the same "
        "rows, which the standard errors account for."
        if model.standard_errors_of_ == "correlations"
        else "The columns’ scales are taken as given."
    )
    text = (
        f"Standard errors to first order (influence functions), without an assumption "
        f"of normality. {case}"
    )
    if "angle_se_" in fitted:
        text += f" {_of_determined(model)}"
        tables += _loading_errors(model, columns)
    if "components_ci_factor_" in fitted:
        text += (
            " Half of a 95 % interval of a loading is 1.96 of its standard errors, or "
            "more where a component rotates easily into another: the last column has "
            "how many."
        )
    return [Exhibit("How certain the components are", text, tables)]


def _private_certainty(model: "PCA", columns: Sequence[str]) -> list[Exhibit]:
    """Return intervals of variances and loadings whose totals had noise."""
    se, bias = model.explained_variance_se_, model.explained_variance_bias_
    own, half = model.explained_variance_ - bias, NORMAL_95 * se
    cells = {
        Column("Component"): ordinals(len(se)),
        Column("Variance", "number"): model.explained_variance_,
        Column("Without noise", "number", "variance_without_noise"): own,
        Column("Standard error", "number"): se,
        Column("95 % from", "number", "low"): own - half,
        Column("95 % to", "number", "high"): own + half,
        **_angles(model),
    }
    tables = [ResultTable.of("variance_errors", cells, items="components")]
    text = (
        "Standard errors to first order, of the noise, whose size is public, and of "
        "normal rows together; what clipping changed is not in them. Noise adds to a "
        "variance on average, which the third column takes off; intervals are about "
        "that. A component whose variance is below 1.25 times what noise alone shows "
        f"has none. {_of_determined(model)}"
    )
    tables += _loading_errors(model, columns)
    return [Exhibit("How certain the components are", text, tables)]


def _angles(model: "PCA") -> dict[Column, Any]:
    """Return the angles of components, and to the span of which others they are."""
    spans = [
        f"{a + 1}" if a == b else f"{a + 1} to {b + 1}"
        for a, b in model.subspaces_.tolist()
    ]
    return {
        Column("Angle, degrees", "number", "angle_degrees"): np.degrees(
            model.angle_se_
        ),
        Column("Angle to", "text", "subspace"): spans,
    }


def _of_determined(model: "PCA") -> str:
    text = (
        "The angle is the root mean square between a component and the components of "
        "the population that “Angle to” names."
    )
    loose = [f"{i + 1}" for i, (a, b) in enumerate(model.subspaces_) if a < b]
    if not loose:
        return text
    which = f"Component{'s' if len(loose) > 1 else ''} {listed(loose)}"
    return (
        f"{text} {which} {'have variances' if len(loose) > 1 else 'has a variance'} "
        f"within a fifth of a neighbour’s: the loadings are not determined, because "
        f"neighbouring components may rotate into each other. The angle is then that "
        f"to the subspace that they share, empty where too many components share it."
    )


def _loading_errors(model: "PCA", columns: Sequence[str]) -> list[ResultTable]:
    """Return the standard errors of the loadings that are determined, if any are."""
    kept = np.flatnonzero(np.isfinite(model.components_se_).all(axis=1))
    if not len(kept):
        return []
    errors = {
        Column(f"{i + 1}", "number", f"component_{i + 1}"): model.components_se_[i]
        for i in kept
    }
    caption = "Standard errors of the loadings"
    table = by_column("loading_errors", columns, errors, caption=caption)
    return _on_page(table, len(kept), np.abs(model.components_[kept]).max(axis=0))


def loadings(
    components: Float[Array, "k p"],
    columns: Sequence[str],
    meaning: str = "",
    errors: Float[Array, "k p"] | None = None,
) -> list[Exhibit]:
    """Return the loadings of components, with a picture; of many, the largest.

    `meaning` are sentences on what the components are; `errors` half the intervals at
    95 %, NaN for components whose loadings are not determined.
    """
    k, p = components.shape
    shown = min(k, MOST_ACROSS)
    text = (
        "Loadings are the weights of the columns in each component: bars to the right "
        "are positive, to the left negative. Within a component the squares add up to "
        "1."
    )
    text = f"{text} {meaning}".strip()
    table = by_column("loadings", columns, numbered(components.T, "signed"))
    if errors is not None:
        errors = errors[:shown]
        text += (
            " The thin lines are 95 % confidence intervals; a component without them "
            "is not determined."
        )
    if p > MOST_ROWS:
        return _largest(components[:shown], columns, text, table, errors)
    titles = [f"component {i + 1}" if shown < 4 else f"{i + 1}" for i in range(shown)]
    tables = _on_page(table, k)
    picture = _picture("loadings", components[:shown], columns, titles, errors)
    return [Exhibit("Loadings", text, tables, picture)]


def _largest(
    components: Float[Array, "l p"],
    columns: Sequence[str],
    text: str,
    table: ResultTable,
    errors: Float[Array, "l p"] | None,
) -> list[Exhibit]:
    """Return one exhibit for each component, with its largest loadings only."""
    p, k = len(columns), len(table.columns) - 1
    text += (
        f" Of the {p:,} columns, the {TOP} with the largest loadings are shown for "
        f"each component. {left_out(len(components), k, 'components', 'first')}"
    )
    exhibits = []
    for i, values in enumerate(components):
        order: list[int] = np.argsort(-np.abs(values), kind="stable")[:TOP].tolist()
        names = [columns[j] for j in order]
        note = f"Their squares add up to {np.sum(values[order] ** 2):.3f}."
        whole, part = table.excerpt(rows=order, columns=(0, i + 1), note=note)
        name = f"loadings_{i + 1}"
        half = None if errors is None else errors[None, i, order]
        picture = _picture(name, values[None, order], names, [""], half)
        # The whole table is in one file: it stands with the first component.
        tables = [part] if i else [whole, part]
        heading = f"Loadings of component {i + 1}"
        exhibits.append(Exhibit(heading, "" if i else text.strip(), tables, picture))
    return exhibits


def _picture(
    name: str,
    components: Float[Array, "k p"],
    columns: Sequence[str],
    titles: Sequence[str],
    errors: Float[Array, "k p"] | None = None,
) -> Picture:
    first = components[0]
    order = np.argsort(-np.abs(first), kind="stable")[:3]
    largest = ", ".join(f"{columns[int(j)]} {signed(float(first[j]))}" for j in order)
    return Picture(
        name,
        "Loadings by component",
        f"Bars of loadings by column. The largest of the first component drawn are "
        f"{largest}. The numbers are in the table below.",
        partial(charts.loadings, components, columns, titles, errors),
        ("loadings",) if errors is None else ("loadings", "loading_errors"),
    )


def _column_measures(model: "PCA", columns: Sequence[str]) -> list[Exhibit]:
    """Return correlations of columns and components, contributions and cos2."""
    if model.components_.size > _MOST_MEASURED:
        return []
    variance, contributions = column_variances(model), _contributions(model, columns)
    if variance is None:
        return [contributions]
    r = correlations(model.components_, model.explained_variance_, variance)
    exhibits = [
        _correlations(model, columns, r),
        contributions,
        _quality(columns, r**2),
    ]
    if explains_everything(model) and 2 <= len(columns) <= MOST_ROWS:
        exhibits.append(_between_columns(model, columns, variance))
    return exhibits


def axis_labels(model: "PCA", axes: Sequence[int]) -> tuple[str, ...]:
    """Return "component 1 (27.6 %)" for the positions of components."""
    shares = model.explained_variance_ratio_
    return tuple(f"component {i + 1} ({per_cent(shares[i])})" for i in axes)


def best_in_plane(r: Float[Array, "d p"]) -> list[int]:
    """Return the columns that a correlation circle names, in their own order.

    All, or of more than 30 the 15 that lie farthest out; constant columns are left out.
    """
    quality = np.nan_to_num(np.sum(r**2, axis=0), nan=-1.0)
    most = TOP if r.shape[1] > MOST_ROWS else r.shape[1]
    order = np.argsort(-quality, kind="stable")[:most]
    return sorted(int(j) for j in order if quality[j] >= 0)


def _correlations(
    model: "PCA", columns: Sequence[str], r: Float[Array, "k p"]
) -> Exhibit:
    k, p = r.shape
    in_plane = Column("cos² in the plane", "share", "cos2_plane")
    cells = numbered(r.T, "signed") | {in_plane: np.sum(r[:2] ** 2, axis=0)}
    table = by_column("correlations", columns, cells)
    text = (
        "The correlation of each column with the scores of each component: loading × "
        "standard deviation of the component / standard deviation of the column."
    )
    plane = (0, *range(1, 1 + min(k, 2)), 1 + k)
    rows = best_in_plane(r[:2])
    note = left_out(len(rows), p, "columns", "best represented")
    tables = table.excerpt(rows=rows, columns=plane, note=note)
    if k < 2 or not rows:
        return Exhibit("Columns and components", text, tables)
    text += (
        " In the correlation circle a column that reaches the circle is fully "
        "described by components 1 and 2; cos² in the plane, its squared distance from "
        "the centre, is the share of its variance that they explain. Of columns near "
        "the circle, those that point the same way are positively correlated, those at "
        "right angles uncorrelated, and those opposite negatively correlated."
    )
    points, names = r[:2, rows].T, [columns[j] for j in rows]
    farthest = max(range(len(rows)), key=lambda i: float(np.sum(points[i] ** 2)))
    labels = axis_labels(model, (0, 1))
    picture = Picture(
        "correlation_circle",
        "Correlation circle",
        f"{counted(len(rows), 'column')} as lines from the centre of a circle of "
        f"radius 1. {names[farthest]} reaches farthest. The numbers are in the table "
        f"below.",
        partial(
            scatter_plots.correlation_circle,
            points,
            names,
            np.ones(len(rows), dtype=bool),
            (labels[0], labels[1]),
        ),
        (table.name,),
    )
    return Exhibit("Columns and components", text, tables, picture)


def _contributions(model: "PCA", columns: Sequence[str]) -> Exhibit:
    shares = model.components_**2
    k, p = shares.shape
    table = by_column("contributions", columns, numbered(shares.T, "share"))
    text = (
        f"The share of each column in the variance along a component, its squared "
        f"loading. A component’s contributions add up to 100 %; if all columns were "
        f"equally important each would contribute {per_cent(1 / p)}."
    )
    weight = model.explained_variance_ratio_[:MOST_ACROSS] @ shares[:MOST_ACROSS]
    return Exhibit("Contributions of columns", text, _on_page(table, k, weight))


def _quality(columns: Sequence[str], cos2: Float[Array, "k p"]) -> Exhibit:
    k, p = cos2.shape
    total = np.sum(cos2, axis=0)
    of_all = Column("All of these", "share", "total")
    table = by_column("cos2", columns, numbered(cos2.T, "share") | {of_all: total})
    text = (
        "cos², the squared correlation, is the share of a column’s variance that a "
        "component explains. A column with a small sum over the components kept is "
        "poorly represented, and its place in their pictures should not be interpreted."
    )
    tables = _on_page(table, k, np.nan_to_num(total, nan=-1.0))
    if p > MOST_ROWS:
        return Exhibit("Quality of representation", text, tables)
    shown = min(k, MOST_ACROSS)
    picture = Picture(
        "cos2",
        "Share of each column explained by each component",
        f"A cell for each of {p} columns and {counted(shown, 'component')}, stronger "
        f"where the component explains more. The numbers are in the table below.",
        partial(heatmap, cos2[:shown].T, columns, ordinals(shown)),
        (table.name,),
    )
    return Exhibit("Quality of representation", text, tables, picture)


def _on_page(
    table: ResultTable, k: int, weight: Float[Array, " p"] | None = None
) -> list[ResultTable]:
    """Return a table of columns by k components, and an excerpt if it is large."""
    return fitting(table, range(1, 1 + k), "components", weight, TOP)


def _between_columns(
    model: "PCA", columns: Sequence[str], variance: Float[Array, " p"]
) -> Exhibit:
    """Return the correlations of columns, which all components determine."""
    r = correlation_matrix(covariances(model), variance)
    cells = {Column(c, "signed", c): own for c, own in zip(columns, r, strict=True)}
    table = by_column("correlation_matrix", columns, cells, place="files")
    text = (
        "Pearson’s correlation of every two columns, over all rows: all components "
        "together determine it."
    )
    shown = len(columns) <= _MOST_CELLS
    picture = Picture(
        "correlation_matrix",
        "Correlations of columns",
        f"A cell for every two of {len(columns)} columns: blue where they are "
        f"positively correlated, orange where negatively. The numbers are in the file "
        f"of the table {table.name}.",
        partial(heatmap, r, columns, columns),
        (table.name,),
    )
    return Exhibit("Correlations of columns", text, [table], picture if shown else None)


def correlation_matrix(
    C: Float[Array, "p p"], variance: Float[Array, " p"]
) -> Float[Array, "p p"]:
    """Return the correlations of a covariance matrix; NaN for constant columns."""
    spread = np.sqrt(np.where(variance > 0, variance, np.nan))
    r = np.clip(C / spread / spread[:, None], -1.0, 1.0)
    np.fill_diagonal(r, np.where(variance > 0, 1.0, np.nan))
    return r

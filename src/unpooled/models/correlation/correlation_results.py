"""Results on correlations: heat maps in clustered order, pairs, variance inflation."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.linalg.correlations import clustered_order
from unpooled.results.exhibits import Column, Exhibit, Picture, ResultTable
from unpooled.results.fitted_attributes import by_column
from unpooled.results.formats import counted, left_out, signed
from unpooled.results.plots.heatmap import heatmap

if TYPE_CHECKING:
    from unpooled.models.correlation.correlation import Correlation

_MOST_CELLS = 40  # columns of a matrix that is drawn
_STRONGEST = 15  # pairs that a page shows
# From here on statisticians speak of collinear columns.
_INFLATED = 5.0


def correlation_exhibits(model: "Correlation", columns: Sequence[str]) -> list[Exhibit]:
    """Return the exhibits of fitted correlations."""
    exhibits = [_matrix(model, columns), _pairs(model, columns)]
    if "partial_correlation_" in vars(model):
        exhibits.append(_partial(model, columns))
        exhibits.append(_inflation(model, columns))
    return exhibits


def _rows_used(model: "Correlation") -> str:
    if model.missing == "complete":
        return f"They are over {model.n_samples_:,} rows with a value in every column."
    off = model.n_pairs_[~np.eye(len(model.n_pairs_), dtype=bool)]
    if not off.size:
        return ""
    return (
        f"For each pair they are over the rows with a value in both columns: from "
        f"{off.min():,} to {off.max():,} rows."
    )


def _matrix(model: "Correlation", columns: Sequence[str]) -> Exhibit:
    text = (
        f"Pearson’s correlation coefficients of {counted(len(columns), 'column')}. "
        f"{_rows_used(model)} Columns that are correlated stand side by side (order of "
        f"an average-linkage clustering with distances 1 − |r|)."
    )
    diagonal = model.correlation_.diagonal()
    constant = [c for c, r in zip(columns, diagonal, strict=True) if np.isnan(r)]
    if constant:
        text += (
            f" Without variance, and so without correlations: {', '.join(constant)}."
        )
    R = model.correlation_
    return _heatmap(
        "correlations", "Correlations", text, R, columns, clustered_order(R)
    )


def _heatmap(
    name: str,
    heading: str,
    text: str,
    R: Float[Array, "p p"],
    columns: Sequence[str],
    order: Array,
) -> Exhibit:
    """Return a matrix as a table for files, and as a picture if it is small."""
    names = [columns[int(j)] for j in order]
    R = R[np.ix_(order, order)]
    cells = {
        Column(c, "signed", f"column_{j + 1}"): R[:, j] for j, c in enumerate(names)
    }
    table = by_column(name, names, cells, place="files")
    if len(names) > _MOST_CELLS:
        text += (
            f" The {len(names):,} × {len(names):,} numbers are in the files of results."
        )
        return Exhibit(heading, text, [table])
    text += " Blue is positive, orange negative; the stronger, the fuller the colour."
    picture = Picture(
        name,
        heading,
        f"Coloured cells of {heading.lower()} between {counted(len(names), 'column')}, "
        f"blue above zero and orange below. {_described(R, names)} The numbers are in "
        f"the files of results.",
        partial(heatmap, R, names, names),
        (table.name,),
    )
    return Exhibit(heading, text, [table], picture)


def _described(R: Float[Array, "p p"], names: Sequence[str]) -> str:
    i, j = np.triu_indices(len(R), 1)
    if not len(i) or np.isnan(R[i, j]).all():
        return ""
    strongest = int(np.nanargmax(np.abs(R[i, j])))
    a, b = names[int(i[strongest])], names[int(j[strongest])]
    return f"The strongest is {signed(float(R[i, j][strongest]))}, of {a} and {b}."


def _pairs(model: "Correlation", columns: Sequence[str]) -> Exhibit:
    i, j = np.triu_indices(len(columns), 1)
    level = f"{100 * model.confidence_level:g} %"
    order = np.argsort(-np.abs(np.nan_to_num(model.correlation_[i, j])), kind="stable")
    i, j = i[order], j[order]
    low, high = model.confidence_low_[i, j], model.confidence_high_[i, j]
    by_rate = Column("p-value, FDR", "p-value", "p_benjamini_hochberg")
    table = ResultTable.of(
        "pairs",
        {
            Column("Column"): [columns[int(c)] for c in i],
            Column("With"): [columns[int(c)] for c in j],
            Column("r", "signed"): model.correlation_[i, j],
            Column(f"{level} from", "signed", "confidence_low"): low,
            Column(f"{level} to", "signed", "confidence_high"): high,
            Column("n", "count"): model.n_pairs_[i, j],
            Column("p-value", "p-value"): model.p_value_[i, j],
            Column("p-value, Holm", "p-value", "p_holm"): model.p_holm_[i, j],
            by_rate: model.p_benjamini_hochberg_[i, j],
        },
        items="pairs",
        which="strongest",
        most=_STRONGEST,
    )
    tables = [table]
    if model.missing == "complete":
        # The same number of rows in each, which stands above.
        tables = table.excerpt(columns=[c for c in range(9) if c != 5])
    count = int(np.sum(np.nan_to_num(model.p_holm_[i, j], nan=1.0) < 0.05))
    text = (
        f"Pairs of columns, the strongest first, with {level} confidence intervals "
        f"(Fisher’s transform) and two-sided p-values, which assume normality: as they "
        f"are, adjusted for {counted(len(i), 'test')} by Holm’s procedure, and by that "
        f"of Benjamini and Hochberg for the false discovery rate. "
        f"{counted(count, 'pair')} of {len(i):,} "
        f"{'has' if count == 1 else 'have'} a p-value by Holm below 0.05."
    )
    return Exhibit("Pairs of columns", text, tables)


def _partial(model: "Correlation", columns: Sequence[str]) -> Exhibit:
    text = (
        "Correlation of two columns given all others: of what is left of both after "
        "least-squares fits on the other columns, in the order of the correlations."
    )
    order = clustered_order(model.correlation_)
    exhibit = _heatmap(
        "partial_correlations",
        "Partial correlations",
        text,
        model.partial_correlation_,
        columns,
        order,
    )
    i, j = np.triu_indices(len(columns), 1)
    pairs = ResultTable.of(
        "partial_pairs",
        {
            Column("Column"): [columns[int(c)] for c in i],
            Column("With"): [columns[int(c)] for c in j],
            Column("Partial r", "signed"): model.partial_correlation_[i, j],
            Column("p-value", "p-value"): model.partial_p_value_[i, j],
        },
        items="pairs",
        place="files",
    )
    return Exhibit(
        exhibit.heading, exhibit.text, [*exhibit.tables, pairs], exhibit.picture
    )


def _inflation(model: "Correlation", columns: Sequence[str]) -> Exhibit:
    factors = model.variance_inflation_
    large = [columns[int(j)] for j in np.flatnonzero(factors > _INFLATED)]
    text = (
        "By how much the variance of a column’s coefficient in a regression grows with "
        "its correlations with all others: 1 / (1 − R²), with the R² of the column’s "
        "own regression on the others."
    )
    if large:
        shown = ", ".join(large[:10])
        rest = left_out(min(len(large), 10), len(large), "columns", "first")
        text += f" Above {_INFLATED:g}: {shown}. {rest}".rstrip()
    else:
        text += f" None is above {_INFLATED:g}."
    cells = {
        Column("Variance inflation factor", "number"): factors,
        Column("R² on the others", "share"): 1 - 1 / factors,
    }
    table = by_column("variance_inflation", columns, cells)
    return Exhibit("Variance inflation", text, [table])

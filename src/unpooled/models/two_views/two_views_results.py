"""Results of canonical correlation analysis and partial least squares.

Correlations of scores, the tests of them, and the columns in the correlation circle.
"""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from unpooled.results.exhibits import MOST_ROWS, Column, Exhibit, Picture, Table
from unpooled.results.fitted_attributes import by_component
from unpooled.results.plots import charts, scatter_plots

if TYPE_CHECKING:
    from unpooled.models.two_views.cca import CCA
    from unpooled.models.two_views.pls import PartialLeastSquares

_EIGENVALUES = {
    "maxvar": "An eigenvalue is the number of parties where all their scores are the "
    "same, and 1 where they are uncorrelated (without a regularisation)",
    "sumcor": "An eigenvalue is the sum of the covariances between the parties’ "
    "scores, whose variances, regularisation included, add up to 1",
}


def cca_exhibits(model: "CCA", columns: Sequence[str]) -> list[Exhibit]:
    """Return the exhibits of a fitted canonical correlation analysis."""
    if "canonical_correlations_" in vars(model):
        found = _correlations(
            model, "Canonical correlations", model.canonical_correlations_
        )
        return [found, *_circle(model)]
    if "eigenvalues_" in vars(model):
        return [_generalised(model)]
    return []


def pls_exhibits(model: "PartialLeastSquares", columns: Sequence[str]) -> list[Exhibit]:
    """Return the exhibits of fitted partial least squares."""
    if "score_correlations_" not in vars(model):
        return []
    title = "Correlations of the scores"
    return [_correlations(model, title, model.score_correlations_), *_circle(model)]


def _correlations(model: Any, title: str, values: Any) -> Exhibit:
    r = np.asarray(values)
    heads = [Column("Pair"), Column("Correlation", "number", bar=True)]
    cells: list[Any] = [[f"{j + 1}" for j in range(len(r))], r]
    text = "Correlation between the scores of the two views, pair by pair."
    if "all_correlations_" in vars(model):
        test = model.significance()
        heads += [
            Column("Wilks’ lambda", "number"),
            Column("Bartlett’s statistic", "number"),
            Column("p-value", "p-value"),
        ]
        for values in (test.wilks, test.statistic, test.p_value):
            cells.append(values[: len(r)])
        text += (
            " Bartlett’s test is of the hypothesis that this correlation and all "
            "smaller ones are 0; its p-value assumes normality."
        )
    rows = list(zip(*cells, strict=True))
    table = Table("correlations", heads, rows, items="pairs")
    picture = Picture(
        "correlations",
        title,
        f"Bars of {len(r)} correlations of scores; the first is {r[0]:.2f}. The "
        f"numbers are in the table below.",
        partial(charts.correlations, r),
        (table.name,),
    )
    return Exhibit(title, text, [table], picture)


def _generalised(model: "CCA") -> Exhibit:
    text = (
        f"How strongly the scores of all parties are correlated with each other. "
        f"{_EIGENVALUES[model.criterion]}."
    )
    table = by_component(
        "eigenvalues", "Eigenvalue", model.eigenvalues_, first="Scores"
    )
    return Exhibit("Generalised correlations", text, [table])


def _circle(model: Any) -> list[Exhibit]:
    """Return the correlation circle, where there are two pairs and columns to draw."""
    if "x_correlations_" not in vars(model) or model.x_correlations_.shape[1] < 2:
        return []
    points = np.concatenate([model.x_correlations_, model.y_correlations_])[:, :2]
    names: Sequence[str] = [*model.x_columns_, *model.y_columns_]
    first = np.arange(len(names)) < len(model.x_columns_)
    order = np.argsort(-np.linalg.norm(points, axis=1), kind="stable")
    rows = [
        (names[int(j)], "first" if first[j] else "second", *points[j]) for j in order
    ]
    order = order[:MOST_ROWS]
    shown = [names[int(j)] for j in order]
    text = (
        "Correlations of each column with the scores of its own view; the first view’s "
        "columns are blue, the second’s are orange. A column near the circle is almost "
        "completely represented by the two pairs of scores, one near the centre hardly "
        "at all."
    )
    table = Table(
        "column_correlations",
        (
            Column("Column"),
            Column("View"),
            Column("First pair", "signed"),
            Column("Second pair", "signed"),
        ),
        rows,
        items="columns",
        which="farthest from the centre",
    )
    picture = Picture(
        "correlation_circle",
        "Correlation circle",
        "The columns of both views, placed by their correlations with the scores of "
        "the first two pairs. The numbers are in the table below.",
        partial(scatter_plots.correlation_circle, points[order], shown, first[order]),
        (table.name,),
    )
    return [Exhibit("Correlation circle", text, [table], picture)]

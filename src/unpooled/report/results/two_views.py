"""Results of canonical correlation analysis and partial least squares.

Correlations of scores, the tests of them, and the columns in the correlation circle.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from unpooled.models.two_views.cca import CCA
from unpooled.models.two_views.pls import PLSSVD, PLSCanonical
from unpooled.models.two_views.pls_regression import PLSRegression
from unpooled.report.exhibits import Exhibit, Picture, Table
from unpooled.report.plots import charts, scatter_plots
from unpooled.report.results.describe import (
    MOST_ROWS,
    by_component,
    describe,
    fitted_attributes,
)
from unpooled.report.text.phrases import number, probability, signed

_EIGENVALUES = {
    "maxvar": "An eigenvalue is the number of parties where all their scores are the "
    "same, and 1 where they are uncorrelated (without a regularisation)",
    "sumcor": "An eigenvalue is the sum of the covariances between the parties’ "
    "scores, whose variances, regularisation included, add up to 1",
}


@describe.register
def _cca(model: CCA, columns: Sequence[str]) -> list[Exhibit]:
    if "canonical_correlations_" in vars(model):
        found = _correlations(
            model, "Canonical correlations", model.canonical_correlations_
        )
        return [found, *_circle(model)]
    if "eigenvalues_" in vars(model):
        return [_generalised(model)]
    return fitted_attributes(model, columns)


@describe.register
def _pls(
    model: PLSSVD | PLSCanonical | PLSRegression, columns: Sequence[str]
) -> list[Exhibit]:
    if "score_correlations_" not in vars(model):
        return fitted_attributes(model, columns)
    title = "Correlations of the scores"
    return [_correlations(model, title, model.score_correlations_), *_circle(model)]


def _correlations(model: Any, title: str, values: Any) -> Exhibit:
    r = np.asarray(values)
    head = ["Pair", "Correlation"]
    cells = [[f"{j + 1}" for j in range(len(r))], [number(float(x)) for x in r]]
    text = "Correlation between the scores of the two views, pair by pair."
    if "all_correlations_" in vars(model):
        test = model.significance()
        head += ["Wilks’ lambda", "Bartlett’s statistic", "p-value"]
        for statistic in (test.wilks, test.statistic):
            cells.append([number(float(x)) for x in statistic[: len(r)]])
        cells.append([probability(float(x)) for x in test.p_value[: len(r)]])
        text += (
            " Bartlett’s test is of the hypothesis that this correlation and all "
            "smaller ones are 0; its p-value assumes normality."
        )
    table = Table("", tuple(head), list(zip(*cells, strict=True)))
    picture = Picture(
        title,
        f"Bars of {len(r)} correlations of scores; the first is {r[0]:.2f}. The "
        f"numbers are in the table below.",
        partial(charts.correlations, r),
    )
    return Exhibit(title, text, [table], picture)


def _generalised(model: CCA) -> Exhibit:
    text = (
        f"How strongly the scores of all parties are correlated with each other. "
        f"{_EIGENVALUES[model.criterion]}."
    )
    table = by_component("Eigenvalue", model.eigenvalues_, first="Scores")
    return Exhibit("Generalised correlations", text, [table])


def _circle(model: Any) -> list[Exhibit]:
    """Return the correlation circle, where there are two pairs and columns to draw."""
    if "x_correlations_" not in vars(model) or model.x_correlations_.shape[1] < 2:
        return []
    points = np.concatenate([model.x_correlations_, model.y_correlations_])[:, :2]
    names: Sequence[str] = [*model.x_columns_, *model.y_columns_]
    first = np.arange(len(names)) < len(model.x_columns_)
    order = np.argsort(-np.linalg.norm(points, axis=1), kind="stable")[:MOST_ROWS]
    shown = [names[int(j)] for j in order]
    rows = [
        (name, "first" if first[j] else "second", *map(signed, points[j].tolist()))
        for name, j in zip(shown, order, strict=True)
    ]
    text = (
        "Correlations of each column with the scores of its own view; the first view’s "
        "columns are blue, the second’s are orange. A column near the circle is almost "
        "completely represented by the two pairs of scores, one near the centre hardly "
        "at all."
    )
    note = (
        ""
        if len(names) <= MOST_ROWS
        else f"Of {len(names):,} columns, the {MOST_ROWS} farthest from the centre."
    )
    table = Table("", ("Column", "View", "First pair", "Second pair"), rows, note)
    picture = Picture(
        "Correlation circle",
        "The columns of both views, placed by their correlations with the scores of "
        "the first two pairs. The numbers are in the table below.",
        partial(scatter_plots.correlation_circle, points[order], shown, first[order]),
    )
    return [Exhibit("Correlation circle", text, [table], picture)]

"""Results of generalised eigenproblems: eigenvalues, and the weights of columns."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from unpooled.results.exhibits import MOST_ROWS, Column, Exhibit, Picture, ResultTable
from unpooled.results.fitted_attributes import (
    MOST_ACROSS,
    by_column,
    fitting,
    numbered,
    ordinals,
)
from unpooled.results.formats import number
from unpooled.results.plots import charts

if TYPE_CHECKING:
    from unpooled.models.generalized_eigen.generalized_eigen import GeneralizedEigen


def generalized_eigen_exhibits(
    model: "GeneralizedEigen", columns: Sequence[str]
) -> list[Exhibit]:
    """Return the exhibits of a solved generalised eigenproblem."""
    exact = model.solver == "exact"
    text = (
        "Eigenvalues λ of A v = λ B v, with A and B added over all silos."
        if exact
        else "Eigenvalues of the sum of the silos’ whitened matrices, by a published "
        "one-shot algorithm, which is approximate."
    )
    values = ResultTable.of(
        "eigenvalues",
        {
            Column("Eigenvector"): ordinals(len(model.eigenvalues_)),
            Column("Eigenvalue", "number"): model.eigenvalues_,
        },
        items="components",
    )
    drawn = np.asarray(model.eigenvalues_)[:MOST_ROWS]
    picture = Picture(
        "eigenvalues",
        "Eigenvalues",
        f"Bars: eigenvalues 1 to {len(drawn)}, from {number(float(drawn[0]))} down to "
        f"{number(float(drawn[-1]))}. The numbers are in the table below.",
        partial(charts.numbers, drawn, "eigenvector", "eigenvalue"),
        (values.name,),
    )
    exhibits = [Exhibit("Eigenvalues", text, [values], picture)]
    if not exact:
        return exhibits
    k = model.eigenvectors_.shape[1]
    cells = numbered(model.eigenvectors_, "number", "eigenvector")
    table = by_column("eigenvectors", columns, cells)
    tables = fitting(table, range(1, 1 + k), "eigenvectors")
    shown = min(k, MOST_ACROSS)
    text = "The weights of the columns in each eigenvector v, with vᵀ B v = 1."
    if len(columns) > MOST_ROWS:
        return [*exhibits, Exhibit("Eigenvectors", text, tables)]
    word = "eigenvector " if shown < 4 else ""
    titles = [f"{word}{i + 1}" for i in range(shown)]
    picture = Picture(
        "eigenvectors",
        "Weights of columns by eigenvector",
        f"Bars of the weights of {len(columns)} columns, to the right positive, to the "
        f"left negative. The numbers are in the table below.",
        partial(charts.loadings, model.eigenvectors_[:, :shown].T, columns, titles),
        (table.name,),
    )
    return [*exhibits, Exhibit("Eigenvectors", text, tables, picture)]

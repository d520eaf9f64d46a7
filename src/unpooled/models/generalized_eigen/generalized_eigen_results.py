"""Results of generalised eigenproblems: eigenvalues, and the weights of columns."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from unpooled.models.pca.pca_results import MANY_COLUMNS, MANY_COMPONENTS
from unpooled.results.exhibits import MOST_ROWS, Column, Exhibit, Picture, Table
from unpooled.results.fitted_attributes import by_component, numbered
from unpooled.results.formats import left_out, number
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
    values = by_component(
        "eigenvalues", "Eigenvalue", model.eigenvalues_, first="Eigenvector"
    )
    drawn = np.asarray(model.eigenvalues_)[:MOST_ROWS]
    picture = Picture(
        "eigenvalues",
        "Eigenvalues",
        f"Bars: eigenvalues 1 to {len(drawn)}, from {number(float(drawn[0]))} down to "
        f"{number(float(drawn[-1]))}. The numbers are in the table below.",
        partial(charts.numbers, drawn, "eigenvector"),
        (values.name,),
    )
    exhibits = [Exhibit("Eigenvalues", text, [values], picture)]
    if not exact:
        return exhibits
    k = model.eigenvectors_.shape[1]
    heads = numbered(k, "number", "eigenvector")
    rows = zip(columns, model.eigenvectors_.tolist(), strict=True)
    table = Table(
        "eigenvectors",
        (Column("Column"), *heads),
        [(column, *weights) for column, weights in rows],
        items="columns",
    )
    shown = min(k, MANY_COMPONENTS)
    note = left_out(shown, k, "eigenvectors", "first")
    tables = table.excerpt(columns=range(1 + shown), note=note) if note else [table]
    text = "The weights of the columns in each eigenvector v, with vᵀ B v = 1."
    if len(columns) > MANY_COLUMNS:
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

"""Results of generalised eigenproblems: eigenvalues, and the weights of columns."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from unpooled.models.pca.pca_results import MANY_COMPONENTS
from unpooled.results.exhibits import Column, Exhibit, Table
from unpooled.results.fitted_attributes import by_component
from unpooled.results.formats import left_out

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
    exhibits = [Exhibit("Eigenvalues", text, [values])]
    if not exact:
        return exhibits
    k = model.eigenvectors_.shape[1]
    heads = [Column(f"{i + 1}", "number", f"eigenvector_{i + 1}") for i in range(k)]
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
    return [*exhibits, Exhibit("Eigenvectors", text, tables)]

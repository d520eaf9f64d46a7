"""Results of generalised eigenproblems: eigenvalues, and the weights of columns."""

from collections.abc import Sequence

from unpooled.models.generalized_eigen.generalized_eigen import GeneralizedEigen
from unpooled.report.exhibits import Exhibit, Table
from unpooled.report.results.describe import MOST_ROWS, by_component, describe
from unpooled.report.results.pca import MANY_COMPONENTS
from unpooled.report.text.phrases import left_out, number


@describe.register
def _eigenpairs(model: GeneralizedEigen, columns: Sequence[str]) -> list[Exhibit]:
    exact = model.solver == "exact"
    text = (
        "Eigenvalues λ of A v = λ B v, with A and B added over all silos."
        if exact
        else "Eigenvalues of the sum of the silos’ whitened matrices, by a published "
        "one-shot algorithm, which is approximate."
    )
    values = by_component("Eigenvalue", model.eigenvalues_, first="Eigenvector")
    exhibits = [Exhibit("Eigenvalues", text, [values])]
    if not exact or len(model.eigenvectors_) > MOST_ROWS:
        return exhibits
    k = model.eigenvectors_.shape[1]
    vectors = model.eigenvectors_[:, :MANY_COMPONENTS]
    table = Table(
        "",
        ("Column", *[f"{i + 1}" for i in range(vectors.shape[1])]),
        [
            (column, *map(number, weights.tolist()))
            for column, weights in zip(columns, vectors, strict=True)
        ],
        left_out(vectors.shape[1], k, "eigenvectors", "first"),
    )
    text = "The weights of the columns in each eigenvector v, with vᵀ B v = 1."
    return [*exhibits, Exhibit("Eigenvectors", text, [table])]

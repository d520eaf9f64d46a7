"""Results of VFedPCA and VFedAKPCA: variances along merged directions, and loadings."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from unpooled.models.pca.pca_results import loadings
from unpooled.results.exhibits import Exhibit
from unpooled.results.fitted_attributes import by_component
from unpooled.results.formats import counted

if TYPE_CHECKING:
    from unpooled.models.vertical_pca.merged_directions import MergedDirections


def vertical_pca_exhibits(
    model: "MergedDirections", columns: Sequence[str]
) -> list[Exhibit]:
    """Return the exhibits of a fitted VFedPCA or VFedAKPCA."""
    # Not `hasattr`, here and below: silos would be asked for what they keep.
    if not {"explained_variance_", "history_"} <= set(vars(model)):
        return []
    text = (
        f"Variance of all columns along directions merged from the silos’ own in "
        f"{counted(len(model.history_), 'round')}, with denominator N − 1 (N people). "
        f"This is the published approximation: PCA on the same silos gives the "
        f"principal components of all columns together. The total variance of all "
        f"columns was not released, so the directions’ shares of it are not known."
    )
    table = by_component("variances", "Variance", model.explained_variance_)
    exhibits = [Exhibit("Variance along merged directions", text, [table])]
    if "components_" in vars(model):
        exhibits += loadings(model.components_, columns)
    return exhibits

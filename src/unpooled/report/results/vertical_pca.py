"""Results of VFedPCA and VFedAKPCA: variances along merged directions, and loadings."""

from collections.abc import Sequence

from unpooled.models.vertical_pca.vfedakpca import VFedAKPCA
from unpooled.models.vertical_pca.vfedpca import VFedPCA
from unpooled.report.exhibits import Exhibit
from unpooled.report.results.describe import by_component, describe, fitted_attributes
from unpooled.report.results.pca import loadings
from unpooled.report.text.phrases import counted


@describe.register
def _merged(model: VFedPCA | VFedAKPCA, columns: Sequence[str]) -> list[Exhibit]:
    # Not `hasattr`, here and below: silos would be asked for what they keep.
    if not {"explained_variance_", "history_"} <= set(vars(model)):
        return fitted_attributes(model, columns)
    text = (
        f"Variance of all columns along directions merged from the silos’ own in "
        f"{counted(len(model.history_), 'round')}, with denominator N − 1 (N people). "
        f"This is the published approximation: PCA on the same silos gives the "
        f"principal components of all columns together. The total variance of all "
        f"columns was not released, so the directions’ shares of it are not known."
    )
    table = by_component("Variance", model.explained_variance_)
    exhibits = [Exhibit("Variance along merged directions", text, [table])]
    if "components_" in vars(model):
        exhibits += loadings(model.components_, columns)
    return exhibits

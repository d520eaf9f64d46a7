"""Results of a personalized PCA: what is shared, and how much is each silo's own."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from unpooled.models.pca.pca_results import loadings
from unpooled.results.exhibits import Column, Exhibit, ResultTable
from unpooled.results.fitted_attributes import ordinals

if TYPE_CHECKING:
    from unpooled.models.pca.personalized import PersonalizedPCA


def personalized_exhibits(
    model: "PersonalizedPCA", columns: Sequence[str]
) -> list[Exhibit]:
    """Return the exhibits of a fitted personalized PCA."""
    if "components_" not in vars(model):
        return []
    shares = model.explained_variance_ratio_.tolist()
    own = float(model.own_variance_ratio_)
    rest = max(1.0 - (sum(shares) + own), 0.0)
    total = float(model.explained_variance_[0]) / shares[0] if shares[0] else 0.0
    names = [f"shared {k}" for k in ordinals(len(shares))]
    variances = [*model.explained_variance_.tolist(), own * total, rest * total]
    cells = {
        Column("Component"): [*names, "all own components of a silo", "none of these"],
        Column("Variance", "number"): variances,
        Column("Share", "share", bar=True): [*shares, own, rest],
    }
    text = (
        f"Variances along components that all silos share, and along "
        f"{model.n_own_components} more that each silo has of its own, orthogonal to "
        f"these: averages over the silos, which count alike. Found in "
        f"{model.n_iter_} rounds. Each silo keeps its own components."
    )
    table = ResultTable.of("explained_variance", cells, items="components")
    found = Exhibit("Shared and own components", text, [table])
    meaning = "These are shared by all silos."
    return [found, *loadings(model.components_, columns, meaning)]

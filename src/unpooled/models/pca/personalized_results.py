"""Results of a personalized PCA: what is shared, and how much is each silo's own."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from unpooled.models.pca.pca_results import loadings
from unpooled.results.exhibits import Column, Exhibit, Table

if TYPE_CHECKING:
    from unpooled.models.pca.personalized import PersonalizedPCA


def personalized_exhibits(
    model: "PersonalizedPCA", columns: Sequence[str]
) -> list[Exhibit]:
    """Return the exhibits of a fitted personalized PCA."""
    if "components_" not in vars(model):
        return []
    shares = model.explained_variance_ratio_.tolist()
    rows = [
        (f"shared {k + 1}", float(value), float(share))
        for k, (value, share) in enumerate(
            zip(model.explained_variance_.tolist(), shares, strict=True)
        )
    ]
    own = float(model.own_variance_ratio_)
    total = float(model.explained_variance_[0]) / shares[0] if shares[0] else 0.0
    what = "all own components of a silo"
    rows += [
        (what, own * total, own),
        ("none of these", *_left(total, sum(shares) + own)),
    ]
    heads = (
        Column("Component"),
        Column("Variance", "number"),
        Column("Share", "share", bar=True),
    )
    text = (
        f"Variances along components that all silos share, and along "
        f"{model.n_own_components} more that each silo has of its own, orthogonal to "
        f"these: averages over the silos, which count alike. Found in "
        f"{model.n_iter_} rounds. Each silo keeps its own components."
    )
    found = [
        Exhibit(
            "Shared and own components",
            text,
            [Table("explained_variance", heads, rows, items="components")],
        )
    ]
    meaning = "These are shared by all silos."
    return [*found, *loadings(model.components_, columns, meaning)]


def _left(total: float, share: float) -> tuple[float, float]:
    """Return the variance along no component, and its share."""
    rest = max(1.0 - share, 0.0)
    return rest * total, rest

"""Results of VFedPCA and VFedAKPCA: variances along merged directions, and loadings."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from unpooled.arrays import Array, Bool, Float
from unpooled.linalg.generalized_eigen import span_angles
from unpooled.models.pca.pca_results import loadings
from unpooled.results.exhibits import Column, Exhibit, ResultTable
from unpooled.results.fitted_attributes import ordinals
from unpooled.results.formats import counted, per_cent

if TYPE_CHECKING:
    from unpooled.models.vertical_pca.merged_directions import MergedDirections

_ROUNDING = 1e-9  # of a cosine


def vertical_pca_exhibits(
    model: "MergedDirections", columns: Sequence[str], later: Sequence[Any] = ()
) -> list[Exhibit]:
    """Return the exhibits of a fitted VFedPCA or VFedAKPCA.

    Parameters
    ----------
    model : VFedPCA or VFedAKPCA
        Fitted.
    columns : sequence of str
        Names of its columns.
    later : sequence of estimator
        Those of the steps after it: a PCA of the same columns among them is the exact
        answer.
    """
    # Not `hasattr`, here and below: silos would be asked for what they keep.
    if not {"explained_variance_", "history_"} <= set(vars(model)):
        return []
    exact = _exact(model, later)
    text = (
        f"Variance of all columns along directions merged from the silos’ own in "
        f"{counted(len(model.history_), 'round')}, with denominator N − 1 (N people). "
        f"This is the published approximation of the principal components of all "
        f"columns together. "
    )
    variance = np.asarray(model.explained_variance_, float)
    cells = {
        Column("Component"): ordinals(len(variance)),
        Column("Variance", "number"): variance,
    }
    if exact is None:
        text += (
            "How far it is from them is not known: neither they nor the total variance "
            "were opened. PCA gives them exactly on the same silos: with a PCA as a "
            "later step of the study, the two are compared here."
        )
    else:
        k = min(len(variance), len(exact.explained_variance_))
        best = np.full(len(variance), np.nan)
        best[:k] = exact.explained_variance_[:k]
        # Variances along directions that are not orthogonal must not be added up.
        share = np.where(
            _orthogonal(model, len(variance)),
            np.cumsum(variance) / np.cumsum(best),
            np.nan,
        )
        text += (
            f"The PCA of this study is the exact answer: no directions have more "
            f"variance together than as many principal components, and the first has "
            f"{per_cent(float(share[0]))} of that of the first component."
        )
        ratio = np.asarray(exact.explained_variance_ratio_, float)
        total = float(exact.explained_variance_[0] / ratio[0])
        of_best = Column(
            "Cumulative share of PCA’s", "share", "cumulative_share_of_pca"
        )
        cells |= {
            Column("Variance, PCA", "number"): best,
            of_best: share,
            Column("Share of the total", "share", "share_of_total"): variance / total,
        }
        if "components_" in vars(model) and "components_" in vars(exact):
            angles = np.full(len(variance), np.nan)
            angles[:k] = span_angles(model.components_[:k].T, exact.components_[:k].T)
            cells[Column("Angle, degrees", "number", "angle")] = angles
            text += (
                " The angle is the largest principal angle between the span of the "
                "loadings up to each direction and that of the components."
            )
    table = ResultTable.of("variances", cells, items="components")
    exhibits = [Exhibit("Variance along merged directions", text, [table])]
    if "components_" in vars(model):
        exhibits += loadings(model.components_, columns)
    return exhibits


def _exact(model: Any, later: Sequence[Any]) -> Any:
    """Return a fitted PCA of the same columns, or None."""
    # Without centring they are variances only along directions whose mean is 0, such
    # as those of a double-centred kernel matrix.
    U = vars(model).get("u_")
    if model.centre != "columns" and (U is None or _has_mean(U)):
        return None

    def names(one: Any) -> list[str]:
        return [str(name) for name in vars(one).get("feature_names_in_", ())]

    for one in later:
        is_pca = type(one).__name__ == "PCA" and "explained_variance_" in vars(one)
        width = vars(one).get("n_features_in_") == vars(model).get("n_features_in_")
        if is_pca and width and names(one) == names(model):
            return one
    return None


def _has_mean(U: Float[Array, "N k"]) -> bool:
    return bool((np.abs(U.sum(axis=0)) > _ROUNDING * np.sqrt(len(U))).any())


def _orthogonal(model: Any, k: int) -> Bool[Array, " k"]:
    """Return whether each merged direction is orthogonal to those before it."""
    U = vars(model).get("u_")
    if U is None:
        return np.arange(k) == 0
    cosines = np.tril(np.abs(U.T @ U), -1).max(axis=1)
    return np.logical_and.accumulate(cosines < _ROUNDING)

"""Rotated loadings of principal components: what questionnaires are read by.

A rotation is of a fitted PCA, and no other PCA: rotated components are neither in the
order of their variances nor, by promax, uncorrelated, so that they could not stand in
`components_`, where other estimators, scikit-learn's twin and `inverse_transform` rely
on that.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.linalg.rotation import rotated, rotation_of
from unpooled.models.parameter_checks import check_choice
from unpooled.results.exhibits import Column, Exhibit, ResultTable
from unpooled.results.fitted_attributes import columns_by, numbered, ordinals
from unpooled.results.summary import Summary, Tabular

_METHODS = ("varimax", "promax")


@final
@dataclass(frozen=True, repr=False)
class RotatedLoadings(Tabular):
    """Loadings of principal components after a rotation.

    They print as tables; ``to_frame()`` returns them as a pandas data frame.

    Attributes
    ----------
    loadings : (p, k) array
        Covariances of the columns with the rotated components of unit variance, of
        orthogonal rotations; of standardised columns these are correlations. By promax
        they are the weights of the correlated components in each column.
    rotation : (k, k) array
        ``L @ rotation`` are the rotated loadings, with L the components times the
        square roots of their variances.
    correlations : (k, k) array
        Correlations of the rotated components; the identity by varimax.
    explained_variance : (k,) array
        Sum of the squares of each one's loadings.
    columns : list of str
        Names of the p columns.
    """

    loadings: Float[Array, "p k"]
    rotation: Float[Array, "k k"]
    correlations: Float[Array, "k k"]
    explained_variance: Float[Array, " k"]
    columns: list[str]

    def summary(self) -> Summary:
        """Return the loadings and variances as tables."""
        k = self.loadings.shape[1]
        cells = numbered(self.loadings, "signed")
        tables = columns_by("loadings", self.columns, cells)
        variances = ResultTable.of(
            "explained_variance",
            {
                Column("Component"): ordinals(k),
                Column("Variance", "number", bar=True): self.explained_variance,
                **numbered(self.correlations, "signed"),
            },
            caption="Variances of the components, and their correlations.",
        )
        exhibit = Exhibit("Rotated loadings", "", [*tables, variances])
        return Summary("Rotated loadings of principal components", [exhibit])


def rotated_loadings(
    components: Float[Array, "k p"],
    variance: Float[Array, " k"],
    columns: Sequence[str],
    method: str,
    kaiser: bool,
) -> RotatedLoadings:
    """Return the loadings of principal components after a rotation; see `PCA.rotated`.

    Parameters
    ----------
    components : (k, p) array
        Orthonormal rows.
    variance : (k,) array
        Variances along them.
    columns : sequence of str
        Names of the p columns.
    method : {"varimax", "promax"}
        The criterion.
    kaiser : bool
        Whether rows of loadings are scaled to length 1 for the rotation.
    """
    check_choice("rotation", method, _METHODS)
    L = components.T * np.sqrt(variance)
    rotation = rotation_of(L, method, kaiser=kaiser)
    turned = rotated(L, rotation)
    return RotatedLoadings(
        turned,
        rotation.matrix,
        rotation.correlations,
        np.sum(turned**2, axis=0),
        list(columns),
    )

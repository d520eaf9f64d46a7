"""What VFedPCA and VFedAKPCA do with the silos' own directions: merge, then project.

    merge     u = Σ w_i a_i, of what each silo kept:
              `unpooled.models.vertical_pca.merge`
    project   components of the joined columns along u, kept by the silos, and scores:
              `unpooled.models.vertical_pca.projection`

Without a server neighbours do both: `unpooled.models.vertical_pca.neighbour_merge`.
"""

from typing import Any

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from unpooled.arrays import Array, Float
from unpooled.federation.federation import Federation
from unpooled.models.vertical_pca import merge as merging
from unpooled.models.vertical_pca import neighbour_merge as neighbours
from unpooled.models.vertical_pca import projection as projecting
from unpooled.models.vertical_pca.local_direction import with_positive_peaks
from unpooled.models.vertical_pca.projection import Projection


class MergedDirections(ClassNamePrefixFeaturesOutMixin, TransformerMixin):
    """Directions over the people, merged of the silos' own; these differ by model.

    Attributes
    ----------
    u_, scores_ : (N, k) arrays
        The merged directions, unit columns, and the scores.
    components_ : (k, p) array
        Loadings, kept by the silos.
    explained_variance_ : (k,) array
        Variance of the joined columns along u, with denominator N - 1.
    history_ : list of dict
        One for each merge.
    n_samples_ : int
        N.
    """

    u_: Float[Array, "N k"]
    scores_: Float[Array, "N k"]
    components_: Float[Array, "k p"]
    explained_variance_: Float[Array, " k"]
    history_: list[dict[str, Any]]
    n_samples_: int
    kept_: str
    n_components: int
    weights: str
    weight_scaling: bool
    align_signs: bool
    centre: str
    # The steps under the model's name.
    _merging: merging.Steps
    _projecting: projecting.Steps
    _neighbours: neighbours.Steps

    _partitions = ("columns",)
    _kept_by_silos = ("components_", *neighbours.KEPT)

    def _merge(self, federation: Federation, component: int) -> Float[Array, " N"]:
        """Return the merged direction of a round, and write it into the history."""
        u, weights = merging.merged(
            federation,
            self._merging,
            self.weights,
            scaling=self.weight_scaling,
            align_signs=self.align_signs,
        )
        self.history_.append({"u": u, "weights": weights, "component": component})
        return u

    def _project(self, federation: Federation, U: Float[Array, "N k"]) -> Projection:
        """Have the silos keep their loadings along directions; set what these tell."""
        self.u_ = with_positive_peaks(U)
        centred = self.centre == "columns"
        projection = Projection.fit(self._projecting, federation, self.u_, centred)
        self.explained_variance_ = projection.squares / (self.n_samples_ - 1)
        return projection

    def _scores_of(self, federation: Federation) -> Float[Array, "N k"]:
        """Return the scores of rows by the loadings that the silos keep."""
        projection = Projection(self._projecting, np.ones(self.n_components))
        return projection.scores(federation, self.kept_)

    @property
    def _n_features_out(self) -> int:
        return self.n_components

    def _gather(self, federation: Federation) -> None:
        neighbours.gather(self, federation, self._neighbours, self._projecting)

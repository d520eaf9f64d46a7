"""The fit that VFedPCA and VFedAKPCA share: local directions, merged, then projected.

    each silo   its own direction a_i over the people, kept: it differs by model
    merge       u = Σ w_i a_i: `merge`; T rounds for each component
    project     components of the joined columns along u, kept by the silos, and scores:
                `projection`

Without a server the neighbours do both: `neighbour_merge`.
"""

import abc
from typing import Any

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from unpooled.arrays import Array, Float
from unpooled.federation.federation import Federation
from unpooled.linalg.eigen import with_positive_peaks
from unpooled.linalg.settled import column_lengths
from unpooled.models.base import FederatedEstimator
from unpooled.models.vertical_pca import merge, neighbour_merge, projection
from unpooled.models.vertical_pca.vertical_pca_results import vertical_pca_exhibits
from unpooled.protocol.step import Step

REFERENCE = (
    "Cheung YM, Jiang J, Yu F, Lou J. Vertical federated principal component analysis "
    "and its kernel extension on feature-wise distributed data. 2022."
)


class MergedDirections(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, FederatedEstimator
):
    """Directions over the people, merged from the silos' own.

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
    n_components: int
    rounds: int
    warm_start: bool
    topology: Any
    weights: str
    weight_scaling: bool
    align_signs: bool
    centre: str

    _partitions = ("columns",)
    _kept_by_silos = ("components_", *neighbour_merge.KEPT)
    _steps = (merge, projection, neighbour_merge)
    # By which a silo keeps its direction, or sends it to its neighbours.
    _local: Step
    _neighbour: Step
    _exhibits_with = vertical_pca_exhibits

    @abc.abstractmethod
    def _check_parameters(self, N: int) -> None:
        """Raise DataError for parameters outside their ranges."""

    @abc.abstractmethod
    def _first_vector(self, federation: Federation) -> Float[Array, " N"]:
        """Return the vector that every silo starts each component from."""

    @abc.abstractmethod
    def _local_arguments(
        self, start: Float[Array, " N"], last: Float[Array, "N k"]
    ) -> dict[str, Any]:
        """Return the public arguments of `_local`, but for what was merged before.

        `start` is where an iteration starts, or `last` if it has a column.
        """

    @abc.abstractmethod
    def _neighbour_arguments(self, first: Float[Array, " N"]) -> dict[str, Any]:
        """Return the public arguments of `_neighbour`, but for the round's number.

        `first` is where the iteration of each component starts.
        """

    def _fit(self, federation: Federation, y: Any) -> None:
        N = federation.n_rows or 0
        self._check_parameters(N)
        first = self._first_vector(federation)
        self.n_samples_ = N
        if self.topology != "server":
            arguments = self._neighbour_arguments(first)
            neighbour_merge.fit(self, federation, self._neighbour, arguments)
            return
        self.history_, U = [], np.zeros((N, 0))
        for component in range(self.n_components):
            u = self._component(federation, component, first, U)
            U = np.column_stack([U, u / column_lengths(u[:, None])])
        self.u_ = with_positive_peaks(U)
        squares = projection.keep_loadings(
            federation, self.u_, centred=self.centre == "columns"
        )
        self.explained_variance_ = squares / (N - 1)
        self.scores_ = self._scores(federation)

    def _component(
        self,
        federation: Federation,
        component: int,
        first: Float[Array, " N"],
        found: Float[Array, "N q"],
    ) -> Float[Array, " N"]:
        """Run the rounds of one component; return the last merged direction."""
        last = replaced = np.zeros((len(first), 0))
        u = first
        for number in range(self.rounds):
            arguments = self._local_arguments(first, last)
            federation.keep(self._local, **arguments, replaced=replaced, found=found)
            u, weights = merge.merged(
                federation,
                self.weights,
                scaling=self.weight_scaling,
                align_signs=self.align_signs,
            )
            self.history_.append({"u": u, "weights": weights, "component": component})
            if number == 0:
                replaced = u[:, None]
            if self.warm_start:
                last = u[:, None]
        return u

    def _scores(self, federation: Federation) -> Float[Array, "N k"]:
        """Return the scores of the rows that were fitted."""
        return projection.scores(federation, self.n_components)

    def _scores_of(self, federation: Federation) -> Float[Array, "N k"]:
        """Return the scores of any rows by the loadings that the silos keep."""
        return projection.scores(federation, self.n_components, self.kept_)

    @property
    def _n_features_out(self) -> int:
        return self.n_components

    def _gather(self, federation: Federation) -> None:
        neighbour_merge.gather(self, federation)

"""Correlations of columns and spreads of classes along the discriminants.

    S_w, S_t   covariances within classes and of all rows, before any shrinkage
    V          directions, k of them
    correlations of columns with scores       from S V and the diagonals of S and Vᵀ S V
    covariances of scores within classes      Vᵀ S_w V, and Vᵀ C_k V for each class

With more columns than rows the covariances are of coordinates in a span, ``S = F A
Fᵀ``, and no matrix of columns by columns is formed.
"""

from dataclasses import dataclass
from typing import final

from unpooled.arrays import Array, Float
from unpooled.linalg.canonical_correlation import structure, structure_in_span


@final
@dataclass(frozen=True)
class ClassShapes:
    """Covariances before any shrinkage; denominators are N, and N_k of a class.

    Attributes
    ----------
    within : (r, r) array
        Within classes, each class counting by its rows, whatever the priors are.
    total : (r, r) array
        Covariance matrix of all rows.
    by_class : (c, r, r) array or None
        Covariance matrix of each class; None where the fit did not open them.
    factor : (p, r) array or None
        F, where the covariances are of coordinates in a span; None where they are of
        the columns.
    """

    within: Float[Array, "r r"]
    total: Float[Array, "r r"]
    by_class: Float[Array, "c r r"] | None = None
    factor: Float[Array, "p r"] | None = None

    def within_correlations(self, V: Float[Array, "p k"]) -> Float[Array, "p k"]:
        """Return correlations of columns with scores, about the means of classes."""
        return self._correlations(self.within, V)

    def total_correlations(self, V: Float[Array, "p k"]) -> Float[Array, "p k"]:
        """Return correlations of columns with scores, over all rows."""
        return self._correlations(self.total, V)

    def score_covariance(self, V: Float[Array, "p k"]) -> Float[Array, "k k"]:
        """Return the covariance of scores within classes."""
        inside = self._inside(V)
        return inside.T @ self.within @ inside

    def class_score_covariances(self, V: Float[Array, "p k"]) -> Float[Array, "c k k"]:
        """Return the covariance of each class's scores, where `by_class` is known."""
        assert self.by_class is not None
        inside = self._inside(V)
        return inside.T @ self.by_class @ inside

    def _inside(self, V: Float[Array, "p k"]) -> Float[Array, "r k"]:
        return V if self.factor is None else self.factor.T @ V

    def _correlations(
        self, S: Float[Array, "r r"], V: Float[Array, "p k"]
    ) -> Float[Array, "p k"]:
        if self.factor is None:
            return structure(S, V)
        return structure_in_span(self.factor, S, V)

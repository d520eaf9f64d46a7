"""The probabilistic model behind PCA, by its twin in scikit-learn.

References
----------
Tipping and Bishop, Mixtures of probabilistic principal component analyzers, Neural
Computation 11 (1999).
"""

from typing import Any

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from unpooled.arrays import Array, Float


class ProbabilisticPCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin):
    """What a fitted PCA says about rows as draws from a Gaussian; part of `PCA`."""

    def get_covariance(self: Any) -> Float[Array, "p p"]:
        """Return the covariance of the fitted probabilistic model."""
        return self.to_sklearn().get_covariance()

    def get_precision(self: Any) -> Float[Array, "p p"]:
        """Return the inverse of `get_covariance`."""
        return self.to_sklearn().get_precision()

    def score_samples(self: Any, X: Any) -> Float[Array, " n"]:
        """Return the log-likelihood of each row under the probabilistic model."""
        return self.to_sklearn().score_samples(self._check_rows(X))

    def score(self: Any, X: Any, y: Any = None) -> float:
        """Return the mean log-likelihood of rows under the probabilistic model."""
        return float(np.mean(self.score_samples(X)))

    def to_sklearn(self: Any) -> Any:
        """Return a fitted `sklearn.decomposition.PCA`, usable without this library."""
        import sklearn.decomposition

        check_is_fitted(self)
        twin = sklearn.decomposition.PCA(
            self.n_components, whiten=self.whiten, svd_solver="covariance_eigh"
        )
        return self._taught(twin)

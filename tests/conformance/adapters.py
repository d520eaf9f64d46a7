"""Our estimators under scikit-learn's constructors, so that its own tests can run them.

`fit` splits the rows over three silos, or as many as there are rows, and fits ours on
the federation; everything else is passed on. What an option of scikit-learn's cannot
mean here is refused, and the cases that need it are in the table of left_out.py.
"""

from typing import Any, ClassVar, final

import numpy as np
import sklearn.decomposition
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

import unpooled
from unpooled.models.base import FederatedEstimator

SILOS = 3
# Solvers that give the exact answer from a covariance or a whole decomposition; ours is
# one of them. "arpack" and "randomized" are other algorithms with options of their own.
EXACT = ("auto", "full", "covariance_eigh")


class Adapter(BaseEstimator):
    """What the adapters share."""

    # Set by a test's fixture where its numbers exceed the range of the masked code.
    secure_sum: ClassVar[str] = "masked"

    def ours(self) -> FederatedEstimator:
        """Return our estimator with what the constructor was given."""
        raise NotImplementedError

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Split the rows over silos and fit ours on them."""
        if sample_weight is not None:
            raise NotImplementedError("sample_weight")
        return self.holding(self.ours().fit(self.federation(X)))

    def holding(self, model: Any) -> Any:
        """Take a fitted model's attributes, and nothing of the fit before."""
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, name)
        for name in [name for name in vars(model) if name.endswith("_")]:
            setattr(self, name, getattr(model, name))
        self.model_ = model
        return self

    def federation(self, X: Any) -> unpooled.Federation:
        """Return the rows in silos."""
        X = np.asarray(X) if isinstance(X, list) else X
        silos = unpooled.partition_rows(X, min(SILOS, len(X)))
        # Nobody shares a mask with a single silo.
        secure_sum = self.secure_sum if len(silos) > 1 else "plain"
        return unpooled.simulate(
            silos, policy=unpooled.Policy.open(), secure_sum=secure_sum
        )

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Fit, then transform the rows here."""
        return self.fit(X, y).transform(X)

    def transform(self, X: Any, copy: Any = None) -> Any:
        """Transform rows here."""
        check_is_fitted(self)
        return self.model_.transform(X)

    def inverse_transform(self, X: Any) -> Any:
        """Return rows to their units."""
        return self.model_.inverse_transform(X)

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Return the names of the columns that come out."""
        return self.model_.get_feature_names_out(input_features)


@final
class PCA(Adapter):
    """`unpooled.PCA` as `sklearn.decomposition.PCA`."""

    # In tests that compare a solver with "full", "full" stays scikit-learn's.
    theirs: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self,
        n_components: Any = None,
        *,
        copy: bool = True,
        whiten: bool = False,
        svd_solver: str = "auto",
        tol: float = 0.0,
        iterated_power: Any = "auto",
        n_oversamples: int = 10,
        power_iteration_normalizer: str = "auto",
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.copy = copy
        self.whiten = whiten
        self.svd_solver = svd_solver
        self.tol = tol
        self.iterated_power = iterated_power
        self.n_oversamples = n_oversamples
        self.power_iteration_normalizer = power_iteration_normalizer
        self.random_state = random_state

    def ours(self) -> FederatedEstimator:
        """Return our PCA; only the exact solvers mean the same."""
        if self.svd_solver not in EXACT:
            raise NotImplementedError(f"svd_solver={self.svd_solver!r}")
        return unpooled.PCA(self.n_components, whiten=self.whiten)

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Fit ours, or the reference that a test compares it with."""
        if self.svd_solver not in self.theirs:
            return super().fit(X, y, sample_weight)
        return self.holding(sklearn.decomposition.PCA(**self.get_params()).fit(X))

    def get_covariance(self) -> Any:
        """Return the covariance of the fitted model."""
        return self.model_.get_covariance()

    def get_precision(self) -> Any:
        """Return its inverse."""
        return self.model_.get_precision()

    def score(self, X: Any, y: Any = None) -> float:
        """Return the mean log-likelihood of rows."""
        return self.model_.score(X)


@final
class StandardScaler(Adapter):
    """`unpooled.StandardScaler` as `sklearn.preprocessing.StandardScaler`."""

    def __init__(
        self, *, copy: bool = True, with_mean: bool = True, with_std: bool = True
    ) -> None:
        self.with_mean = with_mean
        self.with_std = with_std
        self.copy = copy

    def ours(self) -> FederatedEstimator:
        """Return our scaler; it never works in place."""
        return unpooled.StandardScaler(with_mean=self.with_mean, with_std=self.with_std)


@final
class SimpleImputer(Adapter):
    """`unpooled.SimpleImputer` as `sklearn.impute.SimpleImputer`."""

    def __init__(
        self,
        *,
        missing_values: Any = np.nan,
        strategy: str = "mean",
        fill_value: Any = None,
        copy: bool = True,
        add_indicator: bool = False,
        keep_empty_features: bool = False,
    ) -> None:
        self.missing_values = missing_values
        self.strategy = strategy
        self.fill_value = fill_value
        self.copy = copy
        self.add_indicator = add_indicator
        self.keep_empty_features = keep_empty_features

    def ours(self) -> FederatedEstimator:
        """Return our imputer; it has no column of indicators."""
        if self.add_indicator:
            raise NotImplementedError("add_indicator")
        return unpooled.SimpleImputer(
            self.strategy,
            fill_value=self.fill_value,
            keep_empty_features=self.keep_empty_features,
            min_rows=1,
        )

    def recoded(self, X: Any) -> Any:
        """Write other marks of missing cells as NaN, as `open_source` does."""
        if self.missing_values is not np.nan:
            return np.where(X == self.missing_values, np.nan, X)
        return X

    def federation(self, X: Any) -> unpooled.Federation:
        """Return the rows in silos, recoded."""
        return super().federation(self.recoded(X))

    def transform(self, X: Any, copy: Any = None) -> Any:
        """Fill rows here."""
        return super().transform(self.recoded(X))


@final
class PowerTransformer(Adapter):
    """`unpooled.PowerTransformer` as `sklearn.preprocessing.PowerTransformer`."""

    def __init__(
        self,
        method: str = "yeo-johnson",
        *,
        standardize: bool = True,
        copy: bool = True,
    ) -> None:
        self.method = method
        self.standardize = standardize
        self.copy = copy

    def ours(self) -> FederatedEstimator:
        """Return ours, by sums: signs give the same exponents, and take longer."""
        if self.method != "yeo-johnson":
            raise NotImplementedError(f"method={self.method!r}")
        return unpooled.PowerTransformer(
            standardize=self.standardize, comparison="summed"
        )

    def inverse_transform(self, X: Any) -> Any:
        """Return rows to their units, by exponents that a test may have set."""
        check_is_fitted(self)
        self.model_.lambdas_ = np.asarray(self.lambdas_, float)
        return super().inverse_transform(X)

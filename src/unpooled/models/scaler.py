"""Standardising columns by the federation's means and deviations.

    round 1   silos ── counts and sums, per column ───────────────────────> means
    round 2   silos <── means ──  silos ── squares about them, per column ──> variances

Two rounds rather than one with raw squares: their difference would lose the digits of a
column whose mean is large beside its spread.
"""

from collections.abc import Mapping
from typing import Any, final

import numpy as np
from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from unpooled.arrays import Array, Float, Int
from unpooled.errors import DataError
from unpooled.federation.base import Federation
from unpooled.linalg.moments import squared_deviations
from unpooled.models import moments
from unpooled.models.base import FederatedEstimator
from unpooled.party.step import Fit, adopted, derived, release, summed

(local_observed,) = adopted(__name__, moments.local_observed)


@summed(
    takes={"mean": "p"},
    squares=release(
        "p", meaning="each column's squared distances from its mean, added"
    ),
)
def local_squares(
    X: Float[Array, "n p"], *, mean: Float[Array, " p"]
) -> dict[str, Any]:
    """Add squares about the federation's means."""
    return {"squares": squared_deviations(X, mean)}


def _are_moments(fits: Mapping[str, Fit], public: Mapping[str, Any]) -> bool:
    count, mean = _counts_and_means(**fits["local_observed"].totals)
    scale = np.ones(len(mean))
    if squares := fits.get("local_squares"):
        # About another mean the deviations would be somebody's choice.
        if not np.array_equal(squares.public["mean"], np.nan_to_num(mean)):
            return False
        scale = _scale(_variance(squares.totals["squares"], count), mean, count)
    means = (mean, np.zeros(len(mean)))
    scales = (scale, np.ones(len(mean)))
    return any(_same(public["mean"], one) for one in means) and any(
        _same(public["scale"], one) for one in scales
    )


@derived(
    takes={"mean": "p", "scale": "p"},
    fitted_by=("scaler.local_squares", "scaler.local_observed"),
    follows=_are_moments,
    by_column=True,
)
def standardised(
    X: Float[Array, "n p"], *, mean: Float[Array, " p"], scale: Float[Array, " p"]
) -> Float[Array, "n p"]:
    """Subtract and divide; missing cells stay missing."""
    return (X - mean) / scale


@final
class StandardScaler(OneToOneFeatureMixin, TransformerMixin, FederatedEstimator):
    """Standardise columns to mean 0 and variance 1 over all silos.

    Parameters
    ----------
    with_mean : bool, default True
        Subtract the mean.
    with_std : bool, default True
        Divide by the standard deviation.

    Attributes
    ----------
    mean_ : (p,) array or None
        Mean of the cells that are there; None if neither option needs it.
    var_ : (p,) array or None
        Variance, with denominator N (the cells that are there); None without
        `with_std`.
    scale_ : (p,) array or None
        ``sqrt(var_)``, and 1 for constant columns.
    n_samples_seen_ : int or (p,) array of int
        N; by column where cells are missing.
    n_features_in_ : int
        Columns seen in `fit`.
    feature_names_in_ : (p,) array of str
        Their names, where the silos' tables have names.

    Notes
    -----
    Released, as totals only: per column the number of cells that are there, their sum,
    and their squared distances from the federation's mean. Never released: a row, or
    any silo's own count, sum or squares.

    Missing cells are left out, and stay missing in `transform`.

    See Also
    --------
    sklearn.preprocessing.StandardScaler : its twin on pooled rows.
    """

    mean_: Float[Array, " p"] | None
    var_: Float[Array, " p"] | None
    scale_: Float[Array, " p"] | None

    def __init__(self, *, with_mean: bool = True, with_std: bool = True) -> None:
        self.with_mean = with_mean
        self.with_std = with_std

    def _fit(self, federation: Federation, y: Any) -> None:
        totals = federation.sum(local_observed)
        count, mean = _counts_and_means(**totals)
        if not count.any():
            raise DataError("No silo has a single value in the columns selected.")
        self.n_samples_seen_ = int(count[0]) if (count == count[0]).all() else count
        self.mean_ = mean if self.with_mean or self.with_std else None
        self.var_ = self.scale_ = None
        if self.with_std:
            squares = federation.sum(local_squares, mean=np.nan_to_num(mean))["squares"]
            self.var_ = _variance(squares, count)
            self.scale_ = _scale(self.var_, mean, count)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def transform(self, X: Any) -> Any:
        """Standardise an array, or every silo's rows, lazily.

        Parameters
        ----------
        X : (n, p) array-like or Federation
            A federation gives a view; nothing leaves a silo.
        """
        if isinstance(X, Federation):
            view = self._check_view(X)
            mean, scale = self._mean_and_scale()
            return view.derive(standardised, view.feature_names, mean=mean, scale=scale)
        X = self._check_rows(X, missing=True)
        mean, scale = self._mean_and_scale()
        return standardised(X, mean=mean, scale=scale)

    def inverse_transform(self, X: Any) -> Float[Array, "n p"]:
        """Return rows to the units of the data.

        Parameters
        ----------
        X : (n, p) array-like
            Standardised rows.
        """
        check_is_fitted(self)
        X = self._check_transformed(X, self.n_features_in_, missing=True)
        mean, scale = self._mean_and_scale()
        return X * scale + mean

    def to_sklearn(self) -> Any:
        """Return a fitted `sklearn.preprocessing.StandardScaler`."""
        import sklearn.preprocessing

        check_is_fitted(self)
        twin = sklearn.preprocessing.StandardScaler(
            with_mean=self.with_mean, with_std=self.with_std
        )
        return self._taught(twin)

    def _mean_and_scale(self) -> tuple[Float[Array, " p"], Float[Array, " p"]]:
        p = self.n_features_in_
        mean = self.mean_ if self.with_mean and self.mean_ is not None else np.zeros(p)
        return mean, np.ones(p) if self.scale_ is None else self.scale_


def _counts_and_means(
    count: Array, total: Float[Array, " p"]
) -> tuple[Int[Array, " p"], Float[Array, " p"]]:
    count = np.rint(count).astype(np.int64)
    # A column without any value has mean NaN, as in scikit-learn.
    mean = np.divide(total, count, out=np.full(len(count), np.nan), where=count > 0)
    return count, mean


def _variance(squares: Float[Array, " p"], count: Array) -> Float[Array, " p"]:
    return np.where(count > 0, squares / np.maximum(count, 1), np.nan)


def _same(one: Float[Array, " p"], other: Float[Array, " p"]) -> bool:
    return np.array_equal(one, other, equal_nan=True)


def _scale(
    variance: Float[Array, " p"], mean: Float[Array, " p"], count: Array
) -> Float[Array, " p"]:
    """Return the deviation, and 1 where it is nothing but rounding of a constant."""
    eps = np.finfo(float).eps
    # The bound on the rounding error of a two-pass variance that scikit-learn uses.
    constant = variance <= count * eps * variance + (count * mean * eps) ** 2
    return np.where(constant, 1.0, np.sqrt(variance))

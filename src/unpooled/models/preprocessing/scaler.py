"""Standardising columns by the federation's means and deviations.

    round 1   silos ── counts and sums, per column ───────────────────────> means
    round 2   silos <── means ──  silos ── squares about them, per column ──> variances

Two rounds rather than one with raw squares: their difference would lose the digits of a
column whose mean is large beside its spread. On a column partition each silo does both
for its own columns, keeps the result, and nothing leaves.
"""

from collections.abc import Mapping
from typing import Any, final

import numpy as np
from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from unpooled.arrays import Array, Float
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.linalg.moments import squared_deviations
from unpooled.models import moments
from unpooled.models.base import FederatedEstimator
from unpooled.protocol.step import (
    Fit,
    adopted,
    derived,
    disclosed,
    kept,
    public,
    release,
    stays,
    summed,
)

local_observed, own_observed = adopted(
    __name__, moments.local_observed, moments.own_observed
)


@summed(
    takes={"mean": public("p", "the mean of each column over all silos")},
    squares=release(
        "p", meaning="each column's squared deviations from its mean, added"
    ),
)
def local_squares(
    X: Float[Array, "n p"], *, mean: Float[Array, " p"]
) -> dict[str, Any]:
    """Add squares about the federation's means."""
    return {"squares": squared_deviations(X, mean)}


def _are_moments(fits: Mapping[str, Fit], public: Mapping[str, Any]) -> bool:
    sums = fits["local_observed"].totals
    count, mean = np.rint(sums["count"]).astype(np.int64), _mean(sums)
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
    takes={
        "mean": public("p", "the mean of each column over all silos"),
        "scale": public("p", "the standard deviation of each column over all silos"),
    },
    fitted_by=("scaler.local_squares", "scaler.local_observed"),
    follows=_are_moments,
    by_column=True,
)
def standardised(
    X: Float[Array, "n p"], *, mean: Float[Array, " p"], scale: Float[Array, " p"]
) -> Float[Array, "n p"]:
    """Subtract and divide; missing cells stay missing."""
    return (X - mean) / scale


@kept(squares=stays("p", meaning="each own column's squared deviations from its mean"))
def own_squares(X: Float[Array, "n p"], kept: Any) -> dict[str, Any]:
    """Add squares about the means of the silo's own columns."""
    return {"squares": squared_deviations(X, np.nan_to_num(_mean(kept)))}


@derived(fitted_by=("scaler.own_squares", "scaler.own_observed"), by_column=True)
def own_standardised(
    X: Float[Array, "n p"], kept: Any, *, with_mean: bool, with_std: bool
) -> Float[Array, "n p"]:
    """Standardise by what the silo itself keeps of its columns."""
    mean, p = _mean(kept), X.shape[1]
    scale = np.ones(p)
    if with_std:
        scale = _scale(_variance(kept["squares"], kept["count"]), mean, kept["count"])
    return (X - (mean if with_mean else np.zeros(p))) / scale


@disclosed(
    count=release(
        "p", meaning="how many rows have a value in each of the silo's columns"
    ),
    total=release("p", meaning="the sum of each of the silo's columns"),
)
def shown_sums(kept: Any) -> dict[str, Any]:
    """Disclose what the means of the silo's own columns follow from."""
    return {"count": kept["count"], "total": kept["total"]}


@disclosed(
    squares=release("p", meaning="each own column's squared deviations from its mean")
)
def shown_squares(kept: Any) -> dict[str, Any]:
    """Disclose what the variances of the silo's own columns follow from."""
    return {"squares": kept["squares"]}


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
    any silo's own count, sum or squares. On a column partition nothing is released:
    each silo keeps the figures of its own columns, and `transform` uses them there.

    Missing cells are left out, and stay missing in `transform`.

    See Also
    --------
    sklearn.preprocessing.StandardScaler : its twin on pooled rows.
    """

    mean_: Float[Array, " p"] | None
    var_: Float[Array, " p"] | None
    scale_: Float[Array, " p"] | None

    _partitions = ("rows", "columns")
    _missing = True
    _kept_by_silos = ("mean_", "var_", "scale_", "n_samples_seen_")

    def __init__(self, *, with_mean: bool = True, with_std: bool = True) -> None:
        self.with_mean = with_mean
        self.with_std = with_std

    def _fit(self, federation: Federation, y: Any) -> None:
        if federation.partition == "columns":
            federation.keep(own_observed)
            if self.with_std:
                federation.keep(own_squares)
            return
        totals = federation.sum(local_observed)
        count = np.rint(totals["count"])
        if not count.any():
            raise DataError("No silo has a single value in the columns selected.")
        squares = None
        if self.with_std:
            mean = np.nan_to_num(_mean(totals))
            squares = federation.sum(local_squares, mean=mean)["squares"]
        self._set(count, totals["total"], squares)

    def _set(
        self,
        count: Float[Array, " p"],
        total: Float[Array, " p"],
        squares: Float[Array, " p"] | None,
    ) -> None:
        seen = np.rint(count).astype(np.int64)
        mean = _mean({"count": count, "total": total})
        self.n_samples_seen_ = int(seen[0]) if (seen == seen[0]).all() else seen
        self.mean_ = mean if self.with_mean or self.with_std else None
        self.var_ = self.scale_ = None
        if squares is not None:
            self.var_ = _variance(squares, seen)
            self.scale_ = _scale(self.var_, mean, seen)

    def _gather(self, federation: Federation) -> None:
        steps = [shown_sums, *([shown_squares] if self.with_std else [])]
        told = [federation.collect(step, kept_of=self.kept_) for step in steps]
        figures = {
            name: np.concatenate([values[party][name] for party in federation.parties])
            for values in told
            for name in values[federation.parties[0]]
        }
        self._set(figures["count"], figures["total"], figures.get("squares"))

    def transform(self, X: Any) -> Any:
        """Standardise an array, or every silo's rows, lazily.

        Parameters
        ----------
        X : (n, p) array-like or Federation
            A federation gives a view; nothing leaves a silo.
        """
        if isinstance(X, Federation):
            view = self._check_view(X)
            if view.partition == "columns":
                return view.derive(
                    own_standardised,
                    kept_of=self.kept_,
                    with_mean=self.with_mean,
                    with_std=self.with_std,
                )
            mean, scale = self._mean_and_scale()
            return view.derive(standardised, view.feature_names, mean=mean, scale=scale)
        X = self._check_rows(X)
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
        X = self._check_transformed(X, self.n_features_in_)
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


def _mean(sums: Any) -> Float[Array, " p"]:
    """Return the means, NaN for a column without any value, as in scikit-learn."""
    count = sums["count"]
    nowhere = np.full(len(count), np.nan)
    return np.divide(sums["total"], count, out=nowhere, where=count > 0)


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

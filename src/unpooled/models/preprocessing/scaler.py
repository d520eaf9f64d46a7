"""Standardisation of columns by their means and standard deviations over all silos.

    round 1   silos ── the number of observed cells of each column ───────> counts
    round 2   silos <── counts ─  silos ── the sums of these cells ───────> means
    round 3   silos <── means ──  silos ── sums of squared deviations ────> variances

Each silo judges the counts before it sends sums: the mean of a single cell would be
that person's value. Squares have a round of their own because the difference of raw
squares loses the digits of a column whose mean is large relative to its deviation. On
a column partition each silo does both for its own columns and keeps the result; nothing
is released. With `privacy` all moments come from one round, with noise:
`unpooled.models.preprocessing.private_moments`.
"""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, final

import numpy as np
from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from unpooled.arrays import Array, Float
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.linalg.moments import squared_deviations
from unpooled.models.base import FederatedEstimator, disclosed_columns, input_names
from unpooled.models.moments import (
    MEAN,
    OBSERVED,
    SQUARES,
    local_counts,
    local_observed,
    own_observed,
    pooled_sums,
)
from unpooled.models.preprocessing import private_moments
from unpooled.models.preprocessing.preprocessing_results import scaler_exhibits
from unpooled.models.private_rows import check_single_round
from unpooled.protocol.step import (
    derived,
    disclosed,
    kept,
    public,
    release,
    stays,
    summed,
)
from unpooled.results.citations import Citation
from unpooled.secure.noise import GaussianPrivacy


@summed(
    within_silos=True,
    takes={
        "count": OBSERVED,
        "mean": MEAN,
    },
    squares=release("p", meaning=SQUARES),
)
def local_squares(
    X: Float[Array, "n p"], *, count: Float[Array, " p"], mean: Float[Array, " p"]
) -> dict[str, Any]:
    """Return the sums of squared deviations from the federation's means."""
    return {"squares": squared_deviations(X, mean)}


@derived(
    takes={
        "mean": MEAN,
        "scale": public("p", "the standard deviation of each column over all silos"),
    },
    by_column=True,
    affine=True,
)
def standardised(
    X: Float[Array, "n p"], *, mean: Float[Array, " p"], scale: Float[Array, " p"]
) -> Float[Array, "n p"]:
    """Return the rows minus the mean, divided by the scale; NaN stay NaN."""
    rows = X - mean
    rows /= scale
    return rows


@kept(squares=stays("p", meaning="each own column's squared deviations from its mean"))
def own_squares(X: Float[Array, "n p"], kept: Any) -> dict[str, Any]:
    """Return the sums of squared deviations of the silo's own columns."""
    mean = _mean(kept["total"], kept["count"])
    return {"squares": squared_deviations(X, np.nan_to_num(mean))}


@derived(by_column=True, affine=True)
def own_standardised(
    X: Float[Array, "n p"], kept: Any, *, with_mean: bool, with_std: bool
) -> Float[Array, "n p"]:
    """Return the rows standardised by the kept moments of the silo's own columns."""
    count = kept["count"]
    mean, scale = _mean(kept["total"], count), np.ones(len(count))
    if with_std:
        scale = _scale(_variance(kept["squares"], count), mean, count)
    return (X - (mean if with_mean else np.zeros(len(count)))) / scale


@disclosed(
    count=release(
        "p", meaning="how many rows have a value in each of the silo's columns"
    ),
    total=release("p", meaning="the sum of each of the silo's columns"),
)
def shown_sums(kept: Any) -> dict[str, Any]:
    """Return the counts and sums of the silo's own columns."""
    return {"count": kept["count"], "total": kept["total"]}


@disclosed(
    squares=release(
        "p",
        meaning="sum of squares of each of the silo's columns (squared deviations from "
        "its mean)",
    )
)
def shown_squares(kept: Any) -> dict[str, Any]:
    """Return the sums of squared deviations of the silo's own columns."""
    return {"squares": kept["squares"]}


@final
@dataclass(eq=False, repr=False)
class StandardScaler(OneToOneFeatureMixin, TransformerMixin, FederatedEstimator):
    """Standardise columns to mean 0 and variance 1 over all silos.

    Parameters
    ----------
    with_mean : bool, default True
        Subtract the mean.
    with_std : bool, default True
        Divide by the standard deviation.
    privacy : GaussianPrivacy, optional
        Differential privacy: noise in the totals that hides any one row. Of the scaler
        alone; models after it have a `privacy` of their own, and the costs add up. On a
        row partition.

    Attributes
    ----------
    mean_ : (p,) array or None
        Mean of the observed cells; None without `with_mean` and `with_std`.
    var_ : (p,) array or None
        Variance, with the number of observed cells as denominator; None without
        `with_std`.
    scale_ : (p,) array or None
        ``sqrt(var_)``, and 1 for constant columns; None without `with_std`.
    n_samples_seen_ : int or (p,) array of int
        Number of observed cells; an array where it differs between columns.
    mean_se_ : (p,) array
        Only with `privacy`: standard errors of `mean_`, of sampling and of the noise
        together; without `with_std` of the noise alone. Intervals at 95 % are the
        estimates ± 1.96 standard errors. They do not cover what clipping moved.
    var_se_ : (p,) array
        Only with `privacy`: the same of `var_`, where columns are normal.
    privacy_ : dict
        Only with `privacy`: its parameters, the neighbouring relation ("neighbours"),
        the cost "rho", and the "total_rho" and "total_epsilon" of this fit together
        with the private transforms before it.
    kept_ : str
        Only on a column partition: study and view under which the silos keep the
        moments of their columns.
    n_features_in_ : int
        p, the number of columns seen in `fit`.
    feature_names_in_ : (p,) array of str
        Names of the columns, where the silos' tables have names.

    Raises
    ------
    DataError
        Where no silo has a value, for an infinite cell, and with `privacy` on a column
        partition.

    Notes
    -----
    Released, as totals only: for each column the number of observed cells; then, unless
    some silo finds them too few (`min_rows`, and `min_own_cells` of its own), their sum
    and the sum of their squared deviations from the federation's mean. Never released:
    a row, or any silo's own count, sum or squares. On a column partition nothing is
    released: each silo keeps the moments of its own columns, and `transform` uses them
    there.

    Missing cells are left out of the moments, and stay missing in `transform`.

    With `privacy` the totals are N, the sums and the sums of squares about a public
    centre, with noise. Rows are clipped before, and a row with a missing or infinite
    cell counts as one at the centre: to leave it out of a count would reveal it. A
    variance is at least the standard deviation of its noise.

    See Also
    --------
    sklearn.preprocessing.StandardScaler : its twin on pooled rows.

    References
    ----------
    Chan, Golub and LeVeque, Algorithms for computing the sample variance: analysis and
    recommendations, The American Statistician 37 (1983).
    """

    mean_: Float[Array, " p"] | None = field(init=False)
    var_: Float[Array, " p"] | None = field(init=False)
    scale_: Float[Array, " p"] | None = field(init=False)

    _partitions = ("rows", "columns")
    _gives_views = ("rows", "columns")
    _missing = True
    _kept_by_silos = ("mean_", "var_", "scale_", "n_samples_seen_")
    _computed = ("mean_se_", "var_se_")
    _steps = (local_counts, local_observed, own_observed, private_moments)
    _exhibits = scaler_exhibits

    _: KW_ONLY
    with_mean: bool = True
    with_std: bool = True
    privacy: Any = None

    def _units(self) -> Mapping[str, str]:
        unit = "standard deviations"
        return dict.fromkeys(input_names(self), unit) if self.with_std else {}

    def _citation(self) -> Citation:
        done = ["centred at their means"] * self.with_mean
        done += ["divided by their standard deviations"] * self.with_std
        text = " and ".join(done) or "left as they were"
        if self.privacy is not None:
            return Citation(
                f"Columns were {text}, over the rows of all silos, with random noise "
                f"in the totals for differential privacy.",
                (
                    "Dwork C, Roth A. The algorithmic foundations of differential "
                    "privacy. Foundations and Trends in Theoretical Computer Science "
                    "2014; 9: 211-407.",
                ),
                False,
            )
        return Citation(
            f"Columns were {text}, over the rows of all silos.",
            (
                "Chan TF, Golub GH, LeVeque RJ. Algorithms for computing the sample "
                "variance: analysis and recommendations. The American Statistician "
                "1983; 37: 242-247.",
            ),
        )

    def _fit(self, federation: Federation, y: Any) -> None:
        if self.privacy is not None:
            self._fit_privately(federation)
            return
        if federation.partition == "columns":
            federation.keep(own_observed)
            if self.with_std:
                federation.keep(own_squares)
            return
        count, total = pooled_sums(federation)
        if not count.any():
            raise DataError("No silo has a single value in the columns selected.")
        squares = None
        if self.with_std:
            mean = np.nan_to_num(_mean(total, count))
            squares = federation.sum(local_squares, count=count, mean=mean)["squares"]
        self._set(count, total, squares)

    def _fit_privately(self, federation: Federation) -> None:
        privacy = GaussianPrivacy.of(self.privacy)
        if federation.partition == "columns":
            raise DataError(
                "A StandardScaler on a column partition releases nothing: each silo "
                "keeps the moments of its own columns. Leave privacy out."
            )
        check_single_round(privacy, "StandardScaler")
        if not (self.with_mean or self.with_std):
            raise DataError(
                "Without with_mean and with_std a StandardScaler finds nothing that "
                "privacy could be spent on."
            )
        found = private_moments.private_moments(
            federation, privacy, with_std=self.with_std
        )
        self.n_samples_seen_, self.mean_ = found.N, found.mean
        self.mean_se_, self.privacy_ = found.mean_se, found.privacy
        self.var_ = self.scale_ = None
        if found.variance is not None:
            self.var_, self.var_se_ = found.variance, found.variance_se
            self.scale_ = np.sqrt(found.variance)

    def _set(
        self,
        count: Array,
        total: Float[Array, " p"],
        squares: Float[Array, " p"] | None,
    ) -> None:
        """Set the fitted attributes from counts, sums and squared deviations."""
        count = np.rint(count).astype(np.int64)
        mean = _mean(total, count)
        self.n_samples_seen_ = int(count[0]) if (count == count[0]).all() else count
        self.mean_ = mean if self.with_mean or self.with_std else None
        self.var_ = self.scale_ = None
        if squares is not None:
            self.var_ = _variance(squares, count)
            self.scale_ = _scale(self.var_, mean, count)

    def _gather(self, federation: Federation) -> None:
        found = disclosed_columns(federation, shown_sums, kept_of=self.kept_)
        if self.with_std:
            found |= disclosed_columns(federation, shown_squares, kept_of=self.kept_)
        self._set(found["count"], found["total"], found.get("squares"))

    def transform(self, X: Any) -> Any:
        """Return standardised rows.

        Parameters
        ----------
        X : (n, p) array-like or Federation
            For a federation the result is a view of it: each silo standardises its own
            rows when they are read, and nothing is released.
        """
        if isinstance(X, Federation) and X.partition == "columns":
            return self._check_view(X).derive(
                own_standardised,
                kept_of=self.kept_,
                with_mean=self.with_mean,
                with_std=self.with_std,
            )
        check_is_fitted(self)
        mean, scale = self._mean_and_scale()
        fitted: dict[str, Any] = {"mean": mean, "scale": scale}
        if "privacy_" in vars(self) and isinstance(X, Federation):
            fitted["rho"] = float(self.privacy_["rho"])
            return self._applied(X, private_moments.privately_standardised, fitted)
        return self._applied(X, standardised, fitted)

    def inverse_transform(self, X: Any) -> Float[Array, "n p"]:
        """Return standardised rows in the units of the data.

        Parameters
        ----------
        X : (n, p) array-like
            Rows as returned by `transform`.
        """
        check_is_fitted(self)
        X = self._check_transformed(X, self.n_features_in_)
        mean, scale = self._mean_and_scale()
        return X * scale + mean

    def to_sklearn(self) -> Any:
        """Return a fitted `sklearn.preprocessing.StandardScaler`."""
        import sklearn.preprocessing

        twin = sklearn.preprocessing.StandardScaler(
            with_mean=self.with_mean, with_std=self.with_std
        )
        return self._taught(twin)

    def _mean_and_scale(self) -> tuple[Float[Array, " p"], Float[Array, " p"]]:
        """Return the mean to subtract and the scale; zeros and ones if unused."""
        p = self.n_features_in_
        mean = self.mean_ if self.with_mean and self.mean_ is not None else np.zeros(p)
        return mean, np.ones(p) if self.scale_ is None else self.scale_


def _mean(total: Float[Array, " p"], count: Array) -> Float[Array, " p"]:
    """Return the means, NaN for a column without any value, as in scikit-learn."""
    undefined = np.full(len(count), np.nan)
    return np.divide(total, count, out=undefined, where=count > 0)


def _variance(squares: Float[Array, " p"], count: Array) -> Float[Array, " p"]:
    """Return the variances with denominator N, NaN for a column without any value."""
    return np.where(count > 0, squares / np.maximum(count, 1), np.nan)


def _scale(
    variance: Float[Array, " p"], mean: Float[Array, " p"], count: Array
) -> Float[Array, " p"]:
    """Return the standard deviation, and 1 for columns constant up to rounding."""
    eps = np.finfo(float).eps
    # The bound on the rounding error of a two-pass variance that scikit-learn uses.
    constant = variance <= count * eps * variance + (count * mean * eps) ** 2
    return np.where(constant, 1.0, np.sqrt(variance))

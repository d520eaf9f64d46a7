"""Columns about their medians, in units of their interquartile ranges.

quantiles   by counts, in secret or with noise: `unpooled.models.description.quantiles`
transform   x ↦ (x - median) / (upper - lower quantile), in each silo

On a column partition each silo finds the quantiles of its own columns and keeps them.
"""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from types import MappingProxyType
from typing import Any, final

import numpy as np
import scipy
from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from unpooled.arrays import Array, Float
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.models.base import FederatedEstimator, input_names
from unpooled.models.description import private_quantiles
from unpooled.models.description.quantiles import (
    COMPARISONS,
    HYNDMAN_FAN,
    OWN_CELLS,
    STEPS,
    column_values,
)
from unpooled.models.moments import check_finite
from unpooled.models.preprocessing.preprocessing_results import robust_scaler_exhibits
from unpooled.models.preprocessing.private_moments import privately_standardised
from unpooled.protocol.step import derived, kept, public, stays
from unpooled.results.citations import Citation, interpolated

# Quantile ranges below this many of the largest number's last digits are none.
_ROUNDING = 10.0 * float(np.finfo(float).eps)


@derived(
    takes={
        "center": public("p", "the median of each column over all silos"),
        "scale": public("p", "the range between two quantiles of each column"),
    },
    by_column=True,
    affine=True,
)
def about_medians(
    X: Float[Array, "n p"], *, center: Float[Array, " p"], scale: Float[Array, " p"]
) -> Float[Array, "n p"]:
    """Return the rows minus the median, divided by the scale; NaN stay NaN."""
    return (X - center) / scale


@kept(
    by="party",
    center=stays("p", meaning="the median of each of the silo's columns"),
    scale=stays("p", meaning="the range between two quantiles of each of them"),
)
def own_location(X: Float[Array, "N p"], *, low: float, high: float) -> dict[str, Any]:
    """Return medians and ranges of the silo's own columns, which nobody else sees."""
    check_finite(X)
    if np.isnan(X).all(axis=0).any():
        raise DataError(
            "A column has no value to take a median of.", rule="empty_column"
        )
    found = np.nanquantile(X, [0.5, low, high], axis=0)
    found = found.reshape(3, X.shape[1])  # of no column too
    return {"center": found[0], "scale": _scale(found)}


@derived(by_column=True, affine=True, by_cells=True)
def own_about_medians(
    X: Float[Array, "n p"], kept: Any, *, centred: bool, unit: float
) -> Float[Array, "n p"]:
    """Return the rows by the kept medians and ranges; NaN stay NaN.

    `unit` is what ranges are divided by; 0 leaves the columns' own units.
    """
    center = kept["center"] if centred else 0.0
    return (X - center) / (kept["scale"] / unit if unit else 1.0)


def _scale(found: Float[Array, "r p"]) -> Float[Array, " p"]:
    """Return the ranges between the last two quantiles, 1 for those that are 0."""
    scale = _between(found)
    return np.where(scale < _ROUNDING, 1.0, scale)


def _between(found: Float[Array, "r p"]) -> Float[Array, " p"]:
    """Return the ranges between the last two quantiles; 0 where only one was found."""
    return found[-1] - found[-2:][0]


@final
@dataclass(eq=False, repr=False)
class RobustScaler(OneToOneFeatureMixin, TransformerMixin, FederatedEstimator):
    """Scale columns by medians and quantile ranges, which outliers move little.

    Parameters
    ----------
    with_centering : bool, default True
        Subtract the median.
    with_scaling : bool, default True
        Divide by the range between the two quantiles of `quantile_range`.
    quantile_range : (float, float), default (25.0, 75.0)
        In per cent.
    unit_variance : bool, default False
        Divide also by this range of a normal distribution with variance 1.
    comparison : {"summed", "mpc"}, default "summed"
        How silos search for quantiles, as of `Quantiles`.
    min_rows : int, default 10
        How many values lie in the bracket of a quantile at least, as of `Quantiles`.
    decimals : int or mapping of str to int, optional
        How many decimals values have, as of `Quantiles`.
    allow_coordinator_party : bool, default False
        With "mpc" and two silos, let the coordinator be the third party.
    privacy : GaussianPrivacy, optional
        Differential privacy: quantiles from counts with noise, as of `Quantiles`, in
        place of a search. Of the scaler alone; models after it have a `privacy` of
        their own, and the costs add up.

    Attributes
    ----------
    center_ : (p,) array or None
        Medians; None without `with_centering`. On a column partition the silos keep
        them, and the ranges.
    scale_ : (p,) array or None
        Ranges, 1 for those that are 0; None without `with_scaling`. With `privacy` at
        least the width of the parts in which values were counted.
    center_interval_ : (2, p) array
        Only with `privacy` and `with_centering`: intervals of the medians at 95 %, of
        sampling and of the noise together.
    privacy_ : dict
        Only with `privacy`: its parameters and cost, as of `StandardScaler`.
    n_features_in_ : int
        p, the number of columns seen in `fit`.
    feature_names_in_ : (p,) array of str
        Names of the columns, where the silos' tables have names.

    Raises
    ------
    DataError
        Where fewer than `min_rows` values lie at or beyond a quantile of a column.

    Notes
    -----
    Released: the quantiles, with the widths of their brackets, and what `Quantiles`
    says. Never released: a row, or any silo's own count.

    On a column partition nothing is released: each silo keeps the quantiles of its own
    columns, which it shows nobody, and `transform` uses them there. They are the exact
    ones, so that `min_rows`, `decimals` and `comparison` change nothing.

    Missing cells are left out, and stay missing in `transform`.

    See Also
    --------
    sklearn.preprocessing.RobustScaler : its twin on pooled rows, to which it is equal
        with ``min_rows=1`` and on columns; otherwise up to the widths of the brackets.

    References
    ----------
    Hyndman and Fan, Sample quantiles in statistical packages, The American Statistician
    50 (1996): definition 7.
    """

    _partitions = ("rows", "columns")
    _gives_views = ("rows", "columns")
    _missing = True
    _kept_by_silos = ("center_", "scale_")
    _ways = MappingProxyType({"comparison": COMPARISONS})
    _steps = (*STEPS, private_quantiles)
    _computed = ("center_interval_",)
    center_: Float[Array, " p"] | None = field(init=False)
    scale_: Float[Array, " p"] | None = field(init=False)
    _exhibits = robust_scaler_exhibits

    _: KW_ONLY
    with_centering: bool = True
    with_scaling: bool = True
    quantile_range: Any = (25.0, 75.0)
    unit_variance: bool = False
    comparison: str = "summed"
    min_rows: int = 10
    decimals: Any = None
    allow_coordinator_party: bool = False
    privacy: Any = None

    def _units(self) -> Mapping[str, str]:
        if not self.with_scaling:
            return {}
        low, high = self.quantile_range
        unit = f"distances between their {low:g} % and {high:g} % quantiles"
        if self.unit_variance:
            unit = "standard deviations, estimated from their quantiles,"
        elif (low, high) == (25.0, 75.0):
            unit = "interquartile ranges"
        return dict.fromkeys(input_names(self), unit)

    def _citation(self) -> Citation:
        done = ["centred at their medians"] * self.with_centering
        done += ["divided by quantile ranges"] * self.with_scaling
        text = " and ".join(done) or "left as they were"
        if self.privacy is not None:
            counted = private_quantiles.CITATION
            sentence = f"Columns were {text}. {counted.sentence}"
            return replace(counted, sentence=sentence)
        return Citation(
            f"Columns were {text}, over the rows of all silos.",
            (HYNDMAN_FAN,),
            apart_from=interpolated("medians and quantile ranges", self),
        )

    def _needs_values(self) -> bool:
        return True

    def _fit(self, federation: Federation, y: Any) -> None:
        low, high = self._range()
        if federation.partition == "columns":
            if self.privacy is not None:
                raise DataError(
                    "A RobustScaler on a column partition releases nothing: each silo "
                    "keeps the quantiles of its own columns. Leave privacy out."
                )
            federation.keep(own_location, low=low, high=high)
            return
        wanted = [0.5] * bool(self.with_centering)
        wanted += [low, high] * bool(self.with_scaling)
        self.center_ = self.scale_ = None
        if not wanted:
            return
        if self.privacy is None:
            found, _ = column_values(self, federation, np.array(wanted))
            self._check_known(found, federation)
            scale = _scale(found)
        else:
            private = private_quantiles.private_quantiles(
                self, federation, np.array(wanted)
            )
            found, self.privacy_ = private.values, private.privacy
            scale = np.maximum(_between(found), private.widths)
            if self.with_centering:
                self.center_interval_ = private.intervals[:, 0]
        if self.with_centering:
            self.center_ = found[0]
        if self.with_scaling:
            self.scale_ = scale / self._unit(low, high)

    def _unit(self, low: float, high: float) -> float:
        """Return the divisor of ranges."""
        if not self.unit_variance:
            return 1.0
        normal = scipy.stats.norm.ppf([low, high])
        return float(normal[1] - normal[0])

    @classmethod
    def kept_by_silos(cls) -> tuple[str, ...]:
        """Return no attribute: what silos keep they show nobody."""
        return ()

    def _gather(self, federation: Federation) -> None:
        raise DataError(OWN_CELLS)

    def _check_known(self, found: Float[Array, "r p"], federation: Federation) -> None:
        unknown = np.isnan(found).any(axis=0)
        if unknown.any():
            few = np.array(federation.feature_names)[unknown]
            raise DataError(
                f"Fewer than {self.min_rows} values lie at or beyond a quantile of "
                f"{', '.join(few)}. Leave such columns out with select."
            )

    def _range(self) -> tuple[float, float]:
        try:
            low, high = map(float, self.quantile_range)
        except (TypeError, ValueError):
            low = high = np.nan
        if not 0 <= low < high <= 100:
            raise DataError(
                f"quantile_range={self.quantile_range!r}; give two percentages, the "
                f"smaller first, such as (25.0, 75.0)."
            )
        return low / 100.0, high / 100.0

    def transform(self, X: Any) -> Any:
        """Return scaled rows.

        Parameters
        ----------
        X : (n, p) array-like or Federation
            For a federation the result is a view of it: each silo scales its own rows
            when they are read, and nothing is released.
        """
        if isinstance(X, Federation) and X.partition == "columns":
            unit = self._unit(*self._range()) if self.with_scaling else 0.0
            centred = bool(self.with_centering)
            return self._check_view(X).derive(
                own_about_medians, kept_of=self.kept_, centred=centred, unit=unit
            )
        check_is_fitted(self)
        p = self.n_features_in_
        center = np.zeros(p) if self.center_ is None else self.center_
        scale = np.ones(p) if self.scale_ is None else self.scale_
        if "privacy_" in vars(self) and isinstance(X, Federation):
            fitted = {"mean": center, "scale": scale, "rho": self.privacy_["rho"]}
            return self._applied(X, privately_standardised, fitted)
        return self._applied(X, about_medians, {"center": center, "scale": scale})

    def to_sklearn(self) -> Any:
        """Return a fitted `sklearn.preprocessing.RobustScaler`."""
        import sklearn.preprocessing

        low, high = self.quantile_range
        twin = sklearn.preprocessing.RobustScaler(
            with_centering=self.with_centering,
            with_scaling=self.with_scaling,
            quantile_range=(float(low), float(high)),
            unit_variance=self.unit_variance,
        )
        return self._taught(twin)

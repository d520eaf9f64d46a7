"""The Yeo-Johnson power transform of every column, with λ of the pooled rows.

    first round  silos ── the number of observed cells of each column ──> counts
    λ            by batches of signs: `unpooled.models.preprocessing.pooled_lambda`
    last round   silos <── λ ──   silos ── sums of transformed values, squares ──> mean,
                                                                              variance
    skewness     silos ── sums of x ──> mean, sums of squares ──> variance, then third
                 powers of standardised values; only where it is asked for

References
----------
Marchand et al., SecureFedYJ: a safe feature Gaussianization protocol for Federated
Learning, NeurIPS 2022, sections 3 and 4.
"""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from types import MappingProxyType
from typing import Any, final

import numpy as np
from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from unpooled.arrays import Array, Bool, Float
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.linalg.yeo_johnson import (
    inverse,
    inverse_shifted_table,
    shifted_table,
    transform,
    units,
)
from unpooled.models.base import FederatedEstimator, input_names
from unpooled.models.moments import OBSERVED
from unpooled.models.parameter_checks import check_choice
from unpooled.models.preprocessing import (
    pooled_lambda,
    signs_by_totals,
    signs_in_secret,
)
from unpooled.models.preprocessing.pooled_lambda import Columns, Comparison, Progress
from unpooled.models.preprocessing.preprocessing_results import power_exhibits
from unpooled.models.preprocessing.reference_locations import (
    check_reference,
    declared_columns,
)
from unpooled.models.preprocessing.scaler import local_squares
from unpooled.models.preprocessing.signs_by_totals import SignsByTotals
from unpooled.models.preprocessing.signs_in_secret import SignsInSecret
from unpooled.protocol.step import Step, derived, public, release, summed
from unpooled.results.citations import Citation

_COMPARISONS: Mapping[str, Comparison] = MappingProxyType(
    {"mpc": SignsInSecret(), "summed": SignsByTotals()}
)
# Steps whose totals or signs determine λ.
_LAMBDAS = public("p", "the exponent of each column's power transform")
_CENTRE = public("p", "where each column lies, on a logarithmic scale")
_SPREAD = public("p", "how far each column is spread, on a logarithmic scale")
# scikit-learn's formula loses the digits by which the mean of ψ exceeds its standard
# deviation.
_MOST_MEAN = 1e9


@summed(
    takes={
        "count": OBSERVED,
        "lambdas": _LAMBDAS,
        "centre": _CENTRE,
        "spread": _SPREAD,
    },
    total=release("p", meaning="the sum of each column's transformed values"),
    squares=release("p", meaning="the sum of their squares"),
)
def local_transformed(
    X: Float[Array, "n p"],
    *,
    count: Float[Array, " p"],
    lambdas: Float[Array, " p"],
    centre: Float[Array, " p"],
    spread: Float[Array, " p"],
) -> dict[str, Any]:
    """Return the sums of transformed values and squares, in units of the reference."""
    # About the reference the mean is at most a few standard deviations, so that the sum
    # of raw squares loses no digits.
    values = shifted_table(X, lambdas, centre, spread)
    return {
        "total": np.nansum(values, axis=0),
        "squares": np.nansum(values**2, axis=0),
    }


@summed(
    takes={"count": OBSERVED},
    total=release("p", meaning="column sums over the cells that have a value"),
)
def local_sums(X: Float[Array, "n p"], *, count: Float[Array, " p"]) -> dict[str, Any]:
    """Return the sums of the columns as they are."""
    return {"total": np.nansum(X, axis=0)}


@summed(
    takes={
        "count": OBSERVED,
        "raw_mean": public("p", "the mean of each column over all silos"),
        "raw_scale": public("p", "the standard deviation of each column"),
        "lambdas": _LAMBDAS,
        "centre": _CENTRE,
        "spread": _SPREAD,
        "mean": public("p", "the mean of each transformed column over all silos"),
        "scale": public("p", "the standard deviation of each transformed column"),
    },
    before=release(
        "p",
        meaning="third powers of each column's standardised values, added",
    ),
    after=release(
        "p",
        meaning="third powers of each transformed column's standardised values, added",
    ),
)
def local_third_powers(
    X: Float[Array, "n p"],
    *,
    count: Float[Array, " p"],
    raw_mean: Float[Array, " p"],
    raw_scale: Float[Array, " p"],
    lambdas: Float[Array, " p"],
    centre: Float[Array, " p"],
    spread: Float[Array, " p"],
    mean: Float[Array, " p"],
    scale: Float[Array, " p"],
) -> dict[str, Any]:
    """Return the sums of third powers of standardised values, before and after."""
    values = shifted_table(X, lambdas, centre, spread)
    return {
        "before": np.nansum(((X - raw_mean) / raw_scale) ** 3, axis=0),
        "after": np.nansum(((values - mean) / scale) ** 3, axis=0),
    }


@derived(
    takes={
        "lambdas": _LAMBDAS,
        "centre": _CENTRE,
        "spread": _SPREAD,
        "mean": public("p", "the mean of each transformed column over all silos"),
        "scale": public(
            "p", "the standard deviation of each transformed column over all silos"
        ),
    },
    by_column=True,
)
def gaussianised(
    X: Float[Array, "n p"],
    *,
    lambdas: Float[Array, " p"],
    centre: Float[Array, " p"],
    spread: Float[Array, " p"],
    mean: Float[Array, " p"],
    scale: Float[Array, " p"],
) -> Float[Array, "n p"]:
    """Return the rows transformed and standardised; NaN stay NaN."""
    return (shifted_table(X, lambdas, centre, spread) - mean) / scale


@derived(takes={"lambdas": _LAMBDAS}, by_column=True)
def transformed(
    X: Float[Array, "n p"], *, lambdas: Float[Array, " p"]
) -> Float[Array, "n p"]:
    """Return the rows transformed; NaN stay NaN."""
    columns = [transform(x, float(lam)) for x, lam in zip(X.T, lambdas, strict=True)]
    return np.stack(columns, axis=1)


def deviations(
    variance: Float[Array, " p"],
    constant: Bool[Array, " p"],
    reference: Mapping[str, Array],
) -> Float[Array, " p"]:
    """Return the standard deviations of columns transformed about the reference.

    For columns without variance it is 1 in units of ψ, as in scikit-learn.
    """
    flat = constant | (variance == 0.0)
    factor = units(**reference)[0]
    return np.where(flat, 1.0 / np.where(flat, factor, 1.0), np.sqrt(variance))


@final
@dataclass(eq=False, repr=False)
class PowerTransformer(OneToOneFeatureMixin, TransformerMixin, FederatedEstimator):
    """Yeo-Johnson transform of every column by the pooled maximum-likelihood λ.

    Parameters
    ----------
    standardize : bool, default True
        Give transformed columns mean 0 and variance 1.
    comparison : {"mpc", "summed"}, default "mpc"
        How the sign of the likelihood's slope is computed. "mpc" computes it by secure
        multi-party computation, which needs three silos or more and the extra `mpc`;
        nothing but signs is opened, and a batch of candidates takes 5 rounds, or 14
        where five silos compute. "summed" opens five sums at every candidate λ as
        totals over all silos; a batch takes one round, and everybody sees these totals.
    tol : float, default 7.450580596923828e-9
        Width of the interval that λ is narrowed to, in units of max(1/s, abs(λ)), where
        s is the standard deviation of φ = sgn(x) log(1 + |x|). The default is 2^-27.
    allow_coordinator_party : bool, default False
        With two silos, let the coordinator be the third party that secure comparisons
        need. It receives shares, which reveal nothing unless a silo colludes with it.
    reference : mapping of str to (float, float), optional
        A centre and a scale for each column by name, in the units of the data, from a
        schema or the literature. A factor of 3 is near enough, which is checked. By
        default they are estimated, with two rounds of sums or three batches of signs.
    skewness : bool, default False
        Also open the skewness of each column before and after, for the results: in
        three rounds more, sums of the columns, of their squared deviations, and of
        third powers of standardised values.

    Attributes
    ----------
    lambdas_ : (p,) array
        λ of each column; 1, the identity, for constant columns.
    mean_ : (p,) array
        Mean of the transformed column; only with `standardize`. Infinite where float64
        cannot hold it; `transform` does not use it.
    var_ : (p,) array
        Variance of the transformed column, with denominator N; only with `standardize`.
        Infinite or 0 where float64 cannot hold it; `transform` does not use it.
    n_samples_seen_ : int or (p,) array of int
        N, the number of observed cells; an array where it differs between columns.
    n_iter_ : int
        Number of batches of candidates.
    centre_ : (p,) array
        Coarse location of φ, public. `transform` computes relative to it, so that
        columns like 1e6 ± 10, whose λ is 1e5 and whose plain transform overflows, keep
        their digits.
    spread_ : (p,) array
        Coarse standard deviation of φ, a power of two, public.
    shifted_mean_ : (p,) array
        Mean of the column as transformed relative to `centre_` and `spread_`; only with
        `standardize`.
    shifted_scale_ : (p,) array
        Standard deviation of the same, with denominator N; only with `standardize`.
    skewness_ : (p,) array
        Only with `skewness`: third moment about the mean divided by the cube of the
        standard deviation, with denominators N (`scipy.stats.skew`), of each column as
        it was; NaN for constant columns.
    transformed_skewness_ : (p,) array
        Only with `skewness`: the same of the transformed columns.
    n_features_in_ : int
        p, the number of columns seen in `fit`.
    feature_names_in_ : (p,) array of str
        Names of the columns, where the silos' tables have names.

    Raises
    ------
    DataError
        Infinite values, or a column without a single value.
    ConvergenceError
        When the likelihood rises to the largest λ tried.
    AggregationError
        With ``comparison="mpc"``, when a party stops computing: `resume` goes on from
        the last finished batch.

    Warns
    -----
    UserWarning
        Constant columns, which are left as they are.

    Notes
    -----
    Released, as totals only: for each column the number of observed cells, which every
    silo judges before it sends anything else (`min_rows`, and `min_own_cells` of its
    own); and, at the final λ, the sums of the transformed values and of their squares.
    With ``comparison="mpc"`` the signs of comparisons are opened too: they reveal
    centre and spread of φ coarsely, and the interval of λ.

    With ``skewness=True``, as totals too: the sums of the columns, of their squared
    deviations from the mean, and of third powers of standardised values, before and
    after.

    With ``comparison="summed"`` more totals are released: the sum of φ and of its
    squared deviations from the mean; and for each candidate λ the sums of φ, of the
    transformed values, their squares, their derivatives by λ, and values times
    derivatives. A column has 50 to 100 of these totals, far more than (λ, mean,
    variance), and they reveal the shape of its pooled distribution.

    Never released: a row, or any silo's own sum.

    Missing cells are left out, and stay missing in `transform`.

    See Also
    --------
    sklearn.preprocessing.PowerTransformer : its twin on pooled rows, method
        "yeo-johnson". It stops at the first digits of λ where rows are far from zero
        relative to their standard deviation; this one does not.

    References
    ----------
    Yeo and Johnson, A new family of power transformations to improve normality or
    symmetry, Biometrika 87 (2000).
    """

    _missing = True
    _ways = MappingProxyType({"comparison": ("mpc", "summed")})
    _steps = (pooled_lambda, signs_by_totals, signs_in_secret, local_squares)
    # A search that was stopped, whether the next fit goes on with it, and the callback
    # of `continuing`; never saved.
    _progress = None
    _resuming = False
    _keep = None
    lambdas_: Float[Array, " p"] = field(init=False)
    centre_: Float[Array, " p"] = field(init=False)
    spread_: Float[Array, " p"] = field(init=False)
    _exhibits = power_exhibits

    _: KW_ONLY
    standardize: bool = True
    comparison: str = "mpc"
    tol: float = 2.0**-27
    allow_coordinator_party: bool = False
    reference: Any = None
    skewness: bool = False

    def _units(self) -> Mapping[str, str]:
        unit = "units of their Yeo-Johnson transforms"
        if self.standardize:
            unit = "standard deviations of their Yeo-Johnson transforms"
        return dict.fromkeys(input_names(self), unit)

    def _citation(self) -> Citation:
        how = {
            "mpc": "whose signs were computed by secure multi-party computation",
            "summed": "from totals over all silos",
        }[self.comparison]
        then = " and then standardised" if self.standardize else ""
        return Citation(
            f"Each column was transformed by the Yeo-Johnson power transformation"
            f"{then}; its exponent maximises the likelihood of all rows and was found "
            f"by a search on the slope of the likelihood, {how}.",
            (
                "Yeo IK, Johnson RA. A new family of power transformations to improve "
                "normality or symmetry. Biometrika 2000; 87: 954-959.",
                "Marchand T, et al. SecureFedYJ: a safe feature Gaussianization "
                "protocol for federated learning. NeurIPS 2022.",
            ),
        )

    def _needs_values(self) -> bool:
        return True

    def _fit(self, federation: Federation, y: Any) -> None:
        self._check_parameters()
        progress = self._searched(federation)
        columns = progress.columns
        self.lambdas_, self.n_iter_ = progress.lambdas(), progress.batches
        count = columns.count
        self.n_samples_seen_ = int(count[0]) if (count == count[0]).all() else count
        # A constant column is transformed by the identity, about 0 in units of 1.
        self.centre_ = np.where(columns.constant, 0.0, columns.centre)
        self.spread_ = np.where(columns.constant, 1.0, columns.spread)
        if columns.constant.any():
            names = np.array(federation.feature_names)[columns.constant]
            warnings.warn(
                f"Constant columns are left as they are (λ = 1): {', '.join(names)}.",
                stacklevel=4,
            )
        if not (self.standardize or self.skewness):
            return
        mean, variance = self._transformed_moments(federation, columns)
        if self.standardize:
            self._standardise(columns, mean, variance)
        if self.skewness:
            self._set_skewness(federation, columns, mean, variance)

    def _takes_long(self, federation: Federation, seconds: float) -> str:
        """Return a notice that a fit with comparisons in secret takes long."""
        if self.comparison != "mpc":
            return ""
        columns = f"{federation.n_features} column{'s' * (federation.n_features > 1)}"
        least = f"{max(seconds, 1.0):,.0f} s"
        return (
            f"comparing {columns} in secret takes {least} or longer, depending on the "
            f"silos' processors and network; it opens signs alone. "
            f'comparison="summed" takes a fifth of the rounds, and opens 50 to 100 '
            f"totals of each column, which tell the shape of its pooled distribution, "
            f"and no row."
        )

    def _check_parameters(self) -> None:
        check_choice("comparison", self.comparison, _COMPARISONS)
        if not 2.0**-40 <= self.tol < 1.0:
            raise DataError(
                f"tol={self.tol!r}; choose between 2^-40, where rounding begins, and 1."
            )
        check_reference(self.reference)

    def _searched(self, federation: Federation) -> Progress:
        """Return the finished search of λ, begun anew or where a fit was stopped."""
        comparison = _COMPARISONS[self.comparison]
        if self.comparison == "mpc":
            federation.coordinator.begin_computing(self.allow_coordinator_party)
        progress = self._progress if self._resuming else None
        self._resuming, keep, self._keep = False, self._keep, None
        if progress is None:
            if self.reference is None:
                columns = comparison.references(federation)
            else:
                columns = declared_columns(federation, comparison, self.reference)
            search = comparison.search(int(columns.varying.sum()), self.tol)
            self._progress = progress = Progress(columns, search)
        elif not federation.coordinator.planned:
            progress.check_rows(federation)
        progress.run(federation, comparison, keep)
        self._progress = None
        return progress

    def _transformed_moments(
        self, federation: Federation, columns: Columns
    ) -> tuple[Float[Array, " p"], Float[Array, " p"]]:
        """Return means and variances of transformed columns about the reference."""
        count = columns.count.astype(float)
        totals = federation.sum(local_transformed, count=count, **self._reference())
        mean = totals["total"] / count
        return mean, np.maximum(totals["squares"] / count - mean**2, 0.0)

    def _set_skewness(
        self,
        federation: Federation,
        columns: Columns,
        mean: Float[Array, " p"],
        variance: Float[Array, " p"],
    ) -> None:
        """Set the skewness of the columns before and after; three rounds."""
        count = columns.count.astype(float)
        raw_mean = federation.sum(local_sums, count=count)["total"] / count
        squares = federation.sum(local_squares, count=count, mean=raw_mean)["squares"]
        flat = columns.constant | (variance == 0.0) | (squares == 0.0)
        totals = federation.sum(
            local_third_powers,
            count=count,
            raw_mean=raw_mean,
            raw_scale=np.where(flat, 1.0, np.sqrt(squares / count)),
            **self._reference(),
            mean=mean,
            scale=np.where(flat, 1.0, np.sqrt(variance)),
        )
        self.skewness_ = np.where(flat, np.nan, totals["before"] / count)
        self.transformed_skewness_ = np.where(flat, np.nan, totals["after"] / count)

    def _standardise(
        self,
        columns: Columns,
        mean: Float[Array, " p"],
        variance: Float[Array, " p"],
    ) -> None:
        """Set means and standard deviations about the reference, and those of ψ."""
        reference = self._reference()
        self.shifted_mean_ = mean
        self.shifted_scale_ = deviations(variance, columns.constant, reference)
        # ψ = factor ψ^ + origin.
        factor, origin = units(**reference)
        flat = columns.constant | (variance == 0.0)
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            # An origin that float64 cannot hold stays infinite, whatever is added.
            infinite = np.isinf(origin)
            self.mean_ = np.where(infinite, origin, origin + factor * mean)
            self.var_ = np.where(flat, 0.0, factor**2 * variance)

    def _reference(self) -> dict[str, Any]:
        """Return λ, and the reference relative to which rows are transformed."""
        return {
            "lambdas": self.lambdas_,
            "centre": self.centre_,
            "spread": self.spread_,
        }

    def resume(self, federation: Federation) -> "PowerTransformer":
        """Go on with a fit that an absent party stopped, from its last finished batch.

        Parameters
        ----------
        federation : Federation
            The federation of the fit, once its parties are back, or another one over
            the same rows.

        Raises
        ------
        DataError
            When no fit of this model was stopped in its search.
        """
        if self._progress is None:
            raise DataError("No fit of this model was stopped in its search: use fit.")
        before = self._progress.before
        if federation.coordinator.follows:
            # Silos know a batch's totals from the request after it, which may not have
            # come: the last batch is asked again.
            self._progress = None if before is None else Progress.from_record(before)
        self._resuming = True
        return self.fit(federation)

    def continuing(
        self, reached: Mapping[str, Any] | None, keep: Callable[[dict[str, Any]], None]
    ) -> "PowerTransformer":
        """Let the next fit begin after the last batch that a stopped one finished."""
        self._keep = keep
        if reached is not None:
            self._progress, self._resuming = Progress.from_record(reached), True
        return self

    def continues_from(self) -> Mapping[str, Any] | None:
        """Return the search that the next fit continues; None if it begins anew."""
        going_on = self._progress if self._resuming else None
        return None if going_on is None else going_on.as_record()

    def transform(self, X: Any) -> Any:
        """Return transformed rows.

        Parameters
        ----------
        X : (n, p) array-like or Federation
            For a federation the result is a view of it: each silo transforms its own
            rows when they are read, and nothing is released.
        """
        check_is_fitted(self)
        return self._applied(X, *self._fitted_transform())

    def _fitted_transform(self) -> tuple[Step, dict[str, Any]]:
        """Return the transform of rows and its public arguments."""
        if not self.standardize:
            return transformed, {"lambdas": self.lambdas_}
        moments = {"mean": self.shifted_mean_, "scale": self.shifted_scale_}
        return gaussianised, self._reference() | moments

    def inverse_transform(self, X: Any) -> Float[Array, "n p"]:
        """Return transformed rows in the units of the data.

        NaN stands where no value of the data has the transformed value.

        Parameters
        ----------
        X : (n, p) array-like
            Rows as returned by `transform`.
        """
        check_is_fitted(self)
        X = self._check_transformed(X, self.n_features_in_)
        if not self.standardize:
            pairs = zip(X.T, self.lambdas_, strict=True)
            return np.stack([inverse(x, float(lam)) for x, lam in pairs], axis=1)
        X = X * self.shifted_scale_ + self.shifted_mean_
        return inverse_shifted_table(X, **self._reference())

    def to_sklearn(self) -> Any:
        """Return a fitted `sklearn.preprocessing.PowerTransformer`.

        Raises
        ------
        DataError
            Where scikit-learn's formula would lose a column's digits: use `save`.
        """
        import sklearn.preprocessing

        check_is_fitted(self)
        twin = sklearn.preprocessing.PowerTransformer(standardize=self.standardize)
        if self.standardize:
            twin._scaler = self._sklearn_scaler()
        return self._taught(twin, ("n_features_in_", "feature_names_in_", "lambdas_"))

    def _sklearn_scaler(self) -> Any:
        """Return the scaler that scikit-learn's PowerTransformer contains."""
        import sklearn.preprocessing

        scale = np.sqrt(self.var_)
        with np.errstate(invalid="ignore"):
            fits = np.isfinite(scale) & (np.abs(self.mean_) <= _MOST_MEAN * scale)
        lost = ~(fits | (self.lambdas_ == 1.0))
        if lost.any():
            names = getattr(self, "feature_names_in_", np.arange(len(lost)))[lost]
            raise DataError(
                f"scikit-learn transforms a column about zero, where float64 has no "
                f"digits left for {', '.join(map(str, names))}: subtract a constant "
                f"near the middle in every silo, or use unpooled.save."
            )
        scaler = sklearn.preprocessing.StandardScaler(copy=False)
        scaler.set_output(transform="default")
        scaler.mean_, scaler.var_ = self.mean_.copy(), self.var_.copy()
        scaler.scale_ = np.where(scale > 0, scale, 1.0)
        scaler.n_samples_seen_ = self.n_samples_seen_
        scaler.n_features_in_ = self.n_features_in_
        return scaler

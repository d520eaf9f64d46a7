"""Making columns look normal by the federation's own Yeo-Johnson transform.

    λ            by batches of signs, see `unpooled.models.preprocessing.pooled_lambda`
    last round   silos <── λ ──   silos ── sums of transformed values, squares ──> mean
                                                                              variance

References
----------
Marchand et al., SecureFedYJ: a safe feature Gaussianization protocol for Federated
Learning, NeurIPS 2022, algorithm 2.
"""

import warnings
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, final

import numpy as np
from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from unpooled.arrays import Array, Float
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.linalg.yeo_johnson import inverse, inverse_shifted_table
from unpooled.models.base import FederatedEstimator
from unpooled.models.preprocessing import apply_power as transforming
from unpooled.models.preprocessing import lambda_search as signs
from unpooled.models.preprocessing import pooled_lambda as lambdas
from unpooled.models.preprocessing.apply_power import means_and_scales, sklearn_twin
from unpooled.models.preprocessing.likelihood_signs import (
    by_totals,
    check_search,
    in_secret,
)
from unpooled.models.preprocessing.pooled_lambda import Columns, Progress
from unpooled.protocol.step import Step, adopted

local_log_sizes, local_log_squares, local_slopes = adopted(
    __name__,
    lambdas.local_log_sizes,
    lambdas.local_log_squares,
    lambdas.local_slopes,
)
local_transformed, gaussianised, transformed = adopted(
    __name__,
    transforming.local_transformed,
    transforming.gaussianised,
    transforming.transformed,
)
_SIGNS = adopted(
    __name__,
    signs.local_count,
    signs.compared_lengths,
    signs.compared_sides,
    signs.compared_widths,
    signs.compared_slopes,
)
local_count, compared_lengths, compared_sides, compared_widths, compared_slopes = _SIGNS
_COMPARISONS = {
    "mpc": in_secret(*_SIGNS),
    "summed": by_totals(local_count, local_log_sizes, local_log_squares, local_slopes),
}


@final
class PowerTransformer(OneToOneFeatureMixin, TransformerMixin, FederatedEstimator):
    """Yeo-Johnson transform of every column by the pooled maximum-likelihood λ.

    Parameters
    ----------
    standardize : bool, default True
        Give transformed columns mean 0 and variance 1.
    comparison : {"mpc", "summed"}, default "mpc"
        How the slope of the likelihood is compared with zero. "mpc" computes its sign
        in secret (three silos or more, the extra `mpc`): 14 rounds for a batch, and
        nobody learns more than signs. "summed" opens its five sums at every candidate
        λ as totals over all silos: one round for a batch, and everybody learns these
        totals.
    tol : float, default 7.450580596923828e-9
        2^-27. Width of the last cell of λ, in units of max(1/spread, abs(λ)); the
        spread is the deviation of log(1 + |x|).
    allow_coordinator_party : bool, default False
        With two silos, let the coordinator be the third party that secure comparisons
        need. It gets shares, which tell it nothing unless a silo joins with it.
    reference : mapping of str to (float, float), optional
        A centre and a scale for each column by name, in the units of the data, from a
        schema or the literature; a factor of 3 off will do, which is checked. By
        default they are found: two rounds of sums, or three batches of signs.

    Attributes
    ----------
    lambdas_ : (p,) array
        λ of each column; 1, the identity, for constant columns.
    mean_ : (p,) array
        Mean of the transformed column; only with `standardize`. Infinite where float64
        cannot hold it; `transform` does not use it.
    var_ : (p,) array
        Its variance, with denominator N; only with `standardize`. Infinite or 0 where
        float64 cannot hold it; `transform` does not use it.
    n_samples_seen_ : int or (p,) array of int
        N; by column where cells are missing.
    n_iter_ : int
        Batches of candidates.
    centre_ : (p,) array
        The public reference: where sgn(x) log(1 + |x|) lies, coarsely. `transform`
        computes about it, so that columns like 1e6 ± 10, whose λ is 1e5 and whose plain
        transform overflows, keep their digits.
    spread_ : (p,) array
        How wide it is there, a power of two.
    shifted_mean_ : (p,) array
        Mean of what is transformed about the reference; only with `standardize`.
    shifted_scale_ : (p,) array
        Its deviation; only with `standardize`.
    n_features_in_ : int
        p.
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
    Released, as totals only: per column the number of cells that are there, the sum of
    φ = sgn(x) log(1 + |x|) and of its squared distances from the mean; for each batch
    and candidate λ the sums of φ, of the transformed values, their squares, their
    derivatives by λ, and values times derivatives; at the final λ the sum of
    transformed values and of their squares. Hundreds of totals of one column are far
    more than (λ, mean, variance): whoever sees them learns about the shape of the
    pooled column. With ``comparison="mpc"`` there
    are, of all these, only the number of cells and the two sums at the final λ; the
    rest are signs, which tell centre and spread of φ coarsely and the cell of λ. Never
    released: a row, or any silo's own sum.

    Missing cells are left out, and stay missing in `transform`.

    See Also
    --------
    sklearn.preprocessing.PowerTransformer : its twin on pooled rows, method
        "yeo-johnson". It stops at the first digits of λ where rows are far from zero
        beside their spread; this one does not.
    """

    _missing = True
    _ways = MappingProxyType({"comparison": ("mpc", "summed")})
    # A search that stopped, and who keeps what it reached; never saved.
    _progress: Progress | None = None
    _resuming = False
    _keep: Callable[[dict[str, Any]], None] | None = None
    lambdas_: Float[Array, " p"]
    centre_: Float[Array, " p"]
    spread_: Float[Array, " p"]

    def __init__(
        self,
        *,
        standardize: bool = True,
        comparison: str = "mpc",
        tol: float = 2.0**-27,
        allow_coordinator_party: bool = False,
        reference: Any = None,
    ) -> None:
        self.standardize = standardize
        self.comparison = comparison
        self.tol = tol
        self.allow_coordinator_party = allow_coordinator_party
        self.reference = reference

    def _fit(self, federation: Federation, y: Any) -> None:
        check_search(self.comparison, self.tol, self.reference)
        progress = self._searched(federation)
        columns = progress.columns
        if columns.constant.any():
            names = np.array(federation.feature_names)[columns.constant]
            warnings.warn(
                f"Constant columns are left as they are (λ = 1): {', '.join(names)}.",
                stacklevel=4,
            )
        if self.standardize:
            self._standardise(federation, columns)

    def _searched(self, federation: Federation) -> Progress:
        """Search λ, from the last finished batch where a fit is resumed."""
        comparison = _COMPARISONS[self.comparison]
        if self.comparison == "mpc":
            federation.coordinator.begin_computing(self.allow_coordinator_party)
        progress = self._progress if self._resuming else None
        self._resuming, keep, self._keep = False, self._keep, None
        resumed = progress is not None
        if progress is None:
            progress = comparison.begun(federation, self.tol, self.reference)
        self._progress = progress
        signs_of = comparison.signs(federation, progress.columns)
        if resumed and not federation.coordinator.planned:
            progress.prove(federation, comparison.counts, signs_of)
        progress.run(federation, signs_of, keep)
        self._progress = None
        self._take(progress.columns, progress.lambdas(), progress.batches)
        return progress

    def resume(self, federation: Federation) -> "PowerTransformer":
        """Go on with a fit that an absent party stopped, from its last finished batch.

        Parameters
        ----------
        federation : Federation
            The one of the fit, its parties back again; or another over the same rows.
        """
        if self._progress is None:
            raise DataError("No fit of this model was stopped in its search: use fit.")
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

    def _take(self, columns: Columns, found: Float[Array, " p"], batches: int) -> None:
        self.lambdas_, self.n_iter_ = found, batches
        count = columns.count
        self.n_samples_seen_ = int(count[0]) if (count == count[0]).all() else count
        # A constant column is transformed by the identity, about 0 in units of 1.
        self.centre_ = np.where(columns.constant, 0.0, columns.centre)
        self.spread_ = np.where(columns.constant, 1.0, columns.spread)

    def _standardise(self, federation: Federation, columns: Columns) -> None:
        totals = federation.sum(local_transformed, **self._reference())
        found = means_and_scales(totals, columns, self._reference())
        self.shifted_mean_, self.shifted_scale_, self.mean_, self.var_ = found

    def _reference(self) -> dict[str, Any]:
        return {
            "lambdas": self.lambdas_, "centre": self.centre_, "spread": self.spread_
        }  # fmt: skip

    def transform(self, X: Any) -> Any:
        """Transform an array, or every silo's rows, lazily.

        Parameters
        ----------
        X : (n, p) array-like or Federation
            A federation gives a view; nothing leaves a silo.
        """
        if isinstance(X, Federation):
            view = self._check_view(X)
            step, how = self._fitted()
            return view.derive(step, view.feature_names, **how)
        X = self._check_rows(X)
        step, how = self._fitted()
        return step(X, **how)

    def inverse_transform(self, X: Any) -> Float[Array, "n p"]:
        """Return rows to the units of the data; NaN where no row is transformed so.

        Parameters
        ----------
        X : (n, p) array-like
            Rows as `transform` gives them.
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
        check_is_fitted(self)
        return sklearn_twin(self)

    def _fitted(self) -> tuple[Step, dict[str, Any]]:
        """Return the transform of rows, and its arguments."""
        if not self.standardize:
            return transformed, {"lambdas": self.lambdas_}
        about = {"mean": self.shifted_mean_, "scale": self.shifted_scale_}
        return gaussianised, self._reference() | about

"""Filling missing cells with the federation's means.

    round 1   silos ── count and sum of the cells that are there, per column ──> total
    mean_j = total_j / count_j

A column without any value at one silo is no error while the federation has some.
"""

from typing import Any, final

import numpy as np
from sklearn.base import OneToOneFeatureMixin, TransformerMixin

from unpooled.arrays import Array, Float
from unpooled.errors import DataError
from unpooled.federation.base import Federation
from unpooled.linalg.moments import observed_sums
from unpooled.models.base import FederatedEstimator
from unpooled.party.step import derived, release, summed


@summed(
    count=release("p", meaning="how many rows have a value in each column"),
    total=release("p", meaning="the sum of each column's values"),
)
def local_observed(X: Float[Array, "n p"]) -> dict[str, Any]:
    """Count and add the cells that are there."""
    count, total = observed_sums(X)
    return {"count": count, "total": total}


@derived(takes={"statistics": "p"}, fitted_by=("imputer.local_observed",))
def imputed(
    X: Float[Array, "n p"], *, statistics: Float[Array, " p"]
) -> Float[Array, "n p"]:
    """Put each column's statistic where its cells are missing."""
    missing = np.isnan(X)
    return np.where(missing, statistics, X) if missing.any() else X


@final
class SimpleImputer(OneToOneFeatureMixin, TransformerMixin, FederatedEstimator):
    """Fill missing cells (NaN, blank) with each column's mean over all silos.

    Parameters
    ----------
    strategy : {"mean", "constant"}, default "mean"
        "constant" fills with `fill_value` and asks the silos nothing.
    fill_value : float, optional
        For ``strategy="constant"``; 0 when omitted.

    Attributes
    ----------
    statistics_ : (p,) array
        The value that fills each column.
    n_features_in_ : int
        Columns seen in `fit`.
    feature_names_in_ : (p,) array of str
        Their names, where the silos' tables have names.

    Notes
    -----
    Released, as totals only: per column the number of cells that are there and their
    sum. Never released: a row, which cells are missing, or any silo's own count or sum.

    A column without a value in any silo has no mean and is a `DataError`; scikit-learn
    would drop it with a warning, which silos could not agree on without being asked.

    See Also
    --------
    sklearn.impute.SimpleImputer : its twin on pooled rows.
    """

    statistics_: Float[Array, " p"]

    def __init__(
        self, strategy: str = "mean", *, fill_value: float | None = None
    ) -> None:
        self.strategy = strategy
        self.fill_value = fill_value

    def _fit(self, federation: Federation, y: Any) -> None:
        if self.strategy == "constant":
            fill = 0.0 if self.fill_value is None else float(self.fill_value)
            self.statistics_ = np.full(federation.n_features, fill)
            return
        if self.strategy != "mean":
            raise DataError(
                f'strategy={self.strategy!r}; choose "mean" or "constant". Medians and '
                f"most frequent values are not sums over silos."
            )
        totals = federation.sum(local_observed)
        count = np.rint(totals["count"])
        if empty := [
            name
            for name, n in zip(federation.feature_names, count, strict=True)
            if n == 0
        ]:
            raise DataError(
                f"No silo has a value in {', '.join(empty)}, so there is no mean to "
                f"fill in. Leave these columns out with select."
            )
        self.statistics_ = totals["total"] / count

    def transform(self, X: Any) -> Any:
        """Fill missing cells of an array, or of every silo's rows, lazily.

        Parameters
        ----------
        X : (n, p) array-like or Federation
            A federation gives a view; nothing leaves a silo.
        """
        if isinstance(X, Federation):
            view = self._check_view(X)
            return view.derive(imputed, view.feature_names, statistics=self.statistics_)
        return imputed(self._check_rows(X, missing=True), statistics=self.statistics_)

    def to_sklearn(self) -> Any:
        """Return a fitted `sklearn.impute.SimpleImputer`."""
        import sklearn.impute

        twin = sklearn.impute.SimpleImputer(
            strategy=self.strategy, fill_value=self.fill_value
        )
        twin.fit(self.statistics_[None])
        twin.statistics_ = self.statistics_.copy()
        if hasattr(self, "feature_names_in_"):
            twin.feature_names_in_ = self.feature_names_in_
        return twin

"""Mean imputation: missing cells are filled with the column means of all silos.

    round 1   silos ── the number of observed cells of each column ────────> counts
    round 2   silos <── counts ──  silos ── the sums of these cells ────────> totals
    mean_j = total_j / count_j

Each silo judges the counts before it sends the sums: the mean of a single cell would be
that person's value. A column without a value in one silo is no error, as long as
another silo has some. On a column partition each silo keeps the means of its own
columns, and nothing is released.
"""

from collections.abc import Sequence
from typing import Any, final

import numpy as np
from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from unpooled.arrays import Array, Float, Int
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.models.base import FederatedEstimator
from unpooled.models.moments import (
    local_counts,
    local_observed,
    own_observed,
    pooled_sums,
)
from unpooled.models.preprocessing.preprocessing_results import imputer_exhibits
from unpooled.protocol.step import (
    derived,
    disclosed,
    kept,
    public,
    release,
    stays,
)
from unpooled.results.citations import Citation
from unpooled.results.exhibits import Exhibit


@derived(
    takes={
        "statistics": public("p", "the value that fills each column's missing cells")
    },
    fitted_by=("imputer.local_observed",),
    by_column="missing",
)
def imputed(
    X: Float[Array, "n p"], *, statistics: Float[Array, " p"]
) -> Float[Array, "n p"]:
    """Return the rows with each column's statistic in its missing cells."""
    missing = np.isnan(X)
    return np.where(missing, statistics, X) if missing.any() else X


@kept(statistics=stays("p", meaning="the value that fills each of the silo's columns"))
def own_statistics(kept: Any, *, keep_empty: bool) -> dict[str, Any]:
    """Return the means of the silo's own columns, from the kept sums and counts."""
    if not keep_empty and not kept["count"].all():
        raise DataError("A column has no value to take a mean of.", rule="empty_column")
    return {"statistics": kept["total"] / np.maximum(kept["count"], 1)}


@derived(fitted_by=("imputer.own_statistics",), by_column="missing")
def own_imputed(X: Float[Array, "n p"], kept: Any) -> Float[Array, "n p"]:
    """Return the rows with the silo's own statistics in their missing cells."""
    return imputed(X, statistics=kept["statistics"])


@disclosed(
    statistics=release("p", meaning="the value that fills each of the silo's columns")
)
def shown_statistics(kept: Any) -> dict[str, Any]:
    """Return the statistics of the silo's own columns."""
    return {"statistics": kept["statistics"]}


@derived(fitted_by=(), by_column="missing")
def filled(X: Float[Array, "n p"], *, value: float) -> Float[Array, "n p"]:
    """Return the rows with one number in all missing cells."""
    return np.where(np.isnan(X), value, X)


@final
class SimpleImputer(OneToOneFeatureMixin, TransformerMixin, FederatedEstimator):
    """Fill missing cells (NaN, blank) with each column's mean over all silos.

    Parameters
    ----------
    strategy : {"mean", "constant"}, default "mean"
        "mean" fills with the column's mean over all silos. "constant" fills with
        `fill_value`; nothing is computed in the silos or released by them.
    fill_value : float, optional
        The number for ``strategy="constant"``; 0 when omitted.
    keep_empty_features : bool, default False
        Whether a column without a value in any silo is filled with 0; otherwise it is
        an error. With ``strategy="constant"`` such columns are always filled.

    Attributes
    ----------
    statistics_ : (p,) array
        The value that fills each column.
    n_observed_ : (p,) array of int
        Number of observed cells of each column; only with ``strategy="mean"``, on a row
        partition.
    n_features_in_ : int
        p, the number of columns seen in `fit`.
    feature_names_in_ : (p,) array of str
        Names of the columns, where the silos' tables have names.

    Notes
    -----
    Released, as totals only: the number of observed cells of each column; then, unless
    some silo finds them too few (`min_rows`, and `min_own_cells` of its own), their
    sum. Never released: a row, which cells are missing, or any silo's own count or sum.
    On a column partition nothing is released: each silo keeps the statistics of its own
    columns, and `transform` uses them there.

    A column without a value in any silo has no mean. scikit-learn drops it with a
    warning; here it is a `DataError`, because later steps and the silos' owners rely on
    the columns that were agreed upon.

    See Also
    --------
    sklearn.impute.SimpleImputer : its twin on pooled rows.
    """

    statistics_: Float[Array, " p"]
    n_observed_: Int[Array, " p"]

    _partitions = ("rows", "columns")
    _gives_views = ("rows", "columns")
    _missing = True
    _kept_by_silos = ("statistics_",)
    _steps = (local_counts, local_observed, own_observed)

    def __init__(
        self,
        strategy: str = "mean",
        *,
        fill_value: Any = None,
        keep_empty_features: bool = False,
    ) -> None:
        self.strategy = strategy
        self.fill_value = fill_value
        self.keep_empty_features = keep_empty_features

    def _exhibits(self, columns: Sequence[str]) -> list[Exhibit]:
        return imputer_exhibits(self, columns)

    def _exhibits_with(
        self, columns: Sequence[str], later: Sequence[Any]
    ) -> list[Exhibit]:
        return imputer_exhibits(self, columns, later)

    def _citation(self) -> Citation:
        filling = "the mean of the column over all silos"
        if self.strategy == "constant":
            filling = f"the constant {self._constant():g}"
        return Citation(
            f"Missing values were replaced by {filling}.",
            (
                "Little RJA, Rubin DB. Statistical Analysis with Missing Data. 3rd "
                "edition. Wiley, 2019.",
            ),
        )

    def _fit(self, federation: Federation, y: Any) -> None:
        if self.strategy == "constant":
            self.statistics_ = np.full(federation.n_features, self._constant())
            return
        if self.strategy != "mean":
            raise DataError(
                f'strategy={self.strategy!r}; choose "mean" or "constant". Medians and '
                f"most frequent values are not sums over silos."
            )
        if federation.partition == "columns":
            federation.keep(own_observed)
            federation.keep(own_statistics, keep_empty=self.keep_empty_features)
            return
        count, total = pooled_sums(federation)
        empty = [federation.feature_names[j] for j in np.flatnonzero(count == 0)]
        if empty and not self.keep_empty_features:
            raise DataError(
                f"No silo has a value in {', '.join(empty)}, so there is no mean to "
                f"fill in. Leave these columns out with select, or fill them with 0 "
                f"by keep_empty_features=True."
            )
        self.statistics_ = _means(count, total)
        self.n_observed_ = count.astype(np.int64)

    def _gather(self, federation: Federation) -> None:
        shown = federation.collect(shown_statistics, kept_of=self.kept_)
        parts = [shown[party]["statistics"] for party in federation.parties]
        self.statistics_ = np.concatenate(parts)

    def _constant(self) -> float:
        fill = 0.0 if self.fill_value is None else self.fill_value
        if not isinstance(fill, int | float | np.number) or not np.isfinite(fill):
            raise DataError(
                f"fill_value={fill!r} (of type {type(fill)!r}) cannot be cast to a "
                f"finite number, which is what the columns hold."
            )
        return float(fill)

    def transform(self, X: Any) -> Any:
        """Return rows with their missing cells filled.

        Parameters
        ----------
        X : (n, p) array-like or Federation
            For a federation the result is a view of it: each silo fills its own rows
            when they are read, and nothing is released.
        """
        if isinstance(X, Federation):
            view = self._check_view(X)
            by_columns = view.partition == "columns"
            if self.strategy == "constant":
                names = None if by_columns else view.feature_names
                return view.derive(filled, names, value=self._constant())
            if by_columns:
                return view.derive(own_imputed, kept_of=self.kept_)
            return view.derive(imputed, view.feature_names, statistics=self.statistics_)
        return imputed(self._check_rows(X), statistics=self.statistics_)

    def to_sklearn(self) -> Any:
        """Return a fitted `sklearn.impute.SimpleImputer`."""
        import sklearn.impute

        check_is_fitted(self)
        twin = sklearn.impute.SimpleImputer(
            strategy=self.strategy,
            fill_value=self.fill_value,
            keep_empty_features=self.keep_empty_features,
        )
        twin.fit(self.statistics_[None])
        return self._taught(twin)


def _means(count: Array, total: Float[Array, " p"]) -> Float[Array, " p"]:
    """Return the mean of each column, 0 for a column without values."""
    return total / np.maximum(count, 1)

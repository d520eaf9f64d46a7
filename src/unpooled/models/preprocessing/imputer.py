"""Imputation: missing cells are filled with column means or medians of all silos.

    round 1   silos ── the number of observed cells of each column ────────> counts
    mean
      round 2 silos <── counts ──  silos ── the sums of these cells ────────> totals
              mean_j = total_j / count_j
    median
      then    a search by counts or in secret: `unpooled.models.description.quantiles`

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
from unpooled.models.description.quantiles import (
    STEPS,
    check_least,
    column_values,
    units_of,
)
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
    fitted_by=(
        "imputer.local_observed",
        "imputer.found_quantiles",
        "imputer.compared_ranks",
    ),
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
    """Fill missing cells (NaN, blank) with each column's mean or median over all silos.

    Parameters
    ----------
    strategy : {"mean", "median", "constant"}, default "mean"
        "mean" and "median" fill with that of the column over all silos; "median" is for
        row partitions. "constant" fills with `fill_value`; nothing is computed in the
        silos or released by them.
    fill_value : float, optional
        The number for ``strategy="constant"``; 0 when omitted.
    keep_empty_features : bool, default False
        Whether a column without a value in any silo is filled with 0; otherwise it is
        an error. With ``strategy="constant"`` such columns are always filled.
    comparison : {"summed", "mpc"}, default "summed"
        How silos search for medians, as of `Quantiles`; this and what follows are for
        ``strategy="median"`` alone.
    min_rows : int, default 10
        How many values lie in the bracket of a median at least, as of `Quantiles`.
    decimals : int or mapping of str to int, optional
        How many decimals values have, as of `Quantiles`.
    allow_coordinator_party : bool, default False
        With "mpc" and two silos, let the coordinator be the third party.

    Attributes
    ----------
    statistics_ : (p,) array
        The value that fills each column.
    n_observed_ : (p,) array of int
        Number of observed cells of each column; on a row partition, and not with
        ``strategy="constant"``.
    n_features_in_ : int
        p, the number of columns seen in `fit`.
    feature_names_in_ : (p,) array of str
        Names of the columns, where the silos' tables have names.

    Raises
    ------
    DataError
        Where no silo has a value in a column, unless `keep_empty_features`; where fewer
        than `min_rows` values lie at or beyond the median of a column; and for medians
        on a column partition.

    Notes
    -----
    Released, as totals only: the number of observed cells of each column; then, unless
    some silo finds them too few (the policy's `min_rows`, and `min_own_cells` of its
    own), their sum. For medians instead of the sum: the medians, with the widths of
    their brackets, and what `Quantiles` says. Never released: a row, which cells are
    missing, or any silo's own count or sum.
    On a column partition nothing is released: each silo keeps the statistics of its own
    columns, and `transform` uses them there.

    A column without a value in any silo has no mean or median. scikit-learn drops it
    with a warning; here it is a `DataError`, because later steps and the silos' owners
    rely on the columns that were agreed upon.

    Where few cells of a column are missing, a silo fills them as the first time, over
    all studies: with the mean where a mean was fitted before the median.

    See Also
    --------
    sklearn.impute.SimpleImputer : its twin on pooled rows, to which medians are equal
        with ``min_rows=1``; otherwise up to the widths of the brackets.
    """

    statistics_: Float[Array, " p"]
    n_observed_: Int[Array, " p"]

    _partitions = ("rows", "columns")
    _gives_views = ("rows", "columns")
    _missing = True
    _kept_by_silos = ("statistics_",)
    _steps = (local_counts, local_observed, own_observed, *STEPS)

    def __init__(
        self,
        strategy: str = "mean",
        *,
        fill_value: Any = None,
        keep_empty_features: bool = False,
        comparison: str = "summed",
        min_rows: int = 10,
        decimals: Any = None,
        allow_coordinator_party: bool = False,
    ) -> None:
        self.strategy = strategy
        self.fill_value = fill_value
        self.keep_empty_features = keep_empty_features
        self.comparison = comparison
        self.min_rows = min_rows
        self.decimals = decimals
        self.allow_coordinator_party = allow_coordinator_party

    def _exhibits(self, columns: Sequence[str]) -> list[Exhibit]:
        return imputer_exhibits(self, columns)

    def _exhibits_with(
        self, columns: Sequence[str], later: Sequence[Any]
    ) -> list[Exhibit]:
        return imputer_exhibits(self, columns, later)

    def _citation(self) -> Citation:
        filling = f"the {self.strategy} of the column over all silos"
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
        if self.strategy not in ("mean", "median"):
            raise DataError(
                f'strategy={self.strategy!r}; choose "mean", "median" or "constant". '
                f"Most frequent values are not sums over silos."
            )
        if federation.partition == "columns":
            if self.strategy == "median":
                raise DataError(
                    'On a column partition strategy="median" is not offered: a median '
                    "of a silo's own column is one person's value. Choose \"mean\"."
                )
            federation.keep(own_observed)
            federation.keep(own_statistics, keep_empty=self.keep_empty_features)
            return
        if self.strategy == "median":
            self._fit_medians(federation)
            return
        count, total = pooled_sums(federation)
        self._check_empty(federation, count)
        self.statistics_ = _means(count, total)
        self.n_observed_ = count.astype(np.int64)

    def _fit_medians(self, federation: Federation) -> None:
        least, names = check_least(self.min_rows), federation.feature_names
        units = units_of(self.decimals, names)
        count = np.rint(federation.sum(local_counts)["count"])
        self._check_empty(federation, count)
        some = np.flatnonzero(count)
        medians = np.zeros(len(count))
        if len(some):
            view = federation
            if len(some) < len(count):
                view = federation.select([names[j] for j in some])
            found, _ = column_values(
                view,
                np.array([0.5]),
                comparison=self.comparison,
                least=least,
                units=units[some],
                allow_coordinator_party=self.allow_coordinator_party,
            )
            medians[some] = found[0]
        if few := [names[j] for j in np.flatnonzero(np.isnan(medians))]:
            raise DataError(
                f"Fewer than {self.min_rows} values lie at or beyond the median of "
                f"{', '.join(few)}. Leave such columns out with select, or fill them "
                f"with their means."
            )
        self.statistics_ = medians
        self.n_observed_ = count.astype(np.int64)

    def _check_empty(self, federation: Federation, count: Float[Array, " p"]) -> None:
        empty = [federation.feature_names[j] for j in np.flatnonzero(count == 0)]
        if empty and not self.keep_empty_features:
            raise DataError(
                f"No silo has a value in {', '.join(empty)}, so there is no "
                f"{self.strategy} to fill in. Leave these columns out with select, or "
                f"fill them with 0 by keep_empty_features=True."
            )

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

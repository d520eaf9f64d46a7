"""Missing cells filled with a statistic of their column over all silos.

    round 1   silos ── the number of observed cells of each column ────────> counts
    mean
      round 2 silos <── counts ──  silos ── the sums of these cells ────────> totals
              mean_j = total_j / count_j
    median
      then    a search by counts or in secret: `unpooled.models.description.quantiles`

    most_frequent      `unpooled.models.preprocessing.most_frequent`
    add_indicator      one more round: the number of missing cells of each column

Each silo judges the counts before it sends the sums: the mean of a single cell would be
that person's value. A column without a value in one silo is no error, as long as
another silo has some. On a column partition each silo keeps the means of its own
columns, and nothing is released.
"""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, final

import numpy as np
import scipy
from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from unpooled.arrays import Array, Bool, Float, Int, Shaped
from unpooled.data.categories import category_code, category_name
from unpooled.data.columns import listing
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.models.base import FederatedEstimator, disclosed_columns
from unpooled.models.description.quantiles import (
    STEPS,
    check_least,
    column_values,
    units_of,
)
from unpooled.models.moments import (
    check_finite,
    local_counts,
    local_observed,
    own_observed,
    pooled_sums,
)
from unpooled.models.parameter_checks import check_choice
from unpooled.models.preprocessing.agreed_categories import (
    local_categories,
    local_values,
)
from unpooled.models.preprocessing.most_frequent import found_modes, most_frequent
from unpooled.models.preprocessing.own_categories import counted
from unpooled.models.preprocessing.preprocessing_results import (
    filling_name,
    imputer_exhibits,
)
from unpooled.protocol.step import (
    derived,
    disclosed,
    kept,
    public,
    release,
    stays,
    summed,
)
from unpooled.protocol.widened_columns import INDICATOR, widened_columns
from unpooled.results.citations import Citation, interpolated

MISSING_CELLS = "number of rows without a value in each column, over all silos"
STRATEGIES = ("mean", "median", "most_frequent", "constant")
_PLANNED = (
    "Which columns lack cells depends on the data; the plan has an indicator for each "
    "column."
)
# The name that scikit-learn fills columns of text with.
_NO_NAME = "missing_value"


@summed(
    within_silos=True,
    missing=release(
        "p", meaning="number of rows without a value in each column", counts="cells"
    ),
)
def local_missing(cells: Float[Array, "n p"]) -> dict[str, Any]:
    """Count this silo's missing cells, by column."""
    return {"missing": np.isnan(cells).sum(axis=0).astype(float)}


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
    """Return the rows with each column's mean in its missing cells."""
    return _filled(X, statistics)


# Each statistic has a transform of its own: a silo that filled few cells with the mean
# refuses the median by its name (`unpooled.party.rules.imputed_cells`).
@derived(
    takes={"statistics": public("p", "the median of each column")},
    fitted_by=("imputer.found_quantiles", "imputer.compared_ranks"),
    by_column="missing",
)
def imputed_medians(
    X: Float[Array, "n p"], *, statistics: Float[Array, " p"]
) -> Float[Array, "n p"]:
    """Return the rows with each column's median in its missing cells."""
    return _filled(X, statistics)


@derived(
    takes={
        "statistics": public(
            "p", "the most frequent value of each column, or the code of its name"
        )
    },
    fitted_by=("imputer.found_modes", "imputer.local_categories"),
    by_column="missing",
)
def imputed_modes(
    cells: Float[Array, "n p"], *, statistics: Float[Array, " p"], names: Any
) -> Float[Array, "n p"]:
    """Return the rows with each column's most frequent value in its missing cells.

    `names` are the categories among these: a silo may have no row of one.
    """
    return _filled(cells, statistics)


@kept(statistics=stays("p", meaning="the value that fills each of the silo's columns"))
def own_statistics(kept: Any, *, keep_empty: bool) -> dict[str, Any]:
    """Return the means of the silo's own columns, from the kept sums and counts."""
    if not keep_empty and not kept["count"].all():
        raise DataError("A column has no value to take a mean of.", rule="empty_column")
    return {"statistics": kept["total"] / np.maximum(kept["count"], 1)}


@derived(fitted_by=("imputer.own_statistics",), by_column="missing")
def own_imputed(X: Float[Array, "n p"], kept: Any) -> Float[Array, "n p"]:
    """Return the rows with the silo's own statistics in their missing cells."""
    return _own_filled(X, kept)


@kept(
    by="party",
    statistics=stays("p", meaning="the median of each of the silo's columns"),
)
def own_medians(X: Float[Array, "N p"], *, keep_empty: bool) -> dict[str, Any]:
    """Return the medians of the silo's own columns, which nobody else sees."""
    return {"statistics": np.nanmedian(_none_empty(X, keep_empty), axis=0)}


@derived(fitted_by=("imputer.own_medians",), by_column="missing", by_cells=True)
def own_imputed_medians(X: Float[Array, "n p"], kept: Any) -> Float[Array, "n p"]:
    """Return the rows with the silo's own medians in their missing cells."""
    return _own_filled(X, kept)


@kept(
    by="party",
    statistics=stays(
        "p", meaning="the most frequent value of each of the silo's columns"
    ),
)
def own_modes(
    cells: Float[Array, "N p"],
    columns: Sequence[str],
    coded: Sequence[str],
    dictionary: Mapping[float, str],
    *,
    keep_empty: bool,
) -> dict[str, Any]:
    """Return the most frequent value of each own column, the smallest of several."""
    mode = scipy.stats.mode(_none_empty(cells, keep_empty), axis=0, nan_policy="omit")
    statistics = np.array(mode.mode, float)
    for j in np.flatnonzero(np.isin(columns, coded)):
        found = counted(cells[:, j], dictionary)
        if not found.names:
            raise DataError("A column has no name to fill in.", rule="empty_column")
        # Names are in the order of text.
        statistics[j] = found.codes[found.counts.argmax()]
    return {"statistics": statistics}


@derived(fitted_by=("imputer.own_modes",), by_column="missing", by_cells=True)
def own_imputed_modes(cells: Float[Array, "n p"], kept: Any) -> Float[Array, "n p"]:
    """Return the rows with the silo's own most frequent values in missing cells."""
    return _own_filled(cells, kept)


@kept(
    by="party",
    statistics=stays(
        "p", meaning="the number, or the code of the name, that fills each own column"
    ),
)
def own_constants(
    columns: Sequence[str], coded: Sequence[str], *, value: float, name: str
) -> dict[str, Any]:
    """Return the study's filling of own columns: a number, or a name in texts."""
    of_text = np.isin(columns, coded)
    return {"statistics": np.where(of_text, category_code(name), value)}


# The study chooses these: no step has fitted them.
@derived(fitted_by=(), by_column="missing")
def own_filled_by_kind(
    cells: Float[Array, "n p"], kept: Any, *, names: Any
) -> Float[Array, "n p"]:
    """Return the rows with a number or a name in missing cells of the silo's columns.

    `names` is the one that fills columns of categories.
    """
    return _own_filled(cells, kept)


# How a silo fills its own columns, of which it keeps what fills them.
_OWN = {
    "mean": own_imputed,
    "median": own_imputed_medians,
    "most_frequent": own_imputed_modes,
}


@disclosed(
    statistics=release("p", meaning="the value that fills each of the silo's columns")
)
def shown_statistics(kept: Any) -> dict[str, Any]:
    """Return the statistics of the silo's own columns."""
    return {"statistics": kept["statistics"]}


@kept(
    by="party",
    lacks=stays("p", meaning="1 for each of the silo's columns that lacks a value"),
    missing=stays(
        "p",
        meaning="number of rows without a value in each of the silo's columns",
        counts="classes",
    ),
)
def own_missing(cells: Float[Array, "N p"]) -> dict[str, Any]:
    """Count the missing cells of the silo's own columns, for its rules to judge."""
    check_finite(cells)
    missing = np.isnan(cells).sum(axis=0).astype(float)
    return {"lacks": (missing > 0).astype(float), "missing": missing}


@disclosed(
    lacks=release(
        "p",
        meaning="1 for each of the silo's columns that gets an indicator",
        counts="columns",
    )
)
def shown_lacks(kept: Any) -> dict[str, Any]:
    """Return which of the silo's columns get an indicator of missing cells."""
    return {"lacks": kept["lacks"]}


@derived(fitted_by=("imputer.own_missing",), by_column="indicator", widens="indicators")
def own_indicated(cells: Float[Array, "n p"], kept: Any) -> Float[Array, "n q"]:
    """Return the silo's own columns, with indicators behind those that lack cells."""
    parts = [cells[:, :0]]
    for j, lacks in enumerate(kept["lacks"].tolist()):
        own = cells[:, j, None]
        parts += [own, np.isnan(own).astype(float)] if lacks else [own]
    return np.hstack(parts)


@derived(
    takes={"missing": public("p", MISSING_CELLS, counts="groups")},
    by_column="indicator",
)
def indicated(
    cells: Float[Array, "n p"], *, missing: Float[Array, " p"]
) -> Float[Array, "n p"]:
    """Return 1 where a cell is missing, otherwise 0."""
    return np.isnan(cells).astype(float)


@derived(
    takes={
        "statistics": public(
            "p", "what fills each column: a number, or the code of a category"
        )
    },
    fitted_by=(),
    by_column="missing",
)
def filled_by_kind(
    cells: Float[Array, "n p"], *, statistics: Float[Array, " p"], names: Any
) -> Float[Array, "n p"]:
    """Return the rows with a number or a category in the missing cells of a column.

    `names` are those of the categories.
    """
    return _filled(cells, statistics)


@derived(fitted_by=(), by_column="missing")
def filled(X: Float[Array, "n p"], *, value: float) -> Float[Array, "n p"]:
    """Return the rows with one number in all missing cells."""
    return np.where(np.isnan(X), value, X)


@final
@dataclass(eq=False, repr=False)
class SimpleImputer(OneToOneFeatureMixin, TransformerMixin, FederatedEstimator):
    """Fill missing cells (NaN, blank) with a statistic of each column over all silos.

    Parameters
    ----------
    strategy : {"mean", "median", "most_frequent", "constant"}, default "mean"
        "mean", "median" and "most_frequent" fill with that of the column over all
        silos. "most_frequent" and "constant" fill columns of categories too. "constant"
        fills with `fill_value`; nothing is computed in the silos or released by them.
    fill_value : float or str, optional
        What ``strategy="constant"`` fills with. When omitted, 0, and "missing_value" in
        columns of categories.
    add_indicator : bool, default False
        Whether `transform` adds a column for each column that lacks a value in some row
        of the fit: 1 where the cell is missing, otherwise 0. They stand behind the
        others and are named "missingindicator_age". On a column partition each stands
        behind its column.
    keep_empty_features : bool, default False
        Whether a column of numbers without a value in any silo is filled with 0;
        otherwise it is an error. With ``strategy="constant"`` such columns are always
        filled.
    comparison : {"summed", "mpc"}, default "summed"
        How silos search for medians, as of `Quantiles`.
    min_rows : int, default 10
        With "median", how many values lie in its bracket at least, as of `Quantiles`.
        With "most_frequent", how many rows have a number, at least. It is counted in
        the silos with so many rows of it, or 10 of them. Silos refuse fewer than
        `min_rows_per_class` of their policy.
    decimals : int or mapping of str to int, optional
        How many decimals values have, as of `Quantiles`.
    allow_coordinator_party : bool, default False
        With "mpc" and two silos, let the coordinator be the third party.

    Attributes
    ----------
    statistics_ : (p,) array
        The value that fills each column: numbers, or objects where some are names of
        categories.
    n_observed_ : (p,) array of int
        Number of observed cells of each column; on a row partition, and not with
        ``strategy="constant"``.
    certain_ : (p,) array of bool
        Only with "most_frequent": whether no other value can be as frequent, however
        the cells are divided whose value too few rows of their silo share. Otherwise
        one may be, and the results say so.
    n_missing_ : (p,) array of int
        Only with `add_indicator`: the number of missing cells of each column.
    indicator_features_ : (q,) array of int
        Only with `add_indicator`: the places of the columns that have an indicator.
    kept_ : str
        Only on a column partition: study and view under which the silos keep the
        means of their columns.
    n_features_in_ : int
        p, the number of columns seen in `fit`.
    feature_names_in_ : (p,) array of str
        Names of the columns, where the silos' tables have names.

    Raises
    ------
    DataError
        Where no silo has a value in a column, unless `keep_empty_features`; where fewer
        than `min_rows` values lie at or beyond the median of a column; where no number
        is that of `min_rows` rows, for the most frequent one.

    Notes
    -----
    Released, as totals only: the number of observed cells of each column; then, unless
    some silo finds them too few (the policy's `min_rows`, and `min_own_cells` of its
    own), their sum. For medians instead of the sum: the medians, with the widths of
    their brackets, and what `Quantiles` says. For most frequent values: the value, and
    whether it is the most frequent for certain; only the silos' programs open how many
    rows have each value that 10 rows of a silo share (or `min_rows`, if it is less),
    and how many another. Of columns of categories what `OneHotEncoder` releases. For
    indicators: the number of missing cells of each column. A silo refuses
    where a single cell of its own is missing (`min_own_cells`), and refuses rows with
    the indicator of fewer than `min_rows_per_class` cells. Never released: a row, which
    cells are missing, or any silo's own count or sum.

    On a column partition nothing is released without indicators: each silo keeps the
    statistics of its own columns, and `transform` uses them there. There a silo's
    median or most frequent value is a cell, often of one person, and no silo shows it.
    With indicators each silo discloses which of its columns get one, for their number
    is public, and refuses those of fewer than `min_rows_per_class` missing cells.

    A column without a value in any silo has no mean or median. scikit-learn drops it
    with a warning; here it is a `DataError`, because later steps and the silos' owners
    rely on the columns that were agreed upon.

    Where a block of a silo's rows lacks a few cells of a column, the silo fills the
    column in one way only, over all studies. Of means that were fitted on other rows
    the first stays; a median after a mean, or any other strategy after one, is refused
    (`another_filling`).

    See Also
    --------
    sklearn.impute.SimpleImputer : its twin on pooled rows, to which medians and most
        frequent values are equal with ``min_rows=1``; otherwise medians up to the
        widths of the brackets, and most frequent values where they are `certain_`. Of
        equally frequent values both take the smallest.

    References
    ----------
    Little and Rubin, Statistical analysis with missing data, 3rd edition, Wiley, 2019.
    """

    statistics_: Any = field(init=False)
    n_observed_: Int[Array, " p"] = field(init=False)
    certain_: Bool[Array, " p"] = field(init=False)
    n_missing_: Int[Array, " p"] = field(init=False)
    indicator_features_: Int[Array, " q"] = field(init=False)

    _partitions = ("rows", "columns")
    _gives_views = ("rows", "columns")
    _missing = True
    _kept_by_silos = ("statistics_",)
    _steps = (
        local_counts,
        local_observed,
        own_observed,
        local_values,
        found_modes,
        local_categories,
        *STEPS,
    )
    _exhibits_with = imputer_exhibits

    strategy: str = "mean"
    _: KW_ONLY
    fill_value: Any = None
    add_indicator: bool = False
    keep_empty_features: bool = False
    comparison: str = "summed"
    min_rows: int = 10
    decimals: Any = None
    allow_coordinator_party: bool = False

    @property
    def _reads_categories(self) -> bool:
        """Whether some of the columns that were fitted hold categories."""
        fitted = vars(self).get("statistics_")
        return fitted is None or fitted.dtype == object

    def _citation(self) -> Citation:
        filling = f"the {filling_name(self.strategy)} of the column over all silos"
        if self.strategy == "constant":
            filling = (
                f"the constant {0 if self.fill_value is None else self.fill_value}"
            )
        marked = ", and indicators of missing values were added"
        return Citation(
            f"Missing values were replaced by {filling}"
            f"{marked if self.add_indicator else ''}.",
            (
                "Little RJA, Rubin DB. Statistical Analysis with Missing Data. 3rd "
                "edition. Wiley, 2019.",
            ),
            apart_from=(
                interpolated("medians", self) if self.strategy == "median" else ""
            ),
        )

    def _needs_values(self) -> bool:
        return self.strategy != "constant" and not self.keep_empty_features

    def _fit(self, federation: Federation, y: Any) -> None:
        check_choice("strategy", self.strategy, STRATEGIES)
        if self.strategy in ("mean", "median") and federation.categorical:
            one = len(federation.categorical) == 1
            raise DataError(
                f"{listing(federation.categorical)} {'holds' if one else 'hold'} "
                f"categories, which have no {self.strategy}. Choose "
                f'strategy="most_frequent" or "constant" for them, by a '
                f"ColumnTransformer, or encode them first (unpooled.OneHotEncoder)."
            )
        if federation.partition == "columns":
            self._fit_own(federation)
            return
        if self.strategy == "constant":
            self.statistics_ = self._constants(federation)
        elif self.strategy == "median":
            self._fit_medians(federation)
        elif self.strategy == "most_frequent":
            self._fit_modes(federation)
        else:
            count, total = pooled_sums(federation)
            self._check_empty(federation, count)
            self.statistics_ = _means(count, total)
            self.n_observed_ = count.astype(np.int64)
        if self.add_indicator:
            self._find_missing(federation)

    def _fit_own(self, federation: Federation) -> None:
        """Fit on a column partition, where each silo keeps what fills its columns."""
        if self.add_indicator:
            self._find_own_missing(federation)
        if self.strategy == "constant":
            if not federation.layout.known_to:
                # A silo that follows does not know which columns of others are text.
                self._constants(federation)
            value, name = self._fillings()
            federation.keep(own_constants, value=value, name=name)
        elif self.strategy == "mean":
            federation.keep(own_observed)
            federation.keep(own_statistics, keep_empty=self.keep_empty_features)
        else:
            step = own_medians if self.strategy == "median" else own_modes
            federation.keep(step, keep_empty=self.keep_empty_features)

    def _find_own_missing(self, federation: Federation) -> None:
        """Find the columns that have an indicator, of each silo's own."""
        federation.keep(own_missing)
        lacks = disclosed_columns(federation, shown_lacks)["lacks"]
        self.indicator_features_ = np.flatnonzero(lacks)
        if federation.coordinator.planned:
            federation.coordinator.notes.append(_PLANNED)

    def _fit_modes(self, federation: Federation) -> None:
        found = most_frequent(federation, check_least(self.min_rows))
        names, texts = federation.feature_names, set(federation.categorical)
        if nameless := [
            n
            for n, m in zip(names, found.values, strict=True)
            if m is None and n in texts
        ]:
            raise DataError(f"No silo has a name in {', '.join(nameless)}.")
        self._check_empty(federation, found.n_observed.astype(float))
        self.statistics_ = _statistics(
            [0.0 if mode is None else mode for mode in found.values]
        )
        self.n_observed_, self.certain_ = found.n_observed, found.certain

    def _find_missing(self, federation: Federation) -> None:
        """Find the columns that have an indicator, and how many cells each lacks."""
        missing = np.rint(federation.sum(local_missing)["missing"]).astype(np.int64)
        if federation.coordinator.planned:
            federation.coordinator.notes.append(_PLANNED)
            missing = np.full(len(missing), max(federation.coordinator.n_rows // 2, 1))
        self.indicator_features_ = np.flatnonzero(missing)
        self.n_missing_ = missing

    def _fit_medians(self, federation: Federation) -> None:
        check_least(self.min_rows)
        names = federation.feature_names
        units = units_of(self.decimals, names)
        count = np.rint(federation.sum(local_counts)["count"])
        self._check_empty(federation, count)
        some = np.flatnonzero(count)
        medians = np.zeros(len(count))
        if len(some):
            view = federation
            if len(some) < len(count):
                view = federation.select([names[j] for j in some])
            found, _ = column_values(self, view, np.array([0.5]), units=units[some])
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

    def _fillings(self) -> tuple[float, str]:
        """Return the fillings of columns of numbers, and of categories."""
        name = _NO_NAME if self.fill_value is None else category_name(self.fill_value)
        return 0.0 if isinstance(self.fill_value, str) else self._constant(), str(name)

    def _gather(self, federation: Federation) -> None:
        if self.strategy == "constant":
            self.statistics_ = self._constants(federation)
            return
        if self.strategy != "mean":
            raise DataError(
                f"The {filling_name(self.strategy)}s of a silo's own columns are cells "
                f"of its people, often of one: no silo shows them."
            )
        shown = disclosed_columns(federation, shown_statistics, kept_of=self.kept_)
        self.statistics_ = shown["statistics"]

    def _constants(self, federation: Federation) -> Any:
        texts = set(federation.categorical)
        name, value = self.fill_value, self.fill_value
        if texts:
            name = _NO_NAME if name is None else category_name(name)
            if name is None:
                raise DataError(f"fill_value={self.fill_value!r} is no name.")
        if len(texts) < federation.n_features:
            value = self._constant()
        names = federation.feature_names
        return _statistics([str(name) if n in texts else value for n in names])

    def _constant(self) -> float:
        fill = 0.0 if self.fill_value is None else self.fill_value
        if not isinstance(fill, int | float | np.number) or not np.isfinite(fill):
            raise DataError(
                f"fill_value={fill!r} (of type {type(fill)!r}) cannot be cast to a "
                f"finite number, which is what the columns hold."
            )
        return float(fill)

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Return the names of the columns, with those of indicators at the end.

        Parameters
        ----------
        input_features : sequence of str, optional
            The names in `fit`.
        """
        names = super().get_feature_names_out(input_features)
        if "kept_" in vars(self):
            pairs = widened_columns("indicators", names.tolist(), self._lacks())
            return np.array([name for name, _ in pairs], dtype=object)
        made = [INDICATOR + str(names[j]) for j in self._indicators().tolist()]
        return np.array([*names, *made], dtype=object) if made else names

    def transform(self, X: Any) -> Any:
        """Return rows with their missing cells filled.

        Parameters
        ----------
        X : (n, p) array-like or Federation
            For a federation the result is a view of it: each silo fills its own rows
            when they are read, and nothing is released. Of rows with categories the
            result has objects.
        """
        if isinstance(X, Federation):
            return self._view(self._check_view(X))
        check_is_fitted(self)
        if self.statistics_.dtype == object:
            return self._transformed_objects(X)
        rows = self._check_rows(X)
        made = _filled(rows, self.statistics_)
        places = self._indicators()
        return np.hstack([made, np.isnan(rows[:, places])]) if len(places) else made

    def _view(self, view: Federation) -> Federation:
        if view.partition == "columns":
            if len(self._indicators()):
                lacks = self._lacks()
                view = view.widen(own_indicated, lacks, kept_of=self.kept_)
            if self.strategy == "constant":
                names = [self._fillings()[1]]
                return view.derive(own_filled_by_kind, kept_of=self.kept_, names=names)
            return view.derive(_OWN[self.strategy], kept_of=self.kept_)
        codes, names = codes_of(self.statistics_)
        if len(places := self._indicators()):
            own = view.feature_names
            lacking = [own[j] for j in places.tolist()]
            made = [INDICATOR + name for name in lacking]
            missing = self.n_missing_[places].astype(float)
            view = view.with_derived(indicated, lacking, made, missing=missing)
            # Indicators have no missing cells, whatever would fill them.
            codes = np.append(codes, np.zeros(len(places)))
        columns = view.feature_names
        if self.strategy == "constant" and not names:
            return view.derive(filled, columns, value=self._constant())
        if self.strategy in ("most_frequent", "constant"):
            step = imputed_modes if self.strategy == "most_frequent" else filled_by_kind
            return view.derive(step, columns, statistics=codes, names=names)
        step = imputed_medians if self.strategy == "median" else imputed
        return view.derive(step, columns, statistics=codes)

    def _lacks(self) -> list[int]:
        """Return 1 for each column that has an indicator, otherwise 0."""
        places = set(self._indicators().tolist())
        return [int(j in places) for j in range(self.n_features_in_)]

    def _indicators(self) -> Int[Array, " q"]:
        return vars(self).get("indicator_features_", np.zeros(0, np.int64))

    def _transformed_objects(self, X: Any) -> Shaped[Array, "n q"]:
        """Return rows of numbers and names, filled."""
        rows = self._check_objects(X)
        missing = np.zeros(rows.shape, bool)
        for j, statistic in enumerate(self.statistics_):
            if isinstance(statistic, str):
                missing[:, j] = [category_name(c) is None for c in rows[:, j].tolist()]
            else:
                rows[:, j] = rows[:, j].astype(float)
                missing[:, j] = np.isnan(rows[:, j].astype(float))
            rows[missing[:, j], j] = statistic
        made = missing[:, self._indicators()].astype(float)
        return np.hstack([rows, made.astype(object)])

    def to_sklearn(self) -> Any:
        """Return a fitted `sklearn.impute.SimpleImputer`."""
        import sklearn.impute

        check_is_fitted(self)
        twin = sklearn.impute.SimpleImputer(
            strategy=self.strategy,
            fill_value=self.fill_value,
            add_indicator=self.add_indicator,
            keep_empty_features=self.keep_empty_features,
        )
        # A row of the statistics has these statistics, whichever they are.
        rows = np.array([self.statistics_, self.statistics_])
        rows[1, self._indicators()] = np.nan
        twin.fit(rows)
        return self._taught(twin)


def codes_of(statistics: Array) -> tuple[Float[Array, " p"], list[str]]:
    """Return statistics as numbers, names as their codes, and these names."""
    names = sorted({s for s in statistics.tolist() if isinstance(s, str)})
    codes = [
        category_code(s) if isinstance(s, str) else float(s)
        for s in statistics.tolist()
    ]
    return np.array(codes), names


def _statistics(values: Sequence[Any]) -> Array:
    """Return numbers as such, and objects where some are names."""
    texts = any(isinstance(value, str) for value in values)
    return np.array(values, dtype=object if texts else float)


def _filled(X: Float[Array, "n p"], values: Float[Array, " p"]) -> Float[Array, "n p"]:
    missing = np.isnan(X)
    return np.where(missing, values, X) if missing.any() else X


def _own_filled(X: Float[Array, "n q"], kept: Any) -> Float[Array, "n q"]:
    """Fill a silo's own columns; indicators that stand beside them lack no cell."""
    values = kept["statistics"]
    if X.shape[1] > len(values):
        values = np.repeat(values, 1 + kept["lacks"].astype(np.int64))
    return _filled(X, values)


def _none_empty(X: Float[Array, "N p"], keep_empty: bool) -> Float[Array, "N p"]:
    """Return a silo's own columns, 0 in those without a value where they are kept."""
    check_finite(X)
    empty = np.isnan(X).all(axis=0)
    if empty.any() and not keep_empty:
        raise DataError("A column has no value to fill it with.", rule="empty_column")
    return np.where(empty, 0.0, X)


def _means(count: Array, total: Float[Array, " p"]) -> Float[Array, " p"]:
    """Return the mean of each column, 0 for a column without values."""
    return total / np.maximum(count, 1)

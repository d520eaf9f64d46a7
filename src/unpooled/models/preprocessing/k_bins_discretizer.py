"""Columns cut into bins, by their quantiles or at equal widths.

    quantiles   by counts or in secret: `unpooled.models.description.quantiles`
    round       silos <── edges ── silos ── the rows of each bin ──────────> counts
    transform   x ↦ the number of its bin, or a 0/1 column for each bin, in each silo

Rows between two edges that lie close together are few, so a silo answers about a column
for one set of edges in each version of its table (`one_setting`). On a column partition
each silo finds the edges of its own columns, counts their rows, and keeps both.
"""

from dataclasses import KW_ONLY, dataclass, field
from types import MappingProxyType
from typing import Any, final

import numpy as np
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

from unpooled.arrays import Array, Float, Int
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.models.base import FederatedEstimator, disclosed_columns, input_names
from unpooled.models.description.bins import EDGES, bin_numbers, cuts_of, ends_of
from unpooled.models.description.quantiles import (
    COMPARISONS,
    OWN_CELLS,
    STEPS,
    inward_values,
)
from unpooled.models.moments import complete
from unpooled.models.parameter_checks import check_choice, whole_number
from unpooled.models.preprocessing.preprocessing_results import discretizer_exhibits
from unpooled.protocol.step import (
    derived,
    disclosed,
    kept,
    public,
    release,
    stays,
    summed,
)
from unpooled.results.citations import Citation, interpolated

_ENCODINGS = ("onehot-dense", "ordinal")
_STRATEGIES = ("quantile", "uniform")
# As scikit-learn: bins that are no wider than this are none.
_NARROWEST = 1e-8

_COUNT = public("b", "how many rows of all silos each bin has", counts="groups")


@summed(
    takes={**EDGES, "n_all": "size b"},
    settings=("edges",),
    count=release(
        "b",
        meaning="number of rows in each bin, of the columns one after the other",
        counts="classes",
    ),
)
def local_bins(
    X: Float[Array, "n p"],
    *,
    edges: Float[Array, "k p"],
    cuts: Int[Array, "k p"],
    n_all: int,
) -> dict[str, Any]:
    """Count this silo's rows in each bin of each column."""
    return {"count": _indicators(complete(X), edges, cuts, n_all).sum(axis=0)}


@derived(
    takes={**EDGES, "count": _COUNT},
    fitted_by=("k_bins_discretizer.local_bins",),
    by_column=True,
    settings=("edges",),
)
def binned(
    X: Float[Array, "n p"],
    *,
    edges: Float[Array, "k p"],
    cuts: Int[Array, "k p"],
    count: Float[Array, " b"],
) -> Float[Array, "n p"]:
    """Return the number of each cell's bin, from 0; NaN stay NaN."""
    return np.where(np.isnan(X), X, bin_numbers(X, edges, cuts))


@derived(
    takes={**EDGES, "count": _COUNT},
    fitted_by=("k_bins_discretizer.local_bins",),
    settings=("edges",),
)
def in_bins(
    X: Float[Array, "n p"],
    *,
    edges: Float[Array, "k p"],
    cuts: Int[Array, "k p"],
    count: Float[Array, " b"],
) -> Float[Array, "n b"]:
    """Return a column of zeros and ones for each bin."""
    return _indicators(complete(X), edges, cuts, len(count))


@kept(
    by="party",
    takes={"n_bins": "size k"},
    edges=stays("k p", meaning="the lowest value of each bin of the silo's columns"),
    cuts=stays("k p", meaning="1 where a bin begins that another one stands before"),
    count=stays(
        "k p", counts="classes", meaning="how many rows each bin of its columns has"
    ),
    bins=stays("p", meaning="how many bins each of its columns has; 0 if not shown"),
    settings=("shown",),
)
def own_bins(
    X: Float[Array, "N p"], *, n_bins: int, strategy: str, shown: int | bool
) -> dict[str, Any]:
    """Return edges and counts of the silo's own columns, which nobody else sees.

    How many bins a column has is `shown` for one number of them: where quantiles
    coincide, those for several numbers would tell how many rows have a value.
    """
    complete(X)
    if shown is not False and (isinstance(shown, bool) or shown != n_bins):
        raise DataError("Bins are shown for their number.", rule="arguments")
    found = np.linspace(X.min(axis=0), X.max(axis=0), n_bins + 1)
    if strategy == "quantile":
        found = np.quantile(X, np.linspace(0.0, 1.0, n_bins + 1), axis=0)
    edges, cuts = cuts_of([_edges_of(own, strategy) for own in found.T], n_bins - 1)
    numbers = bin_numbers(X, edges, cuts)
    # No edge stands before the first bin.
    first = np.zeros((1, X.shape[1]))
    return {
        "edges": np.vstack([found[:1], edges]),
        "cuts": np.vstack([first, cuts]),
        "count": np.array([(numbers == b).sum(axis=0) for b in range(n_bins)], float),
        "bins": (1.0 + cuts.sum(axis=0)) * (shown is not False),
    }


@disclosed(
    bins=release(
        "p",
        meaning="how many columns each of the silo's columns becomes, one for each bin",
        counts="columns",
    )
)
def shown_bins(kept: Any) -> dict[str, Any]:
    """Return how many columns are made of each of the silo's own."""
    return {"bins": kept["bins"]}


@derived(
    fitted_by=("k_bins_discretizer.own_bins",),
    by_column=True,
    by_cells=True,
    settings=("edges", "cuts"),
)
def own_binned(X: Float[Array, "n p"], kept: Any) -> Float[Array, "n p"]:
    """Return the number of each cell's bin, from 0; NaN stay NaN."""
    return np.where(np.isnan(X), X, bin_numbers(X, kept["edges"], kept["cuts"]))


@derived(
    fitted_by=("k_bins_discretizer.own_bins",),
    by_column=True,
    by_cells=True,
    settings=("edges", "cuts"),
    widens="bins",
)
def own_in_bins(X: Float[Array, "n p"], kept: Any) -> Float[Array, "n q"]:
    """Return a column of zeros and ones for each bin of a silo's own columns."""
    numbers = bin_numbers(complete(X), kept["edges"], kept["cuts"])
    pairs = zip(numbers.T, kept["bins"].tolist(), strict=True)
    parts = [(own[:, None] == np.arange(n)).astype(float) for own, n in pairs]
    return np.hstack([X[:, :0], *parts])


@final
@dataclass(eq=False, repr=False)
class KBinsDiscretizer(TransformerMixin, FederatedEstimator):
    """Cut columns into bins of about as many rows each, or of equal widths.

    Parameters
    ----------
    n_bins : int, default 5
        Number of bins of each column, at least 2.
    encode : {"onehot-dense", "ordinal"}, default "onehot-dense"
        Whether a column becomes a column of zeros and ones for each bin, or the number
        of the bin, from 0.
    strategy : {"quantile", "uniform"}, default "quantile"
        Whether bins end at quantiles of the column (linear convention) or have equal
        widths.
    ranges : mapping of str to (float, float), optional
        For ``strategy="uniform"``, the lowest and highest edge of each column, such as
        plausible values. When omitted, the values that `min_rows` rows lie at or
        beyond: a minimum or maximum is one person's cell.
    comparison : {"summed", "mpc"}, default "summed"
        How silos search for quantiles, as of `Quantiles`.
    min_rows : int, default 10
        How many values lie in the bracket of a quantile at least, as of `Quantiles`;
        the outermost ones have as many at or beyond them.
    decimals : int or mapping of str to int, optional
        How many decimals values have, as of `Quantiles`.
    allow_coordinator_party : bool, default False
        With "mpc" and two silos, let the coordinator be the third party.

    Attributes
    ----------
    bin_edges_ : list of (n_bins_ + 1,) array
        Edges of each column, ascending. A row below the first or above the last is in
        the first or the last bin. Those of a column with a single bin are infinite. On
        a column partition the silos keep them, and the two below.
    n_bins_ : (p,) array of int
        Number of bins of each column: fewer than `n_bins` where quantiles coincide.
    bin_counts_ : list of (n_bins_,) array of int
        Number of rows of all silos in each bin.
    n_features_in_ : int
        p, the number of columns seen in `fit`.
    feature_names_in_ : (p,) array of str
        Names of the columns, where the silos' tables have names.

    Raises
    ------
    DataError
        Where fewer than two times `min_rows` values are in a column; for missing cells;
        and for ranges that are not two numbers for each column.

    Notes
    -----
    On a column partition each silo keeps the edges of its own columns, which it shows
    nobody, and `transform` uses them there. Nothing is released with "ordinal";
    otherwise each silo discloses how many bins its columns have, which is the number of
    columns that it makes. Edges are quantiles, or stand between minimum and maximum,
    exactly, so that `min_rows`, `decimals` and `comparison` change nothing; a silo
    still refuses bins of few rows.

    Released on rows, as totals only: the quantiles, with the widths of their brackets,
    and what `Quantiles` says (nothing of it with `ranges`); the number of rows in each
    bin. Never released: a row, a minimum or maximum, or any silo's own count.

    A silo refuses where a single row of its own is in a bin (`min_own_cells`), and
    refuses rows in bins of fewer than `min_rows_per_class` of its policy over all
    silos: choose fewer bins, or ``strategy="quantile"``.

    A silo answers about a column for one set of edges in each version of its table,
    over all studies (`one_setting`): two would give the sums of the few rows between
    two edges. So bins are fitted on all rows, before folds, and a column is cut into
    bins or mapped by its quantiles (`QuantileTransformer`), not both.

    See Also
    --------
    sklearn.preprocessing.KBinsDiscretizer : its twin on pooled rows, with
        ``quantile_method="linear"`` and ``subsample=None``, to which it is equal with
        ``min_rows=1`` and on columns.

    References
    ----------
    Dougherty, Kohavi and Sahami, Supervised and unsupervised discretization of
    continuous features, ICML 1995.
    """

    _partitions = ("rows", "columns")
    _gives_views = ("rows", "columns")
    _kept_by_silos = ("bin_edges_", "n_bins_", "bin_counts_")
    _ways = MappingProxyType({"comparison": COMPARISONS})
    _steps = STEPS
    bin_edges_: list[Array] = field(init=False)
    n_bins_: Int[Array, " p"] = field(init=False)
    bin_counts_: list[Array] = field(init=False)
    _exhibits = discretizer_exhibits

    n_bins: int = 5
    _: KW_ONLY
    encode: str = "onehot-dense"
    strategy: str = "quantile"
    ranges: Any = None
    comparison: str = "summed"
    min_rows: int = 10
    decimals: Any = None
    allow_coordinator_party: bool = False

    def _citation(self) -> Citation:
        how = {
            "quantile": "quantiles over the rows of all silos",
            "uniform": "edges at equal distances",
        }[self.strategy]
        return Citation(
            f"Columns were cut into {self.n_bins} bins at {how}.",
            (
                "Dougherty J, Kohavi R, Sahami M. Supervised and unsupervised "
                "discretization of continuous features. ICML 1995; 194-202.",
            ),
            apart_from=(
                interpolated("quantiles", self) if self.strategy == "quantile" else ""
            ),
        )

    def _needs_values(self) -> bool:
        return self.ranges is None

    def _fit(self, federation: Federation, y: Any) -> None:
        k = whole_number("n_bins", self.n_bins, 2)
        check_choice("encode", self.encode, _ENCODINGS)
        check_choice("strategy", self.strategy, _STRATEGIES)
        if federation.partition == "columns":
            self._fit_own(federation, k)
            return
        planned = federation.coordinator.planned
        found = self._found(federation)
        if planned:
            found = np.arange(k + 1.0)[:, None] + np.zeros(federation.n_features)
        pairs = [_edges_of(own, self.strategy) for own in found.T]
        self.bin_edges_ = pairs
        self.n_bins_ = np.array([len(own) - 1 for own in pairs])
        n_all = int(self.n_bins_.sum())
        edges, cuts = self._cuts()
        total = federation.sum(local_bins, edges=edges, cuts=cuts, n_all=n_all)
        count = np.rint(total["count"]).astype(np.int64)
        if planned:
            count = np.full(n_all, max(federation.coordinator.n_rows // k, 1))
        self.bin_counts_ = np.split(count, np.cumsum(self.n_bins_)[:-1])

    def _fit_own(self, federation: Federation, k: int) -> None:
        """Fit on a column partition, where each silo cuts its own columns."""
        if self.ranges is not None:
            raise DataError(
                "On a column partition each silo cuts its own columns between their "
                "minimum and maximum. Leave ranges out."
            )
        ordinal = self.encode == "ordinal"
        shown = False if ordinal else k
        federation.keep(own_bins, n_bins=k, strategy=self.strategy, shown=shown)
        if ordinal:
            return
        bins = disclosed_columns(federation, shown_bins)["bins"]
        if federation.coordinator.planned:
            bins = np.full(federation.n_features, k)
        self.n_bins_ = np.rint(bins).astype(np.int64)

    @classmethod
    def kept_by_silos(cls) -> tuple[str, ...]:
        """Return no attribute: what silos keep they show nobody."""
        return ()

    def _gather(self, federation: Federation) -> None:
        raise DataError(OWN_CELLS)

    def _found(self, federation: Federation) -> Float[Array, "l p"]:
        """Return the edges of each column, before narrow bins are left out."""
        k, names = self.n_bins, federation.feature_names
        if self.ranges is not None:
            if self.strategy != "uniform":
                raise DataError('ranges are for strategy="uniform".')
            ends = ends_of(self.ranges, names)
            return np.linspace(ends[0], ends[1], k + 1)
        uniform = self.strategy == "uniform"
        found = inward_values(
            self,
            federation,
            np.array([0.0, 1.0]) if uniform else np.linspace(0.0, 1.0, k + 1),
        )
        # Brackets may overlap.
        found = np.maximum.accumulate(found)
        return np.linspace(found[0], found[-1], k + 1) if uniform else found

    def _cuts(self) -> tuple[Float[Array, "k p"], Int[Array, "k p"]]:
        return cuts_of(self.bin_edges_, int(self.n_bins) - 1)

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Return the names of the columns that are made: "age_0.0" for the first bin.

        Parameters
        ----------
        input_features : sequence of str, optional
            The names in `fit`; x0, x1, ... where the tables have none.

        Raises
        ------
        ValueError
            When the names are not as many as the columns of the fit.
        """
        check_is_fitted(self)
        names = input_names(self, input_features)
        if self.encode != "ordinal":
            pairs = zip(names, self.n_bins_.tolist(), strict=True)
            names = [f"{name}_{bin:.1f}" for name, n in pairs for bin in range(n)]
        return np.array(names, dtype=object)

    def transform(self, X: Any) -> Any:
        """Return the number of each cell's bin, or a column for each bin.

        Parameters
        ----------
        X : (n, p) array-like or Federation
            For a federation the result is a view of it: each silo bins its own rows
            when they are read, and nothing is released.
        """
        if isinstance(X, Federation) and X.partition == "columns":
            view, kept_of = self._check_view(X), self.kept_
            if self.encode == "ordinal":
                return view.derive(own_binned, kept_of=kept_of)
            return view.widen(own_in_bins, self.n_bins_.tolist(), kept_of=kept_of)
        check_is_fitted(self)
        edges, cuts = self._cuts()
        count = np.concatenate(self.bin_counts_).astype(float)
        step = binned if self.encode == "ordinal" else in_bins
        arguments: dict[str, Any] = {"edges": edges, "cuts": cuts, "count": count}
        if isinstance(X, Federation):
            view = self._check_view(X)
            names = list(self.get_feature_names_out(view.feature_names))
            return view.derive(step, names, **arguments)
        return step(self._check_rows(X), **arguments)

    def to_sklearn(self) -> Any:
        """Return a fitted `sklearn.preprocessing.KBinsDiscretizer`."""
        import sklearn.preprocessing

        check_is_fitted(self)
        twin = sklearn.preprocessing.KBinsDiscretizer(
            n_bins=self.n_bins,
            encode=self.encode,
            strategy=self.strategy,
            quantile_method="linear",
            subsample=None,
        )
        # Its encoder is fitted with it: on rows that lie one in each bin.
        p = len(self.n_bins_)
        twin.fit(np.arange(self.n_bins + 1.0)[:, None] + np.zeros(p))
        self._taught(twin)
        edges = np.empty(p, dtype=object)
        edges[:] = [own.copy() for own in self.bin_edges_]
        twin.bin_edges_ = edges
        if self.encode != "ordinal":
            twin._encoder = sklearn.preprocessing.OneHotEncoder(
                categories=[np.arange(n) for n in self.n_bins_.tolist()],
                sparse_output=False,
                dtype=np.float64,
            ).fit(np.zeros((1, p)))
        return twin


def _edges_of(found: Float[Array, " l"], strategy: str) -> Float[Array, " e"]:
    """Return the edges of a column's bins."""
    edges = found
    if strategy == "quantile":
        edges = found[np.ediff1d(found, to_begin=np.inf) > _NARROWEST]
    # Quantiles of one value are equal up to rounding.
    one_value = len(edges) < 2 or found[0] == found[-1]
    return np.array([-np.inf, np.inf]) if one_value else edges


def _indicators(
    X: Float[Array, "n p"],
    edges: Float[Array, "k p"],
    cuts: Int[Array, "k p"],
    n_all: int,
) -> Float[Array, "n b"]:
    n_bins = cuts.sum(axis=0) + 1
    if int(n_bins.sum()) != n_all:
        raise DataError(
            "The number of bins is not that of the edges.", rule="arguments"
        )
    made = np.zeros((len(X), n_all))
    places = bin_numbers(X, edges, cuts).astype(np.int64) + np.cumsum(n_bins) - n_bins
    np.put_along_axis(made, places, 1.0, axis=1)
    return made

"""Histograms of columns over all silos, without bins of a few people.

    8 rounds  the values that `min_rows` rows lie at or beyond: `quantiles`; none where
              ranges are given
    round     silos <── edges ── silos ── values in each bin ──> to the parties alone
    round     silos ── the counts without what is withheld ────> opened

As in `unpooled.models.description.describe`, counts are judged before anybody sees
them: the totals are opened in the silos, whose programs all find which bins are
withheld (`unpooled.linalg.small_cells`), and the coordinator receives what is shown.
"""

from dataclasses import KW_ONLY, dataclass, field
from typing import Any, final

import numpy as np
from sklearn.utils.validation import check_is_fitted

from unpooled.arrays import Array, Float, Int
from unpooled.federation.federation import Federation
from unpooled.linalg.small_cells import withheld
from unpooled.models.base import FederatedEstimator, check_all_rows
from unpooled.models.description.bins import (
    EDGES,
    bin_numbers,
    cuts_of,
    ends_of,
    round_edges,
)
from unpooled.models.description.column_quantiles import shown
from unpooled.models.description.histogram_results import histogram_exhibits
from unpooled.models.description.quantiles import (
    STEPS,
    check_least,
    inward_values,
    units_of,
)
from unpooled.models.parameter_checks import whole_number
from unpooled.protocol.bounds import Counts
from unpooled.protocol.step import public, release, summed
from unpooled.results.citations import Citation

_MOST_BINS = 200
_WITHHELD = -1.0


@summed(
    takes={**EDGES, "n_bins": "size b"},
    settings=("edges",),
    inside=release(
        "p b",
        meaning="how many values of each column lie in each bin",
        bound=Counts(),
        veiled=True,
    ),
    missing=release(
        "p", meaning="how many rows have no value in each column", veiled=True
    ),
)
def local_inside(
    X: Float[Array, "n p"],
    *,
    edges: Float[Array, "k p"],
    cuts: Int[Array, "k p"],
    n_bins: int,
) -> dict[str, Any]:
    """Count this silo's values in each bin of each column, and its missing cells."""
    places = bin_numbers(X, edges, cuts).astype(np.int64)
    missing = np.isnan(X)
    inside = np.zeros((X.shape[1], n_bins))
    for j, column in enumerate(places.T):
        inside[j] = np.bincount(column[~missing[:, j]], minlength=n_bins)
    return {"inside": inside, "missing": missing.sum(axis=0).astype(float)}


@summed(
    takes={
        "inside": public("p b", "how many values of each column lie in each bin"),
        "missing": public("p", "how many rows have no value in each column"),
        "fewest": public(
            "", "the least count that is shown", least="min_rows_per_class"
        ),
    },
    settings=("fewest",),
    count=release(
        "p b", meaning="how many values of each column lie in each bin, where shown"
    ),
    empty=release("p", meaning="how many rows have no value, where it is shown"),
)
def found_histogram(
    party: str,
    *,
    inside: Float[Array, "p b"],
    missing: Float[Array, " p"],
    fewest: Any,
    leader: str,
) -> dict[str, Any]:
    """Return the counts that are shown; -1 stands for what is withheld.

    All silos find the same counts, and one sends them.
    """
    lines = np.hstack([inside, missing[:, None]])
    for j, own in enumerate(lines):
        _, small = withheld(own[:, None], max(fewest, 1))
        lines[j] = np.where(small, _WITHHELD, own)
    sends = float(party == leader)
    return {"count": sends * lines[:, :-1], "empty": sends * lines[:, -1]}


@final
@dataclass(eq=False, repr=False)
class Histogram(FederatedEstimator):
    """How many values of every column lie in bins of equal widths, over all silos.

    Parameters
    ----------
    bins : int, default 10
        About how many bins a column is cut into, from 2 to 200. Their widths are 1, 2,
        2.5 or 5 times a power of ten, so that there are at most ``bins + 1``. Of
        columns with `ranges`: exactly how many.
    ranges : mapping of str to (float, float), optional
        The lowest and highest edge of each column, such as plausible values. When
        omitted, the values that `min_rows` rows lie at or beyond, rounded outwards: a
        minimum or maximum is one person's cell.
    decimals : int or mapping of str to int, optional
        How many decimals values have, as of `Quantiles`; no bin is narrower than their
        unit.
    min_rows : int, default 10
        How many values lie at or beyond the outermost quantiles, as of `Quantiles`.
    min_rows_per_class : int, default 5
        The least count, but for 0, that is shown. No silo takes fewer than its own
        `min_rows_per_class`.

    Attributes
    ----------
    bin_edges_ : list of (l + 1,) array
        Edges of each column, ascending. A value at an edge is in the bin above it.
        Values below the first edge are in the first bin, and those at or above the last
        in the last. Those of a column with a single bin are infinite.
    counts_ : list of (l,) array
        Number of values in each bin; NaN where withheld.
    n_missing_ : (p,) array
        Number of missing cells; NaN where withheld.
    columns_ : list of str
        Names of the columns.
    n_features_in_ : int
        p, the number of columns.
    feature_names_in_ : (p,) array of str
        Their names, where the silos' tables have names.

    Raises
    ------
    DataError
        Where fewer than two times `min_rows` values are in a column; for ranges that
        are not two numbers for each column; for folds and other parts of the rows.

    Notes
    -----
    Released: the outermost quantiles with the widths of their brackets, and what
    `Quantiles` says (nothing of it with `ranges`); counts of the bins and of missing
    cells, but for those that are withheld: counts below `min_rows_per_class` other
    than 0, and as many others of the column that these do not follow from the number
    of rows. The silos' programs open, and nobody else does, the totals from which the
    counts follow, before anything is withheld. Never released: a row, a minimum or
    maximum, or any silo's own count.

    A silo answers about a column for one set of edges in each version of its table,
    over all studies (`one_setting`), and for all rows: the rows between two edges that
    lie close together are few, and so may be what two parts of the rows differ in.

    See Also
    --------
    numpy.histogram : its twin on pooled rows, with the same edges.
    unpooled.HistogramDisplay : Draws one column.

    References
    ----------
    Scott, Multivariate density estimation: theory, practice, and visualization, 2nd
    edition, Wiley, 2015, chapter 3.
    """

    _missing = True
    _steps = STEPS
    bin_edges_: list[Array] = field(init=False)
    counts_: list[Array] = field(init=False)
    n_missing_: Float[Array, " p"] = field(init=False)
    columns_: list[str] = field(init=False)
    _exhibits = histogram_exhibits

    bins: int = 10
    _: KW_ONLY
    ranges: Any = None
    decimals: Any = None
    min_rows: int = 10
    min_rows_per_class: int = 5

    def _citation(self) -> Citation:
        return Citation(
            f"Histograms have bins of equal widths over the rows of all silos; counts "
            f"below {self.min_rows_per_class} were withheld.",
            (
                "Scott DW. Multivariate Density Estimation: Theory, Practice, and "
                "Visualization. 2nd edition. Wiley, 2015.",
            ),
        )

    def _needs_values(self) -> bool:
        return True

    def _fit(self, federation: Federation, y: Any) -> None:
        k = whole_number("bins", self.bins, 2, _MOST_BINS)
        check_all_rows(
            federation,
            "Histograms are of all rows: what the counts of two parts of the rows "
            "differ in may be a few people.",
        )
        fewest = check_least(self.min_rows_per_class)
        self.columns_ = list(federation.feature_names)
        self.bin_edges_ = self._edges(federation)
        # Round edges are for one bin more at the most.
        most = k if self.ranges is not None else k + 1
        edges, cuts = cuts_of(self.bin_edges_, most - 1)
        totals = federation.sum(
            local_inside, to="parties", edges=edges, cuts=cuts, n_bins=most
        )
        table = federation.sum(
            found_histogram, **totals, fewest=fewest, leader=federation.parties[0]
        )
        counts = shown(table["count"], table["count"])
        self.counts_ = [
            own[: len(edges) - 1]
            for own, edges in zip(counts, self.bin_edges_, strict=True)
        ]
        self.n_missing_ = shown(table["empty"], table["empty"])

    def _edges(self, federation: Federation) -> list[Array]:
        """Return the edges of each column's bins."""
        names, k = federation.feature_names, self.bins
        if self.ranges is not None:
            low, high = ends_of(self.ranges, names)
            return list(np.linspace(low, high, k + 1).T)
        units = units_of(self.decimals, names)
        found = inward_values(self, federation, np.array([0.0, 1.0]))
        if federation.coordinator.planned:
            return [np.arange(k + 1.0)] * len(names)
        return [
            round_edges(low, high, k, unit)
            for (low, high), unit in zip(found.T.tolist(), units.tolist(), strict=True)
        ]

    def to_frame(self) -> Any:
        """Return a pandas data frame with a row for each bin of each column.

        Returns
        -------
        DataFrame
            "column", "bin", "from", "to", "n" and "share" of the column's values; what
            is withheld is missing.
        """
        check_is_fitted(self)
        return self.summary().to_frame("bins")

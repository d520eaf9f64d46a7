"""Leaving out columns in which few people differ from all others.

    round 1   silos ── counts of each column ─────────────────────────────> counts
    round 2   silos <── counts ── silos ── sums of each column ───────────> means
    round 3   silos <── means ──  silos ── squared deviations, and their
              squares, of each column ────────────────────────────────────> kurtosis

A column of two values, of which k of N rows have the rarer one, has the kurtosis

    κ = N Σ d⁴ / (Σ d²)² = 1 / (f (1 - f)) - 3,   f = k / N

whatever the two values are, so that sums give k exactly. Where k rows differ from the
others by unequal amounts κ is larger: in every column, the k that belongs to its
kurtosis is about the number of rows that carry its variance, and no more than the
number of rows that differ.
"""

from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
from sklearn.base import TransformerMixin
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted

from unpooled.arrays import Array, Bool, Float, Int
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.models import moments
from unpooled.models.base import FederatedEstimator
from unpooled.models.parameter_checks import whole_number
from unpooled.models.preprocessing.preprocessing_results import rare_columns_exhibits
from unpooled.protocol.step import release, summed
from unpooled.results.citations import Citation

# Rounding of a count that is the root of totals, which have twelve digits.
_ROUNDING = 1e-6


@summed(
    takes={
        "count": moments.OBSERVED,
        "mean": moments.MEAN,
    },
    squares=release("p", meaning=moments.SQUARES),
    fourths=release(
        "p",
        meaning="the fourth powers of each column's deviations from its mean, added",
    ),
)
def local_powers(
    X: Float[Array, "n p"], *, count: Float[Array, " p"], mean: Float[Array, " p"]
) -> dict[str, Any]:
    """Return sums of the second and fourth powers of deviations from the means."""
    squares = np.square(np.where(np.isnan(X), 0.0, X - mean))
    return {
        "squares": squares.sum(axis=0),
        "fourths": np.einsum("ij,ij->j", squares, squares),
    }


@final
@dataclass(eq=False, repr=False)
class RareColumns(TransformerMixin, FederatedEstimator):
    """Leave out columns in which fewer than `min_rows` people differ from the others.

    A category of one person, a pixel that is lit in two images, a constant: their
    products with all other columns are the records of these few, and silos refuse them
    under `max_leverage`. A silo judges its own rows: with several silos, choose
    `min_rows` so that each has some of them, about ten times the number of silos.

    Parameters
    ----------
    min_rows : int, default 10
        Fewest rows, over all silos, that differ from the others in a column that is
        kept.

    Attributes
    ----------
    n_rare_ : (p,) array
        Rows that differ from the others: in a column of two values, those with the
        rarer one, and 0 in a constant one. In any other column the number that a column
        of two values with the same kurtosis has.
    n_samples_seen_ : (p,) array of int
        Number of observed cells of each column.
    n_features_in_ : int
        p, the number of columns seen in `fit`.
    feature_names_in_ : (p,) array of str
        Names of the columns, where the silos' tables have names.

    Raises
    ------
    DataError
        Where no column would be kept.

    Notes
    -----
    Released, as totals only: for each column the number of observed cells, their sum,
    and the sums of the second and fourth powers of their deviations from the
    federation's mean. Never released: a row, or any silo's own part of a total. The
    totals of a column in which one person differs tell that somebody does, and by how
    much, and not who, nor anything else about that person.

    Missing cells are left out of the sums, and stay missing in `transform`.

    See Also
    --------
    sklearn.feature_selection.VarianceThreshold : leaves out columns of small variance.

    References
    ----------
    Pearson, Mathematical contributions to the theory of evolution, XIX, Phil. Trans. R.
    Soc. A 216, 1916: kurtosis is at least 1 plus the square of skewness, with equality
    for two values.
    """

    n_rare_: Float[Array, " p"] = field(init=False)
    n_samples_seen_: Int[Array, " p"] = field(init=False)

    _missing = True
    _steps = (moments.local_counts, moments.local_observed)
    _exhibits = rare_columns_exhibits

    min_rows: Any = 10

    def _citation(self) -> Citation:
        return Citation(
            f"Columns in which fewer than {self.min_rows:,} rows differ from the "
            f"others, as judged by kurtosis, were left out.",
            (
                "Pearson K. Mathematical contributions to the theory of evolution, "
                "XIX. Philosophical Transactions of the Royal Society A 1916; 216: "
                "429-457.",
            ),
        )

    def _fit(self, federation: Federation, y: Any) -> None:
        whole_number("min_rows", self.min_rows)
        count, total = moments.pooled_sums(federation)
        mean = total / np.maximum(count, 1)
        powers = federation.sum(local_powers, count=count, mean=mean)
        count = np.rint(count)
        n_rare = _n_rare(count, mean, powers["squares"], powers["fourths"])
        if federation.coordinator.planned:
            n_rare = np.full(len(count), float(self.min_rows))
            federation.coordinator.narrow()
            federation.coordinator.notes.append(
                "How many columns RareColumns leaves out depends on the data; the plan "
                "keeps all of them."
            )
        if not (n_rare >= self.min_rows - _ROUNDING).any():
            raise DataError(
                f"In no column do {self.min_rows} people differ from the others; "
                f"choose a smaller min_rows."
            )
        self.n_samples_seen_, self.n_rare_ = count.astype(np.int64), n_rare

    def get_support(self, indices: bool = False) -> Array:
        """Return which columns are kept.

        Parameters
        ----------
        indices : bool, default False
            Return their places instead of a mask.
        """
        check_is_fitted(self)
        kept = self.n_rare_ >= self.min_rows - _ROUNDING
        return np.flatnonzero(kept) if indices else kept

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Return the names of the columns that are kept.

        Parameters
        ----------
        input_features : sequence of str, optional
            The names in `fit`; x0, x1, ... where the tables have none.
        """
        check_is_fitted(self)
        return _check_feature_names_in(self, input_features)[self.get_support()]

    def transform(self, X: Any) -> Any:
        """Return the columns that are kept.

        Parameters
        ----------
        X : (n, p) array-like or Federation
            For a federation the result is a selection of its columns.
        """
        if isinstance(X, Federation):
            view = self._check_view(X)
            names = view.feature_names
            return view.select([names[j] for j in self.get_support(indices=True)])
        return self._check_rows(X)[:, self.get_support()]


def _n_rare(
    count: Float[Array, " p"],
    mean: Float[Array, " p"],
    squares: Float[Array, " p"],
    fourths: Float[Array, " p"],
) -> Float[Array, " p"]:
    """Return the rows of the rarer of two values, by the kurtosis of each column."""
    varies: Bool[Array, " p"] = (
        squares > count * (count * np.finfo(float).eps * mean) ** 2
    )
    varies &= fourths > 0
    kurtosis = np.full(len(count), np.inf)
    # Divided one after the other: the square of the squares may overflow.
    np.divide(fourths, squares, out=kurtosis, where=varies)
    np.divide(kurtosis, squares / np.maximum(count, 1), out=kurtosis, where=varies)
    share = 4.0 / (np.maximum(kurtosis, 1.0) + 3.0)
    # 1 - sqrt(1 - s), without the cancellation for a rare value.
    return count / 2.0 * share / (1.0 + np.sqrt(np.maximum(1.0 - share, 0.0)))

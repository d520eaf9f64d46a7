"""Correlations of columns over all silos, with tests and confidence intervals.

missing="complete"
    round 1   silos ── N, column sums of complete rows ──────────────> mean
    round 2   silos <── mean ── silos ── sums of squares about it ───> squares
    round 3   silos <── squares ── silos ── cross-products ──────────> S
    r_ab = S_ab / sqrt(S_aa S_bb)

missing="pairwise"
    round 1   silos ── rows with a and b; rows with a and without b ─> counts
    round 2   silos <── counts ── silos ── column sums ──────────────> centres m
    round 3   silos <── counts, m ── silos ── over the rows with a and b:
              Σ (a - m_a), Σ (a - m_a)², Σ (a - m_a)(b - m_b) ───────> moments
    r_ab from the moments of the rows with a and b, for each pair

Every array is opened as a total over all silos only. Pairwise sums of a column over the
rows that have another one too, next to its sum over all of its own, give its sum over
the rows where the other is missing: so those rows are counted first, and each silo
judges the counts. Columns in different silos, of the same people, are correlated by
`unpooled.models.correlation.correlation_columns`.
"""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar, final

import numpy as np
import scipy
from sklearn.utils.validation import check_is_fitted

from unpooled.arrays import Array, Float, Int
from unpooled.coordinator.step_call import Needs
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.ledger.notebook_tables import pandas_if_installed
from unpooled.linalg.correlations import inverse_correlations
from unpooled.linalg.group_tests import adjusted
from unpooled.linalg.moments import column_sums
from unpooled.models import moments
from unpooled.models.base import FederatedEstimator
from unpooled.models.correlation.correlation_columns import (
    correlations_by_parties,
    shared_columns,
)
from unpooled.models.correlation.correlation_results import correlation_exhibits
from unpooled.models.moments import pooled_mean, pooled_scatter
from unpooled.models.parameter_checks import check_choice
from unpooled.protocol.step import public, release, stays, summed
from unpooled.results.citations import Citation

MISSING = ("complete", "pairwise")

_BOTH = "number of rows with a value in both columns, for every pair"
_ONE = "number of rows with a value in the first column and none in the second"
_COUNTS = {
    "count": public("p p", f"{_BOTH}, over all silos", counts="cells"),
    "one": public("p p", f"{_ONE}, over all silos", counts="cells"),
}


@summed(
    within_silos=True,
    by="party",
    count=release("p p", meaning=_BOTH, counts="cells"),
    one=release("p p", meaning=_ONE, counts="cells"),
    apart=stays(
        "p",
        until="fit",
        counts="cells",
        meaning="fewest rows in which two columns differ in what is missing, of the "
        "rows with a value in a third column",
    ),
)
def local_pairs(X: Float[Array, "n p"]) -> dict[str, Any]:
    """Count the rows with a value in both columns of a pair, and in the first alone."""
    there = ~np.isnan(X)
    both = there.T.astype(float) @ there
    one = both.diagonal()[:, None] - both
    # Not a sum over rows; all else here is.
    return {"count": both, "one": one, "apart": _fewest_apart(there)}


def _fewest_apart(there: Array) -> Float[Array, " p"]:
    """Return, by column a, the fewest rows with a and b and without c, where any are.

    The difference of the sums of a over the rows with b, and over those with c, is
    about these rows. Where b has no missing cells they are those of `one`.
    """
    patterns, counts = np.unique(there, axis=0, return_counts=True)
    some = ~there.all(axis=0)
    lacking = (~patterns[:, some] * counts[:, None]).astype(float)
    fewest = np.zeros(there.shape[1])
    for a in range(there.shape[1]):
        with_a = patterns[:, a]
        apart = patterns[with_a][:, some].T.astype(float) @ lacking[with_a]
        fewest[a] = min(apart[apart > 0], default=0.0)
    return fewest


@summed(
    within_silos=True,
    takes=_COUNTS,
    total=release("p", meaning="column sums over the cells that have a value"),
)
def local_sums(
    X: Float[Array, "n p"], *, count: Float[Array, "p p"], one: Float[Array, "p p"]
) -> dict[str, Any]:
    """Add the cells of each column that have a value."""
    return {"total": column_sums(np.where(np.isnan(X), 0.0, X))}


@summed(
    within_silos=True,
    takes={
        **_COUNTS,
        "centre": public("p", "the mean of each column's values over all silos"),
    },
    sums=release(
        "p p",
        meaning="sum of the first column’s deviations from its mean over the rows with "
        "a value in both columns, for every pair",
    ),
    squares=release(
        "p p", meaning="the same sum of the squares of the first column’s deviations"
    ),
    products=release(
        "p p", meaning="the same sum of the products of both columns’ deviations"
    ),
)
def local_pair_moments(
    X: Float[Array, "n p"],
    *,
    count: Float[Array, "p p"],
    one: Float[Array, "p p"],
    centre: Float[Array, " p"],
) -> dict[str, Any]:
    """Add deviations, squares and products over the rows of each pair of columns."""
    there = (~np.isnan(X)).astype(float)
    D = np.where(there > 0, X - centre, 0.0)
    return {"sums": D.T @ there, "squares": (D * D).T @ there, "products": D.T @ D}


@final
@dataclass(eq=False, repr=False)
class Correlation(FederatedEstimator):
    """Pearson correlations of all columns over the rows of all silos.

    Parameters
    ----------
    missing : {"complete", "pairwise"}, default "complete"
        "complete" takes the rows with a value in every column. "pairwise" takes, for
        each pair of columns, the rows with a value in both: more rows, a different
        sample for each pair, and more numbers that leave.
    confidence_level : float, default 0.95
        Level of the confidence intervals, above 0 and below 1.

    Attributes
    ----------
    correlation_ : (p, p) array
        Pearson's correlation coefficients; NaN for a column that never varies.
    n_pairs_ : (p, p) array of int
        Number of rows behind each.
    p_value_ : (p, p) array
        Two-sided p-value of the test of no correlation (t with n - 2 degrees of
        freedom), which assumes normality; 0 on the diagonal.
    p_holm_ : (p, p) array
        The same, adjusted for p (p - 1) / 2 tests by Holm's procedure.
    p_benjamini_hochberg_ : (p, p) array
        The same, adjusted by the procedure of Benjamini and Hochberg, which controls
        the false discovery rate.
    confidence_low_ : (p, p) array
        Lower ends of the confidence intervals, by Fisher's transform.
    confidence_high_ : (p, p) array
        Their upper ends.
    partial_correlation_ : (p, p) array
        Only with ``missing="complete"`` and without collinear columns: correlation of
        two columns given all others.
    partial_p_value_ : (p, p) array
        Only with `partial_correlation_`: its p-value, with N - p degrees of freedom.
    variance_inflation_ : (p,) array
        Only with `partial_correlation_`: variance inflation factor of each column,
        ``1 / (1 - R²)`` with the R² of its regression on all others.
    mean_ : (p,) array
        Only on a row partition: mean of each column, over the rows used.
    n_samples_ : int
        Only with ``missing="complete"``: N, the number of complete rows.
    n_features_in_ : int
        p, the number of columns.
    feature_names_in_ : (p,) array of str
        Their names, where the silos' tables have names.

    Raises
    ------
    DataError
        Fewer than four rows behind a pair. On a column partition: missing cells, which
        `SimpleImputer` fills, ``missing="pairwise"``, fewer than three silos, or more
        than a million cells.
    ReleaseRefusedError
        Where a silo has a few incomplete rows and answered, or may answer, about all
        rows too (`min_changed_rows`); with ``missing="pairwise"`` where few rows have
        one column of a pair without the other (`min_own_cells`, `min_rows`). On a
        column partition where a silo does not let its own values be seen
        (`allow_disclosed`) or shares of people's cells leave (`allow_row_level`), where
        it answered sums about people of the same columns (`people_and_columns`), or the
        columns of all silos are too many for the rows (`max_feature_ratio`).

    Notes
    -----
    Released, as totals only: N, the column sums, the sums of squared deviations from
    the means and the cross-product matrix, of complete rows. With "pairwise": for each
    pair of columns the number of rows with both and with the first alone, and over the
    rows with both the sums of deviations, of their squares and of their products.
    Never released: a row, which cells are missing, or any silo's own number.

    With "pairwise" the sums of one column over the rows that have another one, or a
    third one, differ by the rows where only one of these two is missing, and sums over
    the rows of several columns can be combined further. Each silo refuses where any
    combination of them would be about a single row of its own (`min_own_cells`), and
    among rows that came to its table since (`changed_rows`); over all silos these rows
    are not counted.

    On a column partition the correlations are computed in secret sharing among at least
    three silos, of which two of three together could see all cells. They are released
    to all silos and the coordinator, and nothing else is; those among a silo's own
    columns are values of that silo. Never released: a number about a single person, a
    mean or a variance.

    References
    ----------
    Fisher, On the probable error of a coefficient of correlation deduced from a small
    sample, Metron 1 (1921): the confidence intervals.

    Holm, A simple sequentially rejective multiple test procedure, Scandinavian Journal
    of Statistics 6 (1979).

    Benjamini and Hochberg, Controlling the false discovery rate, Journal of the Royal
    Statistical Society B 57 (1995).
    """

    correlation_: Float[Array, "p p"] = field(init=False)
    n_pairs_: Int[Array, "p p"] = field(init=False)
    p_value_: Float[Array, "p p"] = field(init=False)

    _missing = True
    _estimates: ClassVar[Mapping[str, int | None]] = {
        "correlation_": None,
        "partial_correlation_": None,
    }
    _partitions = ("rows", "columns")
    _steps = (
        moments.local_total,
        moments.local_squares,
        moments.local_scatter,
        shared_columns,
    )
    _exhibits = correlation_exhibits

    missing: str = "complete"
    _: KW_ONLY
    confidence_level: Any = 0.95

    def needs(self, partition: str, y: Any = None) -> Needs:
        """Return the model's requirements on the cells of its columns, for plans."""
        # Which rows are complete in all silos' columns nobody knows.
        return Needs(complete=partition == "columns", valued=True)

    def _citation(self) -> Citation:
        rows = "complete rows"
        if self.missing == "pairwise":
            rows = "the rows with a value in both columns of each pair"
        return Citation(
            f"Pearson correlations were computed over {rows}, with confidence "
            f"intervals by Fisher’s transform and p-values adjusted by the procedures "
            f"of Holm and of Benjamini and Hochberg.",
            (
                "Holm S. A simple sequentially rejective multiple test procedure. "
                "Scandinavian Journal of Statistics 1979; 6: 65-70.",
                "Benjamini Y, Hochberg Y. Controlling the false discovery rate: a "
                "practical and powerful approach to multiple testing. Journal of the "
                "Royal Statistical Society B 1995; 57: 289-300.",
            ),
        )

    def _fit(self, federation: Federation, y: Any) -> None:
        check_choice("missing", self.missing, MISSING)
        level = self.confidence_level
        if not (isinstance(level, float | int) and 0.0 < level < 1.0):
            raise DataError(
                f"confidence_level={level!r}; choose a number above 0 and below 1."
            )
        if self.missing == "pairwise":
            if federation.partition == "columns":
                raise DataError(
                    'missing="pairwise" takes a row partition: here which cells are '
                    "missing is known to single silos, and how many rows have both of "
                    "two columns would be opened before a silo could judge it. Impute "
                    "them first."
                )
            self._fit_pairs(federation)
        elif federation.partition == "columns":
            self._set_complete(
                correlations_by_parties(federation), int(federation.n_rows or 0)
            )
        else:
            view = federation.complete_rows()
            N, self.mean_ = pooled_mean(view)
            S = pooled_scatter(view, self.mean_)
            squares = S.diagonal()
            self._set_complete(_ratio(S, squares[:, None], squares), N)
        self._set_tests()

    def _set_complete(self, R: Float[Array, "p p"], N: int) -> None:
        self.correlation_, self.n_samples_ = R, N
        self.n_pairs_ = np.full(R.shape, N)
        inverse = inverse_correlations(self.correlation_)
        if inverse is None:
            return
        self.variance_inflation_ = inverse.diagonal().copy()
        own = np.sqrt(self.variance_inflation_)
        partial = np.clip(-inverse / own / own[:, None], -1.0, 1.0)
        np.fill_diagonal(partial, 1.0)
        self.partial_correlation_ = partial
        # Two columns given p - 2 others are two residuals with p - 2 fewer rows.
        self.partial_p_value_ = _p_values(partial, np.full(R.shape, N - len(R) + 2))

    def _fit_pairs(self, federation: Federation) -> None:
        counted = federation.sum(local_pairs)
        counts = {name: np.rint(counted[name]) for name in ("count", "one")}
        n = counts["count"]
        total = federation.sum(local_sums, **counts)["total"]
        centre = total / np.maximum(n.diagonal(), 1.0)
        found = federation.sum(local_pair_moments, **counts, centre=centre)
        rows = np.maximum(n, 1.0)
        sums = found["sums"]
        squares = found["squares"] - sums**2 / rows
        products = found["products"] - sums * sums.T / rows
        self.correlation_ = _ratio(products, squares, squares.T)
        self.mean_, self.n_pairs_ = centre, n.astype(np.int64)

    def _set_tests(self) -> None:
        R, n = self.correlation_, self.n_pairs_
        if n.min() < 4:
            raise DataError(
                f"A pair of columns has {n.min()} rows with values in both, over all "
                f"silos; a confidence interval needs 4. Leave columns out."
            )
        self.p_value_ = _p_values(R, n)
        upper = np.triu_indices(len(R), 1)
        self.p_holm_ = _of_pairs(adjusted(self.p_value_[upper]), len(R))
        self.p_benjamini_hochberg_ = _of_pairs(
            _false_discovery(self.p_value_[upper]), len(R)
        )
        z = np.arctanh(np.where(np.abs(R) < 1.0, R, np.nan))
        half = scipy.stats.norm.ppf(0.5 + self.confidence_level / 2) / np.sqrt(n - 3)
        # Where r is 1 or -1, so are both ends; NaN stays.
        self.confidence_low_ = np.where(np.abs(R) < 1.0, np.tanh(z - half), R)
        self.confidence_high_ = np.where(np.abs(R) < 1.0, np.tanh(z + half), R)

    def to_frame(self) -> Any:
        """Return the correlations as a pandas data frame, columns by columns."""
        pd = pandas_if_installed()

        check_is_fitted(self)
        names = vars(self).get("feature_names_in_")
        return pd.DataFrame(self.correlation_, index=names, columns=names)


def _ratio(
    products: Float[Array, "p p"],
    first: Float[Array, "..."],
    second: Float[Array, "..."],
) -> Float[Array, "p p"]:
    """Return correlations from centred products and squares; NaN of a constant."""
    varies = (first > 0) & (second > 0)
    size = np.sqrt(np.where(varies, first, 1.0)) * np.sqrt(
        np.where(varies, second, 1.0)
    )
    R = np.where(varies, np.clip(products / size, -1.0, 1.0), np.nan)
    np.fill_diagonal(R, np.where(varies.diagonal(), 1.0, np.nan))
    return R


def _p_values(R: Float[Array, "p p"], n: Int[Array, "p p"]) -> Float[Array, "p p"]:
    """Return two-sided p-values of no correlation, of n rows each."""
    # (r + 1) / 2 has a beta distribution then, as `scipy.stats.pearsonr` has it.
    half = n / 2 - 1
    # Rounding may add to a probability of 1.
    tails = 2 * scipy.special.betainc(half, half, (1 - np.abs(R)) / 2)
    return np.where(half > 0, np.minimum(tails, 1.0), 1.0)


def _of_pairs(values: Float[Array, " q"], p: int) -> Float[Array, "p p"]:
    """Return values of the pairs above the diagonal as a matrix, 0 on the diagonal."""
    M = np.zeros((p, p))
    M[np.triu_indices(p, 1)] = values
    return M + M.T


def _false_discovery(p_values: Float[Array, " q"]) -> Float[Array, " q"]:
    known = ~np.isnan(p_values)
    found = np.full(len(p_values), np.nan)
    if known.any():
        found[known] = scipy.stats.false_discovery_control(p_values[known])
    return found

"""Imputation of each column from all others, by least squares over all silos.

    round 1   silos ── the number of observed cells of each column ─────────> counts
    round 2   silos <── counts ── silos ── the sums of these cells ─────────> means
    round 3   silos <── means ── rows filled with the means:
              silos ── N, cells to impute, sums, cross-products ────────────> S
    updates="sweep": in each sweep one round
              silos <── means m, covariances S ── each row's missing cells
              become its conditional means, m_M + S_MO S_OO⁻¹ (x_O - m_O)
              silos ── sums and cross-products of the filled rows ──────────> m, S
    updates="column": in each sweep one round for each column that lacks cells
              silos <── all regressions so far ── silos ── sums and
              cross-products of the rows that have column j ────────────────> b_j
              and in the end one round for those of the completed rows

Both ways make the generalised variance det S of the filled rows smaller.
"column" minimises it over the cells of one column: det S is that of the others times
the residual variance of column j, which is smallest where b_j is the regression over
the rows that have j, and the others lie on it. "sweep" minimises, over all cells, the
tangent of log det S, which lies above it: tr(S_t⁻¹ S) up to a constant. So both stop
changing at the same cells: those that the regression on the others predicts, for all
columns. "column" takes the same steps as scikit-learn, in the same order. "sweep" comes
closer by the share of what is observed, as the EM algorithm does; so from the third
sweep on m and S are extrapolated from those before, and det S is watched.

Which cells are missing never leaves a silo, and neither do sums over the rows that lack
the same cells. But they are what the changes from sweep to sweep are made of: where few
rows of a silo lack the same cells, the silo fills them with the means, once and for all
(`unpooled.party.rules.imputed_rows`).
"""

import warnings
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, final

import numpy as np
from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from unpooled.arrays import Array, Float, Int
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.linalg.anderson import anderson_weights, extrapolated
from unpooled.linalg.row_imputation import (
    conditional_means,
    imputed_in_turn,
    regression_on_others,
)
from unpooled.linalg.settled import Arrays, by_closeness, settled
from unpooled.models.base import FederatedEstimator
from unpooled.models.moments import local_counts, local_observed, pooled_sums
from unpooled.models.parameter_checks import check_choice
from unpooled.models.preprocessing.iterative_imputer_results import (
    iterative_imputer_exhibits,
)
from unpooled.protocol.step import derived, public, release, summed
from unpooled.results.citations import Citation
from unpooled.results.formats import counted

# Points of the path that the next one is made of; more than a few change little.
_REMEMBERED = 4
# Least eigenvalue of an extrapolated correlation matrix, relative to that of the last.
_SHARE, _NOTHING = 0.2, 1e-9
UPDATES = ("sweep", "column")
ORDERS = ("ascending", "descending", "roman", "arabic")

_FIRST = public("p", "the mean of each column's observed cells over all silos")
_CENTRE = public("p", "numbers near the means of the filled columns")
_COUNT = release("", meaning="number of rows")
_SUMS = release("p", meaning="sums of the filled columns, about these numbers")
_PRODUCTS = release(
    "p p",
    symmetric=True,
    meaning="cross-products of every two filled columns, about these numbers",
)


@derived(
    takes={"initial": _FIRST},
    fitted_by=("iterative_imputer.local_observed",),
    by_pattern=True,
)
def not_yet_imputed(
    X: Float[Array, "n p"], *, initial: Float[Array, " p"]
) -> Float[Array, "n p"]:
    """Return the rows as they are: the silo fills those of rare patterns alone."""
    return X


@derived(
    takes={
        "initial": _FIRST,
        "location": public("p", "the mean of each column of the filled rows"),
        "covariance": public("p p", "covariances of the filled columns"),
    },
    fitted_by=("iterative_imputer.local_filled",),
    by_pattern=True,
)
def jointly_imputed(
    X: Float[Array, "n p"],
    *,
    initial: Float[Array, " p"],
    location: Float[Array, " p"],
    covariance: Float[Array, "p p"],
) -> Float[Array, "n p"]:
    """Return the rows, each missing cell predicted from the others of its row."""
    return conditional_means(X, location, covariance)


@derived(
    takes={
        "initial": _FIRST,
        "targets": public("s", "the column that each regression predicts"),
        "coefficients": public("s p", "its coefficients of the other columns"),
        "intercepts": public("s", "its intercept"),
    },
    fitted_by=("iterative_imputer.local_filled",),
    by_pattern=True,
)
def imputed_one_by_one(
    X: Float[Array, "n p"],
    *,
    initial: Float[Array, " p"],
    targets: Float[Array, " s"],
    coefficients: Float[Array, "s p"],
    intercepts: Float[Array, " s"],
    left_out: int,
) -> Float[Array, "n p"]:
    """Return the rows, column after column predicted from the others.

    Missing cells of the column number `left_out` stay, if there is one.
    """
    order = targets.astype(int).tolist()
    filled = imputed_in_turn(X, initial, order, coefficients, intercepts)
    if left_out >= 0:
        filled[np.isnan(X[:, left_out]), left_out] = np.nan
    return filled


@summed(
    takes={"centre": _FIRST},
    count=_COUNT,
    regressed=release(
        "p", meaning="number of cells of each column that will be predicted from others"
    ),
    total=_SUMS,
    products=_PRODUCTS,
)
def local_filled(
    X: Float[Array, "n p"], *, centre: Float[Array, " p"]
) -> dict[str, Any]:
    """Return sums and cross-products of this silo's rows, filled with the means."""
    missing = np.isnan(X)
    sums = _sums_about(np.where(missing, centre, X), centre)
    return {**sums, "regressed": missing.sum(axis=0).astype(float)}


@summed(takes={"centre": _CENTRE}, count=_COUNT, total=_SUMS, products=_PRODUCTS)
def local_imputed(
    X: Float[Array, "n p"], *, centre: Float[Array, " p"]
) -> dict[str, Any]:
    """Return sums and cross-products of this silo's rows that have all columns."""
    return _sums_about(X[~np.isnan(X).any(axis=1)], centre)


def _sums_about(X: Float[Array, "n p"], centre: Float[Array, " p"]) -> dict[str, Any]:
    # Near the means, so that nothing cancels when the products are moved there.
    D = X - centre
    return {
        "count": np.array(len(D), float),
        "total": D.sum(axis=0),
        "products": D.T @ D,
    }


@final
class _Moments:
    """Means and covariances (denominator n) of the rows that a round summed."""

    def __init__(self, totals: dict[str, Any], centre: Float[Array, " p"]) -> None:
        n = max(round(float(totals["count"])), 1)
        shift = totals["total"] / n
        self.n, self.mean = n, centre + shift
        # Entry by entry: every machine gets the same bits.
        self.covariance = totals["products"] / n - shift * shift[:, None]
        self.std = np.sqrt(np.maximum(self.covariance.diagonal(), 0.0))


@final
class _Path:
    """The moments that cells were predicted by, and those of the rows so filled.

    From the third on, the next moments are extrapolated from these (Anderson), unless
    the determinant has become larger, or covariances would be nearly indefinite.
    """

    def __init__(self, initial: Float[Array, " p"], std: Float[Array, " p"]) -> None:
        self._unit = np.where(std > 0.0, std, 1.0)
        self._upper = np.triu_indices(len(std))
        # Means are what uncorrelated columns predict.
        self._points = [self._packed(initial, np.diag(std**2))]
        self._images = list[Array]()

    def next(self, now: _Moments) -> tuple[Array, Array]:
        """Return the mean and covariances to predict by, after those of filled rows."""
        self._images.append(self._packed(now.mean, now.covariance))
        found = now.mean, now.covariance
        if len(self._images) > 2:
            weights = self._weights()
            if weights.any():
                found = self._unpacked(extrapolated(self._images, weights))
            else:
                self._points, self._images = self._points[-1:], self._images[-1:]
        self._points = [*self._points, self._packed(*found)][-_REMEMBERED:]
        self._images = self._images[-_REMEMBERED + 1 :]
        return found

    def _weights(self) -> Float[Array, " k"]:
        def solve() -> Arrays:
            weights = anderson_weights(self._points, self._images)
            last, size = self._eigenvalues(self._images[-1]), _log_determinant
            rose = size(last) > size(self._eigenvalues(self._images[-2])) + _NOTHING
            least = self._eigenvalues(extrapolated(self._images, weights))[0]
            if rose or least < _SHARE * last[0] - _NOTHING:
                weights = np.zeros_like(weights)
            return {"weights": weights}

        return settled("weights of earlier sweeps", solve, by_closeness)["weights"]

    def _eigenvalues(self, point: Float[Array, " d"]) -> Float[Array, " p"]:
        _, covariance = self._unpacked(point)
        return np.linalg.eigvalsh(covariance / self._unit / self._unit[:, None])

    def _packed(
        self, mean: Float[Array, " p"], covariance: Float[Array, "p p"]
    ) -> Float[Array, " d"]:
        scaled = covariance / self._unit / self._unit[:, None]
        return np.concatenate([mean / self._unit, scaled[self._upper]])

    def _unpacked(self, point: Float[Array, " d"]) -> tuple[Array, Array]:
        p = len(self._unit)
        scaled = np.zeros((p, p))
        scaled[self._upper] = point[p:]
        scaled = np.where(scaled == 0.0, scaled.T, scaled)
        return point[:p] * self._unit, scaled * self._unit * self._unit[:, None]


def _log_determinant(eigenvalues: Float[Array, " p"]) -> float:
    # Eigenvalues of collinear columns are rounding, and count as a constant.
    return float(np.log(np.maximum(eigenvalues, _NOTHING)).sum())


@final
@dataclass(eq=False, repr=False)
class IterativeImputer(OneToOneFeatureMixin, TransformerMixin, FederatedEstimator):
    """Fill missing cells (NaN, blank) from the other columns, by least squares.

    Parameters
    ----------
    max_iter : int, default 10
        Number of sweeps: how often the cells of each column are predicted anew. There
        is no other criterion, so that the numbers that are opened are known beforehand.
    updates : {"sweep", "column"}, default "sweep"
        "sweep": one round a sweep, whatever the number of columns: all cells of a row
        are predicted at once, from the means and covariances of the filled rows.
        "column": one round for each column that lacks cells, in every sweep: as
        scikit-learn does, to the last digits, with as many times the rounds and the
        opened numbers. Both converge to the same cells. From the third sweep on "sweep"
        extrapolates the moments from those of the sweeps before.
    imputation_order : {"ascending", "descending", "roman", "arabic"}, default \
"ascending"
        Only with "column", the order of the columns in a sweep: by the number of
        missing cells, or by place from left to right or from right to left.
    skip_complete : bool, default False
        Only with "column", whether columns without missing cells in `fit` have no
        regression. Missing cells of such columns in new rows are then filled with the
        mean. Otherwise a sweep has one more round for each run of such columns.

    Attributes
    ----------
    statistics_ : (p,) array
        Means of the observed cells, which missing cells have before the first sweep.
    location_ : (p,) array
        Only with "sweep": the means that cells are predicted by.
    covariance_ : (p, p) array
        Only with "sweep": the covariances that cells are predicted by, with
        denominator N.
    targets_ : (s,) array of int
        Only with "column": the column that each regression predicts, in their order.
    coefficients_ : (s, p) array
        Only with "column": their coefficients, 0 for the column itself.
    intercepts_ : (s,) array
        Only with "column": their intercepts.
    mean_ : (p,) array
        Means of the completed columns.
    std_ : (p,) array
        Their standard deviations, with denominator N.
    observed_std_ : (p,) array
        Standard deviations of the observed cells, with denominator n.
    n_observed_ : (p,) array of int
        Number of observed cells of each column.
    n_regressed_ : (p,) array of int
        Number of cells that were predicted from other columns; those that remain of
        the missing ones were filled with the mean.
    n_samples_ : int
        N, the number of rows.
    n_iter_ : int
        Number of sweeps; 0 where no cell is to be predicted.
    change_ : float
        How much the last sweep changed: with "sweep" the largest change of a column's
        mean or standard deviation, in standard deviations of the column, with "column"
        the largest change of a standardised coefficient. NaN after a single sweep with
        "column".
    n_features_in_ : int
        p, the number of columns.
    feature_names_in_ : (p,) array of str
        Names of the columns, where the silos' tables have names.

    Raises
    ------
    DataError
        Where no silo has a value in a column.
    ReleaseRefusedError
        "imputed_parts": a fit within a fold or a split. Impute all rows first, and
        cross-validate what follows. "another_filling": the silo answered about these
        columns imputed or left out in another way.

    Notes
    -----
    Released, as totals only: the number of observed cells of each column and, unless
    some silo finds them too few, their sums; N, and for each column how many cells are
    to be predicted; the sums and cross-products of the rows filled with means; then in
    each sweep the sums and cross-products of the filled rows. With "column" instead
    those of the rows that have the column, for each column in every sweep, and in the
    end those of the completed rows. Never released: a row, which cells are missing, how
    many rows lack the same ones, or any silo's own count or sum.

    A sweep opens p (p + 1) / 2 + p + 1 numbers, (p + 3) / 2 for each column, with
    "column" as many for each column that lacks cells. Of 13 columns that is 8: ten
    sweeps open 92 with the first rounds, which is within the default policy
    (`max_released_share`) where the silos have 280 rows in all; with "column", and ten
    columns that lack cells, one sweep takes nearly as many.

    Anyone who sees the totals of several sweeps can solve them for sums over the rows
    that lack the same cells, since each sweep predicts their cells by other known
    coefficients. So each silo predicts cells only in rows whose totals it would release
    by themselves: at least `min_rows` of its own that lack the same cells and, where it
    has classes, `min_rows_per_class` of each class among them; few columns for so many
    rows (`max_feature_ratio`); no row that carries a direction (`max_leverage`). Other
    incomplete rows are filled with the means and count as observed: in all sweeps, and
    when the silo's table is transformed (`n_regressed_` says how many cells were
    predicted). So few rows never change between two totals. With a policy of
    ``min_rows=1`` all rows are predicted, and with "column" the result is
    scikit-learn's; otherwise it is scikit-learn's of rows in which those cells are
    filled with the means before.

    A silo keeps to one imputation of a version of its table: of the same columns
    together, and for steps that follow by the regressions of the first fit that one of
    them read. Where there are incomplete rows that are filled with the means, it
    answers for one way to treat their cells: this one, or imputed one by one
    (`SimpleImputer`), complete rows, or pairs of observed cells.

    Limits of imputed values (`min_value`, `max_value`) are not offered: they would
    distinguish rows at a limit from others that lack the same cells. Neither are draws
    (`sample_posterior`), nearest features and a random order. Predicted cells lie on
    the regression, so that standard deviations and correlations of completed columns
    are too small and too large, if less so than with means.

    See Also
    --------
    sklearn.impute.IterativeImputer : its twin on pooled rows, with
        ``estimator=LinearRegression(), tol=0`` and ``updates="column"``. Its limit for
        collinear columns depends on their units, this one's does not.
    unpooled.SimpleImputer : fills with a statistic of the column.

    References
    ----------
    Buck, A method of estimation of missing values in multivariate data suitable for use
    with an electronic computer, JRSS B 22 (1960): conditional means, not iterated.

    van Buuren and Groothuis-Oudshoorn, mice: Multivariate imputation by chained
    equations in R, Journal of Statistical Software 45(3), 2011, section 2: the chain,
    there with draws.

    Hunter and Lange, A tutorial on MM algorithms, The American Statistician 58 (2004).

    Walker and Ni, Anderson acceleration for fixed-point iterations, SIAM Journal on
    Numerical Analysis 49 (2011): `unpooled.linalg.anderson`.
    """

    statistics_: Float[Array, " p"] = field(init=False)
    location_: Float[Array, " p"] = field(init=False)
    covariance_: Float[Array, "p p"] = field(init=False)
    targets_: Int[Array, " s"] = field(init=False)
    coefficients_: Float[Array, "s p"] = field(init=False)
    intercepts_: Float[Array, " s"] = field(init=False)
    mean_: Float[Array, " p"] = field(init=False)
    std_: Float[Array, " p"] = field(init=False)
    observed_std_: Float[Array, " p"] = field(init=False)
    n_observed_: Int[Array, " p"] = field(init=False)
    n_regressed_: Int[Array, " p"] = field(init=False)
    n_samples_: int = field(init=False)
    n_iter_: int = field(init=False)
    change_: float = field(init=False)

    _missing = True
    on_all_rows = True
    _steps = (local_counts, local_observed)
    _exhibits = iterative_imputer_exhibits

    max_iter: int = 10
    _: KW_ONLY
    updates: str = "sweep"
    imputation_order: str = "ascending"
    skip_complete: bool = False

    def _citation(self) -> Citation:
        sweeps = counted(getattr(self, "n_iter_", self.max_iter), "sweep")
        return Citation(
            f"Missing values were predicted by least-squares regression on all other "
            f"columns, over the rows of all silos, in {sweeps} from the columns’ "
            f"means; in rows whose missing cells few rows of the silo share "
            f"they were replaced by the means.",
            (
                "Buck SF. A method of estimation of missing values in multivariate "
                "data suitable for use with an electronic computer. Journal of the "
                "Royal Statistical Society B 1960; 22: 302-306.",
                "van Buuren S, Groothuis-Oudshoorn K. mice: Multivariate imputation by "
                "chained equations in R. Journal of Statistical Software 2011; 45(3).",
            ),
        )

    def _needs_values(self) -> bool:
        return True

    def _fit(self, federation: Federation, y: Any) -> None:
        check_choice("updates", self.updates, UPDATES)
        check_choice("imputation_order", self.imputation_order, ORDERS)
        if type(self.max_iter) is not int or self.max_iter < 1:
            raise DataError(
                f"max_iter={self.max_iter!r}; choose a whole number of at least 1."
            )
        count, total = pooled_sums(federation)
        names = federation.feature_names
        if empty := [names[j] for j in np.flatnonzero(count == 0)]:
            raise DataError(
                f"No silo has a value in {', '.join(empty)}, so that nothing can be "
                f"predicted. Leave these columns out with select."
            )
        self.statistics_ = initial = total / count
        self.n_observed_ = count.astype(np.int64)
        view = federation.derive(not_yet_imputed, names, initial=initial)
        totals = self._asks(view).sum(local_filled, centre=initial)
        start = _Moments(totals, initial)
        self.n_samples_ = start.n
        self.n_regressed_ = np.rint(totals["regressed"]).astype(np.int64)
        if federation.coordinator.planned:
            # Zeros stand for the totals of a plan.
            self.n_regressed_ = np.ones(len(names), np.int64)
        # Cells that are filled with the means add nothing to squares about these.
        self.observed_std_ = start.std * np.sqrt(start.n / count)
        if self.updates == "sweep":
            last = self._sweep(federation, start)
        else:
            last = self._sweep_columns(federation, start)
        self.mean_, self.std_ = last.mean, last.std

    def _sweep(self, federation: Federation, start: _Moments) -> _Moments:
        """Predict all cells from one set of moments, in every sweep."""
        before = now = start
        self.n_iter_, self.change_ = 0, 0.0
        self.location_, self.covariance_ = start.mean, start.covariance
        path = _Path(self.statistics_, self.observed_std_)
        # Cells of new rows may be missing where none is in the fitted ones.
        sweeps = self.max_iter if self._predicts(federation) else 0
        while self.n_iter_ < sweeps:
            self.location_, self.covariance_ = path.next(now)
            view = self._asks(self._view(federation))
            totals = view.sum(local_imputed, centre=now.mean)
            before, now = now, _Moments(totals, now.mean)
            self.n_iter_ += 1
            unit = np.where(now.std > 0.0, now.std, 1.0)
            moved = [now.mean - before.mean, now.std - before.std]
            self.change_ = float(np.abs(moved / unit).max())
        return now

    def _sweep_columns(self, federation: Federation, start: _Moments) -> _Moments:
        """Predict one column after another, in scikit-learn's order."""
        p = federation.n_features
        self.targets_ = np.zeros(0, np.int64)
        self.coefficients_, self.intercepts_ = np.zeros((0, p)), np.zeros(0)
        self.n_iter_, self.change_ = 0, 0.0
        if federation.coordinator.planned:
            federation.coordinator.notes.append(
                "Which columns lack cells depends on the data; the plan has a round "
                "for each column in every sweep."
            )
        # The moments of all rows as they are filled now, where they are known.
        whole, order = start, self._order()
        for _ in range(self.max_iter if order and p > 1 else 0):
            for j in order:
                lacks = bool(self.n_regressed_[j])
                if lacks or whole is None:
                    found = self._moments(federation, start, j if lacks else -1)
                else:
                    found = whole
                b = regression_on_others(found.covariance, j)
                a = found.mean[j] - np.add.reduce(b * found.mean)
                self.targets_ = np.append(self.targets_, j)
                self.coefficients_ = np.vstack([self.coefficients_, b])
                self.intercepts_ = np.append(self.intercepts_, a)
                whole = None if lacks else found
            self.n_iter_ += 1
        last = whole or self._moments(federation, start, -1)
        self.change_ = np.nan
        if self.n_iter_ > 1:
            now, before = self.coefficients_[-len(order) :], self.coefficients_
            moved = np.abs(now - before[-2 * len(order) : -len(order)])
            unit = np.where(last.std > 0.0, last.std, 1.0)
            self.change_ = float((moved * last.std / unit[order][:, None]).max())
        return last

    def _predicts(self, federation: Federation) -> bool:
        """Whether there are cells to predict, and columns to predict them from."""
        return federation.n_features > 1 and bool(self.n_regressed_.any())

    def _order(self) -> list[int]:
        """Return the columns in the order of a sweep, as scikit-learn has it."""
        lacking = self.n_regressed_
        p = len(lacking)
        places = np.flatnonzero(lacking) if self.skip_complete else np.arange(p)
        if self.imputation_order in ("ascending", "descending"):
            places = np.argsort(lacking, kind="stable")[p - len(places) :]
        backwards = self.imputation_order in ("descending", "arabic")
        return (places[::-1] if backwards else places).tolist()

    def _moments(
        self, federation: Federation, start: _Moments, left_out: int
    ) -> _Moments:
        view = self._asks(self._view(federation, left_out))
        return _Moments(view.sum(local_imputed, centre=start.mean), start.mean)

    def _asks(self, view: Federation) -> Federation:
        """Return a view whose rounds are this model's."""
        return view.asked_by("iterative_imputer")

    def _view(self, view: Federation, left_out: int = -1) -> Federation:
        names, initial = view.feature_names, self.statistics_
        if self.updates == "sweep":
            location, covariance = self.location_, self.covariance_
            return view.derive(
                jointly_imputed,
                names,
                initial=initial,
                location=location,
                covariance=covariance,
            )
        # The first one fills a column with what it has: an array has an entry at least.
        return view.derive(
            imputed_one_by_one,
            names,
            initial=initial,
            targets=np.append(0.0, self.targets_),
            coefficients=np.vstack([np.zeros(len(initial)), self.coefficients_]),
            intercepts=np.append(initial[0], self.intercepts_),
            left_out=left_out,
        )

    def transform(self, X: Any) -> Any:
        """Return rows with their missing cells predicted from the others.

        Parameters
        ----------
        X : (n, p) array-like or Federation
            For a federation the result is a view of it: each silo fills its own rows
            when they are read, those of rare patterns with the means, and nothing is
            released. In an array the missing cells of all rows are predicted.
        """
        if isinstance(X, Federation):
            return self._view(self._check_view(X))
        rows = self._check_rows(X)
        if self.updates == "sweep":
            return conditional_means(rows, self.location_, self.covariance_)
        order = self.targets_.tolist()
        return imputed_in_turn(
            rows, self.statistics_, order, self.coefficients_, self.intercepts_
        )

    def to_sklearn(self) -> Any:
        """Return a fitted `sklearn.impute.IterativeImputer`.

        Raises
        ------
        DataError
            With ``updates="sweep"``, whose predictions are no sequence of regressions.
        """
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.experimental import enable_iterative_imputer  # noqa: F401
        from sklearn.impute import IterativeImputer as Twin
        from sklearn.linear_model import LinearRegression

        check_is_fitted(self)
        if self.updates == "sweep":
            raise DataError(
                "scikit-learn's IterativeImputer predicts one column after another; "
                'only updates="column" has a twin there.'
            )
        p = len(self.statistics_)
        twin = Twin(
            LinearRegression(),
            tol=0.0,
            max_iter=self.max_iter,
            imputation_order=self.imputation_order,
            skip_complete=self.skip_complete,
        )
        # Rows with the same means, and as many sweeps; the regressions come after.
        rows = self.statistics_ + np.vstack([np.eye(p), -np.eye(p)])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            twin.set_params(skip_complete=False).fit(rows)
        twin.set_params(skip_complete=self.skip_complete)
        twin.initial_imputer_.statistics_ = self.statistics_.copy()
        triplet = type(twin.imputation_sequence_[0]) if p > 1 else None
        twin.imputation_sequence_ = []
        for j, b, a in zip(
            self.targets_.tolist(), self.coefficients_, self.intercepts_, strict=True
        ):
            others = np.flatnonzero(np.arange(p) != j)
            model = LinearRegression()
            model.coef_, model.intercept_ = b[others], float(a)
            model.n_features_in_ = p - 1
            assert triplet is not None
            twin.imputation_sequence_.append(triplet(j, others, model))
        twin.n_iter_ = self.n_iter_
        twin.n_features_with_missing_ = len(self._order())
        names = ("n_features_in_", "feature_names_in_")
        self._taught(twin.initial_imputer_, names)
        return self._taught(twin, names)

"""Differences between silos in means, variances and covariances, by secure sums.

    round 1  silos ── N, column sums ─────────────────────────────────> mean m
    round 2  silos <── m ── each keeps n_i, and the sum and the scatter of its rows'
             deviations from m
             silos ── squares ────────────────────────────────────────> squares
    round 3  silos ── the scatter; n_i (m_i - m)(m_i - m)ᵀ;
             (n_i - 1) log|S_i| ──────────────────────────────────────> T, B, Box's M
    solve    W = T - B;  T = V diag(λ) Vᵀ, in units of the standard deviations
    round 4  silos <── V ── silos ── absolute deviations from their own means, and
             squares, of every column and component ──────────────────> sums
    round 5  silos ── n_i (mean absolute deviation)² of each ─────────> Levene's tests
    3 rounds where permutations are asked for: sizes of the silos, shown; then as
             `unpooled.models.model_selection.permutation_test` deals rows into groups

m_i is the mean and S_i the covariance matrix of silo i. Every statistic is a function
of totals over all silos; nobody receives a mean, variance or covariance of one silo.
But of whole numbers few sets of means and numbers of rows have such totals (see "Sums
of products of silos' own sums" in docs/disclosure.md).
"""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, final

import numpy as np
import scipy.linalg
from sklearn.utils.validation import check_is_fitted

from unpooled.arrays import Array, Float
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.linalg import group_tests
from unpooled.linalg.eigen import leading_eigenpairs
from unpooled.linalg.generalized_eigen import span_angles
from unpooled.linalg.moments import column_sums, scatter
from unpooled.models import moments
from unpooled.models.base import FederatedEstimator, check_all_rows
from unpooled.models.heterogeneity.heterogeneity_results import heterogeneity_exhibits
from unpooled.models.model_selection.permutation_test import (
    OF_SILOS,
    check_permutations,
    compared_silos,
    dealt_groups,
    judged,
)
from unpooled.models.moments import MEAN, PRODUCTS, SQUARES, pooled_mean
from unpooled.models.parameter_checks import whole_number
from unpooled.protocol.bounds import CauchySchwarz
from unpooled.protocol.step import public, release, stays, summed
from unpooled.results.citations import Citation

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Columns of the table, and the attributes that they show.
_TABLE = {
    "share": "eta_squared_",
    "F": "f_statistic_",
    "p": "p_value_",
    "p adjusted": "p_adjusted_",
    "spread F": "spread_f_statistic_",
    "spread p": "spread_p_value_",
}
_MOST_BARS = 30
# A silo's correlation matrix is singular where its smallest eigenvalue is below this.
_SINGULAR = 1e-10


@summed(
    within_silos=True,
    takes={"mean": MEAN},
    squares=release("p", meaning=SQUARES),
    count=stays("", until="fit", meaning="how many rows the silo has"),
    shift=stays(
        "p",
        until="fit",
        meaning="the sum of the silo's deviations from the mean over all silos",
    ),
    scatter=stays("p p", symmetric=True, until="fit", meaning=PRODUCTS),
)
def local_squares(
    X: Float[Array, "n p"], *, mean: Float[Array, " p"]
) -> dict[str, Any]:
    """Form the scatter about the mean of all rows; release its diagonal."""
    S = scatter(X, mean)
    return {
        "squares": S.diagonal().copy(),
        "count": np.array(float(len(X))),
        "shift": column_sums(X - mean),
        "scatter": S,
    }


@summed(
    within_silos=True,
    takes={"squares": public("p", SQUARES)},
    scatter=release(
        "p p", symmetric=True, bound=CauchySchwarz("squares"), meaning=PRODUCTS
    ),
    between=release(
        "p p",
        symmetric=True,
        bound=CauchySchwarz("squares"),
        meaning="between-silo cross-product matrix (products of every two columns' "
        "deviations of the silo's mean from the mean over all silos, times the silo's "
        "number of rows, added over silos)",
    ),
    logs=release(
        "",
        meaning="log-determinants of the silos' covariance matrices (how much each "
        "silo's rows spread in all directions), weighted by degrees of freedom and "
        "added",
    ),
    singular=release(
        "",
        meaning="how many silos have a singular covariance matrix (a column is "
        "constant or follows from others)",
    ),
)
def local_shifts(kept: Any, *, squares: Float[Array, " p"]) -> dict[str, Any]:
    """Release the scatter that was kept, the part of it between silos, and log|S_i|."""
    n, shift = float(kept["count"]), kept["shift"]
    if not n:
        # It would count among the silos that are compared.
        raise DataError("This silo has no rows in the view.", rule="min_rows")
    between = np.outer(shift, shift) / n
    # In units of the columns' deviations over all silos: Box's M is the same in any.
    unit = np.sqrt(np.where(squares > 0, squares, 1.0))
    own = (kept["scatter"] - between) / unit / unit[:, None] / max(n - 1.0, 1.0)
    logs = _log_determinant(own)
    return {
        "scatter": kept.triangle("scatter"),
        "between": between,
        "logs": np.array(0.0 if logs is None else (n - 1.0) * logs),
        "singular": np.array(float(logs is None)),
    }


@summed(
    within_silos=True,
    takes={"squares": public("p", SQUARES)},
    between=release(
        "p",
        meaning="between-silo sum of squares of each column (squared deviation of the "
        "silo's mean from the mean over all silos, times its number of rows, added)",
    ),
)
def local_column_shifts(kept: Any, *, squares: Float[Array, " p"]) -> dict[str, Any]:
    """Release the sum of squares between silos of each column, and no products."""
    return {"between": kept["shift"] ** 2 / max(float(kept["count"]), 1.0)}


_DEVIATIONS = "absolute deviations from the silo's own mean, added, for each"
_OWN_SQUARES = "squared deviations from the silo's own mean, added, for each"


@summed(
    within_silos=True,
    takes={
        "mean": MEAN,
        "scale": public("p", "the standard deviation of each column over all silos"),
        "axes": public("p k", "the principal components of all columns"),
    },
    column_total=release("p", meaning=f"{_DEVIATIONS} column"),
    column_squares=release("p", meaning=f"{_OWN_SQUARES} column"),
    axis_total=release("k", meaning=f"{_DEVIATIONS} component"),
    axis_squares=release("k", meaning=f"{_OWN_SQUARES} component"),
    column_own=stays("p", until="fit", meaning=f"{_DEVIATIONS} column"),
    axis_own=stays("k", until="fit", meaning=f"{_DEVIATIONS} component"),
)
def local_distances(
    X: Float[Array, "n p"],
    kept: Any,
    *,
    mean: Float[Array, " p"],
    scale: Float[Array, " p"],
    axes: Float[Array, "p k"],
) -> dict[str, Any]:
    """Add absolute deviations from the silo's own mean, in units of `scale`.

    They are those of every column and of the scores along every component.
    """
    silo_mean = mean + kept["shift"] / max(float(kept["count"]), 1.0)
    Z = (X - silo_mean) / scale
    totals: dict[str, Any] = {}
    for name, deviations in (("column", np.abs(Z)), ("axis", np.abs(Z @ axes))):
        total = column_sums(deviations)
        totals |= {
            f"{name}_total": total,
            f"{name}_squares": np.einsum("nj,nj->j", deviations, deviations),
            f"{name}_own": total.copy(),
        }
    return totals


@summed(
    within_silos=True,
    takes={"axes": public("p k", "the principal components of all columns")},
    column=release(
        "p",
        meaning="the silo's mean absolute deviation squared, times its number of rows, "
        "added, for each column",
    ),
    axis=release(
        "k",
        meaning="the silo's mean absolute deviation squared, times its number of rows, "
        "added, for each component",
    ),
)
def local_spread_shifts(kept: Any, *, axes: Float[Array, "p k"]) -> dict[str, Any]:
    """Release sums of squares between silos of these deviations, for Levene's test."""
    n = max(float(kept["count"]), 1.0)
    return {name: kept[f"{name}_own"] ** 2 / n for name in ("column", "axis")}


def _log_determinant(S: Float[Array, "p p"]) -> float | None:
    """Return log|S|, or None where S is singular up to rounding."""
    unit = np.sqrt(np.maximum(S.diagonal(), 0.0))
    if not (unit > 0).all():
        return None
    smallest = scipy.linalg.eigvalsh(S / unit / unit[:, None], subset_by_index=[0, 0])
    if smallest[0] <= _SINGULAR:
        return None
    return float(np.linalg.slogdet(S)[1])


@final
@dataclass(eq=False, repr=False)
class Heterogeneity(FederatedEstimator):
    """Tests of differences between silos, from totals over all of them.

    Parameters
    ----------
    n_components : int or None, default None
        k, the number of principal components of the standardised columns that are
        tested too; 5 when omitted, or p where p is smaller.
    multivariate : bool, default True
        Test all columns together, and components. With False silos send sums of
        squares of single columns, and no matrices: see Notes.
    permutations : int, default 0
        B, at least 19, for a permutation test of equal means of all columns, which
        assumes no distribution, in three rounds more; 0 for none. Only with
        `multivariate`. Silos show their numbers of rows for it, which their policies
        must allow (``allow_disclosed``).
    random_state : int, optional
        Seed of the permutations, which depend on each silo's rows too; None: as of
        ``federation.seed``.

    Attributes
    ----------
    eta_squared_ : (p,) array
        Share of the sum of squares of each column that is between silos: 0 where all
        silos have the same mean, 1 where no column varies within a silo.
    f_statistic_ : (p,) array
        F statistic of the one-way analysis of variance, with m - 1 and N - m degrees of
        freedom.
    p_value_ : (p,) array
        p-value of the test of equal means; it assumes normality and equal variances.
    p_adjusted_ : (p,) array
        The same, adjusted for p tests by Holm's procedure.
    spread_f_statistic_ : (p,) array
        F statistic of Levene's test of equal variances: the analysis of variance of the
        absolute deviations from each silo's own mean.
    spread_p_value_ : (p,) array
        p-value of Levene's test.
    components_ : (k, p) array
        Only with `multivariate`: principal components of the standardised columns, by
        decreasing variance; in each row the entry of largest magnitude is positive.
    component_variance_ratio_ : (k,) array
        Only with `multivariate`: share of each component in the variance.
    component_eta_squared_ : (k,) array
        Only with `multivariate`: `eta_squared_` of the scores along each component.
    component_f_statistic_ : (k,) array
        Only with `multivariate`: `f_statistic_` of the scores.
    component_p_value_ : (k,) array
        Only with `multivariate`: `p_value_` of the scores.
    component_p_adjusted_ : (k,) array
        Only with `multivariate`: `p_adjusted_` of the scores, for k tests.
    component_spread_f_statistic_ : (k,) array
        Only with `multivariate`: `spread_f_statistic_` of the scores.
    component_spread_p_value_ : (k,) array
        Only with `multivariate`: `spread_p_value_` of the scores.
    angles_ : (k,) array
        Only with `multivariate`: largest principal angle, in degrees, between the span
        of the first 1, 2, ..., k components and the span of those of the covariance
        within silos, which a method that adds the silos' own covariance matrices finds.
        Where the angle is small, the silos' means matter little for these components.
    wilks_ : dict
        Only with `multivariate`: Wilks' lambda of equal means ("statistic"), its F
        statistic ("approximation", after Rao), "dof" and "p_value".
    pillai_ : dict
        Only with `multivariate`: Pillai's trace, with the same keys.
    box_m_ : dict or None
        Only with `multivariate`: Box's M of equal covariance matrices, its chi-squared
        statistic with the correction for silos of the same size, "dof" and "p_value";
        None where the covariance matrix of a silo is singular.
    permutation_ : dict
        Only with `permutations`: Pillai's trace as `pillai_` has it ("statistic"), the
        95 % quantile of those of rows dealt at random into groups of the silos' sizes
        ("reference"), how many of these reach it ("exceeding"), and "p_value",
        ``(1 + exceeding) / (1 + B)``.
    n_samples_ : int
        N, the number of rows of all silos.
    n_silos_ : int
        m, the number of silos.
    columns_ : list of str
        Names of the columns.
    n_features_in_ : int
        p, the number of columns.
    feature_names_in_ : (p,) array of str
        Their names, where the silos' tables have names.

    Raises
    ------
    DataError
        Missing values, fewer than two silos, N - m < p, or collinear columns; the last
        two only with `multivariate`. With `permutations` also where a group of a silo's
        size would have few rows of others.
    ReleaseRefusedError
        With `permutations`, where a silo does not allow its size to be seen.

    Notes
    -----
    Released, as totals only: N; column sums; sums of squared deviations from the means;
    the p × p cross-product matrix (products of every two columns' deviations, added
    over all rows), and the part of it between silos; a weighted sum of the
    log-determinants of the silos' covariance matrices, and the number of silos where
    it is singular; absolute deviations from the silos' own means and their squares,
    added by column and component. Never released: a row, or any silo's own count, mean,
    variance or covariance.

    The part between silos has rank m - 1. With two silos it gives the direction and
    size of the difference of their means; with three, each silo can compute from it the
    direction in which the other two differ; and m - 1 silos together can always compute
    the mean of the last one. ``multivariate=False`` releases its diagonal only.

    With `permutations` each silo discloses its number of rows. The silos alone open
    sums of rows of groups, and one of them sends three numbers for all.

    References
    ----------
    Pooled Covariance PCA (P-COV) for Distributed/Federated Learning, sections 3 to 5: a
    method that
    ignores the differences of the silos' means is not exact; `angles_` measures by how
    much.

    Levene, Robust tests for equality of variances, 1960.

    Box, A general distribution theory for a class of likelihood criteria, Biometrika 36
    (1949).

    Holm, A simple sequentially rejective multiple test procedure, Scandinavian Journal
    of Statistics 6 (1979).
    """

    eta_squared_: Float[Array, " p"] = field(init=False)
    f_statistic_: Float[Array, " p"] = field(init=False)
    p_value_: Float[Array, " p"] = field(init=False)
    components_: Float[Array, "k p"] = field(init=False)
    wilks_: dict[str, Any] = field(init=False)
    pillai_: dict[str, Any] = field(init=False)
    box_m_: Any = field(init=False)
    permutation_: dict[str, Any] = field(init=False)
    n_samples_: int = field(init=False)
    n_silos_: int = field(init=False)
    columns_: list[str] = field(init=False)

    _computed = (
        *("angles_", "component_variance_ratio_", "component_eta_squared_"),
        *("component_f_statistic_", "component_p_value_", "component_p_adjusted_"),
        *("component_spread_f_statistic_", "component_spread_p_value_"),
    )
    _estimates: ClassVar[Mapping[str, int | None]] = {
        "eta_squared_": None,
        "components_": 0,
        "component_variance_ratio_": None,
        "component_eta_squared_": None,
    }
    _steps = (moments.local_total, *OF_SILOS)
    _exhibits = heterogeneity_exhibits

    n_components: int | None = None
    _: KW_ONLY
    multivariate: bool = True
    permutations: int = 0
    random_state: int | None = None

    def _needs_variation(self) -> bool:
        return self.multivariate

    def _citation(self) -> Citation:
        works = [
            "Levene H. Robust tests for equality of variances. In: Contributions to "
            "Probability and Statistics. Stanford University Press, 1960: 278-292.",
            "Holm S. A simple sequentially rejective multiple test procedure. "
            "Scandinavian Journal of Statistics 1979; 6: 65-70.",
        ]
        together = ""
        # It is None where it could not be computed.
        if self.multivariate and vars(self).get("box_m_", 0.0) is not None:
            together = ", and equality of covariance matrices by Box’s M test"
            works.append(
                "Box GEP. A general distribution theory for a class of likelihood "
                "criteria. Biometrika 1949; 36: 317-346."
            )
        return Citation(
            f"Equality of the silos’ means was tested by one-way analyses of variance "
            f"with Holm’s adjustment, equality of variances by Levene’s "
            f"test{together}.",
            tuple(works),
        )

    def _fit(self, federation: Federation, y: Any) -> None:
        check_all_rows(
            federation,
            "Heterogeneity compares all rows of the silos: folds and splits would be "
            "as many equations for the silos' means.",
        )
        p, m = federation.n_features, len(federation.parties)
        k, B = _component_count(self.n_components, p, m), self.permutations
        if B != 0:
            check_permutations("permutations", B)
            if not self.multivariate:
                raise DataError(
                    "permutations takes the cross-product matrix of all columns: leave "
                    "multivariate at True."
                )
        N, mean = pooled_mean(federation)
        self.n_samples_, self.n_silos_ = N, m
        self.columns_ = list(federation.feature_names)
        if N - m < (p if self.multivariate else 1):
            raise DataError(
                f"{p} columns and {m} silos, but {N} rows: nothing is left to compare "
                f"silos with. Leave columns out with select, or choose "
                f"multivariate=False."
            )
        squares = federation.sum(local_squares, mean=mean)["squares"]
        scale = np.sqrt(squares / (N - 1))
        scale = np.where(scale > 0, scale, 1.0)
        if self.multivariate:
            axes, S = self._compare_means(federation, squares, scale, k)
            if B:
                self._permute(federation, B, mean, S)
        else:
            between = federation.sum(local_column_shifts, squares=squares)["between"]
            self._set_analyses_of_variance("", between, squares)
            # Only the tests of columns are used below: a component of zeros.
            axes = np.zeros((p, 1))
        self._compare_variances(federation, mean, scale, axes)

    def _compare_means(
        self,
        federation: Federation,
        squares: Float[Array, " p"],
        scale: Float[Array, " p"],
        k: int,
    ) -> tuple[Float[Array, "p k"], Float[Array, "p p"]]:
        """Set the tests of means and of covariances; return components and scatter."""
        totals = federation.sum(local_shifts, squares=squares)
        N, m, units = self.n_samples_, self.n_silos_, scale * scale[:, None]
        T, B = totals["scatter"] / units, totals["between"] / units
        W = T - B
        wilks, pillai = group_tests.means_test(B, T, m, N, federation.feature_names)
        self.wilks_, self.pillai_ = _record(wilks), _record(pillai)
        self.box_m_ = None
        if round(float(totals["singular"])) == 0:
            # The silos' units are those of `squares`, N - 1 times as large.
            logs = float(totals["logs"]) + (N - m) * len(T) * np.log(N - 1)
            self.box_m_ = _record(group_tests.covariances_test(W, logs, m, N))
        values, V = leading_eigenpairs(T, k)
        self.components_ = np.ascontiguousarray(V.T)
        self.component_variance_ratio_ = values / T.trace()
        self.angles_ = span_angles(V, leading_eigenpairs(W, k)[1])
        self._set_analyses_of_variance("", totals["between"].diagonal(), squares)
        between = np.einsum("pk,pk->k", V, B @ V)
        self._set_analyses_of_variance("component_", between, values)
        return V, totals["scatter"]

    def _permute(
        self,
        federation: Federation,
        B: int,
        mean: Float[Array, " p"],
        S: Float[Array, "p p"],
    ) -> None:
        """Set the permutation test of equal means."""
        groups = dealt_groups(federation, B, int(federation.seed(self.random_state)))
        found = judged(compared_silos(federation, groups, mean, S), B)
        self.permutation_ = {name: own[0].item() for name, own in found.items()}

    def _set_analyses_of_variance(
        self, prefix: str, between: Float[Array, " l"], total: Float[Array, " l"]
    ) -> None:
        """Set the tests of equal means from the sums of squares between and in all."""
        tests = group_tests.one_way(between, total, self.n_silos_, self.n_samples_)
        setattr(self, f"{prefix}eta_squared_", tests.eta_squared)
        setattr(self, f"{prefix}f_statistic_", tests.f_statistic)
        setattr(self, f"{prefix}p_value_", tests.p_value)
        setattr(self, f"{prefix}p_adjusted_", group_tests.adjusted(tests.p_value))

    def _compare_variances(
        self,
        federation: Federation,
        mean: Float[Array, " p"],
        scale: Float[Array, " p"],
        axes: Float[Array, "p k"],
    ) -> None:
        """Set Levene's tests of columns, and of components where they are tested.

        Levene's test is the analysis of variance of absolute deviations. Its sums of
        squares are those about 0, less N times the square of the mean deviation.
        """
        totals = federation.sum(local_distances, mean=mean, scale=scale, axes=axes)
        between = federation.sum(local_spread_shifts, axes=axes)
        N, m = self.n_samples_, self.n_silos_
        prefixes = {"column": "", "axis": "component_"}
        if not self.multivariate:
            del prefixes["axis"]
        for name, prefix in prefixes.items():
            of_mean = totals[f"{name}_total"] ** 2 / N
            tests = group_tests.one_way(
                np.maximum(between[name] - of_mean, 0.0),
                totals[f"{name}_squares"] - of_mean,
                m,
                N,
            )
            setattr(self, f"{prefix}spread_f_statistic_", tests.f_statistic)
            setattr(self, f"{prefix}spread_p_value_", tests.p_value)

    def table(self) -> "pa.Table":
        """Return a row for each column, and for each component where there are any.

        Returns
        -------
        pyarrow.Table
            "what": the column's name, or "component 1"; "share": the share of the
            variance that is between silos (eta squared); "F", "p" and "p adjusted" of
            the test of equal means, the latter by Holm's procedure among columns or
            components; "spread F" and "spread p" of Levene's test of equal variances.
        """
        import pyarrow as pa

        check_is_fitted(self)
        cells: dict[str, list[Any]] = {"what": []}
        for prefix, names in self._parts().items():
            cells["what"] += names
            for head, attribute in _TABLE.items():
                values = getattr(self, f"{prefix}{attribute}").tolist()
                cells.setdefault(head, []).extend(values)
        return pa.table(cells)

    def figure(self) -> "Figure":
        """Return bars of the shares between silos, by column and component."""
        from matplotlib.figure import Figure

        check_is_fitted(self)
        parts = self._parts()
        rows = [min(len(names), _MOST_BARS) for names in parts.values()]
        figure = Figure(figsize=(7.0, 1.0 * len(rows) + 0.24 * sum(rows)))
        grid = figure.subplots(len(rows), squeeze=False, height_ratios=rows)[:, 0]
        for axes, prefix in zip(grid, parts, strict=True):
            self.draw(axes, prefix, "black", "tab:orange", "tab:blue")
        figure.set_layout_engine("constrained")
        return figure

    def draw(
        self, axes: "Axes", prefix: str, ink: str, alarm: str, calm: str
    ) -> list[str]:
        """Draw the shares of columns (prefix "") or components ("component_").

        Parameters
        ----------
        axes : matplotlib Axes
            Axes to draw into.
        prefix : str
            First part of the names of the attributes.
        ink, alarm, calm : str
            Colours of text, of shares whose adjusted p-value is below 0.05, of others.

        Returns
        -------
        list of str
            Names of the bars, from the top; of more than 30 columns those with the
            largest shares.
        """
        names = self._parts()[prefix]
        shares = np.nan_to_num(getattr(self, f"{prefix}eta_squared_"))
        significant = getattr(self, f"{prefix}p_adjusted_") < 0.05
        order = np.arange(len(names))
        if not prefix:
            order = np.argsort(-shares, kind="stable")[:_MOST_BARS]
        place = np.arange(len(order))
        colours = [alarm if significant[j] else calm for j in order]
        axes.barh(place, 100 * shares[order], height=0.62, color=colours)
        axes.set_ylim(len(order) - 0.4, -0.6)
        # Shares of 0.1 % are seen too; without any the axis still has a length.
        axes.set_xlim(0, 108 * float(shares[order].max()) or 1.0)
        shown = [names[int(j)] for j in order]
        axes.set_yticks(place, shown, color=ink, parse_math=False)
        axes.set_xlabel("share of the variance between silos, %", color=ink)
        return shown

    def _parts(self) -> dict[str, list[str]]:
        parts = {"": list(self.columns_)}
        shares = vars(self).get("component_eta_squared_")
        if shares is not None:
            parts["component_"] = [f"component {j + 1}" for j in range(len(shares))]
        return parts

    def __str__(self) -> str:
        """Return the table as text; the estimator's parameters before a fit."""
        if not hasattr(self, "eta_squared_"):
            return repr(self)
        head = "{:<16}{:>10}{:>12}{:>12}{:>12}".format(
            "", "between", "F", "p adjusted", "spread p"
        )
        line = (
            "{what:<16.16}{share:>10.1%}{F:>12.2f}{p adjusted:>12.2g}{spread p:>12.2g}"
        )
        rows = [line.format_map(row) for row in self.table().to_pylist()]
        return "\n".join(
            [f"{self.n_silos_} silos, {self.n_samples_:,} rows", head, *rows]
        )


def heterogeneity(
    federation: Federation,
    n_components: int | None = None,
    *,
    multivariate: bool = True,
    permutations: int = 0,
    random_state: int | None = None,
) -> Heterogeneity:
    """Return tests of the differences between the silos of a federation.

    Parameters
    ----------
    federation : Federation
        By rows, without missing cells.
    n_components : int, optional
        Number of principal components that are tested too; 5 when omitted, or the
        number of columns where it is smaller.
    multivariate : bool, default True
        See `Heterogeneity`, which this fits.
    permutations : int, default 0
        Number of permutations of a test that assumes no distribution; 0 for none.
    random_state : int, optional
        Their seed.

    Returns
    -------
    Heterogeneity
        With `table` and `figure`.

    Raises
    ------
    DataError, ReleaseRefusedError
        As of `Heterogeneity`.
    """
    model = Heterogeneity(
        n_components,
        multivariate=multivariate,
        permutations=permutations,
        random_state=random_state,
    )
    return model.fit(federation)


def _component_count(k: Any, p: int, m: int) -> int:
    if m < 2:
        raise DataError("One silo cannot be compared with others; two are needed.")
    if k is None:
        return min(5, p)
    return whole_number("n_components", k, most=p)


def _record(test: group_tests.Multivariate) -> dict[str, Any]:
    return vars(test) | {"dof": list(test.dof)}

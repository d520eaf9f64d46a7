"""How different silos are: tests of means, spreads and covariances by secure sums.

    round 1  silos ── N, column sums ─────────────────────────────────> mean m
    round 2  silos <── m ── each keeps n_i, its sums and its scatter about m
             silos ── squares ────────────────────────────────────────> squares
    round 3  silos ── the scatter; n_i (m_i - m)(m_i - m)ᵀ;
             (n_i - 1) log|S_i| ──────────────────────────────────────> T, B, Box's M
    solve    T - B = W; T = V diag(λ) Vᵀ, in units of the deviations
    round 4  silos <── V ── silos ── distances from own means, and squares, of every
             column and component ────────────────────────────────────> sums
    round 5  silos ── n_i (mean distance)² of each ───────────────────> Levene's tests

Every statistic is a function of totals over all silos. A silo's own mean, spread or
covariance is seen by nobody.

References
----------
Pooled Covariance PCA (P-COV) for Distributed/Federated Learning: there exactness is
lost where the silos' means are left out; how much, is `angles_`.
Levene, Robust tests for equality of variances, 1960.
Box, A general distribution theory for a class of likelihood criteria, Biometrika 36
(1949).
"""

from typing import Any, final

import numpy as np
import scipy.linalg

from unpooled.arrays import Array, Float
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.linalg.eigen import leading_eigenpairs
from unpooled.linalg.group_tests import (
    Multivariate,
    adjusted,
    covariances_test,
    means_test,
    one_way,
)
from unpooled.models import moments
from unpooled.models.base import FederatedEstimator
from unpooled.models.heterogeneity import sums as site_sums
from unpooled.models.heterogeneity.table import SiteTable
from unpooled.models.moments import pooled_mean
from unpooled.protocol.step import adopted

local_squares, local_shifts = adopted(
    __name__, site_sums.local_squares, site_sums.local_shifts
)
local_column_shifts, local_distances, local_spread_shifts = adopted(
    __name__,
    site_sums.local_column_shifts,
    site_sums.local_distances,
    site_sums.local_spread_shifts,
)


@final
class Heterogeneity(SiteTable, FederatedEstimator):
    """How different silos are from each other, from totals over all of them.

    Parameters
    ----------
    n_components : int or None, default None
        k, principal components of the standardised columns that are tested too; 5 when
        omitted, or as many as there are columns.
    multivariate : bool, default True
        Test all columns at once, and components. Without it silos send numbers by
        column only, no matrices: see Notes.

    Attributes
    ----------
    eta_squared_ : (p,) array
        Share of each column's squared distances from the mean that is between silos:
        0 where all have the same mean, 1 where rows of a silo are all the same.
    f_statistic_ : (p,) array
        One-way analysis of variance, with m - 1 and N - m degrees of freedom.
    p_value_ : (p,) array
        Of equal means.
    p_adjusted_ : (p,) array
        The same for p tests, by Holm's procedure.
    spread_f_statistic_ : (p,) array
        Levene's test of equal spreads: analysis of variance of the distances from each
        silo's own mean.
    spread_p_value_ : (p,) array
        Of equal spreads.
    components_ : (k, p) array
        Only with `multivariate`: of the correlations, by decreasing variance; in each
        row the entry of largest magnitude is positive.
    component_variance_ratio_ : (k,) array
        Only with `multivariate`: shares of each component in the variance.
    component_eta_squared_ : (k,) array
        Only with `multivariate`: as `eta_squared_`, of the components' scores; site
        effects proper.
    component_f_statistic_ : (k,) array
        Only with `multivariate`.
    component_p_value_ : (k,) array
        Only with `multivariate`.
    component_p_adjusted_ : (k,) array
        Only with `multivariate`.
    component_spread_f_statistic_ : (k,) array
        Only with `multivariate`.
    component_spread_p_value_ : (k,) array
        Only with `multivariate`.
    angles_ : (k,) array
        Only with `multivariate`: largest angle, in degrees, between the span of the
        first 1, 2, ..., k components and that of the covariances within silos, which is
        what adding the silos' own covariances gives. Small: the silos' means matter
        little for these components.
    wilks_ : dict
        Only with `multivariate`: Wilks' lambda of equal means ("statistic"), its F
        ("approximation", after Rao), "dof" and "p_value".
    pillai_ : dict
        Only with `multivariate`: Pillai's trace, with the same keys.
    box_m_ : dict or None
        Only with `multivariate`: Box's M of equal covariances, its chi-squared, as
        corrected for silos of the same size, "dof" and "p_value"; None where some
        silo's own covariance is singular.
    n_samples_ : int
        N, the rows of all silos.
    n_silos_ : int
        m.
    columns_ : list of str
        Names of the columns.
    n_features_in_ : int
        p.
    feature_names_in_ : (p,) array of str
        Their names, where the silos' tables have names.

    Raises
    ------
    DataError
        Missing values, fewer than two silos, N - m < p, or collinear columns; the last
        two only with `multivariate`.

    Notes
    -----
    Released, as totals only: N; column sums; squared distances from the means; the
    p × p scatter, and the part of it that is between the silos' means; a weighted sum
    of logarithms of determinants, and how many silos have none; distances from the
    silos' own means, by column and component, with squares. Never released: a row, or
    any silo's own count, mean, spread or covariance.

    The part between silos has rank m - 1. With two silos it is the direction and size
    of the difference of their means, and with three each can tell from it the direction
    in which the other two differ; m - 1 silos together can always tell the last one's
    mean. ``multivariate=False`` sends its diagonal only.
    """

    eta_squared_: Float[Array, " p"]
    f_statistic_: Float[Array, " p"]
    p_value_: Float[Array, " p"]
    components_: Float[Array, "k p"]
    wilks_: dict[str, Any]
    pillai_: dict[str, Any]
    box_m_: Any

    _steps = (moments.local_total,)

    def __init__(
        self, n_components: int | None = None, *, multivariate: bool = True
    ) -> None:
        self.n_components = n_components
        self.multivariate = multivariate

    def _fit(self, federation: Federation, y: Any) -> None:
        p, m = federation.n_features, len(federation.parties)
        k = _component_count(self.n_components, p, m)
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
            axes = self._compare_means(federation, squares, scale, k)
        else:
            between = federation.sum(local_column_shifts, squares=squares)["between"]
            self._set("", between, squares)
            axes = np.zeros((p, 1))
        self._compare_spreads(federation, mean, scale, axes)

    def _compare_means(
        self,
        federation: Federation,
        squares: Float[Array, " p"],
        scale: Float[Array, " p"],
        k: int,
    ) -> Float[Array, "p k"]:
        """Set what the scatter and its part between silos tell; return components."""
        told = federation.sum(local_shifts, squares=squares)
        N, m, units = self.n_samples_, self.n_silos_, scale * scale[:, None]
        T, B = told["scatter"] / units, told["between"] / units
        W = T - B
        wilks, pillai = means_test(B, T, m, N)
        self.wilks_, self.pillai_ = _record(wilks), _record(pillai)
        self.box_m_ = None
        if round(float(told["singular"])) == 0:
            # The silos' units are those of `squares`, N - 1 times as large.
            logs = float(told["logs"]) + (N - m) * len(T) * np.log(N - 1)
            self.box_m_ = _record(covariances_test(W, logs, m, N))
        values, V = leading_eigenpairs(T, k)
        self.components_ = np.ascontiguousarray(V.T)
        self.component_variance_ratio_ = values / T.trace()
        self.angles_ = _angles(V, leading_eigenpairs(W, k)[1])
        self._set("", told["between"].diagonal(), squares)
        self._set("component_", np.einsum("pk,pk->k", V, B @ V), values)
        return V

    def _compare_spreads(
        self,
        federation: Federation,
        mean: Float[Array, " p"],
        scale: Float[Array, " p"],
        axes: Float[Array, "p k"],
    ) -> None:
        how: dict[str, Any] = {"mean": mean, "scale": scale, "axes": axes}
        told = federation.sum(local_distances, **how)
        own = federation.sum(local_spread_shifts, axes=axes)
        N, m = self.n_samples_, self.n_silos_
        kinds = {"": "column", "component_": "axis"}
        for prefix, name in kinds.items() if self.multivariate else [("", "column")]:
            around = told[f"{name}_total"] ** 2 / N
            squares = told[f"{name}_squares"] - around
            found = one_way(np.maximum(own[name] - around, 0.0), squares, m, N)
            setattr(self, f"{prefix}spread_f_statistic_", found.f_statistic)
            setattr(self, f"{prefix}spread_p_value_", found.p_value)

    def _set(
        self, prefix: str, between: Float[Array, " l"], total: Float[Array, " l"]
    ) -> None:
        found = one_way(between, total, self.n_silos_, self.n_samples_)
        setattr(self, f"{prefix}eta_squared_", found.eta_squared)
        setattr(self, f"{prefix}f_statistic_", found.f_statistic)
        setattr(self, f"{prefix}p_value_", found.p_value)
        setattr(self, f"{prefix}p_adjusted_", adjusted(found.p_value))


def heterogeneity(
    federation: Federation,
    n_components: int | None = None,
    *,
    multivariate: bool = True,
) -> Heterogeneity:
    """Tell how different the silos of a federation are, from totals over all of them.

    Parameters
    ----------
    federation : Federation
        By rows, without missing cells.
    n_components : int, optional
        Principal components that are tested too; 5 when omitted, or as many as there
        are columns.
    multivariate : bool, default True
        As of `Heterogeneity`, which this fits.

    Returns
    -------
    Heterogeneity
        With `table` and `figure`.
    """
    return Heterogeneity(n_components, multivariate=multivariate).fit(federation)


def _component_count(k: Any, p: int, m: int) -> int:
    if m < 2:
        raise DataError("One silo does not differ from others; two are needed.")
    if k is None:
        return min(5, p)
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or not 1 <= k <= p:
        raise DataError(f"n_components={k!r}; choose a whole number from 1 to {p}.")
    return int(k)


def _angles(V: Float[Array, "p k"], U: Float[Array, "p k"]) -> Float[Array, " k"]:
    spans = range(1, V.shape[1] + 1)
    largest = [scipy.linalg.subspace_angles(V[:, :j], U[:, :j])[0] for j in spans]
    return np.degrees(np.array(largest))


def _record(test: Multivariate) -> dict[str, Any]:
    return {
        "statistic": test.statistic,
        "approximation": test.approximation,
        "dof": list(test.dof),
        "p_value": test.p_value,
    }

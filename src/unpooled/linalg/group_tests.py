"""Analysis of variance from the scatter between and within groups of rows.

For m groups and N rows:  B = Σ n_i (m_i - m)(m_i - m)ᵀ,  W = Σ S_i,  T = B + W.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import scipy

from unpooled.arrays import Array, Float
from unpooled.linalg.generalized_eigen import check_definite


@final
@dataclass(frozen=True)
class OneWay:
    """One-way analyses of variance, one for each column.

    Attributes
    ----------
    eta_squared : (p,) array
        Proportion of the variance explained by the groups, B / T; NaN for constant
        columns.
    f_statistic : (p,) array
        With m - 1 and N - m degrees of freedom.
    p_value : (p,) array
        p-value of the F test of equal means, which assumes normality and equal
        variances.
    """

    eta_squared: Float[Array, " p"]
    f_statistic: Float[Array, " p"]
    p_value: Float[Array, " p"]


def one_way(
    between: Float[Array, " p"], total: Float[Array, " p"], m: int, N: int
) -> OneWay:
    """Test for each column that all groups have the same mean.

    Parameters
    ----------
    between, total : (p,) arrays
        Sums of squares: diagonals of B and T.
    m, N : int
        Numbers of groups and rows.
    """
    within = np.maximum(total - between, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        F = (between / (m - 1)) / (within / (N - m))
        share = between / np.where(total > 0, total, np.nan)
    F = np.where(total > 0, F, np.nan)
    return OneWay(share, F, scipy.stats.f.sf(F, m - 1, N - m))


@final
@dataclass(frozen=True)
class Multivariate:
    """A multivariate test of all columns together.

    Attributes
    ----------
    statistic : float
        Wilks' lambda, Pillai's trace, Hotelling and Lawley's trace, Roy's largest root,
        or Box's M.
    approximation : float
        The F statistic, or for Box's M the chi-squared statistic, that is compared
        with its distribution.
    dof : tuple of float
        Its degrees of freedom.
    p_value : float
        P-value of the test, which assumes normality.
    """

    statistic: float
    approximation: float
    dof: tuple[float, ...]
    p_value: float


def means_test(
    B: Float[Array, "p p"],
    T: Float[Array, "p p"],
    m: int,
    N: int,
    names: Sequence[str] | None = None,
) -> tuple[Multivariate, Multivariate]:
    """Return Wilks' and Pillai's tests that all groups have the same means.

    Parameters
    ----------
    B, T : (p, p) arrays
        Scatters between groups, and of all rows.
    m, N : int
        Numbers of groups and rows.
    names : sequence of str, optional
        Names of the columns, for the error.

    Raises
    ------
    DataError
        When T is singular to the accuracy of a total.

    References
    ----------
    Rao, An asymptotic expansion of the distribution of Wilks' criterion, 1951.
    Pillai, Some new test criteria in multivariate analysis, Annals of Mathematical
    Statistics 26 (1955).
    """
    unit = check_definite(T, names)
    scale = unit * unit[:, None]
    shares = np.clip(scipy.linalg.eigvalsh(B / scale, T / scale), 0.0, 1.0)
    p, h, e = len(T), m - 1, N - m
    return _wilks(shares, p, h, e), _pillai(shares, p, h, e)


def tests_of_ratios(
    ratios: Float[Array, " k"], p: int, m: int, N: int
) -> dict[str, Multivariate]:
    """Return four tests that all groups have the same means, by their names.

    Parameters
    ----------
    ratios : (k,) array
        Eigenvalues of ``W⁻¹ B``, all that are above 0.
    p, m, N : int
        Numbers of columns, groups and rows; N - m above p.

    References
    ----------
    Rencher, Methods of multivariate analysis, 2nd edition, Wiley, 2002, section 6.1.
    McKeon, F approximations to the distribution of Hotelling's T0², Biometrika 61
    (1974).
    """
    h, e = m - 1, N - m
    shares = ratios / (1.0 + ratios)
    return {
        "Wilks' lambda": _wilks(shares, p, h, e),
        "Pillai's trace": _pillai(shares, p, h, e),
        "Hotelling-Lawley trace": _hotelling_lawley(ratios, p, h, e),
        "Roy's largest root": _roy(ratios, p, h, e),
    }


def _wilks(shares: Float[Array, " k"], p: int, h: int, e: int) -> Multivariate:
    with np.errstate(divide="ignore"):
        log_wilks = float(np.log1p(-shares).sum())
    s = np.sqrt((p**2 * h**2 - 4) / (p**2 + h**2 - 5)) if p**2 + h**2 > 5 else 1.0
    dof = float(p * h), float((e - (p - h + 1) / 2) * s - (p * h - 2) / 2)
    # expm1, because lambda may be close to 1.
    F = np.expm1(-log_wilks / s) * dof[1] / dof[0]
    return _f_test(float(np.exp(log_wilks)), float(F), dof)


def _pillai(shares: Float[Array, " k"], p: int, h: int, e: int) -> Multivariate:
    s, trace = min(p, h), float(shares.sum())
    a, b = abs(p - h) + s, e - p + s
    F = (b / a) * trace / (s - trace) if trace < s else np.inf
    return _f_test(trace, float(F), (float(s * a), float(s * b)))


def _hotelling_lawley(
    ratios: Float[Array, " k"], p: int, h: int, e: int
) -> Multivariate:
    trace, n = float(ratios.sum()), (e - p - 1) / 2
    if n > 1:
        b = (p + 2 * n) * (h + 2 * n) / (2 * (2 * n + 1) * (n - 1))
        dof = float(p * h), 4 + (p * h + 2) / (b - 1)
        return _f_test(trace, dof[1] / dof[0] * trace * 2 * n / (dof[1] - 2), dof)
    # McKeon's approximation needs more rows; this is that of Pillai and Samson.
    s = min(p, h)
    dof = float(s * (abs(p - h) + s)), float(2 * (s * n + 1))
    return _f_test(trace, dof[1] / dof[0] * trace / s, dof)


def _roy(ratios: Float[Array, " k"], p: int, h: int, e: int) -> Multivariate:
    # An upper bound of F, so that its p-value is a lower bound.
    largest, r = float(ratios.max(initial=0.0)), max(p, h)
    dof = float(r), float(e - r + h)
    return _f_test(largest, dof[1] / dof[0] * largest, dof)


def covariances_test(
    W: Float[Array, "p p"], logs: float, m: int, N: int
) -> Multivariate:
    """Return Box's test that all groups have the same covariances.

    Bartlett's correction is that for groups of equal size, since the exact one would
    disclose the sizes. It is smaller than the exact one, so that with unequal sizes the
    p-value is somewhat too small.

    Parameters
    ----------
    W : (p, p) array
        Scatter within groups, columns in any units.
    logs : float
        ``Σ (n_i - 1) log|S_i|`` of the groups' own covariances, in the same units.
    m, N : int
        Numbers of groups and rows.

    References
    ----------
    Box, A general distribution theory for a class of likelihood criteria, Biometrika 36
    (1949).
    """
    p = len(W)
    M = (N - m) * np.linalg.slogdet(W / (N - m))[1] - logs
    dof = p * (p + 1) * (m - 1) / 2
    c = (m**2 - 1) / (N - m) * (2 * p**2 + 3 * p - 1) / (6 * (p + 1) * (m - 1))
    chi_squared = float(max(M, 0.0) * (1.0 - c))
    p_value = float(scipy.stats.chi2.sf(chi_squared, dof))
    return Multivariate(float(M), chi_squared, (dof,), p_value)


def adjusted(p_values: Float[Array, " p"]) -> Float[Array, " p"]:
    """Return p-values adjusted for multiple testing by Holm's procedure; NaN stay."""
    order = np.argsort(p_values)
    count = int(np.isfinite(p_values).sum())
    steps = np.maximum(count - np.arange(len(p_values)), 1)
    raised = np.maximum.accumulate(p_values[order] * steps)
    adjusted_values = np.empty_like(p_values)
    adjusted_values[order] = np.minimum(raised, 1.0)
    return adjusted_values


def _f_test(statistic: float, F: float, dof: tuple[float, float]) -> Multivariate:
    return Multivariate(statistic, F, dof, float(scipy.stats.f.sf(F, *dof)))

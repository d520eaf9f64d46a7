"""The number of components by five rules, and whether columns have anything in common.

    parallel       as many leading eigenvalues of the correlation matrix as lie above
                   the 95 % quantile of those of uncorrelated normal columns
    map            the number that leaves the smallest mean squared partial correlation
    mle            the most probable rank of a probabilistic model, by Laplace's method
    kaiser         eigenvalues of the correlation matrix above 1
    broken_stick   leading variances above the pieces of a stick broken at random

All follow from the covariance matrix, N and p, so that nothing else is released. The
correlation matrices of uncorrelated normal columns are drawn by Bartlett's
decomposition: a triangle of p (p + 1) / 2 numbers, however large N is.

References
----------
Horn, A rationale and test for the number of factors in factor analysis, Psychometrika
30 (1965); Velicer, Determining the number of components from the matrix of partial
correlations, Psychometrika 41 (1976); Minka, Automatic choice of dimensionality for
PCA, NIPS 2000; Kaiser, An index of factorial simplicity, Psychometrika 39 (1974);
Bartlett, Tests of significance in factor analysis, British Journal of Statistical
Psychology 3 (1950).
"""

from dataclasses import dataclass
from typing import Any, final

import numpy as np
import scipy

from unpooled.arrays import Array, Float
from unpooled.errors import DataError
from unpooled.linalg.settled import Arrays, by_closeness, settled
from unpooled.models.pca.column_measures import broken_stick

# Draws of parallel analysis: few of many columns, where quantiles hardly differ.
_DRAWS, _FEW, _MANY = 200, 20, 150
_LEVEL = 0.95


@final
@dataclass(frozen=True, eq=False)
class ComponentNumbers:
    """The number of components by each rule.

    Attributes
    ----------
    by_rule : dict of str to int
        Number of components by each rule; 0 where not even the first is kept.
    reference : (p,) array
        The 95 % quantiles of parallel analysis.
    kmo : float
        Kaiser, Meyer and Olkin's measure of sampling adequacy: the share of squared
        correlations in these and squared partial correlations. 0 where columns are
        collinear.
    bartlett : tuple of (float, int, float)
        Test that all correlations are 0: chi-squared, degrees of freedom, p.
    """

    by_rule: dict[str, int]
    reference: Float[Array, " p"]
    kmo: float
    bartlett: tuple[float, int, float]


def component_numbers(
    C: Float[Array, "p p"], N: int, rng: np.random.RandomState
) -> ComponentNumbers:
    """Return the numbers of components that the rules give.

    Parameters
    ----------
    C : (p, p) array
        Covariance matrix, denominator N - 1.
    N : int
        Sample size.
    rng : RandomState
        For the draws of parallel analysis.

    Raises
    ------
    DataError
        With fewer rows than columns, a single column, or a constant one.
    """
    p, spread = len(C), np.sqrt(np.maximum(C.diagonal(), 0.0))
    if p < 2 or p >= N or not (spread > 0.0).all():
        raise DataError(
            "A rule for the number of components takes at least two columns, none "
            "constant, and more rows than columns."
        )
    R = C / spread / spread[:, None]
    np.fill_diagonal(R, 1.0)

    def solve() -> Arrays:
        values, vectors = scipy.linalg.eigh(R)
        return {
            "values": values[::-1],
            "partial": _partial_correlations(values[::-1], vectors[:, ::-1]),
            "variances": scipy.linalg.eigvalsh(C)[::-1],
            "reference": _of_uncorrelated(p, N, rng),
            "adequacy": np.array(_adequacy(R)),
        }

    found = settled("number of components", solve, by_closeness)
    values, variances = found["values"], np.maximum(found["variances"], 0.0)
    numbers = {
        "parallel": _leading(values > found["reference"]),
        "map": int(np.argmin(found["partial"])),
        "mle": _most_probable_rank(variances, N),
        "kaiser": int(np.count_nonzero(values > 1.0)),
        "broken_stick": _leading(variances / variances.sum() > broken_stick(p)),
    }
    kmo, log_det = (float(x) for x in found["adequacy"])
    statistic = -(N - 1 - (2 * p + 5) / 6) * log_det
    dof = p * (p - 1) // 2
    test = (statistic, dof, float(scipy.stats.chi2.sf(statistic, dof)))
    return ComponentNumbers(numbers, np.array(found["reference"]), kmo, test)


def _leading(above: Any) -> int:
    """Return how many of the first entries are true, without a gap."""
    return int(np.argmin(above)) if not above.all() else len(above)


def _partial_correlations(
    values: Float[Array, " p"], V: Float[Array, "p p"]
) -> Float[Array, " q"]:
    """Return mean squared partial correlations without 0, 1, ..., p - 2 components."""
    p = len(values)
    rest, found = (V * values) @ V.T, np.full(p - 1, np.inf)
    for m in range(p - 1):
        variance = rest.diagonal()
        if (variance > 1e-10).all():
            r = rest / np.sqrt(np.outer(variance, variance))
            found[m] = ((r**2).sum() - p) / (p * (p - 1))
        rest = rest - values[m] * np.outer(V[:, m], V[:, m])
    # A value that cannot be computed is never the smallest.
    return np.where(np.isfinite(found), found, 2.0)


def _of_uncorrelated(p: int, N: int, rng: np.random.RandomState) -> Float[Array, " p"]:
    """Return the quantiles of eigenvalues of correlations of uncorrelated columns."""
    draws = np.empty((_DRAWS if p <= _MANY else _FEW, p))
    below = np.tril_indices(p, -1)
    for draw in draws:
        L = np.zeros((p, p))
        L[below] = rng.standard_normal(len(below[0]))
        np.fill_diagonal(L, np.sqrt(rng.chisquare(N - 1 - np.arange(p))))
        W = L @ L.T
        spread = np.sqrt(W.diagonal())
        draw[:] = scipy.linalg.eigvalsh(W / np.outer(spread, spread))[::-1]
    return np.quantile(draws, _LEVEL, axis=0)


def _most_probable_rank(variances: Float[Array, " p"], N: int) -> int:
    """Return the rank with the largest evidence (Minka 2000, equations 30, 77, 79)."""
    p = len(variances)
    return 1 + int(np.argmax([_evidence(variances, k, N) for k in range(1, p)]))


def _evidence(variances: Float[Array, " p"], k: int, N: int) -> float:
    p = len(variances)
    if variances[k - 1] < np.finfo(float).eps:
        return -np.inf
    i = np.arange(1, k + 1)
    log_volume = -k * np.log(2.0) + np.sum(
        scipy.special.gammaln((p - i + 1) / 2) - np.log(np.pi) * (p - i + 1) / 2
    )
    noise = max(float(variances[k:].sum()) / (p - k), float(np.finfo(float).eps))
    fit = -0.5 * N * (np.log(variances[:k]).sum() + (p - k) * np.log(noise))
    m = p * k - k * (k + 1) / 2
    shrunk = np.concatenate([variances[:k], np.full(p - k, noise)])
    log_det = 0.0
    for j in range(k):
        later = variances[j + 1 :]
        gap, inverse = variances[j] - later, 1 / shrunk[j + 1 :] - 1 / shrunk[j]
        with np.errstate(divide="ignore", invalid="ignore"):
            log_det += np.log(gap * inverse).sum() + np.log(N) * len(later)
    freedom = (m + k) / 2 * np.log(2 * np.pi)
    return float(log_volume + fit + freedom - log_det / 2 - k / 2 * np.log(N))


def _adequacy(R: Float[Array, "p p"]) -> tuple[float, float]:
    """Return the measure of sampling adequacy, and the logarithm of the determinant."""
    sign, log_det = np.linalg.slogdet(R)
    if sign <= 0 or log_det < len(R) * np.log(1e-12):
        return 0.0, float(log_det) if np.isfinite(log_det) else -745.0
    inverse = np.linalg.inv(R)
    spread = np.sqrt(inverse.diagonal())
    partial = inverse / np.outer(spread, spread)
    off = ~np.eye(len(R), dtype=bool)
    r, u = (R[off] ** 2).sum(), (partial[off] ** 2).sum()
    return float(r / (r + u)), float(log_det)

"""The number of components, options and result that PCA's solvers share."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
from sklearn.utils import check_random_state

from unpooled.arrays import Array, Bool, Float
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.linalg.eigen import leading_eigenpairs
from unpooled.linalg.ritz import RitzPairs

# `n_components` after it was checked: a number, a share of variance, or all.
Wanted = int | float | None
# Rules that find the number from the covariance matrix, or from those of folds.
RULES = ("parallel", "map", "mle", "press")

# Up to this size all eigenvalues cost no more than a few.
ALL_PAIRS = 256


@final
@dataclass(frozen=True, eq=False)
class Spectrum:
    """Principal components, as a solver returns them.

    Attributes
    ----------
    N : int
        Sample size, over all silos.
    mean : (p,) array or None
        Mean of all rows; None where silos keep the means of their own columns.
    variance : (k,) array or None
        Variances along the components, in descending order, with denominator N - 1;
        None where silos keep them.
    axes : (p, k) array or None
        Orthonormal columns, in each the entry of largest magnitude positive; None where
        silos keep the loadings.
    total : float
        Variance of all columns together.
    noise : float
        Mean variance of the directions that are not kept.
    certificate : RitzPairs, optional
        Certificate of an iterative solver: residuals and gap, in units of the scatter.
    attributes : mapping of str to value
        Further fitted attributes, by their names.
    n_kept_in_silos : int
        Number of components, where silos keep the variances too.
    spare_axes : (p, s) array, optional
        Directions behind `axes`, for standard errors.
    """

    N: int
    mean: Float[Array, " p"] | None = None
    variance: Float[Array, " k"] | None = None
    axes: Float[Array, "p k"] | None = None
    total: float = 0.0
    noise: float = 0.0
    certificate: RitzPairs | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict)
    n_kept_in_silos: int = 0
    spare_axes: Float[Array, "p s"] | None = None


@final
@dataclass(frozen=True)
class Iteration:
    """The start and the stopping rule of an iterative solver.

    Attributes
    ----------
    tol : float
        Largest sine of the angle between the components' span and its limit.
    max_iter : int
        Most rounds in which a block is multiplied.
    random_state : int, RandomState or None
        Seed of the starting block; None takes the federation's.
    """

    tol: float
    max_iter: int
    random_state: Any

    def starting_block(
        self, federation: Federation, rows: int, columns: int
    ) -> Float[Array, "d l"]:
        """Return a block of independent standard normal numbers."""
        rng = check_random_state(federation.seed(self.random_state))
        return rng.standard_normal((rows, columns))


def wanted_components(n_components: Any, p: int) -> Wanted:
    """Return `n_components` as a number, a share of variance, or None for all."""
    k = n_components
    if k is None:
        return None
    if isinstance(k, int | np.integer) and not isinstance(k, bool) and 1 <= k <= p:
        return int(k)
    if isinstance(k, float | np.floating) and 0 < k < 1:
        return float(k)
    rules = ", ".join(f'"{rule}"' for rule in RULES)
    raise DataError(
        f"n_components={k!r} must be None, a share strictly between 0 and 1, a rule "
        f"({rules}), or a whole number from 1 to the {p} features."
    )


def check_rows_suffice(wanted: Wanted, N: int, p: int) -> None:
    """Refuse more components than there are rows or columns."""
    if wanted is not None and wanted > min(N, p):
        most = f"min(n_samples, n_features)={min(N, p)}"
        raise DataError(f"n_components={wanted} must be between 1 and {most}.")


def check_is_number(wanted: Wanted, svd_solver: str, most: int) -> int:
    """Return the number of components; refuse a share of variance, and all."""
    if not isinstance(wanted, int):
        raise DataError(
            f'n_components={wanted!r}: svd_solver="{svd_solver}" finds a number of '
            f"components; give a whole number from 1 to {most}."
        )
    return wanted


def components_for_share(
    variance: Float[Array, " l"], total: float, share: float, most: int
) -> int:
    """Return how many components reach a cumulative share of the total variance."""
    # Beside the same total as `explained_variance_ratio_`, so that asking for a sum of
    # those gives the number of components that it was added from.
    cumulative = np.cumsum(variance / (total or 1.0))
    return min(int(np.searchsorted(cumulative, share, side="right")) + 1, most)


def leading_components(
    S: Float[Array, "p p"],
    wanted: Wanted,
    most: int,
    total: float,
    spare: Callable[[int, int], int] = lambda p, k: 0,
) -> tuple[int, Float[Array, " l"], Float[Array, "p m"]]:
    """Return k, at least k eigenvalues of S, all p where that is as cheap, and vectors.

    Parameters
    ----------
    S : (p, p) array
        A scatter.
    wanted : int, float or None
        Number of components, share of variance, or all.
    most : int
        How many components there are.
    total : float
        The trace of S.
    spare : callable, optional
        Takes p and k, and returns how many eigenvectors are needed beyond k; none when
        omitted. One eigenvalue more than vectors is found, where there is one.
    """
    p = len(S)
    if isinstance(wanted, int):
        n_vectors = wanted + spare(p, wanted)
        n_values = min(n_vectors + (n_vectors > wanted), p) if p > ALL_PAIRS else p
        values, vectors = leading_eigenpairs(S, n_values, n_vectors)
        return wanted, values, vectors

    def count(values: Float[Array, " p"]) -> int:
        if wanted is None:
            return most
        return components_for_share(values, total, wanted, most)

    def with_spare(values: Float[Array, " p"]) -> int:
        k = count(values)
        return k + spare(p, k)

    values, vectors = leading_eigenpairs(S, p, with_spare)
    return count(values), values, vectors


def mean_of_rest(rest: float, others: int) -> float:
    """Return the mean variance of the directions that are not kept."""
    return max(rest, 0.0) / others if others else 0.0


def whitening(variance: Float[Array, " k"]) -> Float[Array, " k"]:
    """Return the standard deviations by which whitened scores are divided."""
    # A direction without variance is left at 0 rather than divided by it.
    return np.maximum(np.sqrt(variance), np.finfo(float).eps)


def runs_of(near: Bool[Array, " l"]) -> tuple[Array, Array]:
    """Return the first and last component of the run that each of l + 1 lies in.

    Parameters
    ----------
    near : (l,) array of bool
        Whether each component and the next one are of one run.
    """
    run = np.concatenate([[0], np.cumsum(~near)])
    first = np.searchsorted(run, run, side="left")
    return first, np.searchsorted(run, run, side="right") - 1

"""What solvers of PCA have in common: how many components, by which solver, and what.

model, federation ── chosen_solver ──> "covariance_eigh", "krylov", ...
a solver          ── Spectrum: mean, variances, axes, and what is left over
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.linalg.eigen import leading_eigenpairs
from unpooled.linalg.krylov import RitzPairs, block_width

Wanted = int | float | None

# Up to this size all eigenvalues cost no more than a few.
_SMALL = 256
# A scatter above this, at every end of the federation, is worth some more rounds.
_LARGE_BYTES = 10**8
# What block Krylov usually takes, generously.
_USUAL_ROUNDS = 15


@final
@dataclass(frozen=True, eq=False)
class Spectrum:
    """What a solver found.

    Attributes
    ----------
    N : int
        Rows of all silos.
    mean : (p,) array or None
        Their mean; None where silos keep the means of their own columns.
    variance : (k,) array or None
        Of the kept components, in descending order, with denominator N - 1; None where
        silos keep that too.
    axes : (p, k) array or None
        Orthonormal columns, largest entry positive; None where silos keep loadings.
    total : float
        Variance of all columns together.
    noise : float
        Mean variance of the directions that are not kept.
    certificate : RitzPairs, optional
        Of a solver that iterates: residuals and gap, of the scatter.
    told : mapping of str to value
        What else the model tells, by the names of its attributes.
    in_silos : int
        How many components silos keep wholly to themselves.
    """

    N: int
    mean: Float[Array, " p"] | None = None
    variance: Float[Array, " k"] | None = None
    axes: Float[Array, "p k"] | None = None
    total: float = 0.0
    noise: float = 0.0
    certificate: RitzPairs | None = None
    told: Mapping[str, Any] = field(default_factory=dict)
    in_silos: int = 0


def wanted_components(n_components: Any, p: int) -> Wanted:
    """Return `n_components` as a number, a share of variance, or None for all."""
    k = n_components
    if k is None:
        return None
    if isinstance(k, int | np.integer) and not isinstance(k, bool) and 1 <= k <= p:
        return int(k)
    if isinstance(k, float | np.floating) and 0 < k < 1:
        return float(k)
    raise DataError(
        f"n_components={k!r} must be None, a share strictly between 0 and 1, or a "
        f"whole number from 1 to the {p} features."
    )


def check_rows_suffice(wanted: Wanted, N: int, p: int) -> None:
    """Refuse more components than there are rows or columns."""
    if wanted is not None and wanted > min(N, p):
        most = f"min(n_samples, n_features)={min(N, p)}"
        raise DataError(f"n_components={wanted} must be between 1 and {most}.")


def chosen_solver(svd_solver: str, wanted: Wanted, federation: Federation) -> str:
    """Return what "auto" stands for on a row partition, and tell a plan why.

    The scatter takes p (p + 1) / 2 numbers from each silo and p² in every memory, once;
    block Krylov takes a few columns of it, several times.
    """
    if svd_solver != "auto":
        return svd_solver
    p = federation.n_features
    scatter = 8 * (p * (p + 1) // 2)
    if scatter <= _LARGE_BYTES or not isinstance(wanted, int):
        return "covariance_eigh"
    block = 8 * p * block_width(p, wanted)
    if _USUAL_ROUNDS * block >= scatter:
        return "covariance_eigh"
    federation.coordinator.notes.append(
        f"PCA chose the solver krylov: a scatter of {p:,} columns would be "
        f"{scatter / 1e6:,.0f} MB from each silo, and {8 * p * p / 1e6:,.0f} MB in the "
        f"memory of all; instead each sends {block / 1e6:,.1f} MB a round, usually 6 "
        f"to {_USUAL_ROUNDS} times. The rounds planned are the most there can be."
    )
    return "krylov"


def leading(
    C: Float[Array, "p p"], wanted: Wanted, most: int, total: float
) -> tuple[int, Float[Array, " l"], Float[Array, "p l"]]:
    """Return k and at least k eigenpairs; all p where that is as cheap."""
    p = len(C)
    if isinstance(wanted, int):
        return wanted, *leading_eigenpairs(C, wanted if p > _SMALL else p)
    variance, axes = leading_eigenpairs(C, p)
    if wanted is None:
        return most, variance, axes
    # Of the same total as `explained_variance_ratio_`, so that asking for a sum of
    # those gives the number of components that follows from them.
    share = np.cumsum(variance / (total or 1.0))
    k = int(np.searchsorted(share, wanted, side="right")) + 1
    return min(k, most), variance, axes


def whitening(variance: Float[Array, " k"]) -> Float[Array, " k"]:
    """Return what coordinates are divided by to have unit variance."""
    # A direction without variance is left at 0 rather than divided by it.
    return np.maximum(np.sqrt(variance), np.finfo(float).eps)


def spectrum_of(
    S: Float[Array, "p p"], N: int, mean: Float[Array, " p"], wanted: Wanted
) -> Spectrum:
    """Return the leading components of a scatter, which is overwritten."""
    p = len(S)
    S /= N - 1
    total = float(S.trace())
    k, variance, axes = leading(S, wanted, min(N, p), total)
    noise = 0.0
    if k < min(N, p):
        rest = variance[k:] if len(variance) == p else total - variance.sum()
        noise = max(float(rest.sum()), 0.0) / (p - k)
    return Spectrum(N, mean, variance[:k].copy(), axes[:, :k], total, noise)

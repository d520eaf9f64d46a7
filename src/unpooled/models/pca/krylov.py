"""Principal components of many columns: block Krylov by secure sums.

    round 1    silos ── N, column sums ──────────────────────────────────> mean
    round 2    silos <── mean ── silos ── sums of squares about it ──────> squares
    round 3 …  silos <── V ── each applies its own scatter about the mean,
               silos ── X_cᵀ (X_c V), in units of a bound from squares ──> S V

Nobody forms the p × p scatter S. The block V has a few columns more than there are
components wanted, so a round costs about 8 p (k + 4) bytes. Each block is the part of
the last image that is orthogonal to all earlier blocks (`unpooled.linalg.krylov`).
Usually 6 to 15 rounds are enough. The result is certified by its residuals beside the
gap between eigenvalues k and k + 1.

References
----------
Pooled Covariance PCA (P-COV) for Distributed/Federated Learning, section 4, for the
scatter; `unpooled.linalg.krylov` for the iteration.
"""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from unpooled.arrays import Array, Float
from unpooled.federation.federation import Federation
from unpooled.linalg.centred_products import far_columns, scatter_image
from unpooled.linalg.eigen import with_positive_peaks
from unpooled.linalg.krylov import block_width, leading_ritz_pairs
from unpooled.linalg.moments import Rows, squared_deviations
from unpooled.linalg.ritz import RitzPairs
from unpooled.models.moments import MEAN, SQUARES, pooled_mean
from unpooled.models.pca.spectrum import (
    Iteration,
    Spectrum,
    Wanted,
    check_is_number,
    check_rows_suffice,
    mean_of_rest,
)
from unpooled.protocol.bounds import CauchySchwarzImage
from unpooled.protocol.step import public, release, summed

# A scatter of more bytes, at every end of the federation, is worth some more rounds.
_LARGE_BYTES = 10**8
# The usual number of rounds of block Krylov, generously.
_USUAL_ROUNDS = 15


@summed(
    within_silos=True,
    sparse=True,
    takes={"mean": MEAN},
    squares=release("p", meaning=SQUARES),
)
def local_spread(X: Rows, *, mean: Float[Array, " p"]) -> dict[str, Any]:
    """Return this silo's sums of squares about the mean of all rows."""
    return {"squares": squared_deviations(X, mean)}


@summed(
    within_silos=True,
    sparse=True,
    takes={
        "mean": MEAN,
        "squares": public("p", SQUARES),
        "V": public(
            "p l", "a block of weights of columns, by which the next product is taken"
        ),
    },
    image=release(
        "p l",
        bound=CauchySchwarzImage("squares", "V"),
        meaning="cross-products of each column with public combinations of all columns",
    ),
)
def local_image(
    X: Rows,
    *,
    mean: Float[Array, " p"],
    squares: Float[Array, " p"],
    V: Float[Array, "p l"],
    N: int,
) -> dict[str, Any]:
    """Apply this silo's scatter about the mean of all rows to a public block."""
    return {"image": scatter_image(X, mean, V, far_columns(mean, squares, N))}


def block_krylov(
    federation: Federation, wanted: Wanted, iteration: Iteration
) -> Spectrum:
    """Return the leading components, from products of the scatter with blocks.

    Parameters
    ----------
    federation : Federation
        Rows without missing cells.
    wanted : int
        Number of components; anything else is refused.
    iteration : Iteration
        Where to start and when to stop.

    Raises
    ------
    ConvergenceError
        When `max_iter` rounds were not enough.
    """
    p = federation.n_features
    k = check_is_number(wanted, "krylov", p)
    N, mean = pooled_mean(federation)
    check_rows_suffice(k, N, p)
    squares = federation.sum(local_spread, mean=mean)["squares"]

    def applied(V: Float[Array, "p l"]) -> Float[Array, "p l"]:
        totals = federation.sum(local_image, mean=mean, squares=squares, V=V, N=N)
        return totals["image"]

    start = iteration.starting_block(federation, p, block_width(p, k))
    pairs = iterated(federation, applied, start, k, iteration)
    variance = np.maximum(pairs.values, 0.0) / (N - 1)
    total = float(squares.sum()) / (N - 1)
    return Spectrum(
        N=N,
        mean=mean,
        variance=variance,
        axes=with_positive_peaks(pairs.vectors),
        total=total,
        noise=mean_of_rest(total - float(variance.sum()), min(N, p) - k),
        certificate=pairs,
        attributes={"feature_variance_": squares / (N - 1)},
    )


def iterated(
    federation: Federation,
    applied: Callable[[Float[Array, "d l"]], Float[Array, "d l"]],
    start: Float[Array, "d l"],
    k: int,
    iteration: Iteration,
) -> RitzPairs:
    """Return the k leading eigenpairs of an operator; one round for each application.

    Parameters
    ----------
    federation : Federation
        Over which `applied` sums.
    applied : callable
        Returns the operator's product with a block.
    start : (d, l) array
        The first block.
    k : int
        Number of eigenpairs.
    iteration : Iteration
        When to stop.
    """
    if federation.coordinator.planned:
        # The number of rounds depends on the data; a plan lists the most there can be.
        for _ in range(iteration.max_iter):
            applied(start)
        zeros = np.zeros(k)
        vectors = np.eye(len(start), k)
        return RitzPairs(zeros, vectors, zeros, 1.0, 0.0, iteration.max_iter)
    pairs = leading_ritz_pairs(
        applied, start, k, tol=iteration.tol, max_iter=iteration.max_iter
    )
    if not pairs.is_certified(iteration.tol):
        warnings.warn(_close_values(pairs, k), ConvergenceWarning, stacklevel=3)
    return pairs


def is_cheaper(wanted: Wanted, federation: Federation) -> bool:
    """Return whether block Krylov costs less than a scatter; a plan gets the reason.

    The scatter takes p (p + 1) / 2 numbers from each silo and p² in every memory, once;
    block Krylov takes a few columns of it, several times.
    """
    p = federation.n_features
    scatter = 8 * (p * (p + 1) // 2)
    if scatter <= _LARGE_BYTES or not isinstance(wanted, int):
        return False
    block = 8 * p * block_width(p, wanted)
    if _USUAL_ROUNDS * block >= scatter:
        return False
    federation.coordinator.notes.append(
        f"PCA chose the solver krylov: a scatter of {p:,} columns would be "
        f"{scatter / 1e6:,.0f} MB from each silo, and {8 * p * p / 1e6:,.0f} MB in the "
        f"memory of all; instead each sends {block / 1e6:,.1f} MB a round, usually 6 "
        f"to {_USUAL_ROUNDS} times. The rounds planned are the most there can be."
    )
    return True


def _close_values(pairs: RitzPairs, k: int) -> str:
    """Return the warning that eigenvalues k and k + 1 do not determine the span."""
    consequence = (
        f"determine the first {k} components only to an angle of {pairs.angle:.0e}"
        if pairs.angle < 1
        else f"leave the first {k} components undefined"
    )
    return (
        f"Eigenvalues {k} and {k + 1} lie so close together that float64 numbers "
        f"{consequence}. The variances are right, and every component is one of some "
        f"solution; choose n_components at a larger gap for a stable one."
    )

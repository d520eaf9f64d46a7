"""Components from fewer bytes: a scatter rounded to few bits, or of low rank.

    rounds 1, 2   as in `unpooled.models.moments`: N, mean, squares about it
    bits=b        silos ── the triangle in units of sqrt(squares_j squares_k), each
                  rounded at random to b bits, summed in a ring of b bits ──> S~
    rank=r        silos ── r directions of the silo's own scatter, in clear ─> S~
    last round    silos <── V, more directions of S~ than are wanted
                  silos ── Vᵀ S V, of the scatter that each kept ───────────> exact

Rounding is unbiased, with a variance of m / 12 codes squared, a code being 2/2ᵇ of the
bound. It turns components whose variances are close into each other; the last
round, a few kilobytes, turns them back: within V the totals are exact (Rayleigh-Ritz).

References
----------
Pooled Covariance PCA (P-COV) for Distributed/Federated Learning, section 6.3. There a
silo's whole covariance is rounded and sent in clear; here a triangle, under masks.
"""

from typing import Any

import numpy as np
import scipy.linalg

from unpooled.arrays import Array, Float
from unpooled.errors import DataError
from unpooled.federation.base import Federation
from unpooled.linalg.eigen import leading_eigenpairs, with_positive_peaks
from unpooled.party.bounds import CauchySchwarz, Trace
from unpooled.party.step import Step, disclosed, release, summed

# More directions than are wanted, so that what rounding mixed is among them.
_MORE = 32


@summed(
    takes={"squares": "p"},
    scatter=release(
        "p p",
        symmetric=True,
        bound=CauchySchwarz("squares"),
        bits="bits",
        meaning="products of every two columns' distances from their means, rounded "
        "to few digits and added",
    ),
)
def local_rounded(
    kept: Any, *, squares: Float[Array, " p"], bits: int
) -> dict[str, Any]:
    """Release the scatter that was kept, in `bits` bits a number."""
    return {"scatter": kept.triangle("scatter")}


@disclosed(
    by="party",
    takes={"rank": "size q"},
    # The second axis is named as features are: what tells a covariance counts as pairs
    # of features to the silo's rules.
    factor=release(
        "p q",
        meaning="the directions in which the silo's own rows vary most, and how much",
    ),
)
def local_factor(kept: Any, *, rank: int) -> dict[str, Any]:
    """Show F with ``F Fᵀ`` the best approximation, of rank `rank`, of the scatter."""
    values, vectors = leading_eigenpairs(kept["scatter"], rank)
    return {"factor": vectors * np.sqrt(values)}


@summed(
    takes={"directions": "p l", "squares": "p"},
    projected=release(
        "l l",
        symmetric=True,
        bound=Trace("squares"),
        meaning="how rows vary along directions found from the rounded totals, added",
    ),
)
def local_projected(
    kept: Any, *, directions: Float[Array, "p l"], squares: Float[Array, " p"]
) -> dict[str, Any]:
    """Release the scatter that was kept along orthonormal directions."""
    return {"projected": directions.T @ kept["scatter"] @ directions}


def check_compression(bits: Any, rank: Any, k: Any, p: int) -> None:
    """Refuse ways for a scatter to travel that are unknown, or two at a time."""
    if type(bits) is not int or bits not in (8, 16, 32, 64):
        raise DataError(f"bits={bits!r}; choose 8, 16, 32 or 64.")
    if rank is None:
        return
    if type(rank) is not int or not 1 <= rank <= p:
        raise DataError(f"rank={rank!r} must be None or a whole number from 1 to {p}.")
    if bits != 64:
        raise DataError("Choose bits or rank: what has low rank travels in 64 bits.")
    if not isinstance(k, int | np.integer) or k > rank:
        raise DataError(
            f"n_components={k!r} with rank={rank}: ask for a whole number of "
            f"components, at most the rank."
        )


def low_rank_scatter(
    federation: Federation, squares: Float[Array, " p"], factor: Step, rank: int
) -> Float[Array, "p p"]:
    """Return the sum of the silos' scatters, each cut to a rank but its diagonal."""
    S = np.zeros((len(squares), len(squares)))
    for shown in federation.collect(factor, rank=rank).values():
        S += shown["factor"] @ shown["factor"].T
    np.fill_diagonal(S, squares)
    return S


def rounded_scatter(
    federation: Federation, squares: Float[Array, " p"], rounded: Step, bits: int
) -> Float[Array, "p p"]:
    """Return the scatter about the mean of all rows, rounded but for its diagonal."""
    S = federation.sum(rounded, squares=squares, bits=bits)["scatter"]
    np.fill_diagonal(S, squares)
    return S


def ritz_pairs(
    federation: Federation,
    S: Float[Array, "p p"],
    squares: Float[Array, " p"],
    projected: Step,
    k: int,
) -> tuple[Float[Array, " l"], Float[Array, "p l"]]:
    """Return at least k eigenpairs of the exact scatter within a space found from `S`.

    Parameters
    ----------
    federation : Federation
        Whose silos kept their scatters.
    S : (p, p) array
        The approximate scatter, which may have negative eigenvalues.
    squares : (p,) array
        The diagonal of the exact one.
    projected : Step
        `local_projected` under the model's name.
    k : int
        How many pairs are wanted.
    """
    p = len(S)
    more = min(p, k + max(k // 2, _MORE))
    V = scipy.linalg.eigh(S, subset_by_index=[p - more, p - 1])[1][:, ::-1]
    V = np.ascontiguousarray(V)
    G = federation.sum(projected, directions=V, squares=squares)["projected"]
    values, turn = leading_eigenpairs(G, more)
    return values, with_positive_peaks(V @ turn)

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
from unpooled.federation.federation import Federation
from unpooled.linalg.eigen import leading_eigenpairs, with_positive_peaks
from unpooled.models.moments import local_squares, pooled_mean
from unpooled.models.pca.spectrum import Spectrum, Wanted, check_rows_suffice, leading
from unpooled.protocol.bounds import CauchySchwarz, Trace
from unpooled.protocol.step import (
    LIBRARY,
    adopted,
    disclosed,
    public,
    release,
    summed,
)

# More directions than are wanted, so that what rounding mixed is among them.
_MORE = 32


@summed(
    takes={
        "squares": public("p", "each column's squared deviations from its mean, added")
    },
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
    takes={
        "directions": public(
            "p l", "directions found from the rounded cross-product matrix"
        ),
        "squares": public("p", "each column's squared deviations from its mean, added"),
    },
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


def check_compression(model: Any) -> None:
    """Refuse ways for a scatter to travel that are unknown, or two at a time."""
    bits, rank, k = model.bits, model.rank, model.n_components
    if type(bits) is not int or bits not in (8, 16, 32, 64):
        raise DataError(f"bits={bits!r}; choose 8, 16, 32 or 64.")
    if bits == 64 and rank is None:
        return
    if model.privacy is not None:
        raise DataError(
            "Choose privacy, bits or rank: noise is added to whole numbers of 64 bits."
        )
    if model.svd_solver not in ("auto", "covariance_eigh"):
        raise DataError(
            f"bits={bits} and rank={rank} are of a scatter, which svd_solver="
            f'"{model.svd_solver}" never forms; leave it "auto".'
        )
    if rank is None:
        return
    if type(rank) is not int or rank < 1:
        raise DataError(f"rank={rank!r} must be None or a whole number from 1.")
    if bits != 64:
        raise DataError("Choose bits or rank: what has low rank travels in 64 bits.")
    if not isinstance(k, int | np.integer) or k > rank:
        raise DataError(
            f"n_components={k!r} with rank={rank}: ask for a whole number of "
            f"components, at most the rank."
        )


# `unpooled.models.pca.pca` has them too, where silos look them up.
pca_rounded, pca_factor, pca_projected = adopted(
    f"{LIBRARY}pca", local_rounded, local_factor, local_projected
)


def compressed(model: Any, federation: Federation, wanted: Wanted) -> Spectrum:
    """Solve a scatter that travelled in few bytes; four rounds."""
    p = federation.n_features
    if model.rank is not None and model.rank > p:
        raise DataError(f"rank={model.rank}, but there are {p} columns.")
    N, mean = pooled_mean(federation)
    check_rows_suffice(wanted, N, p)
    squares = federation.sum(local_squares, mean=mean)["squares"]
    if model.rank is not None:
        S = _low_rank_scatter(federation, p, model.rank)
    else:
        bits = {"squares": squares, "bits": model.bits}
        S = federation.sum(pca_rounded, **bits)["scatter"]
    # Known to all its digits.
    np.fill_diagonal(S, squares)
    total = float(squares.sum())
    k = leading(S, wanted, min(N, p), total)[0]
    variance, axes = _ritz_pairs(federation, S, squares, k)
    noise = 0.0
    if k < min(N, p):
        noise = max(total - float(variance[:k].sum()), 0.0) / (N - 1) / (p - k)
    return Spectrum(
        N, mean, variance[:k] / (N - 1), axes[:, :k], total / (N - 1), noise
    )


def _low_rank_scatter(federation: Federation, p: int, rank: int) -> Float[Array, "p p"]:
    S = np.zeros((p, p))
    for shown in federation.collect(pca_factor, rank=rank).values():
        S += shown["factor"] @ shown["factor"].T
    return S


def _ritz_pairs(
    federation: Federation, S: Float[Array, "p p"], squares: Float[Array, " p"], k: int
) -> tuple[Float[Array, " l"], Float[Array, "p l"]]:
    """Return eigenpairs of the exact scatter within a space found from `S`.

    `S` may have negative eigenvalues, for it was rounded.
    """
    p = len(S)
    more = min(p, k + max(k // 2, _MORE))
    V = scipy.linalg.eigh(S, subset_by_index=[p - more, p - 1])[1][:, ::-1]
    V = np.ascontiguousarray(V)
    G = federation.sum(pca_projected, directions=V, squares=squares)["projected"]
    values, turn = leading_eigenpairs(G, more)
    return values, with_positive_peaks(V @ turn)

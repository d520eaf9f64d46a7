"""Components from fewer bytes: a scatter rounded to few bits, or of low rank.

    rounds 1, 2   as in `unpooled.models.moments`: N, mean, sums of squares about it
    bits=b        silos ── the triangle in units of sqrt(squares_j squares_k), each
                  rounded at random to b bits, summed in a ring of b bits ──> S~
    rank=r        silos ── r directions of the silo's own scatter, in clear ─> S~
    last round    silos <── V, more directions of S~ than are wanted
                  silos ── Vᵀ S V, of the scatter that each kept ───────────> exact

Rounding is unbiased, with a variance of m / 12 codes squared, a code being 2/2ᵇ of the
bound. It rotates components of close variances into each other. The last round, a few
kilobytes, rotates them back: within V the totals are exact (Rayleigh-Ritz).

References
----------
Pooled Covariance PCA (P-COV) for Distributed/Federated Learning, section 6.3. There a
silo's whole covariance is rounded and sent in clear; here a triangle, under masks.
"""

from typing import Any

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.linalg.eigen import (
    leading_eigenpairs,
    symmetric_eigenpairs,
    with_positive_peaks,
)
from unpooled.linalg.settled import product
from unpooled.models.moments import SQUARES, local_squares, pooled_mean
from unpooled.models.parameter_checks import check_choice, whole_number
from unpooled.models.pca.spectrum import (
    Spectrum,
    Wanted,
    check_rows_suffice,
    leading_components,
    mean_of_rest,
)
from unpooled.protocol.bounds import CauchySchwarz, Trace
from unpooled.protocol.step import disclosed, public, release, summed

# Directions beyond those wanted, so that their span holds what rounding mixed.
_MORE = 32


@summed(
    within_silos=True,
    takes={"squares": public("p", SQUARES)},
    scatter=release(
        "p p",
        symmetric=True,
        bound=CauchySchwarz("squares"),
        bits="bits",
        meaning="cross-product matrix (products of every two columns' deviations from "
        "their means), rounded to few digits and added",
    ),
)
def local_rounded(
    kept: Any, *, squares: Float[Array, " p"], bits: int
) -> dict[str, Any]:
    """Release the kept scatter, in `bits` bits a number."""
    return {"scatter": kept.triangle("scatter")}


@disclosed(
    by="party",
    takes={"rank": "size q"},
    # The second axis is named as features are, so that the silo's rules count it as
    # pairs of features: the factor determines a covariance.
    factor=release(
        "p q",
        meaning="the directions in which the silo's own rows vary most, scaled by "
        "how much they do",
    ),
)
def local_factor(kept: Any, *, rank: int) -> dict[str, Any]:
    """Disclose F, with ``F Fᵀ`` the best approximation of the scatter of that rank."""
    values, vectors = leading_eigenpairs(kept["scatter"], rank)
    return {"factor": vectors * np.sqrt(values)}


@summed(
    within_silos=True,
    takes={
        "directions": public(
            "p l", "directions found from the rounded cross-product matrix"
        ),
        "squares": public("p", SQUARES),
    },
    projected=release(
        "l l",
        symmetric=True,
        bound=Trace("squares"),
        meaning="cross-product matrix (products of every two coordinates, added over "
        "all rows) along directions found from the rounded totals",
    ),
)
def local_projected(
    kept: Any, *, directions: Float[Array, "p l"], squares: Float[Array, " p"]
) -> dict[str, Any]:
    """Release the kept scatter within the span of orthonormal directions."""
    return {"projected": directions.T @ kept["scatter"] @ directions}


def check_compression(
    bits: int,
    rank: int | None,
    *,
    n_components: Any,
    privacy: Any,
    svd_solver: str,
) -> None:
    """Refuse `bits` and `rank` that are unknown, or do not go together."""
    check_choice("bits", bits, (8, 16, 32, 64))
    whole_number("bits", bits)
    if bits == 64 and rank is None:
        return
    if privacy is not None:
        raise DataError(
            "Choose privacy, bits or rank: noise is added to whole numbers of 64 bits."
        )
    if svd_solver not in ("auto", "covariance_eigh"):
        raise DataError(
            f"bits={bits} and rank={rank} are of a scatter, which svd_solver="
            f'"{svd_solver}" never forms; leave it "auto".'
        )
    if rank is None:
        return
    whole_number("rank", rank, why=", or None")
    if bits != 64:
        raise DataError("Choose bits or rank: what has low rank travels in 64 bits.")
    if not isinstance(n_components, int | np.integer) or n_components > rank:
        raise DataError(
            f"n_components={n_components!r} with rank={rank}: ask for a whole number "
            f"of components, at most the rank."
        )


def compressed(
    federation: Federation, wanted: Wanted, *, bits: int, rank: int | None
) -> Spectrum:
    """Return the components of a scatter that was sent in few bytes; four rounds."""
    p = federation.n_features
    if rank is not None and rank > p:
        raise DataError(f"rank={rank}, but there are {p} columns.")
    N, mean = pooled_mean(federation)
    check_rows_suffice(wanted, N, p)
    squares = federation.sum(local_squares, mean=mean)["squares"]
    if rank is None:
        S = federation.sum(local_rounded, squares=squares, bits=bits)["scatter"]
    else:
        S = np.zeros((p, p))
        for silo in federation.collect(local_factor, rank=rank).values():
            S += product(silo["factor"], silo["factor"].T)
    # The diagonal is known exactly.
    np.fill_diagonal(S, squares)
    total = float(squares.sum())
    k = wanted
    if not isinstance(k, int):
        k = leading_components(S, wanted, min(N, p), total)[0]
    values, V = _ritz_pairs(federation, S, squares, k)
    rest = (total - float(values[:k].sum())) / (N - 1)
    return Spectrum(
        N=N,
        mean=mean,
        variance=values[:k] / (N - 1),
        axes=V[:, :k],
        total=total / (N - 1),
        noise=mean_of_rest(rest, p - k) if k < min(N, p) else 0.0,
        attributes={"feature_variance_": squares / (N - 1)},
    )


def _ritz_pairs(
    federation: Federation, S: Float[Array, "p p"], squares: Float[Array, " p"], k: int
) -> tuple[Float[Array, " l"], Float[Array, "p k"]]:
    """Return eigenvalues and k eigenvectors of the exact scatter on leading directions.

    Those directions are the ones of S, which may have negative eigenvalues, because
    it was rounded.
    """
    p = len(S)
    more = min(p, k + max(k // 2, _MORE))
    V = symmetric_eigenpairs(S, more)[1]
    G = federation.sum(local_projected, directions=V, squares=squares)["projected"]
    values, turn = leading_eigenpairs(G, more, k)
    return values, with_positive_peaks(product(V, turn[:, :k]))

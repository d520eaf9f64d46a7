"""A silo's own kernel direction, as VFedAKPCA computes it, and scores by kernels."""

from typing import Any

import numpy as np
import scipy.linalg

from unpooled.arrays import Array, Float
from unpooled.errors import DataError
from unpooled.linalg.own_kernel import centred_kernel
from unpooled.models.vertical_pca import neighbour_merge as neighbours
from unpooled.models.vertical_pca.local_direction import (
    own_factors,
    prepared,
    with_positive_peaks,
)
from unpooled.protocol.step import exchanged, kept, public, release, stays, summed

_VECTOR = "the first kernel direction of the silo's own columns"


@kept(
    by="party",
    takes={
        "replaced": public(
            "N l", "the merged direction, which replaces the silo's columns"
        ),
        "found": public(
            "N q", "the directions over people that earlier components found"
        ),
    },
    vector=stays("N", meaning=_VECTOR, until="fit"),
    eigenvalue=stays("", meaning="how much of them it explains", until="fit"),
)
def local_kernel_direction(
    X: Float[Array, "N p"],
    *,
    replaced: Float[Array, "N l"],
    found: Float[Array, "N q"],
    kernel: str,
    gamma: float | None,
    coef0: float,
    centre: str,
) -> dict[str, Any]:
    """Return the top eigenpair of this silo's own centred kernel matrix.

    `replaced` is nothing in the first round, then the vector that the data were
    replaced by; `found` are the components so far, which are taken out of the matrix.
    """
    X = prepared(X, centre)
    if replaced.shape[1]:
        F, B, _ = own_factors(X, replaced, found[:, :0], "none")
        X = F @ B
    K = centred_kernel(X, kernel, gamma, coef0)
    for u in found.T:
        image = K @ u
        # P K P with P = I - u uᵀ, without forming P.
        K = K - np.outer(u, image) - np.outer(image, u) + (u @ image) * np.outer(u, u)
    last = len(K) - 1
    values, vectors = scipy.linalg.eigh(K, subset_by_index=[last, last])
    if not values[0] > 0.0:
        raise DataError("The kernel matrix is zero.", rule="no_variance")
    return {
        "vector": with_positive_peaks(vectors)[:, 0],
        "eigenvalue": np.array(values[0]),
    }


@exchanged(
    by="party",
    vector=release("N", meaning=_VECTOR),
    eigenvalue=release("", meaning="how much of them it explains"),
)
def neighbour_kernel_direction(
    X: Float[Array, "N p"],
    kept: Any,
    *,
    component: int,
    number: int,
    rounds: int,
    kernel: str,
    gamma: float | None,
    coef0: float,
    centre: str,
) -> dict[str, Any]:
    """Return the top eigenpair, by what this silo merged; tell its neighbours."""
    _, replaced, found = neighbours.state(kept, component, number, rounds, len(X))
    how = {"kernel": kernel, "gamma": gamma, "coef0": coef0, "centre": centre}
    return local_kernel_direction(X, replaced=replaced, found=found, **how)


@summed(
    by="party",
    takes={"U": public("N k", "directions over people, found from earlier totals")},
    scores=release("N k", meaning="each person's coordinates along the directions"),
)
def local_kernel_scores(
    X: Float[Array, "N p"],
    *,
    U: Float[Array, "N k"],
    kernel: str,
    gamma: float | None,
    coef0: float,
    centre: str,
) -> dict[str, Any]:
    """Apply this silo's own centred kernel matrix to the directions."""
    K = centred_kernel(prepared(X, centre), kernel, gamma, coef0)
    return {"scores": K @ U}


STEPS = (local_kernel_direction, neighbour_kernel_direction, local_kernel_scores)

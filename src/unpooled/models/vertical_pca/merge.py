"""The weighted sum of the silos' own directions, as VFedPCA merges them.

    u = Σ w_i a_i,   w_i = α_i / Σ α  (13),  or 1 / m  ("equal")

    by default      two secure sums, Σ α_i a_i and Σ α_i: no silo's own is seen
    weight scaling  (15) the α_i are disclosed; then the sum of the rescaled α_i a_i
    aligned signs   the a_i and α_i are disclosed, and merged at the coordinator

Each silo has kept its direction a_i over the N rows, and its eigenvalue α_i.

References
----------
Cheung, Jiang, Yu, Lou, Vertical Federated Principal Component Analysis and Its Kernel
Extension on Feature-wise Distributed Data, equations (13) and (15), Algorithm 4.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.federation.federation import Federation
from unpooled.protocol.step import disclosed, public, release, summed

_EIGENVALUE = "how much of the silo's own columns its vector explains"


@summed(
    by="party",
    vector=release(
        "N", meaning="the silo's first principal direction over the people, weighted"
    ),
    weight=release("", meaning="the weight of it"),
)
def local_weighted(kept: Any) -> dict[str, Any]:
    """Weight this silo's vector by its eigenvalue."""
    weight = kept["eigenvalue"]
    return {"vector": weight * kept["vector"], "weight": weight}


@summed(
    by="party",
    vector=release("N", meaning="the silo's first principal direction over the people"),
)
def local_unweighted(kept: Any) -> dict[str, Any]:
    """Return this silo's vector as it is."""
    return {"vector": kept["vector"]}


@disclosed(by="party", eigenvalue=release("", meaning=_EIGENVALUE))
def local_eigenvalue(kept: Any) -> dict[str, Any]:
    """Disclose this silo's eigenvalue."""
    return {"eigenvalue": kept["eigenvalue"]}


@summed(
    by="party",
    takes={
        "eigenvalues": public(
            "m", "the eigenvalue (variance explained) of each silo's direction"
        ),
        "weights": public("m", "the weight of each silo's direction"),
    },
    vector=release(
        "N", meaning="the silo's first principal direction over the people, weighted"
    ),
)
def local_scaled(
    kept: Any, *, eigenvalues: Float[Array, " m"], weights: Float[Array, " m"]
) -> dict[str, Any]:
    """Multiply this silo's vector by the weight of its eigenvalue."""
    # Silos of equal eigenvalues share their weights: only copies of a table tie.
    weight = weights[eigenvalues == kept["eigenvalue"]].mean()
    return {"vector": weight * kept["vector"]}


@disclosed(
    by="party",
    vector=release("N", meaning="the silo's first principal direction over the people"),
    eigenvalue=release("", meaning=_EIGENVALUE),
)
def local_pair(kept: Any) -> dict[str, Any]:
    """Disclose this silo's vector and eigenvalue."""
    return {"vector": kept["vector"], "eigenvalue": kept["eigenvalue"]}


def merged(
    federation: Federation, weights: str, *, scaling: bool, align_signs: bool
) -> tuple[Float[Array, " N"], Float[Array, " m"] | None]:
    """Return the merged direction u and the weights of the silos.

    The weights are None where they were added under masks, so that nobody knows them.
    """
    # Ties are broken by the order of the parties' names, which both ends have.
    order = sorted(federation.parties)
    if align_signs:
        pairs = federation.collect(local_pair)
        vectors = [pairs[party]["vector"] for party in order]
        eigenvalues = [float(pairs[party]["eigenvalue"]) for party in order]
        w = weights_of(eigenvalues, weights, scaling)
        return combined(vectors, eigenvalues, w, align_signs=True), w
    if scaling:
        shown = federation.collect(local_eigenvalue)
        eigenvalues = np.array([float(shown[party]["eigenvalue"]) for party in order])
        w = weights_of(eigenvalues, weights, scaling)
        total = federation.sum(local_scaled, eigenvalues=eigenvalues, weights=w)
        return total["vector"], w
    if weights == "equal":
        m = len(order)
        return federation.sum(local_unweighted)["vector"] / m, np.full(m, 1.0 / m)
    total = federation.sum(local_weighted)
    return total["vector"] / float(total["weight"]), None


def weights_of(
    eigenvalues: Sequence[float] | Float[Array, " m"], weights: str, scaling: bool
) -> Float[Array, " m"]:
    """Return the weights (13), which add up to 1; with `scaling` those of (15)."""
    values = np.asarray(eigenvalues, float)
    m = len(values)
    w = np.full(m, 1.0 / m) if weights == "equal" else values / values.sum()
    if scaling:
        # The larger half, rounded up, is multiplied by 1 + mean, the rest by 1 - mean.
        rank = np.empty(m, int)
        rank[np.argsort(-values, kind="stable")] = np.arange(m)
        w = w * np.where(rank < math.ceil(m / 2), 1.0 + w.mean(), 1.0 - w.mean())
    return w


def combined(
    vectors: Sequence[Float[Array, " N"]],
    eigenvalues: Sequence[float],
    weights: Float[Array, " m"],
    *,
    align_signs: bool,
) -> Float[Array, " N"]:
    """Return the weighted sum, with signs aligned to the vector of most variance."""
    leader = vectors[int(np.argmax(eigenvalues))]
    u = np.zeros_like(leader)
    for weight, a in zip(weights, vectors, strict=True):
        against = align_signs and np.add.reduce(a * leader) < 0
        u += weight * (-a if against else a)
    return u

"""Merging the silos' own vectors into one, as VFedPCA does, and who sees what of it.

    u = Σ w_i a_i,   w_i = α_i / Σ α  (13),  or 1 / m  ("equal")

    as it is        two secure sums, Σ α_i a_i and Σ α_i: no silo's own is seen
    weight scaling  (15) the α_i are disclosed; then the sum of scaled α_i a_i
    aligned signs   the a_i and α_i are disclosed, and merged at the coordinator

Every silo kept its vector a_i, over the N rows, and eigenvalue α_i before.

References
----------
Cheung, Jiang, Yu, Lou, Vertical Federated Principal Component Analysis and Its Kernel
Extension on Feature-wise Distributed Data, equations (13) and (15), Algorithm 4.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.federation.federation import Federation
from unpooled.protocol.step import Step, disclosed, public, release, summed

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
    """Weight this silo's vector by the weight that stands beside its eigenvalue."""
    # Silos of the same eigenvalue share their weights: only copies of one another tie.
    own = weights[eigenvalues == kept["eigenvalue"]].mean()
    return {"vector": own * kept["vector"]}


@disclosed(
    by="party",
    vector=release("N", meaning="the silo's first principal direction over the people"),
    eigenvalue=release("", meaning=_EIGENVALUE),
)
def local_pair(kept: Any) -> dict[str, Any]:
    """Disclose this silo's vector and eigenvalue."""
    return {"vector": kept["vector"], "eigenvalue": kept["eigenvalue"]}


class Steps(NamedTuple):
    """The steps above, under the name of the model that asks."""

    local_weighted: Step
    local_unweighted: Step
    local_eigenvalue: Step
    local_scaled: Step
    local_pair: Step


STEPS = Steps(
    local_weighted, local_unweighted, local_eigenvalue, local_scaled, local_pair
)


def merged(
    federation: Federation,
    steps: Steps,
    weights: str,
    *,
    scaling: bool,
    align_signs: bool,
) -> tuple[Float[Array, " N"], Float[Array, " m"] | None]:
    """Return u and the weights; None where secure sums left nobody knowing them."""
    # Ties are broken by the order of the parties' names, which all ends have.
    order = sorted(federation.parties)
    if align_signs:
        pairs = federation.collect(steps.local_pair)
        vectors = [pairs[party]["vector"] for party in order]
        eigenvalues = [float(pairs[party]["eigenvalue"]) for party in order]
        w = weights_of(eigenvalues, weights, scaling)
        return combined(vectors, eigenvalues, w, align_signs=True), w
    if scaling:
        told = federation.collect(steps.local_eigenvalue)
        eigenvalues = np.array([float(told[party]["eigenvalue"]) for party in order])
        w = weights_of(eigenvalues, weights, scaling)
        total = federation.sum(steps.local_scaled, eigenvalues=eigenvalues, weights=w)
        return total["vector"], w
    if weights == "equal":
        m = len(order)
        return federation.sum(steps.local_unweighted)["vector"] / m, np.full(m, 1.0 / m)
    total = federation.sum(steps.local_weighted)
    return total["vector"] / float(total["weight"]), None


def weights_of(
    eigenvalues: Sequence[float] | Float[Array, " m"], weights: str, scaling: bool
) -> Float[Array, " m"]:
    """Return the weights (13), adding to 1; with `scaling` those of (15)."""
    values = np.asarray(eigenvalues, float)
    m = len(values)
    w = np.full(m, 1.0 / m) if weights == "equal" else values / values.sum()
    if scaling:
        # The larger half, rounded up, gains what the mean weight is.
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
    """Return the weighted sum; signs agreed with the vector of most variance."""
    leader = vectors[int(np.argmax(eigenvalues))]
    u = np.zeros_like(leader)
    for weight, a in zip(weights, vectors, strict=True):
        u += weight * (-a if align_signs and a @ leader < 0 else a)
    return u

"""The solver of PCA on a column partition that needs no coordinator: "gossip".

    every silo   its own images  X_c (X_cᵀ V) of a block V, N × l, to its neighbours
    neighbours   mix what they hear, until all have the average: Σ_i X_i X_iᵀ V / m
    every silo   Rayleigh-Ritz on all blocks so far: are its components certain?
                 ── how many silos say yes ──> a masked sum, the coordinator's all
    one silo     in the middle of the graph makes the next block, which is passed on
    at the end   it passes on U and Σ²; each keeps its loadings X_cᵀ U / Σ, and scores

This is block Krylov, as in `unpooled.linalg.krylov`, with the sums of every round made
among neighbours (`unpooled.linalg.gossip`): exact averages in at most m - 1 messages to
each neighbour, not only in the limit, so that few blocks are enough, and convergence is
certified at every silo by residuals and the gap behind the components. Blocks are the
same numbers everywhere, because one silo makes them: m copies of a Krylov recurrence
would drift apart by their rounding. That silo sees no more than the others.

Neighbours see images of each other's columns as they are, and over several steps of
mixing, what lies further away can be solved for. As many images as a silo has columns
are its Gram matrix, so its rows up to a rotation: all silos must allow it.

References
----------
Ye and Zhang, DeEPCA: Decentralized exact PCA with linear convergence rate, JMLR 22
(2021), for the problem; its gradient tracking takes some hundred iterations where the
spectrum decays slowly.
"""

from typing import Any, NamedTuple

import numpy as np
import scipy.linalg

from unpooled.arrays import Array, Float
from unpooled.errors import DataError
from unpooled.linalg.centred_products import gram_image, products
from unpooled.linalg.eigen import with_positive_peaks
from unpooled.linalg.gossip import mixed
from unpooled.linalg.ritz import continuation, ritz_pairs
from unpooled.models.moments import finite_sums
from unpooled.protocol.step import (
    LIBRARY,
    Step,
    adopted,
    disclosed,
    exchanged,
    kept,
    release,
    stays,
    summed,
)

_IMAGE = "each person's products, by the silo's own columns, with mixtures of people"
_TELLS = "as many as it has columns are its rows, up to a rotation"
_BLOCK = "mixtures of people, made from earlier averages"
# Averages that are off by so much of the largest eigenvalue are none.
_DISAGREE = 1e-6


@kept(
    by="party",
    takes={"width": "size l"},
    mean=stays("p", meaning="the means of the silo's own columns"),
    block=stays("N l", meaning="random mixtures of people", until="fit"),
)
def gossip_begun(X: Float[Array, "N p"], *, seed: int, width: int) -> dict[str, Any]:
    """Take the means of the silo's own columns, and draw the first block."""
    # Drawn here, as every silo draws it: whoever asks could choose mixtures of one.
    start = np.random.RandomState(seed).standard_normal((len(X), width))
    block = scipy.linalg.qr(start, mode="economic")[0]
    return {"mean": finite_sums(X) / len(X), "block": block}


@exchanged(
    by="party",
    takes={"width": "size l"},
    image=release("N l", meaning=f"{_IMAGE}; {_TELLS}"),
    block=stays("N l", meaning=_BLOCK, until="fit"),
)
def gossip_image(
    X: Float[Array, "N p"], kept: Any, inbox: Any, *, width: int
) -> dict[str, Any]:
    """Apply the silo's own Gram matrix to the block that was passed on."""
    own, found = kept["block"], _passed(inbox, "block")
    block = own if found is None else found["block"]
    return {"image": gram_image(X, kept["mean"], block), "block": block}


@exchanged(
    by="party",
    takes={"width": "size l"},
    image=release("N l", meaning=f"{_IMAGE}, mixed with what its neighbours told"),
    before=stays("N l", meaning="the same before it was mixed", until="fit"),
)
def gossip_mixed(
    kept: Any, inbox: Any, *, width: int, momentum: float, rate: float
) -> dict[str, Any]:
    """Mix the silo's image with its neighbours' and pass it on."""
    image = _mixed(kept, inbox, momentum, rate)
    return {"image": image, "before": inbox.own["image"]}


@summed(
    by="party",
    takes={"width": "size l", "size": "size q"},
    ready=release("", meaning="whether the silo's components are certain"),
    unsure=release(
        "", meaning="whether they are as certain as sixteen digits allow, and no more"
    ),
    basis=stays("N q", meaning="all blocks so far", until="fit"),
    images=stays("N q", meaning="their products, over all columns", until="fit"),
    rest=stays("N l", meaning="what of the last products is new", until="fit"),
)
def gossip_ready(
    kept: Any,
    inbox: Any,
    *,
    width: int,
    size: int,
    momentum: float,
    rate: float,
    parties: int,
    wanted: int,
    tol: float,
    lead: str,
) -> dict[str, Any]:
    """Take the average in, and say whether the components stand still."""
    image = parties * _mixed(kept, inbox, momentum, rate)
    Q, Y = kept["block"], image
    if size > width:
        Q, Y = np.hstack([kept["basis"], Q]), np.hstack([kept["images"], Y])
    pairs, turned, noise = ritz_pairs(Q, Y, wanted)
    top = float(np.abs(pairs.values).max())
    if noise > _DISAGREE * top:
        raise DataError("The averages are not of one matrix.", rule="averages")
    ready = pairs.angle <= tol or pairs.is_at_floor(noise) or size == len(Q)
    rest = np.zeros_like(image)
    if inbox.party == lead:
        rest = image - Q @ (Q.T @ image)
        rest -= Q @ (Q.T @ rest)
    if Q.shape[1] > size:
        # A full basis is replaced by its best Ritz vectors.
        Q, Y = Q @ turned[:, :size], Y @ turned[:, :size]
    return {
        "ready": np.array(float(ready)),
        "unsure": np.array(float(ready and not pairs.is_certified(tol))),
        "basis": Q,
        "images": Y,
        "rest": rest,
    }


@exchanged(by="party", takes={"width": "size l"}, block=release("N l", meaning=_BLOCK))
def gossip_passed(kept: Any, inbox: Any, *, width: int, lead: str) -> dict[str, Any]:
    """Make the next block, in the middle; elsewhere pass on what came, or zeros."""
    Q, Y, rest = (kept[name] for name in ("basis", "images", "rest"))
    found = _passed(inbox, "block")
    if found is not None:
        return {"block": found["block"]}
    if inbox.party == lead:
        return {"block": continuation(Q, Y, rest)[:, :width]}
    return {"block": np.zeros((len(rest), width))}


@exchanged(
    by="party",
    takes={"wanted": "size k"},
    vectors=release("N k", meaning="each person's scores, of unit length"),
    values=release("k", meaning="how much all columns vary along the components"),
)
def gossip_found(kept: Any, inbox: Any, *, wanted: int, lead: str) -> dict[str, Any]:
    """Pass on the solution of the silo in the middle, so that all have the same."""
    Q, Y = kept["basis"], kept["images"]
    found = _passed(inbox, "vectors")
    if found is not None:
        return {name: found[name] for name in ("vectors", "values")}
    if inbox.party != lead:
        return {"vectors": np.zeros((len(Q), wanted)), "values": np.zeros(wanted)}
    pairs, _, _ = ritz_pairs(Q, Y, wanted)
    return {"vectors": with_positive_peaks(pairs.vectors), "values": pairs.values}


@kept(
    by="party",
    takes={"wanted": "size k"},
    components=stays("k p", meaning="the loadings of the silo's own columns"),
    variance=stays("k", meaning="how much all columns vary along each component"),
    scores=stays("N k", meaning="each person's scores along the components"),
)
def gossip_loadings(
    X: Float[Array, "N p"], kept: Any, inbox: Any, *, wanted: int
) -> dict[str, Any]:
    """Return X_cᵀ U / Σ, as rows; a direction without variance has none."""
    found = _passed(inbox, "vectors")
    pairs, _, _ = ritz_pairs(kept["basis"], kept["images"], wanted)
    # Where averages were none, silos found each its own.
    top = float(np.abs(pairs.values).max())
    if found is None or np.abs(pairs.values - found["values"]).max() > _DISAGREE * top:
        raise DataError("The silos did not find the same.", rule="averages")
    U, values = found["vectors"], np.maximum(found["values"], 0.0)
    # What is left of a direction without variance is rounding.
    length = np.sqrt(np.where(values > _ROUNDING * values[0], values, 0.0))
    divisor = np.where(length > 0, length, np.inf)
    return {
        "components": (products(X, kept["mean"], U) / divisor).T,
        "variance": length**2 / (len(U) - 1),
        "scores": U * length,
    }


@disclosed(
    by="party",
    takes={"wanted": "size k"},
    mean=release("p", meaning="the means of the silo's own columns"),
    components=release("k p", meaning="the loadings of the silo's own columns"),
    variance=release("k", meaning="how much all columns vary along each component"),
)
def gossip_shown(kept: Any, *, wanted: int) -> dict[str, Any]:
    """Disclose what the silo keeps of the model."""
    return {name: kept[name] for name in ("mean", "components", "variance")}


class Steps(NamedTuple):
    """The steps above, as `unpooled.models.pca.pca` has them."""

    begun: Step
    image: Step
    mixed: Step
    ready: Step
    passed: Step
    found: Step
    loadings: Step
    shown: Step


STEPS = Steps(
    *adopted(
        f"{LIBRARY}pca",
        gossip_begun,
        gossip_image,
        gossip_mixed,
        gossip_ready,
        gossip_passed,
        gossip_found,
        gossip_loadings,
        gossip_shown,
    )
)


def _mixed(kept: Any, inbox: Any, momentum: float, rate: float) -> Float[Array, "N l"]:
    others = [told["image"] for party, told in inbox.items() if party != inbox.party]
    before = kept["before"] if momentum else None
    return mixed(inbox.own["image"], before, others, (momentum, rate))


def _passed(inbox: Any, name: str) -> Any:
    """Return the arrays of one who had what is passed on; None where nobody had."""
    for told in inbox.values():
        # Whoever has not got it yet tells zeros.
        if name in told and told[name].any():
            return told
    return None


_ROUNDING = 64 * float(np.finfo(float).eps)

"""A masked SVD by its paper's protocol, through this library's messages and sums.

    authority   draws orthogonal P (N × N) and Q (p × p), block diagonal, from a seed
    each party  P X_i Q_i, Q_i its rows of Q, under additive masks ──> P X Q
    server      P X Q = U' Σ Vᵀ, truncated
    each party  U = Pᵀ U', and from it its own loadings X_iᵀ U / Σ

The server sees the singular values, and everything else only up to a rotation. In the
paper the seed comes from a trusted authority that does not communicate with the server.
Here it is sent with the requests, since only time, bytes and error are measured.

References
----------
Chai, Wang, Zhang, Fu, Wang, Li, Yang, Xu, Practical lossless federated singular vector
decomposition over billion-scale data, KDD 2022, sections 3 and 4 (block-based masks).
"""

from typing import Any

import numpy as np
import scipy.linalg

import unpooled as up
from unpooled.arrays import Array, Float
from unpooled.protocol.bounds import Ceiling
from unpooled.protocol.step import kept, release, stays, summed

# The paper's size of the masks' blocks.
BLOCK = 1_000


def blocks(seed: int, size: int, block: int) -> Any:
    """Yield (rows, orthogonal matrix) for every block of a mask."""
    for start in range(0, size, block):
        stop = min(start + block, size)
        rng = np.random.default_rng([seed, start])
        Q, R = scipy.linalg.qr(rng.standard_normal((stop - start, stop - start)))
        # These signs make it uniform over all rotations.
        yield slice(start, stop), Q * np.sign(R.diagonal())


def turned(X: Array, seed: int, block: int, *, back: bool = False) -> Array:
    """Return P X, or Pᵀ X."""
    image = np.empty_like(X)
    for rows, Q in blocks(seed, len(X), block):
        image[rows] = (Q.T if back else Q) @ X[rows]
    return image


def widened(X: Array, first: int, p: int, seed: int, block: int) -> Array:
    """Return X_i Q_i: own columns from `first` on, spread over all p."""
    image = np.zeros((len(X), p))
    for rows, Q in blocks(seed, p, block):
        start, stop = max(rows.start, first), min(rows.stop, first + X.shape[1])
        if start < stop:
            own = X[:, start - first : stop - first]
            image[:, rows] += own @ Q[start - rows.start : stop - rows.start]
    return image


@summed(
    by="party",
    squares=release("", meaning="squared distances of all columns from their means"),
    mean=stays("p", meaning="the means of the silo's own columns"),
)
def own_squares(X: Float[Array, "N p"]) -> dict[str, Any]:
    """Return the columns' sum of squared deviations, and keep their means."""
    mean = X.mean(axis=0)
    return {"squares": np.array(((X - mean) ** 2).sum()), "mean": mean}


@summed(
    by="party",
    takes={"width": "size q"},
    rows=release("N q", bound=Ceiling("radius"), meaning="rotated rows and columns"),
)
def own_rows(
    X: Float[Array, "N p"],
    kept: Any,
    party: str,
    *,
    places: dict[str, int],
    seed: int,
    block: int,
    width: int,
    radius: float,
) -> dict[str, Any]:
    """Return the silo's centred columns, multiplied by both masks."""
    centred = turned(X - kept["mean"], seed, block)
    return {"rows": widened(centred, places[party], width, seed + 1, block)}


@kept(
    by="party",
    takes={"turned_U": "N k", "length": "k"},
    U=stays("N k", meaning="directions over the people"),
    components=stays("k p", meaning="the loadings of the silo's own columns"),
)
def own_loadings(
    X: Float[Array, "N p"],
    kept: Any,
    *,
    turned_U: Float[Array, "N k"],
    length: Float[Array, " k"],
    seed: int,
    block: int,
) -> dict[str, Any]:
    """Unmask the directions, and keep the silo's part of the components."""
    U = turned(turned_U, seed, block, back=True)
    return {"U": U, "components": ((X - kept["mean"]).T @ U / length).T}


def masked_svd(
    federation: up.Federation, k: int, seed: int = 0, block: int = BLOCK
) -> tuple[Array, Array]:
    """Return U and the singular values of the joined, centred columns, k of them."""
    starts = np.cumsum([0, *map(len, federation.columns_of.values())])
    places = dict(zip(federation.parties, map(int, starts), strict=False))
    masks = {"seed": seed, "block": block}
    with federation.fitting():
        # No entry of a rotated matrix exceeds the norm of the whole.
        radius = float(np.sqrt(federation.sum(own_squares)["squares"]))
        how = {"places": places, "width": federation.n_features, "radius": radius}
        Y = federation.sum(own_rows, **how, **masks)["rows"]
        U, s, _ = scipy.linalg.svd(Y, full_matrices=False)
        U, s = U[:, :k], s[:k]
        federation.keep(own_loadings, turned_U=U, length=s, **masks)
    # For the comparison; every silo has them, and the server does not.
    return turned(U, seed, block, back=True), s

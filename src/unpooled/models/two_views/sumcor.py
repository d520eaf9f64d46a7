"""Multiset canonical correlations of three or more parties, with a ridge ("sumcor").

    max Σ_{i≠j} cov(X_i w_i, X_j w_j)   with   Σ_i w_iᵀ C_i w_i = 1,
    C_i = (1 - c) S_i + c I             v_i = C_i^(1/2) w_i,  Q_i as in `cca_columns`

    silos ── the sum of squares of their whitened rows ──> Σ, a bound on what follows
    each keeps  its rows V_i of a basis V, and of its images M V
    rounds      silos ── Q_i V_i, for the newest columns ──> Σ = U, opened by the silos;
                each subtracts its own term:  (M V)_i = Q_iᵀ (U - Q_i V_i)
                silos ── V_iᵀ V_i and V_iᵀ (M V)_i ──> Σ,  Ritz pairs
                silos ── inner products of the pairs' residuals ──> Σ, the next columns
    result      each party keeps the weights of its own columns

Without a ridge the terms subtracted do not change the solution, which is then that of
`unpooled.models.two_views.cca_columns`. With a ridge they do, and a Gram matrix of all
silos does not contain them, so there is no solver "gram". The coordinator receives no
array about people; the silos open sums over each other's rows along directions of all
columns.

References
----------
Kettenring, Canonical analysis of several sets of variables, Biometrika 58 (1971).
Vinod, Canonical ridge and econometrics of joint production, J. Econometrics 4 (1976).
"""

from typing import Any

import numpy as np
import scipy.linalg
from sklearn.utils import check_random_state

from unpooled.arrays import Array, Float
from unpooled.errors import ConvergenceError
from unpooled.federation.federation import Federation
from unpooled.linalg.eigen import with_positive_peaks
from unpooled.linalg.joint_ritz import JointRitz, pair_errors
from unpooled.linalg.krylov import block_width
from unpooled.linalg.ritz import FLOOR
from unpooled.linalg.whitening import ridge_weights, ridge_whitened
from unpooled.models.moments import complete
from unpooled.protocol.bounds import Ceiling
from unpooled.protocol.step import kept, public, release, stays, summed

# Maximum number of rounds, and largest sine of the angle between weights and limits.
_MOST_ROUNDS, _TOL = 100, 1e-9
# Residuals below this share of the largest eigenvalue may be rounding; they end the
# search, unless the gap is so small that errors may still exceed `_TIED`.
_ROUNDING, _TIED = 1e-12, 1e-6


@summed(
    by="party",
    takes={"block": "size l"},
    squares=release(
        "",
        meaning="sum of squares of all whitened rows (squares of all entries, added "
        "over rows and silos)",
    ),
    rows=stays("N p", until="fit", meaning="the silo's rows, whitened"),
    mean=stays("p", meaning="the mean of each of the silo's columns"),
    fresh=stays("p l", until="fit", meaning="directions in the space of its columns"),
)
def own_start(
    X: Float[Array, "N p"], *, block: int, regularisation: float, seed: int
) -> dict[str, Any]:
    """Whiten own columns, and choose directions; release the rows' sum of squares."""
    mean = complete(X).mean(axis=0)
    rows = ridge_whitened(X - mean, regularisation)
    # The seed gives all silos the same weights of people, so that their parts make one
    # direction in the space of all columns.
    mixtures = np.random.default_rng(seed).standard_normal((len(X), block))
    mixtures = scipy.linalg.qr(mixtures, mode="economic")[0]
    fresh = np.zeros((X.shape[1], block))
    fresh[:, : mixtures.shape[1]] = rows.T @ mixtures
    squares = np.array(np.sum(rows**2))
    return {"squares": squares, "rows": rows, "mean": mean, "fresh": fresh}


@summed(
    by="party",
    takes={
        "back": public(
            "q l", "the products of the newest directions with earlier ones"
        ),
        "turn": public(
            "l l", "the transformation that makes the newest directions orthonormal"
        ),
        "wider": "size c",
    },
    image=release(
        "N l",
        bound=Ceiling("ceiling"),
        meaning="coordinates of people's whitened rows along directions of all silos' "
        "columns, added over silos and opened by them alone",
    ),
    basis=stays("p c", until="fit", meaning="directions in the space of its columns"),
)
def local_shared(
    kept: Any,
    *,
    back: Float[Array, "q l"],
    turn: Float[Array, "l l"],
    wider: int,
    ceiling: float,
) -> dict[str, Any]:
    """Orthonormalise directions over all silos; release rows' coordinates on them."""
    fresh, first = kept["fresh"], wider == len(turn)
    new = (fresh if first else fresh - kept["basis"] @ back) @ turn
    basis = new if first else np.hstack([kept["basis"], new])
    return {"image": kept["rows"] @ new, "basis": basis}


@summed(
    by="party",
    takes={
        "image": public(
            "N l", "people's coordinates in the newest directions, added over silos"
        ),
        "width": "size q",
    },
    overlaps=release(
        "q l",
        meaning="inner products of directions (products of their entries, added over "
        "columns and silos)",
    ),
    products=release(
        "q l",
        meaning="inner products of directions and their images (products of their "
        "entries, added over columns and silos)",
    ),
    images=stays("p q", until="fit", meaning="images of the silo's directions"),
    seen=stays("N q", until="fit", meaning="coordinates of all silos' rows"),
)
def local_products(
    kept: Any, *, image: Float[Array, "N l"], width: int
) -> dict[str, Any]:
    """Apply the other silos' part of the sum to the silo's columns."""
    rows, basis, block = kept["rows"], kept["basis"], image.shape[1]
    new = basis[:, -block:]
    images, seen = rows.T @ (image - rows @ new), image
    products = basis.T @ images
    if width > block:
        images = np.hstack([kept["images"], images])
        seen = np.hstack([kept["seen"], image])
    return {
        "overlaps": basis.T @ new,
        "products": products,
        "images": images,
        "seen": seen,
    }


@summed(
    by="party",
    takes={
        "Y": public(
            "q l", "the coefficients of the eigenvectors in all directions so far"
        ),
        "theta": public("l", "the eigenvalues found so far"),
    },
    overlap=release(
        "q l",
        meaning="inner products of directions and residuals (products of their "
        "entries, added over columns and silos)",
    ),
    squares=release(
        "l l",
        symmetric=True,
        meaning="inner products of residuals (products of their entries, added over "
        "columns and silos)",
    ),
    fresh=stays("p l", until="fit", meaning="the silo's part of the residuals"),
)
def local_residuals(
    kept: Any, *, Y: Float[Array, "q l"], theta: Float[Array, " l"]
) -> dict[str, Any]:
    """Release inner products of residuals; keep the silo's part of the residuals."""
    fresh = kept["images"] @ Y - kept["basis"] @ (Y * theta)
    return {
        "overlap": kept["basis"].T @ fresh,
        "squares": fresh.T @ fresh,
        "fresh": fresh,
    }


@kept(
    by="party",
    takes={
        "Y": public(
            "q k", "the coefficients of the eigenvectors in all directions so far"
        )
    },
    weights=stays("p k", meaning="the weights of the silo's columns"),
)
def own_joint_weights(
    X: Float[Array, "N p"], kept: Any, *, Y: Float[Array, "q k"], regularisation: float
) -> dict[str, Any]:
    """Keep the weights in units of the silo's columns, C^(-1/2) v; nothing leaves."""
    # All silos have opened the same sums, so all choose the same signs.
    shared = kept["seen"] @ Y
    signs = np.sign(np.einsum("Nk,Nk->k", shared, with_positive_peaks(shared)))
    V = kept["basis"] @ (Y * signs)
    return {"weights": ridge_weights(X - X.mean(axis=0), V, regularisation)}


def keep_sumcor_weights(
    federation: Federation, k: int, *, regularisation: float, random_state: int | None
) -> tuple[Float[Array, " k"], int]:
    """Have the parties keep the weights; return the eigenvalues, and the rounds.

    Parameters
    ----------
    federation : Federation
        A column partition.
    k : int
        Number of directions.
    regularisation : float
        c, larger than 0.
    random_state : int, optional
        Seed of the first directions; None: the federation's.

    Raises
    ------
    ConvergenceError
        When the weights are not within the tolerance after all rounds.
    """
    state = federation.seed(random_state)
    block = block_width(federation.n_features, k)
    squares = federation.sum(
        own_start,
        regularisation=regularisation,
        block=block,
        seed=check_random_state(state).randint(2**31),
    )["squares"]
    # No coordinate along a unit vector is larger than the norm of all rows; directions
    # have unit length up to rounding, hence the margin.
    ceiling = 1.01 * float(np.sqrt(squares)) or 1.0
    theta, Y, n_iter = _eigenpairs(federation, k, block, ceiling)
    federation.keep(own_joint_weights, Y=Y, regularisation=regularisation)
    return theta, n_iter


def _eigenpairs(
    federation: Federation, k: int, block: int, ceiling: float
) -> tuple[Float[Array, " k"], Float[Array, "q k"], int]:
    """Return the k largest eigenvalues, their vectors' coordinates, and the rounds."""
    most = min(_MOST_ROUNDS, -(-federation.n_features // block) + 2)
    planned = federation.coordinator.planned
    basis, worst = JointRitz(), np.inf
    # The first directions are products of rows with unit vectors, at most so long.
    back, turn = np.zeros((block, block)), np.eye(block) / ceiling
    for n_iter in range(1, most + 1):
        width = n_iter * block
        image = federation.sum(
            local_shared,
            to="parties",
            back=back,
            turn=turn,
            wider=width,
            ceiling=ceiling,
        )["image"]
        products = federation.sum(local_products, image=image, width=width)
        basis.extend(products["overlaps"], products["products"])
        if planned:
            theta, Y = np.zeros(block), np.zeros((basis.width, block))
        else:
            theta, Y = basis.pairs(block)
        residuals = federation.sum(local_residuals, Y=Y, theta=theta)
        if planned:
            back = Y
            continue
        top = float(np.abs(theta).max())
        lengths = np.sqrt(residuals["squares"].diagonal())
        worst = float(pair_errors(theta, lengths, k).max())
        rounding = lengths[:k].max() <= _ROUNDING * top and worst <= _TIED
        if worst <= _TOL or rounding:
            return theta[:k], Y[:, :k], n_iter
        back, turn = basis.continuation(
            residuals["overlap"], residuals["squares"], FLOOR * top
        )
    if planned:
        return np.ones(k), back[:, :k], most
    raise ConvergenceError(
        f"After {most} blocks of directions the weights may still be off by "
        f"{worst:.1e} (the sine of an angle). Eigenvalues of neighbouring pairs may be "
        f"equal, so that their weights are not determined: try other n_components than "
        f"{k}."
    )

"""Multiset canonical correlations of three or more parties, with a ridge.

    max Σ_{i≠j} cov(X_i w_i, X_j w_j)   with   Σ_i w_iᵀ C_i w_i = 1,
    C_i = (1 - c) S_i + c I             v_i = C_i^(1/2) w_i,  Q_i as in cca_columns

    silos ── squares of all whitened rows ──> Σ, a bound on what follows
    each keeps  its entries V_i of a basis, and their images
    iteration   silos ── Q_i V_i, the newest columns ──> Σ = U, opened by the silos
                each takes its own part off:  (M V)_i = Q_iᵀ (U - Q_i V_i)
                silos ── products of columns of V and M V ──> Σ, Ritz pairs
                silos ── products of the pairs' residuals ──> Σ, the next columns
    at the end  each keeps the weights of its own columns

Without a ridge the parts that are taken off are all the same, and the answer is that
of `unpooled.models.two_views.cca_columns`. No Gram matrix of all silos tells them
apart, so there is no solver "gram" with a ridge. The coordinator sees no array about
people at all; the silos see sums over each other's rows, along mixtures of all columns.

References
----------
Kettenring, Canonical analysis of several sets of variables, Biometrika 58 (1971).
Vinod, Canonical ridge and econometrics of joint production, J. Econometrics 4 (1976).
"""

from dataclasses import dataclass
from typing import Any, final

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
from unpooled.models.two_views.whitened import unwhitened, whitened
from unpooled.protocol.bounds import Ceiling
from unpooled.protocol.step import Step, kept, public, release, stays, summed

_MOST_ROUNDS, _TOL = 100, 1e-9
# Residuals of this share of an eigenvalue may be rounding, after many blocks; pairs
# that they leave further than this from what they tend to are ties.
_ROUNDING, _TIED = 1e-12, 1e-6


@summed(
    by="party",
    takes={"block": "size l"},
    squares=release("", meaning="squares of all whitened rows, added over silos"),
    rows=stays("N p", until="fit", meaning="the silo's rows, whitened"),
    mean=stays("p", meaning="the mean of each of the silo's columns"),
    fresh=stays("p l", until="fit", meaning="directions among the silo's columns"),
)
def own_start(
    X: Float[Array, "N p"], *, block: int, regularisation: float, seed: int
) -> dict[str, Any]:
    """Whiten the silo's own columns, and choose directions; tell their size alone."""
    mean, rows = whitened(X, regularisation)
    # The same mixtures of people in all silos, so that all together are one direction.
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
        meaning="people's whitened rows along mixtures of all silos' columns, added, "
        "for the silos alone",
    ),
    basis=stays("p c", until="fit", meaning="directions among the silo's columns"),
)
def local_shared(
    kept: Any,
    *,
    back: Float[Array, "q l"],
    turn: Float[Array, "l l"],
    wider: int,
    ceiling: float,
) -> dict[str, Any]:
    """Make directions orthonormal over all silos; send the rows along them."""
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
    overlaps=release("q l", meaning="products of directions, added over silos"),
    products=release("q l", meaning="products of them with their images, added"),
    images=stays("p q", until="fit", meaning="images of these directions"),
    seen=stays("N q", until="fit", meaning="all silos' rows along directions, added"),
)
def local_products(
    kept: Any, *, image: Float[Array, "N l"], width: int
) -> dict[str, Any]:
    """Take the silo's own part off the sum, and apply the rest to its columns."""
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
    overlap=release("q l", meaning="products of directions with what they lack"),
    squares=release("l l", symmetric=True, meaning="products of what they lack"),
    fresh=stays("p l", until="fit", meaning="what the silo's directions lack"),
)
def local_residuals(
    kept: Any, *, Y: Float[Array, "q l"], theta: Float[Array, " l"]
) -> dict[str, Any]:
    """Tell how far pairs are from solving the problem; keep in which direction."""
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
    # All silos have opened the same sums, so they turn the pairs the same way.
    shared = kept["seen"] @ Y
    signs = np.sign(np.einsum("Nk,Nk->k", shared, with_positive_peaks(shared)))
    return {"weights": unwhitened(X, kept["basis"] @ (Y * signs), regularisation)}


@final
@dataclass(frozen=True)
class ColumnSteps:
    """The steps of this module under a model's name (`adopted`)."""

    start: Step
    shared: Step
    products: Step
    residuals: Step
    weights: Step


def fit_multiset(
    model: Any, federation: Federation, steps: ColumnSteps, k: int
) -> None:
    """Fit a `CCA` by the sum of covariances with a ridge; sets its attributes."""
    c, seed = float(model.regularisation), model.random_state
    rng = check_random_state(federation.random_state if seed is None else seed)
    block = block_width(federation.n_features, k)
    start = {"block": block, "seed": rng.randint(2**31)}
    told = federation.sum(steps.start, regularisation=c, **start)
    # What unit vectors make of a row is no longer than all rows are; with some room,
    # for they are of unit length but for rounding.
    ceiling = 1.01 * float(np.sqrt(told["squares"])) or 1.0
    most = min(_MOST_ROUNDS, -(-federation.n_features // block) + 2)
    theta, Y, model.n_iter_ = _solved(federation, steps, ceiling, block, k, most)
    federation.keep(steps.weights, Y=Y, regularisation=c)
    model.eigenvalues_ = theta


def _solved(
    federation: Federation,
    steps: ColumnSteps,
    ceiling: float,
    block: int,
    k: int,
    most: int,
) -> tuple[Float[Array, " k"], Float[Array, "q k"], int]:
    """Return the k leading values, their vectors' coordinates, and blocks that took."""
    found, planned = JointRitz(), federation.coordinator.planned
    # The first directions are the rows' products with unit vectors.
    back, turn, worst = np.zeros((block, block)), np.eye(block) / ceiling, np.inf
    for i in range(1, most + 1):
        new = {"back": back, "turn": turn, "wider": i * block, "ceiling": ceiling}
        image = federation.sum(steps.shared, to="parties", **new)["image"]
        told = federation.sum(steps.products, image=image, width=i * block)
        found.extend(told["overlaps"], told["products"])
        if planned:
            theta, Y = np.zeros(block), np.zeros((found.width, block))
        else:
            theta, Y = found.pairs(block)
        rest = federation.sum(steps.residuals, Y=Y, theta=theta)
        if planned:
            back = Y
            continue
        top = float(np.abs(theta).max())
        floor, rounding = FLOOR * top, _ROUNDING * top
        lengths = np.sqrt(rest["squares"].diagonal())
        worst = float(pair_errors(theta, lengths, k).max())
        if worst <= _TOL or (lengths[:k].max() <= rounding and worst <= _TIED):
            return theta[:k], Y[:, :k], i
        back, turn = found.continuation(rest["overlap"], rest["squares"], floor)
    if planned:
        return np.ones(k), back[:, :k], most
    raise ConvergenceError(
        f"After {most} blocks of directions the weights may still be off by "
        f"{worst:.1e} (the sine of an angle). Eigenvalues of neighbouring pairs may be "
        f"the same, so that their weights are anybody's choice: try other n_components "
        f"than {k}."
    )

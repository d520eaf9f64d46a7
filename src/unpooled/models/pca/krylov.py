"""Principal axes of many columns: block Krylov by secure sums.

    round 1    silos ── N, feature sums ─────────────────────────────────> mean
    round 2    silos <── mean ── silos ── squared distances from it ─────> squares
    round 3 …  silos <── V ── each applies its own scatter about the mean,
               silos ── X_cᵀ (X_c V), in units of a bound from squares ──> S V

Nobody forms the p × p scatter S. V has a few columns more than the components wanted,
so a round costs 8 p (k + 4) bytes or so; V is the orthonormal rest of the image before
(`unpooled.linalg.krylov`). Six to fifteen rounds are usual; what certifies the result
is its residuals beside the gap between eigenvalues k and k + 1.

References
----------
Pooled Covariance PCA (P-COV) for Distributed/Federated Learning, section 4, for the
scatter; `unpooled.linalg.krylov` for the iteration.
"""

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from unpooled.arrays import Array, Float
from unpooled.federation.federation import Federation
from unpooled.linalg.centred import far_columns, scatter_image
from unpooled.linalg.krylov import RitzPairs, block_width, leading_ritz_pairs
from unpooled.linalg.moments import Rows, squared_deviations
from unpooled.protocol.bounds import CauchySchwarzImage
from unpooled.protocol.step import Fit, Step, public, release, summed

# Of the largest eigenvalue, what a component's residual may be where it is applied.
_CHECKED = 1e-6


@summed(
    sparse=True,
    takes={"mean": public("p", "the mean of each column over all silos")},
    squares=release(
        "p", meaning="each column's squared distances from its mean, added"
    ),
)
def local_spread(X: Rows, *, mean: Float[Array, " p"]) -> dict[str, Any]:
    """Add squares about the federation's mean."""
    return {"squares": squared_deviations(X, mean)}


@summed(
    sparse=True,
    takes={
        "mean": public("p", "the mean of each column over all silos"),
        "squares": public("p", "each column's squared deviations from its mean, added"),
        "V": public(
            "p l", "a block of weights of columns, by which the next product is taken"
        ),
    },
    image=release(
        "p l",
        bound=CauchySchwarzImage("squares", "V"),
        meaning="each column's products with public mixtures of all columns, added",
    ),
)
def local_image(
    X: Rows,
    *,
    mean: Float[Array, " p"],
    squares: Float[Array, " p"],
    V: Float[Array, "p l"],
    N: int,
) -> dict[str, Any]:
    """Apply this silo's scatter about the federation's mean to a public block."""
    return {"image": scatter_image(X, mean, V, far_columns(mean, squares, N))}


def leading_axes(
    federation: Federation,
    model: Any,
    k: int,
    image: Step,
    *,
    N: int,
    mean: Float[Array, " p"],
    squares: Float[Array, " p"],
) -> RitzPairs:
    """Return the k leading eigenpairs of the pooled scatter; a round per application.

    Parameters
    ----------
    federation : Federation
        Rows without missing cells.
    model : estimator
        Its `tol`, `max_iter` and `random_state` are used.
    k : int
        How many.
    image : Step
        `local_image` under the model's name.
    N, mean, squares : int, (p,) array, (p,) array
        The rows of all silos: how many, their mean, and the squared distances from it.

    Raises
    ------
    ConvergenceError
        When `max_iter` rounds were not enough.
    """
    seed = model.random_state
    rng = check_random_state(federation.random_state if seed is None else seed)
    p = len(mean)
    start = rng.standard_normal((p, block_width(p, k)))

    def applied(V: Float[Array, "p l"]) -> Float[Array, "p l"]:
        return federation.sum(image, mean=mean, squares=squares, V=V, N=N)["image"]

    if federation.coordinator.planned:
        # Nobody knows the number of rounds before; there are at most so many.
        for _ in range(model.max_iter):
            applied(start)
        nothing = np.zeros(k)
        return RitzPairs(nothing, np.eye(p, k), nothing, 1.0, 0.0, model.max_iter)
    pairs = leading_ritz_pairs(
        applied, start, k, tol=model.tol, max_iter=model.max_iter
    )
    warn_of_close_values(pairs, k, model.tol)
    return pairs


def warn_of_close_values(pairs: RitzPairs, k: int, tol: float) -> None:
    """Warn where eigenvalues k and k + 1 do not determine the components to `tol`."""
    if not pairs.is_certified(tol):
        warnings.warn(_close_values(pairs, k), ConvergenceWarning, stacklevel=3)


def _close_values(pairs: RitzPairs, k: int) -> str:
    what = (
        f"determine the first {k} components only to an angle of {pairs.angle:.0e}"
        if pairs.angle < 1
        else f"leave the first {k} components undefined"
    )
    return (
        f"Eigenvalues {k} and {k + 1} lie so close together that float64 numbers "
        f"{what}. The variances are right, and every component is one of some "
        f"solution; choose n_components at a larger gap for a stable one."
    )


def proven_variances(
    fits: Mapping[str, Fit], N: int, mean: Float[Array, " p"], axes: Float[Array, "p k"]
) -> Float[Array, " k"] | None:
    """Return the variances along axes that the rounds of a fit prove, or None.

    For `follows` of a derived step. The axes must be mixtures of the blocks that were
    multiplied; then the same mixtures of the images tell their residuals.

    Parameters
    ----------
    fits : mapping of str to Fit
        Of `local_spread` and of every round of `local_image`.
    N, mean : int, (p,) array
        Of all rows, from `local_total`.
    axes : (p, k) array
        Said to be orthonormal eigenvectors.
    """
    spread, last = fits["local_spread"], fits["local_image"]
    squares, rounds = spread.totals["squares"], (*last.earlier, last)
    wanted = {"mean": mean, "squares": squares, "N": N}
    for one in rounds:
        if any(not np.array_equal(one.public[n], v) for n, v in wanted.items()):
            return None
    if not np.array_equal(spread.public["mean"], mean):
        return None
    blocks = np.hstack([one.public["V"] for one in rounds])
    mixture = np.linalg.lstsq(blocks, axes, rcond=None)[0]
    image = np.hstack([one.totals["image"] for one in rounds]) @ mixture
    values = np.einsum("ij,ij->j", axes, image)
    misfits = [
        np.abs(axes.T @ axes - np.eye(axes.shape[1])).max(),
        np.abs(blocks @ mixture - axes).max(),
        np.abs(image - values * axes).max() / max(float(values.max()), 1e-300),
    ]
    good = max(misfits) <= _CHECKED
    return np.maximum(values, 0.0) / max(N - 1, 1) if good else None

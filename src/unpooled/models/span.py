"""More columns than rows: everything happens in the span of the pooled rows.

    round 1   silos <── mean ──  silos ── squared distances from it ──────> squares
    round 2   silos <── a random block of as many columns as rows of all silos
              silos ── their scatter about the mean applied to it ──> its range: Z
    then      the model itself on the coordinates (x - mean) Z of every silo's rows

The scatter has the rank of the rows, so its image of a random block spans what the rows
span, and no p × p array is formed by anybody. A multiple of the identity, which
regularisation adds, maps the span to itself, so that what a regularised model finds
within it is what it would find in all columns.

References
----------
Halko, Martinsson and Tropp, Finding structure with randomness, SIAM Review 53 (2011).
"""

from dataclasses import dataclass
from typing import Any, final

import numpy as np
import scipy.linalg

from unpooled.arrays import Array, Float
from unpooled.federation.base import Federation
from unpooled.linalg.moments import squared_deviations
from unpooled.party.bounds import CauchySchwarzImage
from unpooled.party.step import Step, derived, release, summed

# Below this share of the largest singular value a direction of the image is rounding.
_ROUNDING = 1e-12


@summed(
    takes={"mean": "p"},
    squares=release(
        "p", meaning="each column's squared distances from its mean, added"
    ),
)
def local_spread(X: Float[Array, "n p"], *, mean: Float[Array, " p"]) -> dict[str, Any]:
    """Add squares about the federation's mean."""
    return {"squares": squared_deviations(X, mean)}


@summed(
    takes={"mean": "p", "squares": "p", "V": "p q"},
    image=release(
        "p q",
        bound=CauchySchwarzImage("squares", "V"),
        meaning="each column's products with q public mixtures of all columns, added",
    ),
)
def local_span(
    X: Float[Array, "n p"],
    *,
    mean: Float[Array, " p"],
    squares: Float[Array, " p"],
    V: Float[Array, "p q"],
) -> dict[str, Any]:
    """Apply this silo's scatter about the federation's mean to a public block."""
    Z = X - mean
    return {"image": Z.T @ (Z @ V)}


@derived(
    takes={"mean": "p", "basis": "p q"},
    fitted_by=("discriminant.local_span", "cca.local_span"),
)
def spanned(
    X: Float[Array, "n p"], *, mean: Float[Array, " p"], basis: Float[Array, "p q"]
) -> Float[Array, "n q"]:
    """Return coordinates of rows in the span of all silos' rows."""
    return (X - mean) @ basis


@final
@dataclass(frozen=True)
class Span:
    """The steps of this module under a model's name (`adopted`)."""

    spread: Step
    image: Step


def row_space(
    federation: Federation, steps: Span, mean: Float[Array, " p"], N: int, first: int
) -> Float[Array, "p q"]:
    """Return an orthonormal basis of what rows about the mean span; two rounds.

    Parameters
    ----------
    federation : Federation
        Rows without missing cells.
    steps : Span
        Under the model's name.
    mean : (p,) array
        Of all rows.
    N : int
        How many there are.
    first : int
        Columns of a first view, and the rest of a second: each has a basis of its own,
        and the result is block-diagonal. p where there is one view.
    """
    p = len(mean)
    squares = federation.sum(steps.spread, mean=mean)["squares"]
    # Any directions will do, so that they need not be anybody's secret or seed.
    rng = np.random.default_rng(0)
    bases = []
    for view in (slice(0, first), slice(first, p)):
        width = len(mean[view])
        if 0 < width < N:
            bases.append(np.eye(width))
        elif width:
            V = np.zeros((p, N + 7))
            V[view] = rng.standard_normal((width, N + 7))
            public = {"mean": mean, "squares": squares, "V": V}
            image = federation.sum(steps.image, **public)["image"]
            if federation.coordinator.planned:
                image[view] = np.eye(width, N + 7)
            bases.append(_range(image[view], N - 1))
    return scipy.linalg.block_diag(*bases)


def scaled_row_space(
    federation: Federation, steps: Span, mean: Float[Array, " p"], N: int
) -> tuple[Float[Array, "p q"], Float[Array, " p"]]:
    """Return the same of rows whose columns are standardised, and their deviations.

    Columns in small units count as much as others, and keep their digits. Of constant
    columns the deviation is given as 1.
    """
    squares = federation.sum(steps.spread, mean=mean)["squares"]
    rounding = (N * np.finfo(float).eps * mean) ** 2
    scale = np.where(squares / N > rounding, np.sqrt(squares / N), 1.0)
    V = np.random.default_rng(0).standard_normal((len(mean), N + 7))
    public = {"mean": mean, "squares": squares, "V": V / scale[:, None]}
    image = federation.sum(steps.image, **public)["image"]
    if federation.coordinator.planned:
        image = np.eye(*image.shape)
    return _range(image / scale[:, None], N - 1), scale


def _range(image: Float[Array, "p q"], most: int) -> Float[Array, "p l"]:
    U, s, _ = scipy.linalg.svd(image, full_matrices=False)
    return U[:, : min(most, int((s > _ROUNDING * s[0]).sum()))]


def coordinates(
    federation: Federation, mean: Float[Array, " p"], basis: Float[Array, "p q"]
) -> Federation:
    """Return a view of every silo's rows in the span."""
    names = [f"span{j}" for j in range(basis.shape[1])]
    return federation.derive(spanned, names, mean=mean, basis=basis)

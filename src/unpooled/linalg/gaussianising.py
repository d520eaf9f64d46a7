"""The Yeo-Johnson transform of a table about public references, column by column.

    ψ = a ψ^ + b      ψ^ as in `unpooled.linalg.yeo_johnson`, grown with x

Standardised, ψ and ψ^ are the same; but ψ overflows, or has no digits left, where rows
are far from zero beside their spread.
"""

from collections.abc import Iterator

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.linalg import yeo_johnson
from unpooled.linalg.yeo_johnson import Reference


def shifted(
    X: Float[Array, "n p"],
    lambdas: Float[Array, " p"],
    centre: Float[Array, " p"],
    spread: Float[Array, " p"],
) -> Float[Array, "n p"]:
    """Return ψ^ of every cell; NaN where it is missing."""
    out = np.full(X.shape, np.nan)
    for j, own, reference, sign in _columns(lambdas, centre, spread):
        there = ~np.isnan(X[:, j])
        out[there, j] = sign * yeo_johnson.shifted(X[:, j], own, reference)
    return out


def unshifted(
    values: Float[Array, "n p"],
    lambdas: Float[Array, " p"],
    centre: Float[Array, " p"],
    spread: Float[Array, " p"],
) -> Float[Array, "n p"]:
    """Return the rows of which `shifted` is given; NaN where there are none."""
    rows = np.empty_like(values)
    for j, own, reference, sign in _columns(lambdas, centre, spread):
        column = yeo_johnson.inverse_shifted(sign * values[:, j], own, reference)
        rows[:, j] = column
    return rows


def units(
    lambdas: Float[Array, " p"],
    centre: Float[Array, " p"],
    spread: Float[Array, " p"],
) -> tuple[Float[Array, " p"], Float[Array, " p"]]:
    """Return a and b of ψ = a ψ^ + b; what float64 cannot hold is infinite."""
    a, b = np.empty((2, len(lambdas)))
    with np.errstate(over="ignore", under="ignore"):
        for j, own, reference, sign in _columns(lambdas, centre, spread):
            log_scale = reference.log_scale(np.array([own]))[0]
            a[j] = np.exp(log_scale + own * reference.beta)
            at = np.expm1(np.array([reference.beta]))
            b[j] = sign * yeo_johnson.transform(at, own)[0]
    return a, b


def _columns(
    lambdas: Float[Array, " p"],
    centre: Float[Array, " p"],
    spread: Float[Array, " p"],
) -> Iterator[tuple[int, float, Reference, float]]:
    """Yield each column's number, λ after mirroring, reference and sign."""
    for j, lam in enumerate(lambdas.tolist()):
        reference = Reference(float(centre[j]), float(spread[j]))
        sign = -1.0 if reference.centre < 0 else 1.0
        yield j, reference.mirrored(lam), reference, sign

"""Rows as the steps of private models read them: shifted, clipped, whole numbers.

    x ── minus a public centre, over public units ── clipped to a norm ── rounded ──> y

Sensitivity. ``‖y‖ <= LATTICE`` = L, and y depends on its own row and on public numbers
alone. One row more therefore changes the number of rows by 1, the sums by y, the sums
of squares by ``(y_j²)_j`` and the products by ``y yᵀ``, whose Euclidean norms over all
entries are at most 1, L, L² and L²: ``Σ y_j⁴ <= (Σ y_j²)²``, and ``‖y yᵀ‖ = ‖y‖²``.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.party.steps.add_noise import check_inputs, honest_shares
from unpooled.protocol.bounds import LATTICE, Lattice, lattice_steps
from unpooled.protocol.declaration import Declared, public, release
from unpooled.protocol.refusal import Refusal
from unpooled.protocol.step import Step
from unpooled.protocol.view_operations import Derive
from unpooled.secure.noise import (
    GaussianPrivacy,
    Noise,
    check_sampler,
    epsilon_of,
    is_norm,
    rho_of,
)

NEIGHBOURS = "one row more or less, in any silo"
# Whole numbers of a matrix stand for multiples of one over this.
UNIT = 2.0**20
POINT = public(
    "p", "the public point that is subtracted from all rows before they are clipped"
)
NOISY_MEAN = public("p", "the mean, with noise, that is subtracted from all rows")


def noisy(
    axes: str, power: int, share: float, meaning: str, *, symmetric: bool = False
) -> Declared:
    """Declare sums over rows that leave with noise.

    Parameters
    ----------
    power : int
        Power of a row's entries: 0 for the number of rows, 1 for sums, 2 for products.
    share : float
        Share of the step's cost.
    """
    # The number of rows is in units of L, so that it changes by L too.
    noise = Noise(LATTICE ** max(power, 1), share)
    return release(
        axes, bound=Lattice(power), noise=noise, meaning=meaning, symmetric=symmetric
    )


def noisy_count(share: float) -> Declared:
    """Declare the number of rows, with noise."""
    return noisy("", 0, share, "sample size (number of rows), with noise")


@final
@dataclass(frozen=True, eq=False)
class Clipping:
    """The public numbers of a step with noise: how rows are clipped, and the cost.

    Attributes
    ----------
    centre : (p,) array
        The point that is subtracted from all rows.
    row_norm : float
        The norm that rows are clipped to about it.
    epsilon, delta : float
        Privacy of the whole fit. A step that takes a `share` spends that part of their
        ρ.
    """

    centre: Float[Array, " p"]
    row_norm: float
    epsilon: float
    delta: float

    @classmethod
    def of(cls, privacy: GaussianPrivacy, centre: Float[Array, " p"]) -> "Clipping":
        """Return the numbers of a fit's first round, about a public centre."""
        return cls(centre, privacy.row_norm, privacy.epsilon, privacy.delta)

    @property
    def rho(self) -> float:
        """The cost of the whole fit."""
        return rho_of(self.epsilon, self.delta)

    def rows(self, X: Float[Array, "n p"]) -> Float[Array, "n p"]:
        """Return clipped rows of whole numbers, see `on_lattice`."""
        return on_lattice(X, self.centre, self.row_norm)

    def rows_in_units(
        self, X: Float[Array, "n p"], unit: Float[Array, " p"]
    ) -> Float[Array, "n p"]:
        """Return rows of whole numbers, clipped in public units of the columns."""
        Z = in_units(X, self.centre, unit)
        return on_lattice(Z, np.zeros(len(unit)), self.row_norm)


def on_lattice(
    X: Float[Array, "n p"], centre: Float[Array, " p"], row_norm: float
) -> Float[Array, "n p"]:
    """Return rows of whole numbers, none longer than `LATTICE`.

    Each row depends on itself and on public numbers alone, and none is refused: whether
    a release is refused must not depend on a row, because a refusal has no noise. So a
    row with a missing or infinite value, or too long to be measured, becomes a row of
    zeros.

    Rows are clipped to a little less, because rounding each of p entries to the nearest
    step may lengthen a row by up to ``sqrt(p) / 2`` steps.

    Raises
    ------
    Refusal
        As "arguments", before a row is read, when the public numbers are not those of
        a norm and a centre in float64.
    """
    # With a norm that is not positive some rows would be refused, and others not.
    if not is_norm(row_norm, centre) or lattice_steps(X.shape[1]) <= 0.0:
        raise Refusal("arguments")
    with np.errstate(all="ignore"):
        Y = X - centre
        length = np.sqrt(np.einsum("ij,ij->i", Y, Y))
        # What is no number, or overflows, compares as false.
        measured = length < np.inf
        clipped = np.minimum(1.0, row_norm / np.maximum(length, row_norm))
        Y *= (clipped * (lattice_steps(X.shape[1]) / row_norm))[:, None]
        Y[~measured] = 0.0
    np.rint(Y, out=Y)
    # The sensitivity is proven for the whole numbers, not for what was rounded.
    squares = np.einsum("ij,ij->i", Y, Y)
    longer = squares > LATTICE**2
    if longer.any():
        shrink = LATTICE * (1.0 - 2.0**-40) / np.sqrt(squares[longer])
        Y[longer] = np.trunc(Y[longer] * shrink[:, None])
    return Y


def multiplied(
    X: Float[Array, "n p"],
    centre: Float[Array, " p"],
    row_norm: float,
    matrix: Float[Array, "p l"],
    norm: float,
) -> tuple[Float[Array, "n p"], Float[Array, "n l"]]:
    """Return rows on the lattice, and their products with a matrix, clipped to a norm.

    A matrix product in float64 is rounded by how BLAS divides the rows into blocks, so
    that one row more could change another row. Rows and matrix are therefore whole
    numbers, whose partial sums stay below 2⁵³ (Cauchy and Schwarz), and no product is
    rounded.

    Raises
    ------
    Refusal
        As "arguments", before a row is read, when the matrix is not of whole numbers
        with columns of length at most 2³⁰, or a norm is none.
    """
    p, width = matrix.shape
    with np.errstate(all="ignore"):
        longest = np.max(np.einsum("ij,ij->j", matrix, matrix), initial=0.0)
    whole = np.array_equal(matrix, np.rint(matrix)) and longest <= 2.0**60
    if not whole or not is_norm(norm, np.zeros(width)):
        raise Refusal("arguments")
    Y = on_lattice(X, centre, row_norm)
    Z = Y @ matrix
    Z *= row_norm / (lattice_steps(p) * UNIT)
    return Y, on_lattice(Z, np.zeros(width), norm)


def in_units(
    X: Float[Array, "n p"], centre: Float[Array, " p"], unit: Float[Array, " p"]
) -> Float[Array, "n p"]:
    """Return deviations from a public centre, in public units of the columns.

    Raises
    ------
    Refusal
        As "arguments", before a row is read, when a unit is not positive, or so large
        or small that quotients could not be measured.
    """
    if not np.all((unit > 2.0**-250) & (unit < 2.0**250)):
        raise Refusal("arguments")
    if not np.all(np.abs(centre) <= 2.0**50 * unit):
        raise Refusal("arguments")
    with np.errstate(all="ignore"):
        return (X - centre) / unit


def checked_point(
    privacy: GaussianPrivacy, federation: Federation, step: Step
) -> tuple[Float[Array, " p"], Float[Array, " p"]]:
    """Return centre and units of all columns; refuse views that a fit made.

    Parameters
    ----------
    privacy : GaussianPrivacy
        Its parameters.
    federation : Federation
        The view that a private step is to read.
    step : Step
        One of the private steps.
    """
    check_sampler()
    p = federation.n_features
    found = []
    for name in ("centre", "scale"):
        given = np.asarray(getattr(privacy, name), float)
        if given.ndim and given.shape != (p,):
            raise DataError(
                f"GaussianPrivacy has a {name} of {given.size} numbers for {p} columns."
            )
        found.append(np.broadcast_to(given, (p,)).astype(float))
    try:
        check_inputs(step, federation.operations)
    except Refusal as refusal:
        raise DataError(
            "A private fit reads the silos' columns as they are, or as a "
            "StandardScaler with privacy gives them: a transform fitted without noise, "
            "a fold or a split before it would disclose numbers without noise.",
            rule=refusal.rule,
        ) from None
    return found[0], found[1]


def check_single_round(privacy: GaussianPrivacy, name: str) -> None:
    """Refuse a mechanism of PCA for a model that has one round with noise."""
    if privacy.mechanism != "scatter":
        raise DataError(
            f'mechanism="{privacy.mechanism}" is one of PCA; a {name} has one round. '
            f"Leave the mechanism out."
        )


def promise(
    privacy: GaussianPrivacy, federation: Federation, **found: Any
) -> dict[str, Any]:
    """Return `privacy_`: the parameters, and the cost, alone and with earlier fits.

    "total_rho" and "total_epsilon" are of this fit and of the private transforms that
    its rows passed through.
    """
    rho = rho_of(privacy.epsilon, privacy.delta)
    before = [
        float(one.public.get("rho", 0.0))
        for one in federation.operations
        if isinstance(one, Derive)
    ]
    total = math.fsum([rho, *before])
    return {
        **privacy.as_dict(),
        "neighbours": NEIGHBOURS,
        "rho": rho,
        "total_rho": total,
        "total_epsilon": epsilon_of(total, privacy.delta),
        **found,
    }


def checked_count(totals: Mapping[str, Any]) -> int:
    """Return the number of rows of totals with noise; refuse where it is all noise."""
    N = round(float(totals["count"]))
    if N < 2:
        raise DataError(
            "The noise is as large as the number of rows: there is no result. Ask for "
            "a larger epsilon, or more rows."
        )
    return N


def deviation_of(step: Step, name: str, rho: float, federation: Federation) -> float:
    """Return the standard deviation of a total's noise, in steps of the lattice."""
    noise = step.declared[name].noise
    assert noise is not None
    m, protection = len(federation.parties), federation.coordinator.protection
    return noise.sigma(rho) * math.sqrt(m / honest_shares(m, protection))

"""The first round of private mechanisms that clip rows about their own mean.

    silos <── centre, norm, ε, δ, share ──   rows shifted, clipped, rounded to a lattice
    silos ── N, sums, sum of squared lengths, with noise ──> mean, mean square length

Sensitivity: see `unpooled.models.private_rows`. One row more changes a sum of squared
lengths by ``‖y‖²``, at most L².
"""

import math
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.federation.federation import Federation
from unpooled.models.pca.private_certainty import MeanSquare, NoiseOfMoments
from unpooled.models.private_rows import (
    POINT,
    Clipping,
    checked_count,
    deviation_of,
    noisy,
    noisy_count,
)
from unpooled.protocol.bounds import LATTICE, lattice_steps
from unpooled.protocol.step import summed


@summed(
    takes={"centre": POINT},
    count=noisy_count(0.1),
    total=noisy("p", 1, 0.8, "column sums about a public centre, with noise"),
    energy=noisy(
        "",
        2,
        0.1,
        "sum of all rows' squared distances from a public centre, with noise",
    ),
)
def local_private_location(
    X: Float[Array, "n p"], *, clipping: Clipping, share: float
) -> dict[str, Any]:
    """Return exact sums of whole numbers; the silo adds the declared noise to them."""
    Y = clipping.rows(X)
    return {
        "count": np.array(len(Y) * LATTICE),
        "total": Y.sum(axis=0),
        # Whole numbers below 2⁵³, so no partial sum is rounded.
        "energy": np.einsum("ij,ij->", Y, Y),
    }


@final
@dataclass(frozen=True, eq=False)
class Location:
    """Totals of the first round, with noise, in units of the columns.

    Attributes
    ----------
    N : int
        Sample size.
    total : (p,) array
        Sums of deviations from the public centre.
    energy : float
        Sum of squared distances from it.
    noise : NoiseOfMoments
        Noise of these three; that of `products` is of `energy`.
    """

    N: int
    total: Float[Array, " p"]
    energy: float
    noise: NoiseOfMoments

    @classmethod
    def of(cls, federation: Federation, clipping: Clipping, share: float) -> "Location":
        """Ask for the totals, for a share of the fit's cost.

        Raises
        ------
        DataError
            Where the noise is as large as the number of rows.
        """
        step, rho = local_private_location, clipping.rho * share
        totals = federation.sum(step, share=share, **vars(clipping))
        unit = clipping.row_norm / lattice_steps(federation.n_features)
        return cls(
            checked_count(totals),
            totals["total"],
            float(totals["energy"]),
            NoiseOfMoments(
                deviation_of(step, "count", rho, federation) / LATTICE,
                deviation_of(step, "total", rho, federation) * unit,
                deviation_of(step, "energy", rho, federation) * unit**2,
            ),
        )

    @property
    def shift(self) -> Float[Array, " p"]:
        """The mean, less the public centre."""
        return self.total / self.N

    def length(self, square: float) -> float:
        """Return the root mean square length of rows about a point.

        Below the noise of the energy it is not known, so it is at least that.

        Parameters
        ----------
        square : float
            What the mean square length about the public centre loses by the shift.
        """
        least = self.noise.products / self.N
        return math.sqrt(max(self.energy / self.N - square, least))

    def mean_square(self, shift: Float[Array, " p"]) -> MeanSquare:
        """Return bounds of the mean square length about the centre plus a shift."""
        return MeanSquare.of(self.N, self.energy, self.total, shift, self.noise)

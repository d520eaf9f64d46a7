"""PCA with differential privacy of many columns: block power iterations with noise.

    6 %    N, sums, sum of squared lengths ──> mean, radius (the mean square length)
    94 %   in equal parts, `rounds` times:
           silos <── Q ── silos ── Σ x clip(Qᵀ x)ᵀ, with noise in each share ──> Y
           Q <── an orthonormal basis of Y

Nobody holds p × p numbers: a silo sends p × l, with l a little above k. Rows are
clipped to the radius about the noisy mean, and their scores Qᵀ x to a norm of their
own, which earlier rounds give: a row of many columns has a short projection on a few
directions, and the noise is proportional to both norms. Clipping turns no direction
where rows are elliptically distributed.

Sensitivity. The row is y, whole numbers with ``‖y‖ <= L``, and its scores are z, whole
numbers with ``‖z‖ <= L``, both of that row and public numbers alone. One row more
changes the products by ``y zᵀ``, whose Euclidean norm is ``‖y‖ ‖z‖ <= L²``, however
many columns z has. Costs of the rounds, whose number is fixed in advance, add up
(`unpooled.secure.noise`).

Every round has information on the components, with independent noise. For one round
``Y Qᵀ + Q Yᵀ - Q Qᵀ Y Qᵀ`` is the covariance matrix as far as Q shows it; the mean of
these matrices over the later rounds, weighted by their noise, gives the components, in
the span of all of their blocks.

References
----------
Hardt and Price, The noisy power method, NeurIPS 2014, algorithm 1; Balcan, Du, Wang and
Yu, An improved gap-dependency analysis of the noisy power method, COLT
2016, for blocks wider than k. Nguyen, Ene and Nguyen, Adaptive power iteration method
for differentially private PCA, arXiv 2602.11454, of which the abstract and a summary
were read: it filters rows, for one component; here scores are clipped in place of that,
and the norm comes from the noisy products themselves. James and Stein, Estimation with
quadratic loss, 1961, for the mean.
"""

import math
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.federation.federation import Federation
from unpooled.linalg.eigen import symmetric_eigenpairs, with_positive_peaks
from unpooled.linalg.settled import orthonormal_basis, product
from unpooled.models.pca.private_certainty import (
    largest_of_block,
    share_that_is_seen,
    variance_bounds,
)
from unpooled.models.pca.private_location import Location
from unpooled.models.pca.spectrum import (
    Iteration,
    Spectrum,
    Wanted,
    check_is_number,
    mean_of_rest,
)
from unpooled.models.private_rows import (
    NOISY_MEAN,
    UNIT,
    Clipping,
    deviation_of,
    multiplied,
    promise,
)
from unpooled.protocol.bounds import LATTICE, LatticePair, lattice_steps
from unpooled.protocol.step import public, release, summed
from unpooled.secure.noise import GaussianPrivacy, Noise

# Share of ρ of the first round.
LOCATION = 0.06
# Columns of a block beyond the components wanted.
_MORE = 5


@summed(
    takes={
        "centre": NOISY_MEAN,
        "block": public(
            "p l",
            "the whole numbers of a few directions, found from totals with noise",
        ),
    },
    products=release(
        "p l",
        bound=LatticePair("block"),
        noise=Noise(LATTICE**2, 1.0),
        meaning="products of each column's deviations from a noisy mean with the "
        "scores along a few public directions, added over all rows, with noise",
    ),
)
def local_private_products(
    X: Float[Array, "n p"],
    *,
    clipping: Clipping,
    block: Float[Array, "p l"],
    score_norm: float,
    share: float,
) -> dict[str, Any]:
    """Return exact sums of whole numbers; the silo adds the declared noise to them."""
    Y, Z = multiplied(X, clipping.centre, clipping.row_norm, block, score_norm)
    # Every partial sum is a whole number below 2⁵³.
    return {"products": Y.T @ Z}


@final
@dataclass(frozen=True, eq=False)
class _Round:
    """A round's block, what it was multiplied to, and the noise of an entry."""

    block: Float[Array, "p l"]
    image: Float[Array, "p l"]
    noise: float


def by_power(
    federation: Federation,
    wanted: Wanted,
    privacy: GaussianPrivacy,
    centre: Float[Array, " p"],
    random_state: Any,
) -> Spectrum:
    """Return the leading components from products with blocks.

    Parameters
    ----------
    federation : Federation
        Rows.
    wanted : int
        Number of components; anything else is refused.
    privacy : GaussianPrivacy
        With the mechanism "power".
    centre : (p,) array
        The public centre.
    random_state : int, RandomState or None
        Seed of the first block.
    """
    p = federation.n_features
    k = check_is_number(wanted, "power", p)
    width = min(k + _MORE, p)
    clipping = Clipping.of(privacy, centre)
    location = Location.of(federation, clipping, LOCATION)
    N = location.N
    shift, lost = _shrunk_shift(location)
    radius = min(location.length(lost), 2.0 * privacy.row_norm)
    about_mean = replace(clipping, centre=centre + shift, row_norm=radius)
    start = Iteration(0.5, 1, random_state).starting_block(federation, p, width)
    rounds, scores = _iterated(federation, about_mean, start, privacy.rounds, N)

    of_one = _noise_of_products(federation, clipping, width, privacy.rounds) / N
    of_one *= math.sqrt(p) + math.sqrt(width)
    of_one /= math.sqrt(len(_later(rounds)))
    # Scores are clipped to their own length, which blocks of noise have the least of.
    least, m = of_one * math.sqrt(width / p), len(federation.parties)
    federation.coordinator.notes.append(
        share_that_is_seen(N, p, m, privacy, least, of_one)
    )
    variance, axes, noise = _components(rounds, k)
    # The largest singular value of a p × l block of noise.
    edge = noise * (math.sqrt(p) + math.sqrt(width))
    variance = np.maximum(variance, 0.0)
    total = max(radius**2, float(np.add.reduce(variance)))
    # The last block does not depend on the noise of the last round.
    last = rounds[-1]
    bounds = variance_bounds(
        product(last.block.T, last.image),
        largest_of_block(width, last.noise),
        k,
        location.mean_square(shift),
    )
    rest = total - float(np.add.reduce(variance))
    return Spectrum(
        N=N,
        mean=centre + shift,
        variance=variance,
        axes=axes,
        total=total,
        noise=mean_of_rest(rest, p - k) if k < p else 0.0,
        attributes={
            "privacy_": promise(
                privacy, federation, noise_edge=edge, radius=radius, inner_radius=scores
            ),
            "signal_to_noise_": variance / edge,
            "explained_variance_bounds_": bounds,
        },
    )


def _shrunk_shift(location: Location) -> tuple[Float[Array, " p"], float]:
    """Return the mean about the centre, shrunk, and what it takes off mean squares.

    With many columns the noise of the mean may be longer than the mean itself, and
    subtracting it would add it to every row.
    """
    shift, of_mean = location.shift, location.noise.sums / location.N
    square = float(np.add.reduce(shift * shift))
    noise = len(shift) * of_mean**2
    shrunk = max(1.0 - noise / square, 0.0) if square > 0.0 else 0.0
    return shrunk * shift, shrunk * square


def _noise_of_products(
    federation: Federation, clipping: Clipping, width: int, n_rounds: int
) -> float:
    """Return a product's noise (standard deviation), for rows and scores of norm 1."""
    share = (1.0 - LOCATION) / n_rounds
    step, rho = local_private_products, clipping.rho * share
    deviation = deviation_of(step, "products", rho, federation)
    steps = lattice_steps(federation.n_features) * lattice_steps(width)
    return deviation / steps


def _iterated(
    federation: Federation,
    clipping: Clipping,
    start: Float[Array, "p l"],
    n_rounds: int,
    N: int,
) -> tuple[list[_Round], float]:
    """Return the rounds with blocks of directions, and the norm of the next scores.

    Parameters
    ----------
    federation : Federation
        Rows.
    clipping : Clipping
        About the noisy mean, to the radius.
    start : (p, l) array
        The first block.
    n_rounds, N : int
        Their number, and the sample size.
    """
    p, width = start.shape
    radius, share = clipping.row_norm, (1.0 - LOCATION) / n_rounds
    of_one = _noise_of_products(federation, clipping, width, n_rounds)
    rounds: list[_Round] = []
    Q, scores = orthonormal_basis(start), radius * math.sqrt(width / p)
    for _ in range(n_rounds):
        block = np.rint(UNIT * Q)
        image = federation.sum(
            local_private_products,
            block=block,
            score_norm=scores,
            share=share,
            **vars(clipping),
        )["products"]
        noise = of_one * radius * scores
        rounds.append(_Round(block / UNIT, image / N, noise / N))
        Q, scores = _next_block(rounds[-1], radius)
    return rounds, scores


def _next_block(last: _Round, radius: float) -> tuple[Float[Array, "p l"], float]:
    """Return a basis of a round's image, and the root mean square score along it."""
    p, width = last.image.shape
    squares, turned = symmetric_eigenpairs(product(last.image.T, last.image), width)
    Q = orthonormal_basis(product(last.image, turned))
    # The singular values of C Q, of which noise has its part: near the largest
    # variances once the block has turned towards them, and never above them.
    values = np.sqrt(np.maximum(squares - p * last.noise**2, 0.0))
    scores = math.sqrt(float(np.add.reduce(values)))
    return Q, min(max(scores, radius * math.sqrt(width / p)), radius)


def _later(rounds: list[_Round]) -> list[_Round]:
    """Return the rounds whose blocks have turned towards the components."""
    return rounds[len(rounds) // 2 :]


def _components(
    rounds: list[_Round], k: int
) -> tuple[Float[Array, " k"], Float[Array, "p k"], float]:
    """Return variances, components, and the noise of an entry behind them."""
    later = _later(rounds)
    blocks = [part for one in later for part in (one.block, one.image)]
    # Images are scaled to the length of directions, or the basis would lose digits.
    lengths = [max(float(np.abs(part).max()), 1e-300) for part in blocks]
    scaled = [part / length for part, length in zip(blocks, lengths, strict=True)]
    # No more directions than there are columns.
    J = orthonormal_basis(np.hstack(scaled)[:, : len(scaled[0])])
    weights = [1.0 / one.noise**2 for one in later]
    C = np.zeros((J.shape[1], J.shape[1]))
    for one, weight in zip(later, weights, strict=True):
        image, block = product(J.T, one.image), product(J.T, one.block)
        seen = product(image, block.T)
        within = product(one.block.T, one.image)
        both = product(product(block, 0.5 * (within + within.T)), block.T)
        C += weight * (seen + seen.T - both)
    total = math.fsum(weights)
    values, W = symmetric_eigenpairs(C / total, k)
    axes = with_positive_peaks(orthonormal_basis(product(J, W)))
    return values, axes, 1.0 / math.sqrt(total)

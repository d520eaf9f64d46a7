"""The signs of the Yeo-Johnson likelihood's slope, by secure comparisons.

Each comparison computes the sign of a polynomial of totals with MPC; the totals are
never opened. There are four kinds:

    1  is the circular variance of φ, with period L, small?   L = 2^14, ...  ──> width
    2  on which side of a diameter is the mean direction?     each such L    ──> centre
    3  is the mean square about the centre below s²?          s = 2^10, ...  ──> spread
    4  is the likelihood's slope negative?                    K candidates   ──> λ

Comparisons 1 to 3, a batch each, determine a reference for any column, 1e6 ± 10 as well
as 1e-12. They are circular statistics: φ is wrapped around circles of period L, where
the length of the mean resultant vector says whether the rows lie close together, and
its direction where they lie, modulo L. The finest such circle determines the centre to
a fraction of the spread, and coarser ones the number of turns.

Only signs are released: 1 to 3 reveal centre and spread coarsely, 4 the cell of λ.

References
----------
Marchand et al., SecureFedYJ, NeurIPS 2022, section 4; the sign is that of equation (3),
of sums about zero there, at one λ at a time (Algorithms 1 and 2). The reference, and K
candidates at a time, are additions of this library.
"""

from typing import Any, final

import numpy as np

from unpooled.arrays import Array, Bool, Float, Int
from unpooled.federation.federation import Federation
from unpooled.linalg.root_search import SignSearch, candidate, candidates_for
from unpooled.linalg.yeo_johnson import ObservedColumn, Reference, log_size, slope_sums
from unpooled.models.moments import OBSERVED
from unpooled.models.preprocessing.pooled_lambda import (
    Columns,
    Comparison,
    pooled_count,
)
from unpooled.protocol.step import Polynomial, compared, public, release

# Exponents of the periods. |φ| is at most 710, so that on the widest circle even rows
# at both ends lie on the same side.
_WIDEST, _FINEST = 14, -44
# Squared length of the mean resultant vector from which rows count as close together:
# each halving of the period then turns the direction by less than a tenth of a circle,
# so that the quadrant on every circle determines the turn on the next one, whatever the
# distribution.
_CLOSE = 0.85
# Directions on the finest circle: sectors of 1/32 turn.
_DIRECTIONS = 16
# Exponent of the standard deviation of φ, over max(1, |centre|), that is only rounding.
_NARROWEST = -46
# Exponent of the largest size with which the spread is compared.
_BROADEST = 10
# Exponents between the period of the finest circle and the smallest spread on it.
_BELOW_FINEST = 7
# Mean squares are cut off here, so that they fit the bits of the comparison.
_MOST_SQUARES = 2.0**8
# Fewer batches would save rounds and take more of the silos' time, which work on all
# rows for each candidate; larger ones would take more of the processes' time.
_FEWEST_BATCHES, _AT_ONCE = 8, 600
_FEWEST_CANDIDATES = 3

# Number of cells of an intermediate array.
_CELLS = 2**15

COLUMN = public("l", "the column of each comparison")
_PERIOD = public("l", "the period modulo which a column's logarithms are compared")
_LENGTH = Polynomial(
    {("across", "across"): 1.0, ("along", "along"): 1.0, (): -_CLOSE},
    {"across": 1, "along": 1},
    fraction=20,
    bits=63,
)
_SIDE = Polynomial({("along",): 1.0}, {"along": 1}, fraction=40, bits=63)
_WIDTH = Polynomial({("squares",): 1.0, (): -1.0}, {"squares": 1}, 30, bits=63)
# F = u (squares - psi²) - (products - psi slope), of means over all rows.
_SLOPE = Polynomial(
    {
        ("u", "squares"): 1.0,
        ("u", "psi", "psi"): -1.0,
        ("products",): -1.0,
        ("psi", "slope"): 1.0,
    },
    {"u": 1, "psi": 1, "squares": 2, "slope": 1, "products": 2},
    fraction=33,
    bits=207,
)


@compared(
    _LENGTH,
    takes={"count": OBSERVED, "column": COLUMN, "period": _PERIOD},
    apart=release(
        "l",
        meaning="whether a column's logarithms are dispersed, relative to one period",
    ),
)
def compared_lengths(
    X: Float[Array, "n p"],
    *,
    count: Float[Array, " p"],
    column: Int[Array, " l"],
    period: Float[Array, " l"],
) -> dict[str, Any]:
    """Return the silo's parts of the mean resultant vectors of φ on circles."""
    along, across = np.zeros((2, len(column)))
    for j, own, phi in _by_column(X, column):
        turns = _turns(phi, period[own])
        along[own] = np.cos(turns).sum(axis=1) / count[j]
        across[own] = np.sin(turns).sum(axis=1) / count[j]
    return {"along": along, "across": across}


@compared(
    _SIDE,
    takes={
        "count": OBSERVED,
        "column": COLUMN,
        "period": _PERIOD,
        "angle": public(
            "l", "the direction with which a column's logarithms are compared"
        ),
    },
    beyond=release(
        "l",
        meaning="on which side of a point a column's logarithms lie, modulo one period",
    ),
)
def compared_sides(
    X: Float[Array, "n p"],
    *,
    count: Float[Array, " p"],
    column: Int[Array, " l"],
    period: Float[Array, " l"],
    angle: Float[Array, " l"],
) -> dict[str, Any]:
    """Return the silo's parts of the mean cosines of φ from directions of circles."""
    along = np.zeros(len(column))
    for j, own, phi in _by_column(X, column):
        turns = _turns(phi, period[own]) - angle[own][:, None]
        along[own] = np.cos(turns).sum(axis=1) / count[j]
    return {"along": along}


@compared(
    _WIDTH,
    takes={
        "count": OBSERVED,
        "centre": public("p", "where each column lies, on a logarithmic scale"),
        "column": COLUMN,
        "size": public(
            "l", "the power of 2 with which each column's spread is compared"
        ),
    },
    narrower=release(
        "l", meaning="whether a column's logarithms are less spread than a power of 2"
    ),
)
def compared_widths(
    X: Float[Array, "n p"],
    *,
    count: Float[Array, " p"],
    centre: Float[Array, " p"],
    column: Int[Array, " l"],
    size: Float[Array, " l"],
) -> dict[str, Any]:
    """Return the silo's parts of the mean squares about the centre, over size²."""
    squares = np.zeros(len(column))
    for j in np.unique(column):
        own = column == j
        u = ObservedColumn(X[:, j], Reference(float(centre[j]), 1.0)).u
        squares[own] = [(u / s) @ (u / s) / count[j] for s in size[own]]
    return {"squares": np.minimum(squares, _MOST_SQUARES)}


@compared(
    _SLOPE,
    takes={
        "count": OBSERVED,
        "centre": public("p", "where each column lies, on a logarithmic scale"),
        "spread": public("p", "how far each column is spread, on a logarithmic scale"),
        "column": COLUMN,
        "lam": public("l", "candidate exponents λ"),
    },
    falling=release(
        "l", meaning="whether a column's λ lies below a candidate, by its likelihood"
    ),
)
def compared_slopes(
    X: Float[Array, "n p"],
    *,
    count: Float[Array, " p"],
    centre: Float[Array, " p"],
    spread: Float[Array, " p"],
    column: Int[Array, " l"],
    lam: Float[Array, " l"],
) -> dict[str, Any]:
    """Return the silo's parts of the means that determine the slope at candidates."""
    means = slope_sums(X, centre, spread, column, lam) / count[column]
    return dict(zip(("u", "psi", "squares", "slope", "products"), means, strict=True))


@final
class SignsInSecret(Comparison):
    """Signs by secure comparisons; only signs are opened."""

    def references(self, federation: Federation) -> Columns:
        """Return counts and references; one round, then three batches of signs."""
        count = pooled_count(federation)
        N = count.astype(float)
        finest = _finest_circles(federation, N)
        centre = _centres(federation, N, finest)
        spread = _spreads(federation, N, centre, finest)
        return Columns(count, centre, spread)

    def fits(
        self, federation: Federation, columns: Columns, factor: float
    ) -> Bool[Array, " p"]:
        """Return the columns near their declared references; one batch."""
        narrower = federation.compare(
            compared_widths,
            count=columns.count.astype(float),
            centre=columns.centre,
            column=np.repeat(np.arange(len(columns.count)), 2),
            size=(columns.spread[:, None] * [1.0 / factor, factor]).ravel(),
        ).reshape(-1, 2)
        return ~narrower[:, 0] & narrower[:, 1]

    def search(self, n_columns: int, tol: float) -> SignSearch:
        """Return a search with the fewest batches that are not slow to compute."""
        batches = _FEWEST_BATCHES
        K = candidates_for(tol, batches)
        while n_columns * K > _AT_ONCE and K > _FEWEST_CANDIDATES:
            batches += 1
            K = candidates_for(tol, batches)
        return SignSearch(n_columns, tol, K)

    def slopes(
        self,
        federation: Federation,
        columns: Columns,
        column: Int[Array, " l"],
        place: Float[Array, " l"],
    ) -> Bool[Array, " l"]:
        """Return whether the likelihood rises at candidates of λ."""
        return ~federation.compare(
            compared_slopes,
            count=columns.count.astype(float),
            centre=columns.centre,
            spread=columns.spread,
            column=column,
            lam=candidate(place) / columns.spread[column],
        )


def _finest_circles(federation: Federation, N: Float[Array, " p"]) -> Int[Array, " p"]:
    """Return the exponent of the finest circle on which rows are close together."""
    exponents = np.arange(_WIDEST, _FINEST - 1, -1)
    apart = federation.compare(
        compared_lengths,
        count=N,
        column=np.repeat(np.arange(len(N)), len(exponents)),
        period=np.tile(np.exp2(exponents), len(N)),
    )
    close = ~apart.reshape(len(N), -1)
    if federation.coordinator.planned:
        close = np.broadcast_to(exponents >= 2, close.shape)
    # On finer circles rows may lie close together by wrapping, so that only the
    # unbroken run from the widest circle counts.
    run = np.logical_and.accumulate(close, axis=1).sum(axis=1)
    return _WIDEST + 1 - np.maximum(run, 1)


def _centres(
    federation: Federation, N: Float[Array, " p"], finest: Int[Array, " p"]
) -> Float[Array, " p"]:
    """Return the circular mean of each column, with its number of turns."""
    quadrants = np.array([0.0, np.pi / 2])
    sectors = np.arange(_DIRECTIONS) * np.pi / _DIRECTIONS
    circles = [
        (j, float(2.0**exponent), sectors if exponent == last else quadrants)
        for j, last in enumerate(finest.tolist())
        for exponent in range(_WIDEST, last - 1, -1)
    ]
    sizes = [len(angles) for _, _, angles in circles]
    beyond = federation.compare(
        compared_sides,
        count=N,
        column=np.repeat([j for j, _, _ in circles], sizes),
        period=np.repeat([period for _, period, _ in circles], sizes),
        angle=np.concatenate([angles for _, _, angles in circles]),
    )
    centre = np.zeros(len(N))
    parts = np.split(beyond, np.cumsum(sizes)[:-1])
    for (j, period, angles), negative in zip(circles, parts, strict=True):
        signs = np.where(negative, -1.0, 1.0)
        # In turns; the resultant of the half-planes' normals bisects their sector.
        direction = np.angle(signs @ np.exp(1j * angles)) / (2.0 * np.pi)
        turn = np.rint(centre[j] / period - direction)
        centre[j] = (direction + turn) * period
    return centre


def _spreads(
    federation: Federation,
    N: Float[Array, " p"],
    centre: Float[Array, " p"],
    finest: Int[Array, " p"],
) -> Float[Array, " p"]:
    """Return the least power of two above each column's spread; 0 for constants."""
    floor = np.ceil(np.log2(np.maximum(np.abs(centre), 1.0))).astype(int) + _NARROWEST
    first = np.maximum(finest - _BELOW_FINEST, floor)
    exponents = [np.arange(e, _BROADEST + 1) for e in first.tolist()]
    column = np.repeat(np.arange(len(N)), [len(own) for own in exponents])
    narrower = federation.compare(
        compared_widths,
        count=N,
        centre=centre,
        column=column,
        size=np.exp2(np.concatenate(exponents)),
    )
    if federation.coordinator.planned:
        return np.ones(len(N))
    spread = np.zeros(len(N))
    for j, own in enumerate(exponents):
        enough: Bool[Array, " s"] = narrower[column == j]
        constant = enough[0] and own[0] == floor[j]
        spread[j] = 0.0 if constant else 2.0 ** int(own[int(enough.argmax())])
    return spread


def _by_column(X: Float[Array, "n p"], column: Int[Array, " l"]) -> Any:
    """Yield each column, some of its comparisons, and φ of its observed cells."""
    for j in np.unique(column):
        x = X[:, j]
        phi, own = log_size(x[~np.isnan(x)]), np.flatnonzero(column == j)
        # As many circles at a time as stay in the cache.
        at_once = max(_CELLS // max(len(phi), 1), 1)
        for first in range(0, len(own), at_once):
            yield j, own[first : first + at_once], phi


def _turns(phi: Float[Array, " n"], period: Float[Array, " l"]) -> Float[Array, "l n"]:
    # fmod is exact; φ / period would lose the digits of the angle.
    return np.fmod(phi, period[:, None]) * (2.0 * np.pi / period)[:, None]

"""Yeo-Johnson's λ from signs alone: what is compared in secret, and what it tells.

    1  is φ within a narrow part of the period L?   L = 2^14, 2^13, ...  ──> its width
    2  on which side of the circle φ mod L lies?    from the widest L down ──> centre
    3  are squares about the centre below s²?       s = 2^10, 2^9, ...     ──> spread
    4  is the likelihood's slope negative?          K candidates a batch   ──> λ

Three batches find a reference for any column, 1e6 ± 10 as well as 1e-12: φ is wrapped
round circles of period L, where the resultant's length says whether rows lie close
together, and its direction where they lie, modulo L. The finest such circle places the
centre to a fraction of the spread, and coarser ones say which turn it is on.

Released are signs: 1 to 3 tell centre and spread coarsely, 4 the cell of λ.

References
----------
Marchand et al., SecureFedYJ, NeurIPS 2022, algorithm 2. There values are compared with
fixed precision about zero; the reference, and K candidates at a time, are ours.
"""

from typing import Any

import numpy as np

from unpooled.arrays import Array, Bool, Float, Int
from unpooled.federation.federation import Federation
from unpooled.linalg.root_search import SignSearch, candidate, candidates_for
from unpooled.linalg.yeo_johnson import Column, Reference, log_size
from unpooled.models.preprocessing.pooled_lambda import (
    Columns,
    check_finite,
    checked_count,
)
from unpooled.protocol.step import (
    Polynomial,
    Step,
    compared,
    public,
    release,
    summed,
)

# φ is at most 710; two silos at both ends are still on one side of the widest circle.
_WIDEST, _FINEST = 14, -44
# Squared length of the resultant from which rows are close together: each halving of
# the period then turns the direction by less than a tenth of a circle, so that the
# quadrant on every circle tells the turn on the next, whatever the distribution.
_CLOSE = 0.85
# Directions on the finest circle: sectors of 1/32 turn.
_DIRECTIONS = 16
# A spread of φ below this, times max(1, |centre|), is rounding.
_NARROWEST = -46
_CELLS = 2.0**8
# Comparisons in a batch that take about as long to compute as to be carried.
_AT_ONCE = 400
_FEWEST_CANDIDATES = 3

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


@summed(count=release("p", meaning="how many rows have a value in each column"))
def local_count(X: Float[Array, "n p"]) -> dict[str, Any]:
    """Count the cells that are there."""
    check_finite(X)
    return {"count": (~np.isnan(X)).sum(axis=0).astype(float)}


@compared(
    _LENGTH,
    takes={
        "count": public("p", "how many values each column has"),
        "column": public("l", "which column each comparison is about"),
        "period": public(
            "l", "the width of the scale on which a column's logarithms are compared"
        ),
    },
    apart=release(
        "l", meaning="whether a column's logarithms lie close together, at one scale"
    ),
)
def compared_lengths(
    X: Float[Array, "n p"],
    *,
    count: Float[Array, " p"],
    column: Int[Array, " l"],
    period: Float[Array, " l"],
) -> dict[str, Any]:
    """Add directions of φ on circles."""
    along, across = np.zeros((2, len(column)))
    for j, own, phi in _by_column(X, column):
        turns = _turns(phi, period[own])
        along[own] = np.cos(turns).sum(axis=1) / count[j]
        across[own] = np.sin(turns).sum(axis=1) / count[j]
    return {"along": along, "across": across}


@compared(
    _SIDE,
    takes={
        "count": public("p", "how many values each column has"),
        "column": public("l", "which column each comparison is about"),
        "period": public(
            "l", "the width of the scale on which a column's logarithms are compared"
        ),
        "angle": public(
            "l", "the point on that scale with which logarithms are compared"
        ),
    },
    beyond=release(
        "l", meaning="on which side of a point a column's logarithms lie, at one scale"
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
    """Add how far φ lies along a direction of a circle."""
    along = np.zeros(len(column))
    for j, own, phi in _by_column(X, column):
        turns = _turns(phi, period[own]) - angle[own][:, None]
        along[own] = np.cos(turns).sum(axis=1) / count[j]
    return {"along": along}


@compared(
    _WIDTH,
    takes={
        "count": public("p", "how many values each column has"),
        "centre": public("p", "where each column lies, on a logarithmic scale"),
        "column": public("l", "which column each comparison is about"),
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
    """Add squares about the centre, in units of a size squared."""
    squares = np.zeros(len(column))
    for j in np.unique(column):
        own = column == j
        u = Column(X[:, j], Reference(float(centre[j]), 1.0)).u
        squares[own] = [(u / s) @ (u / s) / count[j] for s in size[own]]
    return {"squares": np.minimum(squares, _CELLS)}


@compared(
    _SLOPE,
    takes={
        "count": public("p", "how many values each column has"),
        "centre": public("p", "where each column lies, on a logarithmic scale"),
        "spread": public("p", "how far each column is spread, on a logarithmic scale"),
        "column": public("l", "which column each comparison is about"),
        "lam": public("l", "candidate exponents of columns"),
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
    """Add what the slope of the likelihood is made of, at each candidate."""
    means = np.empty((5, len(column)))
    for j in np.unique(column):
        rows = Column(X[:, j], Reference(float(centre[j]), float(spread[j])))
        own = column == j
        means[:, own] = rows.slope_sums(lam[own]) / count[j]
    return dict(zip(("u", "psi", "squares", "slope", "products"), means, strict=True))


def compared_columns(
    federation: Federation, counts: Step, lengths: Step, sides: Step, widths: Step
) -> Columns:
    """Find counts by a secure sum, and references by three batches of signs.

    Parameters
    ----------
    federation : Federation
        Rows, cells missing or not.
    counts, lengths, sides, widths : Step
        `local_count`, `compared_lengths`, `compared_sides` and `compared_widths` under
        the model's name.
    """
    count = checked_count(federation.sum(counts)["count"], federation)
    N = count.astype(float)
    finest = _finest(federation, lengths, N)
    centre = _centres(federation, sides, N, finest)
    spread = _spreads(federation, widths, N, centre, finest)
    return Columns(count, centre, spread)


def compared_signs(federation: Federation, columns: Columns, slopes: Step) -> Any:
    """Return what tells, for columns and places, where the slope is positive."""
    count = columns.count.astype(float)

    def positive(column: Int[Array, " l"], place: Float[Array, " l"]) -> Any:
        return ~federation.compare(
            slopes,
            count=count,
            centre=columns.centre,
            spread=columns.spread,
            column=column,
            lam=candidate(place) / columns.spread[column],
        )

    return positive


def compared_search(d: int, tol: float) -> SignSearch:
    """Return a search whose batches are as large as pays."""
    batches = 3
    while d * (K := candidates_for(tol, batches)) > _AT_ONCE and (
        K > _FEWEST_CANDIDATES
    ):
        batches += 1
    return SignSearch(d, tol, K)


def _finest(
    federation: Federation, lengths: Step, N: Float[Array, " p"]
) -> Int[Array, " p"]:
    """Return the exponent of the finest circle on which rows are close together."""
    exponents = np.arange(_WIDEST, _FINEST - 1, -1)
    column = np.repeat(np.arange(len(N)), len(exponents))
    period = np.tile(np.exp2(exponents), len(N))
    apart = federation.compare(lengths, count=N, column=column, period=period)
    close = ~apart.reshape(len(N), -1)
    if federation.coordinator.planned:
        close = np.broadcast_to(exponents >= 2, close.shape)
    # Finer circles may have rows close together by wrapping: only the run counts.
    run = np.logical_and.accumulate(close, axis=1).sum(axis=1)
    return _WIDEST + 1 - np.maximum(run, 1)


def _centres(
    federation: Federation,
    sides: Step,
    N: Float[Array, " p"],
    finest: Int[Array, " p"],
) -> Float[Array, " p"]:
    """Return the mean direction of each column, turn by turn."""
    fine = np.arange(_DIRECTIONS) * np.pi / _DIRECTIONS
    plan = [
        (j, float(2.0**e), fine if e == last else np.array([0.0, np.pi / 2]))
        for j, last in enumerate(finest.tolist())
        for e in range(_WIDEST, last - 1, -1)
    ]
    sizes = [len(angles) for _, _, angles in plan]
    beyond = federation.compare(
        sides,
        count=N,
        column=np.repeat([j for j, _, _ in plan], sizes),
        period=np.repeat([period for _, period, _ in plan], sizes),
        angle=np.concatenate([angles for _, _, angles in plan]),
    )
    centre = np.zeros(len(N))
    parts = np.split(beyond, np.cumsum(sizes)[:-1])
    for (j, period, angles), negative in zip(plan, parts, strict=True):
        signs = np.where(negative, -1.0, 1.0)
        towards = np.angle(signs @ np.exp(1j * angles)) / (2.0 * np.pi)
        turn = np.rint(centre[j] / period - towards)
        centre[j] = (towards + turn) * period
    return centre


def _spreads(
    federation: Federation,
    widths: Step,
    N: Float[Array, " p"],
    centre: Float[Array, " p"],
    finest: Int[Array, " p"],
) -> Float[Array, " p"]:
    """Return the least power of two above each column's spread; 0 for constants."""
    floor = np.ceil(np.log2(np.maximum(np.abs(centre), 1.0))).astype(int) + _NARROWEST
    first = np.maximum(finest - 7, floor)
    exponents = [np.arange(e, 11) for e in first.tolist()]
    column = np.repeat(np.arange(len(N)), [len(own) for own in exponents])
    size = np.exp2(np.concatenate(exponents))
    narrower = federation.compare(
        widths, count=N, centre=centre, column=column, size=size
    )
    spread = np.zeros(len(N))
    for j, own in enumerate(exponents):
        enough: Bool[Array, " s"] = narrower[column == j]
        e = int(own[int(enough.argmax())])
        spread[j] = 0.0 if enough[0] and own[0] == floor[j] else 2.0**e
    return spread if not federation.coordinator.planned else np.ones(len(N))


def _by_column(X: Float[Array, "n p"], column: Int[Array, " l"]) -> Any:
    """Yield each column asked for, its entries, and φ of its cells that are there."""
    for j in np.unique(column):
        x = X[:, j]
        yield j, column == j, log_size(x[~np.isnan(x)])


def _turns(phi: Float[Array, " n"], period: Float[Array, " l"]) -> Float[Array, "l n"]:
    # fmod is exact: φ / period would have lost the digits of the angle.
    return np.fmod(phi, period[:, None]) * (2.0 * np.pi / period)[:, None]

"""The slope of the Yeo-Johnson likelihood, from totals over all silos.

    round 1       silos ── the number of observed cells of each column ──> counts
    rounds 2, 3   silos ── the sum of φ, then squared deviations ──> centre, spread
    each batch    silos <── K candidates for each column's λ
                  silos ── Σ u, Σ ψ^, Σ ψ^², Σ ψ^', Σ ψ^ ψ^' at each ──> the slope

The totals are opened, so everybody sees them. Therefore few are: the search goes by
the slopes' values, and needs some 10 candidates of each column, 50 totals, where signs
alone would take 120 candidates. Each silo judges the counts before it sends any of the
sums. `unpooled.linalg.yeo_johnson` defines φ, u, ψ^ and F; `pooled_lambda` searches λ.

References
----------
Marchand et al., SecureFedYJ: a safe feature Gaussianization protocol for Federated
Learning, NeurIPS 2022, equation (3), whose sums are opened here; its section 4 compares
them in secret, as `signs_in_secret` does.
"""

from typing import Any, final

import numpy as np

from unpooled.arrays import Array, Bool, Float, Int
from unpooled.federation.federation import Federation
from unpooled.linalg.moments import observed_sums, squared_deviations
from unpooled.linalg.root_search import SignSearch, candidate
from unpooled.linalg.yeo_johnson import log_size, slope, slope_sums
from unpooled.models.moments import OBSERVED, check_finite
from unpooled.models.preprocessing.pooled_lambda import (
    Columns,
    Comparison,
    pooled_count,
)
from unpooled.protocol.step import public, release, summed

# Candidates for each column in a batch: 5 to 7 batches for 2^-27.
_CANDIDATES = 2
# A standard deviation of φ below this many units in the last place of φ is rounding.
_ROUNDING = 16.0 * float(np.finfo(float).eps)


@summed(
    takes={"count": OBSERVED},
    total=release(
        "p",
        meaning="the sum of each column's signed logarithms, sgn(x) log(1 + abs(x))",
    ),
)
def local_log_sizes(
    X: Float[Array, "n p"], *, count: Float[Array, " p"]
) -> dict[str, Any]:
    """Return the sums of φ over the observed cells."""
    check_finite(X)
    return {"total": observed_sums(log_size(X))[1]}


@summed(
    takes={
        "count": OBSERVED,
        "mean": public(
            "p", "the mean of each column's signed logarithms over all silos"
        ),
    },
    squares=release(
        "p",
        meaning="the squared deviations of those logarithms from their mean, added",
    ),
)
def local_log_squares(
    X: Float[Array, "n p"], *, count: Float[Array, " p"], mean: Float[Array, " p"]
) -> dict[str, Any]:
    """Return the sums of squared deviations of φ from the federation's mean of φ."""
    return {"squares": squared_deviations(log_size(X), mean)}


@summed(
    takes={
        "count": OBSERVED,
        "centre": public("p", "where each column lies, on a logarithmic scale"),
        "spread": public("p", "how far each column is spread, on a logarithmic scale"),
        "column": public("l", "the column of each candidate"),
        "lam": public("l", "candidate exponents λ"),
    },
    sums=release(
        "5 l",
        meaning="five sums at each candidate for each column's λ: of logarithms, of "
        "transformed values, their squares, their derivatives by λ, and values times "
        "derivatives",
    ),
)
def local_slopes(
    X: Float[Array, "n p"],
    *,
    count: Float[Array, " p"],
    centre: Float[Array, " p"],
    spread: Float[Array, " p"],
    column: Int[Array, " l"],
    lam: Float[Array, " l"],
) -> dict[str, Any]:
    """Return the five sums that determine the likelihood's slope at each candidate."""
    return {"sums": slope_sums(X, centre, spread, column, lam)}


@final
class SignsByTotals(Comparison):
    """Signs from totals that are opened; one round for each batch."""

    def references(self, federation: Federation) -> Columns:
        """Return counts and references from the moments of φ; three rounds."""
        count = pooled_count(federation)
        N = count.astype(float)
        mean = federation.sum(local_log_sizes, count=N)["total"] / N
        squares = federation.sum(local_log_squares, count=N, mean=mean)["squares"]
        spread = np.sqrt(squares / count)
        # The mean of equal numbers may differ from them by rounding.
        constant = spread <= _ROUNDING * np.abs(mean)
        spread = np.exp2(np.rint(np.log2(np.where(constant, 1.0, spread))))
        return Columns(count, mean, np.where(constant, 0.0, spread))

    def fits(
        self, federation: Federation, columns: Columns, factor: float
    ) -> Bool[Array, " p"]:
        """Return the columns near their declared references; one round."""
        count, mean = columns.count.astype(float), columns.centre
        total = federation.sum(local_log_squares, count=count, mean=mean)["squares"]
        distance = np.sqrt(np.maximum(total, 0.0) / columns.count)
        ratio = distance / columns.spread
        return (ratio >= 1.0 / factor) & (ratio < factor)

    def search(self, n_columns: int, tol: float) -> SignSearch:
        """Return a search by values, with 2 candidates for each column in a batch."""
        return SignSearch(n_columns, tol, _CANDIDATES, by_values=True)

    def slopes(
        self,
        federation: Federation,
        columns: Columns,
        column: Int[Array, " l"],
        place: Float[Array, " l"],
    ) -> Float[Array, " l"]:
        """Return the likelihood's slope at candidates of λ; one round."""
        sums = federation.sum(
            local_slopes,
            count=columns.count.astype(float),
            centre=columns.centre,
            spread=columns.spread,
            column=column,
            lam=candidate(place) / columns.spread[column],
        )["sums"]
        return slope(sums / columns.count[column])

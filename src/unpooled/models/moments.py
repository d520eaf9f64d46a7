"""Moments of the pooled rows by secure sums: what most models on rows stand on.

    round 1   silos ── N, feature sums ──────────────────────────────> mean
    round 2   silos <── mean ──   each forms its scatter about it, keeps it,
              silos ── the diagonal ─────────────────────────────────> squares
    round 3   silos <── squares ── silos ── the triangle, in units of
              sqrt(squares_j squares_k), which bounds it ────────────> scatter

The rows are read twice and never centred in whole. Where cells are missing, counts and
sums are by column.

References
----------
Pooled Covariance PCA (P-COV) for Distributed/Federated Learning, sections 3 to 5:
C = (1/N) Σ n_i [C_i + (μ_i - μ)(μ_i - μ)ᵀ]. There each silo's n_i, μ_i and C_i are sent
in clear; here the same C is reached without any of them being seen, by forming scatters
about the pooled mean.
"""

from typing import Any

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.errors import DataError
from unpooled.federation.base import Federation
from unpooled.linalg.moments import column_sums, observed_sums, scatter
from unpooled.party.bounds import CauchySchwarz
from unpooled.party.step import Step, kept, release, stays, summed


@summed(
    count=release("p", meaning="how many rows have a value in each column"),
    total=release("p", meaning="the sum of each column's values"),
)
def local_observed(X: Float[Array, "n p"]) -> dict[str, Any]:
    """Count and add the cells that are there."""
    count, total = observed_sums(X)
    return {"count": count, "total": total}


@kept(
    count=stays(
        "p", meaning="how many rows have a value in each of the silo's columns"
    ),
    total=stays("p", meaning="the sum of each of the silo's columns"),
)
def own_observed(X: Float[Array, "n p"]) -> dict[str, Any]:
    """Count and add, on a column partition, the cells of the silo's own columns."""
    count, total = observed_sums(X)
    return {"count": count, "total": total}


@summed(
    count=release("", meaning="how many rows there are"),
    total=release("p", meaning="the sum of each column"),
)
def local_total(X: Float[Array, "n p"]) -> dict[str, Any]:
    """Count and add this silo's rows."""
    total = column_sums(X)
    if not np.isfinite(total).all():
        missing = bool(np.isnan(X).any())
        raise DataError(
            "This model takes no missing or infinite values; impute first.",
            rule="missing_values" if missing else "infinite_values",
        )
    return {"count": np.array(len(X), float), "total": total}


@summed(
    takes={"mean": "p"},
    squares=release(
        "p", meaning="each column's squared distances from its mean, added"
    ),
    scatter=stays(
        "p p",
        symmetric=True,
        until="fit",
        meaning="products of every two columns' distances from their means, added",
    ),
)
def local_squares(
    X: Float[Array, "n p"], *, mean: Float[Array, " p"]
) -> dict[str, Any]:
    """Form the scatter about the federation's mean; release its diagonal."""
    S = scatter(X, mean)
    return {"squares": S.diagonal().copy(), "scatter": S}


@summed(
    takes={"squares": "p"},
    scatter=release(
        "p p",
        symmetric=True,
        bound=CauchySchwarz("squares"),
        meaning="products of every two columns' distances from their means, added",
    ),
)
def local_scatter(kept: Any, *, squares: Float[Array, " p"]) -> dict[str, Any]:
    """Release the scatter that was kept; no row is read again."""
    return {"scatter": kept.triangle("scatter")}


def pooled_mean(federation: Federation, total: Step) -> tuple[int, Float[Array, " p"]]:
    """Return N and the mean of all rows; one round.

    Parameters
    ----------
    federation : Federation
        Rows without missing cells.
    total : Step
        `local_total` under the model's name (`adopted`).

    Raises
    ------
    DataError
        With fewer than two rows in all.
    """
    totals = federation.sum(total)
    N = round(float(totals["count"]))
    if N < 2:
        raise DataError("A variance needs at least 2 rows over all silos.")
    return N, totals["total"] / N


def pooled_scatter(
    federation: Federation, mean: Float[Array, " p"], squares: Step, scatter: Step
) -> Float[Array, "p p"]:
    """Return the scatter about the mean of all rows, undivided; two rounds.

    Parameters
    ----------
    federation : Federation
        As of `pooled_mean`.
    mean : (p,) array
        What that returned.
    squares, scatter : Step
        `local_squares` and `local_scatter` under the model's name.
    """
    bound = federation.sum(squares, mean=mean)["squares"]
    return federation.sum(scatter, squares=bound)["scatter"]

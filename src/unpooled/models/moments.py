"""Moments of the pooled rows by secure sums: the first rounds of most models on rows.

    round 1   silos ── N, column sums ───────────────────────────────> mean
    round 2   silos <── mean ──   each forms its scatter about it, keeps it,
              silos ── the diagonal ─────────────────────────────────> squares
    round 3   silos <── squares ── silos ── the triangle, in units of
              sqrt(squares_j squares_k), which bounds it ────────────> scatter

The scatter is the cross-product matrix of the rows about their mean. The rows are read
twice and never centred in whole; a silo's column sums serve both rounds. N and the
column sums come together: each silo has `min_rows` rows of its own, or refuses, so that
N cannot be small. Where cells are missing, counts and sums are by column, and a column
may have few values in all silos together. So the counts are a round before the sums,
which every silo keeps until it has judged them (`local_counts`, `local_observed`).

References
----------
Pooled Covariance PCA (P-COV) for Distributed/Federated Learning, sections 3 to 5:
C = (1/N) Σ n_i [C_i + (μ_i - μ)(μ_i - μ)ᵀ]. There each silo's n_i, μ_i and C_i are sent
in clear. Here silos form scatters about the pooled mean, whose sum is N C, and none of
these is seen.
"""

from typing import Any

import numpy as np

from unpooled.arrays import Array, Float, Int
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.linalg.moments import (
    Rows,
    Sums,
    column_sums,
    has_missing,
    observed_sums,
    scatter,
)
from unpooled.protocol.bounds import CauchySchwarz
from unpooled.protocol.step import kept, public, release, stays, summed

# Relative to N mean²: the sum of squares of a constant column is rounding of its mean.
_ROUNDING = float(np.finfo(float).eps) ** 2


# In the words of the ledger, for all estimators that release or receive them.
MEAN = public("p", "the mean of each column over all silos")
SQUARES = "sum of squares of each column (squared deviations from its mean)"
PRODUCTS = (
    "cross-product matrix (products of every two columns' deviations from their means, "
    "added over all rows)"
)
_OBSERVED = "column sums over the cells that have a value"
OBSERVED = public(
    "p", "number of rows with a value in each column, over all silos", counts="cells"
)


@summed(
    within_silos=True,
    count=release(
        "p", meaning="number of rows with a value in each column", counts="cells"
    ),
    total=stays("p", until="fit", meaning=_OBSERVED),
)
def local_counts(X: Float[Array, "n p"]) -> dict[str, Any]:
    """Count this silo's cells that have a value; keep their column sums."""
    count, total = observed_sums(X)
    return {"count": count, "total": total}


@summed(
    within_silos=True, takes={"count": OBSERVED}, total=release("p", meaning=_OBSERVED)
)
def local_observed(kept: Any, *, count: Float[Array, " p"]) -> dict[str, Any]:
    """Release the column sums that `local_counts` kept; no row is read again."""
    return {"total": kept["total"]}


def pooled_sums(
    federation: Federation,
) -> tuple[Float[Array, " p"], Float[Array, " p"]]:
    """Return the number of observed cells of each column and their sum; two rounds.

    Parameters
    ----------
    federation : Federation
        Rows, cells missing or not. The model that asks lists `local_counts` and
        `local_observed` in `_steps`.

    Raises
    ------
    ReleaseRefusedError
        Where too few rows have a value in a column: in one silo, or in all together.
    """
    count = np.rint(federation.sum(local_counts)["count"])
    return count, federation.sum(local_observed, count=count)["total"]


@kept(
    count=stays(
        "p",
        meaning="number of rows with a value in each of the silo's own columns",
        counts="cells",
    ),
    total=stays("p", meaning="sums of the silo's own columns"),
)
def own_observed(X: Float[Array, "n p"]) -> dict[str, Any]:
    """Keep, on a column partition, counts and sums of the silo's own columns."""
    count, total = finite_observed_sums(X)
    return {"count": count, "total": total}


def finite_observed_sums(
    X: Float[Array, "n p"],
) -> tuple[Int[Array, " p"], Float[Array, " p"]]:
    """Return `observed_sums` that a silo keeps; refuse infinite cells."""
    count, total = observed_sums(X)
    if not np.isfinite(total).all():
        # Nothing of it leaves, where it would be refused.
        raise DataError("A cell is infinite, or too large.", rule="infinite_values")
    return count, total


@summed(
    within_silos=True,
    sparse=True,
    count=release("", meaning="sample size (number of rows)"),
    total=release("p", meaning="column sums (each column added over all rows)"),
)
def local_total(X: Rows, sums: Sums = None) -> dict[str, Any]:
    """Return this silo's number of rows and column sums."""
    return {"count": np.array(X.shape[0], float), "total": finite_sums(X, sums)}


@summed(
    within_silos=True,
    takes={"mean": MEAN},
    squares=release("p", meaning=SQUARES),
    scatter=stays(
        "p p",
        symmetric=True,
        until="fit",
        meaning=PRODUCTS,
    ),
)
def local_squares(
    X: Float[Array, "n p"], sums: Sums = None, *, mean: Float[Array, " p"]
) -> dict[str, Any]:
    """Keep this silo's scatter about the mean of all rows; release its diagonal."""
    S = scatter(X, mean, sums)
    return {"squares": S.diagonal().copy(), "scatter": S}


@summed(
    within_silos=True,
    takes={"squares": public("p", SQUARES)},
    scatter=release(
        "p p",
        symmetric=True,
        bound=CauchySchwarz("squares"),
        meaning=PRODUCTS,
    ),
)
def local_scatter(kept: Any, *, squares: Float[Array, " p"]) -> dict[str, Any]:
    """Release the scatter kept by `local_squares`; no row is read again."""
    return {"scatter": kept.triangle("scatter")}


def finite_sums(X: Rows, sums: Sums = None) -> Float[Array, " p"]:
    """Return column sums; refuse missing and infinite cells."""
    total = column_sums(X) if sums is None else sums
    if not np.isfinite(total).all():
        raise not_finite(X)
    return total


def check_finite(X: Float[Array, "n p"]) -> None:
    """Refuse infinite cells; missing ones are fine."""
    if np.isinf(X).any():
        raise DataError(
            "Input X contains infinity; missing values may be NaN.",
            rule="infinite_values",
        )


def complete(X: Float[Array, "n p"]) -> Float[Array, "n p"]:
    """Return the rows; refuse missing and infinite cells."""
    if not np.isfinite(X).all():
        raise not_finite(X)
    return X


def about_own_mean(X: Float[Array, "n p"]) -> Float[Array, "n p"]:
    """Return a silo's rows about their own mean; refuse missing and infinite cells."""
    # A silo may have no rows in a fold, and they have no mean.
    return complete(X) - X.sum(axis=0) / max(len(X), 1)


def not_finite(X: Rows) -> DataError:
    """Return the error of a model for rows with missing or infinite cells."""
    return DataError(
        "This model takes no missing or infinite values; impute first.",
        rule="missing_values" if has_missing(X) else "infinite_values",
    )


def pooled_mean(federation: Federation) -> tuple[int, Float[Array, " p"]]:
    """Return the sample size N and the mean of all rows; one round.

    Parameters
    ----------
    federation : Federation
        Rows without missing cells. The model that asks lists `local_total` in `_steps`.

    Raises
    ------
    DataError
        With fewer than two rows in all.
    """
    totals = federation.sum(local_total)
    N = round(float(totals["count"]))
    if N < 2:
        raise DataError("A variance needs at least 2 rows over all silos.")
    return N, totals["total"] / N


def pooled_scatter(
    federation: Federation, mean: Float[Array, " p"]
) -> Float[Array, "p p"]:
    """Return the cross-product matrix about the mean, undivided; two rounds.

    Parameters
    ----------
    federation : Federation
        Rows without missing cells. The model that asks lists `local_squares` and
        `local_scatter` in `_steps`.
    mean : (p,) array
        Mean of all rows, from `pooled_mean`.
    """
    squares = federation.sum(local_squares, mean=mean)["squares"]
    return federation.sum(local_scatter, squares=squares)["scatter"]

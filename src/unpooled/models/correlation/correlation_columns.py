"""Correlations of columns that are in different silos, about the same people.

    each silo   its columns about their means, each over its length, with zeros in the
                places of the others' columns ── shares ──> processes
                processes multiply in secret sharing; opened: R, the correlations

No number about a single person is opened, to anybody: rows are in secret sharing, of
which fewer than half of the computing silos together learn nothing more, and more than
half everything (`unpooled.secure.comparison.shared_products`). R has the correlations
among each silo's own columns too, which are that silo's own values: it must allow them
to be seen.

A silo that knows R and its own columns has as many equations for each column of another
silo as it has columns itself. So all silos' columns together count against its rows, as
the columns of a covariance do on a row partition (`max_feature_ratio`).
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.models.moments import complete
from unpooled.protocol.step import SharedProducts, computed, release
from unpooled.secure.keys.roster import FEWEST_COMPUTING

# Each process multiplies integers of 200 bits, and holds shares of all cells.
MOST_CELLS = 1_000_000


@computed(
    SharedProducts("cells", products="correlations"),
    by="party",
    takes={"n_columns": "size q"},
    # Correlations among a silo's own columns are that silo's alone.
    between_two=True,
    # Where a column stands changes no number.
    settings=(),
    correlations=release(
        "q q",
        symmetric=True,
        meaning="Pearson’s correlations of every two columns of all silos",
    ),
)
def shared_columns(
    X: Float[Array, "N p"], party: str, *, n_columns: int, places: Mapping[str, int]
) -> dict[str, Any]:
    """Share the silo's columns, each about its mean and of length 1, in secret."""
    first, p = int(places[party]), X.shape[1]
    if not 0 <= first <= n_columns - p:
        raise DataError("There is no such place for the columns.", rule="arguments")
    cells = np.zeros((len(X), n_columns))
    cells[:, first : first + p] = _unit_columns(complete(X))
    return {"cells": cells.ravel()}


def _unit_columns(X: Float[Array, "N p"]) -> Float[Array, "N p"]:
    """Return columns about their means, of length 1; zeros for one that is constant."""
    varies = X.max(axis=0) > X.min(axis=0)
    D = np.where(varies, X - X.mean(axis=0), 0.0)
    # Squares of columns in very large or small units would overflow or vanish.
    D /= np.where(varies, np.abs(D).max(axis=0), 1.0)
    return D / np.where(varies, np.linalg.norm(D, axis=0), 1.0)


def correlations_by_parties(federation: Federation) -> Float[Array, "p p"]:
    """Return the correlations of all silos' columns; NaN for a constant column.

    Parameters
    ----------
    federation : Federation
        A column partition.

    Raises
    ------
    DataError
        Fewer than three silos, or too many cells to multiply in secret.
    """
    if (m := len(federation.parties)) < FEWEST_COMPUTING:
        raise DataError(
            f"Correlations between columns of different silos are computed in secret "
            f"sharing, of which fewer than half of the silos learn nothing. That "
            f"takes three silos; there are {m}, and of two, one is half. Add a silo; "
            f"or fit CCA or PLSSVD between the two, which open sums about people to "
            f"each other."
        )
    p, N, places = 0, int(federation.n_rows or 0), dict[str, int]()
    for party, columns in federation.columns_of.items():
        places[party] = p
        p += len(columns)
    own = federation.columns_of.get(federation.layout.known_to, ())
    if federation.coordinator.planned and own:
        # A silo's own plan assumes how many columns the others have: not so many that
        # its rules would refuse them.
        p = max(len(own), min(p, N // 4))
    if (n_cells := N * p) > MOST_CELLS:
        raise DataError(
            f"There are {n_cells:,} cells, and products in secret sharing are slow: "
            f"choose at most {MOST_CELLS:,}, by fewer columns (select)."
        )
    found = federation.compute(shared_columns, n_columns=p, places=places)
    R = found["correlations"]
    # A column that is constant is 0 on the diagonal; that of others is 1 to rounding.
    varies = R.diagonal() > 0.5
    R = np.where(varies & varies[:, None], np.clip(R, -1.0, 1.0), np.nan)
    np.fill_diagonal(R, np.where(varies, 1.0, np.nan))
    return R

"""One-shot discriminants: each silo whitens its own between-class scatter matrix.

    M_i         B_i^(-1/2) A_i B_i^(-1/2), from the scatter A_i between and B_i within
                the silo's own classes, about its own means
    one round   silos ── M_i, and the class names ──> Σ M_i, solve Σ M_i w = λ w
    factors     silos ── F_i with M_i = F_i F_iᵀ, each disclosed to the coordinator

F_i has as many columns as there are classes, and is formed from thin singular values
where columns exceed rows.

References
----------
Lv et al., One-Shot Distributed Generalized Eigenvalue Problem (DGEP), 2022, Algorithms
1 and 2.
"""

from typing import Any

import numpy as np

from unpooled.arrays import Array, Float, Int, Shaped
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.linalg.whitening import whitened_rows
from unpooled.models.discriminant.classes import (
    CELLS,
    SIZES,
    class_codes,
    local_names,
    names_in,
)
from unpooled.models.generalized_eigen.matrix_pairs import discriminant_factors
from unpooled.protocol.step import disclosed, public, release, summed

_WHITENED = (
    "between-class scatter matrix of the silo's own classes, whitened by its own "
    "within-class scatter matrix"
)


@summed(
    by="party",
    takes={"salts": public("c", "random numbers that choose the cells of class names")},
    cells=CELLS,
    M=release("p p", symmetric=True, meaning=_WHITENED),
)
def local_whitened(
    X: Float[Array, "n p"],
    y: Shaped[Array, " n"],
    *,
    salts: Int[Array, " c"],
    ridge: float,
) -> dict[str, Any]:
    """Release M_i, and the names of the silo's classes."""
    cells = local_names(y, salts=salts)["cells"]
    F = whitened_rows(*discriminant_factors(X, y), ridge)
    return {"cells": cells, "M": F @ F.T}


@disclosed(
    by="party",
    takes={"classes": public("c w", "the names of the classes")},
    F=release("p c", meaning=f"a factor of the {_WHITENED}"),
)
def local_factors(
    X: Float[Array, "n p"],
    y: Shaped[Array, " n"],
    *,
    classes: Int[Array, "c w"],
    ridge: float,
) -> dict[str, Any]:
    """Disclose F_i, with columns of zeros for classes that the silo does not have."""
    present = np.unique(class_codes(y, classes))
    F = np.zeros((X.shape[1], len(classes)))
    F[:, present] = whitened_rows(*discriminant_factors(X, y), ridge)
    return {"F": F}


def names_and_sum(
    federation: Federation, ridge: float, n_planned: int
) -> tuple[Int[Array, "c w"], Float[Array, "p p"]]:
    """Return the class names and Σ M_i; one round.

    Parameters
    ----------
    federation : Federation
        With a label.
    ridge : float
        Added to the diagonal of each B_i; 0 for pseudo-inverse roots.
    n_planned : int
        Number of classes that a plan assumes.
    """
    salts = SIZES[1] + np.arange(SIZES[1])
    totals = federation.sum(local_whitened, salts=salts, ridge=ridge)
    names = names_in(totals["cells"], salts, n_planned)
    if names is None:
        raise DataError("The label has too many values to be classes.")
    return names, totals["M"]


def disclosed_factors(
    federation: Federation, classes: Int[Array, "c w"], ridge: float
) -> Float[Array, "p l"]:
    """Return the factors F_i of all silos side by side; one round.

    Parameters
    ----------
    federation : Federation
        With a label.
    classes : (c, w) array
        Names as words.
    ridge : float
        Added to the diagonal of each B_i; 0 for pseudo-inverse roots.
    """
    by_party = federation.collect(local_factors, classes=classes, ridge=ridge)
    return np.concatenate([own["F"] for own in by_party.values()], axis=1)

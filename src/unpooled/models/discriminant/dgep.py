"""One-shot discriminants: each silo whitens its own between-class scatter matrix.

    M_i         B_i^(-1/2) A_i B_i^(-1/2), from the scatter A_i between and B_i within
                the silo's own classes, about its own means
    round 1     silos ── names and sizes of their classes ──> names, sizes
    round 2     silos <── names, sizes ── each judges the sizes
                silos ── M_i ──> Σ M_i, solve Σ M_i w = λ w
    factors     silos ── F_i with M_i = F_i F_iᵀ, each disclosed to the coordinator

The published algorithms take round 2 alone; the sizes come first, so that no silo sends
a matrix about a class of a few people. F_i has as many columns as there are classes,
and is formed from thin singular values where columns exceed rows.

References
----------
Lv et al., One-Shot Distributed Generalized Eigenvalue Problem (DGEP), 2022, Algorithms
1 and 2.
"""

from typing import Any

import numpy as np

from unpooled.arrays import Array, Float, Int, Shaped
from unpooled.linalg.whitening import whitened_rows
from unpooled.models.discriminant.classes import (
    NAMES,
    OPENED_SIZES,
    OWN_SIZES,
    class_sizes,
    of_classes,
)
from unpooled.models.generalized_eigen.matrix_pairs import discriminant_factors
from unpooled.protocol.step import disclosed, release, summed

_WHITENED = (
    "between-class scatter matrix of the silo's own classes (products of every two "
    "columns' deviations of the class means), whitened by its own within-class scatter "
    "matrix"
)


@summed(
    within_silos=True,
    by="party",
    takes={"classes": NAMES, "count": OPENED_SIZES},
    M=release("p p", symmetric=True, meaning=_WHITENED),
    own=OWN_SIZES,
)
def local_whitened(
    X: Float[Array, "n p"],
    y: Shaped[Array, " n"],
    *,
    classes: Int[Array, "c w"],
    count: Float[Array, " c"],
    ridge: float,
) -> dict[str, Any]:
    """Release M_i, of the rows of these classes."""
    X, codes = of_classes(X, y, classes)
    F = whitened_rows(*discriminant_factors(X, codes), ridge)
    return {"M": F @ F.T, "own": class_sizes(codes, classes)}


@disclosed(
    by="party",
    takes={"classes": NAMES, "count": OPENED_SIZES},
    F=release("p c", pairs=True, meaning=f"a factor of the {_WHITENED}"),
    own=OWN_SIZES,
)
def local_factors(
    X: Float[Array, "n p"],
    y: Shaped[Array, " n"],
    *,
    classes: Int[Array, "c w"],
    count: Float[Array, " c"],
    ridge: float,
) -> dict[str, Any]:
    """Disclose F_i, with columns of zeros for classes that the silo does not have."""
    X, codes = of_classes(X, y, classes)
    F = np.zeros((X.shape[1], len(classes)))
    F[:, np.unique(codes)] = whitened_rows(*discriminant_factors(X, codes), ridge)
    return {"F": F, "own": class_sizes(codes, classes)}

"""One-shot discriminants: each silo whitens its own scatter between classes.

    silos ── M_i = B_i^(-1/2) A_i B_i^(-1/2), and the class names ──> Σ M_i w = λ w

A_i and B_i are the scatter between and within the silo's own classes, about its own
means: one round. M_i is F_i F_iᵀ with a factor of as many columns as classes, formed
from thin singular values where columns exceed rows. With factors, F_i itself is shown.

References
----------
Lv et al., One-Shot Distributed Generalized Eigenvalue Problem (DGEP), 2022, Algorithms
1 and 2.
"""

from typing import Any

import numpy as np

from unpooled.arrays import Array, Float, Int, Shaped
from unpooled.errors import DataError
from unpooled.federation.base import Federation
from unpooled.linalg.eigen import with_positive_peaks
from unpooled.linalg.oneshot import (
    power_eigenvectors,
    starting_block,
    top_eigenvectors,
)
from unpooled.linalg.whitening import whitened_rows
from unpooled.models.classes import (
    CELLS,
    SIZES,
    class_codes,
    local_names,
    names_in,
)
from unpooled.models.pairs import discriminant_factors
from unpooled.party.step import Step, disclosed, release, summed

_WHITENED = "scatter between class means, whitened by each silo's own within classes"


@summed(
    by="party",
    takes={"salts": "c"},
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
    """Release M_i, and the class names mixed."""
    cells = local_names(y, salts=salts)["cells"]
    F = whitened_rows(*discriminant_factors(X, y), ridge)
    return {"cells": cells, "M": F @ F.T}


@disclosed(
    by="party",
    takes={"classes": "c w"},
    F=release("p c", meaning=f"a factor of the {_WHITENED}"),
)
def local_factors(
    X: Float[Array, "n p"],
    y: Shaped[Array, " n"],
    *,
    classes: Int[Array, "c w"],
    ridge: float,
) -> dict[str, Any]:
    """Show F_i, with zeros for classes that the silo has not."""
    present = np.unique(class_codes(y, classes))
    F = np.zeros((X.shape[1], len(classes)))
    F[:, present] = whitened_rows(*discriminant_factors(X, y), ridge)
    return {"F": F}


def summed_matrix(
    federation: Federation, whitened: Step, ridge: float, planned: int
) -> tuple[Int[Array, "c w"], Float[Array, "p p"]]:
    """Return the class names and Σ M_i; one round."""
    salts = SIZES[1] + np.arange(SIZES[1])
    totals = federation.sum(whitened, salts=salts, ridge=ridge)
    names = names_in(totals["cells"], salts, planned)
    if names is None:
        raise DataError("The label has too many values to be classes.")
    return names, totals["M"]


def shown_factors(
    federation: Federation, factors: Step, classes: Int[Array, "c w"], ridge: float
) -> Float[Array, "p l"]:
    """Return all silos' factors side by side; one round."""
    shown = federation.collect(factors, classes=classes, ridge=ridge)
    return np.concatenate([own["F"] for own in shown.values()], axis=1)


def leading_of_sum(model: Any, M: Float[Array, "p p"], k: int) -> Float[Array, "p k"]:
    """Return the leading eigenvectors of Σ M_i by the model's solver."""
    if model.solver == "dgep-eigh":
        return top_eigenvectors(M, k)
    start = starting_block(model.init, len(M), k, model.random_state)
    return power_eigenvectors(lambda W: M @ W, start, model.max_iter)


def leading_of_factors(
    model: Any, F: Float[Array, "p l"], k: int
) -> Float[Array, "p k"]:
    """Return the leading eigenvectors of ``F Fᵀ``, which is never formed."""
    if model.solver == "dgep-eigh":
        return with_positive_peaks(np.linalg.svd(F, full_matrices=False)[0][:, :k])
    start = starting_block(model.init, len(F), k, model.random_state)
    return power_eigenvectors(lambda W: F @ (F.T @ W), start, model.max_iter)

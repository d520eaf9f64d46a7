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

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from sklearn.utils.validation import check_is_fitted

from unpooled.arrays import Array, Float, Int, Shaped
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.linalg.dgep import (
    Diagnosis,
    power_eigenvectors,
    starting_block,
)
from unpooled.linalg.eigen import with_positive_peaks
from unpooled.linalg.whitening import whitened_rows
from unpooled.models.discriminant.classes import (
    CELLS,
    SIZES,
    agreed_names,
    class_codes,
    class_values,
    local_names,
    names_in,
)
from unpooled.models.discriminant.linear_classifier import direction_count
from unpooled.models.generalized_eigen.convergence import Pair, diagnosis_of
from unpooled.models.generalized_eigen.generalized_eigen import one_shot, roots
from unpooled.models.generalized_eigen.matrix_pairs import discriminant_factors
from unpooled.protocol.step import Step, disclosed, public, release, summed

_WHITENED = "scatter between class means, whitened by each silo's own within classes"


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
    """Release M_i, and the class names mixed."""
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
    """Show F_i, with zeros for classes that the silo has not."""
    present = np.unique(class_codes(y, classes))
    F = np.zeros((X.shape[1], len(classes)))
    F[:, present] = whitened_rows(*discriminant_factors(X, y), ridge)
    return {"F": F}


@final
@dataclass(frozen=True)
class OneShot:
    """The steps of a fit and of its diagnosis, under a model's name (`adopted`)."""

    names: Step
    whitened: Step
    factors: Step
    pair: Pair


class OneShotDirections:
    """Discriminant directions in one round, and how far from exact they are."""

    scalings_: Float[Array, "p k"]
    classes_: Shaped[Array, " c"]
    solver: str
    ridge: float | None
    factors: bool
    classes: Any
    n_components: int | None
    _one_shot: OneShot

    def _fit_in_one_shot(self, federation: Federation, planned: int) -> None:
        steps, ridge = self._one_shot, roots(self.ridge)["ridge"]
        if self.factors:
            names = agreed_names(federation, steps.names, self.classes, planned)
            matrix = shown_factors(federation, steps.factors, names, ridge)
        else:
            names, matrix = summed_matrix(federation, steps.whitened, ridge, planned)
        k = direction_count(self.n_components, federation.n_features, len(names))
        find = leading_of_factors if self.factors else one_shot
        self.scalings_ = find(self, matrix, k)
        self.classes_ = class_values(names)

    def diagnose(self, federation: Federation) -> Diagnosis:
        """Compare one-shot directions with exact ones; releases Σ A_i and Σ B_i.

        Matrices of columns by columns are formed, whatever the fit did. Where a silo
        shows no values of its own the paper's bound is left out.

        Parameters
        ----------
        federation : Federation
            The one of the fit.
        """
        check_is_fitted(self)
        if self.solver == "exact":
            raise DataError("An exact answer has no error to diagnose.")
        steps, ridge = self._one_shot, roots(self.ridge)["ridge"]
        with federation.fitting():
            M = summed_matrix(federation, steps.whitened, ridge, len(self.classes_))[1]
            return diagnosis_of(federation, steps.pair, {}, self.scalings_, M)


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


def leading_of_factors(
    model: Any, F: Float[Array, "p l"], k: int
) -> Float[Array, "p k"]:
    """Return the leading eigenvectors of ``F Fᵀ``, which is never formed."""
    if model.solver == "dgep-eigh":
        return with_positive_peaks(np.linalg.svd(F, full_matrices=False)[0][:, :k])
    start = starting_block(model.init, len(F), k, model.random_state)
    return power_eigenvectors(lambda W: F @ (F.T @ W), start, model.max_iter)

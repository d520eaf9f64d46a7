"""How many components: the cross-validated error of reconstruction, PRESS.

    rounds 1 to 3   the moments of all rows, and of all without each fold, in the same
                    messages
    each fold       components V of the other folds ──> error of every k on the fold

The moments of a fold about the mean of the others are what those of all rows have
beyond those of the others. So the errors take no round of their own. The parts are
those of a cross-validation: a fold itself may have too few rows of a silo.

With orthonormal components V of the rows that are not in the fold, column j of a row x
about their mean is predicted from the other columns,

    e_j = ((I - V Vᵀ) x)_j / (1 - h_j),   h_j = Σ_i V_ji²

The division is what leaves column j out of its own prediction; without it every further
component would reconstruct better, and no number would be the best. e is linear in x,
so that the sum of its squares over the fold follows from the fold's scatter about the
mean of the others.

References
----------
Wold, Cross-validatory estimation of the number of components in factor and principal
components models, Technometrics 20 (1978); Bro, Kjeldahl, Smilde and Kiers,
Cross-validation of component models: a critical look at current methods, Analytical
and Bioanalytical Chemistry 390 (2008), the eigenvector method.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import scipy.linalg

from unpooled.arrays import Array, Float
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.federation.lock_step import LockStep
from unpooled.linalg.settled import by_closeness, settled
from unpooled.models.moments import pooled_mean, pooled_scatter

# A column of which components explain all but this share cannot be left out.
_WHOLE = 1e-10


@final
@dataclass(frozen=True, eq=False)
class Moments:
    """Sample size, mean and scatter about it of some rows.

    Attributes
    ----------
    N : int
        Number of rows.
    mean : (p,) array
    S : (p, p) array
        Cross-products about the mean, undivided.
    """

    N: int
    mean: Float[Array, " p"]
    S: Float[Array, "p p"]

    def about(self, centre: Float[Array, " p"]) -> Float[Array, "p p"]:
        """Return the cross-products about another centre."""
        return self.S + self.N * np.outer(self.mean - centre, self.mean - centre)


def pooled_moments(federation: Federation, cv: int) -> list[Moments]:
    """Return the moments of all rows, and of all without each fold; three rounds.

    Parameters
    ----------
    federation : Federation
        Rows, in the session of a fit.
    cv : int
        Number of folds: those of ``federation.folds(cv, shuffle=False)``.
    """
    views = [federation]
    views += [rest for rest, _ in federation.folds(cv, shuffle=False)]
    return LockStep(federation).run((view, _moments) for view in views)


def _moments(view: Federation) -> Moments:
    N, mean = pooled_mean(view)
    return Moments(N, mean, pooled_scatter(view, mean))


def press(whole: Moments, parts: Sequence[Moments]) -> Float[Array, " l"]:
    """Return the predictive residual sum of squares without 0, 1, ... components.

    Parameters
    ----------
    whole : Moments
        Moments of all rows.
    parts : sequence of Moments
        Moments of all rows without each fold.

    Returns
    -------
    (l,) array
        PRESS of all rows; infinite where a column is explained completely. l is p, or
        less where the folds have few rows.

    Raises
    ------
    DataError
        With a single column.
    """
    p = len(whole.mean)
    if p < 2:
        raise DataError('n_components="press" takes at least two columns.')
    most = min(p, min(part.N for part in parts) - 1)

    def solve() -> dict[str, Array]:
        errors = np.zeros(max(most, 1))
        for others in parts:
            V = scipy.linalg.eigh(others.S)[1][:, ::-1]
            T = V.T @ (whole.about(others.mean) - others.S) @ V
            for n, one in enumerate(errors):
                A = V[:, n:]
                left = (A**2).sum(axis=1)
                # The diagonal of (I - V Vᵀ) S (I - V Vᵀ); A spans the rest.
                squares = np.maximum((A @ T[n:, n:] * A).sum(axis=1), 0.0)
                alone = left < _WHOLE
                squares = np.where(alone, np.inf, squares / np.where(alone, 1, left**2))
                errors[n] = one + squares.sum()
        # Infinities cannot be compared; sums of squares are not negative.
        return {"press": np.where(np.isfinite(errors), errors, -1.0)}

    found = np.array(settled("press", solve, by_closeness)["press"])
    return np.where(found < 0.0, np.inf, found)

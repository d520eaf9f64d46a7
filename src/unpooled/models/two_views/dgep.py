"""One-shot canonical directions: each silo whitens its own covariances.

    K_i           S_xx^(-1/2) S_xy S_yy^(-1/2), of the covariances of one silo
    Algorithm 1   silos ── K_i ──> Σ,  solve [[0, Σ K_i], [Σ K_iᵀ, 0]] w = λ w
    Algorithm 3   silos ── K_i K_iᵀ, K_iᵀ K_i ──> Σ of each, by the power method

All is about the silo's own means and takes one round. The answer is approximate.

References
----------
Lv et al., One-Shot Distributed Generalized Eigenvalue Problem (DGEP), 2022, section 4.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from scipy.sparse.linalg import LinearOperator, aslinearoperator

from unpooled.arrays import Array, Float, Int
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.linalg.dgep import power_eigenvectors, starting_block
from unpooled.linalg.partial_least_squares import (
    leading_singular_pairs,
    with_positive_left_peaks,
)
from unpooled.linalg.whitening import whitened_factors
from unpooled.models.generalized_eigen import matrix_pairs
from unpooled.models.generalized_eigen.diagnosis import Diagnosis
from unpooled.models.generalized_eigen.generalized_eigen import diagnosis_of, roots
from unpooled.models.moments import about_own_mean
from unpooled.protocol.step import disclosed, public, release, summed

VIEWS = {
    "x": public("k", "which columns belong to the first view"),
    "y": public("q", "which columns belong to the second view"),
}
_WHITENED = (
    "covariances between the views (products of every two columns of both views, added "
    "and divided), whitened by each silo's own within them"
)


@summed(
    within_silos=True,
    by="party",
    takes=VIEWS,
    K=release("k q", pairs=True, meaning=_WHITENED),
)
def local_whitened(
    X: Float[Array, "n p"], *, x: Int[Array, " k"], y: Int[Array, " q"], ridge: float
) -> dict[str, Any]:
    """Release K_i; x and y are the positions of the views' columns."""
    return {"K": whitened_views(X, x, y, ridge)}


@summed(
    within_silos=True,
    by="party",
    takes=VIEWS,
    left=release("k k", symmetric=True, meaning=f"squares of {_WHITENED}"),
    right=release("q q", symmetric=True, meaning=f"squares of {_WHITENED}"),
)
def local_squared(
    X: Float[Array, "n p"], *, x: Int[Array, " k"], y: Int[Array, " q"], ridge: float
) -> dict[str, Any]:
    """Release ``K_i K_iᵀ`` and ``K_iᵀ K_i``."""
    K = whitened_views(X, x, y, ridge)
    return {"left": K @ K.T, "right": K.T @ K}


@disclosed(by="party", takes=VIEWS, K=release("k q", pairs=True, meaning=_WHITENED))
def local_factors(
    X: Float[Array, "n p"], *, x: Int[Array, " k"], y: Int[Array, " q"], ridge: float
) -> dict[str, Any]:
    """Disclose the silo's own K_i, from which its squares follow."""
    return {"K": whitened_views(X, x, y, ridge)}


@disclosed(
    by="party",
    takes={**VIEWS, "columns": "size l"},
    left=release("k l", pairs=True, meaning=f"a factor of {_WHITENED}"),
    right=release("q l", pairs=True, meaning=f"the other factor of {_WHITENED}"),
)
def local_low_rank(
    X: Float[Array, "n p"],
    *,
    x: Int[Array, " k"],
    y: Int[Array, " q"],
    ridge: float,
    columns: int,
) -> dict[str, Any]:
    """Disclose factors of the silo's own K_i, padded by zeros; K_i is never formed."""
    Z = about_own_mean(X)
    left, right = whitened_factors(Z[:, x], Z[:, y], ridge)
    room = columns - left.shape[1]
    if room < 0:
        raise DataError("The factors need more columns.", rule="factor_columns")
    return {
        "left": np.pad(left, ((0, 0), (0, room))),
        "right": np.pad(right, ((0, 0), (0, room))),
    }


def whitened_views(
    X: Float[Array, "n p"], x: Int[Array, " k"], y: Int[Array, " q"], ridge: float
) -> Float[Array, "k q"]:
    """Return K_i of rows about the silo's own means."""
    Z = about_own_mean(X)
    left, right = whitened_factors(Z[:, x], Z[:, y], ridge)
    return left @ right.T


@final
@dataclass(frozen=True)
class OneShot:
    """Options of the one-shot solvers; they are parameters of `CCA`."""

    solver: str
    ridge: float | None
    factors: bool | int
    max_iter: int
    init: Any
    random_state: int | None

    def directions(
        self, views: Federation, p: int, k: int
    ) -> tuple[Float[Array, "p k"], Float[Array, "q k"]]:
        """Return k pairs of leading vectors of unit length; one round.

        Parameters
        ----------
        views : Federation
            The columns of both views.
        p : int
            How many of them, at the front, are the first view's.
        k : int
            Number of pairs.
        """
        arguments = self._arguments(views, p)
        start = starting_block(
            self.init, views.n_features, k, lambda: views.seed(self.random_state)
        )
        if self.solver == "dcca-power":
            # The eigenvalues of Σ K_i K_iᵀ and of Σ K_iᵀ K_i are not in pairs ±ρ, so
            # there is a gap, and the method converges.
            left, right = self._squares(views, arguments)
            W = power_eigenvectors(left, start[:p], self.max_iter)
            V = power_eigenvectors(right, start[p:], self.max_iter)
        else:
            K = views.sum(local_whitened, **arguments)["K"]
            if self.solver == "dgep-power":
                W, V = _power_of_dilation(K, start, self.max_iter)
            else:
                # Eigenvectors of [[0, K], [Kᵀ, 0]] are stacked singular vectors of K.
                W, V = leading_singular_pairs(K, k)
        return _of_unit_length(W), _of_unit_length(V)

    def diagnosis(
        self, views: Federation, W: Float[Array, "p k"], V: Float[Array, "q k"]
    ) -> Diagnosis:
        """Compare the directions of a fit with the exact ones, by Σ A_i and Σ B_i.

        Parameters
        ----------
        views : Federation
            The columns of both views.
        W, V : (p, k) and (q, k) arrays
            As `directions` returned them.
        """
        p, q = len(W), len(V)
        K = views.sum(local_whitened, **self._arguments(views, p))["K"]
        dilation = np.block([[np.zeros((p, p)), K], [K.T, np.zeros((q, q))]])
        stacked = np.concatenate([W, V]) / np.sqrt(2.0)
        pair = matrix_pairs.local_canonical
        return diagnosis_of(views, pair, {"first": p}, stacked, dilation)

    def _arguments(self, views: Federation, p: int) -> dict[str, Any]:
        """Return the public arguments of the steps: columns of the views, and ridge."""
        # With a ridge of 0 thin singular values give pseudo-inverse roots.
        ridge = roots(self.ridge)["ridge"]
        return {"x": np.arange(p), "y": np.arange(p, views.n_features), "ridge": ridge}

    def _squares(
        self, views: Federation, arguments: dict[str, Any]
    ) -> tuple[Callable[[Array], Array], Callable[[Array], Array]]:
        """Return the products with ``Σ K_i K_iᵀ`` and ``Σ K_iᵀ K_i``; one round.

        From every K_i, where silos disclose it, without forming a square.
        """
        if not self.factors:
            totals = views.sum(local_squared, **arguments)
            return lambda W: totals["left"] @ W, lambda V: totals["right"] @ V
        matrices = self._disclosed_matrices(views, arguments)
        return (
            lambda W: np.sum([K.matmat(K.rmatmat(W)) for K in matrices], axis=0),
            lambda V: np.sum([K.rmatmat(K.matmat(V)) for K in matrices], axis=0),
        )

    def _disclosed_matrices(
        self, views: Federation, arguments: dict[str, Any]
    ) -> list[LinearOperator]:
        """Return the K_i of every silo, whole or as factors; one round."""
        if self.factors is True:
            whole = views.collect(local_factors, **arguments).values()
            return [aslinearoperator(shown["K"]) for shown in whole]
        if not isinstance(self.factors, int | np.integer) or self.factors < 1:
            raise DataError(
                f"factors={self.factors!r}; choose False, True, or how many columns "
                f"factors of each silo's matrix may have."
            )
        columns = int(self.factors)
        thin = views.collect(local_low_rank, columns=columns, **arguments).values()
        return [
            aslinearoperator(shown["left"]) @ aslinearoperator(shown["right"].T)
            for shown in thin
        ]


def _of_unit_length(W: Float[Array, "p k"]) -> Float[Array, "p k"]:
    """Scale columns to unit length; zeros, where nothing is in common, stay zeros."""
    lengths = np.linalg.norm(W, axis=0)
    return W / np.where(lengths > 0, lengths, 1.0)


def _power_of_dilation(
    K: Float[Array, "p q"], start: Float[Array, "l k"], max_iter: int
) -> tuple[Float[Array, "p k"], Float[Array, "q k"]]:
    """Return both halves of the result of the power method on ``[[0, K], [Kᵀ, 0]]``.

    Its eigenvalues come in pairs ±ρ, so the method does not converge, which is why the
    paper has Algorithm 3.
    """
    p = len(K)
    W = power_eigenvectors(
        lambda W: np.concatenate([K @ W[p:], K.T @ W[:p]]), start, max_iter
    )
    return with_positive_left_peaks(W[:p], W[p:])

"""One-shot canonical directions: each silo whitens its own covariances.

    Algorithm 1   silos ── K_i = S_xx^(-1/2) S_xy S_yy^(-1/2) of their own covariances
                  ──> [[0, Σ K_i], [Σ K_iᵀ, 0]] w = λ w
    Algorithm 3   silos ── K_i K_iᵀ, K_iᵀ K_i ──> the sum of each by the power method

Everything is about the silo's own means, in one round.

References
----------
Lv et al., One-Shot Distributed Generalized Eigenvalue Problem (DGEP), 2022, section 4.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from scipy.sparse.linalg import LinearOperator, aslinearoperator
from sklearn.utils.validation import check_is_fitted

from unpooled.arrays import Array, Float, Int
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.linalg.dgep import Diagnosis, power_eigenvectors, starting_block
from unpooled.linalg.partial_least_squares import (
    leading_singular_pairs,
    with_positive_left_peaks,
)
from unpooled.linalg.whitening import whitened_cross, whitened_factors
from unpooled.models.generalized_eigen.convergence import Pair, diagnosis_of
from unpooled.models.generalized_eigen.generalized_eigen import roots
from unpooled.models.moments import complete
from unpooled.protocol.step import Step, disclosed, public, release, summed

VIEWS = {
    "x": public("k", "which columns belong to the first view"),
    "y": public("q", "which columns belong to the second view"),
}
_WHITENED = "covariances between the views, whitened by each silo's own within them"


@summed(by="party", takes=VIEWS, K=release("k q", meaning=_WHITENED))
def local_whitened(
    X: Float[Array, "n p"], *, x: Int[Array, " k"], y: Int[Array, " q"], ridge: float
) -> dict[str, Any]:
    """Release the silo's own whitened matrix K_i; x, y are positions of the views."""
    return {"K": whitened_views(X, x, y, ridge)}


@summed(
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


@disclosed(by="party", takes=VIEWS, K=release("k q", meaning=_WHITENED))
def local_factors(
    X: Float[Array, "n p"], *, x: Int[Array, " k"], y: Int[Array, " q"], ridge: float
) -> dict[str, Any]:
    """Show the silo's own K_i, from which its squares follow."""
    return {"K": whitened_views(X, x, y, ridge)}


@disclosed(
    by="party",
    takes={**VIEWS, "columns": "size l"},
    left=release("k l", meaning=f"a factor of {_WHITENED}"),
    right=release("q l", meaning=f"the other factor of {_WHITENED}"),
)
def local_low_rank(
    X: Float[Array, "n p"],
    *,
    x: Int[Array, " k"],
    y: Int[Array, " q"],
    ridge: float,
    columns: int,
) -> dict[str, Any]:
    """Show factors of the silo's own K_i, which is never formed; zeros fill them up."""
    Z = complete(X) - X.mean(axis=0)
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
    Z = complete(X) - X.mean(axis=0)
    return whitened_cross(Z[:, x], Z[:, y], ridge)


@final
@dataclass(frozen=True)
class OneShot:
    """The steps of this module under a model's name (`adopted`)."""

    whitened: Step
    squared: Step
    factors: Step
    low_rank: Step
    pair: Pair


class OneShotViews:
    """Canonical directions in one round, and how far from exact they are."""

    x_weights_: Float[Array, "p k"]
    y_weights_: Float[Array, "q k"]
    x_columns_: list[str]
    y_columns_: list[str]
    solver: str
    ridge: float | None
    _one_shot: OneShot

    def _fit_in_one_shot(
        self, federation: Federation, first: list[str], second: list[str], k: int
    ) -> None:
        self.x_columns_, self.y_columns_ = first, second
        view, public = self._views(federation)
        W, V = one_shot_pairs(self, view, self._one_shot, public, k)
        self.x_weights_, self.y_weights_ = _of_unit_length(W), _of_unit_length(V)

    def _views(self, federation: Federation) -> tuple[Federation, dict[str, Any]]:
        """Return the columns of both views, and where silos find each view's."""
        p, q = len(self.x_columns_), len(self.y_columns_)
        # Thin singular values make pseudo-inverse roots of a ridge of 0.
        ridge = roots(self.ridge)["ridge"]
        public = {"x": np.arange(p), "y": p + np.arange(q), "ridge": ridge}
        return federation.select([*self.x_columns_, *self.y_columns_]), public

    def diagnose(self, federation: Federation) -> Diagnosis:
        """Compare "dgep" vectors with the exact ones; releases Σ A_i and Σ B_i.

        Parameters
        ----------
        federation : Federation
            The one of the fit.
        """
        check_is_fitted(self)
        if not self.solver.startswith("dgep"):
            raise DataError("Only dgep-eigh and dgep-power are diagnosed.")
        view, public = self._views(federation)
        W = np.concatenate([self.x_weights_, self.y_weights_]) / np.sqrt(2.0)
        p, q = len(self.x_columns_), len(self.y_columns_)
        with view.fitting():
            K = view.sum(self._one_shot.whitened, **public)["K"]
            M = np.block([[np.zeros((p, p)), K], [K.T, np.zeros((q, q))]])
            return diagnosis_of(view, self._one_shot.pair, {"first": p}, W, M)


def _of_unit_length(W: Float[Array, "p k"]) -> Float[Array, "p k"]:
    """Scale columns; where silos found nothing in common they are zeros, and stay."""
    lengths = np.linalg.norm(W, axis=0)
    return W / np.where(lengths > 0, lengths, 1.0)


def one_shot_pairs(
    model: Any, view: Federation, steps: OneShot, public: Mapping[str, Any], k: int
) -> tuple[Float[Array, "p k"], Float[Array, "q k"]]:
    """Return pairs of leading vectors by the model's solver; one round."""
    start = starting_block(model.init, view.n_features, k, model.random_state)
    if model.solver == "dcca-power":
        # Without pairs ±ρ the spectrum has a gap again.
        if not model.factors:
            return power_of_squares(view, steps.squared, public, start, model.max_iter)
        shown = shown_matrices(view, steps, public, model.factors)
        return power_of_factors(shown, start, model.max_iter)
    K = view.sum(steps.whitened, **public)["K"]
    if model.solver == "dgep-power":
        return power_of_dilation(K, start, model.max_iter)
    # Eigenvectors of [[0, K], [Kᵀ, 0]] are stacked singular vectors of K.
    return leading_singular_pairs(K, k)


def power_of_dilation(
    K: Float[Array, "p q"], start: Float[Array, "l k"], max_iter: int
) -> tuple[Float[Array, "p k"], Float[Array, "q k"]]:
    """Return both halves of what the power method gives of ``[[0, K], [Kᵀ, 0]]``.

    Its eigenvalues come in pairs ±ρ, so the method does not converge: this is the
    barrier that the paper's Algorithm 3 is there to avoid.
    """
    p = len(K)
    W = power_eigenvectors(
        lambda W: np.concatenate([K @ W[p:], K.T @ W[:p]]), start, max_iter
    )
    return with_positive_left_peaks(W[:p], W[p:])


def power_of_squares(
    view: Federation,
    step: Step,
    public: Mapping[str, Any],
    start: Float[Array, "l k"],
    max_iter: int,
) -> tuple[Float[Array, "p k"], Float[Array, "q k"]]:
    """Return the leading vectors of ``Σ K_i K_iᵀ`` and of ``Σ K_iᵀ K_i``.

    Parameters
    ----------
    view : Federation
        Columns of both views.
    step : Step
        `local_squared`.
    public : mapping
        Its arguments.
    start : (p + q, k) array
        Where the power method starts.
    max_iter : int
        How many steps.
    """
    p = len(public["x"])
    totals = view.sum(step, **public)
    left, right = totals["left"], totals["right"]
    return (
        power_eigenvectors(lambda W: left @ W, start[:p], max_iter),
        power_eigenvectors(lambda V: right @ V, start[p:], max_iter),
    )


def shown_matrices(
    view: Federation, steps: OneShot, public: Mapping[str, Any], factors: Any
) -> list[LinearOperator]:
    """Return every silo's K_i as it shows it, or as factors; one round."""
    if factors is True:
        told = view.collect(steps.factors, **public).values()
        return [aslinearoperator(own["K"]) for own in told]
    if not isinstance(factors, int | np.integer) or factors < 1:
        raise DataError(
            f"factors={factors!r}; choose False, True, or how many columns factors of "
            f"each silo's matrix may have."
        )
    told = view.collect(steps.low_rank, columns=int(factors), **public).values()
    return [
        aslinearoperator(own["left"]) @ aslinearoperator(own["right"].T) for own in told
    ]


def power_of_factors(
    shown: Sequence[LinearOperator], start: Float[Array, "l k"], max_iter: int
) -> tuple[Float[Array, "p k"], Float[Array, "q k"]]:
    """Return the same from every K_i; no square is formed."""
    p = int(shown[0].shape[0])
    return (
        power_eigenvectors(
            lambda W: np.sum([K.matmat(K.rmatmat(W)) for K in shown], axis=0),
            start[:p],
            max_iter,
        ),
        power_eigenvectors(
            lambda V: np.sum([K.rmatmat(K.matmat(V)) for K in shown], axis=0),
            start[p:],
            max_iter,
        ),
    )

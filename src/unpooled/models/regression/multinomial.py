"""The multinomial log-likelihood of a silo's rows, of two or more classes.

    p = softmax(0, θ_1 x, θ_2 x, ...)
    gradient       Σ r_a x,  r_a = 1 [y = a] - p_a
    information    Σ p_a (1 [a = b] - p_b) x x'

in a, b = 1, ..., k, for the c = k + 1 classes. Each of the k (k + 1) / 2 blocks of the
information is symmetric itself, and sent as its triangle. Of rows with own intercepts,
the most likely ones, the information is its Schur complement, whose blocks are not: see
`site_effects.py`.

References
----------
Agresti, Categorical data analysis, 3rd edition, Wiley, 2013, section 8.1.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np
import scipy

from unpooled.arrays import Array, Float, Int
from unpooled.models.discriminant.classes import NAMES, OPENED_SIZES, OWN_SIZES
from unpooled.models.regression import newton
from unpooled.protocol.step import Weighed, public, release


@final
@dataclass(frozen=True, eq=False)
class ClassArguments:
    """Public arguments of the steps of a logistic regression.

    Attributes
    ----------
    mean, scale : (p,) arrays
        By which columns are standardised.
    theta : (k, l) array
        Parameters of all classes but the first.
    classes : (c, w) array
        Names of the classes, as words.
    count : (c,) array
        Their sizes over all silos.
    width : int
        Number of parameters.
    n_pairs : int
        Number of pairs of decision functions, each with itself too.
    """

    mean: Float[Array, " p"]
    scale: Float[Array, " p"]
    theta: Float[Array, "k l"]
    classes: Int[Array, "c w"]
    count: Float[Array, " c"]
    width: int
    n_pairs: int

    def standardised(self, rows: Float[Array, "n q"]) -> Float[Array, "n q"]:
        """Return standardised rows of the first columns."""
        q = rows.shape[1]
        return (rows - self.mean[:q]) / self.scale[:q]


CLASS_ARGUMENTS = {
    **newton.SCALES,
    "theta": public("k l", "intercepts and coefficients of all classes but the first"),
    "classes": NAMES,
    "count": OPENED_SIZES,
    "n_pairs": "size b",
}
# Releases of the search's rounds, with and without the information.
CLASS_EVALUATED: dict[str, Any] = {
    "gradient": newton.GRADIENT,
    "information": release(
        "b l l",
        symmetric=True,
        weighed=True,
        meaning="information matrix, block by block for every two decision functions "
        "(products of predictors, weighted by the classes' variances and covariances)",
    ),
    "deviance": newton.DEVIANCE,
    "own": OWN_SIZES,
}
CLASS_PROFILED = {**CLASS_EVALUATED, "information": newton.INFORMATION}
CLASS_GRADIENT = {n: one for n, one in CLASS_EVALUATED.items() if n != "information"}


@final
@dataclass(frozen=True, eq=False)
class MultinomialRows:
    """Predictors, classes and linear predictors of rows, and what is added of them.

    Attributes
    ----------
    Z : (n, l) array
        Predictors, of which each has a parameter.
    codes : (n,) array
        Positions of the rows' classes.
    eta : (n, k) array
        Linear predictors of all classes but the first.
    own : bool
        Whether the rows have own intercepts besides, the most likely ones.
    """

    Z: Float[Array, "n l"]
    codes: Int[Array, " n"]
    eta: Float[Array, "n k"]
    own: bool = False

    def sums(self, *, information: bool = True) -> dict[str, Any]:
        """Return gradient, deviance, sizes of classes, and information if asked for."""
        residuals = tuple(self._residuals.T[:, :, None])
        found: dict[str, Any] = {
            "gradient": Weighed((self._residuals.T @ self.Z).ravel(), residuals),
            "deviance": np.array(
                -2.0 * self._logs[np.arange(len(self.codes)), self.codes].sum()
            ),
            "own": self.sizes,
        }
        if information:
            # Own intercepts' columns are among those by which rows are judged: of two
            # rows with all the weight, differences alone are both records.
            found["information"] = Weighed(
                self._information(),
                tuple(self._weighed),
                tuple(self._whole[a, :, a] for a in range(len(self._weighed))),
            )
        return found

    @property
    def sizes(self) -> Float[Array, " c"]:
        """Rows of each class."""
        return np.bincount(self.codes, minlength=self.eta.shape[1] + 1).astype(float)

    def scores(self) -> Float[Array, "n m"]:
        """Return each row's part of the gradient, less what own intercepts take."""
        scores = np.einsum("nk,nl->nkl", self._residuals, self.Z)
        scores = scores.reshape(len(self.Z), -1)
        return scores - self._residuals @ self._slopes if self.own else scores

    @cached_property
    def _logs(self) -> Float[Array, "n c"]:
        return log_probabilities(self.eta)

    @cached_property
    def _shares(self) -> Float[Array, "n k"]:
        """Probabilities of all classes but the first."""
        return np.exp(self._logs[:, 1:])

    @cached_property
    def _residuals(self) -> Float[Array, "n k"]:
        return (
            self.codes[:, None] == np.arange(1, self.eta.shape[1] + 1)
        ) - self._shares

    @cached_property
    def _design(self) -> Float[Array, "n d"]:
        """Predictors, behind the own intercept's."""
        return np.column_stack([np.ones(len(self.Z)), self.Z]) if self.own else self.Z

    @cached_property
    def _weighed(self) -> list[Float[Array, "n d"]]:
        """Rows of the design, with the weights of each class."""
        weights = np.maximum(self._shares * (1.0 - self._shares), 0.0)
        return [self._design * np.sqrt(w)[:, None] for w in weights.T]

    @cached_property
    def _whole(self) -> Float[Array, "k d k d"]:
        """The information of all parameters, own intercepts included."""
        (k, d), P = (len(self._weighed), self._design.shape[1]), self._shares
        whole = np.empty((k, d, k, d))
        for a, W in enumerate(self._weighed):
            whole[a, :, a] = W.T @ W
            for b in range(a + 1, k):
                shared = self._design * (P[:, a] * P[:, b])[:, None]
                whole[a, :, b] = -shared.T @ self._design
                whole[b, :, a] = whole[a, :, b].T
        return whole

    @cached_property
    def _slopes(self) -> Float[Array, "k m"]:
        """``I_aa⁻¹ I_ab`` of own intercepts a."""
        k = len(self._whole)
        I_ab = self._whole[:, 0, :, 1:].reshape(k, -1)
        # A step that is far too long may leave no row any information.
        return scipy.linalg.lstsq(self._whole[:, 0, :, 0], I_ab)[0]

    def _information(self) -> Float[Array, "..."]:
        k = len(self._whole)
        if not self.own:
            return np.stack([self._whole[a, :, b] for a, b in pairs(k)])
        I_ab = self._whole[:, 0, :, 1:].reshape(k, -1)
        within = self._whole[:, 1:, :, 1:].reshape(I_ab.shape[1], -1)
        within = within - I_ab.T @ self._slopes
        return (within + within.T) / 2


def pairs(k: int) -> list[tuple[int, int]]:
    """Return the pairs of decision functions whose blocks are sent, in their order."""
    return [(a, b) for a in range(k) for b in range(a, k)]


def information_of(blocks: Float[Array, "b l l"], k: int) -> Float[Array, "m m"]:
    """Return the information matrix whose blocks are those of `pairs`."""
    width = blocks.shape[-1]
    whole = np.empty((k, width, k, width))
    for (a, b), block in zip(pairs(k), blocks, strict=True):
        whole[a, :, b] = whole[b, :, a] = block
    return whole.reshape(k * width, k * width)


def information_at_shares(
    shares: Float[Array, " k"], products: Float[Array, "l l"]
) -> Float[Array, "m m"]:
    """Return the information where each row has the same probabilities.

    Parameters
    ----------
    shares : (k,) array
        Probabilities of all classes but the first.
    products : (l, l) array
        Products of the predictors, added over all rows.
    """
    return np.kron(np.diag(shares) - np.multiply.outer(shares, shares), products)


def log_probabilities(eta: Float[Array, "n k"]) -> Float[Array, "n c"]:
    """Return logarithms of the probabilities of all classes."""
    # Class by class in memory, along which sums are many times as fast.
    decisions = np.vstack([np.zeros(len(eta)), eta.T])
    return scipy.special.log_softmax(decisions, axis=0).T

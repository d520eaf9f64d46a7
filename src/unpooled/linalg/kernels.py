"""Kernel matrices, their principal axes, and two approximations of them.

    sums      products x·y, or half squared distances ‖x - y‖² / 2, of rows x and y;
              both are sums over columns, and so over silos that hold columns
    kernel    K = f(sums), entry by entry
    exact     K double-centred = U diag(λ) Uᵀ
    Nyström   features K_nl K_ll^(-1/2), from kernel values with l landmark rows
    Fourier   features sqrt(2 / l) cos(W x + b), W and b drawn once

In all three cases the scores of a row are ``(f - offset) @ dual``, where f are its
kernel values with l rows, or its l features.

References
----------
Schölkopf, Smola, Müller, Nonlinear component analysis as a kernel eigenvalue problem,
Neural Computation 10 (1998), sections 2 and 3. Williams and Seeger, Using the Nyström
method to speed up kernel machines, NIPS 2000. Rahimi and Recht, Random features for
large-scale kernel machines, NIPS 2007, Algorithm 1.
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import final

import numpy as np
import scipy.linalg
import scipy.spatial.distance
from sklearn.utils import check_random_state

from unpooled.arrays import Array, Float, Int
from unpooled.errors import DataError
from unpooled.linalg.eigen import with_positive_peaks

KERNELS = ("rbf", "linear", "poly", "sigmoid")
# scikit-learn's thresholds: eigenvalues that are negative by rounding and eigenvalues
# that count as zero, both relative to the largest one; and the lower bound on the
# eigenvalues of a landmark matrix.
_NEGATIVE, _NULL, _LEAST = 1e-5, 1e-12, 1e-12


@final
@dataclass(frozen=True)
class Kernel:
    """A kernel function of two rows, computed from their sums over columns.

    Attributes
    ----------
    kernel : {"rbf", "linear", "poly", "sigmoid"}
        ``exp(-gamma ‖x - y‖²)``, ``x·y``, ``(gamma x·y + coef0)^degree`` or
        ``tanh(gamma x·y + coef0)``.
    gamma, degree, coef0 : float
        Parameters of these functions.
    """

    kernel: str
    gamma: float
    degree: float
    coef0: float

    @property
    def by_distance(self) -> bool:
        """Whether the sums are half squared distances rather than products."""
        return self.kernel == "rbf"

    def of(self, sums: Float[Array, "n l"]) -> Float[Array, "n l"]:
        """Return the kernel values of the sums."""
        if self.kernel == "rbf":
            # The squared distance of equal rows may be slightly negative after a sum.
            return np.exp(-2.0 * self.gamma * np.maximum(sums, 0.0))
        if self.kernel == "linear":
            return np.array(sums)
        if self.kernel == "poly":
            return (self.gamma * sums + self.coef0) ** self.degree
        return np.tanh(self.gamma * sums + self.coef0)


@final
@dataclass(frozen=True, eq=False)
class KernelMap:
    """Principal axes of a kernel, and the map from a row's values to its scores.

    Attributes
    ----------
    values : (k,) array
        Eigenvalues of the centred kernel matrix, in descending order; 0 where they are
        rounding.
    vectors : (N, k) array
        Orthonormal; ``vectors * sqrt(values)`` are the scores of the N rows. In each
        column the entry of largest magnitude is positive.
    offset : (l,) array
        Column means of the values f of the N rows.
    dual : (l, k) array
        ``(f - offset) @ dual`` are the scores of a row with values f.
    total : float
        Sum of all eigenvalues, the trace of the centred kernel matrix.
    """

    values: Float[Array, " k"]
    vectors: Float[Array, "N k"]
    offset: Float[Array, " l"]
    dual: Float[Array, "l k"]
    total: float

    @property
    def scores(self) -> Float[Array, "N k"]:
        """The scores of the N rows."""
        return self.vectors * np.sqrt(self.values)

    def trimmed(self) -> "KernelMap":
        """Return the map with the axes of positive eigenvalues only."""
        firm = self.values > 0
        return replace(
            self,
            values=self.values[firm],
            vectors=self.vectors[:, firm],
            dual=self.dual[:, firm],
        )


def centred_kernel(
    X: Float[Array, "N p"], kernel: str, gamma: float | None, coef0: float
) -> Float[Array, "N N"]:
    """Return the double-centred kernel matrix of one silo's columns.

    Parameters
    ----------
    X : (N, p) array
        The silo's columns.
    kernel : {"rbf", "linear", "sigmoid"}
        As of `Kernel`.
    gamma : float or None
        1 / p when None, p the silo's own number of columns.
    coef0 : float
        As of `Kernel`.
    """
    width = 1.0 / X.shape[1] if gamma is None else gamma
    if kernel == "rbf":
        squares = scipy.spatial.distance.pdist(X, "sqeuclidean")
        K = np.exp(-width * scipy.spatial.distance.squareform(squares))
    else:
        K = X @ X.T
        if kernel == "sigmoid":
            K = np.tanh(width * K + coef0)
    means = K.mean(axis=0)
    K -= means
    K -= means[:, None]
    K += means.mean()
    return K


def half_distances(
    X: Float[Array, "n p"], Y: Float[Array, "l p"]
) -> Float[Array, "n l"]:
    """Return ``‖x - y‖² / 2`` of all pairs of rows; X and Y have the same origin."""
    x_squares, y_squares = (np.einsum("ij,ij->i", Z, Z) / 2.0 for Z in (X, Y))
    return np.maximum(x_squares[:, None] + y_squares - X @ Y.T, 0.0)


def exact_map(K: Float[Array, "N N"], k: int) -> KernelMap:
    """Return the k leading axes of a kernel matrix, centred or not.

    Raises
    ------
    DataError
        When one of the k eigenvalues is negative beyond rounding: such a kernel is not
        an inner product in any feature space.
    """
    N, offset = len(K), K.mean(axis=0)
    centred = K - offset
    centred -= centred.mean(axis=1)[:, None]
    total = float(centred.trace())
    values, U = scipy.linalg.eigh(centred, subset_by_index=[N - k, N - 1])
    values, U = _settled(values[::-1]), with_positive_peaks(U[:, ::-1])
    dual = U / np.where(values > 0, np.sqrt(values), np.inf)
    # Equivalent to subtracting its mean from each row's kernel values.
    dual -= dual.mean(axis=0)
    return KernelMap(values, U, offset, dual, total)


def feature_map(
    F: Float[Array, "N l"], root: Float[Array, "l l"] | None, k: int
) -> KernelMap:
    """Return the k leading principal axes of the features ``F @ root``, or F."""
    offset = F.mean(axis=0)
    features = F - offset if root is None else (F - offset) @ root
    U, s, Vt = scipy.linalg.svd(features, full_matrices=False)
    turned = with_positive_peaks(U[:, :k])
    axes = Vt[:k].T * np.where((turned * U[:, :k]).sum(axis=0) < 0, -1.0, 1.0)
    values = _settled(s[:k] ** 2)
    axes = axes * (values > 0)
    dual = axes if root is None else root @ axes
    return KernelMap(values, turned, offset, dual, float(np.sum(s**2)))


def inverse_root(K: Float[Array, "l l"]) -> Float[Array, "l l"]:
    """Return ``K^(-1/2)`` of a landmark matrix, bounded as in scikit-learn."""
    U, s, Vt = scipy.linalg.svd(K)
    return (U / np.sqrt(np.maximum(s, _LEAST)) @ Vt).T


def landmark_rows(seed: int, N: int, most: int) -> Int[Array, " l"]:
    """Draw the indices of landmark rows, as scikit-learn's `Nystroem` does."""
    return check_random_state(seed).permutation(N)[: min(most, N)]


@lru_cache(maxsize=4)
def fourier_weights(
    seed: int, p: int, size: int, gamma: float
) -> tuple[Float[Array, "p l"], Float[Array, " l"]]:
    """Draw W and b of random Fourier features, as scikit-learn's `RBFSampler` does."""
    rng = check_random_state(seed)
    weights = np.sqrt(2.0 * gamma) * rng.normal(size=(p, size))
    offset = rng.uniform(0, 2 * np.pi, size=size)
    for drawn in (weights, offset):
        drawn.setflags(write=False)  # the cache shares them among callers
    return weights, offset


def fourier_features(
    phases: Float[Array, "n l"], offset: Float[Array, " l"]
) -> Float[Array, "n l"]:
    """Return ``sqrt(2 / l) cos(phases + offset)``."""
    return np.sqrt(2.0 / len(offset)) * np.cos(phases + offset)


def _settled(values: Float[Array, " k"]) -> Float[Array, " k"]:
    """Zero negative eigenvalues at rounding level; raise on larger ones."""
    largest, least = values.max(initial=0.0), values.min(initial=0.0)
    if least < -_NEGATIVE * largest and least < -1e-10:
        raise DataError(
            "The kernel matrix has negative eigenvalues beyond rounding, so it is not "
            "positive semi-definite. Ask for fewer components, or choose another "
            "kernel, gamma or coef0.",
            rule="indefinite_kernel",
        )
    return np.where(values < _NULL * largest, 0.0, np.maximum(values, 0.0))

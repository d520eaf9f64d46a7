"""One-shot generalised eigenvectors (DGEP): the coordinator's part.

References
----------
Lv et al., One-Shot Distributed Generalized Eigenvalue Problem (DGEP), 2022, Algorithms
1 and 2.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.errors import DataError
from unpooled.linalg.eigen import with_positive_peaks
from unpooled.linalg.settled import orthonormal_basis

# As a paper cites it, for the methods of the models that use the algorithms.
DGEP = (
    "Lv K, Sun Z, He F, Huang X, Yang J. One-shot distributed generalized eigenvalue "
    "problem (DGEP): concept, algorithm and experiments. Applied Sciences 2022; 12: "
    "5128."
)


def power_eigenvectors(
    apply: Callable[[Float[Array, "p k"]], Float[Array, "p k"]],
    start: Float[Array, "p k"],
    max_iter: int,
) -> Float[Array, "p k"]:
    """Return an orthonormal basis after `max_iter` steps of the power method.

    Algorithm 2; with several columns each step ends in a QR factorisation. Convergence
    is not checked: where M has no gap after eigenvalue k, as for every M of `CCA`, no
    number of steps leads to eigenvectors.

    Parameters
    ----------
    apply : callable
        W ↦ M W.
    start : (p, k) array
        The starting block.
    max_iter : int
        Number of steps.
    """
    W = orthonormal_basis(start)
    for _ in range(max_iter):
        W = orthonormal_basis(apply(W))
    return with_positive_peaks(W)


def starting_block(
    init: Any, p: int, k: int, seed: Callable[[], Any]
) -> Float[Array, "p k"]:
    """Return `init` as a block of k columns; by `seed`, a normal one if it is None."""
    if init is None:
        return np.random.default_rng(seed()).standard_normal((p, k))
    block = np.asarray(init, dtype=float)
    block = block[:, None] if block.ndim == 1 else block
    if block.shape != (p, k) or not np.isfinite(block).all():
        raise DataError(f"init has shape {np.shape(init)}; give a finite ({p}, {k}).")
    return block

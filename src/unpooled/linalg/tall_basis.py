"""An orthonormal basis of the span of a tall matrix's columns.

    G = AᵀA = R₁ᵀR₁,   A R₁⁻¹ is nearly orthonormal; once more, R₂, and it is

Two Cholesky factorisations are products of matrices, three times as fast as Householder
reflections of many rows. The error of the first is that of R₁, which the second takes
away, where the condition number of A is far from the inverse root of the rounding unit;
else reflections are used. (`unpooled.linalg.krylov` pivots too, for directions that may
be none.)

References
----------
Yamamoto, Nakatsukasa, Yanagisawa and Fukaya, Roundoff error analysis of the CholeskyQR2
algorithm, Electronic Transactions on Numerical Analysis 44 (2015).
"""

import numpy as np
import scipy.linalg
from scipy.linalg import blas, lapack

from unpooled.arrays import Array, Float

# The largest condition number is 1 / _WELL: the error of R₁ is its square times the
# rounding unit, which must be far below 1.
_WELL = 1e-6


def tall_basis(
    A: Float[Array, "N p"],
) -> tuple[Float[Array, "N q"], Float[Array, "q q"], Float[Array, "q p"]]:
    """Return B, T and R with orthonormal ``B @ T`` and ``A = B @ T @ R``.

    Parameters
    ----------
    A : (N, p) array
        In the order of Fortran; overwritten.
    """
    first = _factor(A)
    if first is None:
        Q, R = scipy.linalg.qr(A, mode="economic", overwrite_a=True, check_finite=False)
        return Q, np.eye(Q.shape[1]), R
    B = blas.dtrsm(1.0, first, A, side=1, overwrite_b=True)
    second = scipy.linalg.cholesky(B.T @ B, check_finite=False)
    T = lapack.dtrtri(second)[0]
    return B, T, second @ first


def _factor(A: Float[Array, "N p"]) -> Float[Array, "p p"] | None:
    """Return the Cholesky factor of AᵀA; None where A is not well conditioned."""
    if len(A) < A.shape[1]:
        return None
    R, failed = lapack.dpotrf(A.T @ A, clean=True)
    if failed or lapack.dtrcon(R)[0] < _WELL:
        return None
    return R

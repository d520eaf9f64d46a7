"""Few leading eigenpairs of a large symmetric matrix: a block Krylov basis, certified.

    V, Λ         k pairs from a block Krylov basis, to rounding
    (λ_k + δ) I - (A - V Λ Vᵀ) = L Lᵀ     no other eigenvalue is above λ_k + δ

LAPACK reduces all of A to a tridiagonal matrix first, 4/3 p³ operations of which half
wait for memory. A basis of some blocks takes products with A only, p² each, and finds
the pairs that lie outside the bulk of the spectrum. No residual shows that none was
left out: a basis may be orthogonal to an eigenvector, or to one of several with equal
eigenvalues. The Cholesky factor of the second line does, at p³ / 3 operations at full
speed. Where the factor does not exist, or the basis would have to grow too large,
nothing is returned, and the caller turns to LAPACK.

References
----------
Golub and Underwood, The block Lanczos method for computing eigenvalues, 1977; Higham,
Accuracy and Stability of Numerical Algorithms, 2002, theorem 10.7, by which a factor
that exists in float64 is one of a matrix within about p eps of this one.
"""

import numpy as np
from scipy.linalg.blas import dsyrk
from scipy.linalg.lapack import dpotrf

from unpooled.arrays import Array, Float
from unpooled.errors import ConvergenceError
from unpooled.linalg.krylov import block_width, leading_ritz_pairs
from unpooled.linalg.settled import unsettled

# With fewer columns, or more pairs beside columns, LAPACK takes less time.
LEAST, _FEWER = 2000, 24
# Products with blocks, after which LAPACK would be done as well; and how many times
# smaller each must make the residuals, or LAPACK takes over early.
_MOST_PRODUCTS, _SLOWEST = 12, 0.125
# Largest residual in units of eps λ_1, and how far above λ_k another value may lie in
# units of p eps λ_1, the error that LAPACK allows itself.
_RESIDUAL, _ABOVE = 64.0, 4.0
_EPS = float(np.finfo(float).eps)


def large_eigenpairs(
    A: Float[Array, "p p"], k: int
) -> tuple[Float[Array, " k"], Float[Array, "p k"]] | None:
    """Return the k leading eigenpairs of a positive semi-definite matrix.

    Parameters
    ----------
    A : (p, p) array
        Symmetric.
    k : int
        Number of pairs.

    Returns
    -------
    λ : (k,) array
        In descending order.
    V : (p, k) array
        Orthonormal columns.
    None
        In place of both, where p is small, k is not, or the pairs are not certified.
    """
    p = len(A)
    if p < LEAST or _FEWER * k > p:
        return None
    start = np.random.default_rng(0).standard_normal((p, block_width(p, k)))
    try:
        # Its own decompositions are steps on the way to a result that is settled.
        with unsettled():
            # To rounding, whatever the gap behind pair k is.
            pairs = leading_ritz_pairs(
                lambda block: A @ block,
                start,
                k,
                tol=0.0,
                max_iter=_MOST_PRODUCTS,
                slowest=_SLOWEST,
            )
    except ConvergenceError:
        return None
    values, V = pairs.values, pairs.vectors
    top = float(values[0])
    residuals = np.linalg.norm(A @ V - V * values, axis=0)
    if not residuals.max() <= _RESIDUAL * _EPS * top or values[-1] <= 0.0:
        return None
    # In Fortran order A is its own transpose, and one triangle is enough.
    rest = np.array(A.T, order="F")
    rest = dsyrk(1.0, V * np.sqrt(values), beta=-1.0, c=rest, lower=1, overwrite_c=1)
    rest.flat[:: p + 1] += values[-1] + _ABOVE * p * _EPS * top
    failed = dpotrf(rest, lower=1, clean=0, overwrite_a=1)[1]
    return None if failed else (values, V)

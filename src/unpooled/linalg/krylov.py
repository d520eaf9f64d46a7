"""Leading eigenpairs of a matrix-free operator, by a block Krylov method.

    Q_1 random,  Q_{j+1} = the part of A Q_j orthogonal to Q_1 .. Q_j, orthonormalised

    A [Q_1 .. Q_j] = [Q_1 .. Q_{j+1}] H        H are the coefficients
    Rayleigh-Ritz  Qᵀ A Q = Y Θ Yᵀ,  V = Q Y   with residuals ‖A v - θ v‖ = ‖H y - θ y‖

One application to a block costs one round of a federation. So the block is a little
wider than the number of pairs wanted, and the basis keeps all earlier directions, with
full orthogonalisation, twice. A full basis is replaced by its leading Ritz vectors,
which preserve the relation above (a thick restart).

By the theorem of Davis and Kahan, the sine of the largest angle to the wanted subspace
is at most ‖R‖ / gap, where R are the residuals of the k pairs and the gap is that
between eigenvalues k and k + 1. The iteration therefore ends when ‖R‖ is below `tol`
times that gap, not `tol` times θ_1, which for close eigenvalues would leave a wrong
subspace.

References
----------
Golub and Underwood, The block Lanczos method for computing eigenvalues, 1977; Stewart,
A Krylov-Schur algorithm for large eigenproblems, SIAM J. Matrix Anal. Appl. 23 (2001);
Davis and Kahan, The rotation of eigenvectors by a perturbation III, SIAM J. Numer.
Anal. 7 (1970).
"""

from collections.abc import Callable
from typing import final

import numpy as np
import scipy.linalg

from unpooled.arrays import Array, Float
from unpooled.errors import ConvergenceError
from unpooled.linalg.ritz import FLOOR, RitzPairs, certificate

Operator = Callable[[Float[Array, "d l"]], Float[Array, "d l"]]

# Memory for the basis, unless a few blocks need more.
_BASIS_BYTES = 2**29


def block_width(d: int, k: int) -> int:
    """Return the number of columns of a block for k pairs in d dimensions."""
    # More than k, since convergence depends on the gap after the block's last column.
    return min(d, k + max(4, k // 5))


def leading_ritz_pairs(
    operator: Operator,
    start: Float[Array, "d b"],
    k: int,
    *,
    tol: float,
    max_iter: int,
    most_columns: int | None = None,
) -> RitzPairs:
    """Return the k leading eigenpairs of a positive semi-definite operator.

    Parameters
    ----------
    operator : callable
        Takes a block of orthonormal columns (d, l), l at most b, and returns its image
        (d, l).
    start : (d, b) array
        The starting block, usually random; b is greater than k, or equal to d.
    k : int
        Number of pairs.
    tol : float
        Largest acceptable sine of the angle to the wanted subspace.
    max_iter : int
        Maximum number of applications of the operator.
    most_columns : int, optional
        Maximum number of columns of the basis before a restart; by default as many as
        512 MB hold.

    Returns
    -------
    RitzPairs
        With `angle` at most `tol`, unless the residuals reached the rounding error of
        the operator before: then `angle` says how well the eigenvalues determine the
        subspace.

    Raises
    ------
    ConvergenceError
        When `max_iter` applications were not enough. The message gives the residuals
        and the gap, and what to change.
    """
    d, b = start.shape
    if not (1 <= k < b <= d or k == b == d):
        raise ValueError(f"a block of {b} columns cannot find {k} pairs of {d}")
    columns = min(most_columns or _BASIS_BYTES // (8 * d), (max_iter + 1) * b, d)
    basis = _Basis(start, max(columns, k + 3 * b))
    n_iter = 0
    while True:
        if basis.is_full:
            basis.restart(k + b)
        basis.extend(operator(basis.block))
        n_iter += 1
        pairs, is_at_floor = basis.ritz_pairs(k, n_iter)
        if pairs.angle <= tol or is_at_floor:
            return pairs
        if n_iter >= max_iter:
            raise _not_converged(pairs, k, tol)


@final
class _Basis:
    """The relation ``A Q = [Q, next block] H`` with orthonormal columns throughout.

    Attributes
    ----------
    done : int
        Number of columns of Q, whose images are known.
    """

    def __init__(self, start: Float[Array, "d b"], columns: int) -> None:
        d, b = start.shape
        # In Fortran order leading columns are contiguous. Pages that are never written
        # take no memory.
        self._vectors = np.empty((d, columns + b), order="F")
        self._H = np.zeros((columns + 2 * b, columns + b))
        self._width = b
        self.done, self._size = 0, b
        self._vectors[:, :b] = scipy.linalg.qr(start, mode="economic")[0]

    @property
    def block(self) -> Float[Array, "d l"]:
        """The columns to which the operator is applied next."""
        return np.ascontiguousarray(self._vectors[:, self.done : self._size])

    @property
    def is_full(self) -> bool:
        """Whether another block would not fit."""
        return self._size + self._width > self._vectors.shape[1]

    def extend(self, image: Float[Array, "d l"]) -> None:
        """Add the image of `block`; its new directions become the next block."""
        Q = self._vectors[:, : self._size]
        coefficients = np.zeros((self._size, image.shape[1]))
        rest = np.array(image, order="F")
        # Twice, because the first pass leaves rounding errors along the basis.
        for _ in range(2):
            along = Q.T @ rest
            rest -= Q @ along
            coefficients += along
        new, R, pivots = scipy.linalg.qr(rest, mode="economic", pivoting=True)
        scale = max(np.abs(coefficients).max(), np.abs(R).max())
        room = self._vectors.shape[0] - self._size
        # Directions at rounding level carry no information.
        rank = min(int((np.abs(R.diagonal()) > FLOOR * scale).sum()), room)
        now, later = slice(self.done, self._size), self._size + rank
        # A small direction, computed as the difference of large vectors, has a part
        # along the basis, which is removed once more.
        new = new[:, :rank] - Q @ (Q.T @ new[:, :rank])
        new, again = scipy.linalg.qr(new, mode="economic")
        self._H[: self._size, now] = coefficients
        self._H[self._size : later, now.start + pivots] = again @ R[:rank]
        self._vectors[:, self._size : later] = new
        self.done, self._size = self._size, later

    def ritz_pairs(self, k: int, n_iter: int) -> tuple[RitzPairs, bool]:
        """Return the k leading pairs, and whether they can improve no further."""
        done = self.done
        values, Y = self._solved()
        H = self._H[: self._size, :done]
        R = H @ Y[:, : k + 1]
        R[:done] -= Y[:, : k + 1] * values[: k + 1]
        residuals, gap, angle = certificate(values, R, k)
        top = float(np.abs(values).max())
        # H is symmetric up to the rounding of the images.
        T = H[:done]
        noise = max(float(np.abs(T - T.T).max()), FLOOR * top)
        worst = float(scipy.linalg.norm(R[:, :k], 2))
        pairs = RitzPairs(
            values[:k],
            self._vectors[:, :done] @ Y[:, :k],
            residuals[:k],
            gap,
            angle,
            n_iter,
        )
        return pairs, worst <= noise or self._size == done

    def restart(self, keep: int) -> None:
        """Replace the basis by its `keep` leading Ritz vectors and the next block."""
        done, size = self.done, self._size
        values, Y = self._solved()
        below = self._H[done:size, :done] @ Y[:, :keep]
        self._vectors[:, :keep] = self._vectors[:, :done] @ Y[:, :keep]
        later = keep + size - done
        self._vectors[:, keep:later] = self._vectors[:, done:size].copy()
        self._H[:] = 0.0
        self._H[range(keep), range(keep)] = values[:keep]
        self._H[keep:later, :keep] = below
        self.done, self._size = keep, later

    def _solved(self) -> tuple[Float[Array, " j"], Float[Array, "j j"]]:
        T = self._H[: self.done, : self.done]
        values, Y = scipy.linalg.eigh((T + T.T) / 2)
        return values[::-1], Y[:, ::-1]


def _not_converged(pairs: RitzPairs, k: int, tol: float) -> ConvergenceError:
    worst, top = float(pairs.residuals.max()), float(pairs.values[0])
    return ConvergenceError(
        f"After {pairs.n_iter} rounds the largest residual of {k} eigenpairs is "
        f"{worst / top:.1e} of the largest eigenvalue, and the gap between eigenvalues "
        f"{k} and {k + 1} {pairs.gap / top:.1e} of it; {tol:g} times the gap is "
        f"wanted. Raise max_iter; or, where the gap is small, choose n_components at a "
        f"larger one, or raise tol."
    )

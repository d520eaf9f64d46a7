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
from dataclasses import dataclass
from typing import final

import numpy as np
import scipy.linalg
from scipy.linalg import solve_triangular

from unpooled.arrays import Array, Float, Int
from unpooled.errors import ConvergenceError
from unpooled.linalg.narrow_products import columns_times
from unpooled.linalg.ritz import FLOOR, RitzPairs, certificate, residual_norm
from unpooled.linalg.settled import (
    Arrays,
    eigenpairs_of,
    is_orthonormal,
    near,
    orthonormal_basis,
    product,
    settled,
    untied,
    with_positive_peaks,
)
from unpooled.linalg.threads import by_runs, one_thread

Operator = Callable[[Float[Array, "d l"]], Float[Array, "d l"]]

# Memory for the basis, unless a few blocks need more.
_BASIS_BYTES = 2**29
# Applications before the rate of convergence shows.
_SLOW_START = 3
# A direction of which the image has less than this is rounding: it would differ from
# machine to machine.
_DIRECTION = 1e-12
# Columns whose condition is at most about the inverse of this are factorised by their
# products; those whose products are those of orthonormal ones up to this, too.
_WELL_CONDITIONED, _NEARLY = 1e-4, 1e-2


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
    slowest: float = np.inf,
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
    slowest : float, optional
        Largest ratio of the residuals after and before an application, from the fourth
        on: where they fall more slowly, the iteration ends without a result.

    Returns
    -------
    RitzPairs
        With `angle` at most `tol`, unless the residuals reached the rounding error of
        the operator before: then `angle` says how well the eigenvalues determine the
        subspace.

    Raises
    ------
    ConvergenceError
        When `max_iter` applications were not enough, or would not be. The message gives
        the residuals and the gap, and what to change.
    """
    d, b = start.shape
    if not (1 <= k < b <= d or k == b == d):
        raise ValueError(f"a block of {b} columns cannot find {k} pairs of {d}")
    columns = min(most_columns or _BASIS_BYTES // (8 * d), (max_iter + 1) * b, d)
    basis = _Basis(start, max(columns, k + 3 * b))
    n_iter, before = 0, np.inf
    while True:
        if basis.is_full:
            basis.restart(k + b)
        basis.extend(operator(basis.block))
        n_iter += 1
        found = basis.ritz_values(k)
        if found.angle <= tol or found.is_at_floor:
            return basis.ritz_pairs(found, k, n_iter)
        worst = float(found.residuals.max())
        is_slow = n_iter > _SLOW_START and worst > slowest * before
        if n_iter >= max_iter or is_slow:
            raise _not_converged(found, k, tol, n_iter)
        before = worst


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
        self._vectors[:, :b] = orthonormal_basis(start)

    @property
    def block(self) -> Float[Array, "d l"]:
        """The columns to which the operator is applied next."""
        return np.ascontiguousarray(self._vectors[:, self.done : self._size])

    @property
    def is_full(self) -> bool:
        """Whether another block would not fit."""
        return self._size + self._width > self._vectors.shape[1]

    @one_thread()
    def extend(self, image: Float[Array, "d l"]) -> None:
        """Add the image of `block`; its new directions become the next block."""
        Q, now = self._vectors[:, : self._size], slice(self.done, self._size)
        sizes = []

        def solve() -> dict[str, Array]:
            new, H, size = _extension(Q, image)
            sizes.append(size)
            return {"new": new, "H": H}

        found = settled(
            "Krylov block",
            solve,
            lambda found, own: _is_extension(Q, image, found, own, sizes[0]),
            ranked=True,
        )
        # Hints may have either sign, so each vector's entry of largest magnitude
        # decides.
        new = with_positive_peaks(found["new"])
        signs = np.where((new == found["new"]).all(axis=0), 1.0, -1.0)
        later = self._size + new.shape[1]
        self._H[: self._size, now] = found["H"][: self._size]
        self._H[self._size : later, now] = signs[:, None] * found["H"][self._size :]
        self._vectors[:, self._size : later] = new
        self.done, self._size = self._size, later

    def ritz_values(self, k: int) -> "_RitzValues":
        """Return the k leading values, and whether they can improve no further."""
        done = self.done
        values, Y = self._solved(min(k + 1, done))
        H = self._H[: self._size, :done]
        R = product(H, Y)
        R[:done] -= Y * values
        residuals, gap, angle = certificate(values, R, k)
        top = float(np.abs(values).max())
        # H is symmetric up to the rounding of the images.
        T = H[:done]
        noise = max(float(np.abs(T - T.T).max()), FLOOR * top)
        worst = residual_norm(R[:, :k])
        is_at_floor = worst <= noise or self._size == done
        return _RitzValues(values, Y, residuals[:k], gap, angle, is_at_floor)

    def ritz_pairs(self, found: "_RitzValues", k: int, n_iter: int) -> RitzPairs:
        """Return the k leading pairs."""
        return RitzPairs(
            found.values[:k],
            untied(found.values[:k], self._combined(found.Y[:, :k])),
            found.residuals,
            found.gap,
            found.angle,
            n_iter,
        )

    def restart(self, keep: int) -> None:
        """Replace the basis by its `keep` leading Ritz vectors and the next block."""
        done, size = self.done, self._size
        values, Y = self._solved(min(keep, done))
        below = product(self._H[done:size, :done], Y)
        self._vectors[:, :keep] = self._combined(Y)
        later = keep + size - done
        self._vectors[:, keep:later] = self._vectors[:, done:size].copy()
        self._H[:] = 0.0
        self._H[range(keep), range(keep)] = values
        self._H[keep:later, :keep] = below
        self.done, self._size = keep, later

    @one_thread()
    def _combined(self, Y: Float[Array, "j k"]) -> Float[Array, "d k"]:
        """Return combinations of the basis."""
        Q = self._vectors[:, : self.done]
        found = settled(
            "Ritz vectors",
            lambda: {"vectors": Q @ Y},
            lambda found, own: near(found["vectors"], own["vectors"], 1.0),
        )
        return found["vectors"]

    def _solved(self, k: int) -> tuple[Float[Array, " k"], Float[Array, "j k"]]:
        """Return the k leading eigenpairs of the part of H that is known."""
        T = self._H[: self.done, : self.done]
        T = (T + T.T) / 2

        def solve() -> dict[str, Array]:
            values, Y = scipy.linalg.eigh(T)
            return {"values": values[: -k - 1 : -1], "vectors": Y[:, : -k - 1 : -1]}

        found = settled("Ritz values", solve, eigenpairs_of(T))
        return found["values"], found["vectors"]


@final
@dataclass(frozen=True)
class _RitzValues:
    """Values and coordinates of k + 1 leading pairs, and the certificate of k."""

    values: Float[Array, " l"]
    Y: Float[Array, "j l"]
    residuals: Float[Array, " k"]
    gap: float
    angle: float
    is_at_floor: bool


def _extension(
    Q: Float[Array, "d j"], image: Float[Array, "d l"]
) -> tuple[Float[Array, "d r"], Float[Array, "_ l"], Float[Array, " l"]]:
    """Return new directions, H with ``image = [Q, new] H``, and relative sizes."""
    rest = np.array(image, order="C")
    # Twice, because the first pass leaves rounding errors along the basis.
    coefficients = _taken_along(Q, rest)
    coefficients += _taken_along(Q, rest)
    new, R, pivots = _pivoted_factors(rest)
    scale = max(np.abs(coefficients).max(), np.abs(R).max())
    # Columns at rounding level carry no information, and have no direction.
    size = np.abs(R.diagonal()) / (scale or 1.0)
    rank = min(int((size > _DIRECTION).sum()), len(Q) - Q.shape[1])
    new = np.ascontiguousarray(new[:, :rank])
    # A small direction, computed as the difference of large vectors, has a part
    # along the basis, which is removed once more.
    _taken_along(Q, new)
    new, again = _orthonormalised(new)
    below = np.zeros((rank, image.shape[1]))
    below[:, pivots] = again @ R[:rank]
    return new, np.vstack([coefficients, below]), size


def _taken_along(
    Q: Float[Array, "d j"], rest: Float[Array, "d l"]
) -> Float[Array, "j l"]:
    """Subtract from columns their parts along a basis; return the coefficients."""
    along = _columns_times(Q, rest)

    def subtracted(run: slice) -> None:
        rest[run] -= Q[run] @ along

    by_runs(subtracted, len(Q), Q.size * rest.shape[1])
    return along


def _pivoted_factors(
    A: Float[Array, "d l"],
) -> tuple[Float[Array, "d r"], Float[Array, "r l"], Int[Array, " l"]]:
    """Return Q, R and pivots with ``A[:, pivots] = Q @ R``, by size of R's diagonal.

    The columns of Q are orthonormal up to 1e-6.
    """
    # By Cholesky's factor of AᵀA, in a third of the time, unless too few digits are
    # left: Q is then orthonormal up to the square of A's condition times rounding.
    factor, pivots, _, failed = scipy.linalg.lapack.dpstrf(_columns_times(A, A))
    sizes = factor.diagonal()
    if failed == 0 and sizes.min() > _WELL_CONDITIONED * sizes.max():
        R, pivots = np.triu(factor), pivots - 1
        return _times_inverse(A[:, pivots], R), R, pivots
    return scipy.linalg.qr(A, mode="economic", pivoting=True)


def _orthonormalised(
    V: Float[Array, "d r"],
) -> tuple[Float[Array, "d r"], Float[Array, "r r"]]:
    """Return Q and R of columns that are nearly orthonormal."""
    G = _columns_times(V, V)
    if np.abs(G - np.eye(len(G))).max(initial=0.0) > _NEARLY:
        return scipy.linalg.qr(V, mode="economic")
    R = scipy.linalg.cholesky(G)
    return _times_inverse(V, R), R


def _columns_times(
    V: Float[Array, "d j"], W: Float[Array, "d l"]
) -> Float[Array, "j l"]:
    def multiplied(run: slice) -> Float[Array, "j l"]:
        return columns_times(V[run], W[run])

    total, *others = by_runs(multiplied, len(V), V.size * W.shape[1])
    for other in others:
        total += other
    return total


def _times_inverse(
    V: Float[Array, "d r"], R: Float[Array, "r r"]
) -> Float[Array, "d r"]:
    """Return ``V R⁻¹``."""
    solved = np.empty(V.shape)

    def solve(run: slice) -> None:
        rows = V[run].T
        solved[run] = solve_triangular(R, rows, trans="T", check_finite=False).T

    by_runs(solve, len(V), V.size * len(R))
    return solved


def _is_extension(
    Q: Float[Array, "d j"],
    image: Float[Array, "d l"],
    found: Arrays,
    own: Arrays,
    size: Float[Array, " l"],
) -> bool:
    """Whether an extension of the basis is this machine's, up to rounding."""
    new, H = found["new"], found["H"]
    rank, ours = new.shape[1], own["new"].shape[1]
    if len(new) != len(Q) or H.shape != (Q.shape[1] + rank, image.shape[1]):
        return False
    if rank > len(Q) - Q.shape[1]:
        return False
    # Ranks may differ only where a direction is as small as the threshold itself.
    between = size[min(rank, ours) : max(rank, ours)]
    if (np.abs(between - _DIRECTION) > _DIRECTION / 10).any():
        return False
    # The scale is that of the image, and not of the remainder, which is a small
    # difference of large vectors.
    scale = float(np.abs(own["H"]).max(initial=0.0))
    d, basis = len(Q), np.hstack([Q, new])
    return (
        is_orthonormal(new)
        and near(Q.T @ new, np.zeros((Q.shape[1], rank)), 1.0, d)
        and near(H[: Q.shape[1]], own["H"][: Q.shape[1]], scale, d)
        and near(basis @ H, image, 2.0 * scale, d)
    )


def _not_converged(
    pairs: _RitzValues, k: int, tol: float, n_iter: int
) -> ConvergenceError:
    worst, top = float(pairs.residuals.max()), float(pairs.values[0])
    return ConvergenceError(
        f"After {n_iter} rounds the largest residual of {k} eigenpairs is "
        f"{worst / top:.1e} of the largest eigenvalue, and the gap between eigenvalues "
        f"{k} and {k + 1} {pairs.gap / top:.1e} of it; {tol:g} times the gap is "
        f"wanted. Raise max_iter; or, where the gap is small, choose n_components at a "
        f"larger one, or raise tol."
    )

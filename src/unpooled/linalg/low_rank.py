"""Generalised eigenproblems of diagonal plus low-rank matrices, never formed.

    A = diag(a) + Z S Zᵀ,  B = diag(b) + Z W Zᵀ,  b > 0
    D = diag(b)^(1/2),  D⁻¹ Z = Q R,  R W Rᵀ = U diag(w) Uᵀ,  P = Q U
    B = D (I + P diag(w) Pᵀ) D

so that B^(-1) and B^(-1/2) cost two products with P.
"""

from typing import final

import numpy as np
import scipy.linalg
import scipy.sparse.linalg

from unpooled.arrays import Array, Float
from unpooled.linalg.settled import Arrays, is_orthonormal, near, settled


@final
class LowRankPencil:
    """``A v = λ B v`` for p × p matrices with low-rank parts of r columns.

    Parameters
    ----------
    a, b : (p,) arrays
        The diagonal parts; b is positive.
    Z : (p, r) array
        Linearly independent columns.
    S, W : (r, r) arrays
        Symmetric; W is positive semi-definite.
    """

    def __init__(
        self,
        a: Float[Array, " p"],
        b: Float[Array, " p"],
        Z: Float[Array, "p r"],
        S: Float[Array, "r r"],
        W: Float[Array, "r r"],
    ) -> None:
        self._a, self._root = a / b, np.sqrt(b)
        Q, R = scipy.linalg.qr(Z / self._root[:, None], mode="economic")
        w, U = scipy.linalg.eigh(R @ W @ R.T)
        self._P, self._w = Q @ U, np.maximum(w, 0.0)
        self._S = U.T @ (R @ S @ R.T) @ U

    def leading(self, k: int) -> tuple[Float[Array, " k"], Float[Array, "p k"]]:
        """Return the k largest λ, k below p, and vectors with ``V.T @ B @ V = I``."""
        p = len(self._root)
        operator = scipy.sparse.linalg.LinearOperator(
            (p, p),
            matvec=lambda v: self._half(self._applied(self._half(v.ravel()))),
            dtype=float,
        )

        def solve() -> dict[str, Array]:
            # The start is fixed, so that results repeat; the iteration ends at
            # rounding.
            start = np.random.default_rng(0).standard_normal(p)
            pairs = scipy.sparse.linalg.eigsh(operator, k, which="LA", v0=start)
            order = np.argsort(-pairs[0])
            whole = self._half(pairs[1][:, order])
            return {"values": pairs[0][order], "vectors": whole / self._root[:, None]}

        def accept(found: Arrays, own: Arrays) -> bool:
            values, V = found["values"], found["vectors"]
            # The same vectors as the iteration has them, which are orthonormal.
            U = self._half(V * self._root[:, None], inverse=True)
            top = float(np.abs(own["values"]).max())
            image = self._half(self._applied(self._half(U)))
            return (
                near(values, own["values"], top, p)
                and is_orthonormal(U)
                and near(image, U * values, top, p)
            )

        found = settled("leading pairs of low rank", solve, accept)
        return found["values"], found["vectors"]

    def trace(self) -> float:
        """Return the sum of all λ."""
        both = np.einsum("pr,p,pr->r", self._P, self._a, self._P) + self._S.diagonal()
        whole = float(self._a.sum() + self._S.trace())
        return whole - float((self._w / (1.0 + self._w)) @ both)

    def solve(self, V: Float[Array, "p k"]) -> Float[Array, "p k"]:
        """Return ``B^(-1) V``."""
        inside = V / self._root[:, None]
        along = (self._w / (1.0 + self._w))[:, None] * (self._P.T @ inside)
        return (inside - self._P @ along) / self._root[:, None]

    def _half(
        self, V: Float[Array, "..."], *, inverse: bool = False
    ) -> Float[Array, "..."]:
        """Apply ``(I + P diag(w) Pᵀ)^(-1/2)``, or its inverse."""
        root = np.sqrt(1.0 + self._w)
        less = (root if inverse else 1.0 / root) - 1.0
        along = self._P.T @ V
        return V + self._P @ (less[:, None] * along if V.ndim == 2 else less * along)

    def _applied(self, v: Float[Array, "..."]) -> Float[Array, "..."]:
        a = self._a if v.ndim == 1 else self._a[:, None]
        return a * v + self._P @ (self._S @ (self._P.T @ v))

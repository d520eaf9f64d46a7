"""Anderson's acceleration of a fixed-point iteration, from its last few points.

    x_0, g_0 = F(x_0), x_1, g_1 = F(x_1), ...     next: g_k - Σ w_i (g_k - g_i)

The weights make the same combination of the residuals g_i - x_i smallest. Where F has
one fixed point to which it converges linearly, the error of the combination falls as
that of a Krylov method, at the cost of a small linear system.

References
----------
Walker and Ni, Anderson acceleration for fixed-point iterations, SIAM Journal on
Numerical Analysis 49 (2011), section 2.
"""

from collections.abc import Sequence

import numpy as np

from unpooled.arrays import Array, Float

# Added to the squared lengths of the residuals' differences, relative to their size, so
# that differences that are rounding alone get no large weights.
_RIDGE = 1e-6


def anderson_weights(
    points: Sequence[Float[Array, " d"]], images: Sequence[Float[Array, " d"]]
) -> Float[Array, " k"]:
    """Return the weights of k earlier points, of k + 1; zeros where nothing changes.

    Parameters
    ----------
    points, images : sequences of (d,) arrays
        Points and what the iteration made of them, the last ones last.
    """
    residuals = [g - x for x, g in zip(points, images, strict=True)]
    D = np.array([residuals[-1] - r for r in residuals[:-1]])
    # Added in a fixed order: all ends have the same bits.
    A = np.array([[np.add.reduce(a * b) for b in D] for a in D])
    if not (size := float(np.add.reduce(A.diagonal()))):
        return np.zeros(len(D))
    b = np.array([np.add.reduce(a * residuals[-1]) for a in D])
    return np.linalg.solve(A + _RIDGE * size * np.eye(len(D)), b)


def extrapolated(
    images: Sequence[Float[Array, " d"]], weights: Float[Array, " k"]
) -> Float[Array, " d"]:
    """Return the next point."""
    last = images[-1]
    moved = [w * (last - g) for w, g in zip(weights, images[:-1], strict=True)]
    return last - np.add.reduce(np.array(moved))

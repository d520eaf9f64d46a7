"""Where names stand beside points, so that no name lies over another."""

from collections.abc import Sequence

import numpy as np

from unpooled.arrays import Array, Float

_TRIES = 24  # half lines that a name may move up or down


def beside(
    points: Float[Array, "p 2"], widths: Sequence[float], height: float, gap: float
) -> Float[Array, "p 2"]:
    """Return where names begin: outwards of their points, and apart from each other.

    Parameters
    ----------
    points : (p, 2) array
        What is named. Names of points with x of at least 0 run to the right, the others
        to the left.
    widths : sequence of float
        Of the names, in units of the points.
    height : float
        Of a line.
    gap : float
        Between a point and its name.

    Returns
    -------
    (p, 2) array
        The end of each name that is next to its point, at half its height. Points far
        out keep their places first; a name moves up or down by half lines until it is
        free.
    """
    sign = np.where(points[:, 0] >= 0, 1.0, -1.0)
    found = points + np.column_stack([gap * sign, np.zeros(len(points))])
    placed: list[tuple[float, float, float]] = []
    for j in np.argsort(-np.linalg.norm(points, axis=1), kind="stable"):
        x, y = found[j]
        left, right = sorted((x, x + sign[j] * widths[j]))
        near = [at for low, high, at in placed if low < right and left < high]
        # Outwards first: there is more room.
        outwards = 1.0 if y >= 0 else -1.0
        for step in range(_TRIES + 1):
            sides = (outwards, -outwards) if step else (0.0,)
            tried = [y + side * step * height / 2 for side in sides]
            free = [at for at in tried if all(abs(at - b) >= height for b in near)]
            if free:
                found[j, 1] = free[0]
                break
        placed.append((left, right, found[j, 1]))
    return found

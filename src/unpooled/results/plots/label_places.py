"""Placement of points' names in a picture: near, inside, and not over each other.

Longest arrow first, each name takes the best of some hundred places around its point:
those that overlap a name already placed, or leave the picture, are out; of the others
the one that covers the fewest points and lines, and is nearest, outwards if possible.
"""

from collections.abc import Sequence

import numpy as np

from unpooled.arrays import Array, Float

# Directions around the outward one, and steps of half a line away from the point.
_TURNS = np.deg2rad([0, 20, -20, 40, -40, 65, -65, 90, -90, 130, -130, 180])
_STEPS = 17
_ON_LINE = 32  # places on each line that a name should not cover
_COVERS, _TURNS_AWAY, _MISLEADS, _OVERLAPS, _OUTSIDE = 0.12, 0.35, 1.0, 1e3, 1e6


def label_places(
    points: Float[Array, "p 2"],
    widths: Sequence[float],
    height: float,
    gap: float,
    picture: Sequence[float],
    taken: Float[Array, "t 4"] | None = None,
    *,
    arrows: bool = True,
) -> Float[Array, "p 2"]:
    """Return the centres of the points' names.

    Parameters
    ----------
    points : (p, 2) array
        What is named.
    widths : sequence of float
        Widths of the names, in units of the points.
    height : float
        Height of a line.
    gap : float
        Between a point and its name.
    picture : sequence of four float
        Its left, right, lower and upper edges.
    taken : (t, 4) array, optional
        The same of what else is written.
    arrows : bool, default True
        Whether the points are ends of arrows from the origin, which names should not
        cover, and from which they stand outwards. Otherwise names stand to the right.

    Returns
    -------
    (p, 2) array
        Where many names have no room, some overlap; none leaves the picture.
    """
    along = np.linspace(0.0, 1.0, _ON_LINE)[1:, None] if arrows else np.ones((1, 1))
    lines = [along * point for point in points]
    least, most = np.reshape(np.asarray(picture, float), (2, 2)).T
    boxes = [] if taken is None else [tuple(box) for box in np.asarray(taken)]
    centres = np.array(points, dtype=float)
    outwards = np.arctan2(*points.T[::-1]) if arrows else np.zeros(len(points))
    for j in np.argsort(-np.linalg.norm(points, axis=1), kind="stable"):
        half = np.array([widths[j] / 2, height / 2])
        tried, cost = _candidates(points[j], float(outwards[j]), half, gap, height)
        low, high = tried - half, tried + half
        cost = cost + _OUTSIDE * ((low < least) | (high > most)).any(axis=1)
        for left, right, lower, upper in boxes:
            apart = (high[:, 0] <= left) | (right <= low[:, 0])
            apart |= (high[:, 1] <= lower) | (upper <= low[:, 1])
            cost += _OVERLAPS * ~apart
        for other, line in enumerate(lines):
            # Its own point it may touch, at the edge.
            places = line[:-2] if other == j else line
            inside = (places > low[:, None]) & (places < high[:, None])
            cost += _COVERS * inside.all(axis=2).sum(axis=1)
        # It would be taken for the name of a point that is nearer.
        beside = np.linalg.norm(
            np.clip(points, low[:, None], high[:, None]) - points, axis=2
        )
        others = np.delete(beside, j, axis=1) < beside[:, [j]] + gap
        cost += _MISLEADS * others.sum(axis=1)
        best = int(cost.argmin())
        centres[j] = tried[best]
        boxes.append((low[best, 0], high[best, 0], low[best, 1], high[best, 1]))
    return centres


def _candidates(
    point: Float[Array, " 2"],
    outwards: float,
    half: Float[Array, " 2"],
    gap: float,
    height: float,
) -> tuple[Float[Array, "t 2"], Float[Array, " t"]]:
    """Return centres of a name around a point, and what each costs by itself."""
    angle = outwards + _TURNS
    directions = np.column_stack([np.cos(angle), np.sin(angle)])
    # The name's edge is `gap` away along the direction, whatever its shape.
    with np.errstate(divide="ignore", over="ignore"):
        edge = (half / np.abs(directions)).min(axis=1)
    far = gap + np.arange(_STEPS) * height / 2
    tried = point + directions[:, None] * (edge[:, None, None] + far[None, :, None])
    away = 1.0 - np.cos(_TURNS)
    cost = _TURNS_AWAY * away[:, None] + far[None, :] / height
    return tried.reshape(-1, 2), cost.ravel()


def nearest_edge(
    point: Float[Array, " 2"], centre: Float[Array, " 2"], width: float, height: float
) -> Float[Array, " 2"]:
    """Return the place of a name's box that is nearest to its point."""
    half = np.array([width / 2, height / 2])
    return np.clip(point, centre - half, centre + half)

"""Columns and categories by two scores: correlation circle, map of categories."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from unpooled.arrays import Array, Bool, Float
from unpooled.results.plots.drawing import ACCENT, INK, SECOND, drawing, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SIDE = 380
# Of a name in the circle, whose radius is 1 and 143 pixels: a letter's width, a line's
# height, and the gap between a point and its name.
_LETTER, _LINE, _GAP = 0.048, 0.095, 0.03
_TRIES = 24  # half lines that a name may move up or down


def correlation_circle(
    points: Float[Array, "p 2"],
    names: Sequence[str],
    first: Bool[Array, " p"],
    labels: tuple[str, str] = ("first pair", "second pair"),
) -> "Figure":
    """Draw columns by their correlations with two scores, within the unit circle.

    Parameters
    ----------
    points : (p, 2) array
        Correlations.
    names : sequence of str
        Of the columns.
    first : (p,) array of bool
        Whether a column belongs to the first view.
    labels : (str, str)
        Names of the two scores.
    """
    figure, axes = drawing(height=_SIDE, left=44, right=12, top=10, bottom=42)
    draw_correlation_circle(axes, points, names, first, labels)
    return figure


def draw_correlation_circle(
    axes: "Axes",
    points: Float[Array, "p 2"],
    names: Sequence[str],
    first: Bool[Array, " p"],
    labels: tuple[str, str],
) -> None:
    """Draw the correlation circle on axes."""
    _square(axes, np.full(2, -1.15), np.full(2, 1.15))
    _circle(axes, (0.0, 0.0), INK, 0.8)
    axes.axhline(0, color=INK, alpha=0.2, linewidth=0.8)
    axes.axvline(0, color=INK, alpha=0.2, linewidth=0.8)
    texts = [short(name, 12) for name in names]
    places = beside(points, [_LETTER * len(text) for text in texts], _LINE, _GAP)
    for (x, y), (u, v), text, is_first in zip(
        points, places, texts, first, strict=True
    ):
        colour = ACCENT if is_first else SECOND
        axes.plot([0, x], [0, y], color=colour, linewidth=1.2)
        axes.plot([x], [y], "o", color=colour, markersize=3.5)
        axes.plot([x, u], [y, v], color=colour, linewidth=0.6, alpha=0.6)
        ha = "left" if x >= 0 else "right"
        axes.text(u, v, text, ha=ha, va="center", color=colour, parse_math=False)
    axes.set_xlabel(labels[0], color=INK, labelpad=6)
    axes.set_ylabel(labels[1], color=INK)


def category_map(
    points: Float[Array, "p 2"],
    names: Sequence[str],
    labels: tuple[str, str],
) -> "Figure":
    """Draw categories by their coordinates on two components, each with its name.

    Parameters
    ----------
    points : (p, 2) array
        Coordinates.
    names : sequence of str
        Of the categories.
    labels : (str, str)
        Names of the two components.
    """
    figure, axes = drawing(height=_SIDE, left=44, right=12, top=10, bottom=42)
    reach = 1.35 * max(float(np.abs(points).max(initial=0.0)), 1e-9)
    _square(axes, np.full(2, -reach), np.full(2, reach))
    axes.axhline(0, color=INK, alpha=0.2, linewidth=0.8)
    axes.axvline(0, color=INK, alpha=0.2, linewidth=0.8)
    texts = [short(name, 18) for name in names]
    # Of letters and lines in a square whose half side is 1.15.
    unit = reach / 1.15
    widths = [_LETTER * unit * len(text) for text in texts]
    places = beside(points, widths, _LINE * unit, _GAP * unit)
    for (x, y), (u, v), text in zip(points, places, texts, strict=True):
        axes.plot([x], [y], "o", color=ACCENT, markersize=3.5)
        axes.plot([x, u], [y, v], color=ACCENT, linewidth=0.6, alpha=0.6)
        ha = "left" if x >= 0 else "right"
        axes.text(u, v, text, ha=ha, va="center", color=INK, parse_math=False)
    axes.set_xlabel(labels[0], color=INK, labelpad=6)
    axes.set_ylabel(labels[1], color=INK)
    return figure


def beside(
    points: Float[Array, "p 2"], widths: Sequence[float], height: float, gap: float
) -> Float[Array, "p 2"]:
    """Return where labels begin: outwards of their points, and not overlapping.

    Parameters
    ----------
    points : (p, 2) array
        What is labelled. Labels of points with x of at least 0 run to the right, the
        others to the left.
    widths : sequence of float
        Of the labels, in units of the points.
    height : float
        Of a line.
    gap : float
        Between a point and its label.

    Returns
    -------
    (p, 2) array
        The end of each label that is next to its point, at half its height. Points far
        out keep their places first; a label moves up or down by half lines until it is
        free.
    """
    sign = np.where(points[:, 0] >= 0, 1.0, -1.0)
    places = points + np.column_stack([gap * sign, np.zeros(len(points))])
    placed: list[tuple[float, float, float]] = []
    for j in np.argsort(-np.linalg.norm(points, axis=1), kind="stable"):
        x, y = places[j]
        left, right = sorted((x, x + sign[j] * widths[j]))
        near = [at for low, high, at in placed if low < right and left < high]
        # Outwards first: there is more room.
        outwards = 1.0 if y >= 0 else -1.0
        for step in range(_TRIES + 1):
            sides = (outwards, -outwards) if step else (0.0,)
            tried = [y + side * step * height / 2 for side in sides]
            free = [at for at in tried if all(abs(at - b) >= height for b in near)]
            if free:
                places[j, 1] = free[0]
                break
        placed.append((left, right, places[j, 1]))
    return places


def _circle(
    axes: "Axes", centre: tuple[float, float], colour: str, width: float
) -> None:
    """Draw a circle of radius 1."""
    from matplotlib.patches import Circle

    axes.add_patch(Circle(centre, 1.0, fill=False, edgecolor=colour, linewidth=width))


def _square(axes: "Axes", low: Float[Array, " 2"], high: Float[Array, " 2"]) -> None:
    axes.set_xlim(low[0], high[0])
    axes.set_ylim(low[1], high[1])
    axes.set_aspect("equal", adjustable="box")
    axes.grid(color=INK, alpha=0.1, linewidth=0.8)

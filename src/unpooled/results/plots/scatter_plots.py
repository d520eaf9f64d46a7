"""Columns and categories by two scores: correlation circle, map of categories."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from unpooled.arrays import Array, Bool, Float
from unpooled.results.plots.drawing import ACCENT, INK, SECOND, drawing, plane, short
from unpooled.results.plots.label_places import label_places, nearest_edge

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SIDE = 380
# Sizes of a name in the circle, whose radius is 1 and 143 pixels: a letter's width, a
# line's height, and the gap between a point and its name.
_LETTER, _LINE, _GAP = 0.048, 0.095, 0.03
_LIMIT = 1.15  # of the picture
_LEADER = 1.5  # gaps from which on a name has a line to its point


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
        Names of the columns.
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
    from matplotlib.patches import Circle

    _square(axes, np.full(2, -_LIMIT), np.full(2, _LIMIT))
    axes.add_patch(Circle((0.0, 0.0), 1.0, fill=False, edgecolor=INK, linewidth=0.8))
    plane(axes, labels)
    texts = [short(name, 12) for name in names]
    colours = [ACCENT if is_first else SECOND for is_first in first]
    for (x, y), colour in zip(points, colours, strict=True):
        axes.plot([0, x], [0, y], color=colour, linewidth=1.2)
        axes.plot([x], [y], "o", color=colour, markersize=3.5)
    write_names(axes, points, texts, colours, (_LETTER, _LINE, _GAP), _LIMIT)


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
        Names of the categories.
    labels : (str, str)
        Names of the two components.
    """
    figure, axes = drawing(height=_SIDE, left=44, right=12, top=10, bottom=42)
    reach = 1.35 * max(float(np.abs(points).max(initial=0.0)), 1e-9)
    _square(axes, np.full(2, -reach), np.full(2, reach))
    plane(axes, labels)
    axes.plot(points[:, 0], points[:, 1], "o", color=ACCENT, markersize=3.5)
    texts = [short(name, 18) for name in names]
    # As in the circle, whose picture has another limit.
    unit = reach / _LIMIT
    sizes = (_LETTER * unit, _LINE * unit, _GAP * unit)
    write_names(axes, points, texts, [INK] * len(texts), sizes, reach)
    return figure


def write_names(
    axes: "Axes",
    points: Float[Array, "p 2"],
    texts: Sequence[str],
    colours: Sequence[str],
    sizes: tuple[float, float, float],
    limit: float,
    taken: Float[Array, "t 4"] | None = None,
) -> None:
    """Write names beside points, and a thin line from each that is not next to its own.

    Parameters
    ----------
    axes : Axes
        To draw on, with equal scales.
    points : (p, 2) array
        Ends of arrows from the origin.
    texts, colours : sequence of str
        Texts and colours of the points.
    sizes : (float, float, float)
        Width of a letter, height of a line, and the gap to a point, in their units.
    limit : float
        Half the width of the picture, from -limit to limit in both directions.
    taken : (t, 4) array, optional
        As of `label_places`.
    """
    letter, line, gap = sizes
    widths = [letter * len(text) for text in texts]
    # Two names in a line are a letter apart.
    apart = [width + letter for width in widths]
    picture = (-limit, limit, -limit, limit)
    centres = label_places(points, apart, line, gap, picture, taken)
    for point, centre, width, text, colour in zip(
        points, centres, widths, texts, colours, strict=True
    ):
        # Letters are lower than their line.
        edge = nearest_edge(point, centre, width, 0.6 * line)
        if np.linalg.norm(edge - point) > _LEADER * gap + 0.2 * line:
            x, y = np.transpose([point, edge])
            axes.plot(x, y, color=colour, linewidth=0.6, alpha=0.6)
        u, v = centre
        axes.text(u, v, text, ha="center", va="center", color=colour, parse_math=False)


def _square(axes: "Axes", low: Float[Array, " 2"], high: Float[Array, " 2"]) -> None:
    axes.set_xlim(low[0], high[0])
    axes.set_ylim(low[1], high[1])
    axes.set_aspect("equal", adjustable="box")
    axes.grid(color=INK, alpha=0.1, linewidth=0.8)

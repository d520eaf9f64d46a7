"""Biplots without people: ellipses of rows or classes, and arrows of columns."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.results.plots.class_plots import ellipse
from unpooled.results.plots.drawing import ACCENT, INK, SECOND, plane, short
from unpooled.results.plots.scatter_plots import write_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_REACH = 0.85  # of the way to the nearest edge, of the longest arrow
_SMALL = 9.5  # type of the title
_MARGIN = 1.18  # of the picture, around all that is drawn
# A letter, a line, and the gap between an arrow and its name, as shares of the limit.
_LETTER, _LINE, _GAP = 0.042, 0.085, 0.03


def draw_biplot(
    axes: "Axes",
    means: Float[Array, "c 2"],
    names: Sequence[str],
    covariances: Float[Array, "c 2 2"],
    coverage: float,
    arrows: Float[Array, "q 2"],
    columns: Sequence[str],
    labels: Sequence[str],
    title: str = "",
) -> float:
    """Draw ellipses about means, and arrows of columns from the origin.

    Parameters
    ----------
    axes : Axes
        To draw on, with equal scales.
    means : (c, 2) array
        Centres of the ellipses.
    names : sequence of str
        Names of the c classes; texts beside the centres.
    covariances : (c, 2, 2) array
        Covariance matrices of the classes.
    coverage : float
        Share of a normal distribution that an ellipse contains.
    arrows : (q, 2) array
        Directions and relative lengths of the columns' arrows.
    columns : sequence of str
        Names of the q columns.
    labels : sequence of str
        Labels of the two axes.
    title : str
        What the ellipses and arrows are.

    Returns
    -------
    float
        By which the arrows were multiplied.
    """
    outlines = [
        ellipse(mean, covariance, coverage)
        for mean, covariance in zip(means, covariances, strict=True)
    ]
    reach = np.abs(np.vstack([*outlines, np.zeros((1, 2))])).max()
    reach = float(reach) or 1.0
    longest = float(np.linalg.norm(arrows, axis=1).max(initial=0.0)) or 1.0
    scale = _REACH * reach / longest
    plane(axes, labels)
    for (x, y), outline, name in zip(means, outlines, names, strict=True):
        axes.fill(*outline.T, color=ACCENT, alpha=0.1, linewidth=0)
        axes.plot(*outline.T, color=ACCENT, linewidth=1.2)
        axes.plot([x], [y], "o", color=ACCENT, markersize=5)
        if name:
            axes.annotate(
                short(name, 14), (x, y), (0, 6), textcoords="offset points",
                ha="center", va="bottom", color=INK, weight="bold", parse_math=False,
            )  # fmt: skip
    limit = _MARGIN * reach
    taken = _class_names(means, [short(name, 14) for name in names], limit)
    _draw_arrows(axes, scale * arrows, columns, limit, taken)
    axes.set_xlim(-limit, limit)
    axes.set_ylim(-limit, limit)
    axes.set_aspect("equal", adjustable="box")
    axes.grid(color=INK, alpha=0.1, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.set_title(title, color=INK, fontsize=_SMALL, loc="left", pad=6)
    return scale


def _class_names(
    means: Float[Array, "c 2"], names: Sequence[str], limit: float
) -> Float[Array, "c 4"]:
    """Return the edges of the names above the means, and of the means."""
    half = np.array([0.5 * _LETTER * limit * max(len(name), 2) for name in names])
    x, y = means.T
    up = (2 * _GAP + _LINE) * limit * np.array([bool(name) for name in names])
    return np.column_stack([x - half, x + half, y - _GAP * limit, y + up])


def _draw_arrows(
    axes: "Axes",
    ends: Float[Array, "q 2"],
    columns: Sequence[str],
    limit: float,
    taken: Float[Array, "c 4"],
) -> None:
    for x, y in ends:
        axes.annotate(
            "", (x, y), (0, 0), arrowprops={
                "arrowstyle": "-|>", "color": SECOND, "linewidth": 1.1,
                "shrinkA": 0, "shrinkB": 0, "mutation_scale": 8,
            },
        )  # fmt: skip
    texts = [short(name, 12) for name in columns]
    sizes = (_LETTER * limit, _LINE * limit, _GAP * limit)
    write_names(axes, ends, texts, [SECOND] * len(texts), sizes, limit, taken)

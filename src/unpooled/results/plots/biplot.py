"""Biplots without people: ellipses of rows or classes, and arrows of columns."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.results.plots.class_plots import ellipse
from unpooled.results.plots.drawing import ACCENT, INK, SECOND, short
from unpooled.results.plots.scatter_plots import beside

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_REACH = 0.85  # of the way to the nearest edge, of the longest arrow
_SMALL = 9.5  # type of the title
_MARGIN = 1.18  # of the picture, around all that is drawn


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
        Of the c classes; texts beside the centres.
    covariances : (c, 2, 2) array
        Of the classes.
    coverage : float
        Share of a normal distribution that an ellipse contains.
    arrows : (q, 2) array
        Directions and relative lengths of the columns' arrows.
    columns : sequence of str
        Names of the q columns.
    labels : sequence of str
        Of the two axes.
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
    axes.axhline(0, color=INK, alpha=0.2, linewidth=0.8)
    axes.axvline(0, color=INK, alpha=0.2, linewidth=0.8)
    for (x, y), outline, name in zip(means, outlines, names, strict=True):
        axes.fill(*outline.T, color=ACCENT, alpha=0.1, linewidth=0)
        axes.plot(*outline.T, color=ACCENT, linewidth=1.2)
        axes.plot([x], [y], "o", color=ACCENT, markersize=5)
        if name:
            axes.annotate(
                short(name, 14), (x, y), (0, 6), textcoords="offset points",
                ha="center", va="bottom", color=INK, weight="bold", parse_math=False,
            )  # fmt: skip
    _draw_arrows(axes, scale * arrows, columns, _MARGIN * reach)
    limit = _MARGIN * reach
    axes.set_xlim(-limit, limit)
    axes.set_ylim(-limit, limit)
    axes.set_aspect("equal", adjustable="box")
    axes.grid(color=INK, alpha=0.1, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.set_xlabel(labels[0], color=INK, labelpad=6)
    axes.set_ylabel(labels[1], color=INK)
    axes.set_title(title, color=INK, fontsize=_SMALL, loc="left", pad=6)
    return scale


def _draw_arrows(
    axes: "Axes", ends: Float[Array, "q 2"], columns: Sequence[str], limit: float
) -> None:
    texts = [short(name, 12) for name in columns]
    # A letter and a line, as shares of the picture's side.
    widths = [0.042 * limit * len(text) for text in texts]
    places = beside(ends, widths, 0.085 * limit, 0.03 * limit)
    for (x, y), (u, v), text in zip(ends, places, texts, strict=True):
        axes.annotate(
            "", (x, y), (0, 0), arrowprops={
                "arrowstyle": "-|>", "color": SECOND, "linewidth": 1.1,
                "shrinkA": 0, "shrinkB": 0, "mutation_scale": 8,
            },
        )  # fmt: skip
        axes.plot([x, u], [y, v], color=SECOND, linewidth=0.6, alpha=0.6)
        side = "left" if x >= 0 else "right"
        axes.text(u, v, text, ha=side, va="center", color=SECOND, parse_math=False)

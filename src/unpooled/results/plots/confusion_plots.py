"""Confusion matrices as cells: rows are classes, columns predicted classes."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, cast

import numpy as np

from unpooled.arrays import Array, Float, Shaped
from unpooled.results.plots.drawing import ACCENT, INK, WIDTH, blank, panel, short
from unpooled.results.plots.heatmap import name_cells, write_cell

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LEFT, _TOP, _LETTERS = 108, 50, 12
_CELL = 66  # pixels, at most
_LETTER = 6.6
_STRONGEST = 0.6  # opacity where all of a class are predicted so: text stays legible
_MOST_NUMBERED = 14


def confusion_matrix(
    counts: Shaped[Array, "c c"], shares: Float[Array, "c c"], names: Sequence[str]
) -> "Figure":
    """Draw counts of rows by class and predicted class.

    Parameters
    ----------
    counts : (c, c) array
        Rows are true classes; written into the cells.
    shares : (c, c) array
        From 0 to 1: how dark the cells are.
    names : sequence of str
        Names of the classes.
    """
    axes = confusion_axes(blank, names)
    texts = np.array([[f"{n:,}" for n in row] for row in counts.tolist()])
    draw_confusion(axes, texts, shares, names)
    return cast("Figure", axes.figure)


def confusion_axes(
    figure_of: "Callable[[int], Figure]", names: Sequence[str]
) -> "Axes":
    """Return axes with room for the cells and the names of classes.

    Parameters
    ----------
    figure_of : callable
        Makes a figure of a height.
    names : sequence of str
        Names of the classes.
    """
    cell = min((WIDTH - _LEFT - 8) / len(names), _CELL)
    longest = max(len(short(name, _LETTERS)) for name in names)
    top = _TOP + (int(_LETTER * longest) - 10 if _LETTER * longest > cell else 0)
    height = int(top + cell * len(names) + 8)
    return panel(figure_of(height), _LEFT, cell * len(names), top, 8, height)


def draw_confusion(
    axes: "Axes",
    texts: Shaped[Array, "c c"],
    shades: Float[Array, "c c"],
    names: Sequence[str],
) -> None:
    """Draw a confusion matrix on axes; numbers stand in the cells where there is room.

    Parameters
    ----------
    axes : Axes
        To draw on.
    texts : (c, c) array of str
        What stands in the cells.
    shades : (c, c) array
        From 0 to 1: how dark the cells are.
    names : sequence of str
        Names of the classes.
    """
    from matplotlib.patches import Rectangle

    c = len(names)
    box = axes.get_window_extent()
    cell = box.width / axes.figure.dpi * 72 / c
    for i, j in np.ndindex(c, c):
        look = {"facecolor": ACCENT, "alpha": _STRONGEST * float(shades[i, j])}
        axes.add_patch(Rectangle((j - 0.48, i - 0.48), 0.96, 0.96, linewidth=0, **look))
        if i == j:
            # Where predictions are right, whatever their number.
            axes.add_patch(
                Rectangle(
                    (j - 0.48, i - 0.48), 0.96, 0.96,
                    fill=False, edgecolor=ACCENT, linewidth=1.2,
                )
            )  # fmt: skip
        if c <= _MOST_NUMBERED:
            write_cell(axes, i, j, str(texts[i, j]), 10.5 if c <= 6 else 8.5)
    axes.set_aspect("equal", adjustable="box")
    name_cells(axes, names, names, _LETTERS, cell)
    axes.xaxis.set_label_position("top")
    axes.set_xlabel("predicted class", color=INK, labelpad=6)
    axes.set_ylabel("class", color=INK, labelpad=6)
    axes.spines[:].set_visible(False)

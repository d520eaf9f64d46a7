"""Histograms of columns, of which some bins may be withheld."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.results.plots.drawing import (
    ACCENT,
    INK,
    WIDTH,
    blank,
    ground,
    panel,
    short,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_PANELS = 12
_ACROSS = 2
_HEIGHT, _TITLE, _AXIS = 128, 22, 26  # of a panel, and of its title and axis within it
_LEFT, _GAP = 40, 46
_NAMED = 8  # bins with room for their values below them


def histograms(
    columns: Sequence[str],
    edges: Sequence[Float[Array, " _"]],
    counts: Sequence[Float[Array, " _"]],
) -> "Figure":
    """Draw a panel for each column.

    Parameters
    ----------
    columns : sequence of str
        Names of those that are drawn: the first ones.
    edges, counts : sequences of arrays
        Edges and counts of each column; NaN stands for a count that is withheld.
    """
    across = min(_ACROSS, len(columns))
    down = -(-len(columns) // across)
    height = down * _HEIGHT + 8
    figure = blank(height)
    width = (WIDTH - _LEFT - 16 - (across - 1) * _GAP) / across
    for number, name in enumerate(columns):
        row, place = divmod(number, across)
        top = row * _HEIGHT + _TITLE
        axes = panel(
            figure,
            _LEFT + place * (width + _GAP),
            width,
            top,
            height - (row + 1) * _HEIGHT + _AXIS,
            height,
        )
        letters = 44 if across == 1 else 21
        draw_histogram(axes, short(name, letters), edges[number], counts[number])
    return figure


def draw_histogram(
    axes: "Axes",
    name: str,
    edges: Float[Array, " e"],
    counts: Float[Array, " l"],
) -> None:
    """Draw one column's bins; those that are withheld are grey, to half the height.

    Parameters
    ----------
    axes : Axes
        To draw on.
    name : str
        Name of the column.
    edges : (l + 1,) array
        Ascending; a single bin with infinite edges is drawn from 0 to 1.
    counts : (l,) array
        NaN where withheld.
    """
    single = not np.isfinite(edges).all()
    ends = np.array([0.0, 1.0]) if single else edges
    hidden = np.isnan(counts)
    top = max(float(np.nanmax(counts, initial=0.0)), 1.0)
    bars = np.where(hidden, 0.0, counts), np.diff(ends)
    axes.bar(ends[:-1], *bars, align="edge", color=ACCENT, linewidth=0)
    if hidden.any():
        unknown = 0.5 * top, np.diff(ends)[hidden]
        axes.bar(
            ends[:-1][hidden], *unknown, align="edge",
            color=INK, alpha=0.35, linewidth=0,
        )  # fmt: skip
    axes.set_xlim(ends[0], ends[-1])
    axes.set_ylim(0, 1.06 * top)
    axes.set_title(name, loc="left", color=INK, pad=5)
    ground(axes)
    axes.locator_params(axis="y", nbins=3, integer=True)
    middles = (ends[:-1] + ends[1:]) / 2.0
    if single:
        axes.set_xticks([0.5], ["one value"])
    elif len(middles) <= _NAMED and np.allclose(middles % np.diff(ends), 0.0):
        axes.set_xticks(middles)  # bins of one value each
    else:
        axes.locator_params(axis="x", nbins=5)

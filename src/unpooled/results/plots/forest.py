"""Forest plots: estimates with intervals below each other, the combined ones last."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from unpooled.arrays import Array, Bool, Float
from unpooled.results.plots.drawing import (
    ACCENT,
    INK,
    SECOND,
    WIDTH,
    blank,
    panel,
    short,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_TERMS = 6
_LINE, _TOP, _AXIS, _LEFT = 19, 26, 30, 160
Lines = tuple[Sequence[str], Float[Array, "l 3"], Bool[Array, " l"]]


def forests(terms: Sequence[str], lines: Sequence[Lines]) -> "Figure":
    """Draw a panel for each term.

    Parameters
    ----------
    terms : sequence of str
        Names of the panels.
    lines : sequence of (names, (l, 3) array, (l,) array of bool)
        For each: who estimated, the estimate with both ends of its interval, and which
        are combined ones.
    """
    heights = [_TOP + _LINE * len(names) + _AXIS for names, _, _ in lines]
    height, top = sum(heights), 0
    figure = blank(height)
    for term, own, room in zip(terms, lines, heights, strict=True):
        below = height - top - room + _AXIS
        axes = panel(figure, _LEFT, WIDTH - _LEFT - 12, top + _TOP, below, height)
        draw_forest(axes, term, own)
        top += room
    return figure


def draw_forest(axes: "Axes", term: str, lines: Lines) -> None:
    """Draw one term; see `forests`."""
    names, estimates, combined = lines
    for place, (theta, low, high) in enumerate(estimates.tolist()):
        last = place == len(names) - 1
        colour = SECOND if last else ACCENT if combined[place] else INK
        axes.plot([low, high], [place] * 2, color=colour, linewidth=1.6)
        mark = "D" if combined[place] else "o"
        axes.plot([theta], [place], mark, color=colour, markersize=5.5)
    axes.axvline(0.0, color=INK, linewidth=0.8, alpha=0.55)
    axes.axvline(float(estimates[-1, 0]), color=SECOND, linewidth=0.8, ls=":")
    # Beyond the ends, so that no interval looks cut off.
    low, high = min(0.0, np.nanmin(estimates)), max(0.0, np.nanmax(estimates))
    room = 0.04 * (high - low or 1.0)
    axes.set_xlim(low - room, high + room)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.set_yticks(
        range(len(names)), [short(name, 24) for name in names], parse_math=False
    )
    axes.grid(axis="x", color=INK, alpha=0.13, linewidth=0.8)
    axes.locator_params(axis="x", nbins=5)
    axes.set_title(short(term, 40), loc="left", color=INK, pad=6, parse_math=False)

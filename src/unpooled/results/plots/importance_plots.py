"""Importance of columns beside the value that all would have if they were alike."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.results.plots.drawing import ACCENT, INK, SECOND, drawing, short

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def importance(values: Float[Array, " p"], columns: Sequence[str]) -> "Figure":
    """Draw one bar for each column's importance, from the top, and a line at 1."""
    height = 82 + 17 * len(values)
    figure, axes = drawing(height=height, left=186, right=14, top=26, bottom=46)
    place = np.arange(len(values))
    # Bars below the line are paler, so that the two differ without colours.
    for bold in (True, False):
        part = (values >= 1) == bold
        axes.barh(
            place[part], values[part], height=0.62, color=ACCENT,
            alpha=1.0 if bold else 0.45,
        )  # fmt: skip
    axes.axvline(1.0, color=SECOND, linewidth=1.1, linestyle="--")
    axes.annotate(
        "average", (1.0, -0.6), (0, 5), textcoords="offset points",
        ha="center", va="bottom", color=SECOND,
    )  # fmt: skip
    axes.set_xlim(0, 1.06 * max(float(values.max(initial=0.0)), 1.1))
    axes.set_ylim(len(values) - 0.4, -0.6)
    names = [short(column, 26) for column in columns]
    axes.set_yticks(place, names, parse_math=False)
    axes.grid(axis="x", color=INK, alpha=0.13, linewidth=0.8)
    axes.set_xlabel("importance (VIP)", color=INK, labelpad=6)
    return figure

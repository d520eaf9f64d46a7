"""Figures for displays: pyplot's own, in the report's size and colours."""

from typing import TYPE_CHECKING

from unpooled.results.plots.drawing import WIDTH, name_colours, panel

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

SIDE = 380  # height of square pictures, in points


class Display:
    """A picture on one pair of axes, once it is drawn.

    Attributes
    ----------
    ax_ : Axes
        What was drawn on.
    figure_ : Figure
        Figure of `ax_`.
    """

    ax_: "Axes"
    figure_: "Figure | SubFigure"


def figure_of(height: int | float) -> "Figure":
    """Return a figure of pyplot, so that notebooks and `plt.show` show it.

    It has the report's natural width; `height` is in points, 1 / 72 inch.
    """
    import matplotlib.pyplot as plt

    name_colours()
    return plt.figure(figsize=(WIDTH / 72, height / 72))


def square_axes() -> "Axes":
    """Return the axes of a figure for pictures with equal scales."""
    figure = figure_of(SIDE)
    return panel(figure, 56, WIDTH - 68, 24, 48, SIDE)


def given(ax: "Axes") -> "Axes":
    """Return axes of the user's, once the colours exist that are drawn with."""
    name_colours()
    return ax

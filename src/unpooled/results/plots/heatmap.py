"""Heatmaps: a matrix as coloured cells, such as correlations or loadings."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.results.formats import number
from unpooled.results.plots.drawing import (
    ACCENT,
    INK,
    SECOND,
    WIDTH,
    blank,
    name_numbers,
    panel,
    short,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LETTERS, _GAP = 14, 10  # letters of a name; pixels between a row's name and its cells
_WIDEST = 64  # pixels of a cell
_MOST_ROWS = 30  # of rows that are high enough for numbers
_STRONGEST = 0.6  # opacity of the largest value: text on it stays legible
# Type of numbers: a number is as wide as so many times its size. Smaller type could not
# be read on a telephone.
_LARGEST, _SMALLEST, _WIDE = 10.5, 9.4, 2.7
_LETTER = 6.6  # pixels, of a name that stands upright
_WORD = 76  # pixels that "component" takes beside columns that are numbers


def heatmap(
    values: Float[Array, "r c"], rows: Sequence[str], columns: Sequence[str]
) -> "Figure":
    """Draw a matrix as cells: blue above zero, orange below, stronger where larger.

    Parameters
    ----------
    values : (r, c) array
        What is drawn; NaN is left blank.
    rows, columns : sequence of str
        Names of the r rows and c columns.
    """
    axes = heatmap_axes(blank, rows, columns)
    draw_heatmap(axes, values, rows, columns)
    return cast("Figure", axes.figure)


def heatmap_axes(
    figure_of: "Callable[[int], Figure]", rows: Sequence[str], columns: Sequence[str]
) -> "Axes":
    """Return axes with room for the cells and names of a heatmap.

    Parameters
    ----------
    figure_of : callable
        Makes a figure of a height.
    rows, columns : sequence of str
        Names.
    """
    r, c = len(rows), len(columns)
    left = _GAP + _LETTER * max(
        (len(short(name, _LETTERS)) for name in rows), default=0
    )
    if _are_numbers(columns):
        left = max(left, _WORD)
    cell = min((WIDTH - left - 8) / c, _WIDEST)
    longest = max(len(short(name, _LETTERS)) for name in columns)
    top = 12 + int(_LETTER * longest) if _LETTER * longest > cell else 26
    height = top + (20 if r <= _MOST_ROWS else 12) * r + 6
    return panel(figure_of(height), left, cell * c, top, 6, height)


def draw_heatmap(
    axes: "Axes",
    values: Float[Array, "r c"],
    rows: Sequence[str],
    columns: Sequence[str],
) -> None:
    """Draw a matrix on axes; numbers stand in the cells where there is room."""
    from matplotlib.patches import Rectangle

    r, c = values.shape
    largest = float(np.nanmax(np.abs(values), initial=0.0)) or 1.0
    box = axes.get_window_extent()
    cell = box.width / axes.figure.dpi * 72 / c
    size = min(_LARGEST, cell / _WIDE)
    numbered = size >= _SMALLEST and r <= _MOST_ROWS
    for i, j in np.ndindex(r, c):
        value = float(values[i, j])
        if not np.isfinite(value):
            continue
        colour = ACCENT if value >= 0 else SECOND
        strength = _STRONGEST * abs(value) / largest
        look = {"facecolor": colour, "alpha": strength, "linewidth": 0}
        axes.add_patch(Rectangle((j - 0.48, i - 0.46), 0.96, 0.92, **look))
        if numbered:
            write_cell(axes, i, j, _in_cell(value, largest), size)
    name_cells(axes, rows, columns, _LETTERS, cell)
    if _are_numbers(columns):
        name_numbers(axes)
    axes.spines[:].set_visible(False)


def _are_numbers(columns: Sequence[str]) -> bool:
    return all(name.isdecimal() for name in columns)


def write_cell(axes: "Axes", i: int, j: int, text: str, size: float) -> None:
    """Write into the middle of a cell."""
    axes.text(
        j, i, text, color=INK, fontsize=size, ha="center", va="center_baseline"
    )  # fmt: skip


def name_cells(
    axes: "Axes",
    rows: Sequence[str],
    columns: Sequence[str],
    letters: int,
    cell: float,
) -> None:
    """Write the names of rows and columns beside and above cells of unit size.

    Parameters
    ----------
    axes : Axes
        To draw on.
    rows, columns : sequence of str
        Names.
    letters : int
        Longer names are shortened to this many.
    cell : float
        Width of a cell in pixels: names of columns stand upright where they are wider.
    """
    axes.set_xlim(-0.5, len(columns) - 0.5)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.xaxis.tick_top()
    heads = [short(name, letters) for name in columns]
    turned: dict[str, Any] = (
        {"rotation": 90} if _LETTER * max(map(len, heads)) > cell else {}
    )
    axes.set_xticks(range(len(heads)), heads, parse_math=False, **turned)
    names = [short(name, letters) for name in rows]
    axes.set_yticks(range(len(names)), names, parse_math=False)
    axes.tick_params(length=0, colors=INK)


def _in_cell(value: float, largest: float) -> str:
    """Return a number as short as it can be: two places, no zero before the point.

    Loadings of correlated factors may lie a little above 1.
    """
    if largest >= 10.0:
        return number(value)
    text = f"{value:.2f}"
    if text in ("-0.00", "0.00"):
        return "0"
    return text.replace("0.", ".", 1).replace("-", "−")

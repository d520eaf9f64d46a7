"""Bar charts and line charts of results, as matplotlib figures."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.results.plots.drawing import (
    ACCENT,
    INK,
    SECOND,
    WIDTH,
    blank,
    drawing,
    panel,
    short,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_SITES = 30
# Width of the names beside loadings, with several panels and with one: pixels, letters.
_NAMES = {True: (102, 14), False: (186, 28)}


def scree(shares: Float[Array, " k"]) -> "Figure":
    """Draw each component's share of variance (bars) and the cumulative share (line).

    `shares` are explained variance ratios; all are drawn.
    """
    k = len(shares)
    figure, axes = drawing(height=240, left=44, right=8, top=10, bottom=42)
    cumulative = 100 * np.cumsum(shares)
    place = _upright(axes, 100 * shares, "component", width=0.62 if k < 25 else 0.8)
    axes.plot(place, cumulative, color=SECOND, linewidth=1.5, marker="o", markersize=4)
    _per_cent_scale(axes)
    if k <= 8:
        for x, share in enumerate(100 * shares, start=1):
            # The line begins on the first bar, so its label stands higher.
            above = share + (4.5 if x == 1 and k > 1 else 2)
            axes.text(x, above, f"{share:.0f} %", ha="center", color=INK)
    last = cumulative[-1]
    below = last > 88
    axes.annotate(
        "cumulative",
        (k, last),
        (k + 0.12, last - 7 if below else last + 5),
        ha="right",
        va="top" if below else "bottom",
        color=SECOND,
    )
    return figure


def eigenvalues(shares: Float[Array, " k"]) -> "Figure":
    """Draw eigenvalues as bars, in shares of the first."""
    figure, axes = drawing(height=200, left=44, right=8, top=10, bottom=42)
    _upright(axes, 100 * shares, "component")
    _per_cent_scale(axes)
    return figure


def correlations(values: Float[Array, " k"]) -> "Figure":
    """Draw correlations of scores as bars from 0 to 1."""
    figure, axes = drawing(height=220, left=44, right=8, top=10, bottom=42)
    _upright(axes, values, "pair")
    axes.set_ylim(0, 1.04)
    axes.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", ".25", ".5", ".75", "1"])
    return figure


def loadings(
    components: Float[Array, "k p"], columns: Sequence[str], titles: Sequence[str]
) -> "Figure":
    """Draw one panel of bars per component, with the columns named once, at the left.

    Parameters
    ----------
    components : (k, p) array
        What is drawn, all of it.
    columns : sequence of str
        Names of the p columns.
    titles : sequence of str
        Names of the k panels.
    """
    k, p = components.shape
    height = 24 + 17 * p + 6
    (left, letters), gap = _NAMES[k > 1], 8
    width = (WIDTH - left - 4 - gap * (k - 1)) / k
    figure = blank(height)
    limit = 1.04 * max(float(np.abs(components).max()), 1e-12)
    for index in range(k):
        start = left + index * (width + gap)
        axes = panel(figure, start, width, 24, 6, height)
        values = components[index]
        colours = [ACCENT if value >= 0 else SECOND for value in values]
        axes.barh(np.arange(p), values, height=0.62, color=colours)
        axes.axvline(0.0, color=INK, linewidth=0.8, alpha=0.55)
        axes.set_xlim(-limit, limit)
        axes.set_ylim(p - 0.4, -0.6)
        axes.set_xticks([])
        names = [short(column, letters) for column in columns] if index == 0 else []
        axes.set_yticks(range(p) if index == 0 else [], names, parse_math=False)
        axes.set_title(titles[index], color=INK, pad=7, parse_math=False)
    return figure


def weights(values: Float[Array, " p"], columns: Sequence[str]) -> "Figure":
    """Draw one bar for each column's weight, from the top."""
    height = 62 + 17 * len(values)
    figure, axes = drawing(height=height, left=186, right=14, top=6, bottom=46)
    place = np.arange(len(values))
    axes.barh(place, values, height=0.62, color=ACCENT)
    axes.set_ylim(len(values) - 0.4, -0.6)
    names = [short(column, 26) for column in columns]
    axes.set_yticks(place, names, parse_math=False)
    axes.grid(axis="x", color=INK, alpha=0.13, linewidth=0.8)
    axes.set_xlabel("weight", color=INK, labelpad=6)
    return figure


def shares_between_silos(model: Any, prefix: str) -> "Figure":
    """Draw which share of columns' or components' variance lies between silos.

    Parameters
    ----------
    model : Heterogeneity
        Fitted.
    prefix : str
        "" for columns, "component_" for components.
    """
    count = len(getattr(model, f"{prefix}eta_squared_"))
    height = 62 + 17 * min(count, _MOST_SITES)
    figure, axes = drawing(height=height, left=124, right=14, top=6, bottom=46)
    shown = model.draw(axes, prefix, INK, ACCENT, SECOND)
    place = np.arange(len(shown))
    axes.set_yticks(place, [short(name, 17) for name in shown], parse_math=False)
    axes.grid(axis="x", color=INK, alpha=0.13, linewidth=0.8)
    return figure


def objective(values: Float[Array, " t"]) -> "Figure":
    """Draw the objective after each iteration; on a log scale where it falls far."""
    figure, axes = drawing(height=200, left=64, right=8, top=12, bottom=42)
    axes.plot(np.arange(1, len(values) + 1), values, color=ACCENT, linewidth=1.5)
    axes.set_xlim(0.5, len(values) + 0.5)
    steep = bool(0 < 20 * values.min() < values.max())
    if steep:
        axes.set_yscale("log")
        axes.minorticks_off()
    axes.grid(axis="y", color=INK, alpha=0.13, linewidth=0.8)
    axes.set_xlabel("iteration", color=INK, labelpad=6)
    axes.set_ylabel("objective" + ", logarithmic" * steep, color=INK)
    return figure


def _upright(
    axes: "Axes", values: Float[Array, " k"], label: str, width: float = 0.62
) -> Float[Array, " k"]:
    """Draw bars numbered from 1; return their places."""
    k = len(values)
    place = np.arange(1.0, k + 1)
    axes.bar(place, values, width=width, color=ACCENT)
    axes.set_xlim(0.4, k + 0.6)
    # At most twelve numbers fit below the bars.
    axes.set_xticks(range(1, k + 1, max(1, -(-k // 12))))
    axes.grid(axis="y", color=INK, alpha=0.13, linewidth=0.8)
    axes.set_xlabel(label, color=INK, labelpad=6)
    return place


def _per_cent_scale(axes: "Axes") -> None:
    axes.set_ylim(0, 104)
    axes.set_yticks(range(0, 101, 25), [f"{v} %" for v in range(0, 101, 25)])

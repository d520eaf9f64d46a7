"""Pictures of two directions at once, and of correlations.

People are drawn where silos showed their scores, which their policies must allow.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.patches import Circle

from unpooled.arrays import Array, Bool, Float
from unpooled.report.plots.label_placement import beside
from unpooled.report.plots.svg import ACCENT, INK, SECOND, drawing, settings, short, svg

_SIDE = 380
# With two colours, enough to tell twelve classes apart.
_MARKERS = "os^Dvx"
# Of a name in the circle, where 143 pixels are 1: a letter's width, a line's height.
_LETTER, _LINE = 0.048, 0.095


@settings()
def bars(values: Float[Array, " k"], name: str, title: str, description: str) -> Markup:
    """Draw correlations of scores as bars from 0 to 1."""
    figure, axes = drawing(height=220, left=44, right=8, top=10, bottom=42)
    place = np.arange(1, len(values) + 1)
    axes.bar(place, values, width=0.62, color=ACCENT)
    axes.set_xlim(0.4, len(values) + 0.6)
    axes.set_ylim(0, 1.04)
    axes.set_xticks(place[:: max(1, -(-len(values) // 12))])
    axes.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", ".25", ".5", ".75", "1"])
    axes.grid(axis="y", color=INK, alpha=0.13, linewidth=0.8)
    axes.axhline(1.0, color=SECOND, linewidth=0.8)
    axes.set_xlabel("pair", color=INK, labelpad=6)
    return svg(figure, name, title, description)


@settings()
def shares(model: Any, prefix: str, name: str, description: str) -> Markup:
    """Draw which share of columns' or components' variance is between silos.

    Parameters
    ----------
    model : Heterogeneity
        Fitted.
    prefix : str
        "" for columns, "component_" for components.
    name, description : str
        Of the picture.
    """
    rows = min(model.table().num_rows, 30)
    count = len(getattr(model, f"{prefix}eta_squared_"))
    height = 62 + 17 * min(rows, count)
    figure, axes = drawing(height=height, left=124, right=14, top=6, bottom=46)
    shown = model.draw(axes, prefix, INK, ACCENT, SECOND)
    place = np.arange(len(shown))
    axes.set_yticks(place, [short(one, 17) for one in shown], parse_math=False)
    axes.grid(axis="x", color=INK, alpha=0.13, linewidth=0.8)
    return svg(figure, name, "Shares of variance between silos", description)


@settings()
def classes(
    means: Float[Array, "c 2"],
    names: Sequence[str],
    name: str,
    description: str,
    people: Mapping[str, Float[Array, "_ 2"]],
) -> Markup:
    """Draw classes in the plane of two discriminants, each with a circle of radius 1.

    Parameters
    ----------
    means : (c, 2) array
        In units of the deviation within classes.
    names : sequence of str
        Of the classes.
    name, description : str
        Of the picture.
    people : mapping of str to (n, 2) array
        By class, where people lie; nobody where the silos did not show them.
    """
    figure, axes = drawing(height=_SIDE, left=44, right=12, top=10, bottom=42)
    low, high = means.min(axis=0) - 1.6, means.max(axis=0) + 1.6
    for j, one in enumerate(names):
        own = people.get(one, np.zeros((0, 2)))
        if len(own):
            low = np.minimum(low, own.min(axis=0) - 0.3)
            high = np.maximum(high, own.max(axis=0) + 0.3)
            marker = _MARKERS[j // 2 % len(_MARKERS)]
            look = {"color": (ACCENT, SECOND)[j % 2], "alpha": 0.45, "markersize": 3}
            axes.plot(*own.T, marker, markeredgewidth=0.6, fillstyle="none", **look)
    _square(axes, low, high)
    for (x, y), one in zip(means, names, strict=True):
        axes.add_patch(Circle((x, y), 1.0, fill=False, edgecolor=SECOND, linewidth=1.0))
        axes.plot([x], [y], "o", color=ACCENT, markersize=5)
        axes.text(x, y + 0.12, short(one, 14), ha="center", va="bottom", color=INK)
    axes.set_xlabel("first discriminant", color=INK, labelpad=6)
    axes.set_ylabel("second discriminant", color=INK)
    return svg(figure, name, "Classes by discriminants", description)


@settings()
def circle(
    points: Float[Array, "p 2"],
    names: Sequence[str],
    first: Bool[Array, " p"],
    name: str,
    description: str,
) -> Markup:
    """Draw columns by their correlations with two scores, within the unit circle.

    Parameters
    ----------
    points : (p, 2) array
        Correlations.
    names : sequence of str
        Of the columns.
    first : (p,) array of bool
        Whether a column is of the first view.
    name, description : str
        Of the picture.
    """
    figure, axes = drawing(height=_SIDE, left=44, right=12, top=10, bottom=42)
    _square(axes, np.full(2, -1.15), np.full(2, 1.15))
    axes.add_patch(Circle((0, 0), 1.0, fill=False, edgecolor=INK, linewidth=0.8))
    axes.axhline(0, color=INK, alpha=0.2, linewidth=0.8)
    axes.axvline(0, color=INK, alpha=0.2, linewidth=0.8)
    said = [short(one, 12) for one in names]
    places = beside(points, [_LETTER * len(one) for one in said], _LINE, 0.03)
    for (x, y), (u, v), one, own in zip(points, places, said, first, strict=True):
        colour = ACCENT if own else SECOND
        axes.plot([0, x], [0, y], color=colour, linewidth=1.2)
        axes.plot([x, u], [y, v], color=colour, linewidth=0.6, alpha=0.6)
        ha = "left" if x >= 0 else "right"
        axes.text(u, v, one, ha=ha, va="center", color=colour, parse_math=False)
    axes.set_xlabel("first pair", color=INK, labelpad=6)
    axes.set_ylabel("second pair", color=INK)
    return svg(figure, name, "Correlation circle", description)


def _square(axes: Axes, low: Float[Array, " 2"], high: Float[Array, " 2"]) -> None:
    axes.set_xlim(low[0], high[0])
    axes.set_ylim(low[1], high[1])
    axes.set_aspect("equal", adjustable="box")
    axes.grid(color=INK, alpha=0.1, linewidth=0.8)

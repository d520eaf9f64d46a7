"""Bar charts and line charts of results, as matplotlib figures."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.results.formats import plain_number
from unpooled.results.plots.drawing import (
    ACCENT,
    INK,
    PAPER,
    SECOND,
    WIDTH,
    blank,
    drawing,
    ground,
    name_numbers,
    panel,
    short,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_SITES = 30
# Width of the names beside loadings, with several panels and with one: pixels, letters.
_NAMES = {True: (102, 14), False: (186, 28)}
# Pictures of loadings: pixels above the bars for titles, and below them for the axis.
_TOP, _AXIS = 24, 26
_LABEL = 20  # for what the axis shows
_MOST_LABELLED, _MOST_NAMED = 14, 8  # bars with room for their rank, and a number
_LOW = 40.0  # per cent, below which a number has no room under its point
_SMALL = 9.5  # type of the numbers below narrow panels
# Intervals on bars.
_WHISKERS = {"fmt": "none", "ecolor": INK, "elinewidth": 1.0, "capsize": 2.0}


def scree(
    shares: Float[Array, " l"],
    kept: int | None = None,
    reference: Float[Array, " l"] | None = None,
    name: str = "broken stick",
    errors: Float[Array, " k"] | None = None,
) -> "Figure":
    """Draw shares of variance by component, and below them the cumulative share.

    Parameters
    ----------
    shares : (l,) array
        Explained variance ratios; all are drawn.
    kept : int, optional
        How many of them the model keeps; the others are paler. All when omitted.
    reference : (l,) array, optional
        Shares that those of the components are compared with.
    name : str
        Name of the reference.
    errors : (k,) array, optional
        Half the lengths of the first k shares' intervals.
    """
    panels = scree_panels(blank)
    draw_scree(panels, shares, kept, reference, name, errors)
    return cast("Figure", panels[0].figure)


def draw_scree(
    panels: "Sequence[Axes]",
    shares: Float[Array, " l"],
    kept: int | None,
    reference: Float[Array, " l"] | None,
    name: str,
    errors: Float[Array, " k"] | None,
) -> None:
    """Draw shares of variance, and on a second panel the cumulative share."""
    draw_shares(panels[0], shares, kept, reference, name, errors)
    if len(panels) > 1:
        panels[0].set_xlabel("")
        draw_cumulative(panels[1], shares, kept)


def scree_panels(figure_of: "Callable[[int], Figure]") -> "list[Axes]":
    """Return a panel for shares, and a lower one for cumulative shares."""
    height, width = 408, WIDTH - 44 - 8
    figure = figure_of(height)
    panels = [
        panel(figure, 44, width, 26, 210, height),
        panel(figure, 44, width, height - 148, 42, height),
    ]
    for axes in panels:
        ground(axes)
    return panels


def draw_shares(
    axes: "Axes",
    shares: Float[Array, " l"],
    kept: int | None = None,
    reference: Float[Array, " l"] | None = None,
    name: str = "broken stick",
    errors: Float[Array, " k"] | None = None,
) -> None:
    """Draw bars of shares of variance on a scale of their own, and a reference."""
    count = len(shares)
    kept = count if kept is None else kept
    width = 0.62 if count < 25 else 0.8
    place = _upright(axes, 100 * shares, "component", width, kept)
    top = 100 * float(shares.max(initial=0.0))
    if errors is not None:
        drawn = min(len(errors), count)
        highs = 100 * (shares[:drawn] + errors[:drawn])
        top = max(top, float(highs.max(initial=0.0)))
        axes.errorbar(
            place[:drawn], 100 * shares[:drawn], 100 * errors[:drawn], **_WHISKERS
        )
    if reference is not None:
        top = max(top, 100 * float(reference.max()))
        look = {"color": SECOND, "linewidth": 1.5, "linestyle": (0, (4, 2))}
        # On bars too, whose colour is as light as the line's on a dark page.
        halo = {"color": PAPER, "linewidth": 4.0, "solid_capstyle": "butt"}
        axes.plot(place, 100 * reference, **halo)
        axes.plot(place, 100 * reference, label=name, **look)
        axes.legend(frameon=False, labelcolor=SECOND, loc="upper right")
    axes.set_ylim(0, 1.16 * (top or 1.0))
    _per_cent_ticks(axes)
    _name_heights(axes, "share of variance")
    if count <= _MOST_NAMED:
        # Below the bars, where no line crosses the numbers.
        shown = [f"{i}\n{x:.0f} %" for i, x in enumerate(100 * shares, 1)]
        axes.set_xticks(place, shown)


def draw_cumulative(
    axes: "Axes", shares: Float[Array, " l"], kept: int | None = None
) -> None:
    """Draw the cumulative share, from 0 to 100 %, with the one that is kept named."""
    count = len(shares)
    kept = count if kept is None else kept
    cumulative = 100 * np.cumsum(shares)
    place = np.arange(1.0, count + 1)
    look = {"color": ACCENT, "linewidth": 1.5, "markersize": 4}
    axes.plot(place, cumulative, alpha=0.4, marker="o", **look)
    axes.plot(place[:kept], cumulative[:kept], marker="o", **look)
    _count_components(axes, count, "component")
    axes.set_ylim(0, 106)
    axes.set_yticks([0, 50, 100], ["0 %", "50 %", "100 %"])
    _name_heights(axes, "cumulative share")
    last, before = cumulative[kept - 1], kept < 0.8 * count
    # The line rises: no part of it is below and behind a point, nor above and before
    # it. Behind a low point the number is above, where the axis is not.
    below = before and last > _LOW
    if not before:
        axes.set_ylim(0, 132)
    axes.annotate(
        f"{last:.0f} % with {kept}{' kept' if kept < count else ''}",
        (kept, last), (4, -8 if below else 8), textcoords="offset points",
        ha="left" if before else "right",
        va="top" if below else "bottom", color=INK,
    )  # fmt: skip


def eigenvalues(shares: Float[Array, " k"]) -> "Figure":
    """Draw eigenvalues as bars, in shares of the first."""
    figure, axes = drawing(height=216, left=44, right=8, top=26, bottom=42)
    _upright(axes, 100 * shares, "component")
    _name_heights(axes, "share of the first")
    _per_cent_scale(axes)
    return figure


def numbers(values: Float[Array, " k"], label: str, heights: str) -> "Figure":
    """Draw numbers of either sign as bars on a scale of their own.

    Parameters
    ----------
    values : (k,) array
        Heights of the bars.
    label : str
        What they are numbered as.
    heights : str
        What the numbers are.
    """
    figure, axes = drawing(height=216, left=58, right=8, top=26, bottom=42)
    _upright(axes, values, label)
    _name_heights(axes, heights)
    axes.axhline(0.0, color=INK, linewidth=0.8, alpha=0.55)
    low, high = float(values.min(initial=0.0)), float(values.max(initial=0.0))
    room = 0.06 * (high - low or 1.0)
    axes.set_ylim(low - room if low < 0 else 0.0, high + room)
    return figure


def correlations(values: Float[Array, " k"]) -> "Figure":
    """Draw correlations of scores as bars from 0 to 1."""
    figure, axes = drawing(height=236, left=44, right=8, top=26, bottom=42)
    _upright(axes, values, "pair")
    _name_heights(axes, "correlation")
    axes.set_ylim(0, 1.04)
    axes.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", ".25", ".5", ".75", "1"])
    return figure


def loadings(
    components: Float[Array, "k p"],
    columns: Sequence[str],
    titles: Sequence[str],
    errors: Float[Array, "k p"] | None = None,
    word: str = "component",
    label: str = "",
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
    errors : (k, p) array, optional
        Half the lengths of intervals; NaN draws none.
    word : str
        What panels are, where their names are numbers.
    label : str
        What the lengths of the bars are, below the first panel.
    """
    panels, letters = loadings_panels(blank, *components.shape, labelled=bool(label))
    draw_loadings(panels, components, columns, titles, letters, errors, word)
    if label:
        panels[0].set_xlabel(label, color=INK, labelpad=6)
    return cast("Figure", panels[0].figure)


def loadings_panels(
    figure_of: "Callable[[int], Figure]", k: int, p: int, *, labelled: bool = False
) -> "tuple[list[Axes], int]":
    """Return k panels for p bars each, and how many letters a name has room for.

    Parameters
    ----------
    figure_of : callable
        Makes a figure of a height.
    k, p : int
        Numbers of components and columns.
    labelled : bool
        Whether there is room for the name of the axis below.
    """
    below = _AXIS + _LABEL * labelled
    height = _TOP + 17 * p + below
    (left, letters), gap = _NAMES[k > 1], 8
    width = (WIDTH - left - 4 - gap * (k - 1)) / k
    figure = figure_of(height)
    panels = [
        panel(figure, left + i * (width + gap), width, _TOP, below, height)
        for i in range(k)
    ]
    return panels, letters


def draw_loadings(
    panels: "Sequence[Axes]",
    components: Float[Array, "k p"],
    columns: Sequence[str],
    titles: Sequence[str],
    letters: int = 28,
    errors: Float[Array, "k p"] | None = None,
    word: str = "component",
) -> None:
    """Draw one panel of bars per component, on one scale for all.

    Parameters
    ----------
    panels : sequence of Axes
        k of them.
    components : (k, p) array
        What is drawn, all of it.
    columns, titles : sequence of str
        Names of the p columns, and of the k panels.
    letters : int
        Longer names of columns are shortened to this many.
    errors : (k, p) array, optional
        Half the lengths of intervals; NaN draws none.
    word : str
        What panels are, where their names are numbers.
    """
    p = components.shape[1]
    ends = np.abs(components)
    if errors is not None:
        ends = ends + np.nan_to_num(errors)
    limit = 1.04 * max(float(ends.max()), 1e-12)
    mark = round_mark(limit)
    ticks = [-mark, 0.0, mark]
    # Without the zero before the point, so that five panels have room for them.
    labels = [f"{tick:g}".replace("-", "−").replace("0.", ".") for tick in ticks]
    for index, axes in enumerate(panels):
        values = components[index]
        colours = [ACCENT if value >= 0 else SECOND for value in values]
        axes.barh(np.arange(p), values, height=0.62, color=colours)
        if errors is not None and np.isfinite(errors[index]).all():
            axes.errorbar(values, np.arange(p), xerr=errors[index], **_WHISKERS)
        axes.axvline(0.0, color=INK, linewidth=0.8, alpha=0.55)
        axes.set_xlim(-limit, limit)
        axes.set_ylim(p - 0.4, -0.6)
        axes.set_axisbelow(True)
        axes.set_xticks(ticks, labels, fontsize=_SMALL)
        axes.grid(axis="x", color=INK, alpha=0.13, linewidth=0.8)
        names = [short(column, letters) for column in columns] if index == 0 else []
        axes.set_yticks(range(p) if index == 0 else [], names, parse_math=False)
        axes.set_title(titles[index], color=INK, pad=7, parse_math=False)
    if len(panels) > 1 and titles[0].isdecimal():
        name_numbers(panels[0], word)


def round_mark(limit: float) -> float:
    """Return the largest of 1, 0.5, 0.2, 0.1, ... that lies well within a limit."""
    power = 10.0 ** np.floor(np.log10(limit))
    marks = [m * power for m in (5.0, 2.0, 1.0, 0.5) if m * power <= 0.85 * limit]
    return float(f"{marks[0]:.1g}")


def weights(values: Float[Array, " p"], columns: Sequence[str]) -> "Figure":
    """Draw one bar for each column's weight, from the top."""
    figure, axes = drawing(**_lines_below(len(values)))
    axes.barh(np.arange(len(values)), values, height=0.62, color=ACCENT)
    axes.set_ylim(len(values) - 0.4, -0.6)
    _name_lines(axes, columns)
    axes.set_xlabel("weight", color=INK, labelpad=6)
    return figure


def importance(values: Float[Array, " p"], columns: Sequence[str]) -> "Figure":
    """Draw one bar for each column's importance, from the top, and a line at 1.

    1 is the value that all would have if they were alike.
    """
    figure, axes = drawing(**_lines_below(len(values), top=26))
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
    _name_lines(axes, columns)
    axes.set_xlabel("importance (VIP)", color=INK, labelpad=6)
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
    count = min(len(getattr(model, f"{prefix}eta_squared_")), _MOST_SITES)
    figure, axes = drawing(**_lines_below(count, left=124))
    _name_lines(axes, model.draw(axes, prefix, INK, SECOND, ACCENT), 17)
    return figure


def _lines_below(count: int, left: int = 186, top: int = 6) -> dict[str, int]:
    """Return height and margins of a picture with a line for each of some names."""
    height = 56 + top + 17 * count
    return {"height": height, "left": left, "right": 14, "top": top, "bottom": 46}


def _name_lines(axes: "Axes", names: Sequence[str], letters: int = 26) -> None:
    shown = [short(name, letters) for name in names]
    axes.set_yticks(range(len(shown)), shown, parse_math=False)
    axes.grid(axis="x", color=INK, alpha=0.13, linewidth=0.8)


def objective(values: Float[Array, " t"]) -> "Figure":
    """Draw the objective after each iteration; on a log scale where it falls far."""
    figure, axes = drawing(height=214, left=64, right=8, top=26, bottom=42)
    axes.plot(np.arange(1, len(values) + 1), values, color=ACCENT, linewidth=1.5)
    _whole_numbers(axes, len(values))
    steep = bool(0 < 20 * values.min() < values.max())
    if steep:
        axes.set_yscale("log")
        axes.minorticks_off()
    axes.yaxis.set_major_formatter(lambda v, _: plain_number(v))
    axes.grid(axis="y", color=INK, alpha=0.13, linewidth=0.8)
    axes.set_xlabel("iteration", color=INK, labelpad=6)
    _name_heights(axes, "objective" + ", logarithmic" * steep)
    return figure


def _whole_numbers(axes: "Axes", t: int) -> None:
    """Number iterations from 1 to t, none of them by halves."""
    from matplotlib.ticker import MaxNLocator

    axes.set_xlim(0.5, t + 0.5)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))


def _upright(
    axes: "Axes",
    values: Float[Array, " k"],
    label: str,
    width: float = 0.62,
    kept: int | None = None,
) -> Float[Array, " k"]:
    """Draw bars numbered from 1, those beyond `kept` paler; return their places."""
    k = len(values)
    place = np.arange(1.0, k + 1)
    kept = k if kept is None else kept
    axes.bar(place[:kept], values[:kept], width=width, color=ACCENT)
    if kept < k:
        axes.bar(place[kept:], values[kept:], width=width, color=ACCENT, alpha=0.4)
    _count_components(axes, k, label)
    return place


def _count_components(axes: "Axes", k: int, label: str) -> None:
    axes.set_xlim(0.4, k + 0.6)
    # At most twelve numbers fit below the bars.
    axes.set_xticks(range(1, k + 1, 1 if k <= _MOST_LABELLED else -(-k // 12)))
    axes.set_axisbelow(True)
    axes.grid(axis="y", color=INK, alpha=0.13, linewidth=0.8)
    axes.set_xlabel(label, color=INK, labelpad=6)


def _name_heights(axes: "Axes", what: str) -> None:
    axes.set_title(what, loc="left", color=INK, pad=8)


def _per_cent_ticks(axes: "Axes") -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axes.yaxis.set_major_locator(MaxNLocator(4))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g} %"))


def _per_cent_scale(axes: "Axes") -> None:
    axes.set_ylim(0, 104)
    axes.set_yticks(range(0, 101, 25), [f"{v} %" for v in range(0, 101, 25)])

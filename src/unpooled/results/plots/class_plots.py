"""Classes by discriminants: ellipses in a plane, or curves along a single direction.

Both are drawn from moments: means and covariances of the classes. People are drawn only
where silos disclosed their coordinates.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import scipy

from unpooled.arrays import Array, Float
from unpooled.results.plots.drawing import INK, OF_CLASSES, drawing, short
from unpooled.results.plots.label_places import label_places, nearest_edge

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SIDE = 380
# The share of a normally distributed class that its ellipse holds.
SHARE = 0.68
_CORNERS = 120  # of the polygon that an ellipse is drawn as
_REACH = 3.6  # standard deviations beyond the outer means, where curves end
# As many as colours, so that classes differ in both; thirty-six in one of them.
_MARKERS = "os^Dvx"
_LEADER = 12.0  # pixels from a mean to its name from which a line joins them


def plane(
    means: Float[Array, "c 2"],
    covariances: Float[Array, "c 2 2"],
    names: Sequence[str],
    people: Mapping[str, Float[Array, "_ 2"]],
) -> "Figure":
    """Draw classes in the plane of two discriminants, each with an ellipse.

    Parameters
    ----------
    means : (c, 2) array
        Means of the classes' coordinates.
    covariances : (c, 2, 2) array
        Covariance matrices of the coordinates within each class.
    names : sequence of str
        Names of the classes.
    people : mapping of str to (n, 2) array
        Coordinates of people, by class; empty where the silos did not disclose any.
    """
    figure, axes = drawing(height=_SIDE, left=44, right=12, top=10, bottom=42)
    outlines = [ellipse(*one) for one in zip(means, covariances, strict=True)]
    corners = np.concatenate([*outlines, *people.values()])
    low, high = _fitting(axes, corners.min(axis=0), corners.max(axis=0))
    for j, name in enumerate(names):
        points = people.get(name, np.zeros((0, 2)))
        look = {"color": _colour(j), "alpha": 0.45, "markersize": 3}
        look |= {"markeredgewidth": 0.6, "fillstyle": "none"}
        if len(points):
            axes.plot(*points.T, _marker(j), **look)
    for j, (outline, (x, y)) in enumerate(zip(outlines, means, strict=True)):
        axes.fill(*outline.T, color=_colour(j), alpha=0.07, linewidth=0)
        axes.plot(*outline.T, color=_colour(j), linewidth=1.2)
        axes.plot([x], [y], _marker(j), color=_colour(j))
    axes.set_xlim(low[0], high[0])
    axes.set_ylim(low[1], high[1])
    axes.grid(color=INK, alpha=0.1, linewidth=0.8)
    axes.set_xlabel("first discriminant", color=INK, labelpad=6)
    axes.set_ylabel("second discriminant", color=INK)
    _name_means(axes, means, names, [_colour(j) for j in range(len(names))])
    return figure


def ellipse(
    centre: Float[Array, " 2"], covariance: Float[Array, "2 2"], share: float = SHARE
) -> Float[Array, "n 2"]:
    """Return the outline that holds a share of a normally distributed class."""
    radius = float(np.sqrt(scipy.stats.chi2.ppf(share, 2)))
    angle = np.linspace(0.0, 2 * np.pi, _CORNERS)
    circle = np.column_stack([np.cos(angle), np.sin(angle)])
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    return centre + radius * circle @ root.T


def densities(
    means: Float[Array, " c"],
    spread: float,
    weights: Float[Array, " c"],
    names: Sequence[str],
    threshold: float | None = None,
) -> "Figure":
    """Draw classes along a direction as normal curves.

    Parameters
    ----------
    means : (c,) array
        Means of the classes.
    spread : float
        Standard deviation within each.
    weights : (c,) array
        Areas under the curves: the classes' prior probabilities.
    names : sequence of str
        Names of the classes.
    threshold : float, optional
        Where predictions of two classes change.
    """
    figure, axes = drawing(height=260, left=14, right=14, top=40, bottom=42)
    reach = _REACH * spread
    points = list(means)
    if threshold is not None and abs(threshold) < 10 * reach:
        points.append(threshold)
    low, high = min(points) - reach, max(points) + reach
    x = np.linspace(low, high, 400)
    heights = [
        weight * scipy.stats.norm.pdf(x, mean, spread)
        for mean, weight in zip(means, weights, strict=True)
    ]
    top = max(float(height.max()) for height in heights)
    axes.set_xlim(low, high)
    axes.set_ylim(0, 1.1 * top)
    colours = [_colour(j) for j in range(len(means))]
    for height, colour in zip(heights, colours, strict=True):
        axes.fill_between(x, height, color=colour, alpha=0.13, linewidth=0)
        axes.plot(x, height, color=colour, linewidth=1.5)
    peaks = np.column_stack([means, [height.max() for height in heights]])
    if len(means) == 2:
        _name_outwards(axes, peaks, spread, names)
    else:
        _name_means(axes, peaks, names, colours)
    if threshold is not None and low < threshold < high:
        axes.plot([threshold] * 2, [0, 1.08 * top], color=INK, linewidth=1.1, ls="--")
        axes.annotate(
            # Adding 0 to -0.0 leaves out its sign.
            f"threshold {round(threshold, 2) + 0.0:.2f}".replace("-", "−"),
            (threshold, 1.08 * top),
            (0, 4), textcoords="offset points", ha="center", va="bottom", color=INK,
        )  # fmt: skip
    axes.set_yticks([])
    axes.set_xlabel("score", color=INK, labelpad=6)
    return figure


def _name_outwards(
    axes: "Axes", peaks: Float[Array, "2 2"], spread: float, names: Sequence[str]
) -> None:
    """Name two curves at their outer sides, where the other curve is not."""
    for j, (x, y) in enumerate(peaks):
        side = -1.0 if j == peaks[:, 0].argmin() else 1.0
        axes.annotate(
            short(names[j], 22), (x + 0.75 * spread * side, 0.78 * y),
            (6 * side, 4), textcoords="offset points",
            ha="left" if side > 0 else "right", va="bottom",
            color=_colour(j), parse_math=False,
        )  # fmt: skip


def _fitting(
    axes: "Axes", low: Float[Array, " 2"], high: Float[Array, " 2"]
) -> tuple[Float[Array, " 2"], Float[Array, " 2"]]:
    """Return limits around a box by which a unit is as long across as upwards."""
    panel = axes.get_window_extent()
    sides = np.array([panel.width, panel.height])
    length = 1.1 * float(((high - low) / sides).max() or 1.0) * sides
    middle = (low + high) / 2
    return middle - length / 2, middle + length / 2


def _colour(j: int) -> str:
    return OF_CLASSES[j % len(OF_CLASSES)]


def _marker(j: int) -> str:
    return _MARKERS[(j + j // len(OF_CLASSES)) % len(_MARKERS)]


def _name_means(
    axes: "Axes",
    means: Float[Array, "c 2"],
    names: Sequence[str],
    colours: Sequence[str],
) -> None:
    """Write names beside means, moved up or down until none lies over another."""
    # Pixels of the natural width, in which letters and lines have fixed sizes.
    pixels = axes.transData.transform(means)
    labels = [short(name, 14) for name in names]
    widths, box = [7.0 * len(label) for label in labels], axes.get_window_extent()
    picture = (box.x0, box.x1, box.y0, box.y1)
    centres = label_places(pixels, widths, 14.0, 8.0, picture, arrows=False)
    to_data = axes.transData.inverted().transform
    for label, at, pixel, width, mean, colour in zip(
        labels, centres, pixels, widths, means, colours, strict=True
    ):
        edge = nearest_edge(pixel, at, width, 8.0)
        if np.linalg.norm(edge - pixel) > _LEADER:
            x, y = np.transpose([mean, to_data(edge)])
            axes.plot(x, y, color=INK, linewidth=0.5, alpha=0.5)
        u, v = to_data(at)
        axes.text(u, v, label, ha="center", va="center", color=colour, parse_math=False)

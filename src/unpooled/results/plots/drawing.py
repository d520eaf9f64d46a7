"""The ground that charts are drawn on: sizes, panels, colours and type.

Matplotlib takes a quarter of a second to import, so it is imported when something is
drawn: naming a chart, as every model does, costs nothing.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from unpooled.results.formats import clean

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Names of colours: what they look like is set where a picture is written.
INK, PAPER = "unpooled:ink", "unpooled:paper"
ACCENT, SECOND = "unpooled:accent", "unpooled:second"
ON_WHITE: Mapping[str, str] = {
    INK: "#1d2329",
    # Not the white of matplotlib’s own ground, which pages leave out.
    PAPER: "#fefefe",
    ACCENT: "#1f6287",
    SECOND: "#b4552d",
    "unpooled:third": "#3c7a3b",
    "unpooled:fourth": "#7b4b9e",
    "unpooled:fifth": "#8a6a00",
    "unpooled:sixth": "#b02e6e",
}
# Colours of the classes in one picture, in this order.
OF_CLASSES = tuple(name for name in ON_WHITE if name not in (INK, PAPER))
# Natural width in CSS pixels: the page scales pictures to between 0.8 and 1.3 of it, so
# that type is legible on a telephone and not coarse on a desk.
WIDTH = 420
_TYPE = 12.0


@contextmanager
def settings() -> Iterator[None]:
    """Draw by these settings, whatever those of the user are, and restore them."""
    import matplotlib

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        chosen = matplotlib.rcParams
        chosen["svg.fonttype"], chosen["svg.hashsalt"] = "none", "unpooled"
        chosen["font.size"] = _TYPE
        chosen["axes.labelsize"] = chosen["axes.titlesize"] = _TYPE
        chosen["xtick.labelsize"] = chosen["ytick.labelsize"] = _TYPE
        name_colours()
        yield


def name_colours() -> None:
    """Let matplotlib know the colours' names, by which everything here is drawn."""
    from matplotlib.colors import get_named_colors_mapping

    named = get_named_colors_mapping()
    for name, colour in ON_WHITE.items():
        # One by one: `update` would leave what matplotlib remembers of the name.
        named[name] = colour


def page_variable(name: str) -> str:
    """Return the name that a colour has in a page's style."""
    return f"--{name.removeprefix('unpooled:')}"


def blank(height: int | float) -> "Figure":
    """Return a figure of the natural width, without a panel; `height` in CSS pixels."""
    from matplotlib.figure import Figure

    return Figure(figsize=(WIDTH / 72, height / 72), dpi=72)


def drawing(
    *, height: int, left: int, right: int, top: int, bottom: int
) -> "tuple[Figure, Axes]":
    """Return an empty figure with one panel; margins are in CSS pixels."""
    figure = blank(height)
    axes = panel(figure, left, WIDTH - left - right, top, bottom, height)
    ground(axes)
    return figure, axes


def ground(axes: "Axes") -> None:
    """Draw the baseline of a panel's bars."""
    axes.spines["bottom"].set_visible(True)
    axes.spines["bottom"].set(color=INK, linewidth=0.8, alpha=0.55)


def plane(axes: "Axes", labels: Sequence[str]) -> None:
    """Give a panel lines through the origin, and name what both directions show."""
    axes.axhline(0, color=INK, alpha=0.2, linewidth=0.8)
    axes.axvline(0, color=INK, alpha=0.2, linewidth=0.8)
    axes.set_xlabel(labels[0], color=INK, labelpad=6)
    axes.set_ylabel(labels[1], color=INK)


def panel(
    figure: "Figure",
    left: int | float,
    width: int | float,
    top: int | float,
    bottom: int | float,
    height: int | float,
) -> "Axes":
    """Return a panel of a figure of this height; all lengths are in CSS pixels."""
    box = (
        left / WIDTH,
        bottom / height,
        width / WIDTH,
        (height - top - bottom) / height,
    )
    axes = figure.add_axes(box)
    axes.patch.set_visible(False)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0, pad=6, colors=INK)
    axes.set_axisbelow(True)
    return axes


def name_numbers(axes: "Axes", word: str = "component") -> None:
    """Write what is numbered to the left of the numbers above the first panel."""
    axes.annotate(
        word, (0, 1), (-6, 7), xycoords="axes fraction",
        textcoords="offset points", ha="right", va="baseline", color=INK,
    )  # fmt: skip


def short(text: str, letters: int) -> str:
    """Return both ends of a name: many columns differ in the last letters only."""
    text = clean(str(text)).strip()
    if len(text) <= letters:
        return text
    half = letters // 2
    return f"{text[:half]}…{text[1 - half :]}"

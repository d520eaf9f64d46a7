"""Pictures of results, as SVG that belongs to the page it stands in.

Matplotlib draws in stand-in colours, which are then replaced by those of the page, so
that one picture serves light, dark and paper. Text stays text, in the page's own type.
"""

import io
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from xml.etree import ElementTree

import matplotlib
import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from unpooled.arrays import Array, Float
from unpooled.report.text.phrases import clean

INK, ACCENT, SECOND = "#000001", "#000002", "#000003"
_COLOURS = {INK: "currentColor", ACCENT: "var(--accent)", SECOND: "var(--second)"}
# Natural width in CSS pixels: the page scales pictures to between 0.8 and 1.3 of it, so
# that type is legible on a telephone and not coarse on a desk.
WIDTH = 420
_TYPE = 12.0
# Beside a picture of several panels, or of one: pixels and letters for a column's name.
_NAMES = {True: (102, 14), False: (186, 28)}


@contextmanager
def settings() -> Iterator[None]:
    """Draw by these settings, whatever those of the user are, and restore them."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        chosen = matplotlib.rcParams
        chosen["svg.fonttype"], chosen["svg.hashsalt"] = "none", "unpooled"
        chosen["font.size"] = _TYPE
        chosen["axes.labelsize"] = chosen["axes.titlesize"] = _TYPE
        chosen["xtick.labelsize"] = chosen["ytick.labelsize"] = _TYPE
        yield


@settings()
def scree(shares: Float[Array, " k"], name: str, description: str) -> Markup:
    """Draw the share of variance of each component, and of all up to it.

    Parameters
    ----------
    shares : (k,) array
        Explained variance ratios; all are drawn, so pass as many as are legible.
    name : str
        Of the picture, unique in the page.
    description : str
        What a reader who cannot see it should know.
    """
    k = len(shares)
    figure, axes = drawing(height=240, left=44, right=8, top=10, bottom=42)
    place = np.arange(1, k + 1)
    together = 100 * np.cumsum(shares)
    axes.bar(place, 100 * shares, width=0.62 if k < 25 else 0.8, color=ACCENT)
    axes.plot(place, together, color=SECOND, linewidth=1.5, marker="o", markersize=4)
    axes.set_xlim(0.4, k + 0.6)
    axes.set_ylim(0, 104)
    step = max(1, -(-k // 12))
    axes.set_xticks(place[::step])
    axes.set_yticks(range(0, 101, 25), [f"{v} %" for v in range(0, 101, 25)])
    axes.grid(axis="y", color=INK, alpha=0.13, linewidth=0.8)
    axes.set_xlabel("component", color=INK, labelpad=6)
    if k <= 8:
        for x, share in enumerate(100 * shares, start=1):
            # The line begins on the first bar, so its label stands higher.
            above = share + (4.5 if x == 1 and k > 1 else 2)
            axes.text(x, above, f"{share:.0f} %", ha="center", color=INK)
    last = together[-1]
    below = last > 88
    axes.annotate(
        "together",
        (k, last),
        (k + 0.12, last - 7 if below else last + 5),
        ha="right",
        va="top" if below else "bottom",
        color=SECOND,
    )
    return svg(figure, name, "Share of variance by component", description)


@settings()
def loadings(
    components: Float[Array, "k p"],
    columns: Sequence[str],
    titles: Sequence[str],
    name: str,
    description: str,
) -> Markup:
    """Draw one panel of bars per component, with the columns named once, at the left.

    Parameters
    ----------
    components : (k, p) array
        What is drawn, all of it.
    columns : sequence of str
        Names of the p columns.
    titles : sequence of str
        Names of the k panels.
    name, description : str
        As for `scree`.
    """
    k, p = components.shape
    height = 24 + 17 * p + 6
    (left, letters), gap = _NAMES[k > 1], 8
    panel = (WIDTH - left - 4 - gap * (k - 1)) / k
    figure = Figure(figsize=(WIDTH / 72, height / 72), dpi=72)
    limit = 1.04 * max(float(np.abs(components).max()), 1e-12)
    for index in range(k):
        start = left + index * (panel + gap)
        axes = _panel(figure, start, panel, 24, 6, height)
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
    return svg(figure, name, "Loadings by component", description)


def drawing(
    *, height: int, left: int, right: int, top: int, bottom: int
) -> tuple[Figure, Axes]:
    """Return an empty picture; margins are in CSS pixels."""
    figure = Figure(figsize=(WIDTH / 72, height / 72), dpi=72)
    axes = _panel(figure, left, WIDTH - left - right, top, bottom, height)
    axes.spines["bottom"].set_visible(True)
    axes.spines["bottom"].set(color=INK, linewidth=0.8, alpha=0.55)
    return figure, axes


def _panel(
    figure: Figure,
    left: int | float,
    width: int | float,
    top: int | float,
    bottom: int | float,
    height: int | float,
) -> Axes:
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


def short(text: str, letters: int) -> str:
    """Return both ends of a name: many columns differ in the last letters only."""
    text = clean(str(text)).strip()
    if len(text) <= letters:
        return text
    half = letters // 2
    return f"{text[:half]}…{text[1 - half :]}"


def svg(figure: Figure, name: str, title: str, description: str) -> Markup:
    """Return a figure as an element of the page."""
    figure.patch.set_visible(False)
    text = io.StringIO()
    for part in figure.findobj():
        part.set_clip_on(False)
    unsaid = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    with warnings.catch_warnings():
        # A font that lacks a letter does not matter: the page sets the text in its own.
        warnings.simplefilter("ignore")
        FigureCanvasSVG(figure).print_svg(text, metadata=unsaid)
    root = ElementTree.fromstring(text.getvalue())
    _adopt(root, name)
    for position, (tag, words) in enumerate((("title", title), ("desc", description))):
        child = ElementTree.Element(tag, {"id": f"{name}-{tag}"})
        child.text = clean(words)
        root.insert(position, child)
    root.attrib |= {"role": "img", "aria-labelledby": f"{name}-title {name}-desc"}
    return Markup(ElementTree.tostring(root, encoding="unicode"))


def _adopt(root: ElementTree.Element, name: str) -> None:
    """Make a drawing part of a page: names of its own, and the page's colours."""
    for parent in list(root.iter()):
        for child in list(parent):
            # Matplotlib's style is for "*", which would be the whole page.
            if child.tag.endswith(("}metadata", "}style")):
                parent.remove(child)
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
        attributes = {
            key.rpartition("}")[2]: value for key, value in element.attrib.items()
        }
        for key in ("width", "height", "version") if element is root else ():
            attributes.pop(key, None)
        if "id" in attributes:
            attributes["id"] = f"{name}-{attributes['id']}"
        if "href" in attributes:
            attributes["href"] = f"#{name}-{attributes['href'].removeprefix('#')}"
        if "style" in attributes:
            attributes["style"] = _restyled(attributes["style"])
        element.attrib = attributes


def _restyled(style: str) -> str:
    rules: list[str] = []
    for rule in style.split(";"):
        key, _, value = (part.strip() for part in rule.partition(":"))
        if key and key != "font-family":
            rules.append(f"{key}: {_COLOURS.get(value, value)}")
    return "; ".join(rules)

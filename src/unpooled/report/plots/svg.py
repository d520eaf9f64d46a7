"""Pictures as SVG that belongs to the page it stands in.

Matplotlib draws in stand-in colours, which are then replaced by those of the page, so
that one picture serves light, dark and paper. Text stays text, in the page's own type.
"""

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from xml.etree import ElementTree

import matplotlib
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from unpooled.report.exhibits import Picture
from unpooled.report.text.phrases import clean

INK, ACCENT, SECOND = "#000001", "#000002", "#000003"
_COLOURS = {INK: "currentColor", ACCENT: "var(--accent)", SECOND: "var(--second)"}
# Natural width in CSS pixels: the page scales pictures to between 0.8 and 1.3 of it, so
# that type is legible on a telephone and not coarse on a desk.
WIDTH = 420
_TYPE = 12.0


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


def svg(picture: Picture, name: str) -> Markup:
    """Return a picture as an element of the page.

    Parameters
    ----------
    picture : Picture
        What to draw.
    name : str
        Begins all ids within the element; unique in the page.
    """
    text = io.StringIO()
    # Fixed metadata: the same picture is the same text.
    unset = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    with settings(), warnings.catch_warnings():
        # A font that lacks a letter does not matter: the page sets the text in its own.
        warnings.simplefilter("ignore")
        figure = picture.draw()
        figure.patch.set_visible(False)
        for part in figure.findobj():
            part.set_clip_on(False)
        FigureCanvasSVG(figure).print_svg(text, metadata=unset)
    root = ElementTree.fromstring(text.getvalue())
    _fit_into_page(root, name)
    words = {"title": picture.title, "desc": picture.description}
    for position, (tag, content) in enumerate(words.items()):
        child = ElementTree.Element(tag, {"id": f"{name}-{tag}"})
        child.text = clean(content)
        root.insert(position, child)
    root.attrib |= {"role": "img", "aria-labelledby": f"{name}-title {name}-desc"}
    return Markup(ElementTree.tostring(root, encoding="unicode"))


def drawing(
    *, height: int, left: int, right: int, top: int, bottom: int
) -> tuple[Figure, Axes]:
    """Return an empty figure with one panel; margins are in CSS pixels."""
    figure = Figure(figsize=(WIDTH / 72, height / 72), dpi=72)
    axes = panel(figure, left, WIDTH - left - right, top, bottom, height)
    axes.spines["bottom"].set_visible(True)
    axes.spines["bottom"].set(color=INK, linewidth=0.8, alpha=0.55)
    return figure, axes


def panel(
    figure: Figure,
    left: int | float,
    width: int | float,
    top: int | float,
    bottom: int | float,
    height: int | float,
) -> Axes:
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


def short(text: str, letters: int) -> str:
    """Return both ends of a name: many columns differ in the last letters only."""
    text = clean(str(text)).strip()
    if len(text) <= letters:
        return text
    half = letters // 2
    return f"{text[:half]}…{text[1 - half :]}"


def _fit_into_page(root: ElementTree.Element, name: str) -> None:
    """Give a drawing ids of its own and the colours of the page."""
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
            attributes["style"] = _page_style(attributes["style"])
        element.attrib = attributes


def _page_style(style: str) -> str:
    rules: list[str] = []
    for rule in style.split(";"):
        key, _, value = (part.strip() for part in rule.partition(":"))
        if key and key != "font-family":
            rules.append(f"{key}: {_COLOURS.get(value, value)}")
    return "; ".join(rules)

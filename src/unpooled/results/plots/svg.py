"""Pictures as SVG that belongs to the page it stands in.

Matplotlib draws in stand-in colours, which are then replaced by those of the page, so
that one picture serves light, dark and paper. Text stays text, in the page's own type.
"""

import io
import warnings
from xml.etree import ElementTree

from markupsafe import Markup

from unpooled.results.exhibits import Picture
from unpooled.results.formats import clean
from unpooled.results.plots.drawing import ACCENT, INK, SECOND, settings

_STAND_INS = {INK: "#000001", ACCENT: "#000002", SECOND: "#000003"}
_COLOURS = {
    "#000001": "currentColor", "#000002": "var(--accent)", "#000003": "var(--second)"
}  # fmt: skip


def svg(picture: Picture, name: str) -> Markup:
    """Return a picture as an element of the page.

    Parameters
    ----------
    picture : Picture
        What to draw.
    name : str
        Begins all ids within the element; unique in the page.
    """
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    text = io.StringIO()
    # Fixed metadata: the same picture is the same text.
    unset = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    with settings(_STAND_INS), warnings.catch_warnings():
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

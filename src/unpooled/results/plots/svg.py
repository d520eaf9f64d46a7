"""Pictures as SVG that belongs to the page it stands in.

The colours in which pictures are drawn are replaced by those of the page, so that one
picture serves light, dark and paper. Text stays text, in the page's own type.
"""

from xml.etree import ElementTree

from markupsafe import Markup

from unpooled.results.exhibits import Picture
from unpooled.results.formats import clean
from unpooled.results.plots.drawing import INK, ON_WHITE, page_variable
from unpooled.results.plots.drawn import drawn

_COLOURS = {
    colour: "currentColor" if name == INK else f"var({page_variable(name)})"
    for name, colour in ON_WHITE.items()
}


def svg(picture: Picture, name: str) -> Markup:
    """Return a picture as an element of the page.

    Parameters
    ----------
    picture : Picture
        What to draw.
    name : str
        Begins all ids within the element; unique in the page.
    """
    root = ElementTree.fromstring(drawn(picture).svg)
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

"""Pictures as files of their own, in light colours on white: SVG and PNG."""

import io
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from unpooled.results.exhibits import Picture
from unpooled.results.plots.drawn import Drawn, as_drawn, drawn

if TYPE_CHECKING:
    from matplotlib.transforms import Bbox

_DOTS_PER_INCH = 220  # 1,283 pixels wide: sharp at half the width of a printed page
_MARGIN = 0.08  # inches
_POINTS = 72  # per inch, the unit of matplotlib's SVG
_SVG = "http://www.w3.org/2000/svg"
_GROUND = "#ffffff"


def images(picture: Picture, forms: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """Yield each form of a picture, and the content of its file.

    Parameters
    ----------
    picture : Picture
        What to draw, unless it was drawn before.
    forms : sequence of {"svg", "png"}
        Kinds of files.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    made = drawn(picture)
    # Whichever canvas measures text, it is the same one in every order of the forms.
    FigureCanvasAgg(made.figure)
    with as_drawn():
        # Some labels stand outside of the panels, which a page lets them.
        box = made.figure.get_tightbbox().padded(_MARGIN)
    for form in forms:
        yield form, _svg_file(made, box) if form == "svg" else _png_file(made, box)


def _png_file(made: Drawn, box: "Bbox") -> bytes:
    content, figure = io.BytesIO(), made.figure
    with as_drawn():
        figure.patch.set_visible(True)
        figure.savefig(
            content,
            format="png",
            dpi=_DOTS_PER_INCH,
            facecolor=_GROUND,
            bbox_inches=box,
            # The same picture is the same file.
            metadata={"Software": None},
        )
        figure.patch.set_visible(False)
    return content.getvalue()


def _svg_file(made: Drawn, box: "Bbox") -> bytes:
    ElementTree.register_namespace("", _SVG)
    ElementTree.register_namespace("xlink", "http://www.w3.org/1999/xlink")
    root = ElementTree.fromstring(made.svg)
    # SVG counts from the top.
    top = made.figure.get_figheight() - box.y1
    sides = [_POINTS * side for side in (box.x0, top, box.width, box.height)]
    x, y, width, height = (f"{side:.2f}" for side in sides)
    root.attrib |= {
        "viewBox": f"{x} {y} {width} {height}",
        "width": f"{width}pt",
        "height": f"{height}pt",
    }
    ground = {"x": x, "y": y, "width": width, "height": height, "fill": _GROUND}
    root.insert(0, ElementTree.Element(f"{{{_SVG}}}rect", ground))
    return ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)

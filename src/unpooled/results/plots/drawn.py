"""A picture, drawn once: its figure and SVG, of which pages and files are made."""

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, final
from weakref import WeakKeyDictionary

from unpooled.results.exhibits import Picture
from unpooled.results.plots.drawing import settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@final
@dataclass(frozen=True)
class Drawn:
    """A picture as matplotlib has drawn it.

    Attributes
    ----------
    figure : Figure
        In light colours, without a ground.
    svg : str
        The same as SVG of the figure's own size, with text as text.
    """

    figure: "Figure"
    svg: str


_DRAWN = WeakKeyDictionary[Picture, Drawn]()


def drawn(picture: Picture) -> Drawn:
    """Draw a picture, unless it was drawn before."""
    if picture not in _DRAWN:
        _DRAWN[picture] = _draw(picture)
    return _DRAWN[picture]


@contextmanager
def as_drawn() -> Iterator[None]:
    """Draw by the settings of all pictures, and without warnings about letters.

    Those that matplotlib's font lacks are text in SVG, which a page sets in its own
    type, and boxes in PNG.
    """
    with settings(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _draw(picture: Picture) -> Drawn:
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    text = io.StringIO()
    # Fixed metadata: the same picture is the same text.
    unset = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    with as_drawn():
        figure = picture.draw()
        figure.patch.set_visible(False)
        # Parts that reach over the edge of a panel are shown whole.
        for part in figure.findobj():
            part.set_clip_on(False)
        FigureCanvasSVG(figure).print_svg(text, metadata=unset)
    return Drawn(figure, text.getvalue())

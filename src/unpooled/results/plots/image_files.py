"""Pictures as files of their own, in light colours on white: SVG and PNG."""

import io
import warnings

from unpooled.results.exhibits import Picture
from unpooled.results.plots.drawing import settings

_DOTS_PER_INCH = 220  # 1,283 pixels wide: sharp at half the width of a printed page
_MARGIN = 0.08  # inches


def image(picture: Picture, form: str) -> bytes:
    """Return a picture as the content of a file.

    Parameters
    ----------
    picture : Picture
        What to draw.
    form : {"svg", "png"}
        Kind of file.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    content = io.BytesIO()
    # Without a date: the same picture is the same file.
    unset = ("Date", "Creator") if form == "svg" else ("Software",)
    with settings(), warnings.catch_warnings():
        # Letters that the font lacks are drawn as boxes, and stay text in SVG.
        warnings.simplefilter("ignore")
        figure = picture.draw()
        (FigureCanvasSVG if form == "svg" else FigureCanvasAgg)(figure)
        figure.savefig(
            content,
            format=form,
            dpi=_DOTS_PER_INCH,
            facecolor="white",
            # Some labels stand outside of the panels, which a page lets them.
            bbox_inches="tight",
            pad_inches=_MARGIN,
            metadata=dict.fromkeys(unset),
        )
    return content.getvalue()

"""Pictures as files of their own, in light colours on white: SVG and PNG."""

import io
import warnings
from collections.abc import Iterator, Sequence

from unpooled.results.exhibits import Picture
from unpooled.results.plots.drawing import settings

_DOTS_PER_INCH = 220  # 1,283 pixels wide: sharp at half the width of a printed page
_MARGIN = 0.08  # inches


def images(picture: Picture, forms: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """Yield each form of a picture, and the content of its file; it is drawn once.

    Parameters
    ----------
    picture : Picture
        What to draw.
    forms : sequence of {"svg", "png"}
        Kinds of files.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    with settings(), warnings.catch_warnings():
        # Letters that the font lacks are drawn as boxes, and stay text in SVG.
        warnings.simplefilter("ignore")
        figure = picture.draw()
        FigureCanvasAgg(figure)
        figure.draw_without_rendering()
        # Some labels stand outside of the panels, which a page lets them.
        box = figure.get_tightbbox().padded(_MARGIN)
        for form in forms:
            content = io.BytesIO()
            (FigureCanvasSVG if form == "svg" else FigureCanvasAgg)(figure)
            # Without a date: the same picture is the same file.
            unset = ("Date", "Creator") if form == "svg" else ("Software",)
            figure.savefig(
                content,
                format=form,
                dpi=_DOTS_PER_INCH,
                facecolor="white",
                bbox_inches=box,
                metadata=dict.fromkeys(unset),
            )
            yield form, content.getvalue()

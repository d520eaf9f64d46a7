"""Histogram of one column over all silos."""

from typing import Any, final

import numpy as np

from unpooled.arrays import Array, Float, Int
from unpooled.displays.canvas import Display, figure_of, given
from unpooled.displays.fitted import last_step
from unpooled.errors import DataError
from unpooled.models.base import input_names
from unpooled.models.description.histogram import Histogram
from unpooled.models.preprocessing.k_bins_discretizer import KBinsDiscretizer
from unpooled.results.plots.drawing import WIDTH, panel
from unpooled.results.plots.histograms import draw_histogram

_HEIGHT = 240


@final
class HistogramDisplay(Display):
    """Bins of a column as bars; those that are withheld are grey.

    Make one with `from_estimator`.

    Parameters
    ----------
    edges : (l + 1,) array
        Ascending.
    counts : (l,) array
        Numbers of values; NaN where withheld.
    name : str, default ""
        Name of the column.

    Attributes
    ----------
    edges, counts, name
        As given.
    ax_ : Axes
        What was drawn on.
    figure_ : Figure
        Figure of `ax_`.

    See Also
    --------
    unpooled.Histogram : ``to_frame()`` has the numbers.
    """

    def __init__(
        self,
        edges: Float[Array, " e"],
        counts: Float[Array, " l"] | Int[Array, " l"],
        *,
        name: str = "",
    ) -> None:
        self.edges = np.asarray(edges, dtype=float)
        self.counts = np.asarray(counts, dtype=float)
        self.name = name

    @classmethod
    def from_estimator(
        cls, model: Any, column: str | None = None, *, ax: Any = None
    ) -> "HistogramDisplay":
        """Draw a column of a fitted model.

        Parameters
        ----------
        model : Histogram or KBinsDiscretizer, or Pipeline that ends with one
            Fitted.
        column : str, optional
            Its name; the first column when omitted.
        ax : Axes, optional
            To draw on; a new figure when omitted.

        Returns
        -------
        HistogramDisplay

        Raises
        ------
        DataError
            For another model, bins that are not of equal widths, and a column that the
            model does not have.
        """
        model = last_step(model)
        if isinstance(model, Histogram):
            counts, names = model.counts_, model.columns_
        elif isinstance(model, KBinsDiscretizer) and model.strategy == "uniform":
            counts, names = model.bin_counts_, input_names(model)
        else:
            raise DataError(
                f"{cls.__name__} draws a Histogram, or a KBinsDiscretizer with "
                f'strategy="uniform", not {type(model).__name__}.'
            )
        name = names[0] if column is None else column
        if name not in names:
            raise DataError(f"column={column!r} is none of {', '.join(names)}.")
        place = names.index(name)
        return cls(model.bin_edges_[place], counts[place], name=name).plot(ax=ax)

    def plot(self, *, ax: Any = None) -> "HistogramDisplay":
        """Draw on new axes, or on those given."""
        if ax is None:
            figure = figure_of(_HEIGHT)
            axes = panel(figure, 48, WIDTH - 60, 26, 30, _HEIGHT)
        else:
            axes = given(ax)
        draw_histogram(axes, self.name, self.edges, self.counts)
        self.ax_, self.figure_ = axes, axes.figure
        return self

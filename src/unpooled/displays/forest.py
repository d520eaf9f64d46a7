"""Forest plot of a coefficient: each silo's own, those combined, the pooled one."""

from typing import Any, final

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.displays.canvas import Display, figure_of, given
from unpooled.displays.fitted import last_step
from unpooled.errors import DataError
from unpooled.models.regression.meta_analysis import MetaAnalysis
from unpooled.models.regression.meta_analysis_results import lines_of
from unpooled.results.plots.drawing import WIDTH, panel
from unpooled.results.plots.forest import draw_forest


@final
class ForestDisplay(Display):
    """Estimates with 95 % intervals below each other. Make one with `from_estimator`.

    Parameters
    ----------
    names : sequence of str
        Who estimated.
    estimates : (l, 3) array
        The estimate, and both ends of its interval.
    combined : (l,) array of bool
        Which of them are combined of others; the last is of the pooled rows.
    term : str, default ""
        Name of the coefficient.

    Attributes
    ----------
    names, estimates, combined, term
        As given.
    ax_ : Axes
        What was drawn on.
    figure_ : Figure
        Figure of `ax_`.

    References
    ----------
    Lewis and Clarke, Forest plots: trying to see the wood and the trees, BMJ 322
    (2001).
    """

    def __init__(
        self,
        names: Any,
        estimates: Float[Array, "l 3"],
        combined: Any,
        *,
        term: str = "",
    ) -> None:
        self.names, self.term = list(names), term
        self.estimates = np.asarray(estimates, dtype=float)
        self.combined = np.asarray(combined, dtype=bool)

    @classmethod
    def from_estimator(
        cls, model: Any, term: str | None = None, *, ax: Any = None
    ) -> "ForestDisplay":
        """Draw a coefficient of a fitted meta-analysis.

        Parameters
        ----------
        model : MetaAnalysis, or Pipeline that ends with one
            Fitted.
        term : str, optional
            "intercept" or the name of a predictor; the first predictor when omitted.
        ax : Axes, optional
            To draw on; a new figure when omitted.

        Returns
        -------
        ForestDisplay

        Raises
        ------
        DataError
            For another model, and a term that it does not have.
        """
        model = last_step(model)
        if not isinstance(model, MetaAnalysis):
            raise DataError(
                f"{cls.__name__} draws a MetaAnalysis, not {type(model).__name__}."
            )
        name = model.terms_[1] if term is None else term
        if name not in model.terms_:
            raise DataError(f"term={term!r} is none of {', '.join(model.terms_)}.")
        lines = lines_of(model, model.terms_.index(name))
        return cls(*lines, term=name).plot(ax=ax)

    def plot(self, *, ax: Any = None) -> "ForestDisplay":
        """Draw on new axes, or on those given."""
        if ax is None:
            height = 60 + 19 * len(self.names)
            figure = figure_of(height)
            axes = panel(figure, 160, WIDTH - 172, 26, 34, height)
        else:
            axes = given(ax)
        draw_forest(axes, self.term, (self.names, self.estimates, self.combined))
        self.ax_, self.figure_ = axes, axes.figure
        return self

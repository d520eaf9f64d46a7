"""Correlation circle: columns in the plane of two principal components."""

from collections.abc import Sequence
from typing import Any, final

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.displays.canvas import Display, given, square_axes
from unpooled.displays.fitted import checked_pair, last_step, opened
from unpooled.errors import DataError
from unpooled.models.base import input_names
from unpooled.models.pca.column_measures import column_variances, correlations
from unpooled.models.pca.pca import PCA
from unpooled.models.pca.pca_results import axis_labels, best_in_plane
from unpooled.results.plots.scatter_plots import draw_correlation_circle


@final
class CorrelationCircleDisplay(Display):
    """Columns by their correlations with two components, within the unit circle.

    Make one with `from_estimator`.

    Parameters
    ----------
    correlations : (q, 2) array
        Correlations of each column drawn with the scores of the two components.
    columns : sequence of str
        Names of the q columns.
    labels : (str, str), default ("component 1", "component 2")
        Names of the two components.

    Attributes
    ----------
    correlations, columns, labels
        As given.
    ax_ : Axes
        What was drawn on.
    figure_ : Figure
        Figure of `ax_`.

    Notes
    -----
    The correlation of column j with component i is ``v_ij sqrt(λ_i) / s_j``: the
    loading times the standard deviation of the component, divided by that of the
    column, both with denominator N - 1. Its square is cos², the share of the column's
    variance that the component explains. The standard deviations were opened in the
    fit: nothing is asked of the silos.

    References
    ----------
    Abdi and Williams, Principal component analysis, WIREs Computational Statistics 2
    (2010).
    """

    def __init__(
        self,
        correlations: Float[Array, "q 2"],
        columns: Sequence[str],
        labels: tuple[str, str] = ("component 1", "component 2"),
    ) -> None:
        self.correlations = np.asarray(correlations, dtype=float)
        self.columns, self.labels = list(columns), labels

    @classmethod
    def from_estimator(
        cls, model: Any, *, ax: Any = None, components: Sequence[int] = (0, 1)
    ) -> "CorrelationCircleDisplay":
        """Draw the columns of a fitted PCA.

        Parameters
        ----------
        model : PCA, or Pipeline that ends with one
            Fitted, with at least two components.
        ax : Axes, optional
            To draw on; a new figure when omitted.
        components : sequence of two int, default (0, 1)
            Positions of the components.

        Returns
        -------
        CorrelationCircleDisplay
            A circle of all columns; of more than 30, the 15 that lie farthest out.
            Constant columns have no correlations and are left out.

        Raises
        ------
        DataError
            When the standard deviations of the columns are not known: with
            differential privacy, and on a column partition unless all components were
            kept and disclosed.
        """
        model = last_step(model)
        if not isinstance(model, PCA):
            raise DataError(f"{cls.__name__} draws a PCA, not {type(model).__name__}.")
        loadings = opened(model, "components_", cls.__name__)
        i, j = checked_pair(components, len(loadings), cls.__name__)
        variance = column_variances(model)
        if variance is None:
            raise DataError(
                "The standard deviations of the columns are not known here (with "
                "differential privacy, or on a column partition without all "
                "components), so correlations are not. LoadingsDisplay needs none."
            )
        spread = model.explained_variance_[[i, j]]
        r = correlations(loadings[[i, j]], spread, variance)
        shown, names = best_in_plane(r), input_names(model)
        first, second = axis_labels(model, (i, j))
        return cls(r[:, shown].T, [names[q] for q in shown], (first, second)).plot(
            ax=ax
        )

    def plot(self, *, ax: Any = None) -> "CorrelationCircleDisplay":
        """Draw on new axes, or on those given."""
        axes = square_axes() if ax is None else given(ax)
        first = np.ones(len(self.columns), dtype=bool)
        draw_correlation_circle(
            axes, self.correlations, self.columns, first, self.labels
        )
        self.ax_, self.figure_ = axes, axes.figure
        return self

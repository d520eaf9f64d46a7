"""Heatmap: covariances, correlations or loadings as coloured cells."""

from collections.abc import Sequence
from typing import Any, final

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.displays.canvas import Display, figure_of, given
from unpooled.displays.fitted import last_step, opened
from unpooled.displays.loadings import weights_of_columns
from unpooled.errors import DataError
from unpooled.linalg.correlations import clustered_order
from unpooled.models.base import input_names
from unpooled.models.correlation.correlation import Correlation
from unpooled.models.discriminant.discriminant import LinearDiscriminantAnalysis
from unpooled.models.parameter_checks import check_choice
from unpooled.models.pca.column_measures import (
    column_variances,
    correlations,
    covariances,
    explains_everything,
)
from unpooled.models.pca.pca import PCA
from unpooled.models.pca.pca_results import correlation_matrix
from unpooled.results.plots.heatmap import draw_heatmap, heatmap_axes

VALUES = ("loadings", "correlations", "covariances", "contributions", "cos2")
VALUES += ("partial correlations",)


@final
class HeatmapDisplay(Display):
    """A matrix as cells: blue above zero, orange below, stronger where larger.

    Make one with `from_estimator`.

    Parameters
    ----------
    values : (r, c) array
        What is drawn; NaN is left blank.
    rows : sequence of str
        Names of the r rows.
    columns : sequence of str
        Names of the c columns.

    Attributes
    ----------
    values, rows, columns
        As given.
    ax_ : Axes
        What was drawn on.
    figure_ : Figure
        Figure of `ax_`.
    """

    def __init__(
        self, values: Float[Array, "r c"], rows: Sequence[str], columns: Sequence[str]
    ) -> None:
        self.values = np.asarray(values, dtype=float)
        self.rows, self.columns = list(rows), list(columns)

    @classmethod
    def from_estimator(
        cls, model: Any, *, ax: Any = None, values: str | None = None
    ) -> "HeatmapDisplay":
        """Draw a matrix of a fitted model.

        Parameters
        ----------
        model : estimator, or Pipeline that ends with one
            Fitted.
        ax : Axes, optional
            To draw on; a new figure when omitted.
        values : str, optional
            What is drawn: "loadings" when omitted, of a Correlation "correlations".
            "loadings": weights of columns in components, of the models that
            `LoadingsDisplay` draws. "correlations" and "covariances" between columns:
            of a PCA with all its components, over all rows, with denominator N - 1; of
            a LinearDiscriminantAnalysis within classes, with denominators N_k. Of a
            Correlation "correlations" and "partial correlations", with correlated
            columns side by side.
            "contributions" and "cos2" of columns to components: of a PCA, as parts of
            1; see `unpooled.models.pca.column_measures`.

        Returns
        -------
        HeatmapDisplay

        Raises
        ------
        DataError
            When the model does not determine what is asked for, or the silos keep it.
            Nothing is asked of them.
        """
        model = last_step(model)
        names = input_names(model)
        of_pairs = isinstance(model, Correlation)
        values = values or ("correlations" if of_pairs else "loadings")
        check_choice("values", values, VALUES)
        if of_pairs or values == "partial correlations":
            R = _correlations(model, values, cls.__name__)
            order = clustered_order(opened(model, "correlation_", cls.__name__))
            names = [names[int(j)] for j in order]
            return cls(R[np.ix_(order, order)], names, names).plot(ax=ax)
        if values in ("correlations", "covariances"):
            C = _covariances(model, cls.__name__)
            if values == "correlations":
                C = correlation_matrix(C, np.diag(C))
            return cls(C, names, names).plot(ax=ax)
        if values == "loadings":
            matrix = weights_of_columns(model, cls.__name__)
        else:
            matrix = _of_columns(model, values, cls.__name__)
        heads = [f"{i + 1}" for i in range(len(matrix))]
        return cls(matrix.T, names, heads).plot(ax=ax)

    def plot(self, *, ax: Any = None) -> "HeatmapDisplay":
        """Draw on new axes, or on those given."""
        axes = heatmap_axes(figure_of, self.rows, self.columns) if ax is None else ax
        draw_heatmap(given(axes), self.values, self.rows, self.columns)
        self.ax_, self.figure_ = axes, axes.figure
        return self


def _correlations(model: Any, values: str, display: str) -> Float[Array, "p p"]:
    """Return the correlations that a Correlation found, partial or not."""
    attributes = {
        "correlations": "correlation_",
        "partial correlations": "partial_correlation_",
    }
    if not isinstance(model, Correlation) or values not in attributes:
        raise DataError(
            f"{values!r} are not drawn of a {type(model).__name__}. A Correlation has "
            f"{' and '.join(map(repr, attributes))}, and other models have the rest."
        )
    return opened(model, attributes[values], display)


def _covariances(model: Any, display: str) -> Float[Array, "p p"]:
    """Return the covariances of columns that a model determines exactly."""
    if isinstance(model, LinearDiscriminantAnalysis):
        return opened(model, "covariance_", display)
    if not isinstance(model, PCA):
        raise DataError(
            f"Covariances of columns follow from a PCA or a "
            f"LinearDiscriminantAnalysis, not from {type(model).__name__}."
        )
    opened(model, "components_", display)
    if not explains_everything(model):
        raise DataError(
            "Some components determine covariances only in part. Fit PCA with "
            "n_components=None, which releases no more."
        )
    return covariances(model)


def _of_columns(model: Any, values: str, display: str) -> Float[Array, "k p"]:
    """Return contributions or cos2 of columns, of a PCA."""
    if not isinstance(model, PCA):
        raise DataError(f"{values} are those of a PCA, not {type(model).__name__}.")
    V = opened(model, "components_", display)
    if values == "contributions":
        return V**2
    variance = column_variances(model)
    if variance is None:
        raise DataError(
            "The standard deviations of the columns are not known here (with "
            "differential privacy, or on a column partition without all components), "
            "so cos2 is not."
        )
    return correlations(V, model.explained_variance_, variance) ** 2

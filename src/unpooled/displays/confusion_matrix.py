"""Confusion matrix: rows by class and predicted class, as coloured cells."""

from collections.abc import Sequence
from typing import Any, final

import numpy as np

from unpooled.arrays import Array, Float, Shaped
from unpooled.displays.canvas import Display, figure_of, given
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.models.metrics.classification import check_normalize, confusion
from unpooled.results.plots.confusion_plots import confusion_axes, draw_confusion


@final
class ConfusionMatrixDisplay(Display):
    """How many rows of each class are predicted as each class.

    Make one with `from_estimator` or `from_predictions`.

    Parameters
    ----------
    confusion_matrix : (c, c) array
        Rows are classes, columns predicted classes.
    display_labels : sequence, optional
        Names of the classes; positions from 0 when omitted.

    Attributes
    ----------
    confusion_matrix, display_labels
        As given.
    text_ : (c, c) array of str
        What stands in the cells.
    ax_ : Axes
        What was drawn on.
    figure_ : Figure
        Figure of `ax_`.

    Notes
    -----
    A cell is darker, the larger its share of the rows of the class; with `normalize`,
    the larger its value. The diagonal is framed.

    See Also
    --------
    sklearn.metrics.ConfusionMatrixDisplay : its twin on rows in one place.
    """

    text_: Shaped[Array, "c c"]

    def __init__(
        self, confusion_matrix: Any, *, display_labels: Sequence[Any] | None = None
    ) -> None:
        self.confusion_matrix = np.asarray(confusion_matrix)
        self.display_labels = display_labels

    @classmethod
    def from_estimator(
        cls,
        model: Any,
        X: Any,
        y: Any = None,
        *,
        labels: Sequence[Any] | None = None,
        normalize: str | None = None,
        display_labels: Sequence[Any] | None = None,
        values_format: str | None = None,
        ax: Any = None,
    ) -> "ConfusionMatrixDisplay":
        """Predict rows of a federation, count, and draw.

        Parameters
        ----------
        model : estimator, or Pipeline that ends with one
            Fitted, with `predict`.
        X : Federation
            By rows, such as the second part of ``federation.train_test_split()``.
        y : str, optional
            Name of the label; that of the federation when omitted.
        labels, normalize, display_labels, values_format, ax
            As of `from_predictions`.

        Returns
        -------
        ConfusionMatrixDisplay

        Raises
        ------
        DataError
            Where X is no federation, or the model predicts no classes.

        Notes
        -----
        Released is what `unpooled.metrics.confusion_matrix` releases.
        """
        if not isinstance(X, Federation) or not hasattr(model, "predict"):
            raise DataError(
                f"{cls.__name__}.from_estimator takes a fitted model that predicts "
                f"classes, a Federation, and the name of its label; not "
                f"{type(model).__name__} and {type(X).__name__}. For arrays in one "
                f"place there is sklearn.metrics.ConfusionMatrixDisplay."
            )
        return cls.from_predictions(
            X.label if y is None else y,
            model.predict(X),
            labels=labels,
            normalize=normalize,
            display_labels=display_labels,
            values_format=values_format,
            ax=ax,
        )

    @classmethod
    def from_predictions(
        cls,
        y_true: Any,
        y_pred: Any,
        *,
        labels: Sequence[Any] | None = None,
        normalize: str | None = None,
        display_labels: Sequence[Any] | None = None,
        values_format: str | None = None,
        ax: Any = None,
    ) -> "ConfusionMatrixDisplay":
        """Count predictions by class, and draw.

        Parameters
        ----------
        y_true : str
            Name of the label.
        y_pred : Federation
            What ``model.predict(federation)`` gives.
        labels : sequence, optional
            The classes, in this order; all that occur, sorted, when omitted.
        normalize : {"true", "pred", "all"}, optional
            Divide by the sums of rows, of columns, or of all.
        display_labels : sequence, optional
            Names for the classes; their values when omitted.
        values_format : str, optional
            Format of the numbers in the cells, such as ".1%".
        ax : Axes, optional
            To draw on; a new figure when omitted.

        Returns
        -------
        ConfusionMatrixDisplay

        Notes
        -----
        Released is what `unpooled.metrics.confusion_matrix` releases.
        """
        check_normalize(normalize)
        wanted = None if labels is None else np.asarray(labels).tolist()
        found = confusion(y_true, y_pred).of(wanted)
        names = found.values if display_labels is None else display_labels
        made = cls(found.shares(normalize), display_labels=list(names))
        return made.plot(ax=ax, values_format=values_format)

    def plot(
        self, *, ax: Any = None, values_format: str | None = None
    ) -> "ConfusionMatrixDisplay":
        """Draw on new axes, or on those given.

        Parameters
        ----------
        ax : Axes, optional
            To draw on; a new figure when omitted.
        values_format : str, optional
            Format of the numbers in the cells; whole numbers are written in full, and
            others with two places, when omitted.

        Raises
        ------
        DataError
            When the matrix does not have a row and a column for each class.
        """
        counts = self.confusion_matrix
        names = self.display_labels
        names = [str(name) for name in (range(len(counts)) if names is None else names)]
        if counts.shape != (len(names), len(names)):
            raise DataError(
                f"A confusion matrix of {len(names)} classes has {len(names)} rows and "
                f"columns, not the shape {counts.shape}."
            )
        whole = counts.dtype.kind in "iu"
        written = values_format or ("," if whole else ".2f")
        self.text_ = np.array([[format(n, written) for n in row] for row in counts])
        axes = confusion_axes(figure_of, names) if ax is None else given(ax)
        draw_confusion(axes, self.text_, _shades(counts), names)
        self.ax_, self.figure_ = axes, axes.figure
        return self


def _shades(counts: Shaped[Array, "c c"]) -> Float[Array, "c c"]:
    """Return from 0 to 1 how dark cells are: counts by their share of the class."""
    if counts.dtype.kind not in "iu":
        return np.clip(counts, 0.0, 1.0)
    sums = counts.sum(axis=1, keepdims=True)
    return np.divide(counts, sums, out=np.zeros(counts.shape), where=sums > 0)

"""Biplot without people: ellipses of classes or of all rows, and arrows of columns."""

from collections.abc import Sequence
from typing import Any, final

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.displays.canvas import Display, given, square_axes
from unpooled.displays.fitted import checked_pair, last_step, opened
from unpooled.errors import DataError
from unpooled.models.base import input_names
from unpooled.models.discriminant.discriminant import LinearDiscriminantAnalysis
from unpooled.models.pca.pca import PCA
from unpooled.models.pca.pca_results import TOP, axis_labels
from unpooled.results.exhibits import MOST_ROWS
from unpooled.results.plots.biplot import draw_biplot


@final
class BiplotDisplay(Display):
    """A biplot: means and spreads of rows in the plane of two components, and columns.

    No person is drawn. Make one with `from_estimator`.

    Parameters
    ----------
    means : (c, 2) array
        Coordinates of the class means; one row, zeros, for all rows together.
    classes : sequence of str
        Names of the c classes; one empty text for all rows together.
    covariances : (c, 2, 2) array
        Covariance matrices of coordinates within each class.
    arrows : (q, 2) array
        Arrows of the columns: directions, and lengths up to a common factor.
    columns : sequence of str
        Names of the q columns.
    labels : (str, str)
        Names of the two axes.
    coverage : float, default 0.68
        Share of a normal distribution that an ellipse contains.

    Attributes
    ----------
    means, classes, covariances, arrows, columns, labels, coverage
        As given.
    arrow_scale_ : float
        By which the arrows were multiplied to fill the picture.
    ax_ : Axes
        What was drawn on.
    figure_ : Figure
        Figure of `ax_`.

    Notes
    -----
    Only fitted attributes are drawn, and the silos are asked for nothing. A PCA knows
    the mean and covariance of all rows together, hence one ellipse about the origin,
    whose half axes are multiples of the components' standard deviations. A
    discriminant analysis of the same columns knows the mean of each class and the
    covariance within classes, which it assumes to be equal: so all classes have the
    same ellipse. With ``shrinkage="auto"`` the covariance of each class was opened, of
    its coordinates along the discriminants: in that plane each class has its own.

    References
    ----------
    Gabriel, The biplot graphic display of matrices with application to principal
    component analysis, Biometrika 58 (1971).
    """

    arrow_scale_: float

    def __init__(
        self,
        means: Float[Array, "c 2"],
        classes: Sequence[str],
        covariances: Float[Array, "c 2 2"],
        arrows: Float[Array, "q 2"],
        columns: Sequence[str],
        labels: tuple[str, str],
        *,
        coverage: float = 0.68,
    ) -> None:
        self.means, self.covariances = np.asarray(means), np.asarray(covariances)
        self.arrows = np.asarray(arrows)
        self.classes, self.columns = list(classes), list(columns)
        self.labels, self.coverage = labels, coverage

    @classmethod
    def from_estimator(
        cls,
        model: Any,
        *,
        ax: Any = None,
        classes: Any = None,
        components: Sequence[int] = (0, 1),
        coverage: float = 0.68,
    ) -> "BiplotDisplay":
        """Draw a fitted PCA or discriminant analysis.

        Parameters
        ----------
        model : PCA or LinearDiscriminantAnalysis, or Pipeline that ends with one
            Fitted, with at least two components. Arrows of a PCA are its loadings;
            those of a discriminant analysis the correlations of columns and
            discriminants within classes (structure coefficients).
        ax : Axes, optional
            To draw on; a new figure when omitted.
        classes : LinearDiscriminantAnalysis, or Pipeline that ends with one, optional
            Only for a PCA: fitted on the same columns, after the same steps. Its class
            means and covariance within classes are projected onto the components.
        components : sequence of two int, default (0, 1)
            Positions of the components.
        coverage : float in (0, 1), default 0.68
            Share of a normal distribution that an ellipse contains.

        Returns
        -------
        BiplotDisplay
            With arrows of all columns; of more than 30, of the 15 longest.

        Raises
        ------
        DataError
            When an attribute that is drawn is missing, or the silos keep it; when
            `classes` was fitted on other columns.
        """
        if not 0 < coverage < 1:
            raise DataError(f"coverage={coverage!r} must lie between 0 and 1.")
        model = last_step(model)
        names = input_names(model)
        if isinstance(model, PCA):
            parts = _of_components(model, names, classes, components)
        elif isinstance(model, LinearDiscriminantAnalysis) and classes is None:
            parts = _of_discriminants(model, components)
        else:
            raise DataError(
                f"{cls.__name__} draws a PCA, with or without classes=, or a "
                f"LinearDiscriminantAnalysis; not {type(model).__name__}."
            )
        means, labels, covariances, arrows, axes = parts
        shown = list(range(len(arrows)))
        if len(shown) > MOST_ROWS:
            order = np.argsort(-np.linalg.norm(arrows, axis=1), kind="stable")
            shown = sorted(order[:TOP].tolist())
        return cls(
            means,
            labels,
            covariances,
            arrows[shown],
            [names[j] for j in shown],
            axes,
            coverage=coverage,
        ).plot(ax=ax)

    def plot(self, *, ax: Any = None) -> "BiplotDisplay":
        """Draw on new axes, or on those given."""
        axes = square_axes() if ax is None else given(ax)
        self.arrow_scale_ = draw_biplot(
            axes,
            self.means,
            self.classes,
            self.covariances,
            self.coverage,
            self.arrows,
            self.columns,
            self.labels,
            self._title(),
        )
        self.ax_, self.figure_ = axes, axes.figure
        return self

    def _title(self) -> str:
        whose = "each class" if len(self.classes) > 1 else "all rows"
        return (
            f"Ellipse: {100 * self.coverage:g} % of {whose}, if normally distributed. "
            f"Arrows: columns."
        )


_Parts = tuple[Array, list[str], Array, Array, tuple[str, str]]


def _of_components(
    model: PCA, names: list[str], classes: Any, components: Sequence[int]
) -> _Parts:
    """Return means, names of classes, covariances, arrows and labels of a PCA."""
    display = BiplotDisplay.__name__
    V = opened(model, "components_", display)
    i, j = checked_pair(components, len(V), display)
    V = V[[i, j]]
    first, second = axis_labels(model, (i, j))
    if classes is None:
        own = np.diag(model.explained_variance_[[i, j]])
        return np.zeros((1, 2)), [""], own[None], V.T, (first, second)
    groups = last_step(classes)
    if not isinstance(groups, LinearDiscriminantAnalysis):
        raise DataError(
            f"classes= is a fitted LinearDiscriminantAnalysis, whose class means are "
            f"drawn, not {type(groups).__name__}."
        )
    if input_names(groups) != names:
        raise DataError(
            "classes= was fitted on other columns than the PCA. Fit both after the "
            "same steps."
        )
    means = opened(groups, "means_", display) - model.mean_
    Sw = opened(groups, "covariance_", display)
    titles = [str(name) for name in groups.classes_]
    same = np.array([V @ Sw @ V.T] * len(titles))
    return means @ V.T, titles, same, V.T, (first, second)


def _of_discriminants(
    model: LinearDiscriminantAnalysis, components: Sequence[int]
) -> _Parts:
    """Return means, names of classes, covariances, arrows and labels of an LDA."""
    display = BiplotDisplay.__name__
    means = opened(model, "means_", display)
    arrows = opened(model, "within_correlations_", display)
    common = opened(model, "score_covariance_", display)
    i, j = checked_pair(components, model.scalings_.shape[1], display)
    V, pair = model.scalings_[:, [i, j]], np.ix_([i, j], [i, j])
    # About the mean of all rows, weighted as the classes are.
    centred = means - model.priors_ @ means
    by_class = vars(model).get("class_score_covariances_", [common] * len(means))
    covariances = np.array([own[pair] for own in by_class])
    labels = (f"discriminant {i + 1}", f"discriminant {j + 1}")
    names = [str(name) for name in model.classes_]
    return centred @ V, names, covariances, arrows[:, [i, j]], labels

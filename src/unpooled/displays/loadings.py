"""Loadings: the weights of columns in components, as bars."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, final

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.displays.canvas import figure_of, given
from unpooled.displays.fitted import last_step, opened
from unpooled.errors import DataError
from unpooled.models.base import input_names
from unpooled.models.generalized_eigen.generalized_eigen import GeneralizedEigen
from unpooled.models.pca.standard_errors import NORMAL_95
from unpooled.results.plots.charts import draw_loadings, loadings_panels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

_MOST_PANELS = 6
# Where models have the weights of columns, as (p, k); PCA has them as (k, p).
_BY_COLUMN = ("scalings_", "x_loadings_")


@final
class LoadingsDisplay:
    """Weights of the columns in each component, one panel for each, on one scale.

    Make one with `from_estimator`.

    Parameters
    ----------
    loadings : (k, p) array
        A row for each component that is drawn.
    columns : sequence of str
        Names of the p columns.
    titles : sequence of str
        Names of the k components.
    errors : (k, p) array, optional
        Standard errors of the loadings, NaN where there is none: bars get intervals at
        95 %.
    factors : (k,) array, optional
        Half of these intervals in standard errors, by component; 1.96 when omitted.

    Attributes
    ----------
    loadings, columns, titles, errors, factors
        As given.
    ax_ : Axes or tuple of Axes
        One for each component.
    figure_ : Figure
        Figure of `ax_`.
    """

    ax_: "Axes | tuple[Axes, ...]"
    figure_: "Figure | SubFigure"

    def __init__(
        self,
        loadings: Float[Array, "k p"],
        columns: Sequence[str],
        titles: Sequence[str],
        *,
        errors: Float[Array, "k p"] | None = None,
        factors: Float[Array, " k"] | None = None,
    ) -> None:
        self.loadings = np.asarray(loadings, dtype=float)
        self.errors, self.factors = errors, factors
        self.columns, self.titles = list(columns), list(titles)

    @classmethod
    def from_estimator(
        cls,
        model: Any,
        *,
        ax: Any = None,
        components: Sequence[int] | None = None,
        max_columns: int = 30,
    ) -> "LoadingsDisplay":
        """Draw a fitted model's weights of columns.

        Parameters
        ----------
        model : estimator, or Pipeline that ends with one
            Fitted: PCA (`components_`), LinearDiscriminantAnalysis (`scalings_`), CCA
            and PLS (`x_loadings_`), GeneralizedEigen (`eigenvectors_`).
        ax : Axes or sequence of Axes, optional
            As many as components are drawn. A new figure when omitted.
        components : sequence of int, optional
            Positions from 0; the first six when omitted, or as many as there are `ax`.
        max_columns : int, default 30
            With more columns those with the largest weights in what is drawn are shown,
            in their own order.

        Returns
        -------
        LoadingsDisplay

        Raises
        ------
        DataError
            When the model has no weights of columns, or the silos keep them.
        """
        model = last_step(model)
        weights = weights_of_columns(model, cls.__name__)
        count = None if ax is None else len(_panels(ax))
        if components is None:
            components = range(min(len(weights), count or _MOST_PANELS))
        chosen = list(components)
        if not chosen or not all(0 <= i < len(weights) for i in chosen):
            raise DataError(
                f"components={components!r} must be positions from 0 to "
                f"{len(weights) - 1}."
            )
        drawn, names = weights[chosen], input_names(model)
        errors = vars(model).get("components_se_")
        errors = None if errors is None else errors[chosen]
        factors = vars(model).get("components_ci_factor_")
        factors = None if factors is None else factors[chosen]
        if len(names) > max_columns:
            order = np.argsort(-np.abs(drawn).max(axis=0), kind="stable")
            largest = sorted(order[:max_columns].tolist())
            drawn, names = drawn[:, largest], [names[j] for j in largest]
            errors = None if errors is None else errors[:, largest]
        word = "component " if len(chosen) < 4 else ""
        titles = [f"{word}{i + 1}" for i in chosen]
        return cls(drawn, names, titles, errors=errors, factors=factors).plot(ax=ax)

    def plot(self, *, ax: Any = None) -> "LoadingsDisplay":
        """Draw on new axes, or on those given: see `from_estimator`.

        Raises
        ------
        DataError
            When the axes are not as many as the components.
        """
        k, p = self.loadings.shape
        if ax is None:
            panels, letters = loadings_panels(figure_of, k, p)
        else:
            panels, letters = [given(one) for one in _panels(ax)], 28
        if len(panels) != k:
            raise DataError(f"{k} components need {k} axes; there are {len(panels)}.")
        half = self.errors
        if half is not None:
            factors = np.full(k, NORMAL_95) if self.factors is None else self.factors
            half = factors[:, None] * half
        draw_loadings(panels, self.loadings, self.columns, self.titles, letters, half)
        self.ax_ = panels[0] if k == 1 else tuple(panels)
        self.figure_ = panels[0].figure
        return self


def weights_of_columns(model: Any, display: str) -> Float[Array, "k p"]:
    """Return the weights of the columns in each component of a model.

    Raises
    ------
    DataError
        When it has none, or the silos keep them.
    """
    if isinstance(model, GeneralizedEigen):
        # Not of every model: the eigenvectors of a kernel matrix are about people.
        return np.asarray(model.eigenvectors_).T
    name = next((one for one in _BY_COLUMN if one in vars(model)), "components_")
    weights = np.asarray(opened(model, name, display))
    if name != "components_":
        weights = weights.T
    if weights.shape[1] != model.n_features_in_:
        raise DataError(
            f"{name} of {type(model).__name__} has no entry for each column."
        )
    return weights


def _panels(ax: Any) -> "list[Axes]":
    return list(np.ravel(ax)) if isinstance(ax, Sequence | np.ndarray) else [ax]

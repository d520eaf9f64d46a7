"""Scree plot: the share of variance of each component."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, final

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.displays.canvas import figure_of, given
from unpooled.displays.fitted import last_step, opened
from unpooled.models.pca.pca import PCA
from unpooled.models.pca.pca_results import (
    errors_of_shares,
    known_shares,
    reference_shares,
)
from unpooled.models.pca.standard_errors import NORMAL_95
from unpooled.results.plots.charts import draw_scree, scree_panels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure


@final
class ScreeDisplay:
    """Shares of variance by component, beside a broken stick, and their running sum.

    Make one with `from_estimator`.

    Parameters
    ----------
    shares : (l,) array
        Shares of the total variance, as parts of 1, of all components that are known.
    n_kept : int, optional
        How many of them the model keeps; the others are drawn paler. All when omitted.
    reference : (l,) array, optional
        Shares that they are compared with.
    reference_name : str, default "broken stick"
        What the reference is.
    errors : (k,) array, optional
        Standard errors of the first k shares: bars get intervals at 95 %.

    Attributes
    ----------
    shares, n_kept, reference, reference_name, errors
        As given.
    ax_ : Axes or tuple of (Axes, Axes)
        What was drawn on: one, or one for shares and one for cumulative shares.
    figure_ : Figure
        Figure of `ax_`.

    See Also
    --------
    unpooled.PCA : ``summary().to_frame("explained_variance")`` has the numbers.

    Notes
    -----
    The broken stick has the shares expected of pieces of a stick that is broken at
    random into min(N - 1, p) parts, the longest first. With differential privacy the
    reference is the largest variance that noise alone shows.

    References
    ----------
    Cattell, The scree test for the number of factors, Multivariate Behavioral Research
    1 (1966).

    Jackson, Stopping rules in principal components analysis, Ecology 74 (1993): the
    broken stick.
    """

    ax_: "Axes | tuple[Axes, Axes]"
    figure_: "Figure | SubFigure"

    def __init__(
        self,
        shares: Float[Array, " l"],
        *,
        n_kept: int | None = None,
        reference: Float[Array, " l"] | None = None,
        reference_name: str = "broken stick",
        errors: Float[Array, " k"] | None = None,
    ) -> None:
        self.shares = np.asarray(shares, dtype=float)
        self.n_kept = len(self.shares) if n_kept is None else n_kept
        self.reference = reference
        self.reference_name = reference_name
        self.errors = errors

    @classmethod
    def from_estimator(cls, model: Any, *, ax: Any = None) -> "ScreeDisplay":
        """Draw a fitted model's shares of variance.

        Parameters
        ----------
        model : PCA, LinearDiscriminantAnalysis, or Pipeline that ends with one
            Fitted. Of a discriminant analysis the shares are of the variance between
            classes, in units of that within classes.
        ax : Axes or sequence of two Axes, optional
            One for the shares, a second for the cumulative shares. A new figure with
            both when omitted.

        Returns
        -------
        ScreeDisplay

        Raises
        ------
        DataError
            When the model has no shares of variance, or the silos keep them.
        """
        model = last_step(model)
        shares = opened(model, "explained_variance_ratio_", cls.__name__)
        if not isinstance(model, PCA):
            return cls(shares).plot(ax=ax)
        name, reference = reference_shares(model)
        return cls(
            known_shares(model),
            n_kept=len(shares),
            reference=reference,
            reference_name=name,
            errors=errors_of_shares(model),
        ).plot(ax=ax)

    def plot(self, *, ax: Any = None) -> "ScreeDisplay":
        """Draw on new axes, or on those given: see `from_estimator`."""
        if ax is None:
            panels = scree_panels(figure_of)
        else:
            panels = list(ax) if isinstance(ax, Sequence | np.ndarray) else [ax]
            panels = [given(one) for one in panels]
        half = None if self.errors is None else NORMAL_95 * self.errors
        name = self.reference_name
        draw_scree(panels, self.shares, self.n_kept, self.reference, name, half)
        self.ax_ = panels[0] if len(panels) == 1 else (panels[0], panels[1])
        self.figure_ = panels[0].figure
        return self

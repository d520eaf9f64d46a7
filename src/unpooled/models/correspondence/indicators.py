"""What MCA and FAMD share: indicators of categories, their scatter, and scores.

round 1-  names and counts of categories ─> an indicator for each  (`OneHotEncoder`)
round     N and the mean of all columns: of indicators the shares of categories
round     sums of squares about the means
round     the scatter S
"""

from dataclasses import KW_ONLY, dataclass, field
from typing import Any, final

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from unpooled.arrays import Array, Float
from unpooled.data.columns import listing
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.linalg.eigen import leading_eigenpairs
from unpooled.models.base import FederatedEstimator
from unpooled.models.moments import (
    local_scatter,
    local_squares,
    local_total,
    pooled_mean,
    pooled_scatter,
)
from unpooled.models.parameter_checks import whole_number
from unpooled.models.preprocessing.agreed_categories import local_categories
from unpooled.models.preprocessing.one_hot_encoder import OneHotEncoder
from unpooled.protocol.step import derived, public


@derived(
    takes={
        "mean": public("p", "the mean of each column over all silos"),
        "weights": public("p q", "the weights of the columns in each component"),
    }
)
def component_scores(
    X: Float[Array, "n p"], *, mean: Float[Array, " p"], weights: Float[Array, "p q"]
) -> Float[Array, "n q"]:
    """Return the coordinates of rows on the components."""
    return (X - mean) @ weights


@final
@dataclass(frozen=True, eq=False)
class Pooled:
    """Moments over all silos of columns of numbers and of indicators.

    Attributes
    ----------
    N : int
        Number of rows.
    mean : (p,) array
        Of all columns.
    covariance : (p, p) array
        With denominator N.
    names : tuple of str
        Of the columns: numbers first, then indicators.
    """

    N: int
    mean: Float[Array, " p"]
    covariance: Float[Array, "p p"]
    names: tuple[str, ...]


@dataclass(eq=False, repr=False)
class MultipleFactors(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, FederatedEstimator
):
    """Components of indicators of categories, and of numbers beside them.

    Attributes
    ----------
    eigenvalues_ : (k,) array
        Principal inertias, in descending order.
    total_inertia_ : float
        Of all components.
    explained_inertia_ratio_ : (k,) array
        Shares of the total inertia.
    encoder_ : OneHotEncoder
        Of the columns of categories.
    """

    eigenvalues_: Float[Array, " k"] = field(init=False)
    explained_inertia_ratio_: Float[Array, " k"] = field(init=False)
    category_coordinates_: Float[Array, "j k"] = field(init=False)
    encoder_: OneHotEncoder = field(init=False)

    _missing = True
    _reads_categories = True
    _steps = (
        *(local_categories, local_total, local_squares, local_scatter),
        component_scores,
    )

    n_components: Any = 2
    _: KW_ONLY
    min_frequency: Any = 5
    missing: Any = "category"

    def _fitted_encoder(self, federation: Federation) -> OneHotEncoder:
        """Return an encoder of a view of columns of categories."""
        if self.missing not in ("category", "refuse"):
            raise DataError(f'missing={self.missing!r}; choose "category" or "refuse".')
        encoder = OneHotEncoder(min_frequency=self.min_frequency)
        # Not `fit`, so that the rounds are those of the model that asks.
        encoder._fit(federation, None)
        encoder.n_features_in_ = federation.n_features
        encoder.feature_names_in_ = np.array(federation.feature_names, dtype=object)
        n_missing = dict(zip(federation.feature_names, encoder.n_missing_, strict=True))
        lacking = [name for name, n in n_missing.items() if n]
        if self.missing == "refuse" and lacking:
            raise DataError(
                f"Cells are missing in {listing(lacking)}. Leave such rows out, or let "
                f'them be a category: missing="category".'
            )
        return encoder

    def _set_inertia(self, C: Float[Array, "p p"], kept: Float[Array, " k"]) -> None:
        """Set the eigenvalues that are kept, and their shares of the trace."""
        self.eigenvalues_ = kept
        self.total_inertia_ = float(np.trace(C))
        self.explained_inertia_ratio_ = kept / self.total_inertia_

    @property
    def _n_features_out(self) -> int:
        return len(self.eigenvalues_)


def pooled_moments(view: Federation) -> Pooled:
    """Return mean and covariance of a view of numbers and indicators; three rounds."""
    N, mean = pooled_mean(view)
    S = pooled_scatter(view, mean)
    return Pooled(N, mean, S / N, tuple(view.feature_names))


def inertia(
    C: Float[Array, "p p"], n_components: Any, most: int
) -> tuple[Float[Array, " l"], Float[Array, "p k"]]:
    """Return all eigenvalues that there can be, and the first k eigenvectors.

    Parameters
    ----------
    C : (p, p) array
        Covariance matrix of weighted columns.
    n_components : int
        k.
    most : int
        The largest rank of C.
    """
    why = ", the number of independent columns and categories"
    k = whole_number("n_components", n_components, most=most, why=why)
    return leading_eigenpairs(C, most, k)

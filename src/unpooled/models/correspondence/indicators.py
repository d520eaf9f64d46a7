"""What MCA and FAMD share: indicators of categories, their scatter, and scores.

round 1-  names and counts of categories ─> an indicator for each  (`OneHotEncoder`)
round     N and the mean of all columns: of indicators the shares of categories
round     sums of squares about the means
round     the scatter S
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.data.columns import listing
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.linalg.eigen import leading_eigenpairs
from unpooled.models.moments import pooled_mean, pooled_scatter
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


def fitted_encoder(
    federation: Federation, min_frequency: Any, missing: Any
) -> OneHotEncoder:
    """Return an encoder of a view's categories.

    Parameters
    ----------
    federation : Federation
        A view of columns of categories. The model that asks lists `local_categories`
        in `_steps`.
    min_frequency : int, float or None
        As of `OneHotEncoder`.
    missing : {"category", "refuse"}
        Whether missing cells are a category of their own, or an error.
    """
    if missing not in ("category", "refuse"):
        raise DataError(f'missing={missing!r}; choose "category" or "refuse".')
    encoder = OneHotEncoder(min_frequency=min_frequency)
    # Not `fit`, so that the rounds are those of the model that asks.
    encoder._fit(federation, None)
    encoder.n_features_in_ = federation.n_features
    encoder.feature_names_in_ = np.array(federation.feature_names, dtype=object)
    n_missing = dict(zip(federation.feature_names, encoder.n_missing_, strict=True))
    if missing == "refuse" and any(n_missing.values()):
        raise DataError(
            f"Cells are missing in {listing([n for n in n_missing if n_missing[n]])}. "
            f'Leave such rows out, or let them be a category: missing="category".'
        )
    return encoder


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
    whole = isinstance(n_components, int | np.integer)
    if not whole or isinstance(n_components, bool) or not 1 <= n_components <= most:
        raise DataError(
            f"n_components={n_components!r}; give a whole number from 1 to {most}, the "
            f"number of independent columns and categories."
        )
    return leading_eigenpairs(C, most, int(n_components))


def component_names(prefix: str, k: int) -> Sequence[str]:
    """Return names of the columns of scores: "mca0", ..."""
    return [f"{prefix}{number}" for number in range(k)]

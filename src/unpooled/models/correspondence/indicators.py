"""What MCA and FAMD share: indicators of categories, their scatter, and scores.

round 1-  names and counts of categories ─> an indicator for each  (`OneHotEncoder`)
round     N and the mean of all columns: of indicators the shares of categories
round     sums of squares about the means
round     the scatter S

Of parties with other columns of the same people see `correspondence_columns`.
"""

from dataclasses import KW_ONLY, dataclass, field
from typing import Any, final

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from unpooled.arrays import Array, Bool, Float
from unpooled.data.columns import listing
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.linalg.eigen import leading_eigenpairs
from unpooled.models.base import FederatedEstimator, check_federation
from unpooled.models.correspondence import correspondence_columns
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
from unpooled.models.preprocessing.own_categories import (
    own_categories,
    own_groups,
    shown_made,
)
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
        Mean of all columns.
    covariance : (p, p) array
        With denominator N.
    names : tuple of str
        Names of the columns: numbers first, then indicators.
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
        Total inertia of all components.
    explained_inertia_ratio_ : (k,) array
        Shares of the total inertia.
    encoder_ : OneHotEncoder
        Encoder of the columns of categories.
    """

    eigenvalues_: Float[Array, " k"] = field(init=False)
    explained_inertia_ratio_: Float[Array, " k"] = field(init=False)
    category_coordinates_: Float[Array, "j k"] = field(init=False)
    encoder_: OneHotEncoder = field(init=False)

    _partitions = ("rows", "columns")
    _kept_by_silos = ("category_coordinates_", "contributions_", "cos2_")
    _missing = True
    _reads_categories = True
    _steps = (
        *(local_categories, local_total, local_squares, local_scatter),
        component_scores,
        *(own_groups, shown_made, own_categories, correspondence_columns),
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
        if federation.partition == "columns":
            # Without names, as no silo knows those of the others' columns.
            if self.missing != "category":
                raise DataError(
                    "On a column partition no silo learns where cells of categories "
                    'are missing: they are a category, missing="category".'
                )
            encoder.kept_ = federation.kept_here
            return encoder
        encoder.feature_names_in_ = np.array(federation.feature_names, dtype=object)
        n_missing = dict(zip(federation.feature_names, encoder.n_missing_, strict=True))
        lacking = [name for name, n in n_missing.items() if n]
        if self.missing == "refuse" and lacking:
            raise DataError(
                f"Cells are missing in {listing(lacking)}. Leave such rows out, or let "
                f'them be a category: missing="category".'
            )
        return encoder

    def _fit_own(self, federation: Federation, *, alone: bool) -> Float[Array, " l"]:
        """Let silos keep the coordinates of their own columns; return all inertias.

        Parameters
        ----------
        alone : bool
            Whether there are categories alone, whose shares are over the number of
            their columns, or numbers beside them.
        """
        self.encoder_ = self._fitted_encoder(federation)
        coded = self.encoder_.n_made_ >= 0
        encoded = self._encoded(federation)
        indicator = correspondence_columns.indicators_among(self.encoder_.n_made_)
        Q, N = int(coded.sum()), int(federation.n_rows or 0)
        rank = len(indicator) - Q
        # A silo's own plan does not know what the others' columns hold.
        elsewhere = federation.coordinator.planned and federation.layout.known_to
        if coded.all() != alone and not elsewhere:
            takes = "categories alone" if alone else "numbers and categories"
            other = "FAMD takes both kinds" if alone else "MCA takes categories"
            raise DataError(
                f"{type(self).__name__} takes {takes}, of all silos together; {other}."
            )
        if rank < 1 and not elsewhere:
            raise DataError("No column has two categories; there are no components.")
        n_coded = Q if alone else 1
        C = correspondence_columns.gram_of(
            encoded,
            kept_of=federation.kept_here,
            n_coded=n_coded,
            total=rank / n_coded,
        )
        most = min(rank, N - 1)
        k = _n_components(self.n_components, most)
        λ, U = leading_eigenpairs(C, most, k if alone else most)
        self.n_samples_, self.kept_ = N, encoded.kept_here
        self._set_inertia(C, λ[:k])
        encoded.keep(
            correspondence_columns.own_coordinates,
            U=U,
            inertia=λ[: U.shape[1]],
            n_components=k,
            n_coded=n_coded,
        )
        return λ

    def _encoded(self, view: Federation) -> Federation:
        """Return a view of a column partition behind the encoder."""
        return check_federation(self, self.encoder_.transform(view))

    def _shown(
        self, federation: Federation
    ) -> tuple[dict[str, Float[Array, "p k"]], Bool[Array, " p"]]:
        """Return silos' disclosed values of columns, and which are indicators."""
        shown = correspondence_columns.shown_by_parties(
            self._encoded(federation), self.eigenvalues_
        )
        return shown, correspondence_columns.indicators_among(self.encoder_.n_made_)

    def _own_scores(self, X: Federation) -> Float[Array, "N k"]:
        """Return the coordinates of aligned rows of a column partition."""
        view = self._check_view(X)
        with view.calling(self, "transform"):
            totals = self._encoded(view).sum(
                correspondence_columns.own_scores,
                kept_of=self.kept_,
                inertia=self.eigenvalues_,
            )
        return totals["scores"]

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
    return leading_eigenpairs(C, most, _n_components(n_components, most))


def _n_components(n_components: Any, most: int) -> int:
    why = ", the number of independent columns and categories"
    return whole_number("n_components", n_components, most=most, why=why)

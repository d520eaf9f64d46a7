"""Multiple correspondence analysis of columns of categories.

    round 1-  silos ── names and counts of categories ──> an indicator for each
    rounds    silos ── N, means, squares, scatter of the indicators ──> S
    solve     D S/N D v = λ v  with  D = diag(1 / sqrt(Q p_k))

With Q columns and p_k the share of category k, S/N + p pᵀ is 1/N times the Burt table
(counts of all pairs of categories), so that these are the principal inertias of the
table of indicators.

Where silos have other columns of the same people: `correspondence_columns`.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, final

import numpy as np
from sklearn.utils.validation import check_is_fitted

from unpooled.arrays import Array, Float
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.models.base import check_federation
from unpooled.models.correspondence.correspondence_results import mca_exhibits
from unpooled.models.correspondence.indicators import (
    MultipleFactors,
    component_scores,
    inertia,
    pooled_moments,
)
from unpooled.results.citations import Citation


@final
class MCA(MultipleFactors):
    """Multiple correspondence analysis: components of categories.

    Parameters
    ----------
    n_components : int, default 2
        Number of components kept, at most the number of categories less that of
        columns.
    min_frequency : int or float, default 5
        Categories of fewer rows of all silos are one category; see `OneHotEncoder`.
    missing : {"category", "refuse"}, default "category"
        Whether missing cells are a category of their column, or an error.

    Attributes
    ----------
    eigenvalues_ : (k,) array
        Principal inertias, in descending order: the variance of the rows' coordinates,
        with denominator N.
    explained_inertia_ratio_ : (k,) array
        Their shares of the total inertia.
    total_inertia_ : float
        Total inertia of all components: categories over columns, less 1.
    benzecri_eigenvalues_ : (k,) array
        Benzécri's correction, ``(Q / (Q - 1) (λ - 1/Q))²``, and 0 for λ of at most 1/Q,
        with Q columns.
    benzecri_ratio_, greenacre_ratio_ : (k,) array
        Their shares: of their sum over all components (Benzécri), and of the mean
        inertia of the tables of two columns (Greenacre), which is not exceeded.
    indicators_ : (J,) array of str
        Names of the categories: "site_north".
    proportions_ : (J,) array
        Their shares of the rows.
    category_coordinates_ : (J, k) array
        Principal coordinates of the categories, as FactoMineR's: the mean of the
        coordinates of their rows, divided by the root of the eigenvalue.
    contributions_ : (J, k) array
        Shares of the categories in each component's inertia; columns add up to 1.
    cos2_ : (J, k) array
        Squared cosines: share of a category's squared distance from the centre.
    encoder_ : OneHotEncoder
        Makes the indicators.
    weights_ : (J, k) array
        ``(indicators - proportions_) @ weights_`` are the coordinates of rows.
    n_samples_ : int
        N, the rows of all silos.
    n_features_in_ : int
        Q, the number of columns.
    feature_names_in_ : (Q,) array of str
        Names of the columns, where the silos' tables have names.

    Raises
    ------
    DataError
        For columns of numbers, where no column has two categories, and, with
        `missing="refuse"`, for missing cells. On a column partition: for
        `missing="refuse"`, folds, and more than 8,000 rows.

    Notes
    -----
    Released, as totals only: what `OneHotEncoder` releases; N, how many rows each
    category has, and the J × J scatter of the indicators, which gives how many rows of
    all silos have any two categories. Never released: a row, or any silo's own count.
    Silos refuse a scatter of which a single row carries a direction (`max_leverage`),
    and categories of few rows; counts of two categories together may be small.

    On a column partition each silo finds the categories of its own columns, whose names
    and numbers of rows stay there: `indicators_` are "site_1", "site_2". Released are
    how many columns each column becomes, and as a total over all silos the N × N Gram
    matrix of the weighted columns, whose entries are about people, which every silo
    must allow (`allow_row_level`). Silos keep the coordinates of their own columns;
    reading `category_coordinates_`, `contributions_` or `cos2_` asks them to disclose
    these, which every silo must allow (`allow_disclosed`). `proportions_` and
    `weights_` are not shown. In each component the score of largest magnitude is
    positive.

    The sign of a component is chosen so that the largest weight is positive.

    References
    ----------
    Greenacre, Correspondence Analysis in Practice, 3rd edition, CRC Press, 2017,
    chapters 18 and 19; Benzécri, Sur le calcul des taux d'inertie dans l'analyse d'un
    questionnaire, Les cahiers de l'analyse des données 4, 1979.
    """

    contributions_: Float[Array, "j k"]
    cos2_: Float[Array, "j k"]

    _estimates: ClassVar[Mapping[str, int | None]] = {
        "eigenvalues_": None,
        "explained_inertia_ratio_": None,
        "category_coordinates_": 1,
        "proportions_": None,
    }
    _exhibits = mca_exhibits

    def _citation(self) -> Citation:
        return Citation(
            "A multiple correspondence analysis was computed from the counts of all "
            "pairs of categories over the rows of all silos.",
            ("Greenacre M. Correspondence Analysis in Practice. 3rd edition. CRC "
             "Press, 2017.",),
        )  # fmt: skip

    def _fit(self, federation: Federation, y: Any) -> None:
        if federation.partition == "columns":
            λ = self._fit_own(federation, alone=True)
            names = self._encoded(federation).feature_names
            self.indicators_ = np.array(names, dtype=object)
            self._set_corrected(λ, len(self.eigenvalues_), federation.n_features)
            return
        self.encoder_ = self._fitted_encoder(federation)
        view = check_federation(self, self.encoder_.transform(federation))
        pooled, Q = pooled_moments(view), federation.n_features
        p, J = pooled.mean, len(pooled.names)
        if federation.coordinator.planned:
            p = np.full(J, Q / J)
        scale = 1.0 / np.sqrt(Q * p)
        if J <= Q:
            raise DataError("No column has two categories; there are no components.")
        C = pooled.covariance * scale * scale[:, None]
        λ, V = inertia(C, self.n_components, J - Q)
        k = V.shape[1]
        roots = np.sqrt(λ[:k])
        self.n_samples_, self.proportions_ = pooled.N, p
        self.indicators_ = np.array(pooled.names, dtype=object)
        self._set_inertia(C, λ[:k])
        self._set_corrected(λ, k, Q)
        self.weights_ = V * scale[:, None]
        # Columns of categories have mass p_k / Q.
        self.category_coordinates_ = V * (Q * scale)[:, None] * roots
        self.contributions_ = V**2
        # A category of all rows is in the centre, where every cosine is 0.
        far = np.where(p < 1.0, (1.0 - p) / p, np.inf)
        self.cos2_ = self.category_coordinates_**2 / far[:, None]

    def _gather(self, federation: Federation) -> None:
        shown, _ = self._shown(federation)
        self.category_coordinates_ = shown["coordinates"]
        self.contributions_, self.cos2_ = shown["contributions"], shown["cos2"]

    def _set_corrected(self, λ: Float[Array, " l"], k: int, Q: int) -> None:
        """Set the corrected inertias, which leave out what each column has alone."""
        with_others = Q / (Q - 1) if Q > 1 else 0.0
        corrected = (with_others * np.maximum(λ - 1.0 / Q, 0.0)) ** 2
        mean = with_others * (np.sum(λ**2) - self.total_inertia_ / Q)
        self.benzecri_eigenvalues_ = corrected[:k]
        self.benzecri_ratio_ = corrected[:k] / (corrected.sum() or 1.0)
        self.greenacre_ratio_ = corrected[:k] / (mean if mean > 0 else 1.0)

    def transform(self, X: Any) -> Any:
        """Return the coordinates of rows on the components.

        Parameters
        ----------
        X : (n, Q) array-like or Federation
            Names of categories; for a federation the result is a view of it. On a
            column partition the coordinator receives the coordinates, which every silo
            must allow.
        """
        check_is_fitted(self)
        if isinstance(X, Federation) and X.partition == "columns":
            return self._own_scores(X)
        arguments = {"mean": self.proportions_, "weights": self.weights_}
        if isinstance(X, Federation):
            view = self._check_view(X)
            encoded = check_federation(self, self.encoder_.transform(view))
            names = list(self.get_feature_names_out())
            return encoded.derive(component_scores, names, **arguments)
        return component_scores(self.encoder_.transform(X), **arguments)

"""Factor analysis of mixed data, numbers and categories together.

    round 1-  silos ── names and counts of categories ──> an indicator for each
    rounds    silos ── N, means, squares, scatter of numbers and indicators ──> S
    solve     D S/N D v = λ v  with  D = diag(1 / s_j) for numbers, 1 / sqrt(p_k) for
              categories

Numbers have variance 1, and a column of categories the inertia of its categories, so
that neither kind outweighs the other. Where silos have other columns of the same
people, see `correspondence_columns`.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, final

import numpy as np
from sklearn.utils.validation import check_is_fitted

from unpooled.arrays import Array, Float
from unpooled.coordinator.step_call import Needs
from unpooled.data.columns import listing
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.models.base import check_federation, input_names
from unpooled.models.correspondence.correspondence_columns import indicators_among
from unpooled.models.correspondence.correspondence_results import famd_exhibits
from unpooled.models.correspondence.indicators import (
    MultipleFactors,
    component_scores,
    inertia,
    pooled_moments,
)
from unpooled.results.citations import Citation


@final
class FAMD(MultipleFactors):
    """Factor analysis of mixed data: components of numbers and categories.

    Parameters
    ----------
    n_components : int, default 2
        Number of components kept, at most the numeric columns and the categories, less
        the columns of categories.
    min_frequency : int or float, default 5
        Categories of fewer rows of all silos are one category; see `OneHotEncoder`.
    missing : {"category", "refuse"}, default "category"
        Whether missing cells of a column of categories are a category, or an error.
        Numbers may not be missing: impute them first.

    Attributes
    ----------
    eigenvalues_ : (k,) array
        Variance of the rows' coordinates on each component, with denominator N, in
        descending order.
    explained_inertia_ratio_ : (k,) array
        Their shares of the total inertia.
    total_inertia_ : float
        Inertia of all components: the number of numeric columns, and for each column of
        categories their number less 1.
    variables_ : (p + J,) array of str
        Names of the p numeric columns and of the J categories, "site_north".
    n_numeric_ : int
        p.
    correlations_ : (p, k) array
        Correlations of numeric columns and components.
    category_coordinates_ : (J, k) array
        Barycentres, as FactoMineR's: the mean of the coordinates of a category's rows.
    contributions_ : (p + J, k) array
        Shares of numeric columns and categories in each component; columns add up to 1.
    cos2_ : (p + J, k) array
        Squared correlations; of categories the share of the barycentre's squared
        distance from the centre.
    mean_ : (p + J,) array
        Means of the columns, and shares of the categories.
    weights_ : (p + J, k) array
        ``(columns and indicators - mean_) @ weights_`` are the coordinates of rows.
    encoder_ : OneHotEncoder
        Makes the indicators.
    n_samples_ : int
        N, the rows of all silos.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : (p,) array of str
        Names of the columns, where the silos' tables have names.

    Raises
    ------
    DataError
        Where all columns are of one kind, where a numeric column does not vary, and,
        with `missing="refuse"`, for missing cells of categories. On a column
        partition: for `missing="refuse"`, folds, and more than 8,000 rows.

    Notes
    -----
    Released, as totals only: what `OneHotEncoder` releases; N, the sums of numeric
    columns and counts of categories, and the scatter of columns and indicators, which
    gives how many rows of all silos have any two categories. Never released: a row, or
    any silo's own sum or count. Silos refuse a scatter of which a single row carries a
    direction (`max_leverage`), and categories of few rows; counts of two categories
    together may be small.

    On a column partition each silo finds the categories of its own columns, whose names
    and numbers of rows stay there: `variables_` are "site_1", "site_2". Released are
    how many columns each column becomes, and as a total over all silos the N × N Gram
    matrix of the weighted columns, whose entries are about people, which every silo
    must allow (`allow_row_level`). Silos keep the coordinates of their own columns;
    reading `category_coordinates_`, `correlations_`, `contributions_` or `cos2_` asks
    them to disclose these, which every silo must allow (`allow_disclosed`). `mean_` and
    `weights_` are not shown. For the distances of categories the silos receive people's
    coordinates along all components, and not along those alone that are asked for. In
    each component the score of largest magnitude is positive.

    The sign of a component is chosen so that the largest weight is positive. Standard
    deviations have the denominator N.

    References
    ----------
    Pagès, Multiple Factor Analysis by Example Using R, CRC Press, 2014, chapter 3.
    """

    contributions_: Float[Array, "l k"]
    cos2_: Float[Array, "l k"]

    _estimates: ClassVar[Mapping[str, int | None]] = {
        "eigenvalues_": None,
        "explained_inertia_ratio_": None,
        "category_coordinates_": 1,
        "correlations_": 1,
    }
    _exhibits = famd_exhibits

    _kept_by_silos = (*MultipleFactors._kept_by_silos, "correlations_")

    def needs(self, partition: str, y: Any = None) -> Needs:
        """Return the model's requirements on the cells of its columns, for plans."""
        # Cells of categories may be missing, and `_missing` lets such rows pass.
        return Needs(complete=True, varying=True)

    def _citation(self) -> Citation:
        return Citation(
            "A factor analysis of mixed data was computed from the covariances of "
            "numeric columns and indicators of categories over the rows of all silos.",
            ("Pagès J. Multiple Factor Analysis by Example Using R. CRC Press, 2014.",),
        )

    def _fit(self, federation: Federation, y: Any) -> None:
        if federation.partition == "columns":
            self._fit_own(federation, alone=False)
            names = np.array(self._encoded(federation).feature_names, dtype=object)
            coded = indicators_among(self.encoder_.n_made_)
            self.variables_ = np.append(names[~coded], names[coded])
            self.n_numeric_ = int(np.count_nonzero(~coded))
            return
        coded = list(federation.categorical)
        numbers = [n for n in federation.feature_names if n not in set(coded)]
        if not coded or not numbers:
            has = "numbers" if numbers else "categories"
            model = "PCA after StandardScaler" if numbers else "MCA"
            raise DataError(
                f"All columns hold {has}, and FAMD takes both kinds: use {model}, or "
                f"name columns of categories (simulate(..., categorical=[...]))."
            )
        categories = federation.select(coded)
        self.encoder_ = self._fitted_encoder(categories)
        encoded = federation.with_part(coded, self.encoder_.transform(categories))
        pooled = pooled_moments(check_federation(self, encoded))
        p, J = len(numbers), len(pooled.names) - len(numbers)
        mean = pooled.mean
        if federation.coordinator.planned:
            mean = np.full(len(mean), len(coded) / J)
        variance = np.append(pooled.covariance.diagonal()[:p], mean[p:])
        if constant := [
            n for n, v in zip(numbers, variance, strict=False) if not v > 0
        ]:
            raise DataError(f"{listing(constant)} never varies; leave it out.")
        scale = 1.0 / np.sqrt(variance)
        C = pooled.covariance * scale * scale[:, None]
        λ, V = inertia(C, self.n_components, p + J - len(coded))
        kept = λ[: V.shape[1]]
        self.n_samples_, self.n_numeric_, self.mean_ = pooled.N, p, mean
        self.variables_ = np.array(pooled.names, dtype=object)
        self._set_inertia(C, kept)
        self.weights_ = V * scale[:, None]
        self.correlations_ = V[:p] * np.sqrt(kept)
        self.category_coordinates_ = V[p:] * scale[p:, None] * kept
        self.contributions_ = V**2
        # Squared distances of barycentres, over all components that there are.
        far = np.einsum("kj,kj->k", C[p:], C[p:]) / mean[p:]
        far = np.where(far > 0, far, np.inf)
        of_categories = self.category_coordinates_**2 / far[:, None]
        self.cos2_ = np.vstack([self.correlations_**2, of_categories])

    def _gather(self, federation: Federation) -> None:
        shown, coded = self._shown(federation)
        order = np.argsort(coded, kind="stable")
        p = self.n_numeric_
        coordinates = shown["coordinates"][order]
        self.correlations_ = coordinates[:p]
        self.category_coordinates_ = coordinates[p:]
        self.contributions_ = shown["contributions"][order]
        self.cos2_ = shown["cos2"][order]

    def transform(self, X: Any) -> Any:
        """Return the coordinates of rows on the components.

        Parameters
        ----------
        X : data frame, (n, p) array-like or Federation
            Rows with the columns that were fitted; for a federation the result is a
            view of it. On a column partition the coordinator receives the coordinates,
            which every silo must allow.

        Raises
        ------
        ValueError
            When a numeric cell of an array is missing or infinite.
        """
        check_is_fitted(self)
        if isinstance(X, Federation) and X.partition == "columns":
            return self._own_scores(X)
        arguments = {"mean": self.mean_, "weights": self.weights_}
        coded = [str(name) for name in self.encoder_.feature_names_in_]
        if isinstance(X, Federation):
            view = self._check_view(X)
            part = self.encoder_.transform(view.select(coded))
            encoded = check_federation(self, view.with_part(coded, part))
            names = list(self.get_feature_names_out())
            return encoded.derive(component_scores, names, **arguments)
        rows, names = self._check_objects(X), input_names(self)
        is_coded = np.isin(names, coded)
        numbers = rows[:, ~is_coded].astype(float)
        if not np.isfinite(numbers).all():
            raise ValueError("Input X contains NaN or infinity in a numeric column.")
        indicators = self.encoder_.transform(rows[:, is_coded])
        return component_scores(np.hstack([numbers, indicators]), **arguments)

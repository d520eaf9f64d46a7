"""Linear discriminant analysis of rows that stay in their silos.

    rounds 1, 2  classes, their sizes N_k and means μ_k: `unpooled.models.classes`
    rounds 3, 4  the scatter of rows about their class means: `unpooled.models.within`
    solve        S_b v = λ S_w v,  S_b = Σ (N_k / N) (μ_k - μ)(μ_k - μ)ᵀ

With ``shrinkage="auto"`` rounds 3 and 4 are run for each class, and one more gives the
fourth powers that the Ledoit-Wolf formula needs. Given `priors` weigh the classes in
S_w, and the covariance of all rows takes the rounds of `unpooled.models.moments` too.

References
----------
Lv et al., One-Shot Distributed Generalized Eigenvalue Problem (DGEP), 2022, section
2.4: Fisher's discriminant analysis as a generalised eigenproblem.
Ledoit and Wolf, A well-conditioned estimator for large-dimensional covariance matrices,
Journal of Multivariate Analysis 88 (2004).
"""

import warnings
from collections.abc import Sequence
from typing import Any, final

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from unpooled.arrays import Array, Float, Int, Shaped
from unpooled.errors import DataError
from unpooled.federation.base import Federation
from unpooled.linalg.pencil import leading_pencil_pairs
from unpooled.models import classes, moments, within
from unpooled.models.base import FederatedEstimator
from unpooled.models.classes import (
    agreed_names,
    check_label,
    class_values,
    pooled_class_means,
)
from unpooled.models.linear import LinearClassifier
from unpooled.models.moments import pooled_scatter
from unpooled.models.within import (
    Within,
    between,
    ledoit_wolf_covariances,
    pooled_within,
    shrunk,
)
from unpooled.party.step import adopted, derived

local_names, local_class_totals = adopted(
    __name__, classes.local_names, classes.local_class_totals
)
local_within_squares, local_within_scatter, local_fourths = adopted(
    __name__,
    within.local_within_squares,
    within.local_within_scatter,
    within.local_fourths,
)
local_squares, local_scatter = adopted(
    __name__, moments.local_squares, moments.local_scatter
)
WITHIN = Within(local_within_squares, local_within_scatter, local_fourths)


@derived(takes={"scalings": "p k"}, fitted_by=("discriminant.local_within_scatter",))
def discriminated(
    X: Float[Array, "n p"], *, scalings: Float[Array, "p k"]
) -> Float[Array, "n k"]:
    """Return coordinates of rows along the discriminant directions."""
    return X @ scalings


@final
class LinearDiscriminantAnalysis(
    ClassNamePrefixFeaturesOutMixin,
    LinearClassifier,
    TransformerMixin,
    FederatedEstimator,
):
    """Linear discriminant analysis over a federation: the pooled answer.

    Parameters
    ----------
    n_components : int, optional
        Discriminant directions that `transform` keeps, at most min(c - 1, p).
    solver : {"exact"}, default "exact"
        "exact" equals scikit-learn's "eigen" on pooled rows.
    shrinkage : float in [0, 1], "auto" or None, default None
        Of the within-class covariance towards a multiple of the identity; "auto" by the
        Ledoit-Wolf formula.
    priors : sequence of float, optional
        Probabilities of the classes, in their order. Their shares of rows when omitted.
    classes : sequence, optional
        Names of the classes. When omitted the silos' names are added up in a round of
        their own; with names a plan knows how many there are.

    Attributes
    ----------
    classes_ : (c,) array
        Names of the classes, sorted.
    priors_ : (c,) array
        Their probabilities, adding up to 1.
    means_ : (c, p) array
        Mean of each class.
    covariance_ : (p, p) array
        Within-class covariance, shrunk, with denominators N_k.
    scalings_ : (p, k) array
        Directions v with ``v.T @ covariance_ @ v = 1``, by decreasing ratio of variance
        between to variance within classes; in each the entry of largest magnitude is
        positive.
    explained_variance_ratio_ : (k,) array
        Share of each direction in the sum of those ratios.
    coef_ : (c, p) array
        Of the linear decision functions; (1, p) with two classes.
    intercept_ : (c,) array
        Their constants; (1,) with two classes.
    n_samples_ : int
        N, the rows of all silos.
    n_features_in_ : int
        p.
    feature_names_in_ : (p,) array of str
        Names of the columns, where the silos' tables have names.

    Raises
    ------
    DataError
        Missing values or labels, a single class, collinear columns, fewer rows than
        columns without `shrinkage`, or `n_components` beyond min(c - 1, p).

    Notes
    -----
    Released, as totals only: names and sizes of the classes; the sum of each column
    within each class; squared distances from the class means; the p × p products of
    these distances; with ``shrinkage="auto"`` the latter by class, and fourth powers of
    rows' lengths. Never released: a row, which silo has which class, or any silo's own
    counts, means or scatter. A class that one silo alone has is that silo's: its size
    and mean are then known, and guarded by the silo's `min_rows_per_class`.

    See Also
    --------
    sklearn.discriminant_analysis.LinearDiscriminantAnalysis : with ``solver="eigen"``
        its twin on pooled rows, which has no rule for signs and keeps p directions.
    """

    classes_: Shaped[Array, " c"]
    priors_: Float[Array, " c"]
    means_: Float[Array, "c p"]
    covariance_: Float[Array, "p p"]
    scalings_: Float[Array, "p k"]

    def __init__(
        self,
        n_components: int | None = None,
        *,
        solver: str = "exact",
        shrinkage: Any = None,
        priors: Any = None,
        classes: Sequence[Any] | None = None,
    ) -> None:
        self.n_components = n_components
        self.solver = solver
        self.shrinkage = shrinkage
        self.priors = priors
        self.classes = classes

    def _fit(self, federation: Federation, y: Any) -> None:
        _check(self)
        check_label(federation, y)
        fewest = (self.n_components or 1) + 1
        planned = fewest if self.priors is None else len(self.priors)
        names = agreed_names(federation, local_names, self.classes, planned)
        count, means = pooled_class_means(federation, local_class_totals, names)
        N, p, k = int(count.sum()), means.shape[1], _kept(self.n_components, means)
        priors = _priors(self.priors, count)
        if not self.shrinkage and N - len(names) < p:
            raise DataError(_ILL_POSED.format(p=p, N=N, c=len(names)))
        Sw, St = self._covariances(federation, names, count, means, priors)
        ratios, V = leading_pencil_pairs(St - Sw, Sw, p)
        self.classes_, self.priors_, self.means_ = class_values(names), priors, means
        self.covariance_, self.n_samples_ = Sw, N
        self.scalings_ = np.ascontiguousarray(V[:, :k])
        self.explained_variance_ratio_ = ratios[:k] / (ratios.sum() or 1.0)
        # V Vᵀ is the inverse of S_w.
        self._decide(means @ V @ V.T)

    def _covariances(
        self,
        federation: Federation,
        names: Int[Array, "c w"],
        count: Float[Array, " c"],
        means: Float[Array, "c p"],
        priors: Float[Array, " c"],
    ) -> tuple[Float[Array, "p p"], Float[Array, "p p"]]:
        """Return the covariances within classes and of all rows."""
        N = count.sum()
        mean = count @ means / N
        if self.shrinkage == "auto":
            by_class, St = ledoit_wolf_covariances(
                federation, WITHIN, names, count, means
            )
            return np.tensordot(priors, by_class, 1), St
        weights = priors * N / count
        Sw = pooled_within(federation, WITHIN, names, means, weights) / N
        if self.priors is None:
            St = Sw + between(priors, means, mean)
        else:
            S = pooled_scatter(federation, mean, local_squares, local_scatter)
            St = S / N
        shrinkage = float(self.shrinkage or 0.0)
        return shrunk(Sw, shrinkage), shrunk(St, shrinkage)

    @property
    def _n_features_out(self) -> int:
        return self.scalings_.shape[1]

    def transform(self, X: Any) -> Any:
        """Project an array, or every silo's rows, lazily.

        Parameters
        ----------
        X : (n, p) array-like or Federation
            A federation gives a view whose columns are lineardiscriminantanalysis0,
            ...; nothing leaves a silo.
        """
        if isinstance(X, Federation):
            view, names = self._check_view(X), list(self.get_feature_names_out())
            return view.derive(discriminated, names, scalings=self.scalings_)
        return discriminated(self._check_rows(X), scalings=self.scalings_)

    def to_sklearn(self) -> Any:
        """Return a fitted object of scikit-learn, for any silo to use without us."""
        import sklearn.discriminant_analysis

        check_is_fitted(self)
        twin = sklearn.discriminant_analysis.LinearDiscriminantAnalysis(
            solver="eigen",
            n_components=self.n_components,
            shrinkage=self.shrinkage,
            priors=self.priors,
        )
        self._taught(twin)
        # What its `fit` notes for its `transform`.
        twin._max_components = twin._n_features_out = self._n_features_out
        return twin


_ILL_POSED = (
    "{p} columns, but {N} rows in {c} classes: the within-class covariance is "
    "singular, and directions that separate the classes perfectly are arbitrary. "
    'Choose a shrinkage, 0.1 or "auto" for instance, or leave columns out with select.'
)


def _check(model: LinearDiscriminantAnalysis) -> None:
    if model.solver != "exact":
        raise DataError(f'solver={model.solver!r}; choose "exact".')
    s: Any = model.shrinkage
    number = isinstance(s, int | float | np.number) and not isinstance(s, bool)
    if not (s in (None, "auto") or (number and 0 <= s <= 1)):
        raise DataError(f'shrinkage={s!r}; choose None, "auto" or a number in [0, 1].')
    k = model.n_components
    if k is not None and not (isinstance(k, int | np.integer) and k >= 1):
        raise DataError(f"n_components={k!r}; choose a whole number of at least 1.")


def _kept(k: int | None, means: Float[Array, "c p"]) -> int:
    most = min(len(means) - 1, means.shape[1])
    if k is not None and k > most:
        raise DataError(
            f"n_components={k} cannot be larger than "
            f"min(n_features, n_classes - 1)={most}."
        )
    return most if k is None else int(k)


def _priors(given: Any, count: Float[Array, " c"]) -> Float[Array, " c"]:
    if given is None:
        return count / count.sum()
    priors = np.asarray(given, dtype=float)
    if priors.shape != count.shape or not (priors > 0).all():
        raise DataError(
            f"priors={given!r} must be {len(count)} positive numbers, one by class."
        )
    if abs(priors.sum() - 1.0) > 1e-5:
        warnings.warn("The priors do not sum to 1. Renormalizing", stacklevel=5)
        priors = priors / priors.sum()
    return priors

"""Linear discriminant analysis of rows that stay in their silos.

    rounds 1, 2  classes, their sizes N_k and means μ_k:
                 `unpooled.models.discriminant.classes`
    rounds 3, 4  the scatter of rows about their class means:
                 `unpooled.models.discriminant.within_scatter`
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

from collections.abc import Sequence
from typing import Any, final

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from unpooled.arrays import Array, Float
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.linalg.generalized_eigen import leading_pencil_pairs
from unpooled.models import moments
from unpooled.models import row_space as span
from unpooled.models.base import FederatedEstimator
from unpooled.models.discriminant import check_projection as proven_discriminants
from unpooled.models.discriminant import classes
from unpooled.models.discriminant import dgep as oneshot
from unpooled.models.discriminant import shown_scores as people
from unpooled.models.discriminant import within_scatter as within
from unpooled.models.discriminant.classes import (
    Classes,
    agreed_names,
    check_label,
    class_values,
    pooled_class_means,
)
from unpooled.models.discriminant.dgep import OneShot, OneShotDirections
from unpooled.models.discriminant.ledoit_wolf import fit_ledoit_wolf
from unpooled.models.discriminant.linear_classifier import (
    ILL_POSED,
    LinearClassifier,
    check_options,
    class_priors,
    direction_count,
)
from unpooled.models.discriminant.shown_scores import people_of
from unpooled.models.discriminant.wide import fit_in_span
from unpooled.models.discriminant.within_scatter import Within, covariances
from unpooled.models.generalized_eigen import generalized_eigen as eigenproblem
from unpooled.models.generalized_eigen import matrix_pairs as pairs
from unpooled.models.generalized_eigen.convergence import Pair
from unpooled.models.row_space import Span
from unpooled.protocol.step import adopted

local_names, local_class_totals = adopted(
    __name__, classes.local_names, classes.local_class_totals
)
WITHIN = Within(*adopted(__name__, *within.STEPS))
# Silos look steps up under these names.
local_within_squares, local_within_scatter, local_fourths = WITHIN
local_whitened, local_factors = adopted(
    __name__, oneshot.local_whitened, oneshot.local_factors
)
local_discriminant, local_pair, local_radii = adopted(
    __name__,
    pairs.local_discriminant,
    eigenproblem.local_pair,
    eigenproblem.local_radii,
)
SOLVERS = ("exact", "dgep-eigh", "dgep-power")
local_spread, local_span = adopted(__name__, span.local_spread, span.local_span)
shown_people, discriminated = adopted(
    __name__, people.shown_people, proven_discriminants.discriminated
)
SPAN = Span(local_spread, local_span)
PAIR = Pair(local_discriminant, local_pair, local_radii)
ONE_SHOT = OneShot(local_names, local_whitened, local_factors, PAIR)


@final
class LinearDiscriminantAnalysis(
    ClassNamePrefixFeaturesOutMixin,
    LinearClassifier,
    OneShotDirections,
    TransformerMixin,
    FederatedEstimator,
):
    """Linear discriminant analysis over a federation: the pooled answer.

    Parameters
    ----------
    n_components : int, optional
        Discriminant directions that `transform` keeps, at most min(c - 1, p).
    solver : {"exact", "dgep-eigh", "dgep-power"}, default "exact"
        "exact" equals scikit-learn's "eigen" on pooled rows. The others are the
        published one-shot algorithms, which are approximate and find directions only.
    shrinkage : float in [0, 1], "auto" or None, default None
        Of the within-class covariance towards a multiple of the identity; "auto" by the
        Ledoit-Wolf formula.
    priors : sequence of float, optional
        Probabilities of the classes, in their order. Their shares of rows when omitted.
    classes : sequence, optional
        Names of the classes. When omitted the silos' names are added up in a round of
        their own; with names a plan knows how many there are.
    ridge : float or None, default None
        One-shot only: added to the diagonal of each silo's scatter within classes.
        None: pseudo-inverse roots.
    factors : bool, default False
        One-shot only: silos show factors of their own matrices, p × c numbers, in place
        of adding the matrices, p². Their policies must allow it.
    max_iter : int, default 10
        One-shot only: steps of the power method.
    init : (p, k) array, optional
        One-shot only: where the power method starts; drawn at random when omitted.
    random_state : int, optional
        Seed of that draw, and of whom silos show.
    scores : {"coordinator"} or None, default None
        Only "exact": with "coordinator" every silo shows where some of its people lie
        along the directions, for a picture. Their policies must allow it.

    Attributes
    ----------
    classes_ : (c,) array
        Names of the classes, sorted.
    priors_ : (c,) array
        Only "exact": their probabilities, adding up to 1.
    means_ : (c, p) array
        Only "exact": mean of each class.
    covariance_ : (p, p) array
        Only "exact" with fewer columns than rows: covariance within classes, shrunk,
        with denominators N_k.
    scalings_ : (p, k) array
        Directions v with ``v.T @ covariance_ @ v = 1``, by decreasing ratio of variance
        between to variance within classes; in each the entry of largest magnitude is
        positive. One-shot: orthonormal vectors of the silos' whitened coordinates, as
        published.
    explained_variance_ratio_ : (k,) array
        Only "exact": share of each direction in the sum of those ratios.
    coef_ : (c, p) array
        Only "exact": of the linear decision functions; (1, p) with two classes.
    intercept_ : (c,) array
        Only "exact": their constants; (1,) with two classes.
    scores_ : (n, k) array
        Only with `scores`: coordinates of at most 500 people of each silo, drawn at
        random.
    score_classes_ : (n,) array
        Only with `scores`: their classes.
    n_samples_ : int
        Only "exact": N, the rows of all silos.
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
    and mean are then known, and guarded by the silo's `min_rows_per_class`. Only with
    `scores` are people's coordinates shown, silo by silo.

    See Also
    --------
    sklearn.discriminant_analysis.LinearDiscriminantAnalysis : with ``solver="eigen"``
        its twin on pooled rows, which has no rule for signs and keeps p directions.
    """

    priors_: Float[Array, " c"]
    covariance_: Float[Array, "p p"]
    scalings_: Float[Array, "p k"]

    _one_shot = ONE_SHOT

    _steps = (moments.local_squares, moments.local_scatter)

    def __init__(
        self,
        n_components: int | None = None,
        *,
        solver: str = "exact",
        shrinkage: Any = None,
        priors: Any = None,
        classes: Sequence[Any] | None = None,
        ridge: float | None = None,
        factors: bool = False,
        max_iter: int = 10,
        init: Any = None,
        random_state: int | None = None,
        scores: str | None = None,
    ) -> None:
        self.n_components = n_components
        self.solver = solver
        self.shrinkage = shrinkage
        self.priors = priors
        self.classes = classes
        self.ridge = ridge
        self.factors = factors
        self.max_iter = max_iter
        self.init = init
        self.random_state = random_state
        self.scores = scores

    def _fit(self, federation: Federation, y: Any) -> None:
        check_options(self, SOLVERS)
        check_label(federation, y)
        fewest = (self.n_components or 1) + 1
        planned = fewest if self.priors is None else len(self.priors)
        if self.solver != "exact":
            return self._fit_in_one_shot(federation, planned)
        names = agreed_names(federation, local_names, self.classes, planned)
        count, means = pooled_class_means(federation, local_class_totals, names)
        p, c, N = federation.n_features, len(names), int(count.sum())
        k = direction_count(self.n_components, p, c)
        priors = class_priors(self.priors, count)
        found, wide = Classes(names, count, means), N - c < p
        if wide and self.shrinkage in (None, 0):
            raise DataError(ILL_POSED.format(p=p, N=N, c=c))
        self.classes_, self.priors_, self.means_ = class_values(names), priors, means
        self.n_samples_ = N
        if wide:
            fit = fit_ledoit_wolf if self.shrinkage == "auto" else fit_in_span
            fit(self, federation, SPAN, WITHIN, found, k)
            return self._show_people(federation, names)
        Sw, St = covariances(
            federation, WITHIN, found, priors, self.priors, self.shrinkage
        )
        ratios, V = leading_pencil_pairs(St - Sw, Sw, p)
        self.covariance_ = Sw
        self.scalings_ = np.ascontiguousarray(V[:, :k])
        self.explained_variance_ratio_ = ratios[:k] / (ratios.sum() or 1.0)
        # V Vᵀ is the inverse of S_w.
        self._decide(means @ V @ V.T)
        self._show_people(federation, names)

    def _show_people(self, federation: Federation, names: Array) -> None:
        if self.scores is not None:
            where, seed = (names, self.scalings_), self.random_state
            seen = people_of(federation, shown_people, *where, seed)
            self.scores_, self.score_classes_ = seen[0], self.classes_[seen[1]]

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
            return view.derive(discriminated, names, **self._directions())
        return discriminated(self._check_rows(X), **self._directions())

    def _directions(self) -> dict[str, Any]:
        given = self.priors is not None and hasattr(self, "priors_")
        priors = self.priors_.tolist() if given else None
        how = {"scalings": self.scalings_, "shrinkage": self.shrinkage}
        return how | {"priors": priors}

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
        twin._max_components = twin._n_features_out = self._n_features_out
        return twin

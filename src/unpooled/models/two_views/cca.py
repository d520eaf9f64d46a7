"""Canonical correlation analysis of two or more views of the same rows.

    "exact"   three rounds of moments ──> S_xx, S_xy, S_yy
              max aᵀ S_xy b  with  aᵀ S_xx a = bᵀ S_yy b = 1
    "dgep-…"  silos ── K_i = S_xx^(-1/2) S_xy S_yy^(-1/2) of their own covariances
              ──> [[0, Σ K_i], [Σ K_iᵀ, 0]] w = λ w
    "dcca-…"  silos ── K_i K_iᵀ, K_iᵀ K_i ──> the sum of each by the power method

On a column partition each party is a view: `unpooled.models.two_views.cca_columns`.

References
----------
Hotelling, Relations between two sets of variates, Biometrika 28 (1936).
Lv et al., One-Shot Distributed Generalized Eigenvalue Problem (DGEP), 2022, Algorithms
1 to 3.
"""

from typing import Any, final

from sklearn.utils.validation import check_is_fitted

from unpooled.arrays import Array, Float
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.linalg.canonical_correlation import (
    CanonicalTest,
    bartlett,
    canonical_directions,
    correlations,
    structure,
)
from unpooled.linalg.partial_least_squares import canonical_latent
from unpooled.models import moments
from unpooled.models import row_space as spans
from unpooled.models.base import FederatedEstimator
from unpooled.models.generalized_eigen import generalized_eigen as eigenproblem
from unpooled.models.generalized_eigen import matrix_pairs as pairs
from unpooled.models.generalized_eigen.convergence import Pair
from unpooled.models.parameter_checks import check_choice, check_share, component_count
from unpooled.models.row_space import Span
from unpooled.models.two_views import base as twoviews
from unpooled.models.two_views import cca_columns
from unpooled.models.two_views import dgep as oneshot_views
from unpooled.models.two_views.base import Predicting, views_of
from unpooled.models.two_views.cca_columns import fit_columns
from unpooled.models.two_views.dgep import OneShot, OneShotViews
from unpooled.protocol.step import adopted

local_canonical, local_pair, local_radii = adopted(
    __name__, pairs.local_canonical, eigenproblem.local_pair, eigenproblem.local_radii
)
local_whitened, local_squared, local_factors, local_low_rank = adopted(
    __name__,
    oneshot_views.local_whitened,
    oneshot_views.local_squared,
    oneshot_views.local_factors,
    oneshot_views.local_low_rank,
)
local_spread, local_span = adopted(__name__, spans.local_spread, spans.local_span)
SPAN = Span(local_spread, local_span)
ONE_SHOT = OneShot(
    local_whitened,
    local_squared,
    local_factors,
    local_low_rank,
    Pair(local_canonical, local_pair, local_radii),
)
local_gram, own_squares, local_mixture = cca_columns.STEPS[:3]
own_basis, own_weights = cca_columns.STEPS[3:]
own_ridge, local_image, local_pairs, own_ridge_weights = cca_columns.PAIRED
own_start, local_shared, local_products = cca_columns.JOINED[:3]
local_residuals, own_joint_weights = cca_columns.JOINED[3:]
(shown_scores,) = adopted(__name__, twoviews.shown_scores)
SOLVERS = ("exact", "dgep-eigh", "dgep-power", "dcca-power")
COLUMN_SOLVERS = ("exact", "gram", "krylov")
CRITERIA = ("maxvar", "sumcor")


@final
class CCA(OneShotViews, Predicting, FederatedEstimator):
    """Canonical correlation analysis over a federation: the pooled answer.

    Parameters
    ----------
    n_components : int, default 2
        Pairs of directions, at most min(N, p, q).
    scale : bool or None, default None
        Divide columns by their deviations first. None: as scikit-learn does without
        `regularisation`, where only units depend on it, and not with it, as cca_zoo.
    solver : str, default "exact"
        "exact" is the pooled answer; "dgep-eigh", "dgep-power" and "dcca-power" are the
        published one-shot algorithms, which are approximate. On a column partition
        "gram" or "krylov", or "exact", which chooses by the number of rows.
    regularisation : float in [0, 1], default 0.0
        c: covariances within the views are ``(1 - c) S + c I``.
    criterion : {"maxvar", "sumcor"}, default "maxvar"
        Three or more parties with columns of their own: the variance of what all share
        (generalised CCA), or the sum of covariances between parties (multiset CCA).
        They differ with `regularisation` only.
    ridge : float or None, default None
        One-shot only: added to the diagonal of each silo's covariances. None:
        pseudo-inverse roots.
    factors : bool or int, default False
        "dcca-power" only: silos show their own K_i, p × q numbers that single rows can
        be told from where they are few, in place of adding squares, p² + q² numbers.
        Their policies must allow it. A number: factors of K_i of so many columns, for
        silos of fewer rows than that; nobody then forms K_i.
    max_iter : int, default 10
        One-shot only: steps of the power method.
    init : (p + q, k) array, optional
        One-shot only: where the power method starts; drawn at random when omitted.
    scores : {"coordinator"} or None, default "coordinator"
        Column partitions only: who may have the scores that `transform` gives.
    random_state : int, optional
        Seed of that draw, and of a Krylov iteration's start.

    Attributes
    ----------
    canonical_correlations_ : (k,) array
        Only "exact": correlations of the pairs of scores, descending; with
        `regularisation` in the order of the regularised problem.
    eigenvalues_ : (k,) array
        Only on a column partition: of the problem, which is λ = 1 + ρ for two parties
        without `regularisation`, and ρ with "sumcor"; not for two with it. Weights stay
        with parties.
    n_iter_ : int
        Only with "sumcor" and `regularisation`: blocks of directions.
    x_weights_ : (p, k) array
        Only on a row partition. Orthonormal; in each the entry of largest magnitude is
        positive. One-shot: unit vectors of the silos' whitened coordinates.
    y_weights_ : (q, k) array
        Only on a row partition: their partners. With "dcca-power" the sign of each is
        by its own largest entry: squares do not tell which goes with which.
    x_rotations_ : (p, k) array
        Only "exact": ``x_scores = (X - x_mean_) / x_std_ @ x_rotations_``.
    y_rotations_ : (q, k) array
        Only "exact": the same of the second view.
    x_loadings_ : (p, k) array
        Only "exact": slopes of the first view's columns on its scores.
    y_loadings_ : (q, k) array
        Only "exact": slopes of the second view's columns on its scores.
    x_correlations_ : (p, k) array
        Only "exact": correlations of the first view's columns with its scores.
    y_correlations_ : (q, k) array
        Only "exact": correlations of the second view's columns with its scores.
    coef_ : (q, p) array
        Only "exact": ``predict`` is ``(X - x_mean_) @ coef_.T + intercept_``.
    intercept_ : (q,) array
        Only "exact": the means of the second view.
    all_correlations_ : (min(p, q),) array
        Only "exact" without `regularisation`: what `significance` tests.
    x_mean_ : (p,) array
        Only "exact": means of the first view's columns.
    x_std_ : (p,) array
        Only "exact": what they are divided by.
    y_mean_ : (q,) array
        Only "exact": means of the second view's columns.
    y_std_ : (q,) array
        Only "exact": what they are divided by.
    x_columns_ : list of str
        Only with two views: names of the first view's columns.
    y_columns_ : list of str
        Only with two views: names of the second view's columns.
    n_samples_ : int
        Only "exact": N, the rows of all silos.
    n_features_in_ : int
        p, columns of the first view.
    feature_names_in_ : (p,) array of str
        Their names, where the silos' tables have names.

    Raises
    ------
    DataError
        Missing values, collinear columns, or p + q >= N without `regularisation`, where
        correlations of 1 can be had from anything.

    Notes
    -----
    Released, as totals only: the number of rows; column sums; squared distances from
    the means; products of every two columns' distances, of both views. One-shot: one
    matrix, in one round. Never released: a row, a score, or any silo's own moments. On
    a column partition the totals are about people (Gram matrices, or their images), and
    silos must allow it; `transform` then shows scores, silo by silo. Two parties with
    `regularisation`, or with more than 1,000 people, open totals without the
    coordinator, as those of `PLSSVD`; so do more with "sumcor", and the coordinator
    sees products of mixtures of columns alone.

    See Also
    --------
    sklearn.cross_decomposition.CCA : its twin on pooled rows.
    """

    canonical_correlations_: Float[Array, " k"]
    eigenvalues_: Float[Array, " k"]

    _partitions = ("rows", "columns")
    _steps = (moments.local_total, moments.local_squares, moments.local_scatter)
    _shown = shown_scores
    _one_shot = ONE_SHOT

    def __init__(
        self,
        n_components: int = 2,
        *,
        scale: bool | None = None,
        solver: str = "exact",
        regularisation: float = 0.0,
        criterion: str = "maxvar",
        ridge: float | None = None,
        factors: bool | int = False,
        max_iter: int = 10,
        init: Any = None,
        scores: str | None = "coordinator",
        random_state: int | None = None,
    ) -> None:
        self.n_components = n_components
        self.scale = scale
        self.solver = solver
        self.regularisation = regularisation
        self.criterion = criterion
        self.ridge = ridge
        self.factors = factors
        self.max_iter = max_iter
        self.init = init
        self.scores = scores
        self.random_state = random_state

    def _fit(self, federation: Federation, y: Any) -> None:
        check_share("regularisation", self.regularisation)
        check_choice("criterion", self.criterion, CRITERIA)
        by_columns = federation.partition == "columns"
        check_choice("solver", self.solver, COLUMN_SOLVERS if by_columns else SOLVERS)
        if by_columns:
            return fit_columns(self, federation)
        first, second = views_of(federation, y)
        k = component_count(self.n_components, min(len(first), len(second)))
        if self.solver == "exact":
            self._fit_exactly(federation, y, k)
        else:
            self._fit_in_one_shot(federation, first, second, k)

    def _fit_exactly(self, federation: Federation, y: Any, k: int) -> None:
        c = float(self.regularisation)
        scale = c == 0.0 if self.scale is None else self.scale
        within = None if c == 0.0 else SPAN
        S = self._moments(federation, y, scale=scale, span=within)
        columns = sum(S.xy.shape)
        if c == 0.0 and columns >= self.n_samples_:
            raise DataError(
                f"{columns} columns in two views, but {self.n_samples_} rows: "
                f"correlations of 1 can be had from anything. Choose a "
                f"regularisation, 0.1 for instance, or leave columns out with select."
            )
        A, B = canonical_directions(S.shrunk(c), k)
        self.canonical_correlations_ = correlations(S, A, B)
        self._learn(canonical_latent(S, A, B))
        if self._bases is None:
            self.x_correlations_ = structure(S.xx, self.x_rotations_)
            self.y_correlations_ = structure(S.yy, self.y_rotations_)
        if c == 0.0:
            every = canonical_directions(S, min(S.xy.shape))
            self.all_correlations_ = correlations(S, *every)

    def significance(self) -> CanonicalTest:
        """Test which correlations are not zero; nothing more is released."""
        check_is_fitted(self)
        if not hasattr(self, "all_correlations_"):
            raise DataError(
                "Only exact correlations without regularisation are tested."
            )
        sizes = len(self.x_columns_), len(self.y_columns_)
        return bartlett(self.all_correlations_, self.n_samples_, *sizes)

"""Canonical correlation analysis of two or more views of the same rows.

    "exact"   three rounds of moments ──> S_xx, S_xy, S_yy
              max aᵀ S_xy b  with  aᵀ S_xx a = bᵀ S_yy b = 1
    "dgep-…"  silos ── K_i = S_xx^(-1/2) S_xy S_yy^(-1/2) of their own covariances
              ──> [[0, Σ K_i], [Σ K_iᵀ, 0]] w = λ w
    "dcca-…"  silos ── K_i K_iᵀ, K_iᵀ K_i ──> Σ of each, by the power method

The one-shot solvers are in `unpooled.models.two_views.dgep`. On a column partition each
party is a view:

    any number    max hᵀ (Σ_i Q_i Q_iᵀ) h ("maxvar"), Q_i the whitened views: by Gram
                  matrices or a Krylov iteration, in `cca_columns`
    two           with many rows and not too many columns: angles between the spans of
                  the views, in `cca_spans`; with regularisation: pairs of largest
                  covariance of the whitened views, by `pls_columns`
    three, ...    with regularisation, "sumcor": the largest sum of covariances, in
                  `sumcor`
"""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar, final

import numpy as np
from sklearn.utils.validation import check_is_fitted

from unpooled.arrays import Array, Float
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.linalg.canonical_correlation import (
    Covariances,
    canonical_directions,
    correlations,
    cross_structure,
    score_variances,
    structure_in_span,
)
from unpooled.linalg.dgep import DGEP
from unpooled.linalg.eigen import with_positive_peaks
from unpooled.linalg.partial_least_squares import canonical_latent
from unpooled.linalg.regression_fit import response_fit
from unpooled.models import moments, row_space
from unpooled.models.base import check_federation
from unpooled.models.generalized_eigen import generalized_eigen, matrix_pairs
from unpooled.models.generalized_eigen.diagnosis import Diagnosis
from unpooled.models.parameter_checks import check_choice, check_share, component_count
from unpooled.models.two_views import (
    cca_columns,
    cca_spans,
    correlation_errors,
    dgep,
    pls_columns,
    sumcor,
)
from unpooled.models.two_views.significance import CanonicalTest, bartlett
from unpooled.models.two_views.two_views import (
    Predicting,
    shown_scores,
    shown_structure,
    views_of,
)
from unpooled.models.two_views.two_views_results import cca_exhibits
from unpooled.results.citations import Citation

SOLVERS = ("exact", "dgep-eigh", "dgep-power", "dcca-power")
COLUMN_SOLVERS = ("exact", "gram", "krylov", "spans")
CRITERIA = ("maxvar", "sumcor")
# The solvers of a column partition, as the pairing of two parties' views calls them.
_PAIRING = {"exact": "auto", "gram": "direct", "krylov": "krylov"}


@final
@dataclass(eq=False, repr=False)
class CCA(Predicting):
    """Canonical correlation analysis over a federation: the pooled answer.

    Parameters
    ----------
    n_components : int, default 2
        k, the number of pairs of directions, at most min(N, p, q).
    scale : bool or None, default None
        Divide columns by their standard deviations first. None: without
        `regularisation`, where only units depend on it, as scikit-learn does; with it
        columns keep their units, as in cca_zoo.
    solver : str, default "exact"
        "exact" is the pooled answer; "dgep-eigh", "dgep-power" and "dcca-power" are the
        published one-shot algorithms, which are approximate. On a column partition
        "gram" or "krylov", whose totals about people the coordinator opens; "spans" of
        two parties without `regularisation`, which open theirs alone; or "exact", which
        chooses among them by the numbers of rows and columns.
    regularisation : float in [0, 1], default 0.0
        c; the covariances within the views become ``(1 - c) S + c I``.
    criterion : {"maxvar", "sumcor"}, default "maxvar"
        Column partitions of three or more parties: maximise the variance that all views
        share (generalised CCA), or the sum of covariances between views (multiset CCA).
        They differ only with `regularisation`.
    ridge : float or None, default None
        One-shot only: added to the diagonal of each silo's covariances within the
        views. None: pseudo-inverse roots.
    factors : bool or int, default False
        "dcca-power" only: silos disclose their own K_i, p × q numbers from which single
        rows can be recovered where there are few, instead of p² + q² numbers that are
        only opened as totals. Their policies must allow it. A number: they disclose
        factors of K_i with so many columns, for silos with fewer rows than that; K_i is
        then never formed.
    max_iter : int, default 10
        One-shot only: number of steps of the power method.
    init : (p + q, k) array, optional
        One-shot only: starting directions of the power method; random when omitted.
    scores : {"coordinator"} or None, default "coordinator"
        Column partitions only: who receives the scores that `transform` returns; with
        None nobody does.
    standard_errors : bool, default False
        Whether one more round gives standard errors of the canonical correlations that
        assume no normality; "exact" on a row partition, without `regularisation`.
    random_state : int, optional
        Seed of random starting directions.

    Attributes
    ----------
    canonical_correlations_ : (k,) array
        Only "exact": correlations of the pairs of scores, in descending order; with
        `regularisation` in the order of the regularised problem.
    canonical_correlations_se_ : (k,) array
        Only with `standard_errors`: standard errors of `canonical_correlations_`, for
        correlations that differ from each other and from 0.
    canonical_correlations_se_normal_ : (k,) array
        Only of two views without `regularisation`: what they are for normal rows,
        ``(1 - r²) / sqrt(N)``.
    eigenvalues_ : (k,) array
        Only on a column partition: the eigenvalues λ of the problem, except for two
        parties with `regularisation`. For two parties λ = 1 + ρ, or ρ with "sumcor",
        where ρ are the canonical correlations.
    n_iter_ : int
        Only with "sumcor" and `regularisation`: number of rounds of directions.
    x_weights_ : (p, k) array
        Only on a row partition. Orthonormal columns; in each the entry of largest
        magnitude is positive. One-shot: unit vectors in the silos' whitened
        coordinates.
    y_weights_ : (q, k) array
        Only on a row partition: weights of the second view, paired with `x_weights_`.
        With "dcca-power" the entry of largest magnitude of each is positive, because
        the squares K_i K_iᵀ do not determine the signs of pairs.
    x_rotations_ : (p, k) array
        Only "exact": ``x_scores = (X - x_mean_) / x_std_ @ x_rotations_``.
    y_rotations_ : (q, k) array
        Only "exact": ``y_scores = (Y - y_mean_) / y_std_ @ y_rotations_``.
    x_loadings_ : (p, k) array
        Only "exact": slopes of the first view's columns on its scores.
    y_loadings_ : (q, k) array
        Only "exact": slopes of the second view's columns on its scores.
    x_correlations_ : (p, k) array
        Only "exact": correlations of the first view's columns with its scores.
    y_correlations_ : (q, k) array
        Only "exact": correlations of the second view's columns with its scores.
    x_cross_correlations_ : (p, k) array
        Only "exact": correlations of the first view's columns with the second view's
        scores.
    y_cross_correlations_ : (q, k) array
        Only "exact": correlations of the second view's columns with the first view's
        scores.
    r2_ : (q,) array
        Only "exact": coefficient of determination of each column of the second view
        as predicted, on the rows of the fit; NaN for a constant column.
    rmse_ : (q,) array
        Only "exact": root mean squared error of these predictions, with denominator N,
        in the units of the column.
    coef_ : (q, p) array
        Only "exact": ``predict`` is ``(X - x_mean_) @ coef_.T + intercept_``.
    intercept_ : (q,) array
        Only "exact": the means of the second view.
    all_correlations_ : (min(p, q),) array
        Only "exact" without `regularisation`: all canonical correlations, which
        `significance` tests.
    x_mean_ : (p,) array
        Only "exact": means of the first view's columns.
    x_std_ : (p,) array
        Only "exact": what these columns are divided by after centring, with `scale`
        their standard deviations (denominator N - 1), else 1.
    y_mean_ : (q,) array
        Only "exact": means of the second view's columns.
    y_std_ : (q,) array
        Only "exact": what these columns are divided by after centring, with `scale`
        their standard deviations (denominator N - 1), else 1.
    x_columns_ : list of str
        Only with two views: names of the first view's columns.
    y_columns_ : list of str
        Only with two views: names of the second view's columns.
    x_party_ : str
        Only of two parties with different columns: the party of the first view.
    y_party_ : str
        Only of two parties with different columns: the party of the second.
    n_samples_ : int
        Only "exact": N, the number of rows of all silos.
    kept_ : str
        Only on a column partition: study and view under which the silos keep their
        weights.
    n_features_in_ : int
        p, the number of columns of the first view.
    feature_names_in_ : (p,) array of str
        Their names, where the silos' tables have names.

    Raises
    ------
    DataError
        Missing values, collinear columns, or p + q >= N without `regularisation`, where
        any two views have correlations of 1.
    ConvergenceError
        On a column partition, when the rounds of an iteration were not enough.

    Notes
    -----
    Released, as totals only: the number of rows; the sum and the sum of squared
    deviations of each column of both views; their cross-product matrix about the means
    (products of every two columns' deviations, added over all rows). One-shot: one
    matrix, in one round. With `standard_errors` k more totals: the squared influence of
    each row on each canonical correlation, added over all rows. Never released: a row,
    a score, or any silo's own moments.

    On a column partition the totals are about people (Gram matrices, or their products
    with directions), which every silo must allow; `transform` then discloses the scores
    of each silo. The silos keep the weights. Reading `x_correlations_` or
    `y_correlations_` of two parties asks both silos to disclose theirs. Two parties
    with `regularisation` open the totals about people themselves, as those of `PLSSVD`.
    So do two parties with "spans", which "exact" chooses for more than 1,000 people and
    at most 40 (k + 4) columns each, in two rounds: each learns the span of the other's
    columns. So do more parties with "sumcor" and `regularisation`, where the
    coordinator receives inner products of directions of columns only.

    See Also
    --------
    sklearn.cross_decomposition.CCA : its twin on pooled rows.

    References
    ----------
    Hotelling, Relations between two sets of variates, Biometrika 28 (1936).

    Lv et al., One-Shot Distributed Generalized Eigenvalue Problem (DGEP), 2022,
    Algorithms 1 to 3.

    Romanazzi, Influence in canonical correlation analysis, Psychometrika 57 (1992):
    `standard_errors`.

    Vinod, Canonical ridge and econometrics of joint production, Journal of Econometrics
    4 (1976): `regularisation`.

    Kettenring, Canonical analysis of several sets of variables, Biometrika 58 (1971):
    three parties and more.
    """

    canonical_correlations_: Float[Array, " k"] = field(init=False)
    canonical_correlations_se_: Float[Array, " k"] = field(init=False)
    canonical_correlations_se_normal_: Float[Array, " k"] = field(init=False)
    eigenvalues_: Float[Array, " k"] = field(init=False)
    all_correlations_: Float[Array, " l"] = field(init=False)
    x_weights_: Float[Array, "p k"] = field(init=False)
    y_weights_: Float[Array, "q k"] = field(init=False)

    _estimates: ClassVar[Mapping[str, int | None]] = {
        "canonical_correlations_": None,
        "x_weights_": 1,
        "y_weights_": 1,
        "x_loadings_": 1,
        "y_loadings_": 1,
        "x_correlations_": 1,
        "y_correlations_": 1,
        "coef_": None,
        "intercept_": None,
    }
    _steps = (
        moments.local_total,
        moments.local_squares,
        moments.local_scatter,
        row_space.local_spread,
        row_space.local_span,
        dgep,
        matrix_pairs.local_canonical,
        generalized_eigen.local_pair,
        generalized_eigen.local_radii,
        cca_columns,
        cca_spans,
        pls_columns.local_image,
        pls_columns.local_pairs,
        sumcor,
        correlation_errors,
        shown_scores,
        shown_structure,
    )
    _exhibits = cca_exhibits

    n_components: int = 2
    _: KW_ONLY
    scale: bool | None = None
    solver: str = "exact"
    regularisation: float = 0.0
    criterion: str = "maxvar"
    ridge: float | None = None
    factors: bool | int = False
    max_iter: int = 10
    init: Any = None
    scores: str | None = "coordinator"
    standard_errors: bool = False
    random_state: int | None = None

    def _needs_variation(self) -> bool:
        # On a column partition the solvers find the span of the columns first.
        return self.solver == "exact" and self.regularisation == 0

    def _citation(self) -> Citation:
        works = [
            "Hotelling H. Relations between two sets of variates. Biometrika 1936; 28: "
            "321-377."
        ]
        how, exact = "", not self.solver.startswith(("dgep", "dcca"))
        if self.standard_errors:
            works.append(
                "Romanazzi M. Influence in canonical correlation analysis. "
                "Psychometrika 1992; 57: 237-259."
            )
        if not exact:
            how = f" by the one-shot algorithm {self.solver}, which is approximate"
            works.append(DGEP)
        elif "kept_" in vars(self):
            works.append(
                "Kettenring JR. Canonical analysis of several sets of variables. "
                "Biometrika 1971; 58: 433-451."
            )
        if self.regularisation:
            how += f", with a ridge of {self.regularisation:g}"
            works.append(
                "Vinod HD. Canonical ridge and econometrics of joint production. "
                "Journal of Econometrics 1976; 4: 147-166."
            )
        return Citation(
            f"A canonical correlation analysis was computed{how}.", tuple(works), exact
        )

    def _fit(self, federation: Federation, y: Any) -> None:
        check_share("regularisation", self.regularisation)
        check_choice("criterion", self.criterion, CRITERIA)
        by_columns = federation.partition == "columns"
        plain = self.solver == "exact" and self.regularisation == 0.0
        if self.standard_errors and (by_columns or not plain):
            raise DataError(
                "standard_errors are of exact correlations on a row partition, without "
                "regularisation. Leave them out."
            )
        check_choice("solver", self.solver, COLUMN_SOLVERS if by_columns else SOLVERS)
        if by_columns:
            self._fit_columns(federation)
            return
        first, second = views_of(federation, y)
        k = component_count(self.n_components, min(len(first), len(second)))
        if self.solver == "exact":
            self._fit_exactly(federation, y, k)
            return
        self.x_columns_, self.y_columns_ = first, second
        both = federation.select([*first, *second])
        self.x_weights_, self.y_weights_ = self._one_shot().directions(
            both, len(first), k
        )

    def _fit_exactly(self, federation: Federation, y: Any, k: int) -> None:
        c = float(self.regularisation)
        scale = c == 0.0 if self.scale is None else self.scale
        both = self._pooled_means(federation, y)
        p, q, N = len(self.x_columns_), len(self.y_columns_), self.n_samples_
        if c > 0.0 and not scale and max(p, q) >= N:
            self._fit_in_row_space(both, k)
            return
        S = self._pooled_covariances(both, scale=scale)
        if c == 0.0 and p + q >= N:
            raise DataError(
                f"{p + q} columns in two views, but {N} rows: correlations of 1 can be "
                f"had from anything. Choose a regularisation, 0.1 for instance, or "
                f"leave columns out with select."
            )
        names = self.x_columns_, self.y_columns_
        A, B = canonical_directions(S.shrunk(c), k, *names)
        self.canonical_correlations_ = correlations(S, A, B)
        self._set_latent(canonical_latent(S, A, B))
        self._set_structure(S)
        self._set_fit(response_fit(S, self.x_rotations_, self.y_loadings_))
        if c == 0.0:
            pairs = canonical_directions(S, min(p, q), *names)
            self.all_correlations_ = correlations(S, *pairs)
            self._set_errors()
        if self.standard_errors:
            self.canonical_correlations_se_ = correlation_errors.correlation_errors(
                both,
                np.concatenate([self.x_mean_, self.y_mean_]),
                A / self.x_std_[:, None],
                B / self.y_std_[:, None],
                self.canonical_correlations_,
                N,
            )

    def _set_errors(self) -> None:
        """Set the standard errors that normal rows have, without a round."""
        r, N = self.canonical_correlations_, self.n_samples_
        self.canonical_correlations_se_normal_ = correlation_errors.normal_errors(r, N)

    def _fit_in_row_space(self, both: Federation, k: int) -> None:
        """Fit views with more columns than rows, in the span of the pooled rows.

        Regularised directions lie in that span, and no p × p matrix is formed.
        """
        p, q, N = len(self.x_columns_), len(self.y_columns_), self.n_samples_
        mean = np.concatenate([self.x_mean_, self.y_mean_])
        Z = row_space.row_space(both, mean, N, p)
        # Each view has a basis of its own: the first columns of Z are the first view's.
        r = np.count_nonzero(Z[:p].any(axis=0))
        inside = row_space.coordinates(both, mean, Z)
        S = moments.pooled_scatter(inside, np.zeros(Z.shape[1])) / (N - 1)
        views = Covariances(S[:r, :r], S[:r, r:], S[r:, r:])
        A, B = canonical_directions(views.shrunk(float(self.regularisation)), k)
        self.canonical_correlations_ = correlations(views, A, B)
        self.x_std_, self.y_std_ = np.ones(p), np.ones(q)
        latent = canonical_latent(views, A, B)
        Zx, Zy = Z[:p, :r], Z[p:, r:]
        self._set_latent(latent.lifted(Zx, Zy))
        self._set_structure_in_span(views, Zx, Zy)
        self._set_fit(
            response_fit(views, latent.x_rotations, latent.y_loadings, basis=Zy)
        )

    def _set_structure_in_span(
        self, S: Covariances, Zx: Float[Array, "p r"], Zy: Float[Array, "q s"]
    ) -> None:
        """Set correlations of columns with scores; S is of coordinates in the spans."""
        x, y = self._rotations()
        self.x_correlations_ = structure_in_span(Zx, S.xx, x)
        self.y_correlations_ = structure_in_span(Zy, S.yy, y)
        x_variances = np.einsum("pr,pr->p", Zx @ S.xx, Zx)
        y_variances = np.einsum("qs,qs->q", Zy @ S.yy, Zy)
        x, y = Zx.T @ x, Zy.T @ y
        self.x_cross_correlations_ = cross_structure(
            Zx @ S.xy, x_variances, score_variances(S.yy, y), y
        )
        self.y_cross_correlations_ = cross_structure(
            Zy @ S.xy.T, y_variances, score_variances(S.xx, x), x
        )

    def significance(self) -> CanonicalTest:
        """Test which correlations are not zero; nothing more is released.

        Returns
        -------
        CanonicalTest
            Prints as a table, and has `correlations`, `wilks`, `statistic`, `dof` and
            `p_value` as arrays.

        Raises
        ------
        DataError
            When the correlations are not exact, or `regularisation` was
            used.
        """
        check_is_fitted(self)
        if not hasattr(self, "all_correlations_"):
            raise DataError(
                "Only exact correlations without regularisation are tested."
            )
        p, q = len(self.x_columns_), len(self.y_columns_)
        return bartlett(self.all_correlations_, self.n_samples_, p, q)

    def _one_shot(self) -> dgep.OneShot:
        return dgep.OneShot(
            solver=self.solver,
            ridge=self.ridge,
            factors=self.factors,
            max_iter=self.max_iter,
            init=self.init,
            random_state=self.random_state,
        )

    def diagnose(self, federation: Federation) -> Diagnosis:
        """Compare "dgep" vectors with the exact ones; releases Σ A_i and Σ B_i.

        Parameters
        ----------
        federation : Federation
            The one of the fit.

        Raises
        ------
        DataError
            When the solver was an exact one.
        """
        check_is_fitted(self)
        if not self.solver.startswith("dgep"):
            raise DataError(
                f'diagnose compares the solvers "dgep-eigh" and "dgep-power" with the '
                f"exact one; this model has solver={self.solver!r}."
            )
        columns = [*self.x_columns_, *self.y_columns_]
        both = check_federation(self, federation).select(columns)
        with both.calling(self, "diagnose"):
            return self._one_shot().diagnosis(both, self.x_weights_, self.y_weights_)

    def _disclosable(self) -> list[str]:
        # More than two parties have no scores of one other view.
        return super()._disclosable() if "x_columns_" in vars(self) else []

    def _fit_columns(self, federation: Federation) -> None:
        """Fit the parties of a column partition, each of which is a view."""
        N, c = int(federation.n_rows or 0), float(self.regularisation)
        columns = list(federation.columns_of.values())
        widths = [len(names) for names in columns]
        k = cca_columns.shared_component_count(self.n_components, widths, N, c)
        self.n_samples_ = N
        if self.solver == "spans" and (c > 0.0 or len(widths) != 2):
            raise DataError(
                'solver="spans" is for two parties, without regularisation; choose '
                'solver="exact".'
            )
        if len(widths) == 2:
            self.x_columns_, self.y_columns_ = map(list, columns)
            self.x_party_, self.y_party_ = federation.columns_of
            if c > 0.0:
                self._fit_pairs(federation, k)
                return
            # MAXVAR has the same answer.
            many = self.solver == "exact" and N > cca_columns.MOST_GRAM_ROWS
            if self.solver == "spans" or (many and cca_spans.are_narrow(federation, k)):
                self._fit_spans(federation, k)
                return
            if self.solver == "exact" and not many:
                federation.coordinator.notes.append(cca_spans.ALTERNATIVE)
        elif c > 0.0 and self.criterion == "sumcor":
            self._fit_sumcor(federation, k)
            return
        self._fit_maxvar(federation, k)

    def _fit_maxvar(self, federation: Federation, k: int) -> None:
        N, c = int(federation.n_rows or 0), float(self.regularisation)
        widths = [len(names) for names in federation.columns_of.values()]
        few = N <= cca_columns.MOST_GRAM_ROWS
        federation.keep(cca_columns.own_basis, regularisation=c)
        # With c = 1 nothing is whitened, so there is no known bound of a Gram matrix.
        if c < 1.0 and (self.solver == "gram" or (self.solver == "exact" and few)):
            values, H = cca_columns.gram_eigenpairs(federation, k, regularisation=c)
            if len(widths) == 2 and c == 0.0:
                rho = np.clip(values[: min(widths)] - 1.0, 0.0, 1.0)
                self.all_correlations_ = rho
        else:
            values, H = cca_columns.krylov_eigenpairs(
                federation, k, regularisation=c, random_state=self.random_state
            )
        H = with_positive_peaks(H)
        federation.keep(cca_columns.own_weights, H=H, regularisation=c)
        # "sumcor" leaves out each view's covariance with itself, 1 without a ridge.
        self.eigenvalues_ = values[:k] - (1.0 if self.criterion == "sumcor" else 0.0)
        if len(widths) == 2:
            self.canonical_correlations_ = values[:k] - 1.0
            if c == 0.0:
                self._set_errors()

    def _search(self, federation: Federation, k: int) -> pls_columns.SearchOptions:
        return pls_columns.search_for(
            "CCA",
            federation,
            k,
            solver=_PAIRING[self.solver],
            tol=cca_columns.TOL,
            max_iter=cca_columns.MOST_ROUNDS,
            random_state=self.random_state,
        )

    def _fit_pairs(self, federation: Federation, k: int) -> None:
        """Pair the whitened views of two parties by their largest covariances."""
        c, search = float(self.regularisation), self._search(federation, k)
        federation.keep(
            cca_columns.own_ridge,
            block=search.block,
            seed=search.seed,
            regularisation=c,
        )
        r, _ = pls_columns.paired_views(federation, search, k, deflated=())
        federation.keep(cca_columns.own_ridge_weights, regularisation=c, k=k)
        self.canonical_correlations_ = np.clip(r, -1.0, 1.0)

    def _fit_spans(self, federation: Federation, k: int) -> None:
        """Find the angles between the spans of two parties' columns."""
        r = cca_spans.paired_spans(federation, k, tol=cca_columns.TOL)
        self.all_correlations_, self.canonical_correlations_ = r, r[:k].copy()
        self.eigenvalues_ = r[:k] + (self.criterion == "maxvar")
        self._set_errors()

    def _fit_sumcor(self, federation: Federation, k: int) -> None:
        """Maximise the sum of covariances of three or more parties, with a ridge."""
        if self.solver == "gram":
            raise DataError(
                'solver="gram": with a regularisation "sumcor" excludes the covariance '
                "of each view with itself, which the Gram matrix of all silos does not "
                'contain. Choose solver="krylov".'
            )
        self.eigenvalues_, self.n_iter_ = sumcor.keep_sumcor_weights(
            federation,
            k,
            regularisation=float(self.regularisation),
            random_state=self.random_state,
        )

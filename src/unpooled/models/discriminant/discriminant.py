"""Linear discriminant analysis of rows that stay in their silos.

    round 1   the names and sizes N_k of the classes:
              `unpooled.models.discriminant.classes`
    round 2   silos <── N_k ── silos ── sums of the classes ──> means μ_k, and μ of all
    rounds 3  silos <── μ_k ── silos ── the scatter of their rows about the means of
    and 4     their classes ───────────────────────────────> S_w, divided by N
    solve     S_b v = λ S_w v,  S_b = Σ (N_k / N) (μ_k - μ)(μ_k - μ)ᵀ

With ``shrinkage="auto"`` rounds 3 and 4 are run for each class, and one more gives the
fourth powers that the Ledoit-Wolf formula needs
(`unpooled.models.discriminant.ledoit_wolf`). Given `priors` weigh the classes in S_w,
and the covariance of all rows takes the rounds of `unpooled.models.moments` too.

With more columns than rows the same is done in the span of the pooled rows
(`unpooled.models.row_space`), for an orthonormal basis Z of it:

    solve     ((1 - s) Zᵀ S_b Z + s t_b I) v = λ ((1 - s) Zᵀ S_w Z + s t_w I) v,
              t_b = tr S_b / p,  t_w = tr S_w / p

The shrinkage s adds a multiple of the identity, which maps the span to itself: the
directions are those of all columns, and nobody forms p × p numbers.
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, final

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from unpooled.arrays import Array, Float, Int, Shaped
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.ledger.notebook_tables import pandas_if_installed
from unpooled.linalg.dgep import DGEP
from unpooled.linalg.eigen import with_positive_peaks
from unpooled.linalg.generalized_eigen import leading_pencil_pairs, solved
from unpooled.linalg.group_tests import tests_of_ratios
from unpooled.linalg.settled import product
from unpooled.models import moments, row_space
from unpooled.models.base import check_federation
from unpooled.models.discriminant import (
    classes,
    dgep,
    ledoit_wolf,
    within_scatter,
)
from unpooled.models.discriminant.class_shapes import ClassShapes
from unpooled.models.discriminant.classes import (
    Classes,
    agreed_classes,
    check_label,
    class_values,
    of_classes,
    pooled_class_means,
)
from unpooled.models.discriminant.discriminant_results import discriminant_exhibits
from unpooled.models.discriminant.within_scatter import (
    between,
    pooled_within,
    shrunk,
    shrunk_in_span,
    singular_within,
)
from unpooled.models.generalized_eigen import generalized_eigen, matrix_pairs
from unpooled.models.generalized_eigen.diagnosis import Diagnosis
from unpooled.models.generalized_eigen.generalized_eigen import (
    OneShotSolver,
    diagnosis_of,
    roots,
)
from unpooled.models.linear_classifier import LinearClassifier, linear_steps
from unpooled.models.moments import pooled_scatter
from unpooled.models.parameter_checks import check_choice, is_number, whole_number
from unpooled.protocol.step import derived, disclosed, public, release
from unpooled.results.citations import Citation

if TYPE_CHECKING:
    import pandas as pd

SOLVERS = ("exact", "dgep-eigh", "dgep-power")
# People of each silo in a picture: more could not be distinguished.
MOST_PEOPLE = 500
_NOBODY = -1


@disclosed(
    by="party",
    takes={
        "classes": public("c w", "the names of the classes"),
        "scalings": public("p k", "the discriminant directions (weights of columns)"),
        "people": "size N",
    },
    scores=release(
        "N k",
        meaning="coordinates along the discriminant directions of some of the silo's "
        "people",
    ),
    codes=release("N", meaning="the class of each; -1 beyond the silo's last"),
)
def shown_people(
    X: Float[Array, "n p"],
    y: Shaped[Array, " n"],
    *,
    classes: Int[Array, "c w"],
    scalings: Float[Array, "p k"],
    people: int,
    seed: int,
) -> dict[str, Any]:
    """Disclose coordinates and classes of at most `people` rows, drawn at random.

    These are numbers about single people, which every silo's policy must allow in two
    ways: values of its own (`allow_disclosed`), and one for each row
    (`allow_row_level`).
    """
    X, own = of_classes(X, y, classes)
    chosen = np.random.default_rng(seed).permutation(len(X))[:people]
    scores, codes = np.zeros((people, scalings.shape[1])), np.full(people, _NOBODY)
    scores[: len(chosen)] = X[chosen] @ scalings
    codes[: len(chosen)] = own[chosen]
    return {"scores": scores, "codes": codes.astype(float)}


@derived(
    within_silos=True,
    takes={
        "scalings": public("p k", "the discriminant directions (weights of columns)")
    },
)
def discriminated(
    X: Float[Array, "n p"], *, scalings: Float[Array, "p k"]
) -> Float[Array, "n k"]:
    """Return coordinates of rows along the discriminant directions."""
    return X @ scalings


@final
@dataclass(eq=False, repr=False)
class LinearDiscriminantAnalysis(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, LinearClassifier
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
        Share by which the within-class covariance is shrunk towards a multiple of the
        identity; "auto" takes it from the Ledoit-Wolf formula.
    priors : sequence of float, optional
        Prior probabilities of the classes, in the order of `classes_`. Their shares of
        rows when omitted.
    classes : sequence, optional
        Names of the classes. When omitted, the silos send them, with the sizes, as a
        total over all; when given, a plan knows how many there are.
    ridge : float or None, default None
        One-shot only: added to the diagonal of each silo's scatter within classes.
        None: pseudo-inverse roots.
    factors : bool, default False
        One-shot only: silos disclose factors of their own matrices, p × c numbers,
        instead of adding the matrices, p² numbers. Their policies must allow it.
    max_iter : int, default 10
        One-shot only: number of steps of the power method.
    init : (p, k) array, optional
        One-shot only: where the power method starts; drawn at random when omitted.
    random_state : int, optional
        Seed of that draw, and of the draw of people for `scores`.
    scores : {"coordinator"} or None, default None
        Only "exact": with "coordinator" every silo discloses the coordinates of some of
        its people along the directions, for a picture. Their policies must allow it.

    Attributes
    ----------
    classes_ : (c,) array
        Names of the classes, sorted.
    class_count_ : (c,) int array
        Number of rows of each class.
    priors_ : (c,) array
        Only "exact": prior probabilities of the classes; their sum is 1.
    means_ : (c, p) array
        Only "exact": mean of each class.
    covariance_ : (p, p) array
        Only "exact" with fewer columns than rows: covariance within classes, shrunk,
        with denominators N_k.
    scalings_ : (p, k) array
        Directions v with ``v.T @ covariance_ @ v = 1``, by decreasing ratio of the
        variance between classes to the variance within; in each the entry of largest
        magnitude is positive. One-shot: orthonormal vectors in the silos' whitened
        coordinates, as published.
    explained_variance_ratio_ : (k,) array
        Only "exact": share of each direction in the sum of these ratios over all
        directions (proportion of trace).
    eigenvalues_ : (min(c - 1, p),) array
        Only "exact" without `shrinkage` and `priors`: ratios of the variance between
        classes to the variance within, along all directions, in descending order.
    coef_ : (c, p) array
        Only "exact": coefficients of the linear decision functions; with two classes
        (1, p), of the second class less the first.
    intercept_ : (c,) array
        Only "exact": their constants; (1,) with two classes.
    within_correlations_ : (p, k) array
        Only "exact": correlations of columns with coordinates along the directions,
        both about the means of their classes (pooled within-class structure).
    total_correlations_ : (p, k) array
        Only "exact": the same correlations about the means of all rows.
    score_covariance_ : (k, k) array
        Only "exact": covariance of the coordinates within classes, with denominator N,
        before any shrinkage.
    class_score_covariances_ : (c, k, k) array
        Only "exact" with ``shrinkage="auto"``: covariance of the coordinates of each
        class, with denominators N_k, before any shrinkage.
    decision_std_ : (1,) array
        Only "exact" with two classes: standard deviation of the decision function
        within classes, with denominator N, before any shrinkage.
    scores_ : (n, k) array
        Only with `scores`: coordinates of at most 500 people of each silo, drawn at
        random.
    score_classes_ : (n,) array
        Only with `scores`: their classes.
    n_samples_ : int
        Only "exact": N, the number of rows of all silos.
    n_features_in_ : int
        p, the number of columns.
    feature_names_in_ : (p,) array of str
        Names of the columns, where the silos' tables have names.

    Raises
    ------
    DataError
        Missing values or labels, a single class, collinear columns, fewer rows than
        columns without `shrinkage`, or `n_components` beyond min(c - 1, p).

    Notes
    -----
    Released, as totals only: names and sizes of the classes (where `classes` is given,
    also the number of rows of others); the sum of each column within each class; the
    sum of squared deviations of each column from its class means; the p × p
    within-class cross-product matrix (products of every two columns' deviations, added
    over all rows); with ``shrinkage="auto"`` one for each class, and
    fourth powers of the lengths of rows. Never released: a row, which silo has which
    class, or any silo's own counts, means or scatter. The sizes come first: a silo
    sends sums only if every class has `min_rows_per_class` rows in all silos together,
    and either none or `min_own_cells` in the silo itself. Where a single silo has a
    class, the totals of this class are its own. Only with `scores` does each silo
    disclose coordinates of people.

    See Also
    --------
    sklearn.discriminant_analysis.LinearDiscriminantAnalysis : with ``solver="eigen"``
        its twin on pooled rows, which has no rule for signs and keeps p directions.

    References
    ----------
    Lv et al., One-Shot Distributed Generalized Eigenvalue Problem (DGEP), 2022, section
    2.4: Fisher's discriminant analysis as a generalised eigenproblem.

    Ledoit and Wolf, A well-conditioned estimator for large-dimensional covariance
    matrices, Journal of Multivariate Analysis 88 (2004).

    Fisher, The use of multiple measurements in taxonomic problems, Annals of Eugenics 7
    (1936).
    """

    classes_: Shaped[Array, " c"] = field(init=False)
    means_: Float[Array, "c p"] = field(init=False)
    priors_: Float[Array, " c"] = field(init=False)
    covariance_: Float[Array, "p p"] = field(init=False)
    scalings_: Float[Array, "p k"] = field(init=False)
    coef_: Float[Array, "q p"] = field(init=False)
    intercept_: Float[Array, " q"] = field(init=False)

    _computed = (
        *("coef_", "intercept_", "explained_variance_ratio_", "decision_std_"),
        *("within_correlations_", "total_correlations_"),
        *("score_covariance_", "class_score_covariances_"),
    )
    _estimates: ClassVar[Mapping[str, int | None]] = {
        "scalings_": 1,
        "eigenvalues_": None,
        "explained_variance_ratio_": None,
        "means_": None,
        "priors_": None,
        "coef_": None,
        "intercept_": None,
    }
    _steps = (
        *(classes, within_scatter, ledoit_wolf, dgep),
        *(moments.local_squares, moments.local_scatter),
        *(row_space.local_spread, row_space.local_span),
        matrix_pairs.local_discriminant,
        *(generalized_eigen.local_pair, generalized_eigen.local_radii),
        *linear_steps,
    )
    _exhibits = discriminant_exhibits

    n_components: int | None = None
    _: KW_ONLY
    solver: str = "exact"
    shrinkage: Any = None
    priors: Any = None
    classes: Sequence[Any] | None = None
    ridge: float | None = None
    factors: bool = False
    max_iter: int = 10
    init: Any = None
    random_state: int | None = None
    scores: str | None = None

    def _needs_variation(self) -> bool:
        return self.solver == "exact" and self.shrinkage in (None, 0)

    def _citation(self) -> Citation:
        works = [
            "Fisher RA. The use of multiple measurements in taxonomic problems. Annals "
            "of Eugenics 1936; 7: 179-188."
        ]
        how = ""
        if self.solver != "exact":
            how = f" by the one-shot algorithm {self.solver}, which is approximate"
            works.append(DGEP)
        elif self.shrinkage == "auto":
            how = ", with covariance matrices shrunk by the formula of Ledoit and Wolf"
            works.append(
                "Ledoit O, Wolf M. A well-conditioned estimator for large-dimensional "
                "covariance matrices. Journal of Multivariate Analysis 2004; 88: "
                "365-411."
            )
        elif self.shrinkage:
            how = f", with covariance matrices shrunk by {self.shrinkage:g}"
        return Citation(
            f"A linear discriminant analysis of the classes was computed{how}.",
            tuple(works),
            exact=self.solver == "exact",
        )

    def _fit(self, federation: Federation, y: Any) -> None:
        self._check_parameters()
        check_label(federation, y)
        if self.solver != "exact":
            self._fit_in_one_shot(federation)
            return
        # Round 1: the names of the classes, unless they are given, and their sizes.
        names, count = agreed_classes(
            federation, classes.local_names, self.classes, self._n_planned()
        )
        # Round 2: their means.
        means = pooled_class_means(federation, names, count)
        p, c, N = federation.n_features, len(names), int(count.sum())
        k = _direction_count(self.n_components, p, c)
        self.priors_ = _class_priors(self.priors, count)
        if N - c < p and self.shrinkage in (None, 0):
            raise singular_within(p, N, c)
        self.classes_, self.means_ = class_values(names), means
        self.n_samples_ = N
        self.class_count_ = count.astype(np.int64)
        groups = Classes(names, count, means)
        if N - c < p:
            self._fit_in_row_space(federation, groups, k)
        else:
            # Rounds 3 and 4: the covariances within classes and of all rows.
            Sw, St, shapes = self._covariances(federation, groups, self.shrinkage)
            # S_b v = λ S_w v, and Vᵀ S_w V is the identity.
            ratios, V = leading_pencil_pairs(
                St - Sw, Sw, p, k, federation.feature_names, within="classes"
            )
            self.covariance_ = Sw
            self.scalings_ = V
            self.explained_variance_ratio_ = ratios[:k] / (ratios.sum() or 1.0)
            if self.shrinkage in (None, 0) and self.priors is None:
                # With c classes at most c - 1 eigenvalues are above 0.
                self.eigenvalues_ = np.maximum(ratios[: min(c - 1, p)], 0.0)
            self._set_decision_functions(solved(Sw, means.T).T)
            self._set_shapes(shapes)
        if self.scores is not None:
            self._collect_people(federation, names)

    def _fit_in_row_space(
        self, federation: Federation, groups: Classes, k: int
    ) -> None:
        """Solve the shrunk problem within the span of the rows; Z is its basis."""
        if self.shrinkage == "auto":
            scalings, shares, coef, shapes = ledoit_wolf.wide_discriminants(
                federation, groups, self.priors_, k
            )
            self.scalings_, self.explained_variance_ratio_ = scalings, shares
            self._set_decision_functions(coef)
            self._set_shapes(shapes)
            return
        p, s, mean = federation.n_features, float(self.shrinkage), groups.mean
        Z = row_space.row_space(federation, mean, self.n_samples_, p)
        means = product(groups.means - mean, Z)
        inside = Classes(groups.names, groups.count, means)
        view = row_space.coordinates(federation, mean, Z)
        Sw, St, shapes = self._covariances(view, inside, shrinkage=None)
        Sb = St - Sw
        Sb_in, Sw_in = shrunk_in_span(Sb, Sw, s, p)
        ratios, V = leading_pencil_pairs(Sb_in, Sw_in, len(Sw), k)
        self.scalings_ = with_positive_peaks(product(Z, V))
        # In each of the p - r directions across the span of r dimensions the ratio is
        # that of the multiples of the identity.
        total = ratios.sum() + (p - len(Sw)) * Sb.trace() / Sw.trace()
        self.explained_variance_ratio_ = ratios[:k] / (total or 1.0)
        # There the inverse of the covariance is p / (s tr S_w) times the identity.
        along = groups.means @ Z
        across = (groups.means - along @ Z.T) * (p / s / Sw.trace())
        self._set_decision_functions(solved(Sw_in, along.T).T @ Z.T + across)
        self._set_shapes(replace(shapes, factor=Z))

    def _covariances(
        self, federation: Federation, groups: Classes, shrinkage: Any
    ) -> tuple[Float[Array, "p p"], Float[Array, "p p"], ClassShapes]:
        """Return the covariances within classes, S_w, and of all rows, S_t, shrunk.

        The third result has both before they are shrunk or weighed by priors.
        """
        N = groups.count.sum()
        if isinstance(shrinkage, str):
            by_class, St, shapes = ledoit_wolf.ledoit_wolf_covariances(
                federation, groups
            )
            return ledoit_wolf.weighted_sum(self.priors_, by_class), St, shapes
        # Exactly 1 where the priors are the shares of rows: with other weights the
        # silos judge each class by itself.
        weights = np.ones(len(groups.count))
        if self.priors is not None:
            weights = self.priors_ * N / groups.count
        Sw = pooled_within(federation, groups, weights) / N
        apart = between(groups.count / N, groups.means, groups.mean)
        if self.priors is None:
            St = Sw + apart
            within = Sw
        else:
            # As in scikit-learn, priors given by the user weigh S_w, but not S_t.
            St = pooled_scatter(federation, groups.mean) / N
            within = St - apart
        shapes, s = ClassShapes(within, St), float(shrinkage or 0)
        return shrunk(Sw, s), shrunk(St, s), shapes

    def _set_shapes(self, shapes: ClassShapes) -> None:
        """Set how columns and classes lie along the directions."""
        V = self.scalings_
        self.within_correlations_ = shapes.within_correlations(V)
        self.total_correlations_ = shapes.total_correlations(V)
        self.score_covariance_ = shapes.score_covariance(V)
        if shapes.by_class is not None:
            self.class_score_covariances_ = shapes.class_score_covariances(V)
        if len(self.classes_) == 2:
            variance = shapes.score_covariance(self.coef_.T)
            self.decision_std_ = np.sqrt(np.maximum(variance[0], 0.0))

    def _set_decision_functions(self, coef: Float[Array, "c p"]) -> None:
        """Set `coef_` and `intercept_` from the means times the inverse of S_w."""
        intercept = -0.5 * np.sum(self.means_ * coef, axis=1) + np.log(self.priors_)
        if len(coef) == 2:
            coef, intercept = coef[1:] - coef[:1], intercept[1:] - intercept[:1]
        self.coef_, self.intercept_ = coef, intercept

    def _collect_people(self, federation: Federation, names: Int[Array, "c w"]) -> None:
        """Set coordinates and classes of people, which every silo discloses."""
        random_state = federation.seed(self.random_state)
        by_party = federation.collect(
            shown_people,
            classes=names,
            scalings=self.scalings_,
            people=MOST_PEOPLE,
            seed=check_random_state(random_state).randint(2**31),
        ).values()
        codes = np.concatenate([own["codes"] for own in by_party]).astype(np.int64)
        scores = np.concatenate([own["scores"] for own in by_party])
        people = codes != _NOBODY
        self.scores_ = scores[people]
        self.score_classes_ = self.classes_[codes[people]]

    def _fit_in_one_shot(self, federation: Federation) -> None:
        """Set the directions by a published one-shot algorithm."""
        n_planned, ridge = self._n_planned(), roots(self.ridge)["ridge"]
        solver = OneShotSolver.of(self, federation)
        p = federation.n_features
        names, count = agreed_classes(
            federation, classes.local_names, self.classes, n_planned
        )
        k = _direction_count(self.n_components, p, len(names))
        asked: dict[str, Any] = {"classes": names, "count": count, "ridge": ridge}
        if self.factors:
            shown = federation.collect(dgep.local_factors, **asked)
            F = np.concatenate([own["F"] for own in shown.values()], axis=1)
            self.scalings_ = solver.left_singular_vectors(F, k)
        else:
            M = federation.sum(dgep.local_whitened, **asked)["M"]
            self.scalings_ = solver.eigenvectors(M, k)
        self.classes_ = class_values(names)
        self.class_count_ = count.astype(np.int64)

    def diagnose(self, federation: Federation) -> Diagnosis:
        """Compare one-shot directions with exact ones; releases Σ A_i and Σ B_i.

        Matrices of p × p numbers are formed, whatever the fit did. The paper's bound is
        left out where a silo's policy does not allow it to disclose the spectral radii
        of its own matrices.

        Parameters
        ----------
        federation : Federation
            The one of the fit.

        Raises
        ------
        DataError
            When the answer was exact.
        """
        check_is_fitted(self)
        if self.solver == "exact":
            raise DataError("An exact answer has no error to diagnose.")
        federation = check_federation(self, federation)
        ridge = roots(self.ridge)["ridge"]
        with federation.calling(self, "diagnose"):
            names, count = agreed_classes(
                federation, classes.local_names, self.classes_.tolist(), 0
            )
            M = federation.sum(
                dgep.local_whitened, classes=names, count=count, ridge=ridge
            )["M"]
            pair = matrix_pairs.local_discriminant
            return diagnosis_of(federation, pair, {}, self.scalings_, M)

    def _n_planned(self) -> int:
        return (self.n_components or 1) + 1 if self.priors is None else len(self.priors)

    def _check_parameters(self) -> None:
        """Refuse values of parameters that do not exist."""
        check_choice("solver", self.solver, SOLVERS)
        s, k = self.shrinkage, self.n_components
        if not (s in (None, "auto") or (is_number(s) and 0 <= s <= 1)):
            raise DataError(
                f'shrinkage={s!r}; choose None, "auto" or a number in [0, 1].'
            )
        check_choice("scores", self.scores, (None, "coordinator"))
        if k is not None:
            whole_number("n_components", k)

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
        check_is_fitted(self)
        names = list(self.get_feature_names_out())
        return self._applied(X, discriminated, {"scalings": self.scalings_}, names)

    def manova(self) -> "pd.DataFrame":
        """Return multivariate tests that all classes have the same means.

        Returns
        -------
        DataFrame
            A row for Wilks' lambda, Pillai's trace, the trace of Hotelling and Lawley
            and Roy's largest root; "value", "f_value" with "num_df" and "den_df"
            degrees of freedom, and "p_value", as statsmodels' `MANOVA` has them. They
            assume normal rows with equal covariances; with more than two classes Roy's
            p is a lower bound.

        Raises
        ------
        DataError
            After a fit that does not determine them: with `shrinkage` or `priors`, or
            one-shot.
        """
        pd = pandas_if_installed()

        check_is_fitted(self)
        if "eigenvalues_" not in vars(self):
            raise DataError(
                "Tests of the classes' means take a fit without shrinkage and priors, "
                'by solver="exact".'
            )
        p, c, N = self.n_features_in_, len(self.classes_), self.n_samples_
        tests = tests_of_ratios(self.eigenvalues_, p, c, N)
        return pd.DataFrame(
            {
                name: {
                    "value": test.statistic,
                    "num_df": test.dof[0],
                    "den_df": test.dof[1],
                    "f_value": test.approximation,
                    "p_value": test.p_value,
                }
                for name, test in tests.items()
            }
        ).T

    def _outputs(self) -> list[str]:
        check_is_fitted(self)
        if not hasattr(self, "coef_"):
            raise DataError("One-shot solvers find directions, and no classes of rows.")
        return super()._outputs()

    def to_sklearn(self) -> Any:
        """Return a fitted object of scikit-learn, for any silo to use without us."""
        import sklearn.discriminant_analysis

        twin = sklearn.discriminant_analysis.LinearDiscriminantAnalysis(
            solver="eigen",
            n_components=self.n_components,
            shrinkage=self.shrinkage,
            priors=self.priors,
        )
        self._taught(twin)
        twin._max_components = twin._n_features_out = self._n_features_out
        return twin


def _class_priors(given: Any, count: Float[Array, " c"]) -> Float[Array, " c"]:
    """Return the prior probabilities: as given, or the classes' shares of rows."""
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


def _direction_count(k: int | None, p: int, c: int) -> int:
    """Return the number of directions: k, or all of them."""
    most = min(c - 1, p)
    if k is not None and k > most:
        raise DataError(
            f"n_components={k} cannot be larger than "
            f"min(n_features, n_classes - 1)={most}."
        )
    return most if k is None else int(k)

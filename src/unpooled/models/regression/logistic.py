"""Logistic regression of rows that stay in their silos, for two or more classes.

    round 1    the names and sizes of the classes:
               `unpooled.models.discriminant.classes`
    rounds 2   N and column sums, then products of the deviations from the means: the
    and 3      scale of each column, and the information where all coefficients are 0
    round 4    the gradient there
    rounds 5,  silos <── scales, coefficients ── silos ── gradient, information and
    6, ...     deviance of their rows, added ───────────────────────────> next step
    last       with cov_type "HC0" or "HC1": the products of each row's score, added

With site_effects the silos evaluate at their own most likely intercepts, and keep them
in a round after the last (`site_effects.py`).

The search has a decision function for each class but the first. `coef_` has those of
scikit-learn: of two classes the one, of more one for each class, which add up to 0.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, final

import numpy as np
from sklearn.utils.validation import check_is_fitted

from unpooled.arrays import Array, Float, Int, Shaped
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.ledger.notebook_tables import pandas_if_installed
from unpooled.linalg.moments import scatter
from unpooled.linalg.settled import product
from unpooled.models import moments
from unpooled.models.discriminant import classes
from unpooled.models.discriminant.classes import (
    OWN_SIZES,
    agreed_classes,
    check_label,
    class_codes,
    class_values,
    of_classes,
)
from unpooled.models.linear_classifier import LinearClassifier, linear_steps
from unpooled.models.metrics.predictions import predicted
from unpooled.models.moments import MEAN, PRODUCTS, complete, pooled_mean
from unpooled.models.parameter_checks import check_choice, is_number
from unpooled.models.regression import newton
from unpooled.models.regression.clusters import (
    RELEASED,
    check_clusters,
    cluster_products,
    products_of,
    score_products,
    split_clusters,
)
from unpooled.models.regression.glm import local_spread, scales, standardisation
from unpooled.models.regression.inference import (
    COVARIANCE_TYPES,
    Inference,
    against_class,
    in_units,
    parameter_names,
    reference_class,
    unstandardised,
)
from unpooled.models.regression.multinomial import (
    CLASS_ARGUMENTS,
    CLASS_EVALUATED,
    CLASS_GRADIENT,
    ClassArguments,
    MultinomialRows,
    information_at_shares,
    information_of,
)
from unpooled.models.regression.regression_results import regression_exhibits
from unpooled.models.regression.site_effects import (
    check_common_intercept,
    check_whole,
    classified_in_silo,
    columns_within,
    decided_in_silo,
    local_class_profile,
    local_class_profile_cluster_products,
    local_class_profile_gradient,
    local_class_profile_products,
    own_class_intercepts,
    probable_in_silo,
)
from unpooled.protocol.opened_numbers import SHARE
from unpooled.protocol.step import Step, release, summed
from unpooled.results.citations import Citation

if TYPE_CHECKING:
    import pandas as pd

# Functions that predict with the silos' own intercepts, in place of the common ones.
_IN_SILO = {
    "decided": decided_in_silo,
    "probable": probable_in_silo,
    "classified": classified_in_silo,
}
# As many times the rounds has a search by gradients.
_MORE = 4
# Gradients of a search that begins near its end; rarely six of them are too few.
_NEAR = 8
_MANY_NUMBERS = (
    "Each fold of a logistic regression of {c} classes opens its information matrix: "
    "{numbers:,} numbers at least. The default budget of a silo (max_released_share = "
    "{share:g}) has room for one such fold for every {rows:,} rows of all silos. Where "
    "there are fewer, merge classes, leave columns out, or judge a "
    "LinearDiscriminantAnalysis, whose folds open far fewer."
)


@summed(
    within_silos=True,
    takes={"mean": MEAN},
    products=release("p p", symmetric=True, meaning=PRODUCTS),
)
def local_products(
    X: Float[Array, "n p"], *, mean: Float[Array, " p"]
) -> dict[str, Any]:
    """Add products of deviations from the means of all rows."""
    return {"products": scatter(complete(X), mean)}


@summed(takes=CLASS_ARGUMENTS, **CLASS_EVALUATED)
def local_working(
    X: Float[Array, "n p"], y: Shaped[Array, " n"], *, at: ClassArguments
) -> dict[str, Any]:
    """Add gradient, information and deviance of this silo's rows."""
    return _rows(X, y, at).sums()


@summed(takes=CLASS_ARGUMENTS, **CLASS_GRADIENT)
def local_gradient(
    X: Float[Array, "n p"], y: Shaped[Array, " n"], *, at: ClassArguments
) -> dict[str, Any]:
    """Add gradient and deviance of this silo's rows, without the information."""
    return _rows(X, y, at).sums(information=False)


@summed(takes=CLASS_ARGUMENTS, products=newton.SCORE_PRODUCTS, own=OWN_SIZES)
def local_score_products(
    X: Float[Array, "n p"], y: Shaped[Array, " n"], *, at: ClassArguments
) -> dict[str, Any]:
    """Add the products of this silo's rows' scores."""
    rows = _rows(X, y, at)
    products = products_of(rows.scores(), rows.Z.shape[1])
    return {"products": products, "own": rows.sizes}


@summed(takes=CLASS_ARGUMENTS, own=OWN_SIZES, **RELEASED)
def local_cluster_products(
    X: Float[Array, "n p"],
    y: Shaped[Array, " n"],
    *,
    at: ClassArguments,
    grouped: bool,
) -> dict[str, Any]:
    """Add the products of the scores of this silo's clusters."""
    columns, clusters = split_clusters(X, grouped=grouped)
    rows, named = _rows(columns, y, at), class_codes(y, at.classes) >= 0
    found = cluster_products(rows.scores(), clusters[named], grouped=grouped)
    return {**found, "own": rows.sizes}


def _rows(
    X: Float[Array, "n p"], y: Shaped[Array, " n"], at: ClassArguments
) -> MultinomialRows:
    """Return the rows of the classes, standardised behind a column of ones."""
    rows, codes = of_classes(complete(X), y, at.classes)
    Z = np.column_stack([np.ones(len(rows)), at.standardised(rows)])
    return MultinomialRows(Z, codes, Z @ at.theta.T)


# What the search and standard errors take, with common intercepts and the silos' own:
# the information and the gradient, the gradient alone, products by row and by cluster.
_BY_ROW = (local_working, local_gradient, local_score_products, local_cluster_products)
_BY_SILO = (
    *(local_class_profile, local_class_profile_gradient),
    *(local_class_profile_products, local_class_profile_cluster_products),
)


@final
@dataclass(frozen=True, eq=False)
class _GradientSearch:
    """The search's rounds: decision functions of standardised columns.

    Attributes
    ----------
    federation : Federation
        The columns that predict.
    names : (c, w) array
        Names of the classes, as their steps take them.
    count : (c,) array
        Sizes of the classes.
    mean, scale : (p,) arrays
        Means and scales of the columns.
    own : bool
        Whether each silo has intercepts of its own, which the search leaves out.
    """

    federation: Federation
    names: Int[Array, "c w"]
    count: Float[Array, " c"]
    mean: Float[Array, " p"]
    scale: Float[Array, " p"]
    own: bool

    @property
    def k(self) -> int:
        """The number of decision functions, one for each class but the first."""
        return len(self.names) - 1

    @property
    def n_parameters(self) -> int:
        """How many parameters a fit has, with the silos' own intercepts."""
        n_intercepts = len(self.federation.parties) if self.own else 1
        return self.k * (len(self.mean) + n_intercepts)

    def start(self) -> Float[Array, " m"]:
        """Return the parameters to begin with: the classes' shares."""
        start = np.zeros((self.k, len(self.mean) + (not self.own)))
        if not self.own:
            start[:, 0] = np.log(self.count[1:] / self.count[0])
        return start.ravel()

    def start_at(self, functions: Float[Array, "q l"]) -> Float[Array, " m"]:
        """Return the parameters of one decision function, or of one for each class."""
        if len(functions) > self.k:
            functions = functions[1:] - functions[0]
        return functions.ravel()

    def parameter_names(self) -> list[str]:
        """Return names of the parameters, for errors."""
        columns = self.federation.feature_names
        columns = columns_within(columns) if self.own else ["intercept", *columns]
        return [
            name if self.k == 1 else f"{name} ({value})"
            for value in class_values(self.names)[1:].tolist()
            for name in columns
        ]

    def of_functions(self, theta: Float[Array, " m"]) -> Float[Array, "k l"]:
        """Return parameters, a row for each decision function."""
        return theta.reshape(self.k, -1)

    def at(self, theta: Float[Array, " m"]) -> dict[str, Any]:
        """Return parameters as steps take them: `ClassArguments`."""
        return {
            "mean": self.mean,
            "scale": self.scale,
            "classes": self.names,
            "count": self.count,
            "width": len(theta),
            "n_pairs": self.k * (self.k + 1) // 2,
            "theta": self.of_functions(theta).copy(),
        }

    def evaluated(self, step: Step, theta: Float[Array, " m"]) -> newton.LogLikelihood:
        """Return the log-likelihood at some parameters, in one round."""
        totals = self.federation.sum(step, **self.at(theta))
        information, deviance = totals.get("information"), float(totals["deviance"])
        if information is not None and self.federation.coordinator.planned:
            # A plan's blocks are all the same, of which no inverse can be made.
            information = np.eye(len(theta))
        elif information is not None and not self.own:
            information = information_of(information, self.k)
        return newton.LogLikelihood(deviance, totals["gradient"], information)

    def begun(
        self, step: Step, products: Float[Array, "p p"], theta: Float[Array, " m"]
    ) -> newton.LogLikelihood:
        """Return the log-likelihood at the start, where the information is known.

        Parameters
        ----------
        step : Step
            Step of the gradient.
        products : (p, p) array
            Products of the columns' deviations from their means, added over all rows.
        """
        found, N = self.evaluated(step, theta), self.count.sum()
        Z = np.zeros((len(products) + 1, len(products) + 1))
        Z[0, 0], Z[1:, 1:] = N, products / self.scale / self.scale[:, None]
        return replace(found, information=information_at_shares(self.count[1:] / N, Z))


@final
@dataclass(eq=False, repr=False)
class LogisticRegression(newton.Searched, Inference, LinearClassifier):
    """Logistic regression over a federation, of two or more classes: the pooled answer.

    Parameters
    ----------
    C : float, default inf
        Inverse weight of the penalty, as in scikit-learn: ``½ Σ coef² + C`` times the
        negative log-likelihood is smallest. Unpenalised by default, so that there are
        standard errors. Standardise columns of different units before a penalty.
    cov_type : {"nonrobust", "HC0", "HC1", "cluster"}, default "nonrobust"
        How standard errors are estimated: from the information, or robustly, from the
        products of each row's score; "HC1" with N / (N - k). "cluster": robust against
        rows of a cluster that resemble each other.
    clusters : str, optional
        With "cluster": name of a column that numbers the clusters inside each silo,
        such as wards or persons; it is no predictor. None: each silo is a cluster.
    site_effects : bool, default False
        Whether each silo has intercepts of its own, which it keeps. The coefficients
        are then those of a fit of the pooled rows with an indicator column for each
        silo. Every silo has rows of every class.
    solver : {"auto", "newton", "bfgs"}, default "auto"
        "newton" opens the information matrix in every round but the first. "bfgs" opens
        it twice, near the end and at the end (with a penalty once), and gradients
        alone in the other rounds: half as many rounds more, and half of the numbers or
        fewer, for silos that limit them (`max_released_share`). "auto": "newton" with
        two classes, and "bfgs" with more, whose matrices are large. All find the same.
    classes : sequence, optional
        Names of the classes. When omitted, the silos send them, with the sizes, as a
        total over all; when given, a plan knows how many there are.
    reference : object, optional
        The class that results compare the others with, in odds ratios and their tables;
        the first when omitted, in the order of the alphabet. `coef_` and predictions do
        not depend on it.
    tol : float, default 1e-8
        The fit ends with a step that is shorter than this many standard errors.
    max_iter : int, default 15
        Largest number of rounds of the search; with "bfgs" four times as many.

    Attributes
    ----------
    classes_ : (c,) array
        Names of the classes, sorted.
    class_count_ : (c,) int array
        Number of rows of each class.
    coef_ : (c, p) array
        Coefficients of the decision functions, which add up to 0 over the classes; with
        two classes (1, p), the logarithms of odds ratios of the second.
    intercept_ : (c,) array
        Only without `site_effects`: their constants; (1,) with two classes.
    coef_se_, intercept_se_ : (c, p) and (c,) arrays
        Only without a penalty: standard errors, in the shapes of the above.
    n_intercepts_ : int
        Only with `site_effects`: m, the number of silos.
    statistics_, p_values_, intercept_p_value_ : (c, p), (c, p) and (c,) arrays
        Only without a penalty: ``coef_ / coef_se_``, and two-sided p-values by the
        normal distribution; of two classes, as above, one row.
    covariance_ : (q (p + 1), q (p + 1)) array
        Only without a penalty: covariance matrix of the q decision functions'
        parameters, of each the intercept and then the coefficients; with
        `site_effects` (q p, q p), of the coefficients.
    dof_ : float
        Only without a penalty: degrees of freedom of the reference distribution, inf.
    n_clusters_ : int
        Only with "cluster": G, the number of clusters.
    deviance_, null_deviance_ : float
        -2 times the log-likelihood, of the fit and of the classes' shares alone (with
        `site_effects` their shares in each silo).
    log_likelihood_ : float
        At the fit.
    aic_, bic_ : float
        Only without a penalty: ``2 k - 2 log_likelihood_`` and ``k log N - 2
        log_likelihood_``, k = (c - 1)(p + 1), with `site_effects` (c - 1)(p + m).
    kept_ : str
        Only with `site_effects`: study and view under which the silos keep their
        intercepts.
    n_iter_ : int
        Number of rounds of the search.
    n_samples_ : int
        N, the number of rows of all silos.
    n_features_in_ : int
        p, the number of columns.
    feature_names_in_ : (p,) array of str
        Names of the columns, where the silos' tables have names.

    Raises
    ------
    DataError
        Missing values or labels, a single class, collinear columns, or classes that are
        separated by the columns (without a penalty).
    ConvergenceError
        When `max_iter` rounds were not enough.

    Notes
    -----
    Released, as totals only: names and sizes of the classes; N and the column sums; the
    products of the columns' deviations from the means; in each round of the search the
    gradient, k = (c - 1)(p + 1) numbers, and the deviance; in each but the first (with
    "bfgs" in two alone) the information matrix, (p + 1)(p + 2) / 2 numbers for every
    two decision functions; with "HC0" or "HC1" the products of the rows' scores, k (k +
    1) / 2 numbers, with "cluster" those of the clusters' scores and the number of
    clusters. With `site_effects` the sums of squares about the means, in place of the
    products; gradients and information matrices, in the first round too, of the m =
    (c - 1) p coefficients, m (m + 1) / 2 numbers each. Never released: a row, a
    probability, which silo has which class, any silo's own sums, or its own intercepts.
    Several fits with `site_effects` may together give a silo's own sums: see "What
    remains" in the documentation of disclosure.

    With `site_effects` a view of predictions has each silo's own intercepts in it, on
    all rows of the silos of the fit; folds and splits of them are refused, and an array
    of rows, which have no silo, cannot be predicted. A silo without rows of some class
    has no finite intercept and refuses (`own_intercept`), which says that it lacks one.
    A later fit of the same model on the same view replaces the intercepts, and the
    earlier one no longer predicts.

    See Also
    --------
    sklearn.linear_model.LogisticRegression, statsmodels.api.MNLogit : twins on pooled
        rows.

    References
    ----------
    Agresti, Categorical data analysis, 3rd edition, Wiley, 2013, chapters 5 and 8.
    """

    coef_: Float[Array, "q p"] = field(init=False)
    intercept_: Float[Array, " q"] = field(init=False)

    _computed = ("log_likelihood_", "aic_", "bic_")
    _estimates: ClassVar[Mapping[str, int | None]] = {"coef_": None, "intercept_": None}
    _steps = (
        *(classes.local_names, classes.local_class_counts, moments.local_total),
        *(local_spread, local_products, *linear_steps, *_IN_SILO.values()),
        *_BY_SILO,
        own_class_intercepts,
    )
    _exhibits = regression_exhibits

    C: float = np.inf
    _: KW_ONLY
    cov_type: str = "nonrobust"
    clusters: str | None = None
    site_effects: bool = False
    solver: str = "auto"
    classes: Sequence[Any] | None = None
    reference: Any = None
    tol: float = 1e-8
    max_iter: int = 15

    def _needs_variation(self) -> bool:
        return self.C == np.inf

    def _needs_variation_within(self) -> bool:
        return self.site_effects

    def _n_planned(self) -> int:
        return 2 if self.classes is None else len(self.classes)

    def _citation(self) -> Citation:
        several = len(vars(self).get("classes_", ())) > 2
        kind = "multinomial logistic" if several else "logistic"
        how = "by maximum likelihood"
        if self.C != np.inf:
            how = f"with an L2 penalty (C = {self.C:g})"
        own = " with intercepts for each silo" * self.site_effects
        return Citation(
            f"A {kind} regression{own} was fitted {how}.",
            ("Agresti A. Categorical Data Analysis. 3rd edition. Wiley, 2013.",),
        )

    def _fit(self, federation: Federation, y: Any) -> None:
        self._check_parameters()
        check_label(federation, y)
        if self.site_effects:
            check_whole(federation)
        clusters = check_clusters(federation, self.cov_type, self.clusters)
        whole, federation = federation, self._inputs(federation, y)
        # Round 1: the names of the classes, unless they are given, and their sizes.
        names, count = agreed_classes(
            federation, classes.local_names, self.classes, self._n_planned()
        )
        if self.reference is not None and not federation.coordinator.planned:
            known = class_values(names).tolist()
            check_choice("reference", self.reference, known)
        # Rounds 2 and 3: means and scales of the columns. Within the silos, and from a
        # fit of most of the rows, the information at the start is not known by them.
        own, products = bool(self.site_effects), None
        if own or self._is_near:
            N, mean, scale = standardisation(federation)
        else:
            N, mean = pooled_mean(federation)
            products = federation.sum(local_products, mean=mean)["products"]
            scale = scales(products.diagonal(), mean, N)
        search = _GradientSearch(federation, names, count, mean, scale, own)
        n_parameters = search.n_parameters
        if self.C == np.inf and N <= n_parameters:
            raise DataError(
                f"{n_parameters} parameters take more rows than all silos have. Leave "
                f"columns out, or set a penalty (C)."
            )
        # Rounds 4, 5, ...: Newton's steps, from the classes' shares, or from a fit of
        # most of the rows.
        working, gradient, *steps = _BY_SILO if own else _BY_ROW
        near = self._start_near(mean, scale)
        folded = federation.coordinator.planned and near is not None
        if folded and search.k > 1 and not own:
            self._note_numbers(federation, search)
        by_gradients = self.solver == "bfgs" or (self.solver == "auto" and search.k > 1)
        found = newton.maximised(
            federation,
            partial(search.evaluated, working),
            search.start() if near is None else search.start_at(near),
            penalty=self._penalty(scale, search.k, own=own),
            tol=self.tol,
            max_iter=self.max_iter * (_MORE if by_gradients else 1),
            names=search.parameter_names(),
            of_classes=True,
            evaluate_gradient=(
                None
                if near is None and not by_gradients
                else partial(search.evaluated, gradient)
            ),
            evaluate_start=(
                None if products is None else partial(search.begun, gradient, products)
            ),
            n_gradients=np.inf if by_gradients else _NEAR,
            is_near=near is not None,
        )
        self.classes_ = class_values(names)
        self.class_count_ = count.astype(np.int64)
        self.n_iter_, self.n_samples_ = found.n_iter, N
        # To the columns' units, and to one function for each class.
        theta = product(_contrasts(search.k), search.of_functions(found.parameters))
        if own:
            self.coef_ = theta / scale
            federation.keep(
                own_class_intercepts, coef=self.coef_.copy(), classes=names, count=count
            )
            self.kept_ = federation.kept_here
            self.n_intercepts_ = len(federation.parties)
        else:
            self.intercept_, self.coef_ = in_units(theta, mean, scale)
        self.deviance_ = found.last.deviance
        self.null_deviance_ = found.first.deviance
        if near is not None:
            self.null_deviance_ = -2.0 * float(np.add.reduce(count * np.log(count / N)))
        self.log_likelihood_ = -0.5 * self.deviance_
        if self.C != np.inf:
            return
        self._set_criteria(self.log_likelihood_, n_parameters, N)
        # The last round: products of the rows' scores, where they are asked for.
        products = score_products(
            self,
            whole,
            federation,
            clusters,
            (steps[0], steps[1]),
            search.at(found.parameters),
        )
        self._set_inference(
            found.information,
            products,
            np.kron(_contrasts(search.k), unstandardised(mean, scale)[own:, own:]),
            dispersion=1.0,
            N=N,
            n_parameters=n_parameters,
            dof=np.inf,
        )

    def _note_numbers(self, federation: Federation, search: "_GradientSearch") -> None:
        """Note for a plan that folds of several classes take many rows."""
        p, k, times = len(search.mean), search.k, 1 if self.C < np.inf else 2
        # At the start of each fold, and without a penalty at its end.
        numbers = times * (k * (k + 1) // 2) * (p + 1) * (p + 2) // 2
        note = _MANY_NUMBERS.format(
            c=k + 1, numbers=numbers, share=SHARE, rows=math.ceil(numbers / p / SHARE)
        )
        if note not in federation.coordinator.notes:
            federation.coordinator.notes.append(note)

    def _inputs(self, federation: Federation, y: Any) -> Federation:
        names = federation.feature_names
        if self.clusters is None:
            return federation
        return federation.select([name for name in names if name != self.clusters])

    def _check_parameters(self) -> None:
        check_choice("cov_type", self.cov_type, COVARIANCE_TYPES)
        check_choice("solver", self.solver, ("auto", "newton", "bfgs"))
        if not is_number(self.C) or not self.C > 0.0:
            raise DataError(f"C={self.C!r} must be a number above 0, or infinite.")
        if self.C != np.inf and self.cov_type != "nonrobust":
            raise DataError(
                f'cov_type="{self.cov_type}" is about standard errors, which a '
                f"penalised fit does not have."
            )

    def _penalty(
        self, scale: Float[Array, " p"], k: int, *, own: bool
    ) -> Float[Array, "m m"] | None:
        """Return the penalty's matrix, for parameters of standardised columns."""
        if self.C == np.inf:
            return None
        # The penalty is on the coefficients of the columns in their own units;
        # intercepts have none. The coefficients of all classes add up to 0: see
        # `_contrasts`.
        weights = 1.0 / (self.C * scale**2)
        if not own:
            weights = np.concatenate([[0.0], weights])
        M = _contrasts(k)
        return np.kron(np.add.reduce(M[:, :, None] * M[:, None]), np.diag(weights))

    def _scores(self, X: Any) -> Float[Array, "n k"]:
        check_common_intercept(self)
        return super()._scores(X)

    def _predicted(
        self, method: str, X: Federation, step: Step, names: list[str]
    ) -> Federation:
        if "kept_" not in vars(self):
            return super()._predicted(method, X, step, names)
        view = self._check_view(X)
        check_whole(view)
        arguments = {"coef": self.coef_}
        step = _IN_SILO[step.function.__name__]
        return predicted(self, method, view, step, names, arguments, kept_of=self.kept_)

    def contrasts(
        self, reference: Any = None, alpha: float | int = 0.05
    ) -> "pd.DataFrame":
        """Return coefficients of the other classes against one.

        The multinomial logit of other programs: what follows from `coef_` and
        `covariance_` for differences of two classes' functions, whose exponentials are
        odds ratios.

        Parameters
        ----------
        reference : object, optional
            The name of a class; the model's `reference`, or the first, when omitted.
        alpha : float, default 0.05
            One less the level of the intervals.

        Returns
        -------
        DataFrame
            By class and column: "coefficient", "standard_error", "z", "p", "low",
            "high" and "odds_ratio".

        Raises
        ------
        DataError
            When the fit has no standard errors, because of a penalty, or no class of
            this name.
        """
        pd = pandas_if_installed()
        check_is_fitted(self)
        # Which also refuses a penalised fit, and another alpha.
        self.conf_int(alpha)
        names = self.classes_.tolist()
        if reference is None:
            place = reference_class(self)
        else:
            check_choice("reference", reference, names)
            place = names.index(reference)
        table = against_class(self, place, alpha)
        table["odds_ratio"] = np.exp(table["coefficient"])
        others = [str(name) for k, name in enumerate(names) if k != place]
        index = pd.MultiIndex.from_product(
            [others, parameter_names(self)], names=["class", "column"]
        )
        return pd.DataFrame(table, index=index)

    def to_sklearn(self) -> Any:
        """Return a fitted `sklearn.linear_model.LogisticRegression`."""
        import sklearn.linear_model

        check_is_fitted(self)
        check_common_intercept(self)
        return self._taught(sklearn.linear_model.LogisticRegression(C=self.C))


def _contrasts(k: int) -> Float[Array, "c k"]:
    """Return the matrix that maps the functions of all classes but one to all.

    With two classes the one is kept; with more, the mean over the classes is
    subtracted.
    """
    if k == 1:
        return np.ones((1, 1))
    return np.vstack([np.zeros(k), np.eye(k)]) - 1.0 / (k + 1)

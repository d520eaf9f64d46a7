"""An own intercept for each silo, which no end but the silo learns.

    linear        each silo centres predictors and response at its own means; the
                  cross-products within silos are added
    others        silos <── coefficients b ── each silo finds the intercept a(b) that is
                  most likely for its own rows, by itself
                  silos ── gradient and information of b, and the deviance at a(b) ──>
    last          silos <── b ── each silo keeps its own intercept

The likelihood of b with every silo's most likely intercept is the profile likelihood.
Its gradient is the score of b at a(b), and its information the Schur complement

    I_bb - I_ba I_aa⁻¹ I_ab

of each silo's information, added. So coefficients, standard errors and likelihood are
those of a fit of the pooled rows with a column of indicators for each silo, and nothing
about a single silo's intercept is opened.

References
----------
Pawitan, In all likelihood, Oxford University Press, 2001, section 3.4. Wooldridge,
Econometric analysis of cross section and panel data, 2nd edition, MIT Press, 2010,
section 10.5, for the linear model.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy

from unpooled.arrays import Array, Float, Int, Shaped
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.linalg.moments import scatter
from unpooled.models.base import check_all_rows
from unpooled.models.discriminant.classes import (
    NAMES,
    OPENED_SIZES,
    OWN_SIZES,
    class_codes,
    class_sizes,
    of_classes,
)
from unpooled.models.linear_classifier import best_classes, probabilities
from unpooled.models.moments import MEAN, PRODUCTS, SQUARES, complete
from unpooled.models.regression import newton
from unpooled.models.regression.clusters import (
    RELEASED,
    cluster_products,
    products_of,
    split_clusters,
)
from unpooled.models.regression.families import (
    ARGUMENTS,
    EVALUATED,
    FAMILIES,
    STARTED,
    Arguments,
    WorkingRows,
    no_intercept,
)
from unpooled.models.regression.inference import has_intercept
from unpooled.models.regression.multinomial import (
    CLASS_ARGUMENTS,
    CLASS_GRADIENT,
    CLASS_PROFILED,
    ClassArguments,
    MultinomialRows,
    log_probabilities,
)
from unpooled.protocol.step import derived, kept, public, release, stays, summed

_COEF = public("q r", "the coefficients of the columns")
_OWN: dict[str, Any] = {
    "intercept": stays("q", meaning="the silo's own intercepts"),
    "coef": stays("q r", meaning="the coefficients that they belong to"),
}
_TAKES = {
    **CLASS_ARGUMENTS,
    "theta": public("k l", "coefficients of all classes but the first"),
}


# --- Linear models ------------------------------------------------------------------


@summed(
    within_silos=True,
    by="party",
    takes={"mean": MEAN},
    squares=release("p", meaning=f"within-silo {SQUARES}"),
    response=release(
        "",
        meaning="sum of squares of the response (squared deviations from its mean over "
        "all silos)",
    ),
    scatter=stays(
        "p p", symmetric=True, until="fit", meaning=f"within-silo {PRODUCTS}"
    ),
)
def local_within_squares(
    X: Float[Array, "n p"], *, mean: Float[Array, " p"]
) -> dict[str, Any]:
    """Keep this silo's scatter about its own means; release its diagonal."""
    # About the means of all rows first: a silo's own mean then rounds little.
    rows = _some(X) - mean
    S = scatter(_centred(rows), np.zeros(X.shape[1]))
    return {
        "squares": S.diagonal().copy(),
        "response": np.array((rows[:, -1] ** 2).sum()),
        "scatter": S,
    }


# --- Generalised linear models ------------------------------------------------------


@summed(by="party", takes=ARGUMENTS, **EVALUATED)
def local_profile(X: Float[Array, "n p"], *, at: Arguments) -> dict[str, Any]:
    """Add gradient, information and deviance at this silo's most likely intercept."""
    return _profiled(X, at).sums()


@summed(by="party", takes=ARGUMENTS, **STARTED)
def local_profile_start(X: Float[Array, "n p"], *, at: Arguments) -> dict[str, Any]:
    """Add what the first step of a search is found from, and the deviance."""
    return _profiled(X, at, start=True).sums()


@summed(by="party", takes=ARGUMENTS, products=newton.SCORE_PRODUCTS)
def local_profile_products(X: Float[Array, "n p"], *, at: Arguments) -> dict[str, Any]:
    """Add the products of this silo's rows' scores, less what its intercept takes."""
    return {"products": products_of(_profiled(X, at).scores())}


@summed(takes=ARGUMENTS, **RELEASED)
def local_profile_cluster_products(
    X: Float[Array, "n p"], *, at: Arguments, grouped: bool
) -> dict[str, Any]:
    """Add the products of the scores of this silo's clusters, likewise."""
    rows, clusters = split_clusters(X, grouped=grouped)
    scores = _profiled(rows, at).scores()
    return cluster_products(scores, clusters, grouped=grouped)


@kept(by="party", takes={"coef": _COEF}, **_OWN)
def own_intercept(
    X: Float[Array, "n p"], *, coef: Float[Array, "q r"], family: str, offset: bool
) -> dict[str, Any]:
    """Keep this silo's own intercept, for the columns as they are."""
    rows, k = _some(X), coef.shape[1]
    middle = rows[:, :k].mean(axis=0)
    eta = (rows[:, :k] - middle) @ coef[0]
    if offset:
        eta = eta + rows[:, k]
    own = FAMILIES[family].intercept(rows[:, -1], eta) - middle @ coef[0]
    return {"intercept": np.array([own]), "coef": coef.copy()}


@derived(takes={"coef": _COEF}, own_rows=True)
def predicted_in_silo(
    X: Float[Array, "n p"],
    kept: Any,
    *,
    coef: Float[Array, "q r"],
    family: str,
    offset: bool,
) -> Float[Array, "n m"]:
    """Return means by the silo's own intercept, then the response."""
    p = coef.shape[1]
    eta = X[:, :p] @ coef[0] + _kept_with(kept, coef)[0]
    if offset:
        eta = eta + X[:, p]
    return np.column_stack([FAMILIES[family].mean(eta), X[:, p + offset :]])


def _profiled(
    X: Float[Array, "n q"], at: Arguments, *, start: bool = False
) -> WorkingRows:
    """Return rows with predictors about their weighted means.

    With the rows' weights in the information, products of the predictors about these
    means are the Schur complement.
    """
    rows, family = _some(X), FAMILIES[at.family]
    y = family.checked(rows[:, -1])
    Z = _centred(at.standardised(rows))
    eta = at.predictor(Z, rows)
    mu = family.mean(eta + family.intercept(y, eta))
    about = family.between(y, mu) if start else mu
    weights = family.weights(mu)
    # A step that is far too long may leave no row any information.
    middle = weights @ Z / max(weights.sum(), np.finfo(float).tiny)
    return WorkingRows(family, Z - middle, y, mu, about, own=True)


# --- Logistic regression ------------------------------------------------------------


@summed(by="party", takes=_TAKES, **CLASS_PROFILED)
def local_class_profile(
    X: Float[Array, "n p"], y: Shaped[Array, " n"], *, at: ClassArguments
) -> dict[str, Any]:
    """Add gradient, information and deviance at this silo's most likely intercepts."""
    return _class_profile(X, y, at).sums()


@summed(by="party", takes=_TAKES, **CLASS_GRADIENT)
def local_class_profile_gradient(
    X: Float[Array, "n p"], y: Shaped[Array, " n"], *, at: ClassArguments
) -> dict[str, Any]:
    """Add gradient and deviance likewise, without the information."""
    return _class_profile(X, y, at).sums(information=False)


@summed(by="party", takes=_TAKES, products=newton.SCORE_PRODUCTS, own=OWN_SIZES)
def local_class_profile_products(
    X: Float[Array, "n p"], y: Shaped[Array, " n"], *, at: ClassArguments
) -> dict[str, Any]:
    """Add the products of this silo's rows' scores, less what its intercepts take."""
    rows = _class_profile(X, y, at)
    return {"products": products_of(rows.scores()), "own": rows.sizes}


@summed(takes=_TAKES, own=OWN_SIZES, **RELEASED)
def local_class_profile_cluster_products(
    X: Float[Array, "n p"],
    y: Shaped[Array, " n"],
    *,
    at: ClassArguments,
    grouped: bool,
) -> dict[str, Any]:
    """Add the products of the scores of this silo's clusters, likewise."""
    columns, clusters = split_clusters(X, grouped=grouped)
    rows, named = _class_profile(columns, y, at), class_codes(y, at.classes) >= 0
    found = cluster_products(rows.scores(), clusters[named], grouped=grouped)
    return {**found, "own": rows.sizes}


@kept(
    by="party",
    takes={"coef": _COEF, "classes": NAMES, "count": OPENED_SIZES},
    own=OWN_SIZES,
    **_OWN,
)
def own_class_intercepts(
    X: Float[Array, "n p"],
    y: Shaped[Array, " n"],
    *,
    coef: Float[Array, "q r"],
    classes: Int[Array, "c w"],
    count: Float[Array, " c"],
) -> dict[str, Any]:
    """Keep this silo's own intercepts, for the columns as they are."""
    rows, codes = _of_classes(X, y, classes)
    middle = rows.mean(axis=0)
    eta = (rows - middle) @ coef.T
    if len(coef) == 1:
        own = _intercepts(codes, eta)
    else:
        # As for the coefficients: of all classes, with the mean subtracted.
        own = np.concatenate([[0.0], _intercepts(codes, eta[:, 1:] - eta[:, :1])])
        own -= own.mean()
    return {
        "intercept": own - coef @ middle,
        "coef": coef.copy(),
        "own": class_sizes(codes, classes),
    }


@derived(within_silos=True, takes={"coef": _COEF}, own_rows=True)
def decided_in_silo(
    X: Float[Array, "n p"], kept: Any, *, coef: Float[Array, "q r"]
) -> Float[Array, "n q"]:
    """Return the decision functions of rows, with the silo's own intercepts."""
    return X @ coef.T + _kept_with(kept, coef)


@derived(takes={"coef": _COEF}, own_rows=True)
def probable_in_silo(
    X: Float[Array, "n p"], kept: Any, *, coef: Float[Array, "q r"]
) -> Float[Array, "n c"]:
    """Return the probability of each class, with the silo's own intercepts."""
    return probabilities(X @ coef.T + _kept_with(kept, coef))


@derived(takes={"coef": _COEF}, own_rows=True)
def classified_in_silo(
    X: Float[Array, "n p"], kept: Any, *, coef: Float[Array, "q r"]
) -> Float[Array, "n 1"]:
    """Return each row's most probable class, with the silo's own intercepts."""
    return best_classes(X @ coef.T + _kept_with(kept, coef))


def _class_profile(
    X: Float[Array, "n p"], y: Shaped[Array, " n"], at: ClassArguments
) -> MultinomialRows:
    """Return the rows of the classes at the silo's most likely intercepts."""
    rows, codes = _of_classes(X, y, at.classes)
    Z = _centred(at.standardised(rows))
    eta = Z @ at.theta.T
    return MultinomialRows(Z, codes, eta + _intercepts(codes, eta), own=True)


def _of_classes(
    X: Float[Array, "n p"], y: Shaped[Array, " n"], classes: Int[Array, "c w"]
) -> tuple[Float[Array, "m p"], Int[Array, " m"]]:
    """Return the rows of the classes; refuse where one of them has none."""
    rows, codes = of_classes(complete(X), y, classes)
    if not class_sizes(codes, classes).all():
        raise no_intercept()
    return rows, codes


def _intercepts(
    codes: Int[Array, " n"], eta: Float[Array, "n k"]
) -> Float[Array, " k"]:
    """Return the most likely intercepts of all classes but the first."""
    if eta.shape[1] == 1:
        own = FAMILIES["binomial"].intercept(codes.astype(float), eta[:, 0])
        return np.array([own])
    indicators = codes[:, None] == np.arange(1, eta.shape[1] + 1)
    n = len(codes)

    def loss(a: Float[Array, " k"]) -> float:
        return -float(log_probabilities(eta + a)[np.arange(n), codes].sum()) / n

    def gradient(a: Float[Array, " k"]) -> Float[Array, " k"]:
        return (np.exp(log_probabilities(eta + a)[:, 1:]) - indicators).sum(axis=0) / n

    def curvature(a: Float[Array, " k"]) -> Float[Array, "k k"]:
        P = np.exp(log_probabilities(eta + a)[:, 1:])
        return (np.diag(P.sum(axis=0)) - P.T @ P) / n

    shares = np.bincount(codes, minlength=eta.shape[1] + 1)
    start = np.log(shares[1:] / shares[0]) - eta.mean(axis=0)
    options: Any = {"gtol": 1e-10}
    found = scipy.optimize.minimize(
        loss, start, jac=gradient, hess=curvature, method="trust-exact", options=options
    ).x
    # The search ends where the loss no longer differs in rounding; the gradient does.
    for _ in range(2):
        found = found - scipy.linalg.lstsq(curvature(found), gradient(found))[0]
    return found


# --- For all ------------------------------------------------------------------------


def _some(X: Float[Array, "n p"]) -> Float[Array, "n p"]:
    """Return the rows; refuse where the view has none, which have no intercept."""
    if not len(X):
        raise DataError("This silo has no rows in the view.", rule="min_rows")
    return complete(X)


def _centred(X: Float[Array, "n p"]) -> Float[Array, "n p"]:
    """Return rows about their own means; a constant column becomes exactly 0."""
    centred = X - X.mean(axis=0)
    centred[:, np.ptp(X, axis=0) == 0.0] = 0.0
    return centred


def _kept_with(kept: Any, coef: Float[Array, "q r"]) -> Float[Array, " q"]:
    """Return the silo's own intercepts, if they belong to these coefficients."""
    # A later fit on the same view replaces what the silo kept for an earlier one.
    if not np.array_equal(kept["coef"], coef):
        raise DataError("The silo keeps another fit's intercept.", rule="later_fit")
    return kept["intercept"]


def check_whole(federation: Federation) -> None:
    """Refuse fits of folds and splits, and predictions, which give the intercepts.

    Parameters
    ----------
    federation : Federation
        The view whose rows are fitted, or predicted.

    Raises
    ------
    DataError
        For a fold or a part of a split.
    """
    check_all_rows(
        federation,
        "With site_effects a model is of all rows of a silo: sums over folds or splits "
        "would determine the silos' own intercepts. Judge it on other rows of the same "
        "silos, or leave site_effects out of what is cross-validated.",
    )


def check_common_intercept(model: Any) -> None:
    """Refuse rows in one place, which have no silo, where silos have own intercepts."""
    if not has_intercept(model):
        raise DataError(
            f"This {type(model).__name__} has an own intercept for each silo, which "
            f"stays there, so that an array of rows cannot be predicted here. Pass a "
            f"federation of the same silos, or fit without site_effects."
        )


def columns_within(names: Sequence[str]) -> list[str]:
    """Return how errors name columns of which only differences within silos count."""
    return [f"{name} within silos" for name in names]

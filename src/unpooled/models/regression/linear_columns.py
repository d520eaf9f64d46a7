"""Linear regression between parties with other columns of the same people.

    each keeps   its predictors Z_i about their means, and an orthonormal basis O_i of
                 their span, mixed by a matrix R_i that only it knows
    round 1      silos ── O_i R_i ──> Y = Σ O_i R_i, opened by the silos alone: its
                 columns span those of all predictors
    each finds   Q, the orthonormal factor of Y's polar decomposition
    round 2      silos ── G_i = Qᵀ Z_i Z_iᵀ Q, c_i = Qᵀ Z_i m_i, and the one that has
                 the response Qᵀ y, yᵀ y and its mean ──> Σ, opened by the silos alone
    each solves  (G + alpha I) a = Qᵀ y, and keeps its coefficients  Z_iᵀ Q a
    round 3      silos ── their shares of R², residual, intercept ──> Σ
    "HC0", "HC1" round 4   the one that has the response: M = Qᵀ diag(e²) Q and Qᵀ e² of
                           its residuals e ──> Σ, opened by the silos alone
                 round 5   silos ── their shares of the intercept's variance and of
                           Wald's statistic ──> Σ
    a score      silos ── their parts of the predictions ──> Σ, opened by the silos
                 alone; the one that has the response adds squares about it, in a total
                 for the silos; silos ── their shares of the score ──> Σ

Since the columns of Q span all predictors, Z Zᵀ = Q G Qᵀ, and the coefficients of the
joined predictors are

    (ZᵀZ + alpha I)⁻¹ Zᵀ y  =  Zᵀ (Z Zᵀ + alpha I)⁻¹ y  =  Zᵀ Q (G + alpha I)⁻¹ Qᵀ y

with the covariance matrix  σ² (ZᵀZ)⁻¹ = σ² Zᵀ Q G⁻² Qᵀ Z  without a penalty, of which
each silo computes the part of its own columns. The one that is robust against unequal
variances is  Zᵀ Q G⁻² M G⁻² Qᵀ Z, with G⁻² for (G G)⁻¹ in both.

The silos know Q, so that M gives one equation for each pair of predictors, in as many
unknown squares as there are people. Where the pairs are more than a third as many as
the people, no robust errors are computed.

What a silo learns: the span of all predictors, that is the other silos' predictors up
to a linear map that it does not know, and the fitted values. The matrix R_i is drawn
from a seed that is a digest of the silo's own rows. The coordinator learns what round 3
opens.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import scipy.linalg

from unpooled.arrays import Array, Bool, Float
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.linalg.secret_draws import secret_draws
from unpooled.models.base import disclosed_columns
from unpooled.models.moments import complete
from unpooled.models.regression.response import RegressionRoles, check_enough_rows
from unpooled.protocol.bounds import Ceiling
from unpooled.protocol.step import disclosed, kept, public, release, stays, summed

SCORES = ("coordinator", "parties", None)
# Mixtures beyond the number of predictors: with as many as predictors, one mixture may
# by chance be nearly a combination of the others; with so many more none is.
_MORE = 10
# An eigenvalue below this share of the largest is rounding.
_ROUNDING = 64 * float(np.finfo(float).eps)
# Below this share the predictors are taken for collinear, as on a row partition.
_SINGULAR = 1e-13
_GRAM = public("l l", "products of the predictors, which only silos can open")
_CENTRE = public("l", "the predictors' means, which only silos can open")
_RESPONSE = public("l", "products of the response, which only silos can open")
_SQUARES = public("", "the response's squares, which only silos can open")
_PREDICTIONS = public("N", "predictions, which only the silos can open")
_TOTAL_SUM = release(
    "",
    meaning="total sum of squares of the response (its squared deviations from its "
    "mean, added)",
)
_RESIDUAL_SUM = release(
    "",
    meaning="residual sum of squares (squared differences between response and "
    "prediction, added)",
)


@kept(
    by="party",
    takes={"width": "size l"},
    rows=stays("N p", until="fit", meaning="the silo's rows about their means"),
    mean=stays("p", meaning="the mean of each of the silo's columns"),
    spread=stays("p", meaning="the number that each column is divided by"),
    mixed=stays("N l", until="fit", meaning="mixtures of the silo's predictors"),
)
def own_mixtures(
    X: Float[Array, "N p"],
    columns: Sequence[str],
    *,
    target: str,
    width: int,
    scaled: bool,
) -> dict[str, Any]:
    """Centre the silo's columns, and mix its predictors; nothing leaves."""
    mean = complete(X).mean(axis=0)
    rows, predicts = X - mean, _predicts(columns, target)
    spread = np.linalg.norm(rows, axis=0)
    spread[spread == 0.0] = 1.0
    # In units of their lengths: those of other units would be lost.
    basis = np.linalg.qr((rows / spread)[:, predicts])[0]
    R = secret_draws(X).standard_normal((basis.shape[1], width))
    spread[~predicts] = 1.0
    if not scaled:
        spread[:] = 1.0
    return {
        "rows": rows / spread,
        "mean": mean,
        "spread": spread,
        "mixed": basis @ R / max(np.linalg.norm(R), 1.0),
    }


@summed(
    by="party",
    takes={"width": "size l"},
    image=release(
        "N l",
        bound=Ceiling("ceiling"),
        meaning="each person's coordinates in a space that all predictors span, added "
        "over silos and opened by them alone",
    ),
)
def local_image(kept: Any, *, width: int, ceiling: float) -> dict[str, Any]:
    """Release mixtures of the silo's predictors."""
    return {"image": kept["mixed"]}


@summed(
    by="party",
    # One silo alone has the response.
    between_two=True,
    takes={
        "image": public("N l", "coordinates in the predictors' space, from the silos")
    },
    gram=release(
        "l l",
        symmetric=True,
        meaning="products of the predictors in the space that they span",
    ),
    centre=release("l", meaning="the predictors' means in the same space"),
    response=release("l", meaning="products of the response with the same space"),
    squares=_TOTAL_SUM,
    mean=release("", meaning="mean of the response"),
    basis=stays("N l", until="fit", meaning="orthonormal coordinates of that space"),
)
def local_products(
    kept: Any, columns: Sequence[str], *, target: str, image: Float[Array, "N l"]
) -> dict[str, Any]:
    """Release products in the space of all predictors; others have no response."""
    Q = _orthonormal(image)
    predicts = _predicts(columns, target)
    B = Q.T @ kept["rows"][:, predicts]
    # Where the silo does not have the response, these are zeros: sums over no column.
    y = kept["rows"][:, ~predicts].sum(axis=1)
    return {
        "gram": B @ B.T,
        "centre": B @ (kept["mean"] / kept["spread"])[predicts],
        "response": Q.T @ y,
        "squares": np.asarray(y @ y),
        "mean": kept["mean"][~predicts].sum(),
        "basis": Q,
    }


@summed(
    by="party",
    takes={
        "gram": _GRAM,
        "centre": _CENTRE,
        "response": _RESPONSE,
        "squares": _SQUARES,
        "mean": public("", "the response's mean, which only silos can open"),
    },
    r2=release("", meaning="coefficient of determination"),
    residual=_RESIDUAL_SUM,
    intercept=release("", meaning="the intercept"),
    intercept_variance=release(
        "", meaning="variance of the intercept, in units of the errors' variance"
    ),
    condition=release(
        "",
        meaning="ratio of eigenvalues (how nearly one predictor is a combination of "
        "the others)",
    ),
    coef=stays("p", meaning="the regression coefficients of the silo's own columns"),
    error=stays("p", meaning="their standard errors"),
)
def own_coefficients(
    kept: Any,
    columns: Sequence[str],
    *,
    target: str,
    n_silos: int,
    n_predictors: int,
    alpha: float,
    gram: Float[Array, "l l"],
    centre: Float[Array, " l"],
    response: Float[Array, " l"],
    squares: Float[Array, ""],
    mean: Float[Array, ""],
) -> dict[str, Any]:
    """Keep the coefficients of the silo's own columns; release its share of the fit.

    All silos compute the same goodness of fit, so each releases an equal share.
    """
    V, values = _axes(kept["basis"], gram)
    largest = max(float(values[-1]), np.finfo(float).tiny)
    condition = float(values[0]) / largest if len(values) == n_predictors else 0.0
    safe = np.maximum(values, _ROUNDING * largest)
    g = V.T @ response
    a = g / (safe + alpha)
    fitted = safe * a
    residual = max(float(squares - 2.0 * g @ fitted + fitted @ fitted), 0.0)
    c = V.T @ centre
    N = len(kept["basis"])
    B = _own_products(kept, columns, target, V)
    # The degrees of freedom differ between folds, so that they cannot be an argument: a
    # silo answers for one setting of arguments.
    dof = N - n_predictors - 1
    sigma2 = residual / dof if dof > 0 else 0.0
    shares = {
        "r2": 1.0 - residual / squares if squares > 0 else 0.0,
        "residual": residual,
        "intercept": mean - c @ a,
        "intercept_variance": 1.0 / N + np.sum((c / safe) ** 2),
        "condition": max(condition, 0.0),
    }
    spread = kept["spread"]
    return {
        **{name: np.asarray(value / n_silos) for name, value in shares.items()},
        "coef": a @ B / spread,
        "error": np.sqrt(sigma2 * np.sum((B / safe[:, None]) ** 2, axis=0)) / spread,
    }


@summed(
    by="party",
    # One silo alone has the response.
    between_two=True,
    takes={"gram": _GRAM, "response": _RESPONSE},
    products=release(
        "l l",
        symmetric=True,
        meaning="products of the predictors' coordinates, weighted by each person's "
        "squared residual (squared difference between response and prediction), added",
    ),
    weighted=release(
        "l",
        meaning="the predictors' coordinates, weighted by each person's squared "
        "residual (squared difference between response and prediction), added",
    ),
)
def local_residual_products(
    kept: Any,
    columns: Sequence[str],
    *,
    target: str,
    gram: Float[Array, "l l"],
    response: Float[Array, " l"],
) -> dict[str, Any]:
    """Release products weighted by squared residuals; others have no response."""
    Q = kept["basis"]
    predicts = _predicts(columns, target)
    V, _ = _axes(Q, gram)
    if too_many_pairs(len(Q), V.shape[1]):
        raise DataError("The residuals could be solved for.", rule="max_feature_ratio")
    y = kept["rows"][:, ~predicts].sum(axis=1)
    # In a silo without the response all are 0.
    share = float(not predicts.all())
    e2 = share * (y - Q @ (V @ (V.T @ response))) ** 2
    return {"products": (Q * e2[:, None]).T @ Q, "weighted": Q.T @ e2}


@summed(
    by="party",
    takes={
        "gram": _GRAM,
        "centre": _CENTRE,
        "response": _RESPONSE,
        "squares": _SQUARES,
        "products": public(
            "l l", "products weighted by squared residuals, which only silos can open"
        ),
        "weighted": public(
            "l", "coordinates weighted by squared residuals, which only silos can open"
        ),
    },
    intercept_variance=release("", meaning="variance of the intercept"),
    wald=release(
        "",
        meaning="Wald's statistic of all coefficients (their squares in units of their "
        "covariance matrix)",
    ),
    error=stays("p", meaning="standard errors of the silo's own coefficients"),
)
def own_robust_errors(
    kept: Any,
    columns: Sequence[str],
    *,
    target: str,
    n_silos: int,
    gram: Float[Array, "l l"],
    centre: Float[Array, " l"],
    response: Float[Array, " l"],
    squares: Float[Array, ""],
    products: Float[Array, "l l"],
    weighted: Float[Array, " l"],
) -> dict[str, Any]:
    """Keep errors robust against unequal variances; release shares of the others."""
    V, values = _axes(kept["basis"], gram)
    safe = np.maximum(values, _ROUNDING * max(float(values[-1]), np.finfo(float).tiny))
    M = V.T @ products @ V
    B = _own_products(kept, columns, target, V) / safe[:, None]
    # The intercept weights person r by 1 / N - q_r c, with q_r the person's row of Q V.
    N, c = len(kept["basis"]), (V.T @ centre) / safe
    g = V.T @ response
    residual = float(squares - g @ g)
    variance = residual / N**2 - 2.0 / N * c @ (V.T @ weighted) + c @ M @ c
    wald = g @ scipy.linalg.lstsq(M, g)[0]
    return {
        "intercept_variance": np.asarray(max(float(variance), 0.0) / n_silos),
        "wald": np.asarray(wald / n_silos),
        "error": np.sqrt(np.maximum(np.einsum("ij,ik,kj->j", B, M, B), 0.0))
        / kept["spread"],
    }


@disclosed(
    by="party",
    coef=release("p", meaning="the regression coefficients of the silo's own columns"),
    error=release("p", meaning="their standard errors"),
)
def shown_coefficients(kept: Any) -> dict[str, Any]:
    """Disclose the coefficients of the silo's own columns, and their errors."""
    return {"coef": kept["coef"], "error": kept["error"]}


@summed(
    by="party",
    predictions=release(
        "N", meaning="each person's response as predicted, less the intercept"
    ),
)
def local_predictions(
    X: Float[Array, "N p"], kept: Any, columns: Sequence[str], *, target: str
) -> dict[str, Any]:
    """Release the silo's part of the predictions; its response is not read."""
    # The response of new people may have no values yet.
    predicts = _predicts(columns, target)
    return {"predictions": complete(X[:, predicts]) @ kept["coef"][predicts]}


@kept(
    by="party",
    takes={"predictions": _PREDICTIONS},
    predictions=stays("N", meaning="each person's response as predicted"),
)
def own_predictions(
    *, predictions: Float[Array, " N"], intercept: float
) -> dict[str, Any]:
    """Keep predictions that only the silos can open."""
    return {"predictions": predictions + intercept}


@summed(
    by="party",
    # One silo alone has the response.
    between_two=True,
    # Squares about one intercept, with the sum of residuals, give those about others.
    settings=(),
    takes={"predictions": _PREDICTIONS},
    residual=_RESIDUAL_SUM,
    squares=_TOTAL_SUM,
)
def local_score_squares(
    X: Float[Array, "N p"],
    columns: Sequence[str],
    *,
    target: str,
    intercept: float,
    predictions: Float[Array, " N"],
) -> dict[str, Any]:
    """Release squares of the response and of its residuals; others have none."""
    true = complete(X[:, ~_predicts(columns, target)])
    # Over no column in a silo without the response.
    residuals = true - (predictions + intercept)[:, None]
    return {
        "residual": np.asarray(np.sum(residuals**2)),
        "squares": np.asarray(np.sum((true - true.mean(axis=0)) ** 2)),
    }


@summed(
    by="party",
    takes={
        "residual": public("", "the residual squares, which only silos can open"),
        "squares": _SQUARES,
    },
    score=release("", meaning="R² or the mean squared error of prediction"),
)
def own_score(
    X: Float[Array, "N p"],
    *,
    n_silos: int,
    metric: str,
    residual: Float[Array, ""],
    squares: Float[Array, ""],
) -> dict[str, Any]:
    """Release the silo's share of a score that all silos compute."""
    if metric == "r2_score":
        # As in scikit-learn: of a constant response, 1 if it is met and 0 if not.
        score = 0.0 if residual > 0 else 1.0
        if squares > 0:
            score = 1.0 - float(residual) / float(squares)
    else:
        score = float(residual) / len(X)
    return {"score": np.asarray(score / n_silos)}


@final
@dataclass(frozen=True)
class OpenedTotals:
    """Totals of a fit that the coordinator opens; the silos keep the coefficients.

    Attributes
    ----------
    N : int
        Sample size.
    r2, residual : float
        Coefficient of determination, and sum of squared residuals.
    intercept, intercept_variance : float
        The intercept, and its variance for residuals of variance 1.
    robust_variance, wald : float
        Only with robust errors: the variance of the intercept, and Wald's statistic of
        all coefficients, both as of "HC0".
    """

    N: int
    r2: float
    residual: float
    intercept: float
    intercept_variance: float
    robust_variance: float = np.nan
    wald: float = np.nan


def too_many_pairs(N: int, p: int) -> bool:
    """Return whether products of squared residuals could be solved for the residuals.

    The silos know by whose coordinates they are weighted: each product is one equation
    for N unknown squares, and p + 1 more are known from the fit.
    """
    return 3 * (p * (p + 1) // 2 + 2 * p + 1) > N


def fitted_by_parties(
    federation: Federation,
    roles: RegressionRoles,
    *,
    alpha: float,
    robust: bool = False,
) -> OpenedTotals:
    """Have each silo of a column partition keep the coefficients of its columns.

    Parameters
    ----------
    federation : Federation
        A column partition.
    roles : Roles
        Predictors and response.
    alpha : float
        Weight of the penalty on the squares of the coefficients, or 0.
    robust : bool, default False
        Whether standard errors are robust against unequal variances.

    Raises
    ------
    DataError
        Without a penalty: too few rows, or collinear or constant predictors. With
        robust errors: too few people for the number of predictors.
    """
    N, p = int(federation.n_rows or 0), len(roles.predictors)
    target = roles.response
    planned = federation.coordinator.planned
    # A silo's own plan assumes how many columns the others have.
    if alpha == 0.0 and not (planned and federation.layout.known_to):
        check_enough_rows(N, p, 1)
        if robust and too_many_pairs(N, p):
            raise DataError(
                f"Robust errors of {p} predictors open more products of the squared "
                f"residuals than a third of the number of people, from which the "
                f"residuals could be solved for. Take fewer predictors, or "
                f'cov_type="nonrobust".'
            )
    width = min(p + _MORE, N)
    scaled = alpha == 0.0
    federation.keep(own_mixtures, target=target, width=width, scaled=scaled)
    image = federation.sum(local_image, to="parties", width=width, ceiling=1.0)
    products = federation.sum(local_products, to="parties", target=target, **image)
    found = federation.sum(
        own_coefficients,
        target=target,
        n_silos=len(federation.parties),
        n_predictors=p,
        alpha=alpha,
        **products,
    )
    totals = {name: float(value) for name, value in found.items()}
    condition = totals.pop("condition")
    if alpha == 0.0 and not planned and not condition > _SINGULAR * p:
        raise DataError(
            "The predictors of all silos together are constant or collinear, so the "
            "problem has no unique solution. Leave some columns out, or fit a Ridge."
        )
    if not robust:
        return OpenedTotals(N, **totals)
    common = {name: products[name] for name in ("gram", "response")}
    weighted = federation.sum(
        local_residual_products, to="parties", target=target, **common
    )
    found = federation.sum(
        own_robust_errors,
        target=target,
        n_silos=len(federation.parties),
        centre=products["centre"],
        squares=products["squares"],
        **common,
        **weighted,
    )
    return OpenedTotals(
        N,
        **totals,
        robust_variance=float(found["intercept_variance"]),
        wald=float(found["wald"]),
    )


def predicted_by_parties(
    model: Any, view: Federation, *, to: str | None, kept_of: str
) -> Float[Array, " N"] | None:
    """Return predictions for aligned rows, or None where the silos keep them."""
    if to is None:
        raise DataError('scores=None: nobody may predict; choose "parties".')
    target, intercept = model.response_, float(model.intercept_)
    with view.calling(model, "predict"):
        totals = view.sum(local_predictions, to=to, kept_of=kept_of, target=target)
        if to == "coordinator":
            return totals["predictions"] + intercept
        view.keep(own_predictions, intercept=intercept, **totals)
    return None


def scored_by_parties(
    model: Any, view: Federation, metric: str, *, kept_of: str
) -> float:
    """Return a score of predictions that only the silos open, in three rounds.

    Parameters
    ----------
    model : estimator
        Fitted.
    view : Federation
        People with the predictors and the response.
    metric : {"r2_score", "root_mean_squared_error"}
        Name of the score.
    kept_of : str
        Address of the fit of which the silos keep their coefficients.
    """
    target, intercept = model.response_, float(model.intercept_)
    predictions = view.sum(
        local_predictions, to="parties", kept_of=kept_of, target=target
    )
    squares = view.sum(
        local_score_squares,
        to="parties",
        target=target,
        intercept=intercept,
        **predictions,
    )
    n_silos = len(view.parties)
    found = view.sum(own_score, n_silos=n_silos, metric=metric, **squares)
    score = float(found["score"])
    return score if metric == "r2_score" else float(np.sqrt(max(score, 0.0)))


def shown_by_parties(
    federation: Federation, target: str, *, kept_of: str
) -> tuple[Float[Array, " p"], Float[Array, " p"]]:
    """Return coefficients and standard errors, which every silo must allow."""
    shown = disclosed_columns(federation, shown_coefficients, kept_of=kept_of)
    predicts = _predicts(federation.feature_names, target)
    return shown["coef"][predicts], shown["error"][predicts]


def _predicts(columns: Sequence[str], target: str) -> Bool[Array, " p"]:
    """Return which columns are predictors."""
    return np.array([name != target for name in columns], dtype=bool)


def _axes(
    Q: Float[Array, "N l"], gram: Float[Array, "l l"]
) -> tuple[Float[Array, "l p"], Float[Array, " p"]]:
    """Return eigenvectors and eigenvalues of the products, of as many as Q's rank."""
    # The squares of an orthonormal factor add up to its rank.
    rank = round(float(np.sum(Q**2)))
    values, V = scipy.linalg.eigh(gram)
    return V[:, -rank:], values[-rank:]


def _own_products(
    kept: Any, columns: Sequence[str], target: str, V: Float[Array, "l k"]
) -> Float[Array, "k p"]:
    """Return products of the axes with the silo's own predictors, 0 of a response."""
    B = (kept["basis"] @ V).T @ kept["rows"]
    B[:, ~_predicts(columns, target)] = 0.0
    return B


def _orthonormal(image: Float[Array, "N l"]) -> Float[Array, "N l"]:
    """Return the orthonormal factor of the polar decomposition.

    Unlike singular vectors it varies continuously with the image: silos whose
    processors round differently have the same to rounding.
    """
    U, values, Vt = scipy.linalg.svd(image, full_matrices=False)
    rank = np.count_nonzero(values > _SINGULAR * len(values) * values[0])
    return U[:, :rank] @ Vt[:rank]

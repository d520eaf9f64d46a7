"""Metrics of columns that are predicted in the silos: R² and the root of mean squares.

round 1   silos ── N, sums of the columns, squared residuals, added ──> means, RMSE
round 2   silos <── means ── silos ── squares about the means, added ──> R²
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.models.extrapolation import judged
from unpooled.models.metrics.predictions import measured_apart, measuring
from unpooled.models.moments import complete
from unpooled.protocol.step import public, release, summed

PREDICT = ("predict",)
_ROOT = "root_mean_squared_error"
# The prefix of a predicted column's name.
PREDICTED = "predicted "


@summed(
    within_silos=True,
    takes={"targets": "size k"},
    count=release("", meaning="sample size (number of rows)"),
    total=release("k", meaning="column sums of the columns that are predicted"),
    residual=release(
        "k",
        weighed=True,
        meaning="squared residuals (squared differences of each predicted column from "
        "its true values, added over all rows)",
    ),
)
def local_residuals(X: Float[Array, "n p"], *, targets: int) -> dict[str, Any]:
    """Add this silo's squared residuals; predictions stand before the true columns."""
    rows = complete(X)
    predicted, true = rows[:, :targets], rows[:, targets:]
    return {
        "count": np.array(len(rows), float),
        "total": true.sum(axis=0),
        "residual": judged((true - predicted) ** 2, predicted, true),
    }


@summed(
    within_silos=True,
    takes={"mean": public("k", "the mean of each column that is predicted")},
    squares=release(
        "k", meaning="sum of squares of each column (squared deviations from its mean)"
    ),
)
def local_deviations(
    X: Float[Array, "n p"], *, mean: Float[Array, " k"]
) -> dict[str, Any]:
    """Add this silo's squared deviations from the means of all rows."""
    return {"squares": ((complete(X)[:, len(mean) :] - mean) ** 2).sum(axis=0)}


def r2_score(
    y_true: Any,
    y_pred: Any,
    *,
    multioutput: str = "uniform_average",
) -> float | Float[Array, " q"]:
    """Return R², the share of the variance of the true columns that is predicted.

    Parameters
    ----------
    y_true : str or sequence of str
        The predicted columns, by name, in any order.
    y_pred : Federation
        What ``model.predict(federation)`` gives, of a federation that has them.
    multioutput : {"uniform_average", "variance_weighted", "raw_values"}
        How the shares of several columns become one number, or that they do not.

    Returns
    -------
    float, or (q,) array with "raw_values"
        In the order of `y_true`.

    Raises
    ------
    DataError
        If `y_pred` is not what ``predict`` gives, has no column of `y_true`, or
        `multioutput` is unknown.
    ReleaseRefusedError
        Where a silo's policy refuses, such as few rows.

    Notes
    -----
    Released, as totals only: N, column sums and squared deviations of the true columns,
    and their squared residuals. On a column partition, of linear regressions: to the
    parties alone each person's prediction and the squares about it, and the score.

    See Also
    --------
    sklearn.metrics.r2_score : its twin on rows in one place.

    References
    ----------
    Kvålseth, Cautionary note about R², The American Statistician 39 (1985), equation 1.
    """
    choices = ("uniform_average", "variance_weighted", "raw_values")
    _check_multioutput(multioutput, choices)
    arguments = {"y_true": _names(y_true), "multioutput": multioutput}
    with measuring("r2_score", y_pred, PREDICT, arguments) as by:
        if y_pred.partition == "columns":
            found = measured_apart(by, "r2_score", y_true)
            return np.array([found]) if multioutput == "raw_values" else found
        totals, view = _residuals(y_true, y_pred)
        mean = totals["total"] / totals["count"]
        squares = view.sum(local_deviations, mean=mean)["squares"]
    residual = totals["residual"]
    # As in scikit-learn: of a constant column, 1 if it is met and 0 if it is not.
    shares = np.where(residual > 0, 0.0, 1.0)
    varies = squares > 0
    shares[varies] = 1.0 - residual[varies] / squares[varies]
    if multioutput == "raw_values":
        return shares
    weights = squares if multioutput == "variance_weighted" and squares.any() else None
    return float(np.average(shares, weights=weights))


def root_mean_squared_error(
    y_true: Any,
    y_pred: Any,
    *,
    multioutput: str = "uniform_average",
) -> float | Float[Array, " q"]:
    """Return the root of the mean squared residual of each column, or their mean.

    Parameters
    ----------
    y_true : str or sequence of str
        The predicted columns, by name, in any order.
    y_pred : Federation
        What ``model.predict(federation)`` gives, of a federation that has them.
    multioutput : {"uniform_average", "raw_values"}
        The mean of the roots, or each.

    Returns
    -------
    float, or (q,) array with "raw_values"
        In the units of the columns, in the order of `y_true`.

    Raises
    ------
    DataError
        If `y_pred` is not what ``predict`` gives, has no column of `y_true`, or
        `multioutput` is unknown.
    ReleaseRefusedError
        Where a silo's policy refuses, such as few rows.

    Notes
    -----
    Released, as totals only: N, column sums of the true columns and their squared
    residuals. On a column partition as of `r2_score`.

    See Also
    --------
    sklearn.metrics.root_mean_squared_error : its twin on rows in one place.

    References
    ----------
    Hyndman and Koehler, Another look at measures of forecast accuracy, International
    Journal of Forecasting 22 (2006), section 2.1.
    """
    roots = np.sqrt(_mean_squares(_ROOT, y_true, y_pred, multioutput))
    return roots if multioutput == "raw_values" else float(np.average(roots))


def mean_squared_error(
    y_true: Any,
    y_pred: Any,
    *,
    multioutput: str = "uniform_average",
) -> float | Float[Array, " q"]:
    """Return the mean squared residual of each column, or their mean.

    Parameters
    ----------
    y_true, y_pred
        As of `root_mean_squared_error`.
    multioutput : {"uniform_average", "raw_values"}
        The mean of the columns, or each.

    Returns
    -------
    float, or (q,) array with "raw_values"
        In the squared units of the columns, in the order of `y_true`.

    Raises
    ------
    DataError
        If `y_pred` is not what ``predict`` gives, has no column of `y_true`, or
        `multioutput` is unknown.
    ReleaseRefusedError
        Where a silo's policy refuses, such as few rows.

    Notes
    -----
    Released is what `root_mean_squared_error` releases.

    See Also
    --------
    sklearn.metrics.mean_squared_error : its twin on rows in one place.

    References
    ----------
    Hyndman and Koehler, Another look at measures of forecast accuracy, International
    Journal of Forecasting 22 (2006), section 2.1.
    """
    squares = _mean_squares("mean_squared_error", y_true, y_pred, multioutput)
    return squares if multioutput == "raw_values" else float(np.average(squares))


def check_response(y_true: Any, response: str) -> None:
    """Refuse to compare predictions with another column than the response."""
    if _names(y_true) != [response]:
        raise DataError(f"y_true={y_true!r}: the model predicts {response!r}.")


def _names(y_true: Any) -> list[str]:
    return [y_true] if isinstance(y_true, str) else [str(name) for name in y_true]


def _mean_squares(
    metric: str, y_true: Any, y_pred: Any, multioutput: str
) -> Float[Array, " q"]:
    """Return the mean squared residual of each column; one round."""
    _check_multioutput(multioutput, ("uniform_average", "raw_values"))
    arguments = {"y_true": _names(y_true), "multioutput": multioutput}
    with measuring(metric, y_pred, PREDICT, arguments) as by:
        if y_pred.partition == "columns":
            return np.array([measured_apart(by, _ROOT, y_true) ** 2])
        totals, _ = _residuals(y_true, y_pred)
    return totals["residual"] / totals["count"]


def _residuals(y_true: Any, y_pred: Federation) -> tuple[dict[str, Any], Federation]:
    """Return the totals of the first round, and the view of the columns in order."""
    names, columns = _names(y_true), y_pred.feature_names
    wanted = [PREDICTED + name for name in names] + names
    if unknown := [name for name in wanted if name not in columns] or not names:
        raise DataError(
            f"y_true={y_true!r}: the view has no columns {unknown}. It has "
            f"{', '.join(columns)}: predict on rows with the true columns, and "
            f"name some of those that the model predicts."
        )
    # The predictions' own order of columns needs no further operation.
    view = y_pred if tuple(wanted) == columns else y_pred.select(wanted)
    totals = view.sum(local_residuals, targets=len(names))
    return totals, view


def _check_multioutput(given: str, choices: Sequence[str]) -> None:
    if given not in choices:
        raise DataError(f"multioutput={given!r}; choose {' or '.join(choices)}.")

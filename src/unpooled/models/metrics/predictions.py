"""Predictions: views whose columns a fitted model made, and what a metric reads there.

model.predict(federation) ──> a view: each silo predicts its own rows, lazily
metric(y, view)           ──> a call of the model: silos that follow make it too
"""

import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from unpooled.errors import DataError
from unpooled.federation.federation import Federation, PredictedBy
from unpooled.protocol.step import Step

# Name of the method of `FederatedEstimator` that silos call for a metric.
MEASURE = "_measure"


def predicted(
    model: Any,
    method: str,
    view: Federation,
    step: Step,
    columns: Sequence[str],
    arguments: Mapping[str, Any],
    *,
    kept_of: str = "",
) -> Federation:
    """Return the view of a model's predictions; nothing leaves a silo.

    Parameters
    ----------
    model : estimator
        Fitted.
    method : {"predict", "predict_proba", "decision_function"}
        The method that was called.
    view : Federation
        Rows with the model's columns.
    step : Step
        Declared with `derived`.
    columns : sequence of str
        Names of the columns that it makes.
    arguments : mapping of str to object
        The step's arguments.
    kept_of : str, optional
        Address of the fit of which the step reads what the silos kept.
    """
    made = view.derive(step, columns, kept_of=kept_of, **arguments)
    made.predicted_by = PredictedBy(model, method, view)
    return made


def predicted_apart(model: Any, view: Federation) -> Federation:
    """Return the view of predictions on a column partition, for metrics.

    The predictions stay with the parties; a metric calls the model's `score_apart`, in
    which the parties add their parts.

    Parameters
    ----------
    model : estimator
        Fitted.
    view : Federation
        People with the model's columns.
    """
    made = copy.copy(view)
    made.predicted_by = PredictedBy(model, "predict", view)
    return made


def predictions_of(model: Any, rows: Federation) -> Any:
    """Return a model's predictions for a score; they stay with the silos.

    Parameters
    ----------
    model : estimator or Pipeline
        Fitted.
    rows : Federation
        Whose responses are compared with it.
    """
    if rows.partition == "rows":
        return model.predict(rows)
    last = model
    if hasattr(model, "steps"):
        *early, (_, last) = model.steps
        for _, step in early:
            rows = step.transform(rows)
    return predicted_apart(last, rows)


def measured_apart(by: PredictedBy, metric: str, y_true: Any) -> Any:
    """Return a metric on a column partition, in the session of `measuring`."""
    if not hasattr(by.model, "score_apart"):
        raise DataError(
            f"A {type(by.model).__name__} has no {metric} on a column partition."
        )
    return by.model.score_apart(by.view, metric, y_true)


def predictor_of(metric: str, y_pred: Any, methods: Sequence[str]) -> PredictedBy:
    """Return whose predictions a view has; refuse other views, and other predictions.

    Parameters
    ----------
    metric : str
        Name of the metric, for the message.
    y_pred : Federation
        What was passed to it.
    methods : sequence of str
        The methods whose results it takes.
    """
    by = y_pred.predicted_by if isinstance(y_pred, Federation) else None
    if by is None or by.method not in methods:
        wanted = " or ".join(f"model.{method}(federation)" for method in methods)
        raise DataError(
            f"{metric} takes the name of a label and what {wanted} gives, not "
            f"{'other' if by else 'a ' + type(y_pred).__name__ + ' without'} "
            f"predictions. For arrays in one place there is sklearn.metrics.{metric}."
        )
    return by


@contextmanager
def measuring(
    metric: str,
    y_pred: Any,
    methods: Sequence[str],
    arguments: Mapping[str, Any],
) -> Iterator[PredictedBy]:
    """Hold one session for a metric's rounds, as a call of the model that predicted.

    Parameters
    ----------
    metric : str
        Name of the metric.
    y_pred : Federation
        What was passed to it as predictions; what is none is refused, as by
        `predictor_of`.
    methods : sequence of str
        The methods whose results it takes.
    arguments : mapping of str to JSON value
        The metric's arguments beside the predictions.

    Yields
    ------
    PredictedBy
        Whose predictions these are.
    """
    by = predictor_of(metric, y_pred, methods)
    with by.view.calling(
        by.model,
        MEASURE,
        metric=metric,
        predicts=by.method,
        arguments=dict(arguments),
    ):
        yield by

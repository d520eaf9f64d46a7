"""Scores by their names, as in scikit-learn: greater is better."""

from collections.abc import Callable, Mapping, Sequence, Set
from types import MappingProxyType
from typing import Any

import numpy as np

from unpooled.arrays import Array, Float
from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.models.metrics.classification import (
    accuracy_score,
    balanced_accuracy_score,
    f1_score,
    log_loss,
    matthews_corrcoef,
    precision_score,
    recall_score,
    roc_auc_score,
)
from unpooled.models.metrics.predictions import predictions_of
from unpooled.models.metrics.regression import (
    mean_squared_error,
    r2_score,
    root_mean_squared_error,
)
from unpooled.results.formats import listed

# A fitted model, new rows, and what `fit` was given as y.
Scorer = Callable[[Any, Federation, Any], float]
# The same, of each predicted column.
ColumnScorer = Callable[[Any, Federation, Any], Float[Array, " q"]]


def _own(model: Any, rows: Federation, y: Any) -> float:
    """Return the model's own score."""
    return model.score(rows, y)


def _targets(y: Any) -> Any:
    if y is None:
        raise DataError("Name the columns that are predicted: y=...")
    return y


def _log_likelihood(model: Any, rows: Federation, y: Any) -> float:
    return model.score(rows)


def _of_classes(metric: Callable[..., Any], **options: Any) -> Scorer:
    """Return the score of a metric of predicted classes."""
    return lambda model, rows, y: metric(y, model.predict(rows), **options)


def _accuracy(model: Any, rows: Federation, y: Any) -> float:
    """Return the accuracy; on a column partition the model's own score.

    There `predict` would send the coordinator a score of each person.
    """
    if rows.partition == "columns":
        return model.score(rows, y)
    return accuracy_score(y, model.predict(rows))


def _of_columns(metric: Callable[..., Any], sign: int) -> ColumnScorer:
    """Return the scores by a metric of predicted columns, times 1 or -1."""

    def score(model: Any, rows: Federation, y: Any) -> Float[Array, " q"]:
        given = predictions_of(model, rows)
        return sign * np.asarray(metric(_targets(y), given, multioutput="raw_values"))

    return score


def _mean(score: ColumnScorer) -> Scorer:
    return lambda model, rows, y: float(np.mean(score(model, rows, y)))


# Scores of one class, which may be named behind a colon: "recall:ill".
_OF_ONE_CLASS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {"f1": f1_score, "precision": precision_score, "recall": recall_score}
)
# The score of the model itself: accuracy, R² or mean log-likelihood.
OWN = "score"
# The one that scikit-learn has no name for.
LIKELIHOOD = "log_likelihood"
# Scores that are computed from a confusion matrix.
CLASS_SCORERS: Mapping[str, Scorer] = MappingProxyType(
    {
        "accuracy": _accuracy,
        "balanced_accuracy": _of_classes(balanced_accuracy_score),
        "matthews_corrcoef": _of_classes(matthews_corrcoef),
        **{
            name if average == "binary" else f"{name}_{average}": _of_classes(
                metric, average=average
            )
            for name, metric in _OF_ONE_CLASS.items()
            for average in ("binary", "macro", "weighted")
        },
    }
)
# Scores of predicted columns, each by itself.
COLUMN_SCORERS: Mapping[str, ColumnScorer] = MappingProxyType(
    {
        "r2": _of_columns(r2_score, 1),
        "neg_mean_squared_error": _of_columns(mean_squared_error, -1),
        "neg_root_mean_squared_error": _of_columns(root_mean_squared_error, -1),
    }
)
SCORERS: Mapping[str, Scorer] = MappingProxyType(
    {
        **CLASS_SCORERS,
        "neg_log_loss": lambda model, rows, y: -log_loss(y, model.predict_proba(rows)),
        "roc_auc": lambda model, rows, y: roc_auc_score(y, model.predict_proba(rows)),
        **{name: _mean(score) for name, score in COLUMN_SCORERS.items()},
        LIKELIHOOD: _log_likelihood,
    }
)


def check_scores(model: Any, scoring: Any) -> None:
    """Refuse scores of what a model does not give, before anything is fitted.

    Parameters
    ----------
    model : estimator or Pipeline
        Unfitted.
    scoring : None, str or sequence of str
        As of `scorers`.

    Raises
    ------
    DataError
        Where the model predicts nothing of the kind that a score reads.
    """
    last = last_step(model)
    kind = type(last)
    suited = getattr(last, "_scored_by", ()) if hasattr(kind, "score") else ()
    for name in [scoring] if scoring is None or isinstance(scoring, str) else scoring:
        if name is None:
            method, sign, lacks = "score", "", "has no score"
        else:
            method, sign, lacks = _reads(parted(name)[0])
        # A model of a user's own may not say what it is scored by.
        if hasattr(kind, method) and (not sign or not suited or sign in suited):
            continue
        remedy = "Judge a classifier, a regression or a PCA behind it, or leave it out."
        if suited:
            remedy = f"It is scored by {listed(suited)}."
        given = "" if name is None else f"scoring={name!r}: "
        raise DataError(f"{given}A {kind.__name__} {lacks}. {remedy}")


def _reads(score: str) -> tuple[str, str, str]:
    """Return the method that a score reads, a score of such models, and what others do.

    The score stands in `_scored_by` of every model of the library with that method.
    """
    if score in CLASS_SCORERS:
        return "predict", "accuracy", "predicts no classes"
    if score in COLUMN_SCORERS:
        return "predict", "r2", "predicts no columns"
    if score == LIKELIHOOD:
        return "score_samples", LIKELIHOOD, "gives rows no likelihood"
    return "predict_proba", "accuracy", "gives no probabilities of classes"


def last_step(model: Any) -> Any:
    """Return a model; of a Pipeline, its last step."""
    return model[-1] if hasattr(model, "steps") else model


def scorers(scoring: Any) -> dict[str, Scorer]:
    """Return scores by the name that results have them under.

    Parameters
    ----------
    scoring : None, str or sequence of str
        None: the model's own, as "score". "recall:ill" is the recall of the class
        "ill", and likewise "f1" and "precision".

    Raises
    ------
    DataError
        Where a name is unknown.
    """
    if scoring is None:
        return {OWN: _own}
    several = isinstance(scoring, Sequence | Set) and not isinstance(scoring, str)
    names: list[Any] = list(scoring) if several else [scoring]
    found = {name: _scorer(name) for name in names if isinstance(name, str)}
    known = len(found) == len(names) and None not in found.values()
    if not known or not names or len(set(names)) != len(names):
        raise DataError(
            f"scoring={scoring!r}; choose among {', '.join(SCORERS)}, each once, or "
            f"None for the model's own score. Of one class: "
            f"{', '.join(f'{name}:CLASS' for name in _OF_ONE_CLASS)}."
        )
    return {OWN: found[scoring]} if isinstance(scoring, str) else found


def parted(name: str) -> tuple[str, str]:
    """Return the name of a score, and of the class that stands behind it, if any."""
    score, _, of_class = name.partition(":")
    return score, of_class


def _scorer(name: str) -> Any:
    """Return the score of a name, or None."""
    score, of_class = parted(name)
    if not of_class or score not in _OF_ONE_CLASS:
        return SCORERS.get(name)
    metric = _OF_ONE_CLASS[score]

    def of_one(model: Any, rows: Federation, y: Any) -> float:
        classes = last_step(model).classes_.tolist()
        named = [value for value in classes if _written(value) == of_class]
        if rows.coordinator.planned and not named:
            named = classes[:1]  # a plan does not know the names of the classes
        if not named:
            raise DataError(
                f"scoring={name!r}: there is no class {of_class!r}; the label has "
                f"{', '.join(map(_written, classes))}."
            )
        return metric(y, model.predict(rows), labels=named, average="macro")

    return of_one


def _written(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def suited_scorers(models: Sequence[Any]) -> dict[str, Scorer]:
    """Return the scores that suit models, by name.

    Parameters
    ----------
    models : sequence of estimator or Pipeline
        Fitted, of the same kind.

    Returns
    -------
    dict of str to callable
        Those that the last step's class names in `_scored_by`; the area under the ROC
        curve only where all models have two classes. The model's own score where it
        names none.
    """
    lasts = [last_step(model) for model in models]
    names = list(getattr(lasts[0], "_scored_by", ()))
    if not all(len(getattr(last, "classes_", ())) == 2 for last in lasts):
        names = [name for name in names if name != "roc_auc"]
    return scorers(names or None)

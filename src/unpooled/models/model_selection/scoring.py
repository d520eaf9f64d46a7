"""Scores by their names, as in scikit-learn: greater is better."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.models.metrics.classification import (
    accuracy_score,
    balanced_accuracy_score,
    log_loss,
    roc_auc_score,
)
from unpooled.models.metrics.regression import r2_score, root_mean_squared_error

# A fitted model, new rows, and what `fit` was given as y.
Scorer = Callable[[Any, Federation, Any], float]


def _own(model: Any, rows: Federation, y: Any) -> float:
    """Return the model's own score."""
    if not hasattr(model, "score"):
        last = model[-1] if hasattr(model, "steps") else model
        raise DataError(
            f"A {type(last).__name__} has no score. Name one: scoring= "
            f"{', '.join(SCORERS)}."
        )
    return model.score(rows, y)


def _targets(rows: Federation, y: Any) -> Any:
    if y is None:
        raise DataError("Name the columns that are predicted: y=...")
    return y


# The score of the model itself: accuracy, R² or mean log-likelihood.
OWN = "score"
SCORERS: Mapping[str, Scorer] = MappingProxyType(
    {
        "accuracy": lambda m, rows, y: accuracy_score(y, m.predict(rows)),
        "balanced_accuracy": lambda m, rows, y: balanced_accuracy_score(
            y, m.predict(rows)
        ),
        "neg_log_loss": lambda m, rows, y: -log_loss(y, m.predict_proba(rows)),
        "roc_auc": lambda m, rows, y: float(roc_auc_score(y, m.predict_proba(rows))),
        "r2": lambda m, rows, y: float(
            np.mean(r2_score(_targets(rows, y), m.predict(rows)))
        ),
        "neg_root_mean_squared_error": lambda m, rows, y: (
            -float(np.mean(root_mean_squared_error(_targets(rows, y), m.predict(rows))))
        ),
    }
)


def scorers(scoring: Any) -> dict[str, Scorer]:
    """Return scores by the name that results have them under.

    Parameters
    ----------
    scoring : None, str or sequence of str
        None: the model's own, as "score".

    Raises
    ------
    DataError
        Where a name is unknown.
    """
    if scoring is None:
        return {OWN: _own}
    names = [scoring] if isinstance(scoring, str) else list(scoring)
    unknown = [name for name in names if name not in SCORERS]
    if unknown or not names or len(set(names)) != len(names):
        raise DataError(
            f"scoring={scoring!r}; choose among {', '.join(SCORERS)}, each once, or "
            f"None for the model's own score."
        )
    found = {name: SCORERS[name] for name in names}
    return {OWN: found[scoring]} if isinstance(scoring, str) else found

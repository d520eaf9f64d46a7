"""Metrics of a model's predictions on rows that stay in their silos.

Names and conventions are those of `sklearn.metrics`. The true values are named, and the
predictions are a view: ``accuracy_score("diagnosis", model.predict(federation))``.
"""

from unpooled.models.metrics.classification import (
    BinnedScore,
    RocCurve,
    accuracy_score,
    balanced_accuracy_score,
    calibration_curve,
    confusion_matrix,
    f1_score,
    log_loss,
    matthews_corrcoef,
    precision_score,
    recall_score,
    roc_auc_score,
    roc_curve,
)
from unpooled.models.metrics.regression import (
    mean_squared_error,
    r2_score,
    root_mean_squared_error,
)

__all__ = [
    "BinnedScore",
    "RocCurve",
    "accuracy_score",
    "balanced_accuracy_score",
    "calibration_curve",
    "confusion_matrix",
    "f1_score",
    "log_loss",
    "matthews_corrcoef",
    "mean_squared_error",
    "precision_score",
    "r2_score",
    "recall_score",
    "roc_auc_score",
    "roc_curve",
    "root_mean_squared_error",
]

"""The metrics by name: what silos that follow may be asked to make a part in."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from unpooled.models.metrics import classification, regression

METRICS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        metric.__name__: metric
        for metric in (
            classification.accuracy_score,
            classification.balanced_accuracy_score,
            classification.calibration_curve,
            classification.confusion_matrix,
            classification.f1_score,
            classification.log_loss,
            classification.matthews_corrcoef,
            classification.precision_score,
            classification.recall_score,
            classification.roc_auc_score,
            classification.roc_curve,
            regression.mean_squared_error,
            regression.r2_score,
            regression.root_mean_squared_error,
        )
    }
)

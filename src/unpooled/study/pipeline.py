"""The steps of a study as a scikit-learn Pipeline, and the plan of its fit."""

import copy
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, final

import numpy as np
from sklearn.base import BaseEstimator

from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.federation.planning.dry_run import plan
from unpooled.federation.planning.plan import Plan
from unpooled.study.further_results import add_further_results, further_calls
from unpooled.study.study_file import StudyFile, StudyStep, target_of

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline


@final
class ModelUpdate(BaseEstimator):
    """A pipeline step whose `fit` updates a fitted model.

    Parameters
    ----------
    model : estimator
        An estimator with a method `update`. In a plan it may be unfitted, where the
        fitted model is not available: a plan depends on shapes only.

    Attributes
    ----------
    model_ : estimator
        The updated copy; `model` itself does not change.
    """

    model_: Any

    def __init__(self, model: Any) -> None:
        self.model = model

    def __sklearn_clone__(self) -> "ModelUpdate":
        # scikit-learn would clone the model too, and a clone is unfitted.
        return ModelUpdate(self.model)

    def fit(self, X: Federation, y: Any = None) -> "ModelUpdate":
        """Update a copy of the model; `y` is ignored."""
        model = copy.copy(self.model)
        if not hasattr(model, "mean_"):
            model.mean_, model.n_features_in_ = np.zeros(X.n_features), X.n_features
        self.model_ = model.update(X)
        return self

    def transform(self, X: Federation) -> Any:
        """Transform by the updated model."""
        return self.model_.transform(X)


@final
class WithFurtherResults(BaseEstimator):
    """A pipeline step whose `fit` also asks for what a study wants beside the fit.

    It serves for plans.

    Parameters
    ----------
    model : estimator
        Of the step.
    step : StudyStep
        What it asks for.
    """

    def __init__(self, model: Any, step: StudyStep) -> None:
        self.model, self.step = model, step

    def fit(self, X: Federation, y: Any = None) -> "WithFurtherResults":
        """Fit the model, and ask."""
        self.model.fit(X, y)
        add_further_results(self.step, self.model, X)
        return self

    def transform(self, X: Federation) -> Any:
        """Transform by the fitted model."""
        return self.model.transform(X)


def pipeline_of(models: Iterable[tuple[str, Any]]) -> "Pipeline":
    """Return named models as a scikit-learn Pipeline."""
    from sklearn.pipeline import Pipeline

    return Pipeline(list(models))


def unfitted_pipeline(
    steps: Iterable[StudyStep], *, read_models: bool = True
) -> "Pipeline":
    """Return steps of a study as a Pipeline that is not fitted.

    Parameters
    ----------
    steps : iterable of StudyStep
        In order.
    read_models : bool
        Whether to read the model files that steps update. Without them the Pipeline
        serves for plans only.
    """

    def part(step: StudyStep) -> BaseEstimator:
        if step.update is None:
            model = step.estimator()
            return WithFurtherResults(model, step) if further_calls(step) else model
        return ModelUpdate(step.estimator() if read_models else step.kind()())

    return pipeline_of((step.name, part(step)) for step in steps)


def plan_fit(study: StudyFile, model: Any, federation: Federation) -> Plan:
    """Return the plan of fitting a model on a federation, in a study."""
    try:
        return plan(model, federation, target_of(study.steps, study.label))
    except DataError as wrong:
        raise DataError(f"{study.path.name}, [[steps]]: {wrong}") from wrong

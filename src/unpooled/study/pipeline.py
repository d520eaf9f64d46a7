"""The steps of a study: as a Pipeline, and as one estimator, whose fit is planned.

Every step is fitted on the rows as the steps before it transform them. A step that
gives no rows, such as `Heterogeneity`, stands beside the chain: the next step reads
what it read. scikit-learn's Pipeline has no such steps, so `StudySteps` fits all steps,
and the Pipeline of a study has those that transform, and its last.
"""

import copy
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, final

import numpy as np
from sklearn.base import BaseEstimator

from unpooled.errors import DataError
from unpooled.federation.federation import Federation
from unpooled.federation.planning.dry_run import plan
from unpooled.federation.planning.plan import Plan
from unpooled.models.base import FederatedEstimator
from unpooled.study.declared_ranges import notes_on_ranges
from unpooled.study.further_results import add_further_results
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

    def gives_rows(self, partition: str) -> bool:
        """Whether the model gives rows; see `FederatedEstimator.gives_rows`."""
        return self.model.gives_rows(partition)


@final
class StudySteps(BaseEstimator):
    """The steps of a study as one estimator, for its plan.

    Parameters
    ----------
    steps : sequence of (str, estimator, target, StudyStep or None)
        Name, model that is not fitted, the `y` of its fit, and the step whose further
        results are asked for after it, in order.

    Attributes
    ----------
    views_ : list of Federation
        What each step read.
    """

    views_: list[Federation]

    def __init__(self, steps: Sequence[tuple[str, Any, Any, StudyStep | None]]) -> None:
        self.steps = steps

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the steps; with `deep` also each model and its parameters by name."""
        parameters: dict[str, Any] = {"steps": self.steps}
        for name, model, *_ in self.steps if deep else ():
            own = model.get_params()
            parameters |= {name: model} | {f"{name}__{k}": v for k, v in own.items()}
        return parameters

    def fit(self, X: Federation, y: Any = None) -> "StudySteps":
        """Fit every step on the view that the steps before it make; `y` is ignored."""
        self.views_ = []
        for place, (_, model, target, step) in enumerate(self.steps, 1):
            self.views_.append(X)
            fitted = model.fit(X, *([] if target is None else [target]))
            if step is not None:
                add_further_results(step, fitted, X)
            if place < len(self.steps):
                X = after(fitted, X)
        return self


def after(model: FederatedEstimator | ModelUpdate, view: Federation) -> Federation:
    """Return the view that the step after a fitted one reads."""
    return model.transform(view) if model.gives_rows(view.partition) else view


def pipeline_of(models: Iterable[tuple[str, Any]], partition: str) -> "Pipeline":
    """Return the named models that transform rows, and the last, as a Pipeline.

    Parameters
    ----------
    models : iterable of (str, estimator)
        Fitted or not, in order.
    partition : {"rows", "columns"}
        Partition of the study.
    """
    from sklearn.pipeline import Pipeline

    *early, (last, end) = models
    chain = [(name, model) for name, model in early if model.gives_rows(partition)]
    # One that neither transforms nor predicts rows would make the others useless.
    if not chain or hasattr(end, "transform") or hasattr(end, "predict"):
        chain.append((last, end))
    return Pipeline(chain)


def unfitted_steps(
    steps: Iterable[StudyStep], label: str | None, *, read_models: bool = True
) -> StudySteps:
    """Return steps of a study as one estimator that is not fitted.

    Parameters
    ----------
    steps : iterable of StudyStep
        In order.
    label : str or None
        The study's label.
    read_models : bool
        Whether to read the model files that steps update. Without them the estimator
        serves for plans only.
    """
    parts: list[tuple[str, Any, Any, StudyStep | None]] = []
    for step in steps:
        target = target_of([step], label)
        if step.update is None:
            parts.append((step.name, step.estimator(), target, step))
        else:
            model = step.estimator() if read_models else step.kind()()
            parts.append((step.name, ModelUpdate(model), target, None))
    return StudySteps(parts)


def unfitted_pipeline(steps: Iterable[StudyStep], partition: str) -> "Pipeline":
    """Return the steps of a study that transform, and its last, as a Pipeline."""
    parts = unfitted_steps(steps, None).steps
    return pipeline_of([(name, model) for name, model, *_ in parts], partition)


def plan_fit(
    study: StudyFile, steps: Sequence[StudyStep], federation: Federation
) -> Plan:
    """Return the plan of fitting steps of a study on a federation."""
    try:
        planned = plan(unfitted_steps(steps, study.label), federation)
    except DataError as wrong:
        raise DataError(f"{study.path.name}, [[steps]]: {wrong}") from wrong
    return replace(planned, notes=(*planned.notes, *notes_on_ranges(study, steps)))

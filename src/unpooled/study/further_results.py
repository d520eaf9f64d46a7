"""Results beside a fit: selected columns, scores, attributes that silos keep.

    select = 40                   model.select(40, view)    which columns, of each silo
    scores = "parties"            model.transform(view)     the silos keep the scores
    disclose = ["components_"]    reading the attribute     the silos disclose it
    score = true                  model.class_hits(view)    right answers, by class

All are keys of a step on a column partition, and `disclose` is one of each part of a
`ColumnTransformer`, in the part's own table. They are part of the announced text, so
that plans show them, silos judge them, and silos that follow answer these calls on the
fitted model and no others.
"""

from typing import Any

import numpy as np

from unpooled.federation.federation import Federation
from unpooled.study.study_file import StudyStep


def further_calls(step: StudyStep) -> list[tuple[str, dict[str, Any]]]:
    """Return the methods that `add_further_results` calls, with their arguments."""
    calls: list[tuple[str, dict[str, Any]]] = []
    if step.select is not None:
        calls.append(("select", {"percent": step.select}))
    if step.scores:
        calls.append(("transform", {}))
    if step.disclose:
        calls.append(("_gather", {}))
    calls += [("_gather", {"part": part}) for part, _ in step.disclose_of_parts]
    if step.score:
        calls.append(("class_hits", {}))
    return calls


def add_further_results(step: StudyStep, model: Any, view: Federation) -> None:
    """Ask the silos for what a step wants beside its fit.

    Parameters
    ----------
    step : StudyStep
        Step of the study.
    model : estimator
        Fitted on `view`; receives the results as attributes.
    view : Federation
        On a column partition.

    Raises
    ------
    ReleaseRefusedError
        Where a silo's rules do not allow it.
    """
    if step.select is not None:
        chosen = model.select(step.select, view).columns_of
        silos = [silo for silo, names in chosen.items() for _ in names]
        names = [name for names in chosen.values() for name in names]
        model.selected_features_ = np.array(names, dtype=object)
        model.selected_silos_ = np.array(silos, dtype=object)
    if step.scores:
        model.transform(view)
    for name in step.disclose:
        getattr(model, name)
    for part, names in step.disclose_of_parts:
        fitted = model._fitted_part(part)
        for name in names:
            getattr(fitted, name)
    if step.score:
        # Last: silos that follow know the model as it was without this.
        model.class_hits_ = model.class_hits(view)

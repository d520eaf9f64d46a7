"""The evaluation of a study, [evaluate]: its models judged on rows not fitted on.

    steps fitted ─> the same steps, unfitted ── cv folds, blocks ──> evaluation.json

It runs after the fit, as one call that the announced text makes.

An `IterativeImputer` is not fitted within folds: the sums of its sweeps over a part of
the rows would give those of the few rows there that lack the same cells. So it is
judged as it was fitted on all rows, with the steps before it, and the steps behind it
are fitted within the folds, of the table that it completed.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, final

import numpy as np

from unpooled.data.atomic_file import replacing
from unpooled.errors import DataError, StudyError
from unpooled.federation.federation import Federation
from unpooled.federation.planning.dry_run import plan
from unpooled.federation.planning.plan import Plan
from unpooled.ledger.json_text import from_json
from unpooled.models.model_selection.cross_validation import (
    CrossValidation,
    fills_within_folds,
)
from unpooled.models.model_selection.jackknife import Jackknife
from unpooled.results.formats import listed
from unpooled.results.summary import Summary
from unpooled.study.evaluation_results import evaluation_exhibits
from unpooled.study.pipeline import StudySteps, unfitted_pipeline, unfitted_steps
from unpooled.study.study_file import (
    EVALUATION,
    StudyFile,
    StudyStep,
    n_on_all_rows,
    target_of,
)

FILE = "evaluation.json"
_VERSION = 1


@final
@dataclass(frozen=True)
class Evaluation:
    """The scores of a study's models on folds that they were not fitted on.

    Attributes
    ----------
    cv : int
        Number of folds.
    scores : dict of str to list of float
        By the name of the score, one number for each fold; greater is better.
    y : str, list of str or None
        The label, or the columns that are predicted.
    score_errors : dict of str to list of float
        For scores that are computed from binned counts: the most by which those of the
        rows can differ, for each fold.
    classes : list
        The c classes of `confusion_matrix`; empty where no accuracy is scored.
    confusion_matrix : list of list of int
        Row i, column j counts rows of class i that were predicted as class j by the
        model that was not fitted on them: those of all folds, added.
    responses : dict of str to dict of str to list of float
        By the name of the score, each predicted column's own; of regressions.
    fills : bool
        Whether each fold's fit computed what it filled missing cells with.
    on_all_rows : list of str
        Names of the first steps, which were fitted on all rows and not within folds.
    jackknife : Jackknife or None
        Standard errors of the last step's estimates, where the study asks for them.
    """

    cv: int
    scores: Mapping[str, list[float]]
    y: str | list[str] | None
    score_errors: Mapping[str, list[float]] = field(default_factory=dict)
    classes: list[Any] = field(default_factory=list)
    confusion_matrix: list[list[int]] = field(default_factory=list)
    responses: Mapping[str, Mapping[str, list[float]]] = field(default_factory=dict)
    fills: bool = False
    on_all_rows: list[str] = field(default_factory=list)
    jackknife: Jackknife | None = None

    def summary(self) -> Summary:
        """Return its tables: scores by fold, and what they were computed from."""
        made = [f"cross-validation with {self.cv} folds"] if self.cv else []
        if self.jackknife is not None:
            made.append(f"jackknife over {len(self.jackknife.block_rows)} blocks")
        title = listed(made)
        return Summary(f"{title[:1].upper()}{title[1:]}", evaluation_exhibits(self))

    def write(self, folder: Path) -> Path:
        """Write it as JSON into a run's folder; return the path."""
        content = {"version": _VERSION, **asdict(replace(self, jackknife=None))}
        del content["jackknife"]
        if self.jackknife is not None:
            content["jackknife"] = self.jackknife.as_json()
        content["mean"] = {n: float(np.mean(own)) for n, own in self.scores.items()}
        content["std"] = {n: float(np.std(own)) for n, own in self.scores.items()}
        path = folder / FILE
        with replacing(path) as stream:
            stream.write((json.dumps(content, indent=1) + "\n").encode())
        return path

    @classmethod
    def read(cls, folder: Path) -> "Evaluation | None":
        """Read that of a run's folder; None where there is none."""
        path = folder / FILE
        if not path.exists():
            return None
        try:
            content = from_json(path.read_text("utf-8"))
            return cls(
                cv=int(content["cv"]),
                scores=_lists(content["scores"]),
                y=content["y"],
                # A run of an earlier version has only scores.
                score_errors=_lists(content.get("score_errors", {})),
                classes=list(content.get("classes", ())),
                confusion_matrix=_counts(content),
                responses={
                    str(name): _lists(of_responses)
                    for name, of_responses in content.get("responses", {}).items()
                },
                fills=bool(content.get("fills", False)),
                on_all_rows=[str(name) for name in content.get("on_all_rows", ())],
                jackknife=Jackknife.of_json(content["jackknife"])
                if "jackknife" in content
                else None,
            )
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as wrong:
            raise StudyError(f"{path} is not an evaluation: {wrong}.") from wrong


def _lists(content: Mapping[str, Any]) -> dict[str, list[float]]:
    return {str(k): [float(value) for value in own] for k, own in content.items()}


def _counts(content: Mapping[str, Any]) -> list[list[int]]:
    """Return the confusion matrix, which has a row and a column for each class."""
    c = len(content.get("classes", ()))
    rows = [[int(n) for n in row] for row in content.get("confusion_matrix", ())]
    if [len(row) for row in rows] != [c] * c:
        raise ValueError("classes and confusion_matrix do not go together")
    return rows


def cross_validation(study: StudyFile) -> CrossValidation | None:
    """Return the unfitted cross-validation that [evaluate] asks for; None without."""
    return cross_validation_of(
        study.steps,
        study.cv,
        study.scoring,
        study.n_blocks,
        partition=study.partition,
    )


def cross_validation_of(
    steps: tuple[StudyStep, ...],
    cv: int,
    scoring: str | tuple[str, ...] | None,
    n_blocks: int,
    *,
    partition: str,
) -> CrossValidation | None:
    """Return the cross-validation of steps, as a study and a silo both make it.

    None with neither folds nor blocks. Without the steps that are fitted on all rows.
    """
    if not cv and not n_blocks:
        return None
    steps = steps[n_on_all_rows(steps) :]
    names = list(scoring) if isinstance(scoring, tuple) else scoring
    return CrossValidation(
        unfitted_pipeline(steps, partition),
        cv=cv,
        scoring=names,
        details=True,
        n_blocks=n_blocks,
        # Folds that are unions of the blocks differ from them in nothing smaller.
        shuffle=not n_blocks,
    )


def evaluate(study: StudyFile, view: Federation) -> Evaluation:
    """Cross-validate the steps of a study, or jackknife them.

    Parameters
    ----------
    study : StudyFile
        A study whose first steps are fitted on all rows: see `n_on_all_rows`.
    view : Federation
        What the step behind these reads.
    """
    target = target_of(study.steps, study.label)
    before = study.steps[: n_on_all_rows(study.steps)]
    judges = cross_validation(study)
    assert judges is not None, "the study evaluates"
    found = judges.fit(view, target)
    counted = "confusion_" in vars(found)
    scores = vars(found).get("test_scores_", {})
    targets = [target] if isinstance(target, str) else list(target or ())
    return Evaluation(
        cv=study.cv,
        scores={name: own[0].tolist() for name, own in scores.items()},
        y=target,
        score_errors={
            name: own.tolist()
            for name, own in vars(found).get("score_errors_", {}).items()
        },
        classes=found.classes_.tolist() if counted else [],
        confusion_matrix=found.confusion_.tolist() if counted else [],
        responses={
            name: dict(zip(targets, own.T.tolist(), strict=True))
            for name, own in vars(found).get("response_scores_", {}).items()
        },
        fills=fills_within_folds(found.estimator),
        on_all_rows=[step.name for step in before],
        jackknife=found.jackknife() if study.n_blocks else None,
    )


def with_evaluation(study: StudyFile, planned: Plan, federation: Federation) -> Plan:
    """Return the plan of a study's fit with what its evaluation would exchange."""
    judges = cross_validation(study)
    if judges is None:
        return planned
    target = target_of(study.steps, study.label)
    try:
        if before := study.steps[: n_on_all_rows(study.steps)]:
            # Their rounds are in the plan of the fit.
            steps = unfitted_steps(before, study.label)
            fitted = plan(steps, federation).rounds
            judged = StudySteps([*steps.steps, (EVALUATION, judges, target, None)])
            more = _after(plan(judged, federation), fitted)
            names = listed([step.name for step in before])
            note = f"{names}: fitted on all rows before the folds, not within them."
            more = replace(more, notes=(*more.notes, note))
        else:
            more = plan(judges, federation, target)
    except DataError as wrong:
        raise DataError(f"{study.path.name}, [evaluate]: {wrong}") from wrong
    return joined_plans(planned, more)


def _after(planned: Plan, rounds: int) -> Plan:
    """Return a plan without its first rounds."""
    later = (line for line in planned.releases if line.round > rounds)
    moved = (replace(line, round=line.round - rounds) for line in later)
    return replace(planned, releases=tuple(moved))


def joined_plans(planned: Plan, more: Plan) -> Plan:
    """Return the plan of a fit and of what comes after it."""
    last = max((line.round for line in planned.releases), default=0)
    later = (replace(line, round=line.round + last) for line in more.releases)
    reasons = dict.fromkeys((*planned.reasons, *more.reasons))
    return replace(
        planned,
        releases=(*planned.releases, *later),
        refusals=tuple(reason[:3] for reason in reasons),
        refused_columns=tuple(reason[3] for reason in reasons),
        notes=tuple(dict.fromkeys((*planned.notes, *more.notes))),
        latency=max(planned.latency, more.latency),
    )

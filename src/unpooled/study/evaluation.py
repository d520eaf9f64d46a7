"""The evaluation of a study, [evaluate]: its models judged on rows not fitted on.

    steps fitted ─> the same steps, unfitted ── cv folds ──> evaluation.json

It runs after the fit, as one call that the announced text makes.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import final

import numpy as np

from unpooled.data.atomic_file import replacing
from unpooled.errors import DataError, StudyError
from unpooled.federation.federation import Federation
from unpooled.federation.planning.dry_run import plan
from unpooled.federation.planning.plan import Plan
from unpooled.models.model_selection.cross_validation import CrossValidation
from unpooled.results.exhibits import Column, Exhibit, Table
from unpooled.results.summary import Summary
from unpooled.study.pipeline import unfitted_pipeline
from unpooled.study.study_file import StudyFile, StudyStep, target_of

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
    """

    cv: int
    scores: Mapping[str, list[float]]
    y: str | list[str] | None

    def summary(self) -> Summary:
        """Return its table: each score's mean, standard deviation and folds.

        The standard deviation has the denominator cv, as in scikit-learn's results.
        """
        folds = [Column(f"Fold {k + 1}", "number") for k in range(self.cv)]
        table = Table(
            "scores",
            [Column("Score"), Column("Mean", "number"), Column("SD", "number"), *folds],
            [
                (name, mean, deviation, *values)
                for name, mean, deviation, values in self._rows()
            ],
            note="Greater is better. SD: standard deviation over the folds.",
        )
        text = (
            f"All steps were fitted {self.cv} times, each time without one fold of the "
            f"rows, and judged on that fold."
        )
        title = f"Cross-validation with {self.cv} folds"
        return Summary(title, [Exhibit("Scores on new rows", text, [table])])

    def _rows(self) -> Iterator[tuple[str, float, float, list[float]]]:
        for name, values in self.scores.items():
            yield name, float(np.mean(values)), float(np.std(values)), values

    def write(self, folder: Path) -> Path:
        """Write it as JSON into a run's folder; return the path."""
        content = {"version": _VERSION, **asdict(self)}
        content["mean"] = {name: mean for name, mean, _, _ in self._rows()}
        content["std"] = {name: deviation for name, _, deviation, _ in self._rows()}
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
            content = json.loads(path.read_text("utf-8"))
            scores = {
                str(name): [float(value) for value in values]
                for name, values in content["scores"].items()
            }
            return cls(cv=int(content["cv"]), scores=scores, y=content["y"])
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as wrong:
            raise StudyError(f"{path} is not an evaluation: {wrong}.") from wrong


def cross_validation(study: StudyFile) -> CrossValidation:
    """Return the unfitted cross-validation that [evaluate] asks for."""
    return cross_validation_of(study.steps, study.cv, study.scoring)


def cross_validation_of(
    steps: tuple[StudyStep, ...], cv: int, scoring: str | tuple[str, ...] | None
) -> CrossValidation:
    """Return the cross-validation of steps, as a study and a silo both make it."""
    names = list(scoring) if isinstance(scoring, tuple) else scoring
    return CrossValidation(unfitted_pipeline(steps, "rows"), cv=cv, scoring=names)


def evaluate(study: StudyFile, federation: Federation) -> Evaluation:
    """Cross-validate the steps of a study on its first view."""
    target = target_of(study.steps, study.label)
    found = cross_validation(study).fit(federation, target)
    scores = {name: own[0].tolist() for name, own in found.test_scores_.items()}
    return Evaluation(cv=study.cv, scores=scores, y=target)


def with_evaluation(study: StudyFile, planned: Plan, federation: Federation) -> Plan:
    """Return the plan of a study's fit with what its evaluation would exchange."""
    if not study.cv:
        return planned
    target = target_of(study.steps, study.label)
    try:
        more = plan(cross_validation(study), federation, target)
    except DataError as wrong:
        raise DataError(f"{study.path.name}, [evaluate]: {wrong}") from wrong
    return joined_plans(planned, more)


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

"""What a long step has reached, so that a continuation repeats no part of it."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from unpooled.data.atomic_file import replacing
from unpooled.errors import StudyError
from unpooled.models.base import FederatedEstimator
from unpooled.study.study_file import StudyStep

_FILE = "progress.json"


def begun(step: StudyStep, folder: Path) -> FederatedEstimator:
    """Return a step's model, which goes on where an earlier fit of it was stopped.

    Parameters
    ----------
    step : StudyStep
        Of the study file.
    folder : Path
        Of the run; what the fit reaches from now on is written into it.
    """
    path = folder / _FILE
    try:
        return step.estimator().continuing(_reached(path, step), _keeper(path, step))
    except (ValueError, TypeError, KeyError) as wrong:
        raise StudyError(
            f"{path} is not what step {step.name} had reached: {wrong}. Remove it to "
            f"begin the step anew."
        ) from wrong


def forget_progress(folder: Path) -> None:
    """Remove what the step that is finished now had reached."""
    (folder / _FILE).unlink(missing_ok=True)


def _reached(path: Path, step: StudyStep) -> Mapping[str, Any] | None:
    if not path.exists():
        return None
    content = json.loads(path.read_text("utf-8"))
    # It is another step's where the process died between finishing and removing.
    return content["reached"] if content["step"] == step.name else None


def _keeper(path: Path, step: StudyStep) -> Callable[[dict[str, Any]], None]:
    def keep(reached: dict[str, Any]) -> None:
        content = {"step": step.name, "reached": reached}
        try:
            with replacing(path) as stream:
                stream.write(json.dumps(content, allow_nan=False).encode())
        except OSError as wrong:
            raise StudyError(f"Cannot write {path}: {wrong}.") from wrong

    return keep

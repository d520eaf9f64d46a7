"""Fitted models that a study brings up to date, and how they come along.

    study file   [[steps]] update = "runs/january/models/01-pca.unpooled"
    run's folder   earlier/<step>.unpooled: a continuation begins with the same model
    job            the same files, beside the study's text

What comes along is the model without its components, which an update finds anew.
"""

import base64
import copy
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from unpooled.errors import StudyError
from unpooled.models.files.model_file import load, save
from unpooled.study.study_file import StudyFile, StudyStep

EARLIER = "earlier"


def with_earlier(study: StudyFile, folder: Path) -> StudyFile:
    """Return a study whose updates begin with copies in the folder of its run.

    They are made where they are not there yet.
    """
    return replace(study, steps=tuple(_copied(s, folder) for s in study.steps))


def carried(study: StudyFile, *, again: bool) -> dict[str, str]:
    """Return what a job needs of the models to update: files as text, by step.

    `again` says that the server may have them from an earlier job.
    """
    files: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as work:
        for step in study.steps:
            if step.update is None or (again and not step.update.exists()):
                continue
            copied = _copied(step, Path(work)).update
            assert copied is not None
            files[step.name] = base64.b64encode(copied.read_bytes()).decode("ascii")
    return files


def with_carried(study: StudyFile, files: Any, folder: Path) -> StudyFile:
    """Return a study whose updates begin with files that came with a job.

    Parameters
    ----------
    study : StudyFile
        Its own paths are the submitter's, and not looked at.
    files : Any
        What `carried` returned, or anything else.
    folder : Path
        Where to put the files.
    """
    files = files if isinstance(files, Mapping) else {}
    steps = []
    for step in study.steps:
        path = folder / f"{step.name}.unpooled"
        if step.name in files:
            path.write_bytes(_bytes(files[step.name]))
        steps.append(step if step.update is None else replace(step, update=path))
    return replace(study, steps=tuple(steps))


def rows_before(folder: Path, step: str) -> int | None:
    """Return N of the fit that a finished step brought up to date, if it did."""
    path = folder / EARLIER / f"{step}.unpooled"
    return int(load(path).n_samples_) if path.exists() else None


def _copied(step: StudyStep, folder: Path) -> StudyStep:
    if step.update is None:
        return step
    path = folder / EARLIER / f"{step.name}.unpooled"
    if not path.exists():
        if not step.update.exists():
            raise StudyError(
                f"There is no model {step.update}, which step {step.name} is to bring "
                f"up to date."
            )
        model = copy.copy(step.estimator())
        model.__dict__.pop("components_", None)
        path.parent.mkdir(parents=True, exist_ok=True)
        save(model, path)
    return replace(step, update=path)


def _bytes(text: Any) -> bytes:
    try:
        return base64.b64decode(str(text), validate=True)
    except ValueError as wrong:
        raise StudyError("A model came with the job that is no file.") from wrong

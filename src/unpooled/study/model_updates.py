"""The files of fitted models that a study updates.

    study file     [[steps]] update = "runs/january/models/01-pca.unpooled"
    run's folder   earlier/<step>.unpooled: a copy, so that a continued run updates the
                   same model
    job            the same copies, sent beside the study's text

A copy lacks the model's components, which an update computes anew.
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
    """Return a study whose steps update copies in the folder of its run.

    Copies that do not exist yet are made.
    """
    return replace(study, steps=tuple(_with_copy(s, folder) for s in study.steps))


def carried(study: StudyFile, *, again: bool) -> dict[str, str]:
    """Return the model files that a job needs, in base64, by step.

    With `again` a file that is missing is left out: the server may have it from an
    earlier job.
    """
    files: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as work:
        for step in study.steps:
            if step.update is None or (again and not step.update.exists()):
                continue
            path = _with_copy(step, Path(work)).update
            assert path is not None
            files[step.name] = base64.b64encode(path.read_bytes()).decode("ascii")
    return files


def with_carried(study: StudyFile, files: Any, folder: Path) -> StudyFile:
    """Return a study whose steps update the model files that came with a job.

    Parameters
    ----------
    study : StudyFile
        Its own paths are those of the submitter and are not read.
    files : Any
        What `carried` returned; any other value counts as no files.
    folder : Path
        Where the files are written.
    """
    files = files if isinstance(files, Mapping) else {}
    steps = []
    for step in study.steps:
        path = folder / f"{step.name}.unpooled"
        if step.name in files:
            path.write_bytes(_decoded(files[step.name]))
        steps.append(step if step.update is None else replace(step, update=path))
    return replace(study, steps=tuple(steps))


def rows_before(folder: Path, step: str) -> int | None:
    """Return the sample size of the model that a finished step updated, or None."""
    path = folder / EARLIER / f"{step}.unpooled"
    return int(load(path).n_samples_) if path.exists() else None


def _with_copy(step: StudyStep, folder: Path) -> StudyStep:
    """Return a step that updates its copy in a folder, made if it is missing."""
    if step.update is None:
        return step
    path = folder / EARLIER / f"{step.name}.unpooled"
    if not path.exists():
        if not step.update.exists():
            raise StudyError(
                f"There is no model {step.update}, which step {step.name} updates."
            )
        model = copy.copy(step.estimator())
        model.__dict__.pop("components_", None)
        path.parent.mkdir(parents=True, exist_ok=True)
        save(model, path)
    return replace(step, update=path)


def _decoded(text: Any) -> bytes:
    try:
        return base64.b64decode(str(text), validate=True)
    except ValueError as wrong:
        raise StudyError("A model that came with the job is not base64.") from wrong

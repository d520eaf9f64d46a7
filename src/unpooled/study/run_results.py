"""The results of a run as files in its folder: tables, pictures, and all as JSON."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unpooled.errors import StudyError
from unpooled.report.text.methods import methods
from unpooled.report.versions import versions
from unpooled.results.files import (
    StepResults,
    can_write_xlsx,
    write_csv,
    write_json,
    write_pictures,
    write_xlsx,
)
from unpooled.study.evaluation import Evaluation
from unpooled.study.reporting import facts_of_run
from unpooled.study.run_folder import RunFolder
from unpooled.study.study_file import EVALUATION

if TYPE_CHECKING:
    from unpooled.report.facts import Facts

_FOLDER = "results"


def steps_of_run(path: str | Path) -> list[StepResults]:
    """Return the results of each finished step of a run, from its folder.

    Parameters
    ----------
    path : str or Path
        The folder of a run, which need not be complete.
    """
    place = RunFolder.open(Path(path))
    return _steps(place, facts_of_run(place))


def write_results(place: RunFolder, facts: "Facts", *, pictures: bool = True) -> Path:
    """Write a run's results into its folder; return the folder ``results``.

    Parameters
    ----------
    place : RunFolder
        Folder of the run.
    facts : Facts
        Those of the run.
    pictures : bool, default True
        Whether pictures are drawn too.
    """
    folder, steps = place.path / _FOLDER, _steps(place, facts)
    try:
        write_csv(folder, steps)
        if pictures:
            write_pictures(folder, steps)
        if can_write_xlsx():
            write_xlsx(folder, steps)
        place.write(f"{_FOLDER}/methods.txt", str(methods(facts)))
        # Last: where it is, the others are complete.
        write_json(folder, steps, _about(place))
    except OSError as wrong:
        raise StudyError(f"Cannot write {folder}: {wrong}.") from wrong
    return folder


def results_written(place: RunFolder) -> bool:
    """Whether a run's folder has its results."""
    return (place.path / _FOLDER / "results.json").exists()


def write_form(
    path: str | Path, form: str, out: str | Path | None = None
) -> Sequence[Path]:
    """Write the results of a run in one form; return the files.

    Parameters
    ----------
    path : str or Path
        The folder of a run, which need not be complete.
    form : {"csv", "json", "xlsx"}
        The form.
    out : str or Path, optional
        The folder for the files; ``results`` in the run's folder when omitted.
    """
    place = RunFolder.open(Path(path))
    steps = _steps(place, facts_of_run(place))
    folder = place.path / _FOLDER if out is None else Path(out)
    if form == "csv":
        return write_csv(folder, steps)
    if form == "json":
        return [write_json(folder, steps, _about(place))]
    return [write_xlsx(folder, steps)]


def _steps(place: RunFolder, facts: "Facts") -> list[StepResults]:
    steps = [
        StepResults(name, type(model).__name__, model.get_params(deep=False), summary)
        for (name, model), summary in zip(facts.models, facts.summaries, strict=True)
    ]
    if (judged := Evaluation.read(place.path)) is not None:
        parameters = {"cv": judged.cv, "scoring": list(judged.scores)}
        if judged.jackknife is not None:
            parameters["jackknife"] = len(judged.jackknife.block_rows)
        summary = judged.summary()
        steps.append(StepResults(EVALUATION, "CrossValidation", parameters, summary))
    return steps


def _about(place: RunFolder) -> dict[str, Any]:
    state = place.state
    return {
        "study": state.study,
        "silos": state.parties,
        "partition": state.partition,
        "versions": dict(versions()),
    }

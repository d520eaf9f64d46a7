"""Running a study step by step, so that it can end anywhere and go on from there.

step k   rounds ─> ledger.jsonl, each before it is opened
         fitted ─> models/<k>, silos/*.json ─> state.json says: k is finished
resume   load models 1..k, apply them to the silos' rows, ask for k + 1
"""

import logging
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, final

from unpooled.coordinator.coordinator import Coordinator
from unpooled.coordinator.round_cost import RoundRecord
from unpooled.errors import ReleaseRefusedError, StudyError, UnpooledError
from unpooled.federation.federation import Federation
from unpooled.federation.matching import agree_on_rows
from unpooled.federation.planning.dry_run import Plan
from unpooled.ledger import Ledger
from unpooled.models.files.model_file import save
from unpooled.party.memory.kept_arrays import KeptStore
from unpooled.party.party import Party
from unpooled.study.checkpoint import begun, forget_progress
from unpooled.study.definition import Listener, Study, pipeline_of
from unpooled.study.model_updates import part_of, with_earlier
from unpooled.study.reporting import write_report
from unpooled.study.run_folder import RunFolder, check_free
from unpooled.study.run_state import State, digest_of, told
from unpooled.study.simulated_federation import assembled
from unpooled.study.study_sections import StudyStep, target_of


@final
@dataclass(frozen=True, eq=False)
class Run:
    """What a run gave.

    Attributes
    ----------
    folder : Path
        Where everything is written.
    models : dict of str to estimator
        The fitted steps by name.
    pipeline : Pipeline
        All steps, as one scikit-learn Pipeline.
    ledger : Ledger
        What crossed the silos' doors, over all continuations.
    rounds : list of RoundRecord
        What each exchange cost.
    report : Path or None
        The report, if the study asks for one.
    """

    folder: Path
    models: dict[str, Any]
    pipeline: Any
    ledger: Ledger
    rounds: list[RoundRecord]
    report: Path | None


# In the run's folder, until the run is done: what simulated silos keep for later steps.
_KEPT = "silos/kept"

Planned = Callable[[Plan], None]
# (ledger to continue, next round) -> the federation, and the parties that live here.
Assemble = Callable[[Ledger | None, int], tuple[Federation, dict[str, Party]]]


def run(
    study: Study,
    folder: str | Path | None,
    listener: Listener | None,
    planned: Planned | None,
    assemble: Assemble | None = None,
) -> Run:
    """Run a study into an empty folder; see `Study.run`.

    `assemble` makes the federation where the parties do not all live in this process.
    """
    path = study.folder if folder is None else Path(folder).expanduser()
    check_free(path)
    federation, parties = (assemble or partial(assembled, study))(None, 1)
    # Before the folder is made: a study that a silo refuses leaves nothing behind.
    _plan(study, study.pipeline(), federation, planned)
    coordinator = _coordinator(federation)
    state = State(
        study=study.name,
        partition=study.partition,
        protection=study.secure_sum,
        digest=digest_of(study.text),
        file=os.path.relpath(study.path.resolve(), path.resolve()),
        parties=list(federation.parties),
        columns=list(federation.feature_names),
        policies=told(coordinator.policies or {}),
        simulated=assemble is None,
    )
    place = RunFolder.create(path, state, study.text)
    with place.alone():
        study = with_earlier(study, path)
        _remember(study, place, parties)
        place.log(f"Started study {study.name}.")
        coordinator.proofs = place.proofs()
        # One ledger for both: what the coordinator writes, the folder records.
        place.ledger, place.rounds = coordinator.ledger, coordinator.records
        return _go_on(study, place, federation, parties, listener)


def resume(
    study: Study,
    folder: str | Path | None,
    listener: Listener | None,
    planned: Planned | None,
    assemble: Assemble | None = None,
) -> Run:
    """Continue a run; see `Study.resume`, and `run` for `assemble`."""
    path = study.folder if folder is None else Path(folder).expanduser()
    if not path.exists():
        raise StudyError(f"There is no run in {path} to resume. Run the study first.")
    place = RunFolder.open(path)
    with place.alone():
        # Read again now that nobody else writes.
        place = RunFolder.open(path)
        _check_same(study, place)
        if place.state.done:
            return result_of(study, place)
        study = with_earlier(study, path)
        join = assemble or partial(assembled, study)
        federation, parties = join(place.ledger, place.next_round)
        coordinator = _coordinator(federation)
        coordinator.records, coordinator.proofs = place.rounds, place.proofs()
        _remember(study, place, parties)
        rest = study.steps[len(place.state.finished) :]
        if rest:
            view = _transformed(federation, [model for _, model in place.models()])
            _plan(
                study,
                pipeline_of((step.name, part_of(step)) for step in rest),
                view,
                planned,
            )
            place.state.resumed.append(place.next_round)
            place.write_state()
        place.log(f"Resumed; finished before: {', '.join(place.state.finished)}.")
        return _go_on(study, place, federation, parties, listener)


def _go_on(
    study: Study,
    place: RunFolder,
    federation: Federation,
    parties: dict[str, Party],
    listener: Listener | None,
) -> Run:
    coordinator = _coordinator(federation)
    coordinator.recorders.append(place.record)
    coordinator.listeners += [] if listener is None else [listener]
    finished = [model for _, model in place.models()]
    with _silo_log(place), _failures_logged(place):
        agree_on_rows(federation, parties)
        view = _transformed(federation, finished)
        rest = study.steps[len(finished) :]
        for number, step in enumerate(rest, 1):
            first = place.next_round
            model = _fitted(study, step, place.path, view)
            memories = {
                name: member.studies[study.name].logged
                for name, member in parties.items()
            }
            place.finish(step.name, model, memories)
            forget_progress(place.path)
            place.log(
                f"Finished {step.name}, rounds {first} to {place.next_round - 1}."
            )
            if number < len(rest):
                view = model.transform(view)
        models = place.models()
        save(pipeline_of(models), place.path / "pipeline.unpooled")
        if study.report:
            write_report(place)
        place.drop_proofs()
        shutil.rmtree(place.path / _KEPT, ignore_errors=True)
        place.state.done = True
        place.write_state()
        place.log("Done.")
    return result_of(study, place)


def _fitted(study: Study, step: StudyStep, folder: Path, view: Federation) -> Any:
    model: Any = begun(step, folder)
    if step.update is not None:
        return model.update(view)
    return model.fit(view, target_of([step], study.label))


def _remember(study: Study, place: RunFolder, parties: dict[str, Party]) -> None:
    """Give simulated silos what they remember, and a place for what they keep."""
    for party, member in parties.items():
        member.resume(
            study.name, place.memory(party), KeptStore(place.path / _KEPT / party)
        )


def result_of(study: Study, place: RunFolder) -> Run:
    """Read what a finished run gave from its folder."""
    models = place.models()
    return Run(
        folder=place.path,
        models=dict(models),
        pipeline=pipeline_of(models),
        ledger=place.ledger,
        rounds=place.rounds,
        report=place.path / "report.html" if study.report else None,
    )


def _transformed(federation: Federation, models: Sequence[Any]) -> Federation:
    for model in models:
        federation = model.transform(federation)
    return federation


def _plan(
    study: Study, model: Any, federation: Federation, planned: Planned | None
) -> None:
    """Plan what is still to be asked; refuse here what a silo would refuse there."""
    plan = study.plan_of(model, federation)
    for party, step, rule in plan.refusals:
        raise ReleaseRefusedError(party, step, rule)
    if planned is not None:
        planned(plan)


def _coordinator(federation: Federation) -> Coordinator:
    coordinator = federation.coordinator
    assert isinstance(coordinator, Coordinator)  # not a plan of one
    return coordinator


def _check_same(study: Study, place: RunFolder) -> None:
    if place.state.digest != digest_of(study.text):
        raise StudyError(
            f"{study.path.name} was changed since the run in {place.path} began; "
            f"{place.path / 'study.toml'} is the file as it was. Restore it, or run "
            f"the changed study in another folder."
        )
    finished = place.state.finished
    if finished != [step.name for step in study.steps][: len(finished)]:
        raise StudyError(
            f"{place.path / 'state.json'} names finished steps that the study has not."
        )
    for step, (_, model) in zip(study.steps, place.models(), strict=False):
        if type(model).__name__ != step.model:
            raise StudyError(
                f"The file of step {step.name} in {place.path / 'models'} holds a "
                f"{type(model).__name__}, not the {step.model} that was fitted."
            )


@contextmanager
def _failures_logged(place: RunFolder) -> Iterator[None]:
    try:
        yield
    except UnpooledError as reason:
        place.log(f"Failed: {reason}")
        raise
    except BaseException as reason:
        place.log(f"Stopped: {type(reason).__name__}.")
        raise


@contextmanager
def _silo_log(place: RunFolder) -> Iterator[None]:
    """Write the simulated silos' own reasons beside what they remember."""
    log = logging.getLogger("unpooled.party")
    path = place.path / "silos" / "log.txt"
    level, handler = log.level, logging.FileHandler(path, delay=True)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.setLevel(level)
        log.removeHandler(handler)
        handler.close()

"""A run of a study, step by step, so that it can be interrupted and continued.

step k   rounds ─> ledger.jsonl, each before its totals are opened
         fitted ─> models/<k>, silos/*.json ─> state.json: step k is finished
[evaluate]         the same steps on folds ─> evaluation.json
resume   load models 1..k, apply them to the silos' rows, fit step k + 1
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
from unpooled.coordinator.step_call import RoundRecord
from unpooled.data.columns import listing
from unpooled.errors import RULES, ReleaseRefusedError, StudyError, UnpooledError
from unpooled.federation.federation import Federation
from unpooled.federation.local import note_common_rows
from unpooled.federation.matching import agree_on_rows
from unpooled.federation.planning.plan import Plan
from unpooled.federation.progress import CallProgress
from unpooled.ledger import Ledger
from unpooled.models.files.model_file import save
from unpooled.party.memory.kept_arrays import KeptStore
from unpooled.party.party import Party
from unpooled.protocol.library_build import is_allowed, library_build
from unpooled.study.evaluation import Evaluation, evaluate, with_evaluation
from unpooled.study.further_results import add_further_results
from unpooled.study.model_updates import with_earlier
from unpooled.study.pipeline import after, pipeline_of, plan_fit
from unpooled.study.reporting import facts_of_run, write_report
from unpooled.study.run_folder import (
    RunFolder,
    RunState,
    check_free,
    digest_of,
    policy_records,
)
from unpooled.study.run_results import results_written, write_results
from unpooled.study.simulated_federation import simulated_federation
from unpooled.study.study_file import (
    StudyFile,
    StudyStep,
    n_on_all_rows,
    target_of,
)


@final
@dataclass(frozen=True, eq=False)
class Run:
    """The results of a run.

    Attributes
    ----------
    folder : Path
        Where everything is written.
    models : dict of str to estimator
        The fitted steps by name.
    pipeline : Pipeline
        The steps that transform rows, and the last, as one scikit-learn Pipeline.
    ledger : Ledger
        What crossed the silos' doors, also before an interruption.
    rounds : list of RoundRecord
        What each exchange cost.
    report : Path or None
        The report, if the study asks for one.
    evaluation : Evaluation or None
        The scores on folds, if the study asks for them.
    """

    folder: Path
    models: dict[str, Any]
    pipeline: Any
    ledger: Ledger
    rounds: list[RoundRecord]
    report: Path | None
    evaluation: Evaluation | None = None


# Called with (party, step, round) for each reply.
Listener = Callable[[str, str, int], None]
# Called with the plan before the first request.
Planned = Callable[[Plan], None]
# Called with the ledger to continue, or None, and the number of the next round; returns
# the federation, and the parties that are simulated in this process.
Assemble = Callable[[Ledger | None, int], tuple[Federation, dict[str, Party]]]

# Folder of the arrays that simulated silos keep for later steps, until the run is done.
_KEPT = "silos/kept"


def run(
    study: StudyFile,
    folder: str | Path | None = None,
    *,
    listener: Listener | None = None,
    planned: Planned | None = None,
    assemble: Assemble | None = None,
    follow: bool = False,
    verbose: bool | None = False,
) -> Run:
    """Run a study into an empty folder; see `Study.run`.

    `assemble` makes the federation; by default all parties are simulated. `verbose` is
    that of `unpooled.simulate`.
    """
    path = study.folder if folder is None else Path(folder).expanduser()
    check_free(path)
    federation, parties = (
        assemble or partial(simulated_federation, study, follow=follow)
    )(None, 1)
    # Before the folder is made: a study that a silo refuses leaves no folder behind.
    _plan(study, study.steps, federation, federation, planned)
    coordinator = _coordinator(federation)
    state = RunState(
        study=study.name,
        partition=study.partition,
        protection=study.secure_sum,
        digest=digest_of(study.text),
        file=os.path.relpath(study.path.resolve(), path.resolve()),
        parties=list(federation.parties),
        columns=list(federation.feature_names),
        policies=policy_records(coordinator.policies or {}),
        simulated=assemble is None,
        columns_of={
            party: list(own)
            for party, own in federation.columns_of.items()
            if study.partition == "columns"
        },
    )
    place = RunFolder.create(path, state, study.text)
    with place.locked():
        study = with_earlier(study, path)
        _restore_memories(study, place, parties)
        place.log(f"Started study {study.name}.")
        # The same objects: what the coordinator appends, the folder records.
        place.ledger, place.rounds = coordinator.ledger, coordinator.records
        CallProgress(coordinator, verbose)
        return _fit_rest(study, place, federation, parties, listener)


def resume(
    study: StudyFile,
    folder: str | Path | None = None,
    *,
    listener: Listener | None = None,
    planned: Planned | None = None,
    assemble: Assemble | None = None,
    verbose: bool | None = False,
) -> Run:
    """Continue a run; see `Study.resume`, and `run`."""
    path = study.folder if folder is None else Path(folder).expanduser()
    if not path.exists():
        raise StudyError(f"There is no run in {path} to resume. Run the study first.")
    with RunFolder.open(path).locked():
        # Read only now that no other process writes.
        place = RunFolder.open(path)
        _check_same(study, place)
        if place.state.done:
            # A run of an earlier version has none.
            if not results_written(place):
                write_results(place, facts_of_run(place), pictures=study.report)
            return result_of(study, place)
        _check_begun_by(study, place)
        study = with_earlier(study, path)
        join = assemble or partial(simulated_federation, study)
        federation, parties = join(place.ledger, place.next_round)
        coordinator = _coordinator(federation)
        coordinator.records = place.rounds
        _restore_memories(study, place, parties)
        rest = study.steps[len(place.state.finished) :]
        if rest and coordinator.follows:
            place.reopen_last()
            rest = study.steps[len(place.state.finished) :]
        if rest:
            view = _transformed(federation, [model for _, model in place.models()])
            _plan(study, rest, view, federation, planned)
        if rest or (study.evaluates and Evaluation.read(place.path) is None):
            place.state.resumed.append(place.next_round)
            place.write_state()
        CallProgress(coordinator, verbose)
        place.log(f"Resumed; finished before: {', '.join(place.state.finished)}.")
        return _fit_rest(study, place, federation, parties, listener)


def _fit_rest(
    study: StudyFile,
    place: RunFolder,
    federation: Federation,
    parties: dict[str, Party],
    listener: Listener | None,
) -> Run:
    """Fit the steps that are not finished, and complete the folder."""
    coordinator = _coordinator(federation)
    coordinator.recorders.append(place.record)
    coordinator.listeners += [] if listener is None else [listener]
    finished = [model for _, model in place.models()]
    with _silo_log(place), _failures_logged(place):
        matching = federation.layout.matching
        agree_on_rows(federation)
        note_common_rows(federation, parties)
        if matching:
            # Only now do silos know which of their rows they would read.
            rest = study.steps[len(finished) :]
            _plan(study, rest, _transformed(federation, finished), federation, None)
        view = _transformed(federation, finished)
        rest = study.steps[len(finished) :]
        for number, step in enumerate(rest, 1):
            first = place.next_round
            model = _fitted(step, place, view, study.label)
            memories = {
                name: party.studies[study.name].logged
                for name, party in parties.items()
            }
            place.finish(step.name, model, memories)
            place.log(
                f"Finished {step.name}, rounds {first} to {place.next_round - 1}."
            )
            if number < len(rest):
                view = after(model, view)
        if study.evaluates and Evaluation.read(place.path) is None:
            first = place.next_round
            n_before = n_on_all_rows(study.steps)
            before = [model for _, model in place.models()[:n_before]]
            evaluate(study, _transformed(federation, before)).write(place.path)
            place.record()
            place.log(f"Evaluated, rounds {first} to {place.next_round - 1}.")
        models = place.models()
        # By rows silos keep a part of few models, such as their own intercepts.
        if study.partition == "columns" or any("kept_" in vars(m) for _, m in models):
            _let_silos_write(study, place, coordinator)
        save(pipeline_of(models, study.partition), place.path / "pipeline.unpooled")
        carried = coordinator.carried
        place.state.carried |= {name: list(of) for name, of in carried.items()}
        facts = facts_of_run(place)
        if study.report:
            write_report(place, facts)
        write_results(place, facts, pictures=study.report)
        place.note_digests()
        shutil.rmtree(place.path / _KEPT, ignore_errors=True)
        place.state.done = True
        place.write_state()
        place.log("Done.")
    return result_of(study, place)


def _fitted(
    step: StudyStep, place: RunFolder, view: Federation, label: str | None
) -> Any:
    """Return the model of a step, fitted or updated."""
    model: Any = place.checkpointed(step, followed=view.coordinator.follows)
    if step.update is not None:
        return model.update(view)
    model.fit(view, target_of([step], label))
    add_further_results(step, model, view)
    return model


def _let_silos_write(
    study: StudyFile, place: RunFolder, coordinator: Coordinator
) -> None:
    """Tell the silos that they may write down what they keep; none need do so."""
    try:
        coordinator.send({"kind": "finish", "study": study.name})
    except UnpooledError as error:
        place.log(f"Not every silo wrote the results that it keeps. {error}")


def _restore_memories(
    study: StudyFile, place: RunFolder, parties: dict[str, Party]
) -> None:
    """Give each simulated silo its memory of the study, and a folder to keep arrays."""
    for name, party in parties.items():
        kept = KeptStore(place.path / _KEPT / name)
        own = place.path / "silos" / name / "results"
        party.resume(study.name, place.memory(name), kept, own)


def result_of(study: StudyFile, place: RunFolder) -> Run:
    """Return the results of a finished run from its folder."""
    models = place.models()
    return Run(
        folder=place.path,
        models=dict(models),
        pipeline=pipeline_of(models, study.partition),
        ledger=place.ledger,
        rounds=place.rounds,
        report=place.path / "report.html" if study.report else None,
        evaluation=Evaluation.read(place.path) if study.evaluates else None,
    )


def _transformed(federation: Federation, models: Sequence[Any]) -> Federation:
    for model in models:
        federation = after(model, federation)
    return federation


def _plan(
    study: StudyFile,
    steps: Sequence[StudyStep],
    view: Federation,
    federation: Federation,
    planned: Planned | None,
) -> None:
    """Plan the steps on a view; raise the refusals that the plan predicts.

    The evaluation, which comes after them, reads the whole federation.
    """
    plan = plan_fit(study, steps, view)
    plan = with_evaluation(study, plan, federation)
    for party, step, rule, columns in plan.reasons:
        parts = [
            f"Columns: {listing(columns)}." if columns else "",
            RULES.get(rule, ("", ""))[1],
            plan.explanations.get((party, rule), ""),
        ]
        raise ReleaseRefusedError(party, step, rule, " ".join(filter(None, parts)))
    if planned is not None:
        planned(plan)


def _coordinator(federation: Federation) -> Coordinator:
    coordinator = federation.coordinator
    assert isinstance(coordinator, Coordinator)  # and not the dry run of a plan
    return coordinator


def _check_same(study: StudyFile, place: RunFolder) -> None:
    """Refuse a study file that is not the one of the run."""
    if place.state.digest != digest_of(study.text):
        raise StudyError(
            f"{study.path.name} was changed since the run in {place.path} began; "
            f"{place.path / 'study.toml'} is the file as it was. Restore it, or run "
            f"the changed study in another folder."
        )
    finished = place.state.finished
    if finished != [step.name for step in study.steps][: len(finished)]:
        raise StudyError(
            f"{place.path / 'state.json'} names finished steps that the study does not "
            f"have."
        )
    for step, (_, model) in zip(study.steps, place.models(), strict=False):
        if type(model).__name__ != step.model:
            raise StudyError(
                f"The file of step {step.name} in {place.path / 'models'} holds a "
                f"{type(model).__name__}, not the {step.model} that was fitted."
            )


def _check_begun_by(study: StudyFile, place: RunFolder) -> None:
    """Refuse to continue what silos began under another build of the library.

    Two ends of different builds may compute different things under one declaration; so
    may the two halves of a study. Whoever simulates silos has one library for all.
    """
    if place.state.simulated:
        return
    builds = {build for own in place.ledger.libraries.values() for build in own}
    for build in sorted(builds):
        if not is_allowed(build, study.versions):
            raise StudyError(
                f"The study {study.name} was begun with unpooled {build or '0.1'}, "
                f"and the server now has {library_build()}. Install the former at all "
                f"ends to continue it, or run the study from its beginning under "
                f"another name.",
                rule="version",
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
    """Write the simulated silos' log, with the reasons of refusals, to silos/log.txt.

    A real silo writes these to a log of its own, which does not leave it.
    """
    log = logging.getLogger("unpooled.party")
    path = place.path / "silos" / "log.txt"
    level, handler = log.level, logging.FileHandler(path, encoding="utf-8", delay=True)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.setLevel(level)
        log.removeHandler(handler)
        handler.close()

"""The server's end of a study over a consortium: plan, run or resume, for a job.

    submitter                        server's job                       silos
    study's text ── job ──────────>  describe, plan, rounds <────────>  parties
    listener <── news, polled ─────  KIT/studies/<name>: the run's folder
    folder <── results, fetched ───  a copy of it, and the outcome

The run's folder stays in the server's kit, so that another job can continue the run if
this one fails. The submitter's end is `unpooled.study.submit`.
"""

import json
import logging
import shutil
import tempfile
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

import numpy as np

from unpooled.coordinator.channel import Channel
from unpooled.coordinator.coordinator import Coordinator
from unpooled.coordinator.replies import check_builds
from unpooled.data.atomic_file import replacing
from unpooled.data.columns import check_known, listing
from unpooled.data.study_columns import agree_on_categorical, agree_on_columns
from unpooled.errors import (
    AggregationError,
    DataError,
    ReleaseRefusedError,
    StudyError,
    UnpooledError,
)
from unpooled.federation.federation import Federation
from unpooled.federation.layout import Layout
from unpooled.federation.matching import how_to_match
from unpooled.federation.planning.plan import Plan
from unpooled.ledger import Ledger
from unpooled.party.party import Party
from unpooled.protocol.message import Message
from unpooled.secure.keys.roster import Roster
from unpooled.study.evaluation import with_evaluation
from unpooled.study.job_messages import News, error_record
from unpooled.study.model_updates import with_carried
from unpooled.study.pipeline import plan_fit
from unpooled.study.run import resume, run
from unpooled.study.run_folder import RunFolder
from unpooled.study.study_file import StudyFile

log = logging.getLogger("unpooled.engine")

# Called with the names of the parties and their time for a reply, in seconds.
OpenChannel = Callable[[tuple[str, ...], float], Channel]


def coordinate(
    content: Mapping[str, Any],
    open_channel: OpenChannel,
    *,
    kit: Path,
    results: Path,
    news: News,
) -> None:
    """Plan, run or resume the study of a job, and write the outcome. Never raises.

    Parameters
    ----------
    content : mapping
        The job's keys: "do" ("plan", "run" or "resume"), "file" and "text" of the
        study, and "models", the files of the models that it updates.
    open_channel : callable
        Returns the channel to the parties.
    kit : Path
        The server's startup kit, with its roster and the folders of runs.
    results : Path
        Folder of the results for the submitter: outcome.json, run/.
    news : News
        Is given the plan and the progress.
    """
    outcome: dict[str, Any] = {"error": None}
    place: Path | None = None
    try:
        study = StudyFile.from_text(Path(str(content["file"])), str(content["text"]))
        own = kit / "studies" / study.name
        # Before the folder is among the results: an earlier run is not this one's.
        _check_unused(study, own, str(content["do"]))
        place = own
        with tempfile.TemporaryDirectory() as work:
            study = with_carried(study, content.get("models"), Path(work))
            _carry_out(
                str(content["do"]), study, open_channel, kit=kit, place=place, news=news
            )
    except BaseException as error:
        if not isinstance(error, UnpooledError):
            log.exception("The study failed")
        outcome["error"] = error_record(error)
    try:
        if place is not None and (place / "state.json").exists():
            shutil.copytree(place, results / "run", dirs_exist_ok=True)
        results.mkdir(parents=True, exist_ok=True)
        with replacing(results / "outcome.json") as stream:
            stream.write(json.dumps(outcome | news.answer({})).encode())
    except Exception:
        log.exception("The outcome cannot be written")


def _check_unused(study: StudyFile, place: Path, action: str) -> None:
    if action == "run" and (place / "state.json").exists():
        raise StudyError(
            f"The server has a run of a study {study.name} already. Continue that one "
            f"(resume), or give this study another name."
        )


def _carry_out(
    action: str,
    study: StudyFile,
    open_channel: OpenChannel,
    *,
    kit: Path,
    place: Path,
    news: News,
) -> None:
    channel = open_channel(tuple(study.parties), study.timeout)
    roster = _roster(kit, study)

    def assemble(
        ledger: Ledger | None, first_round: int
    ) -> tuple[Federation, dict[str, Party]]:
        coordinator = Coordinator(
            channel,
            roster,
            study=study.name,
            protection=study.secure_sum,
            ledger=ledger,
            first_round=first_round,
            partition=study.partition,
            follows=True,
            allowed_builds=study.versions,
        )
        answers = _announce(study, coordinator)
        announced.append(answers)
        if action != "plan":
            _require_approval(study, answers.undecided)
        return federation_of(study, coordinator), {}

    announced = list[_Announced]()

    def planned(plan: Plan) -> None:
        news.planned(replace(plan, **vars(announced[-1])))

    if action == "plan":
        federation, _ = assemble(None, 1)
        plan = plan_fit(study, study.steps, federation)
        planned(with_evaluation(study, plan, federation))
        return
    begun = (place / "state.json").exists()
    # A job that failed early may leave an incomplete folder: the study is run anew.
    if not begun:
        shutil.rmtree(place, ignore_errors=True)
    start = resume if begun else run
    start(
        study,
        place,
        listener=news.arrived,
        planned=planned,
        assemble=assemble,
    )
    _deliver(study, Coordinator(channel, roster, study=study.name), place)


@final
@dataclass(frozen=True)
class _Announced:
    """The silos' answers to the announcement of the study; as in `Plan`."""

    libraries: Mapping[str, str]
    undecided: Mapping[str, str]


def _announce(study: StudyFile, coordinator: Coordinator) -> _Announced:
    """Send the study's text to the silos; refuse other builds of the library.

    The text is there for those who approve, also where a study is only planned.
    """
    header = {"kind": "announce", "study": study.name, "text": study.text}
    replies = coordinator.send(header)
    approvals = {p: str(reply.header["approval"]) for p, reply in replies.items()}
    return _Announced(
        libraries=check_builds(study.name, replies, study.versions),
        undecided={
            party: "denied" if approval == "denied" else "waiting"
            for party, approval in approvals.items()
            if approval not in ("approved", "not needed")
        },
    )


def _require_approval(study: StudyFile, undecided: Mapping[str, str]) -> None:
    """Refuse a run that a person has denied, or that waits for some."""
    for party, decision in undecided.items():
        if decision == "denied":
            raise ReleaseRefusedError(party, f"the study {study.name}", "denied")
    if undecided:
        waiting = ", ".join(undecided)
        raise ReleaseRefusedError(waiting, f"the study {study.name}", "approval")


def _deliver(study: StudyFile, coordinator: Coordinator, place: Path) -> None:
    """Send the fitted models to the silos; a silo that refuses them is logged."""
    folder = RunFolder.open(place)
    files = {path.stem: path for path in sorted((place / "models").iterdir())}
    for name, path in (files | {"pipeline": place / "pipeline.unpooled"}).items():
        header = {"kind": "deliver", "study": study.name, "name": name}
        content = np.frombuffer(path.read_bytes(), np.uint8)
        try:
            coordinator.send(header, {"file": content})
        except UnpooledError as error:
            folder.log(f"Not delivered to every silo: {name}. {error}")


def federation_of(study: StudyFile, coordinator: Coordinator) -> Federation:
    """Return the federation of a study; the silos describe their tables."""
    replies = coordinator.send({"kind": "describe"})
    columns: dict[str, tuple[str, ...]] = {}
    for party, reply in replies.items():
        columns[party] = _names(party, reply.header["columns"], "columns")
        if reply.header["partition"] != study.partition:
            raise ReleaseRefusedError(party, f"the study {study.name}", "partition")
    _check_label(study, {p: reply.header["label"] for p, reply in replies.items()})
    categorical = {
        party: _names(party, reply.header["categorical"], "columns of categories")
        for party, reply in replies.items()
    }
    if study.partition == "columns":
        ordered = {party: columns[party] for party in study.parties}
        matching = how_to_match("columns", study.ids, study.aligned)
        every = [name for own in categorical.values() for name in own]
        layout = Layout.of_columns(ordered, _rows(replies), matching, every)
        _check_categorical(study, every)
    else:
        shared = _shared_columns(study, columns)
        coded = agree_on_categorical(shared, categorical)
        _check_categorical(study, coded)
        layout = Layout.of_rows(study.parties, shared, coded)
    return Federation(
        coordinator,
        layout=layout,
        named=all(reply.header["named"] is True for reply in replies.values()),
        label=study.label,
        random_state=study.random_state,
    )


def _names(party: str, sent: Any, what: str) -> tuple[str, ...]:
    """Return the names that a party sent; refuse what is no list of names."""
    if not isinstance(sent, list) or not all(isinstance(name, str) for name in sent):
        raise AggregationError(
            f"{party} did not send the names of its {what}.", rule="malformed_message"
        )
    return tuple(sent)


def _check_categorical(study: StudyFile, coded: Collection[str]) -> None:
    if undeclared := [name for name in study.categorical if name not in coded]:
        raise DataError(
            f"Study {study.name} names columns of categories that the silos have as "
            f"numbers, or do not have: {listing(undeclared)}. Each silo's own file "
            f"names its columns of categories (categorical)."
        )


def _check_label(study: StudyFile, labels: Mapping[str, Any]) -> None:
    if study.label is None:
        return
    without = [party for party, label in labels.items() if label != study.label]
    # On a column partition a single silo has the label.
    if without and (study.partition == "rows" or len(without) == len(labels)):
        raise DataError(
            f"The label of study {study.name} is {study.label!r}, which {without[0]} "
            f"does not have as its label. The silo's own file names its label."
        )


def _rows(replies: Mapping[str, Message]) -> dict[str, int]:
    rows = {party: reply.header["rows"] for party, reply in replies.items()}
    for party, number in rows.items():
        if type(number) is not int or number < 1:
            raise AggregationError(
                f"{party} did not send its number of rows.", rule="malformed_message"
            )
    return rows


def _shared_columns(
    study: StudyFile, columns: Mapping[str, tuple[str, ...]]
) -> tuple[str, ...]:
    if study.columns is None:
        known = {name for names in columns.values() for name in names}
        check_known(study.exclude, known, "Among those that silos offer, a study")
        left = {
            party: [name for name in names if name not in study.exclude]
            for party, names in columns.items()
        }
        return agree_on_columns(left)
    for party, names in columns.items():
        if absent := [name for name in study.columns if name not in names]:
            raise DataError(
                f"{party} has no columns {', '.join(absent)}, which study "
                f"{study.name} reads, or does not offer them to studies.",
                rule="unknown_columns",
            )
    return study.columns


def _roster(kit: Path, study: StudyFile) -> Roster:
    path = kit / "local" / "roster.toml"
    if not path.exists():
        raise StudyError(
            "The server has no roster (local/roster.toml in its kit). Add the silos' "
            "public keys: unpooled silo pin PUBLIC... --kit KIT"
        )
    roster = Roster.from_file(path)
    if unknown := [party for party in study.parties if party not in roster]:
        raise StudyError(
            f"The server's roster does not have {', '.join(unknown)}. It has "
            f"{', '.join(roster)}."
        )
    return roster.part(study.parties)

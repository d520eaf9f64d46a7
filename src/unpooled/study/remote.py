"""A study over a consortium: what the server's end does, and what the submitter's.

    submitter                        server's job                       silos
    study's text ── job ──────────>  describe, plan, rounds <────────>  doors
    listener <── news, polled ─────  KIT/studies/<name>: the run's folder
    folder <── results, fetched ───  a copy of it, and the outcome

The run's folder stays in the server's kit, so that another job can go on with it when
this one dies.
"""

import json
import logging
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from unpooled.coordinator.channel import Channel
from unpooled.coordinator.coordinator import Coordinator
from unpooled.data.alignment import agree_on_columns
from unpooled.data.atomic_file import replacing
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
from unpooled.ledger import Ledger
from unpooled.party.party import Party
from unpooled.protocol.message import Message
from unpooled.secure.keys.roster import Roster
from unpooled.study.definition import Study
from unpooled.study.job_messages import News
from unpooled.study.job_results import error_record
from unpooled.study.model_updates import with_carried
from unpooled.study.run import resume, run
from unpooled.study.run_folder import EVIDENCE, RunFolder

log = logging.getLogger("unpooled.engine")


OpenChannel = Callable[[tuple[str, ...], float], Channel]


def coordinate(
    asked: Mapping[str, Any],
    open_channel: OpenChannel,
    *,
    kit: Path,
    results: Path,
    news: News,
) -> None:
    """Do what a job asks, and write its outcome: never raises.

    Parameters
    ----------
    asked : mapping
        "do" ("plan", "run" or "resume"), "file" and "text" of the study, and the
        "models" that it updates.
    open_channel : callable
        Makes the channel to parties, with their time for an answer.
    kit : Path
        The server's startup kit: its roster, and the folders of runs.
    results : Path
        Folder for what goes back to the submitter.
    news : News
        Where to tell how it goes.
    """
    outcome: dict[str, Any] = {"error": None}
    place: Path | None = None
    try:
        study = Study.from_text(Path(str(asked["file"])), str(asked["text"]))
        place = kit / "studies" / study.name
        with tempfile.TemporaryDirectory() as work:
            study = with_carried(study, asked.get("models"), Path(work))
            _do(str(asked["do"]), study, open_channel, kit, place, news)
    except BaseException as reason:
        if not isinstance(reason, UnpooledError):
            log.exception("The study failed")
        outcome["error"] = error_record(reason)
    try:
        if place is not None and (place / "state.json").exists():
            # The silos' signed replies stay where the study would go on.
            mine = shutil.ignore_patterns(EVIDENCE)
            shutil.copytree(place, results / "run", dirs_exist_ok=True, ignore=mine)
        results.mkdir(parents=True, exist_ok=True)
        with replacing(results / "outcome.json") as stream:
            stream.write(json.dumps(outcome | news.answer({})).encode())
    except Exception:
        log.exception("The outcome cannot be written")


def _do(
    what: str,
    study: Study,
    open_channel: OpenChannel,
    kit: Path,
    place: Path,
    news: News,
) -> None:
    channel = open_channel(tuple(study.silos), study.timeout)
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
        )
        _announce(study, coordinator, must=what != "plan")
        return federation_of(study, coordinator), {}

    if what == "plan":
        federation, _ = assemble(None, 1)
        news.planned(study.plan_of(study.pipeline(), federation))
        return
    begun = (place / "state.json").exists()
    if what == "run" and begun:
        raise StudyError(
            f"The server has a run of a study {study.name} already. Continue that one "
            f"(resume), or give this study another name."
        )
    # A job that died early left nothing to resume, or half a folder: then it is run.
    if not begun:
        shutil.rmtree(place, ignore_errors=True)
    start = resume if begun else run
    start(study, place, news.arrived, news.planned, assemble)
    _deliver(study, Coordinator(channel, roster, study=study.name), place)


def _announce(study: Study, coordinator: Coordinator, *, must: bool) -> None:
    """Tell the silos the study's text; where people decide, they must have by a run."""
    header = {"kind": "announce", "study": study.name, "text": study.text}
    for party, reply in coordinator.send(header).items():
        if must and reply.header["approval"] not in ("approved", "not needed"):
            raise ReleaseRefusedError(party, f"the study {study.name}", "approval")


def _deliver(study: Study, coordinator: Coordinator, place: Path) -> None:
    """Hand every silo the fitted models; one that takes none is no failure."""
    run_of = RunFolder.open(place)
    files = {path.stem: path for path in sorted((place / "models").iterdir())}
    for name, path in (files | {"pipeline": place / "pipeline.unpooled"}).items():
        header = {"kind": "deliver", "study": study.name, "name": name}
        content = np.frombuffer(path.read_bytes(), np.uint8)
        try:
            coordinator.send(header, {"file": content})
        except UnpooledError as reason:
            run_of.log(f"Not delivered everywhere: {name}. {reason}")


def federation_of(study: Study, coordinator: Coordinator) -> Federation:
    """Ask the silos what they have, and return the federation of a study."""
    replies = coordinator.send({"kind": "describe"})
    columns: dict[str, tuple[str, ...]] = {}
    for party, reply in replies.items():
        names = reply.header["columns"]
        if not isinstance(names, list) or not all(isinstance(n, str) for n in names):
            raise AggregationError(
                f"{party} did not tell its columns.", rule="malformed_message"
            )
        columns[party] = tuple(names)
        if reply.header["partition"] != study.partition:
            raise ReleaseRefusedError(party, f"the study {study.name}", "partition")
    _check_label(study, {p: reply.header["label"] for p, reply in replies.items()})
    if study.partition == "columns":
        ordered = {party: columns[party] for party in study.silos}
        how = how_to_match("columns", study.ids, study.aligned)
        layout = Layout.of_columns(ordered, _rows(replies), how)
    else:
        layout = Layout.of_rows(study.silos, _agreed(study, columns))
    return Federation(
        coordinator,
        layout=layout,
        named=all(reply.header["named"] is True for reply in replies.values()),
        label=study.label,
        random_state=study.random_state,
    )


def _check_label(study: Study, labels: Mapping[str, Any]) -> None:
    if study.label is None:
        return
    without = [party for party, label in labels.items() if label != study.label]
    # On a column partition one silo has the label, for all.
    if without and (study.partition == "rows" or len(without) == len(labels)):
        raise DataError(
            f"The label of study {study.name} is {study.label!r}, which {without[0]} "
            f"does not have as its label. It stands in the silo's own file."
        )


def _rows(replies: Mapping[str, Message]) -> dict[str, int]:
    rows = {party: reply.header["rows"] for party, reply in replies.items()}
    for party, number in rows.items():
        if type(number) is not int or number < 1:
            raise AggregationError(
                f"{party} did not tell its number of rows.", rule="malformed_message"
            )
    return rows


def _agreed(study: Study, columns: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    if study.columns is None:
        return agree_on_columns(columns)
    for party, names in columns.items():
        if absent := [name for name in study.columns if name not in names]:
            raise DataError(
                f"{party} has no columns {', '.join(absent)}, which study "
                f"{study.name} asks for, or does not show them to studies.",
                rule="unknown_columns",
            )
    return study.columns


def _roster(kit: Path, study: Study) -> Roster:
    path = kit / "local" / "roster.toml"
    if not path.exists():
        raise StudyError(
            "The server has no roster (local/roster.toml in its kit). Put the public "
            "keys of the silos there, as the silos have them."
        )
    known = Roster.from_file(path)
    if unknown := [party for party in study.silos if party not in known]:
        raise StudyError(
            f"The server's roster does not have {', '.join(unknown)}. It has "
            f"{', '.join(known)}."
        )
    return known.part(study.silos)

"""A study over a consortium: what the server's end does, and what the submitter's.

    submitter                        server's job                       silos
    study's text ── job ──────────>  describe, plan, rounds <────────>  doors
    listener <── news, polled ─────  KIT/studies/<name>: the run's folder
    folder <── results, fetched ───  a copy of it, and the outcome

The run's folder stays in the server's kit, so that another job can go on with it when
this one dies.
"""

import dataclasses
import json
import logging
import shutil
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, final

from unpooled.data.alignment import agree_on_columns
from unpooled.errors import (
    AggregationError,
    ConvergenceError,
    DataError,
    ReleaseRefusedError,
    StudyError,
    UnpooledError,
)
from unpooled.federation.base import Federation
from unpooled.federation.channel import Channel
from unpooled.federation.planning import Plan
from unpooled.federation.rounds import Coordinator
from unpooled.ledger import Ledger, Release
from unpooled.models.files import replacing
from unpooled.party.runtime import Party
from unpooled.secure.roster import Roster
from unpooled.study.definition import Study
from unpooled.study.folder import RunFolder
from unpooled.study.running import resume, run

log = logging.getLogger("unpooled.engine")

OpenChannel = Callable[[tuple[str, ...], float], Channel]
_KINDS: dict[str, type[UnpooledError]] = {
    kind.__name__: kind
    for kind in (DataError, AggregationError, ConvergenceError, StudyError)
}


@final
class News:
    """What a running study tells whoever submitted it; asked from another thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._plan: dict[str, Any] | None = None
        self._events: list[list[Any]] = []

    def planned(self, plan: Plan) -> None:
        """Take the plan."""
        with self._lock:
            self._plan = record_of(plan)

    def arrived(self, party: str, step: str, number: int) -> None:
        """Take the news that a reply has arrived."""
        with self._lock:
            self._events.append([party, step, number])

    def since(self, asked: Any) -> dict[str, Any]:
        """Return the plan, and the events from a number on."""
        first = asked.get("since", 0) if isinstance(asked, Mapping) else 0
        first = first if type(first) is int and first >= 0 else 0
        with self._lock:
            return {"plan": self._plan, "first": first, "events": self._events[first:]}


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
        "do" ("plan", "run", "resume" or "continue"), "file" and "text" of the study.
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
        _do(str(asked["do"]), study, open_channel, kit, place, news)
    except BaseException as reason:
        if not isinstance(reason, UnpooledError):
            log.exception("The study failed")
        outcome["error"] = error_record(reason)
    try:
        if place is not None and (place / "state.json").exists():
            shutil.copytree(place, results / "run", dirs_exist_ok=True)
        results.mkdir(parents=True, exist_ok=True)
        with replacing(results / "outcome.json") as stream:
            stream.write(json.dumps(outcome | news.since({})).encode())
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
        )
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
    if what == "resume" and not begun:
        raise StudyError(
            f"The server has no run of a study {study.name} to resume. Run it first."
        )
    start = resume if begun else run
    start(study, place, news.arrived, news.planned, assemble)


def federation_of(study: Study, coordinator: Coordinator) -> Federation:
    """Ask the silos what they have, and return the federation of a study."""
    replies = coordinator.tell({"kind": "describe"})
    columns: dict[str, tuple[str, ...]] = {}
    for party, reply in replies.items():
        names = reply.header["columns"]
        if not isinstance(names, list) or not all(isinstance(n, str) for n in names):
            raise AggregationError(
                f"{party} did not tell its columns.", rule="malformed_message"
            )
        columns[party] = tuple(names)
        if study.label is not None and reply.header["label"] != study.label:
            raise DataError(
                f"The label of study {study.name} is {study.label!r}, which {party} "
                f"does not have as its label. It stands in the silo's own file."
            )
    if study.partition != "rows":
        raise StudyError("Studies over a consortium are row partitions, for now.")
    federation = Federation(
        coordinator,
        partition=study.partition,
        columns=_agreed(study, columns),
        named=all(reply.header["named"] is True for reply in replies.values()),
        label=study.label,
        random_state=study.random_state,
    )
    return federation


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
    return Roster({party: known[party] for party in study.silos})


def error_record(reason: BaseException) -> dict[str, Any]:
    """Return an error as it travels to the submitter."""
    record = {"kind": type(reason).__name__, "text": str(reason)}
    if isinstance(reason, ReleaseRefusedError):
        return record | {
            name: getattr(reason, name) for name in ("party", "step", "rule", "remedy")
        }
    if isinstance(reason, UnpooledError):
        return record | {"rule": reason.rule}
    return record | {
        "text": "The study failed at the coordinator. The reason is in the server's "
        "log.",
        "rule": "failed_in_silo",
    }


def error_of(record: Mapping[str, str]) -> UnpooledError:
    """Return the error that a record tells of."""
    if record["kind"] == "ReleaseRefusedError":
        return ReleaseRefusedError(
            *(str(record[name]) for name in ("party", "step", "rule", "remedy"))
        )
    kind = _KINDS.get(str(record["kind"]), AggregationError)
    return kind(str(record["text"]), rule=str(record["rule"]))


def record_of(plan: Plan) -> dict[str, Any]:
    """Return a plan as JSON values."""
    return dataclasses.asdict(plan) | {
        "releases": [line.as_record() for line in plan.releases]
    }


def plan_from(record: Mapping[str, Any]) -> Plan:
    """Read what `record_of` returned."""
    try:
        return Plan(
            tuple(Release.from_record(line) for line in record["releases"]),
            tuple((str(p), str(s), str(r)) for p, s, r in record["refusals"]),
            tuple(map(str, record["parties"])),
            str(record["protection"]),
        )
    except (KeyError, TypeError, ValueError) as wrong:
        raise StudyError(f"This is not a plan: {wrong}.") from wrong


def read_results(outcome: Path) -> tuple[dict[str, Any], RunFolder | None]:
    """Read what a job wrote: its outcome, and the run's folder where there is one."""
    try:
        content = json.loads(outcome.read_text("utf-8"))
        if not isinstance(content, dict):
            raise ValueError("it is no table")
    except (OSError, ValueError) as wrong:
        raise StudyError(f"The server's answer cannot be read: {wrong}.") from wrong
    place = outcome.parent / "run"
    return content, RunFolder.open(place) if place.exists() else None

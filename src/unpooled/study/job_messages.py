"""Messages of a job to its submitter, as JSON: plan, events, errors, results.

{"plan": {...} or null, "first": 0, "events": [[party, step, round], ...]}
the same with "size": bytes of the results, once they are ready
{"part": base64}     a part of the results

outcome.json, in the results: the first of these with "error": {...} or null
"""

import base64
import dataclasses
import io
import threading
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, final

from unpooled.errors import (
    AggregationError,
    ConvergenceError,
    DataError,
    ReleaseRefusedError,
    StudyError,
    UnpooledError,
)
from unpooled.federation.planning.plan import Plan
from unpooled.ledger import Release
from unpooled.ledger.json_text import from_json
from unpooled.study.run_folder import RunFolder

PART = 2**20  # bytes of results in one answer

_KINDS: dict[str, type[UnpooledError]] = {
    kind.__name__: kind
    for kind in (DataError, AggregationError, ConvergenceError, StudyError)
}


@final
class News:
    """Progress, plan and results that a running job serves to its submitter.

    The study's thread writes; `answer` is called from another. The results are served
    here because NVFlare publishes a job's own results some seconds after its end, and
    minutes after it where a silo was lost.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._plan: dict[str, Any] | None = None
        self._events: list[list[Any]] = []
        self._results: bytes | None = None
        self._taken = threading.Event()

    def planned(self, plan: Plan) -> None:
        """Store the plan."""
        with self._lock:
            self._plan = plan_record(plan)

    def arrived(self, party: str, step: str, number: int) -> None:
        """Add an event: the reply of a party to a step, in a round."""
        with self._lock:
            self._events.append([party, step, number])

    def offer(self, results: Path, patience: float) -> None:
        """Serve the results until they are fetched, at most `patience` seconds."""
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in sorted(results.rglob("*")):
                archive.write(path, path.relative_to(results))
        with self._lock:
            self._results = packed.getvalue()
        self._taken.wait(patience)

    def answer(self, request: Any) -> dict[str, Any]:
        """Return the plan and new events, or a part of the results.

        Parameters
        ----------
        request : mapping
            "since" is the number of events that the submitter has, "part" the first
            byte of the part it needs, and "taken" says that it has all results. Any
            other value counts as an empty request.
        """
        request = request if isinstance(request, Mapping) else {}
        if request.get("taken") is True:
            self._taken.set()
        first = request.get("since", 0)
        first = first if type(first) is int and first >= 0 else 0
        start = request.get("part")
        with self._lock:
            events = self._events[first:]
            news = {"plan": self._plan, "first": first, "events": events}
            if self._results is not None:
                news["size"] = len(self._results)
                if type(start) is int and start >= 0:
                    part = self._results[start : start + PART]
                    return {"part": base64.b64encode(part).decode("ascii")}
            return news


def error_record(error: BaseException) -> dict[str, Any]:
    """Return an error as JSON values; the text of an unexpected error is left out."""
    record = {"kind": type(error).__name__, "text": str(error)}
    if isinstance(error, ReleaseRefusedError):
        return record | {
            name: getattr(error, name) for name in ("party", "step", "rule", "remedy")
        }
    if isinstance(error, UnpooledError):
        return record | {"rule": error.rule}
    return record | {
        "text": "The study failed at the coordinator. The reason is in the server's "
        "log.",
        "rule": "failed_in_silo",
    }


def error_of(record: Mapping[str, str]) -> UnpooledError:
    """Return the error of a record."""
    if record["kind"] == "ReleaseRefusedError":
        return ReleaseRefusedError(
            *(str(record[name]) for name in ("party", "step", "rule", "remedy"))
        )
    kind = _KINDS.get(str(record["kind"]), AggregationError)
    text, rule = str(record["text"]), str(record["rule"])
    return kind(text, rule=rule)


def plan_record(plan: Plan) -> dict[str, Any]:
    """Return a plan as JSON values."""
    return dataclasses.asdict(plan) | {
        "releases": [line.as_record() for line in plan.releases]
    }


def plan_of(record: Mapping[str, Any]) -> Plan:
    """Return the plan of a record; anything else is a `StudyError`."""
    try:
        return Plan(
            releases=tuple(Release.from_record(line) for line in record["releases"]),
            refusals=tuple((str(p), str(s), str(r)) for p, s, r in record["refusals"]),
            parties=tuple(map(str, record["parties"])),
            protection=str(record["protection"]),
            notes=tuple(map(str, record["notes"])),
            latency=float(record["latency"]),
            n_columns=int(record.get("n_columns", 0)),
            columns_at={
                str(party): int(own)
                for party, own in record.get("columns_at", {}).items()
            },
            refused_columns=tuple(
                tuple(map(str, names)) for names in record.get("refused_columns", ())
            ),
            libraries=_texts(record.get("libraries", {})),
            undecided=_texts(record.get("undecided", {})),
        )
    except (AttributeError, KeyError, TypeError, ValueError) as wrong:
        raise StudyError(f"This is not a plan: {wrong}.") from wrong


def _texts(record: Mapping[str, Any]) -> dict[str, str]:
    return {str(name): str(text) for name, text in record.items()}


def read_results(outcome: Path) -> tuple[dict[str, Any], RunFolder | None]:
    """Return the outcome of a job, and the run's folder if there is one."""
    try:
        content = from_json(outcome.read_text("utf-8"))
        if not isinstance(content, dict):
            raise ValueError("it is no table")
    except (OSError, ValueError) as wrong:
        raise StudyError(f"The server's answer cannot be read: {wrong}.") from wrong
    place = outcome.parent / "run"
    return content, RunFolder.open(place) if place.exists() else None

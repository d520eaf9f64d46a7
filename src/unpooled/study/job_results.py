"""What a job tells its submitter, as JSON: plans, errors, and how it ended."""

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

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
from unpooled.study.run_folder import RunFolder

_KINDS: dict[str, type[UnpooledError]] = {
    kind.__name__: kind
    for kind in (DataError, AggregationError, ConvergenceError, StudyError)
}


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
    rule = str(record["rule"])
    return kind(str(record["text"]), rule=rule)


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
            tuple(map(str, record["notes"])),
            float(record["latency"]),
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

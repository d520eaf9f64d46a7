"""What a run has reached, as its folder says it: state.json, versioned and checked."""

import dataclasses
import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final, get_origin

from unpooled.errors import StudyError
from unpooled.models.files.model_file import check_version

VERSION = 1


@final
@dataclass
class State:
    """What a run has reached.

    Attributes
    ----------
    study, partition, protection : str
        As in the study file.
    digest : str
        SHA-256 of the study file's text: a changed file is another study.
    file : str
        Where the study file is, from the run's folder.
    parties, columns : list of str
        Who takes part, and the federation's columns.
    policies : dict
        Each silo's rules as it told them; infinite limits as texts.
    finished : list of str
        Names of finished steps, in order.
    next_round : int
        Number of the next round.
    lines, head : int, str
        Length and last hash of the ledger when the last step was finished.
    simulated : bool
        Whether every party lived in the run's own process.
    resumed : list of int
        The first rounds of continuations.
    done : bool
        Whether everything is written.
    """

    study: str
    partition: str
    protection: str
    digest: str
    file: str
    parties: list[str]
    columns: list[str]
    policies: dict[str, dict[str, Any]]
    finished: list[str] = field(default_factory=list)
    next_round: int = 1
    lines: int = 0
    head: str = ""
    simulated: bool = True
    resumed: list[int] = field(default_factory=list)
    done: bool = False


def digest_of(text: str) -> str:
    """Return the name of a study file's content."""
    return hashlib.sha256(text.encode()).hexdigest()


def told(policies: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return policies as JSON can hold them: "inf" stands for no limit."""
    return {
        party: {
            key: str(v) if isinstance(v, float) and math.isinf(v) else _listed(v)
            for key, v in rules.items()
        }
        for party, rules in policies.items()
    }


def _listed(value: Any) -> Any:
    plain = isinstance(value, str | int | float | None)
    return list(value) if isinstance(value, Sequence) and not plain else value


def read_state(path: Path) -> State:
    """Read what the run in a folder has reached; anything else is a `StudyError`."""
    file = path / "state.json"
    try:
        content = json.loads(file.read_text("utf-8"))
        check_version(content, path, VERSION)
        del content["version"], content["unpooled"]
        check_fields(State, content)
        if not all(
            re.fullmatch(r"[A-Za-z0-9_-]+", step) for step in content["finished"]
        ):
            raise ValueError("a step's name is not one")
    except FileNotFoundError as absent:
        raise StudyError(
            f"{path} is not the folder of a run: it has no state.json."
        ) from absent
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as wrong:
        raise StudyError(f"{file} is not the state of a run: {wrong}.") from wrong
    return State(**content)


def check_fields(kind: type, content: Any) -> None:
    """Refuse JSON values that are not the fields of a dataclass, by their types."""
    types = {f.name: get_origin(f.type) or f.type for f in dataclasses.fields(kind)}
    if not isinstance(content, dict) or set(content) != set(types):
        raise ValueError(f"its keys are not {', '.join(types)}")
    for name, wanted in types.items():
        if type(content[name]) is not wanted:
            raise TypeError(f"{name} is {content[name]!r}")

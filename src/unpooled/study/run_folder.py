"""The folder of a run: its results, and what a run that was interrupted needs.

    runs/heart/
    ├── study.toml            the study file as it was read
    ├── state.json            which steps are finished; written after their files
    ├── models/01-<step>.unpooled, ...      after each finished step
    ├── earlier/*.unpooled    the models that steps update, as they were
    ├── progress.json         the checkpoint of a long fit, while it runs
    ├── pipeline.unpooled     the steps that transform rows, and the last, at the end
    ├── evaluation.json       the scores on folds, where the study asks for them
    ├── ledger.jsonl          one line per array that crossed a silo's door
    ├── rounds.jsonl          one line per exchange: seconds and bytes
    ├── silos/<party>.json    what a simulated silo remembers of the study
    ├── log.txt, silos/log.txt              the run's log; the simulated silos' own log
    ├── results/              tables and pictures of what was found, at the end
    ├── digests.json          SHA-256 of what a finished run has, for `unpooled audit`
    └── report.html

Lines are appended and forced to disk before any total of their round is opened. All
other files are replaced as a whole.
"""

import dataclasses
import hashlib
import json
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, final, get_origin

from unpooled.coordinator.step_call import RoundRecord
from unpooled.data.atomic_file import replacing
from unpooled.errors import StudyError
from unpooled.ledger import Ledger
from unpooled.ledger.json_text import from_json
from unpooled.models.base import FederatedEstimator
from unpooled.models.files.model_file import check_version, library_version, load, save
from unpooled.party.memory.audit_state import LoggedStudy
from unpooled.posix import lock
from unpooled.protocol.message import digest
from unpooled.study.study_file import StudyStep

_VERSION = 1  # of state.json
_CHECKPOINT = "progress.json"
_DIGESTS = "digests.json"
_NOTED = ("pipeline.unpooled", "evaluation.json", "rounds.jsonl", "report.html")


@final
@dataclass
class RunState:
    """The finished parts of a run: the content of state.json.

    Attributes
    ----------
    study, partition, protection : str
        As in the study file.
    digest : str
        SHA-256 of the study file's text: a changed file is another study.
    file : str
        Path of the study file, relative to the run's folder.
    parties, columns : list of str
        The parties, and the federation's columns.
    policies : dict
        The silos' rules, as JSON values; "inf" is no limit.
    finished : list of str
        Names of the finished steps, in order.
    next_round : int
        Number of the next round.
    lines, head : int, str
        Length and last hash of the ledger when the last step was finished.
    simulated : bool
        Whether all parties were in the run's own process.
    resumed : list of int
        The first round after each interruption.
    done : bool
        Whether the run is complete.
    carried : dict of str to list of str
        By party, columns of which one row carries half of a direction, or more, where
        the party tells it.
    columns_of : dict of str to list of str
        By party, its own columns, where they differ between parties.
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
    carried: dict[str, list[str]] = field(default_factory=dict)
    columns_of: dict[str, list[str]] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> "RunState":
        """Read the state of the run in a folder; anything else is a `StudyError`."""
        file = path / "state.json"
        try:
            content = from_json(file.read_text("utf-8"))
            check_version(content, path, _VERSION)
            del content["version"], content["unpooled"]
            # Earlier versions have none.
            content = {"carried": {}, "columns_of": {}} | content
            _check_fields(cls, content)
            # A step's name is part of a path.
            if not all(
                re.fullmatch(r"[A-Za-z0-9_-]+", step) for step in content["finished"]
            ):
                raise ValueError("a step's name is not one")
        except FileNotFoundError as absent:
            raise StudyError(
                f"{path} is not the folder of a run: it has no state.json. If a run "
                f"ended before it could write that, remove the folder and run anew."
            ) from absent
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as wrong:
            raise StudyError(f"{file} is not the state of a run: {wrong}.") from wrong
        return cls(**content)

    def begins(self, ledger: Ledger) -> bool:
        """Return whether a ledger begins with the lines of the finished steps."""
        finished = ledger[: self.lines]
        if len(finished) < self.lines:
            return False
        return not finished or finished[-1].hash == self.head


@final
class RunFolder:
    """The folder of a run, with its state, ledger and rounds in memory.

    Parameters
    ----------
    path : Path
        The folder.
    state : RunState
        What the run has finished.
    ledger : Ledger
        Grows with the run; `record` writes the new lines.
    rounds : list of RoundRecord
        Likewise.
    """

    def __init__(
        self, path: Path, state: RunState, ledger: Ledger, rounds: list[RoundRecord]
    ) -> None:
        self.path, self.state, self.ledger, self.rounds = path, state, ledger, rounds
        self._lines_written, self._rounds_written = len(ledger), list(rounds)

    @classmethod
    def create(cls, path: Path, state: RunState, text: str) -> "RunFolder":
        """Make the folder of a new run; call `check_free` first."""
        try:
            path.mkdir(parents=True, exist_ok=True)
            # If two processes start at the same time, only one can make the folder.
            (path / "models").mkdir()
            (path / "silos").mkdir()
        except OSError as wrong:
            raise StudyError(f"Cannot make the folder {path}: {wrong}.") from wrong
        folder = cls(path, state, Ledger(), [])
        folder.write("study.toml", text)
        folder.write_state()
        return folder

    @classmethod
    def open(cls, path: Path, *, mend: bool = True) -> "RunFolder":
        """Read the folder of a run; files that do not agree are a `StudyError`.

        Parameters
        ----------
        path : Path
            The folder.
        mend : bool, default True
            Whether an incomplete last line of ledger or rounds, which a process wrote
            when it ended, is removed from the file. Of a run that may still write, it
            is only left out.
        """
        state = RunState.read(path)
        ledger = Ledger.from_json(_whole_lines(path / "ledger.jsonl", mend=mend))
        ledger.verify()
        if not state.begins(ledger):
            raise StudyError(
                f"{path / 'ledger.jsonl'} lacks lines that the run wrote, or has "
                f"others. A run can be continued on its own ledger only."
            )
        return cls(path, state, ledger, _rounds(path / "rounds.jsonl", mend=mend))

    @property
    def next_round(self) -> int:
        """The number of the next round: above all numbers in the ledger."""
        used = max((line.round for line in self.ledger), default=0)
        return max(self.state.next_round, used + 1)

    def record(self) -> None:
        """Append new lines and rounds to their files, and force them to disk."""
        lines = self.ledger[self._lines_written :].to_lines()
        _append(self.path / "ledger.jsonl", lines)
        known = len(self._rounds_written)
        if self.rounds[:known] == self._rounds_written:
            text = _round_lines(self.rounds[known:])
            _append(self.path / "rounds.jsonl", text)
        else:
            # What a comparison cost was added to its request, which was written before.
            self.write("rounds.jsonl", _round_lines(self.rounds))
        self._lines_written, self._rounds_written = len(self.ledger), [*self.rounds]

    def finish(
        self, step: str, model: Any, memories: Mapping[str, LoggedStudy]
    ) -> None:
        """Write a fitted step; a continuation does not repeat it."""
        self.record()
        save(model, self._model_file(len(self.state.finished), step))
        for party, memory in memories.items():
            text = json.dumps(memory.as_record(), indent=1)
            self.write(f"silos/{party}.json", text + "\n")
        self.state.finished.append(step)
        self.state.next_round = self.next_round
        self.state.lines = len(self.ledger)
        self.state.head = self.ledger[-1].hash if len(self.ledger) else ""
        self.write_state()
        (self.path / _CHECKPOINT).unlink(missing_ok=True)

    def reopen_last(self) -> None:
        """Take the last step as unfinished unless all silos answered a later round.

        Silos that follow learn how a step ended from the next step's first request. A
        silo that did not receive it, perhaps because it ended just then, does not know
        the step's model, and its fit is run again.
        """
        answered: dict[int, set[str]] = {}
        for line in self.ledger[self.state.lines :]:
            answered.setdefault(line.round, set()).update(line.parties)
        if self.state.finished and set(self.state.parties) not in answered.values():
            self.state.finished.pop()
            self.write_state()

    def models(self) -> list[tuple[str, Any]]:
        """Return the finished models with the names of their steps."""
        return [
            (step, load(self._model_file(number, step)))
            for number, step in enumerate(self.state.finished)
        ]

    def checkpointed(self, step: StudyStep, *, followed: bool) -> FederatedEstimator:
        """Return a step's model, whose next fit continues from the last checkpoint.

        A long fit writes a checkpoint, the JSON file progress.json, after each part
        that need not be repeated. Without one the fit begins anew.

        Parameters
        ----------
        followed : bool
            Whether silos follow. They know what a part gave from the request after it,
            which may not have come; so the last part is repeated.
        """
        path, last = self.path / _CHECKPOINT, list[dict[str, Any]]()

        def write(reached: dict[str, Any]) -> None:
            before = last.pop() if last else None
            last.append(reached)
            content = {"step": step.name, "reached": reached, "before": before}
            self.write(_CHECKPOINT, json.dumps(content, allow_nan=False))

        try:
            reached = None
            if path.exists():
                content = from_json(path.read_text("utf-8"))
                # A finished step's checkpoint is still there if the process ended
                # just before it was removed.
                if content["step"] == step.name:
                    reached = content["before" if followed else "reached"]
            return step.estimator().continuing(reached, write)
        except (ValueError, TypeError, KeyError) as wrong:
            raise StudyError(
                f"{path} is not a checkpoint of step {step.name}: {wrong}. Remove it "
                f"to begin the step anew."
            ) from wrong

    def memory(self, party: str) -> LoggedStudy:
        """Return the memory of a simulated silo after the last finished step."""
        path = self.path / "silos" / f"{party}.json"
        if not self.state.finished:
            return LoggedStudy()
        try:
            return LoggedStudy.from_record(from_json(path.read_text("utf-8")))
        except (OSError, ValueError) as wrong:
            raise StudyError(f"Cannot read {path}: {wrong}.") from wrong

    def write(self, name: str, text: str) -> Path:
        """Replace a file of the folder; return its path."""
        path = self.path / name
        try:
            with replacing(path) as stream:
                stream.write(text.encode())
        except OSError as wrong:
            raise StudyError(f"Cannot write {path}: {wrong}.") from wrong
        return path

    def digests(self) -> dict[str, str]:
        """Return the SHA-256 of a finished run's files, as `note_digests` wrote them.

        Empty where it did not, as in a run that is not finished or of version 0.1.
        """
        path = self.path / _DIGESTS
        if not path.exists():
            return {}
        try:
            content = from_json(path.read_text("utf-8"))
            return {_inside(name): str(sha) for name, sha in content.items()}
        except (OSError, ValueError, AttributeError) as wrong:
            raise StudyError(f"{path} is not a list of digests: {wrong}.") from wrong

    def note_digests(self) -> None:
        """Write the SHA-256 of each model, of the evaluation and of the report."""
        files = [*self.path.glob("models/*"), *self.path.glob("earlier/*")]
        files += map(self.path.joinpath, _NOTED)
        found = {
            file.relative_to(self.path).as_posix(): digest(file.read_bytes())
            for file in sorted(files)
            if file.is_file()
        }
        self.write(_DIGESTS, json.dumps(found, indent=1) + "\n")

    def write_state(self) -> None:
        """Write state.json."""
        content = {"version": _VERSION, "unpooled": library_version()}
        content |= dataclasses.asdict(self.state)
        self.write("state.json", json.dumps(content, indent=1, allow_nan=False) + "\n")

    def log(self, message: str) -> None:
        """Append a line to the run's log."""
        time = datetime.now(UTC).isoformat(timespec="seconds")
        _append(self.path / "log.txt", f"{time} {message}\n")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes from running in this folder at the same time."""
        with (self.path / "log.txt").open("ab") as stream:
            try:
                free = lock(stream)
            except OSError as wrong:
                raise StudyError(
                    f"Nothing can keep two runs in {self.path} apart, since its drive "
                    f"has no locks: {wrong.strerror}. Choose a folder on a local disk."
                ) from wrong
            if not free:
                raise StudyError(f"Another process is running a study in {self.path}.")
            yield

    def _model_file(self, number: int, step: str) -> Path:
        return self.path / "models" / f"{number + 1:02}-{step}.unpooled"


def _inside(name: str) -> str:
    """Return the name of a file in the folder; refuse any other path."""
    parts = Path(name).parts
    if not parts or Path(name).is_absolute() or ".." in parts:
        raise ValueError(f"{name!r} is not in the folder")
    return name


def digest_of(text: str) -> str:
    """Return the SHA-256 digest of a study file's text."""
    return hashlib.sha256(text.encode()).hexdigest()


def policy_records(
    policies: Mapping[str, Mapping[str, Any]],
) -> dict[str, dict[str, Any]]:
    """Return the silos' policies as JSON values; "inf" is no limit."""

    def json_value(value: Any) -> Any:
        if isinstance(value, float) and math.isinf(value):
            return str(value)
        if isinstance(value, Sequence) and not isinstance(value, str):
            return list(value)
        return value

    return {
        party: {key: json_value(value) for key, value in rules.items()}
        for party, rules in policies.items()
    }


def study_file_of(path: Path) -> Path:
    """Return the path of the study file of the run in a folder."""
    # The path of the folder is kept as the user wrote it, relative or absolute.
    file = Path(os.path.normpath(path / RunState.read(path).file))
    if not file.is_file():
        raise StudyError(
            f"The run in {path} was of a study file {file}, which is not there. Name "
            f"the study file, and the folder with --out."
        )
    return file


def check_free(path: Path) -> None:
    """Refuse a folder that is not empty."""
    if path.exists() and not path.is_dir():
        raise StudyError(f"{path} is a file; a run needs a folder.")
    # Files that begin with a dot remain of a process that ended at its first write.
    if path.is_dir() and any(not p.name.startswith(".") for p in path.iterdir()):
        raise StudyError(
            f"{path} is not empty. Continue the run in it (resume), or name another "
            f"folder."
        )


def _round_lines(records: Sequence[RoundRecord]) -> str:
    return "".join(f"{json.dumps(dataclasses.asdict(one))}\n" for one in records)


def _rounds(path: Path, *, mend: bool) -> list[RoundRecord]:
    try:
        lines = _whole_lines(path, mend=mend).splitlines()
        records = [from_json(line) for line in lines]
        for record in records:
            _check_fields(RoundRecord, record)
    except (ValueError, TypeError) as wrong:
        raise StudyError(f"{path} is not a list of rounds: {wrong}.") from wrong
    return [RoundRecord(**record) for record in records]


def _check_fields(kind: type, content: Any) -> None:
    """Refuse JSON values that are not the fields of a dataclass, by their types."""
    types = {f.name: get_origin(f.type) or f.type for f in dataclasses.fields(kind)}
    if not isinstance(content, dict) or set(content) != set(types):
        raise ValueError(f"its keys are not {', '.join(types)}")
    for name, expected in types.items():
        if type(content[name]) is not expected:
            raise TypeError(f"{name} is {content[name]!r}")


def _append(path: Path, text: str) -> None:
    """Write text at the end of a file and force it to disk."""
    if not text:
        return
    try:
        with path.open("ab") as stream:
            stream.write(text.encode())
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as wrong:
        raise StudyError(f"Cannot write {path}: {wrong}.") from wrong


def _whole_lines(path: Path, *, mend: bool) -> str:
    """Return the JSON lines of a file, without an incomplete last line.

    With `mend` that line is cut off the file, too. A file that does not exist has no
    lines.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return ""
    except OSError as wrong:
        raise StudyError(f"Cannot read {path}: {wrong}.") from wrong
    whole, _, last = content.rpartition(b"\n")
    if last:
        whole += b"\n" * bool(whole)
        # The line may be complete and lack its line break only: then it is kept.
        whole += last + b"\n" if _is_json(last) else b""
        if mend:
            with replacing(path) as stream:
                stream.write(whole)
    try:
        return (whole if last else content).decode("ascii")
    except UnicodeDecodeError as wrong:
        raise StudyError(f"{path} is not made of JSON lines: {wrong}.") from wrong


def _is_json(line: bytes) -> bool:
    try:
        return isinstance(from_json(line), dict)
    except ValueError:
        return False

"""The folder of a run: everything that a killed run needs to go on, and its results.

    runs/heart/
    ├── study.toml            the study file as it was read
    ├── state.json            what is finished; written last, so what it names is there
    ├── models/01-<step>.unpooled, ...      after each finished step
    ├── earlier/*.unpooled    models to bring up to date, as they were
    ├── progress.json         what a long step has reached, while it runs
    ├── pipeline.unpooled     all steps, at the end
    ├── ledger.jsonl          one line per array that crossed a silo's door
    ├── rounds.jsonl          one line per exchange: seconds and bytes
    ├── evidence/*.replies    what silos signed while transforms were fitted
    ├── silos/<party>.json    what each simulated silo remembers: its own, and only here
    ├── log.txt, silos/log.txt              what happened; the silos' reasons
    └── report.html

Lines are appended and forced to disk before any total of their round is opened; all
other files are replaced in whole.
"""

import dataclasses
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, final

from unpooled.coordinator.fit_evidence import Proofs
from unpooled.coordinator.round_cost import RoundRecord
from unpooled.data.atomic_file import replacing
from unpooled.errors import StudyError
from unpooled.ledger import Ledger
from unpooled.models.files.model_file import library_version, load, save
from unpooled.party.memory.audit_state import LoggedStudy
from unpooled.study.append_only_file import append, exclusive, whole_lines
from unpooled.study.run_state import VERSION, State, check_fields, read_state

EVIDENCE = "evidence"


@final
class RunFolder:
    """A run's folder, with what it holds in memory.

    Parameters
    ----------
    path : Path
        The folder.
    state : State
        What the run has reached.
    ledger : Ledger
        Grows with the run; `record` writes what is new.
    rounds : list of RoundRecord
        Likewise.
    """

    def __init__(
        self, path: Path, state: State, ledger: Ledger, rounds: list[RoundRecord]
    ) -> None:
        self.path, self.state, self.ledger, self.rounds = path, state, ledger, rounds
        self._written = [len(ledger), len(rounds)]

    @classmethod
    def create(cls, path: Path, state: State, text: str) -> "RunFolder":
        """Make the folder of a new run; `check_free` comes before."""
        try:
            path.mkdir(parents=True, exist_ok=True)
            # Only one of two processes that start at the same time can make it.
            (path / "models").mkdir()
            (path / "silos").mkdir()
        except OSError as wrong:
            raise StudyError(f"Cannot make the folder {path}: {wrong}.") from wrong
        folder = cls(path, state, Ledger(), [])
        folder.write("study.toml", text)
        folder.write_state()
        return folder

    @classmethod
    def open(cls, path: Path) -> "RunFolder":
        """Read a folder back; what does not hold together is a `StudyError`.

        A line that a dying process wrote in part is dropped from ledger and rounds.
        """
        state = read_state(path)
        ledger = Ledger.from_json(whole_lines(path / "ledger.jsonl"))
        ledger.verify()
        kept = ledger[: state.lines]
        if len(kept) < state.lines or (kept and kept[-1].hash != state.head):
            raise StudyError(
                f"{path / 'ledger.jsonl'} lacks lines that the run wrote, or has "
                f"others. A run is not continued on another ledger than its own."
            )
        return cls(path, state, ledger, _rounds(path / "rounds.jsonl"))

    @property
    def next_round(self) -> int:
        """The number of the next round: above all that stand in the ledger."""
        used = max((line.round for line in self.ledger), default=0)
        return max(self.state.next_round, used + 1)

    def record(self) -> None:
        """Append lines and rounds that are not written yet, and force them to disk."""
        lines, rounds = self._written
        append(self.path / "ledger.jsonl", self.ledger[lines:].to_lines())
        text = [json.dumps(dataclasses.asdict(r)) + "\n" for r in self.rounds[rounds:]]
        append(self.path / "rounds.jsonl", "".join(text))
        self._written = [len(self.ledger), len(self.rounds)]

    def finish(
        self, step: str, model: Any, memories: Mapping[str, LoggedStudy]
    ) -> None:
        """Write a finished step; from then on no continuation repeats it."""
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

    def models(self) -> list[tuple[str, Any]]:
        """Return the finished models with the names of their steps."""
        return [
            (step, load(self._model_file(number, step)))
            for number, step in enumerate(self.state.finished)
        ]

    def memory(self, party: str) -> LoggedStudy:
        """Return what a simulated silo remembered when the last step was finished."""
        path = self.path / "silos" / f"{party}.json"
        if not self.state.finished:
            return LoggedStudy()
        try:
            return LoggedStudy.from_record(json.loads(path.read_text("utf-8")))
        except (OSError, ValueError, RecursionError) as wrong:
            raise StudyError(f"Cannot read {path}: {wrong}.") from wrong

    def proofs(self) -> Proofs:
        """Return the replies that silos ask to see when a transform is applied."""
        return Proofs(self.path / EVIDENCE)

    def drop_proofs(self) -> None:
        """Remove them, when nothing of the study is left to be asked."""
        shutil.rmtree(self.path / EVIDENCE, ignore_errors=True)

    def write(self, name: str, text: str) -> Path:
        """Replace a file of the folder."""
        path = self.path / name
        try:
            with replacing(path) as stream:
                stream.write(text.encode())
        except OSError as wrong:
            raise StudyError(f"Cannot write {path}: {wrong}.") from wrong
        return path

    def write_state(self) -> None:
        """Write what the run has reached."""
        content = {"version": VERSION, "unpooled": library_version()}
        content |= dataclasses.asdict(self.state)
        self.write("state.json", json.dumps(content, indent=1, allow_nan=False) + "\n")

    def log(self, message: str) -> None:
        """Write a line into the log."""
        time = datetime.now(UTC).isoformat(timespec="seconds")
        append(self.path / "log.txt", f"{time} {message}\n")

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep other processes from running in this folder at the same time."""
        with exclusive(self.path / "log.txt"):
            yield

    def _model_file(self, number: int, step: str) -> Path:
        return self.path / "models" / f"{number + 1:02}-{step}.unpooled"


def study_file_of(path: Path) -> Path:
    """Return where the study file of a run is, by the run's folder."""
    # Joined first, so that the way is the one that the user took to the folder.
    file = Path(os.path.normpath(path / read_state(path).file))
    if not file.is_file():
        raise StudyError(
            f"The run in {path} was of a study file {file}, which is not there. Name "
            f"the study file, and the folder with --out."
        )
    return file


def check_free(path: Path) -> None:
    """Refuse a folder that something is in."""
    if path.exists() and not path.is_dir():
        raise StudyError(f"{path} is a file; a run needs a folder.")
    # Files that begin with a dot are rests of an attempt that died at its first write.
    if path.is_dir() and any(not p.name.startswith(".") for p in path.iterdir()):
        raise StudyError(
            f"{path} is not empty. Continue the run in it (resume), or name another "
            f"folder."
        )


def _rounds(path: Path) -> list[RoundRecord]:
    try:
        records = [json.loads(line) for line in whole_lines(path).splitlines()]
        for record in records:
            check_fields(RoundRecord, record)
    except (ValueError, TypeError, RecursionError) as wrong:
        raise StudyError(f"{path} is not a list of rounds: {wrong}.") from wrong
    return [RoundRecord(**record) for record in records]

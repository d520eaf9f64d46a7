"""What a silo's audit log says, entry after entry: its state after a restart."""

import fnmatch
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, final

from unpooled.errors import StudyError
from unpooled.party.memory.hash_chain import Entry
from unpooled.party.rules.answered_columns import AnsweredColumns
from unpooled.party.rules.refusal_limit import Refusals
from unpooled.party.rules.released_share import OpenedNumbers
from unpooled.protocol.answered import Answered
from unpooled.protocol.message import digest

# A step that ran, with the transforms in front of it.
Ran = tuple[str, tuple[str, ...]]


@final
@dataclass(eq=False)
class LoggedStudy:
    """What the log says of one study.

    Attributes
    ----------
    lines : int
        Lines of the silo's own ledger.
    sealed : dict of str to int
        Of those, by the key that sealed them: each key has its own count.
    fitted : set of (str, tuple of str)
        Steps that ran, with the transforms in front of them, since the study was
        forgotten: what a view may apply.
    answered : dict of str to Answered
        Those rounds by the SHA-256 of the request.
    sessions : set of str
        Sessions that the silo joined, ever.
    text : str
        The study file as it was announced last; empty before.
    decision : mapping
        What a person decided last: "approved", "text" (a digest), "steps", "by".
    models : dict of str to str
        SHA-256 of the models that were delivered, by name, since it was forgotten.
    forgotten : int
        How often a person had the study forgotten.
    refusals : int
        How many refusals depended on rows.
    """

    lines: int = 0
    sealed: dict[str, int] = field(default_factory=dict)
    fitted: set[Ran] = field(default_factory=set)
    answered: dict[str, Answered] = field(default_factory=dict)
    sessions: set[str] = field(default_factory=set)
    text: str = ""
    decision: Mapping[str, Any] = field(default_factory=dict)
    models: dict[str, str] = field(default_factory=dict)
    forgotten: int = 0
    refusals: int = 0

    @property
    def approval(self) -> str:
        """Either "approved", "denied", "waiting" for a person, or "unknown"."""
        if not self.text:
            return "unknown"
        # A decision is on a text: another one under the same name waits for its own.
        if self.decision.get("text") != digest(self.text.encode()):
            return "waiting"
        return "approved" if self.decision["approved"] else "denied"

    def approves(self, step: str) -> bool:
        """Whether a person approved the study, and the step as part of it."""
        patterns = self.decision.get("steps", ())
        return self.approval == "approved" and any(
            fnmatch.fnmatchcase(step, pattern) for pattern in patterns
        )

    def as_record(self) -> dict[str, Any]:
        """Return what a simulated party needs to resume the study, as JSON values.

        The steps that ran, never their results: kept arrays are in a `KeptStore`, which
        outlives the process where it has a folder. Without one a step that needs them
        is refused as "nothing_kept".
        """
        return {
            "fitted": [[step, list(front)] for step, front in sorted(self.fitted)],
            "answered": {key: a.as_record() for key, a in self.answered.items()},
        }

    @classmethod
    def from_record(cls, record: Any) -> "LoggedStudy":
        """Read what `as_record` returned; anything else is a `StudyError`."""
        try:
            fitted = {(step, tuple(front)) for step, front in record["fitted"]}
            if not all(isinstance(n, str) for s, front in fitted for n in (s, *front)):
                raise TypeError("a step's name is not a text")
            if not all(isinstance(front, list) for _, front in record["fitted"]):
                raise TypeError("transforms are not a list")
            answered = {
                str(key): Answered.from_record(answered)
                for key, answered in record.get("answered", {}).items()
            }
        except (AttributeError, KeyError, TypeError, ValueError) as wrong:
            raise StudyError(
                f"This is not what a party remembers of a study: {wrong}."
            ) from wrong
        return cls(fitted=fitted, answered=answered)


@final
class AuditState:
    """The state that the entries of an audit log add up to.

    Attributes
    ----------
    studies : dict of str to LoggedStudy
        By study, in the order in which they came up.
    answered_columns : AnsweredColumns
        Answers by column, over all studies.
    notes : dict of str to list
        Notes about the table, so of no study: "version", "filled", "followed",
        "blocks", "selected" and "leverage".
    refusals : Refusals
        Refusals that depended on rows, over all studies.
    opened : OpenedNumbers
        The numbers that were opened, over all studies.
    spent : float
        The ρ charged for private releases, all together.
    heads : set of str
        Heads of this log that other silos saw, one for each session.
    pinned : dict of str to str
        The head of each other silo's log that was seen last, by the silo's key.
    """

    def __init__(self) -> None:
        self.studies: dict[str, LoggedStudy] = {}
        self.answered_columns = AnsweredColumns()
        kinds = ("version", "filled", "followed", "blocks", "selected", "leverage")
        self.notes: dict[str, list[dict[str, Any]]] = {kind: [] for kind in kinds}
        self.refusals, self.opened = Refusals(), OpenedNumbers()
        self.spent = 0.0
        self.heads: set[str] = set()
        self.pinned: dict[str, str] = {}

    def see(self, entry: Entry) -> None:
        """Take in an entry, in its order."""
        record = entry.record
        if entry.kind in self.notes:
            self.notes[entry.kind].append(record)
            return
        study = self.studies.setdefault(entry.study, LoggedStudy())
        if entry.kind == "line":
            study.lines += 1
            for seal in record["seals"].values():
                key = seal["key"]
                study.sealed[key] = study.sealed.get(key, 0) + 1
        elif entry.kind == "round":
            study.fitted.add((record["step"], tuple(record["front"])))
            if "answered" in record:  # else an earlier version wrote it
                answered = Answered.from_record(record["answered"])
                study.answered[record["request"]] = answered
            self.answered_columns.see(
                record["columns"],
                record["parties"],
                entry.time,
                record.get("mixtures", {}),
            )
            # Earlier versions wrote the cost with the round.
            self.spent += record.get("rho", 0.0)
            if "opened" in record:  # likewise
                self.opened.see(record["columns"], record["opened"])
        elif entry.kind == "charged":
            self.spent += record["rho"]
        elif entry.kind == "refused":
            study.refusals += bool(record.get("telling"))
            if record.get("telling"):
                # An earlier version wrote no question.
                asked = f"{record['asked']} {record['rule']}"
                question = record.get("question", asked)
                self.refusals.see(question, record["rule"], entry.time)
        elif entry.kind == "pardoned":
            self.refusals.forget()
        elif entry.kind == "joined":
            study.sessions.add(record["session"])
            self.heads.add(entry.hash)
        elif entry.kind == "heads":
            self.pinned |= record["heads"]
        elif entry.kind == "announced":
            study.text = record["text"]
        elif entry.kind == "decided":
            study.decision = record
        elif entry.kind == "delivered":
            study.models[record["name"]] = record["digest"]
        elif entry.kind == "resumed":
            earlier = LoggedStudy.from_record(record)
            study.fitted |= earlier.fitted
            study.answered |= earlier.answered
        elif entry.kind == "forgotten":
            study.forgotten += 1
            study.fitted, study.answered, study.models = set(), {}, {}

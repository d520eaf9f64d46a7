"""The state of a silo as its audit log has it, also after a restart."""

import base64
import fnmatch
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np

from unpooled.arrays import Array, UInt64
from unpooled.errors import StudyError
from unpooled.party.memory.hash_chain import Entry
from unpooled.party.rules.answered_rosters import UNKNOWN, AnsweredRosters
from unpooled.party.rules.refusal_limit import Refusals
from unpooled.party.rules.released_share import OpenedNumbers
from unpooled.protocol.answered import Answered
from unpooled.protocol.message import digest

# A step that ran, with the transforms in front of it.
Ran = tuple[str, tuple[str, ...]]


@final
@dataclass(frozen=True, eq=False)
class TableVersion:
    """A version of the silo's table.

    Attributes
    ----------
    columns : tuple of str
        Its features that studies may read.
    label : str
        The column of the label; empty where there is none.
    rows : (n,) array or None
        A digest of each row, sorted; None in a log in memory.
    only_ids : bool
        Whether its ids were matched, and nothing else of it was answered about.
    classes : dict of str to int, optional
        How many rows had each class of its label, by a digest of the class; None in a
        log in memory, and in notes of earlier versions of the library.
    """

    columns: tuple[str, ...]
    label: str
    rows: UInt64[Array, " n"] | None
    only_ids: bool = False
    classes: Mapping[str, int] | None = None

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "TableVersion":
        """Read a note of the log."""
        rows = record.get("rows")
        if rows is not None:
            rows = np.frombuffer(base64.b64decode(rows), "<u8")
        only_ids, classes = record.get("only_ids", False), record.get("classes")
        return cls(tuple(record["columns"]), record["label"], rows, only_ids, classes)


@final
@dataclass(frozen=True)
class Filling:
    """How the missing cells of a column are filled.

    Attributes
    ----------
    chosen : bool
        Whether somebody chose the number; otherwise a fit gave it.
    before : str
        Digest of the transforms of the column before it is filled.
    value : str
        The number, bit for bit.
    step : str
        The transform that fills them. Empty in notes of earlier versions of the
        library.
    former : str
        How notes of earlier versions of the library name it.
    """

    chosen: bool
    before: str
    value: str
    step: str = field(default="", compare=False)
    former: str = field(default="", compare=False)

    def as_record(self) -> dict[str, Any]:
        """Return JSON values."""
        record = {"chosen": self.chosen, "before": self.before, "value": self.value}
        return record | ({"step": self.step} if self.step else {})


@final
@dataclass(frozen=True)
class Setting:
    """The free numbers of a step that is not additive over rows.

    Attributes
    ----------
    table, step : str
        The version of the table, and the step.
    columns : tuple of str
        The source columns that it read, sorted.
    rows : tuple of int or None
        The blocks of the table; None of all rows.
    features, values : str
        Digests of the columns and transforms, and of the numbers. A step that adds over
        rows has no features.
    """

    table: str
    step: str
    columns: tuple[str, ...]
    rows: tuple[int, ...] | None
    features: str
    values: str

    def conflicts(self, other: "Setting") -> bool:
        """Whether the two totals would be points of one curve."""
        if set(self.columns).isdisjoint(other.columns):
            return False
        # A function of a silo's own matrix, of a part of it or in other units, is a
        # further equation for the same numbers.
        again = self.rows == other.rows and self.features != other.features
        return self.values != other.values or again

    def as_record(self) -> dict[str, Any]:
        """Return JSON values."""
        record = {name: getattr(self, name) for name in self.__dataclass_fields__}
        rows = None if self.rows is None else list(self.rows)
        return record | {"columns": list(self.columns), "rows": rows}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "Setting":
        """Read what `as_record` returned."""
        columns, rows = tuple(record["columns"]), record["rows"]
        rows = None if rows is None else tuple(rows)
        return cls(**{**record, "columns": columns, "rows": rows})


@final
@dataclass(eq=False)
class LoggedStudy:
    """The state of one study in the log.

    Attributes
    ----------
    lines : int
        Lines of the silo's own ledger.
    sealed : dict of str to int
        How many of those each key sealed: each has its own count.
    fitted : set of (str, tuple of str)
        Steps that ran, with the transforms in front of them, since the study was
        forgotten: what a view may apply.
    answered : dict of str to Answered
        Those rounds by the SHA-256 of the request.
    sessions : set of str
        Sessions that the silo joined, ever.
    keys : dict of str to mapping
        For sessions that it joined, the parties with the keys that were pinned. Earlier
        versions of the library wrote these with every round.
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
    keys: dict[str, Mapping[str, str]] = field(default_factory=dict)
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
        """Return the state to resume a simulated party's study, as JSON values.

        The steps that ran, never their results: kept arrays are in a `KeptStore`, which
        outlives the process where it has a folder. Without a folder a step that needs
        them is refused as "nothing_kept".
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
    tables : dict of str to TableVersion
        Versions of the table that the silo answered about, by name.
    rosters : AnsweredRosters
        For which parties, over all studies.
    rows : dict of str to set of tuple of int
        The blocks of each selection, by version of the table.
    fillings : dict of (str, str) to Filling
        The first one of a column, by version of the table and column.
    settings : dict of (str, str) to list of Setting
        By version of the table and step.
    refusals : Refusals
        Refusals that depended on rows, over all studies.
    opened : OpenedNumbers
        The numbers that were opened, over all studies.
    pooled : dict of frozenset of str to int
        By roster, N of all its silos as last verified.
    spent : float
        The ρ charged for private releases and not refunded, all together.
    heads : set of str
        Heads of this log that other silos saw, one for each session.
    pinned : dict of str to str
        The head of each other silo's log that was seen last, by the silo's key.
    notes : dict of str to list
        Other notes, of no study: the table's "blocks", which of them were "selected",
        its "leverage", how many are "common_blocks", by which columns rows were
        "complete", which were "iterated" together, as which table they were "completed"
        and which were read "otherwise", which columns were "multiplied", what was
        "followed", the states of searches that were followed ("searched"); and of
        earlier versions of the library the table's "version", and how its cells were
        "filled".
    """

    def __init__(self) -> None:
        self.studies: dict[str, LoggedStudy] = {}
        self.tables: dict[str, TableVersion] = {}
        self.rosters = AnsweredRosters()
        self.rows: dict[str, set[tuple[int, ...]]] = {}
        self.fillings: dict[tuple[str, str], Filling] = {}
        self.settings: dict[tuple[str, str], list[Setting]] = {}
        self.spent = 0.0
        kinds = ("version", "filled", "followed", "searched", "blocks", "selected")
        kinds += ("leverage", "complete", "common_blocks")
        kinds += ("iterated", "completed", "otherwise", "multiplied")
        self.notes: dict[str, list[dict[str, Any]]] = {kind: [] for kind in kinds}
        self.refusals, self.opened = Refusals(), OpenedNumbers()
        self.pooled: dict[frozenset[str], int] = {}
        self.heads: set[str] = set()
        self.pinned: dict[str, str] = {}

    def see(self, entry: Entry) -> None:
        """Take in an entry, in its order."""
        if entry.kind in self.notes:
            self.notes[entry.kind].append(entry.record)
        elif entry.kind == "table":
            version, name = TableVersion.from_record(entry.record), entry.record["name"]
            if name not in self.tables or self.tables[name].only_ids:
                self.tables[name] = version
        elif entry.kind == "filling":
            for column, record in entry.record["columns"].items():
                key = (entry.record["table"], column)
                self.fillings.setdefault(key, Filling(**record))
        elif entry.kind == "setting":
            one = Setting.from_record(entry.record)
            self.settings.setdefault((one.table, one.step), []).append(one)
        else:
            study = self.studies.setdefault(entry.study, LoggedStudy())
            self._see_of_study(study, entry)

    def _see_of_study(self, study: LoggedStudy, entry: Entry) -> None:
        record = entry.record
        if entry.kind == "line":
            study.lines += 1
            for seal in record["seals"].values():
                key = seal["key"]
                study.sealed[key] = study.sealed.get(key, 0) + 1
        elif entry.kind == "round":
            study.fitted.add((record["step"], tuple(record["front"])))
            if "answered" in record:  # else an earlier version wrote it
                asked = record["answered"]
                if "keys" not in asked:
                    asked = {**asked, "keys": study.keys[asked["session"]]}
                answered = Answered.from_record(asked)
                study.answered[record["request"]] = answered
            self._see_round(record, entry.time)
        elif entry.kind == "compared":
            self.rosters.see(record["table"], record["parties"], entry.time)
        elif entry.kind == "charged":
            self.spent += record["rho"]
        elif entry.kind == "refunded":
            self.spent -= record["rho"]
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
            if "keys" in record:
                study.keys[record["session"]] = record["keys"]
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

    def _see_round(self, record: Mapping[str, Any], time: str) -> None:
        table = record.get("table", UNKNOWN)
        self.rosters.see(table, record["parties"], time)
        if record.get("rows") is not None:
            self.rows.setdefault(table, set()).add(tuple(record["rows"]))
        # Earlier versions wrote the cost with the round, and no opened numbers.
        self.spent += record.get("rho", 0.0)
        if "opened" in record:
            self.opened.see(record["columns"], record["opened"])
            if pooled := record["opened"].get("pooled", 0):
                self.pooled[frozenset(record["parties"])] = pooled

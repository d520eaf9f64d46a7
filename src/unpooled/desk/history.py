"""History of each study in a silo's audit log: texts, decisions, releases, refusals.

Everything is read from the entries of the log, in their order: a page shows what the
log has, and nothing that somebody remembers.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from functools import cached_property
from typing import Any, final

from unpooled.errors import RULES
from unpooled.ledger import Ledger, Release
from unpooled.party.memory.audit_state import AuditState
from unpooled.party.memory.hash_chain import Entry
from unpooled.protocol.message import digest
from unpooled.report.facts import Facts
from unpooled.study.announcement import Stated, stated


@final
@dataclass(frozen=True)
class Decision:
    """A person's decision about an announced text.

    Attributes
    ----------
    time : str
        As the log has it.
    approved : bool
        Whether the silo may take part.
    by, reason : str
        Who, and why; empty where it was not written down.
    text : str
        Digest of the text that it is about.
    """

    time: str
    approved: bool
    by: str
    reason: str
    text: str


@final
@dataclass(frozen=True)
class RefusedRequest:
    """A request that a rule of this silo refused."""

    time: str
    study: str
    asked: str
    rule: str

    @property
    def sentence(self) -> str:
        """The rule's sentence, without its remedy."""
        return RULES.get(self.rule, (self.rule, ""))[0]


@final
@dataclass(eq=False)
class StudyHistory:
    """The entries of one study, and what they add up to.

    Attributes
    ----------
    silo, name : str
        This silo, and the study.
    entries : list of Entry
        In their order.
    state : AuditState
        State of the whole log.
    """

    silo: str
    name: str
    state: AuditState
    entries: list[Entry] = field(default_factory=list)

    @property
    def key(self) -> str:
        """The study's name in addresses: no text from outside is part of a path."""
        return key_of(self.name)

    @property
    def first(self) -> str:
        """Time of the first entry."""
        return self.entries[0].time

    @property
    def last(self) -> str:
        """Time of the last entry."""
        return self.entries[-1].time

    @cached_property
    def lines(self) -> Ledger:
        """The ledger's lines that this silo wrote."""
        return Ledger([Release.from_record(r) for r in self._records("line")])

    @cached_property
    def rounds(self) -> list[dict[str, Any]]:
        """The records of the answered rounds."""
        return self._records("round")

    @cached_property
    def texts(self) -> list[tuple[str, str]]:
        """Time and text of each announcement."""
        return [(e.time, e.record["text"]) for e in self._of("announced")]

    @property
    def text(self) -> str:
        """The text that was announced last; empty before."""
        return self.texts[-1][1] if self.texts else ""

    @cached_property
    def says(self) -> Stated | None:
        """The content of the present text; None if it is not a study's."""
        try:
            return stated(self.name, self.text)
        except Exception:
            # Anybody may have written the text: whatever it does to its reader, the
            # rest of the page stands.
            return None

    @cached_property
    def decisions(self) -> list[Decision]:
        """All decisions, oldest first."""
        return [
            Decision(
                entry.time,
                bool(entry.record["approved"]),
                str(entry.record["by"]),
                str(entry.record.get("reason", "")),
                str(entry.record["text"]),
            )
            for entry in self._of("decided")
        ]

    @property
    def decision(self) -> Decision | None:
        """The last decision about the present text."""
        present = digest(self.text.encode())
        about = [one for one in self.decisions if one.text == present]
        return about[-1] if about else None

    @cached_property
    def refusals(self) -> list[RefusedRequest]:
        """The requests that this silo refused."""
        return [refused_of(entry) for entry in self._of("refused")]

    @property
    def models(self) -> Mapping[str, str]:
        """SHA-256 of the models that were delivered, by name."""
        return self.state.studies[self.name].models

    @property
    def is_over(self) -> bool:
        """Whether the last of its models came after the present text."""
        last = ""
        for entry in self.entries:
            if entry.kind == "announced":
                last = ""
            elif entry.kind == "delivered":
                # The last of a study's models has all of them.
                last = entry.record["name"]
        return last == "pipeline"

    @property
    def parties(self) -> tuple[str, ...]:
        """The silos of the last session, or else those that the text names."""
        sessions = [*self._records("joined"), *self.rounds]
        if sessions:
            return tuple(sessions[-1]["parties"])
        return self.says.parties if self.says is not None else ()

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of this silo that answered rounds read."""
        read = (column for one in self.rounds for column in one["columns"])
        return tuple(dict.fromkeys(read))

    @property
    def left(self) -> list[Release]:
        """The lines of arrays that left."""
        return [x for x in self.lines if x.leaves]

    @property
    def n_bytes(self) -> int:
        """Size of the arrays that left, in bytes."""
        return sum(line.bytes for line in self.left)

    @property
    def numbers(self) -> float:
        """How many new numbers the study opened, of those that the budget counts."""
        return sum(one.get("opened", {}).get("numbers", 0.0) for one in self.rounds)

    def facts(self, models: Sequence[tuple[str, Any]] = ()) -> Facts:
        """Return the facts of a report, from this silo's own lines alone.

        Parameters
        ----------
        models : sequence of (str, estimator)
            The models that were delivered to the silo.
        """
        says = self.says
        return Facts(
            title=f"Study {self.name}",
            study=self.name,
            parties=self.parties,
            partition=says.partition if says is not None else "rows",
            protection=protection_of(self.lines),
            ledger=self.lines,
            rounds=[],
            models=list(models),
            feature_names=self.columns,
            statement=dict(says.statement) if says is not None else {},
            silo=self.silo,
            rows_at_least=self._least_rows(),
        )

    def within(self, since: date, until: date) -> "StudyHistory | None":
        """Return the part of a period, both days included; None where it is empty.

        The text that was in force at its begin belongs to the period, too.
        """
        inside = [e for e in self.entries if since <= day_of(e.time) <= until]
        if not inside:
            return None
        before = [e for e in self.entries if day_of(e.time) < since]
        text = [e for e in before if e.kind == "announced"][-1:]
        decided = [e for e in before if e.kind == "decided"][-1:]
        entries = [*text, *decided, *inside]
        return StudyHistory(self.silo, self.name, self.state, entries)

    def _least_rows(self) -> int:
        """Return this silo's rows behind each round; 0 where the log does not say."""
        found = []
        for one in self.rounds:
            version = self.state.tables.get(one.get("table", ""))
            # Where blocks were selected, the log has their numbers and not their sizes.
            known = version is not None and one.get("rows") is None
            rows = version.rows if version is not None and known else None
            found.append(0 if rows is None else len(rows))
        return min(found, default=0)

    def _of(self, kind: str) -> list[Entry]:
        return [entry for entry in self.entries if entry.kind == kind]

    def _records(self, kind: str) -> list[dict[str, Any]]:
        return [entry.record for entry in self._of(kind)]


def histories(
    silo: str, entries: Iterable[Entry], state: AuditState
) -> dict[str, StudyHistory]:
    """Return the studies of a log by the keys that addresses have, oldest first."""
    found: dict[str, StudyHistory] = {}
    for entry in entries:
        if entry.study:
            name = entry.study
            one = found.setdefault(key_of(name), StudyHistory(silo, name, state))
            one.entries.append(entry)
    return found


def key_of(study: str) -> str:
    """Return sixteen digits for a study's name, whatever is in it."""
    return hashlib.sha256(study.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def protection_of(lines: Iterable[Release]) -> str:
    """Return how totals travelled: masked words are whole numbers, plain ones not."""
    totals = (x for x in lines if x.leaves and x.visibility in ("summed", "veiled"))
    return "plain" if any(x.dtype.startswith("float") for x in totals) else "masked"


def refused_of(entry: Entry) -> RefusedRequest:
    """Return an entry about a refusal."""
    record = entry.record
    return RefusedRequest(
        entry.time, entry.study, str(record["asked"]), str(record["rule"])
    )


def day_of(time: str) -> date:
    """Return the day of an entry, in UTC."""
    return datetime.fromisoformat(time).date()

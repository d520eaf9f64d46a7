"""What a silo knows of its past: the entries of its audit log, taken together."""

from typing import Any, final

from unpooled.party.memory.hash_chain import Entry
from unpooled.party.memory.study_memory import LoggedStudy
from unpooled.party.rules.answered_columns import AnsweredColumns
from unpooled.protocol.answered import Answered


@final
class AuditState:
    """What all entries of an audit log say so far.

    Attributes
    ----------
    studies : dict of str to LoggedStudy
        By study, in the order in which they came up.
    told : AnsweredColumns
        What was answered about columns, in all studies.
    notes : dict of str to list
        What was noted of the table, so of no study: "version" and "filled".
    spent : float
        What all private releases cost together, as `PrivacyBudget` counts it.
    """

    def __init__(self) -> None:
        self.studies: dict[str, LoggedStudy] = {}
        self.told = AnsweredColumns()
        self.notes: dict[str, list[dict[str, Any]]] = {"version": [], "filled": []}
        self.spent = 0.0

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
                asked = Answered.from_record(record["answered"])
                study.answered[record["request"]] = asked
            about = record["columns"], record["parties"], entry.time
            self.told.see(*about, record.get("mixtures", {}))
            self.spent += record.get("rho", 0.0)
        elif entry.kind == "refused":
            study.refusals += bool(record.get("telling"))
        elif entry.kind == "joined":
            study.sessions.add(record["session"])
        elif entry.kind == "announced":
            study.text = record["text"]
        elif entry.kind == "decided":
            study.decision = record
        elif entry.kind == "delivered":
            study.models[record["name"]] = record["digest"]
        elif entry.kind == "forgotten":
            study.forgotten += 1
            study.fitted, study.answered, study.models = set(), {}, {}

"""What a silo has to do with studies beside their rounds: approval, memory, models.

announce ─> a person approves ─> join ─> rounds ─> deliver ─> `unpooled silo apply`

With a journal all of it outlives the process, and is written before it has an effect.
"""

import hashlib
import re
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, final

from unpooled.arrays import Array
from unpooled.data.atomic_file import replacing
from unpooled.data.table import Table
from unpooled.errors import StudyError
from unpooled.ledger import Ledger, Release, Seal
from unpooled.party.memory.audit_log import AuditLog
from unpooled.party.memory.kept_arrays import KeptStore
from unpooled.party.memory.partial_totals import TotalsCache
from unpooled.party.memory.study_memory import LoggedStudy, StudyMemory
from unpooled.party.rules.differencing import DifferencingRules
from unpooled.party.rules.policy import Policy
from unpooled.party.rules.privacy_budget import PrivacyBudget
from unpooled.party.rules.refusal_limit import RefusalLimit
from unpooled.party.steps.asked_step import AskedStep
from unpooled.protocol.answered import Answered
from unpooled.protocol.ledger_lines import LINES_OF_A_REPLY, Lines
from unpooled.protocol.message import Message, digest
from unpooled.protocol.refusal import Refusal
from unpooled.secure.keys.roster import Identity

Answer = tuple[dict[str, Any], dict[str, Array]]

APPROVALS = ("none", "each-study")
MODEL_SUFFIX = ".unpooled"
# Names become folders and files; those of study files have this form.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
_TOTALS = "totals"
_MOST_TEXT = 2**18
_MOST_MODEL_BYTES = 2**28
_MOST_MODELS = 100


@final
class Studies:
    """A silo's dealings with all studies.

    Parameters
    ----------
    policy : Policy
        The silo's rules.
    identity : Identity
        Signs the journal.
    journal : AuditLog or None
        The silo's audit log.
    approval : {"none", "each-study"}
        Whether a person must approve each study before the silo joins it.
    models : Path or None
        The folder of delivered models, one folder for each study.

    Attributes
    ----------
    studies : dict of str to StudyMemory
        What the silo remembers.
    """

    def __init__(
        self,
        policy: Policy,
        identity: Identity,
        journal: AuditLog | None,
        approval: str,
        models: Path | None,
    ) -> None:
        if approval not in APPROVALS:
            raise StudyError(
                f"approval = {approval!r}; choose {' or '.join(APPROVALS)}."
            )
        if approval != "none" and journal is None:
            raise StudyError("Approvals need an audit log, where they are written.")
        self._policy, self._identity, self._journal = policy, identity, journal
        self._asks_people, self._models = approval != "none", models
        self._refusals = RefusalLimit(journal)
        # Of this use alone, and the same after a restart.
        key = hashlib.sha256(b"row digests" + identity.private_bytes()).digest()
        self._history, self._budget = (
            DifferencingRules(journal, key),
            PrivacyBudget(policy, journal),
        )
        self._forgotten: dict[str, int] = {}
        self.studies: dict[str, StudyMemory] = {}
        for name in journal.studies() if journal else ():
            if self._told(name).lines:
                self.remember(name)

    def remember(self, name: str) -> StudyMemory:
        """Return what is remembered of a study, as the journal has it by now."""
        told = self._told(name)
        if name not in self.studies:
            self.studies[name] = StudyMemory(
                self._shelf(name, told.forgotten),
                totals_cache=self._totals_cache(name, told.forgotten),
            )
        study = self.studies[name]
        if self._journal is not None:
            if told.lines != len(study.ledger):
                study.ledger = self._journal.ledger(name)
            study.fitted, study.answered = set(told.fitted), dict(told.answered)
            if told.forgotten != self._forgotten.setdefault(name, told.forgotten):
                study.kept = self._shelf(name, told.forgotten)
                study.totals_cache = self._totals_cache(name, told.forgotten)
            self._forgotten[name] = told.forgotten
        return study

    def _shelf(self, study: str, forgotten: int) -> KeptStore:
        # Where there is a log, what is kept outlives the process as the log does. A
        # study that was forgotten begins a new folder, whatever was left of the old.
        if self._journal is None or not NAME.fullmatch(study):
            return KeptStore()
        return KeptStore(_kept_beside(self._journal) / study / str(forgotten))

    def _totals_cache(self, study: str, forgotten: int) -> TotalsCache:
        if self._journal is None or not NAME.fullmatch(study):
            return TotalsCache()
        kept = _kept_beside(self._journal)
        own = kept / study / str(forgotten) / _TOTALS
        return TotalsCache(own, lambda: kept.glob(f"*/*/{_TOTALS}"))

    def own_lines(self, name: str) -> list[Release]:
        """Return the lines of a study that were sealed under the present key."""
        key = self._identity.public.hex()
        ledger = self.studies[name].ledger if name in self.studies else ()
        return [
            line for line in ledger if any(s.key == key for s in line.seals.values())
        ]

    def n_own_lines(self, name: str) -> int:
        """Return how many lines of a study were sealed under the present key."""
        key = self._identity.public.hex()
        lines = self.studies[name].ledger if name in self.studies else ()
        # Seals of a key are numbered from 0, so the last one tells.
        for line in reversed(lines):
            for seal in line.seals.values():
                if seal.key == key:
                    return seal.sequence + 1
        return 0

    def join(self, study: str, session: str, parties: Sequence[str]) -> StudyMemory:
        """Join a session that the silo never saw, of a study that it approves."""
        if self._asks_people and self._told(study).approval != "approved":
            raise Refusal("approval")
        if self._journal is not None:
            self._journal.joined(self._identity, study, session, parties)
        return self.remember(study)

    def was_forgotten(self, study: str) -> bool:
        """Whether a person had the study forgotten since the silo joined it."""
        return self._told(study).forgotten != self._forgotten.get(study, 0)

    def check(self, asked: AskedStep, parties: tuple[str, ...]) -> None:
        """Refuse a step that nobody approved, or that earlier answers forbid."""
        study, step = asked.request.study, asked.step.name
        if self._asks_people and not self._told(study).approves(step):
            raise Refusal("approval")
        self._history.check(self._policy, asked, parties)
        self._budget.check(asked.rho)

    def foresee(
        self, asked: AskedStep, parties: tuple[str, ...], partition: str
    ) -> None:
        """Refuse a planned step that earlier answers forbid.

        Rules about fitted numbers are left out: a plan has placeholders for them.
        """
        self._history.check_parties(self._policy, asked.view, parties)
        # Columns are planned before rows are matched, and answered about afterwards.
        if partition == "rows":
            self._history.check_rows(self._policy, asked.view)

    def write_round(
        self,
        asked: AskedStep,
        answered: Answered,
        party: str,
        parties: tuple[str, ...],
        lines: Lines,
        *,
        request: str,
        digests: Mapping[str, str],
    ) -> list[list[Any]]:
        """Write a round before its reply leaves; return the reply's seals.

        Parameters
        ----------
        answered : Answered
            The record of the round.
        party : str
            This party.
        lines : list of (Release, str)
            The round's ledger lines, each with the name of its array.
        request : str
            SHA-256 of the request.
        digests : mapping of str to str
            SHA-256 of the arrays by name.
        """
        study = self.studies[asked.request.study]
        first = self.n_own_lines(asked.request.study)
        digests = {**digests, "": digest(b"")}
        sealed = _sealed(party, self._identity, study.ledger, first, lines, digests)
        ran = (asked.request.step, tuple(asked.view.transforms))
        if self._journal is not None:
            self._journal.released(
                self._identity,
                sealed,
                ran,
                (request, answered),
                asked.view.source_columns,
                parties,
                asked.request.session,
                # Another process may have answered since the rules were checked.
                lambda: self.check(asked, parties),
                rho=asked.rho,
                mixtures=dict(asked.mixtures),
            )
        self._budget.record(asked.rho)
        self._history.record(self._policy, asked, parties)
        study.ledger = Ledger([*study.ledger, *sealed])
        study.fitted.add(ran)
        study.answered[request] = answered
        seals = [line.seals[party] for line in sealed]
        return [[seal.sequence, seal.digest, seal.signature] for seal in seals]

    def check_refusals(self, study: str) -> None:
        """Refuse a study whose refusals told enough."""
        known = self.studies.get(study, StudyMemory())
        told = self._told(study) if self._journal is not None else known
        self._refusals.check(study, told.answered.values())

    def refused(self, header: dict[str, Any], rule: str) -> None:
        """Write a refusal, if it can be written: it goes out in any case."""
        if rule == "audit_log":
            return
        study = header.get("study")
        asked = header.get("step") or header.get("kind")
        with suppress(StudyError):
            self._refusals.record(
                study if isinstance(study, str) else "",
                asked if isinstance(asked, str) else "",
                rule,
            )

    def describe(self, table: Table, partition: str) -> Answer:
        """Say what the silo has, as far as its rules let columns be seen."""
        return {
            "kind": "described",
            "columns": list(filter(self._policy.allows_column, table.columns)),
            "named": table.named,
            "label": table.label,
            "partition": partition,
            # On a row partition how many rows a silo has is its own business.
            "rows": table.n_rows if partition == "columns" else None,
        }, {}

    def announce(self, message: Message) -> Answer:
        """Take the text of a study, for a person to look at."""
        study, text = message.header["study"], message.header["text"]
        if not (type(study) is type(text) is str and NAME.fullmatch(study)):
            raise Refusal("malformed_message")
        if not text or len(text) > _MOST_TEXT:
            raise Refusal("malformed_message")
        if self._journal is not None:
            self._journal.announced(study, text)
        approval = self._told(study).approval if self._asks_people else "not needed"
        return {"kind": "announced", "approval": approval}, {}

    def recall(self, message: Message) -> Answer:
        """Return the lines of a study from one on: for a coordinator that was killed.

        Nothing new: they are about its own requests, and it may have been told before.
        """
        study, after = message.header["study"], message.header["after"]
        if type(study) is not str or type(after) is not int or after < 0:
            raise Refusal("malformed_message")
        if study in self.studies:
            self.remember(study)
        lines = self.own_lines(study)[after : after + LINES_OF_A_REPLY]
        return {"kind": "recalled", "lines": [line.as_record() for line in lines]}, {}

    def deliver(self, message: Message) -> Answer:
        """Take a fitted model's file; it is checked when somebody reads it."""
        study, name = message.header["study"], message.header["name"]
        (content,) = message.arrays.values()
        if not (type(study) is type(name) is str and content.dtype == "uint8"):
            raise Refusal("malformed_message")
        if not (NAME.fullmatch(study) and NAME.fullmatch(name)):
            raise Refusal("malformed_message")
        known = self.studies.get(study)
        if self._models is None or known is None or not len(known.ledger):
            raise Refusal("delivery")
        folder = self._models / study
        path = folder / f"{name}{MODEL_SUFFIX}"
        others = set(folder.glob(f"*{MODEL_SUFFIX}")) - {path}
        if content.nbytes > _MOST_MODEL_BYTES or len(others) >= _MOST_MODELS:
            raise Refusal("delivery")
        if self._journal is not None:
            (sha,) = message.digests.values()
            self._journal.delivered(study, name, sha, content.nbytes)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with replacing(path) as stream:
            stream.write(content.data)
        return {"kind": "delivered"}, {}

    def _told(self, study: str) -> LoggedStudy:
        return LoggedStudy() if self._journal is None else self._journal.study(study)


def forget_kept(journal: AuditLog, study: str) -> None:
    """Delete what the steps of a study kept on the disk."""
    if NAME.fullmatch(study):
        shutil.rmtree(_kept_beside(journal) / study, ignore_errors=True)


def _kept_beside(journal: AuditLog) -> Path:
    return journal.path.with_suffix(".kept")


def session_of(message: Message) -> tuple[str, str]:
    """Return the study and the session that a message names."""
    study, session = message.header.get("study"), message.header.get("session")
    if not (isinstance(study, str) and isinstance(session, str)):
        raise Refusal("malformed_message")
    return study, session


def _sealed(
    party: str,
    identity: Identity,
    ledger: Ledger,
    first: int,
    lines: Lines,
    digests: Mapping[str, str],
) -> Ledger:
    """Return the lines as they follow on the silo's own ledger, sealed.

    Parameters
    ----------
    first : int
        How many lines the silo sealed under this identity before.
    lines : list of (Release, str)
        With the name of each one's array.
    digests : mapping of str to str
        SHA-256 of the arrays by these names.
    """
    grown = Ledger(ledger)
    for sequence, (line, source) in enumerate(lines, first):
        content = digests[source]
        statement = line.statement(party, sequence, content)
        signature = identity.sign(statement).hex()
        seal = Seal(identity.public.hex(), sequence, content, signature)
        grown.append(replace(line, parties=(party,)), {party: seal})
    return grown[len(ledger) :]

"""All studies of a silo: approval, memory between fits, rounds, delivered models.

announce ─> a person approves ─> join ─> rounds ─> deliver ─> `unpooled silo apply`

Everything is written to the audit log before it has an effect, and outlives the process
where the log is a file.
"""

import hashlib
import logging
import re
import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, final

from unpooled.arrays import Array
from unpooled.data.atomic_file import replacing
from unpooled.data.table import Table
from unpooled.errors import StudyError
from unpooled.ledger import Ledger, Release, Seal, canonical
from unpooled.ledger.lines import changed
from unpooled.party.memory.audit_log import AuditLog
from unpooled.party.memory.audit_state import LoggedStudy
from unpooled.party.memory.hash_chain import now
from unpooled.party.memory.kept_arrays import KeptArrays, KeptStore
from unpooled.party.memory.partial_totals import TotalsCache
from unpooled.party.memory.study_memory import StudyMemory
from unpooled.party.rules.differencing import DifferencingRules
from unpooled.party.rules.leverage import LeverageRule
from unpooled.party.rules.leverage_of_products import LeverageOfProducts
from unpooled.party.rules.policy import Policy
from unpooled.party.rules.privacy_budget import check_budget
from unpooled.party.rules.refusal_limit import check_refusals, question_of
from unpooled.party.rules.released_share import (
    OpenedNumbers,
    check_share,
    record_of,
)
from unpooled.party.rules.table_cuts import TableCuts
from unpooled.party.steps.asked_step import AskedStep
from unpooled.party.views.view import IdColumn, View
from unpooled.protocol.answered import Answered
from unpooled.protocol.block_levels import COUNTED
from unpooled.protocol.ledger_lines import LINES_OF_A_REPLY, Lines
from unpooled.protocol.library_build import allowed_builds, is_allowed, library_build
from unpooled.protocol.message import Message, digest
from unpooled.protocol.opened_numbers import Opened
from unpooled.protocol.refusal import Refusal
from unpooled.protocol.view_operations import split_address
from unpooled.secure.keys.agreement import Offer
from unpooled.secure.keys.roster import Identity, Roster

log = logging.getLogger("unpooled.party")

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
    """All studies of a silo: their approval, their memory, their models.

    Parameters
    ----------
    policy : Policy
        The silo's rules.
    identity : Identity
        Signs the audit log.
    audit_log : AuditLog
        The silo's audit log.
    approval : {"none", "each-study"}
        Whether a person must approve each study before the silo joins it.
    models : Path or None
        The folder of delivered models, one folder for each study.
    cut_key : bytes, optional
        The secret of the cuts; by default derived from the identity.
    notify : callable, optional
        Called with an event and a study's name, for people at the silo.

    Attributes
    ----------
    cuts : TableCuts
        The blocks of the silo's rows, of which every selection is a union.
    studies : dict of str to StudyMemory
        The studies that the silo remembers, by name.
    """

    def __init__(
        self,
        policy: Policy,
        identity: Identity,
        audit_log: AuditLog,
        approval: str,
        models: Path | None,
        cut_key: bytes | None = None,
        notify: Callable[[str, str], None] | None = None,
    ) -> None:
        if approval not in APPROVALS:
            raise StudyError(
                f"approval = {approval!r}; choose {' or '.join(APPROVALS)}."
            )
        if approval != "none" and audit_log.path is None:
            raise StudyError(
                "Approvals need an audit log in a file, where they are written."
            )
        self._policy, self._identity = policy, identity
        self._audit_log, self._models = audit_log, models
        self._notify = notify or _notify_nobody
        self._asks_people = approval != "none"
        # The secret is derived for this use alone, and is the same after a restart.
        key = identity.derivation_secret(b"row digests")
        self._differencing, self._key = DifferencingRules(audit_log, key, policy), key
        cut_key = cut_key or identity.derivation_secret(b"blocks of rows")
        self.cuts = TableCuts(cut_key, audit_log, policy)
        self._leverage = LeverageRule(audit_log, key, policy)
        self._products = LeverageOfProducts(policy)
        self.studies: dict[str, StudyMemory] = {}
        for name in audit_log.studies():
            if audit_log.study(name).lines:
                self.remember(name)

    def remember(self, name: str) -> StudyMemory:
        """Return the memory of a study, as the audit log has it by now."""
        logged = self._audit_log.study(name)
        study = self.studies.setdefault(name, StudyMemory(logged, forgotten=-1))
        if logged.lines != len(study.ledger):
            study.ledger = self._audit_log.ledger(name)
        if logged.forgotten != study.forgotten:
            study.forgotten = logged.forgotten
            study.kept, study.totals_cache = KeptStore(), TotalsCache()
            # Beside the log's file arrays outlive the process as the log does. A study
            # that was forgotten begins a new folder, whatever was left of the old.
            folder = _kept_folder(self._audit_log, name)
            if folder is not None:
                own = folder / str(logged.forgotten)
                study.kept = KeptStore(own)
                study.totals_cache = TotalsCache(
                    own / _TOTALS, lambda: folder.parent.glob(f"*/*/{_TOTALS}")
                )
        return study

    def resume(self, name: str, logged: LoggedStudy, kept: KeptStore) -> None:
        """Take up a study of a simulation where an earlier process left it.

        Parameters
        ----------
        name : str
            The study.
        logged : LoggedStudy
            The steps that ran, and the rounds that were answered.
        kept : KeptStore
            The arrays that the steps kept.
        """
        self._audit_log.resumed(name, logged)
        self.remember(name).kept = kept

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
        # Seals of a key are numbered from 0, so the last one has their number.
        for line in reversed(lines):
            for seal in line.seals.values():
                if seal.key == key:
                    return seal.sequence + 1
        return 0

    def join(self, study: str, session: str, roster: Roster) -> tuple[StudyMemory, str]:
        """Join a session that the silo never saw, of a study that it approves.

        Parameters
        ----------
        roster : Roster
            The parties of the session, with their pinned keys.

        Returns
        -------
        (StudyMemory, str)
            The memory of the study, and the head of the audit log.
        """
        self.check_approved(study)
        keys = {party: key.hex() for party, key in roster.items()}
        head = self._audit_log.joined(self._identity, study, session, keys)
        return self.remember(study), head

    def pinned_heads(self, roster: Roster) -> dict[str, str]:
        """Return the heads of other silos' audit logs that this silo saw last."""
        known, own = self._audit_log.state().pinned, self._identity.public
        return {
            party: head
            for party, key in (roster.items() if known else ())
            if key != own and (head := known.get(key.hex(), ""))
        }

    def check_heads(self, seen: Mapping[str, str]) -> None:
        """Refuse to go on with a log that lacks a head which another silo saw.

        Another head is no excuse: who restores an older copy forgets what was answered.
        """
        if not set(filter(None, seen.values())) <= self._audit_log.state().heads:
            raise Refusal("audit_log_rolled_back")

    def pin_heads(
        self, study: str, roster: Roster, offers: Mapping[str, Offer]
    ) -> None:
        """Write the heads that other silos signed for a session."""
        own = self._identity.public
        heads = {
            roster[party].hex(): offer.head
            for party, offer in offers.items()
            if roster[party] != own
        }
        if heads:
            self._audit_log.pin(study, heads)

    def was_forgotten(self, study: str) -> bool:
        """Whether a person had the study forgotten since the silo joined it."""
        return self._audit_log.study(study).forgotten != self.studies[study].forgotten

    def check(self, asked: AskedStep, parties: tuple[str, ...]) -> int:
        """Refuse a step that nobody approved, or that earlier answers forbid.

        The privacy cost of a step that is not refused is charged.

        Returns
        -------
        int
            Number of entries of the audit log before the rules read it, and the charge.
        """
        n_entries = self._audit_log.n_entries
        self._check_rules(asked, parties)
        if asked.rho <= 0.0:
            return n_entries
        # Before anything is computed: were only released rounds charged, a coordinator
        # could learn from what fails for nothing.
        self._audit_log.charged(
            asked.request.study,
            asked.step.name,
            asked.rho,
            lambda: check_budget(self._policy, self._audit_log, asked.rho),
        )
        return n_entries + 1

    def refund(self, asked: AskedStep) -> None:
        """Take back what `check` charged for a step whose rows could not be reached."""
        if asked.rho > 0.0:
            # A log that cannot be written keeps the charge.
            with suppress(StudyError):
                self._audit_log.refunded(
                    asked.request.study, asked.step.name, asked.rho
                )

    def _check_rules(self, asked: AskedStep, parties: tuple[str, ...]) -> None:
        study, step = asked.request.study, asked.step.name
        # What silos count of each other before a selection is part of any study.
        listed = step in COUNTED or self._audit_log.study(study).approves(step)
        if self._asks_people and not listed:
            raise Refusal("approval")
        self._differencing.check(asked, parties)
        self.cuts.check(asked)
        if isinstance(asked.view, View):
            self._products.check(asked.step, asked.view)

    @property
    def noteworthy_columns(self) -> tuple[str, ...]:
        """Columns of which one row carries half of a direction, or more."""
        return self._leverage.noteworthy

    def check_leverage(
        self,
        asked: AskedStep,
        scatter: Array | None = None,
        about: Array | None = None,
    ) -> None:
        """Refuse pairs of columns of which one row carries a direction.

        Parameters
        ----------
        scatter, about : array, optional
            As `LeverageRule.check` takes them, where the step has run.
        """
        if isinstance(asked.view, View):
            self._leverage.check(asked.step, asked.view, scatter, about)

    def check_classes(self, view: View) -> None:
        """Refuse pairs of columns of which one row carries a direction in its class."""
        self._products.check_classes(view)
        self.cuts.check_classes(view)

    def rows_of_earlier(self, parties: Sequence[str]) -> int:
        """Return N of a roster as its last study has verified it, else 0."""
        return self._audit_log.state().pooled.get(frozenset(parties), 0)

    def rows_that_came(self, asked: AskedStep) -> list[View]:
        """Return views of the rows that came since the silo answered, if any did."""
        assert isinstance(asked.view, View), "matching of rows is no step"
        return self._differencing.rows_that_came(asked.step, asked.view)

    def check_approved(self, study: str) -> None:
        """Refuse a study that a person must approve, and has not approved."""
        if self._asks_people and self._audit_log.study(study).approval != "approved":
            raise Refusal("approval")

    def check_roster(self, view: View, parties: tuple[str, ...]) -> None:
        """Refuse a table that was answered about for another set of parties."""
        self._differencing.check_parties(view, parties)

    def write_comparison(
        self, study: str, view: View, parties: tuple[str, ...], columns: Sequence[str]
    ) -> None:
        """Write that constants are compared with other silos', before shares leave."""
        self._audit_log.compared(
            study,
            parties,
            self._differencing.table_name(view),
            columns,
            check=lambda: self.check_roster(view, parties),
        )

    def foresee(
        self,
        asked: AskedStep,
        parties: tuple[str, ...],
        partition: str,
        earlier: Sequence[Sequence[str]],
        rho: float = 0.0,
    ) -> None:
        """Refuse a planned step that earlier answers, or those planned, forbid.

        Rules about fitted numbers are left out: a plan has placeholders for them.

        Parameters
        ----------
        earlier : sequence of sequence of str
            As of `CompleteRows.foresee`.
        rho : float, default 0.0
            What all private releases of the plan cost together.
        """
        if asked.rho > 0.0:
            check_budget(self._policy, self._audit_log, max(asked.rho, rho))
        self._differencing.check_parties(asked.view, parties)
        self.cuts.check(asked, planned=True)
        # Columns are planned before rows are matched, and answered about afterwards.
        if partition == "rows" and isinstance(asked.view, View):
            self._differencing.foresee(asked.step, asked.view, earlier)

    def foresee_numbers(
        self, asked: AskedStep, before: float, numbers: float, n_rows: int
    ) -> bool:
        """Refuse a planned step with which too many numbers would be opened.

        Parameters
        ----------
        before : float
            Numbers about each of its columns that the plan has before it.
        numbers : float
            Numbers that the step opens, in all of its rounds.
        n_rows : int
            N, as this study begins with it; 0 where it is not known.

        Returns
        -------
        bool
            Whether they would be further numbers: not of a question that was answered,
            whose totals are taken for the same again.
        """
        opened, columns = self._audit_log.state().opened, asked.view.source_columns
        table = self._differencing.table_name(asked.view)
        if opened.has_form(self._form_of(asked, table)):
            return False
        total = Opened(before * len(columns) + numbers)
        share = opened.share_with(columns, record_of(total, self._key), n_rows)
        if n_rows:
            check_share(self._policy, share, total, table)
        return True

    def _form_of(self, asked: AskedStep, table: str) -> str:
        """Return the name of a question without the numbers that were fitted before it.

        A plan has none of these, and takes a question of a known form for one that was
        answered: a study that is repeated opens the same totals.
        """
        function, view = asked.step.function, asked.view
        form = [table, function.__module__, function.__qualname__, asked.request.to]
        form += [view.transforms, view.source_columns, view.selection]
        form += [view.columns] if isinstance(view, View) else []
        name = hashlib.blake2b(canonical(form), digest_size=16, key=self._key)
        return name.hexdigest()

    def foresee_leverage(self, asked: AskedStep, lacking: Collection[str]) -> None:
        """Refuse a planned step for single rows, or few, whatever numbers are fitted.

        Where transforms make other columns, the unchanged columns alone may be reason
        enough: further columns never make a row's leverage smaller.

        Parameters
        ----------
        lacking : collection of str
            The columns of the silo's table with missing cells.
        """
        step, view = asked.step, asked.view
        assert isinstance(view, View), "matching of rows is no step"
        if not view.up_to_scale().transforms:
            self.check_leverage(asked)
        elif (settled := view.settled(lacking)) is not None:
            if len(settled.columns) == len(view.columns):
                self._products.check(step, settled)
            else:
                self._products.foresee(step, settled)
            # With about as many columns as rows each of them has a limit of its own.
            if len(view.columns) + 1 < view.n_rows:
                self._leverage.check(step, settled)

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
        n_entries: int,
        marked: str = "",
        opened: Opened | None = None,
        n_rows: int = 0,
        n_verified: int = 0,
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
        n_entries : int
            As `check` returned it for the step.
        marked : str, default ""
            The question of the refusal that the answer hides, if it hides one.
        opened : Opened, optional
            The numbers that the round opens; none in a stage of matching.
        n_rows : int
            N, as `pooled_rows` has it.
        n_verified : int
            N as this study has verified it, which later ones begin with; 0 where it has
            not.
        """
        view = asked.view
        columns, filled, held = view.source_columns, view.filled_as, _held(view)
        notes = self._differencing.notes(asked) + self.cuts.notes(asked)
        table = self._differencing.table_name(asked.view)

        def check_again() -> None:
            # Another process may have answered since the rules were checked.
            if self._audit_log.n_entries != n_entries:
                self.check_refusals(besides=marked)
                self._check_rules(asked, parties)
                if view.filled_as != filled or _held(view) != held:
                    # It filled cells first, otherwise than this answer did.
                    raise Refusal("another_filling")

        def numbers(before: OpenedNumbers) -> dict[str, Any]:
            assert opened is not None
            record = record_of(opened, self._key)
            share = before.share_with(columns, record, n_rows)
            check_share(self._policy, share, opened, table)
            record["share"] = share
            record["form"] = self._form_of(asked, table)
            if (part := self.cuts.part(asked)) is not None:
                record["part"] = part
                rows = partial(self.cuts.n_of_blocks, view.table)
                share = before.share_of_parts(columns, record, rows)
                check_share(self._policy, share, opened)
            return record | ({"pooled": n_verified} if n_verified else {})

        study = self.studies[asked.request.study]
        first = self.n_own_lines(asked.request.study)
        digests = {**digests, "": digest(b"")}
        ledger = Ledger(study.ledger)
        _append_sealed(ledger, party, self._identity, first, lines, digests)
        sealed = ledger[len(study.ledger) :]
        self._audit_log.released(
            self._identity,
            sealed,
            ran=(asked.request.step, tuple(asked.view.transforms)),
            request=request,
            answered=answered,
            columns=columns,
            parties=parties,
            opened=None if opened is None else numbers,
            table=table,
            rows=asked.view.selection,
            notes=notes,
            check=check_again,
        )
        study.ledger = ledger
        seals = [line.seals[party] for line in sealed]
        return [[s.sequence, s.digest, s.signature, s.library] for s in seals]

    def check_refusals(self, besides: str = "") -> None:
        """Refuse to answer once the silo has given as many refusals as it may.

        Parameters
        ----------
        besides : str, default ""
            A question that does not count: that of the answer at hand.
        """
        log = self._audit_log
        refusals = log.state().refusals
        check_refusals(self._policy, refusals, log.answered(), now(), besides)

    def refused(
        self,
        header: Mapping[str, Any],
        rule: str,
        digests: Mapping[str, str] = {},
        *,
        of_table: bool = False,
        about: Any = None,
    ) -> str:
        """Write a refusal, if it can be written, and return the rule that goes out.

        It is another rule where jobs beside this one used up the refusals meanwhile.

        Parameters
        ----------
        header : mapping
            Header of the refused message.
        rule : str
            The rule.
        digests : mapping of str to str
            SHA-256 of the message's arrays.
        of_table, about
            As of `question_of`.
        """
        if rule == "audit_log":
            return rule
        question = question_of(rule, header, digests, of_table=of_table, about=about)
        study = header.get("study")
        asked = header.get("step") or header.get("kind")
        with suppress(StudyError):
            days = self._policy.refusal_period_days
            if question in self._audit_log.state().refusals.rules(now(), days):
                return rule
            try:
                self._audit_log.refused(
                    study if isinstance(study, str) else "",
                    asked if isinstance(asked, str) else "",
                    rule,
                    question,
                    check=self.check_refusals,
                )
            except Refusal as used_up:
                return used_up.rule
        return rule

    def describe(self, table: Table, partition: str) -> Answer:
        """Return the columns of the silo that its rules let studies see."""
        if partition == "columns" and self._policy.require_privacy:
            # Nothing about people has noise there, nor has their number.
            raise Refusal("require_privacy")
        return {
            "kind": "described",
            "columns": list(filter(self._policy.allows_column, table.columns)),
            "categorical": list(filter(self._policy.allows_column, table.categorical)),
            "named": table.named,
            "label": table.label,
            "partition": partition,
            # On a row partition the number of rows stays in the silo.
            "rows": table.n_rows if partition == "columns" else None,
        }, {}

    def announce(self, message: Message) -> Answer:
        """Write down the text of a study, for a person to read."""
        study, text = message.header["study"], message.header["text"]
        if not (type(study) is type(text) is str and NAME.fullmatch(study)):
            raise Refusal("malformed_message")
        if not text or len(text) > _MOST_TEXT:
            raise Refusal("malformed_message")
        new = self._audit_log.study(study).text != text
        self._audit_log.announced(study, text)
        approval = "not needed"
        if self._asks_people:
            approval = self._audit_log.study(study).approval
        if new:
            log.info("The study %s is announced; approval: %s", study, approval)
            self._notify("waits" if approval == "waiting" else "announced", study)
        # A coordinator of another build is refused when it joins: until then it learns
        # which build this silo has, so that somebody can be told.
        return {
            "kind": "announced",
            "approval": approval,
            "library": library_build(),
        }, {}

    def check_build(self, study: str, build: object) -> None:
        """Refuse a coordinator's build of the library that the study does not list."""
        if not is_allowed(build, allowed_builds(self._audit_log.study(study).text)):
            raise Refusal("version")

    def recall(self, message: Message) -> Answer:
        """Return the lines of a study from one on: for a coordinator that was killed.

        Nothing new leaves: the lines are about the coordinator's own requests.
        """
        study, after = message.header["study"], message.header["after"]
        if type(study) is not str or type(after) is not int or after < 0:
            raise Refusal("malformed_message")
        if study in self.studies:
            self.remember(study)
        lines = self.own_lines(study)[after : after + LINES_OF_A_REPLY]
        return {"kind": "recalled", "lines": [line.as_record() for line in lines]}, {}

    def deliver(self, message: Message) -> Answer:
        """Write a fitted model's file; it is checked when it is read."""
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
        (sha,) = message.digests.values()
        self._audit_log.delivered(study, name, sha, content.nbytes)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with replacing(path) as stream:
            stream.write(content.data)
        # The last of a study's models has all of them.
        if name == "pipeline":
            self._notify("finished", study)
        return {"kind": "delivered"}, {}


def _notify_nobody(event: str, study: str) -> None:
    """Do nothing: nobody asked for notices."""


def forget_kept(audit_log: AuditLog, study: str, results: Path) -> None:
    """Delete the arrays that the steps of a study kept on the disk, and their files.

    `results` is the silo's folder with the files of each study.
    """
    if folder := _kept_folder(audit_log, study):
        shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(results / study, ignore_errors=True)


def kept_of_fit(audit_log: AuditLog, address: str) -> KeptArrays:
    """Return the arrays on the disk that the steps of a fit kept.

    Parameters
    ----------
    audit_log : AuditLog
        The silo's.
    address : str
        Study and view of the fit. Where nothing of it is kept, reading an array raises
        a `Refusal`, "nothing_kept".
    """
    study, view = split_address(address)
    folder = _kept_folder(audit_log, study)
    if folder is None:
        return KeptArrays(view, ())
    own = folder / str(audit_log.study(study).forgotten)
    return KeptArrays(view, [KeptStore(own)])


def _kept_folder(audit_log: AuditLog, study: str) -> Path | None:
    """Return the folder of a study's kept arrays, beside the file of the log."""
    if audit_log.path is None or not NAME.fullmatch(study):
        return None
    return audit_log.path.with_suffix(".kept") / study


def session_of(message: Message) -> tuple[str, str]:
    """Return the study and the session that a message names."""
    study, session = message.header.get("study"), message.header.get("session")
    if not (isinstance(study, str) and isinstance(session, str)):
        raise Refusal("malformed_message")
    return study, session


def _held(view: View | IdColumn) -> Mapping[str, float]:
    """Return the names of the rows that are not filled from their other cells."""
    held = view.held if isinstance(view, View) else None
    return {} if held is None else held.values


def _append_sealed(
    ledger: Ledger,
    party: str,
    identity: Identity,
    first: int,
    lines: Lines,
    digests: Mapping[str, str],
) -> None:
    """Append lines to the silo's own ledger, each under its signature.

    Parameters
    ----------
    first : int
        Number of lines that the silo sealed under this identity before.
    digests : mapping of str to str
        SHA-256 of the arrays by the names that come with the lines.
    """
    for sequence, (line, source) in enumerate(lines, first):
        content = digests[source]
        statement = line.statement(party, sequence, content, library_build())
        signature = identity.sign(statement).hex()
        key = identity.public.hex()
        seal = Seal(key, sequence, content, signature, library_build())
        ledger.append(changed(line, parties=(party,)), {party: seal})

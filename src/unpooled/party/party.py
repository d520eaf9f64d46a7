"""The party: the silo's door. A request comes in as bytes, a reply goes out as bytes.

Every exception is caught here. Only the name of a rule crosses; the reason, with its
values and paths, stays in the silo's own log.
"""

import logging
import math
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, final

from unpooled.arrays import Array
from unpooled.data.categories import merging_rare
from unpooled.data.table import Table
from unpooled.errors import ReleaseRefusedError, UnpooledError, crossing
from unpooled.ledger import canonical
from unpooled.linalg.settled import unsettled
from unpooled.party.following import AnsweredRound, Follow, Following
from unpooled.party.matching.aligned_rows import AlignedRows
from unpooled.party.memory.audit_log import AuditLog
from unpooled.party.memory.audit_state import LoggedStudy
from unpooled.party.memory.kept_arrays import KeptStore, share_kept
from unpooled.party.memory.own_results import write_own_results
from unpooled.party.memory.studies import NAME, Answer, Studies, session_of
from unpooled.party.memory.study_memory import StudyMemory
from unpooled.party.rules.policy import Policy
from unpooled.party.rules.refusal_limit import question_of
from unpooled.party.rules.released_share import pooled_rows
from unpooled.party.rules.round_numbers import check_round
from unpooled.party.rules.told_constants import ToldConstants
from unpooled.party.rules.unusable_cells import (
    CONSTANT,
    EMPTY,
    RefusedColumns,
    UnusableCells,
    describe,
)
from unpooled.party.session import Session
from unpooled.party.steps.asked_step import AskedStep
from unpooled.party.views.view import View
from unpooled.protocol.block_levels import (
    COUNTED,
    common_blocks,
    held,
    own_levels,
    own_sizes,
)
from unpooled.protocol.computing_party import STAGES
from unpooled.protocol.library_build import library_build
from unpooled.protocol.message import Bytes, Framed, Message, decode, digest, framed
from unpooled.protocol.planned_step import Foreseen, PlannedStep
from unpooled.protocol.refusal import Refusal
from unpooled.protocol.request import Request, view_arrays
from unpooled.protocol.several_steps import STEPS, replies_together, requests_of
from unpooled.protocol.step import find_step
from unpooled.secure.keys.agreement import Agreement, offers_of, session_seed
from unpooled.secure.keys.roster import Identity, Roster

log = logging.getLogger("unpooled.party")


@final
class Party:
    """One silo's end of all studies.

    Parameters
    ----------
    name : str
        As the roster has it.
    table : Table
        The silo's rows.
    policy : Policy
        The silo's rules.
    identity : Identity
        Signs every reply.
    roster : Roster
        The parties that this silo pins, itself included.
    plain : bool, default False
        Whether the silo answers where totals travel in clear, which shows its own
        values: for simulations, as a test's oracle. Otherwise a study without masks
        needs `allow_disclosed`.
    audit_log : AuditLog, optional
        The silo's audit log; by default one in memory, which ends with the process.
    approval : {"none", "each-study"}, default "none"
        Whether a person must approve each study first.
    models : Path, optional
        The folder for fitted models; without it none are accepted.
    partition : {"rows", "columns"}, default "rows"
        As the silo declared it; it only takes part in studies of this kind.
    matches : Path, optional
        The folder for files with the place of each row in a study.
    results : Path, optional
        The folder for what the silo keeps of each study by columns, as files.
    cut_key : bytes, optional
        The secret by which rows are cut into blocks, at most 64 bytes and always the
        same; by default derived from the identity.
    follow : Follow, optional
        With it the silo runs each study's program itself and answers nothing else. It
        may be left out only where coordinator and silos are one process.
    notify : callable, optional
        Called with an event ("waits", "announced", "finished") and a study's name.

    Attributes
    ----------
    studies : dict of str to StudyMemory
        Studies that the silo remembers, each with its own ledger.
    aligned_rows : AlignedRows
        The rows of the silo that its studies read.
    audit_log : AuditLog
        The silo's audit log.
    explained : dict of str to str
        For each rule that refused, the silo's own numbers behind the last refusal. They
        are for its log, and for whoever simulates the silo; no reply has them.
    """

    def __init__(
        self,
        name: str,
        table: Table,
        policy: Policy,
        identity: Identity,
        roster: Roster,
        *,
        plain: bool = False,
        audit_log: AuditLog | None = None,
        approval: str = "none",
        models: Path | None = None,
        partition: str = "rows",
        matches: Path | None = None,
        results: Path | None = None,
        cut_key: bytes | None = None,
        follow: Follow | None = None,
        notify: Callable[[str, str], None] | None = None,
    ) -> None:
        self.name, self.policy = name, policy
        self.table = merging_rare(table, policy.min_own_cells)
        self.partition = partition
        self._results = results
        # By study, the folder of results: simulated studies have a folder of their own.
        self._results_of: dict[str, Path] = {}
        self._identity, self._roster = identity, roster
        self._plain = plain
        self.audit_log = audit_log = audit_log or AuditLog()
        self._studies = Studies(
            policy, identity, audit_log, approval, models, cut_key, notify
        )
        self._following = (
            None if follow is None else Following(follow, policy, audit_log)
        )
        self.aligned_rows = AlignedRows(policy, identity, self._studies, matches)
        self.studies = self._studies.studies
        self._cells = UnusableCells()
        self._constants = ToldConstants(name, identity)
        # Hands (session, peer, message) of secure comparisons on, between machines.
        self.carry: Callable[[tuple[str, str], str, bytes], None] | None = None
        self.explained: dict[str, str] = {}
        # In one process, from the names of parties to the number of their rows.
        self.simulated_rows: Callable[[tuple[str, ...]], int] | None = None
        self._door = threading.Lock()
        self._sessions: dict[tuple[str, str], Session] = {}
        # (study, session) -> (round, digest of its request, the reply's bytes)
        self._answered: dict[tuple[str, str], tuple[int, str, Framed]] = {}

    def handle(self, request: Bytes) -> Framed:
        """Answer one message. Never raises: a mistake inside is a reply too."""
        # An engine may call from several threads. In one process the coordinator's
        # program is under way: what a silo solves is not part of it.
        with self._door, unsettled():
            return self._handle(request)

    def resume(
        self,
        study: str,
        logged: LoggedStudy,
        kept: KeptStore,
        results: Path | None = None,
    ) -> None:
        """Take up a study of a simulation where an earlier process left it."""
        self._studies.resume(study, logged, kept)
        if results is not None:
            self._results_of[study] = results

    def carried(self, peer: str, where: tuple[str, str], message: bytes) -> None:
        """Take a message between comparison processes; it is none for `handle`."""
        if (session := self._sessions.get(where)) is not None:
            session.carried(peer, message)

    def _handle(self, request: Bytes) -> Framed:
        message, header = Message({}, {}, {}), dict[str, Any]()
        try:
            message = decode(request)
            header = message.header
            kind = header.get("kind")
            if kind in ("step", STEPS):
                return self._handle_steps(message, request)
            answers: dict[Any, Callable[[Message], Answer]] = {
                "announce": self._studies.announce,
                "deliver": self._studies.deliver,
                "recall": self._studies.recall,
                "finish": self._finish,
                "describe": lambda _: self._studies.describe(
                    self.table, self.partition
                ),
                "join": self._join,
                "agree": self._agree,
                "offer group key": self._offer_group_key,
                "accept group key": self._accept_group_key,
                **dict.fromkeys(STAGES, lambda m: self._session(m).computing.answer(m)),
                "count blocks": self._count_blocks,
                "share blocks": self._share_blocks,
                "plan": self._plan,
                "offer comparison": self._offer_comparison,
                "compare constants": self._compare_constants,
                "leave": self._leave,
                "match": self._match,
            }
            if kind not in answers:
                raise Refusal("malformed_message")
            try:
                answer, arrays = answers[kind](message)
            except UnpooledError:
                raise
            except (KeyError, TypeError, ValueError, AttributeError) as wrong:
                raise Refusal("malformed_message") from wrong
        except Exception as reason:
            return self._refusal(digest(request), message, reason)
        return self._reply(digest(request), answer, arrays)

    def _reply(
        self,
        request: str,
        header: dict[str, Any],
        arrays: dict[str, Array],
        digests: Mapping[str, str] | None = None,
    ) -> Framed:
        # The digest ties the reply to the request as it arrived, so an altered,
        # replayed or reordered request shows at the coordinator.
        header = {"party": self.name, "request": request, **header}
        return framed(header, arrays, self._identity, digests)

    def _refusal(self, request: str, message: Message, reason: Exception) -> Framed:
        if isinstance(reason, Refusal) and reason.detail:
            self.explained[reason.rule] = reason.detail
        of = _of_study(message)
        if isinstance(reason, Refusal | UnpooledError):
            cause = "" if reason.__cause__ is None else f" ({reason.__cause__})"
            log.info("%s refused a request%s: %s%s", self.name, of, reason, cause)
        else:
            log.error("%s failed on a request%s", self.name, of, exc_info=reason)
        error, rule = crossing(reason)
        about = reason.about if isinstance(reason, Refusal) else None
        said = self._studies.refused(message.header, rule, message.digests, about=about)
        if said != rule:
            error, rule = crossing(Refusal(said))
        reply = {"kind": "refused", "error": error, "rule": rule}
        return self._reply(request, reply, {})

    def _join(self, message: Message) -> Answer:
        header = message.header
        roster = self._pinned(header["parties"])
        parties = tuple(roster)
        if header["roster"] != roster.digest():
            raise Refusal("wrong_roster")
        self._studies.check_build(session_of(message)[0], header.get("library"))
        self.policy.check_parties(len(parties))
        self._check_partition(message)
        session, protection = session_of(message), header["protection"]
        if protection not in ("masked", "plain"):
            raise Refusal("malformed_message")
        # A coordinator must not be able to have a silo send its values in clear.
        if protection == "plain" and not (self._plain or self.policy.allow_disclosed):
            raise Refusal("allow_disclosed")
        if session in self._sessions:
            raise Refusal("replayed")
        agreement = Agreement(
            self.name,
            self._identity,
            roster,
            canonical(list(session)),
            self._studies.pinned_heads(roster),
        )
        study, head = self._studies.join(*session, roster)
        who = ", ".join(parties)
        log.info("%s joins the study %s, with %s", self.name, session[0], who)
        share_kept(self.name, session[0], study.kept)
        self._sessions[session] = Session(
            self.name,
            self.aligned_rows.table_of(session[0], self.table),
            self.policy,
            study,
            agreement,
            parties,
            protection,
            roster,
            self.partition,
            self.carry and partial(self.carry, session),
            cut=self._studies.cuts.of,
            follows=self._following is not None,
        )
        return {
            "kind": "offer",
            **agreement.offer(head).as_header(),
            "pinned": agreement.pinned,
            "library": library_build(),
            # The number of sealed lines shows a coordinator which replies it lost.
            "lines": self._studies.n_own_lines(session[0]),
        }, {}

    def _check_partition(self, message: Message) -> None:
        # No silo joins a study by columns, whose scores are about people, by mistake.
        if message.header.get("partition", "rows") != self.partition:
            raise Refusal("partition")

    def _pinned(self, parties: list[str]) -> Roster:
        # A name listed twice would count as two parties in the minimum of a policy.
        twice = len(set(parties)) != len(parties)
        if twice or self.name not in parties or not set(parties) <= set(self._roster):
            raise Refusal("wrong_roster")
        return self._roster.part(parties)

    def _session(self, message: Message) -> Session:
        session = self._sessions.get(session_of(message))
        if session is None:
            raise Refusal("out_of_order")
        return session

    def _agree(self, message: Message) -> Answer:
        session, seen = self._session(message), dict(message.header["seen"])
        offers = offers_of(message.header["offers"])
        self._studies.check_heads(seen)
        session.agree(offers, seen)
        session.seed = session_seed(*session_of(message), offers)
        self._studies.pin_heads(session_of(message)[0], session.roster, offers)
        return {"kind": "agreed"}, {}

    def _offer_group_key(self, message: Message) -> Answer:
        sealed = self._session(message).offer_group_key()
        return {"kind": "group", "sealed": {p: s.hex() for p, s in sealed.items()}}, {}

    def _accept_group_key(self, message: Message) -> Answer:
        header = message.header
        sealed = bytes.fromhex(header["sealed"][self.name])
        self._session(message).accept_group_key(header["leader"], sealed)
        return {"kind": "accepted"}, {}

    def _count_blocks(self, message: Message) -> Answer:
        """Add how many blocks this silo has, or their rows, for the silos alone."""
        if (step := COUNTED.get(message.header["step"])) is None:
            raise Refusal("malformed_message")
        if self.partition != "rows":
            raise Refusal("partition")
        session, where = self._answering(message), session_of(message)
        number = message.header["round"]
        check_round(number, self._answered.get(where, (0, "", b""))[0])
        self._answered[where] = (number, "", b"")
        study, name = where
        request = Request.between_silos(step.name, study, name, number)
        parties, cuts = session.parties, self._studies.cuts
        self.policy.check_parties(len(parties))
        self.policy.check_rows(self.table.n_rows)
        asked = AskedStep(request, step, View(self.table, ()))
        n_entries = self._studies.check(asked, parties)
        if step is held:
            counts = own_levels(
                cuts.n_own_blocks(self.table), discloses=self.policy.allow_disclosed
            )
        else:
            counts = own_sizes(cuts.common_sizes(self.table))
        arrays, header, lines = session.conceal_counted(request, counts)
        seals = self._studies.write_round(
            asked,
            session.answered(asked),
            self.name,
            parties,
            lines,
            request=request.step,
            digests={name: digest(array.data) for name, array in arrays.items()},
            n_entries=n_entries,
        )
        return {"kind": "released", "seals": seals, **header}, arrays

    def _share_blocks(self, message: Message) -> Answer:
        """Take how many blocks enough silos have, or how many rows these have."""
        session, sealed = self._session(message), message.header["sealed"]
        step, total = session.open_counted(
            message.arrays, {p: bytes.fromhex(s) for p, s in sealed.items()}
        )
        if step == held.name:
            most = common_blocks(total, len(session.parties))
            self._studies.cuts.take_common(self.table, most)
        else:
            self._studies.cuts.take_sizes(self.table, total)
        return {"kind": "shared"}, {}

    def _plan(self, message: Message) -> Answer:
        """Return the rule that would refuse a planned step; empty where none would.

        Nothing is computed. A reply that depends on rows counts as a refusal.
        """
        planned = PlannedStep.from_header(message.header)
        foreseen = self._foresee(message, planned)
        return {"kind": "planned"} | foreseen.as_header(), {}

    def _foresee(self, message: Message, planned: PlannedStep) -> Foreseen:
        """Return the reply about a planned step.

        Before rows are matched nobody knows which of them are read: a rule about cells
        of any row is then returned as a doubt, and is no refusal.
        """
        header = message.header
        table = self.aligned_rows.table_of(str(header["study"]), self.table)
        roster = self._pinned(header["parties"])
        session = Session(
            self.name,
            table,
            self.policy,
            StudyMemory(),
            Agreement(self.name, self._identity, roster, b"plan"),
            tuple(roster),
            "masked",
            roster,
            self.partition,
            cut=self._studies.cuts.of,
            planned=True,
        )
        told, doubt, alike = Foreseen(), None, dict[str, float]()
        try:
            self._studies.check_refusals()
            self._check_partition(message)
            asked = session.check(Request.from_message(message, {}))
            view = asked.view if self.partition == "rows" else None
            if isinstance(view, View):
                told = replace(told, complete_in=tuple(view.complete_in))
            # No refusal of a private release depends on a row.
            judged = asked.rho <= 0.0
            if judged and planned.matched:
                self._cells.check(asked, table.label, complete=planned.complete)
                session.foresee(asked)
            elif judged:
                self.aligned_rows.check_ids(table)
                doubt = self._cells.doubt(asked, table.label, complete=planned.complete)
            self._studies.foresee(
                *(asked, session.parties, self.partition, planned.earlier, planned.rho)
            )
            if isinstance(view, View) and judged and planned.matched:
                self._studies.foresee_leverage(asked, self._cells.lacking(view))
            if judged and (planned.varying or planned.valued):
                alike = self._cells.constant(asked, self.policy.min_rows)
            if isinstance(view, View):
                n_rows = self._rows_opened(session)
                if n_rows < self._studies.cuts.n_counted(self.table):
                    # Only of folds: what is refused here would tell N.
                    n_rows = 0
                further = self._studies.foresee_numbers(asked, *planned.opens, n_rows)
                told = replace(told, further=further)
        except (Refusal, ReleaseRefusedError) as refusal:
            return self._foreseen_refusal(message, refusal, told)
        valueless = tuple(name for name, value in alike.items() if math.isnan(value))
        told = replace(
            told,
            doubt=(doubt.rule, doubt.columns) if doubt else None,
            empty=valueless if planned.valued else (),
            constant=tuple(alike) if planned.varying else (),
        )
        rules = [doubt.rule] if doubt else []
        rules += [CONSTANT] * bool(told.constant) + [EMPTY] * bool(told.empty)
        for rule in rules:
            # It tells of the rows as a refusal does, and is counted as one.
            now = self._studies.refused(header, rule, message.digests, of_table=True)
            if now != rule:
                return Foreseen(rule=now)
        if told.constant:
            # Codes of categories are the silo's own.
            assert isinstance(asked.view, View), "others have no constant columns"
            coded = table.categorical
            values = {c: math.nan if c in coded else v for c, v in alike.items()}
            self._constants.tell(str(header["study"]), roster, asked.view, values)
        if self.policy.allow_disclosed:
            told = replace(told, carried=self.noteworthy_columns)
        return told

    def _foreseen_refusal(
        self, message: Message, refusal: Refusal | ReleaseRefusedError, told: Foreseen
    ) -> Foreseen:
        """Count a refusal that a plan finds, and return the reply about it."""
        if refusal.rule == "max_released_share":
            # Anyone with the totals knows how many there are, and N.
            return replace(told, rule=refusal.rule)
        columns = refusal.columns if isinstance(refusal, RefusedColumns) else ()
        about = refusal.about if isinstance(refusal, Refusal) else None
        rule = self._studies.refused(
            *(message.header, refusal.rule, message.digests),
            of_table=isinstance(refusal, RefusedColumns) and about is None,
            about=about,
        )
        if rule != refusal.rule:
            return Foreseen(rule=rule)
        if isinstance(refusal, Refusal) and refusal.detail:
            self.explained[rule] = refusal.detail
            log.info("%s would refuse a request: %s", self.name, refusal)
        return replace(told, rule=rule, columns=columns)

    def _offer_comparison(self, message: Message) -> Answer:
        """Begin to compare the constant columns that the silo reported to a plan."""
        self._studies.check_refusals()
        self._check_partition(message)
        roster, where = self._pinned(message.header["parties"]), session_of(message)
        self.policy.check_parties(len(roster))
        self._studies.check_approved(where[0])
        offer = self._constants.offer(*where, roster)
        self._studies.check_roster(self._constants.told(where[0]).view, tuple(roster))
        return offer, {}

    def _compare_constants(self, message: Message) -> Answer:
        """Return shares that add up to 0 where a column has one value in all silos."""
        self._studies.check_refusals()
        study, session = session_of(message)
        said = self._constants.share(study, session, message)
        told, names = self._constants.told(study), list(said["shares"])
        self._studies.write_comparison(study, told.view, tuple(told.roster), names)
        log.info("%s compares %s for a plan of %s", self.name, ", ".join(names), study)
        return said, {}

    @property
    def noteworthy_columns(self) -> tuple[str, ...]:
        """Columns of which one row carries half of a direction, or more."""
        return self._studies.noteworthy_columns

    def _match(self, message: Message) -> Answer:
        if self.partition != "columns":
            raise Refusal("partition")
        self._studies.check_refusals()
        session = self._session(message)
        return self.aligned_rows.answer(
            message,
            self.table,
            self.name,
            session.parties,
            session.keys_for_matching(),
        )

    def _finish(self, message: Message) -> Answer:
        """Write what the silo keeps of a study as files of its own; nothing leaves."""
        study = message.header["study"]
        if type(study) is not str or not NAME.fullmatch(study):
            raise Refusal("malformed_message")
        folder = self._results_of.get(study) or (
            self._results and self._results / study
        )
        if folder is not None and study in self.studies:
            kept = self._studies.remember(study).kept
            table = self.aligned_rows.table_of(study, self.table)
            write_own_results(folder, kept, table, self.partition)
        return {"kind": "finished"}, {}

    def _leave(self, message: Message) -> Answer:
        self.aligned_rows.leave(*session_of(message))
        if session := self._sessions.pop(session_of(message), None):
            session.close()
        self._answered.pop(session_of(message), None)
        return {"kind": "left"}, {}

    def _handle_steps(self, message: Message, data: Bytes) -> Framed:
        """Answer the step of a round, or its several steps, each as if it were alone.

        After one that is refused none is answered: the others' totals would be opened
        for a fit that cannot go on.
        """
        session, name = self._answering(message), digest(data)
        several = message.header["kind"] == STEPS
        try:
            parts = requests_of(message) if several else [message]
            requests = list[Request]()
            known = dict(session.known_arrays)
            for part in parts:
                requests.append(Request.from_message(part, known))
                known |= view_arrays(requests[-1].operations)
        except (KeyError, TypeError, ValueError, AttributeError) as wrong:
            raise Refusal("malformed_message") from wrong
        if several:
            # Masks of equal steps would be equal.
            alike = len({request.context("") for request in requests}) < len(requests)
            if alike or not all(map(_goes_with_others, requests)):
                raise Refusal("malformed_message")
        if (reply := self._begin_round(message, requests, name)) is not None:
            return reply
        replies, answered = list[Framed](), list[AnsweredRound]()
        for place, (part, request) in enumerate(zip(parts, requests, strict=True)):
            request_digest = message.digests[str(place)] if several else name
            try:
                reply, one = self._answer(session, part, request, request_digest)
            except Exception as reason:
                replies.append(self._refusal(request_digest, part, reason))
                break
            replies.append(reply)
            answered.append(one)
        whole = len(answered) == len(requests)
        if whole and self._following is not None:
            self._following.answered(answered)
        reply = replies[0]
        if several:
            reply = self._reply(name, *replies_together(replies))
        if whole:
            self._answered[session_of(message)] = (requests[0].round, name, reply)
        return reply

    def _answering(self, message: Message) -> Session:
        """Return the session of a step, if the silo answers about its study."""
        session, study = self._session(message), session_of(message)[0]
        self._studies.check_refusals()
        if self._studies.was_forgotten(study):
            self._sessions = {k: s for k, s in self._sessions.items() if k[0] != study}
            raise Refusal("nothing_kept")
        return session

    def _begin_round(
        self, message: Message, requests: list[Request], name: str
    ) -> Framed | None:
        """Refuse steps that must not be answered now.

        Parameters
        ----------
        message : Message
            Message of the round.
        requests : list of Request
            Its steps.
        name : str
            SHA-256 of the message.

        Returns
        -------
        Framed or None
            The reply that was given to these very bytes, if there was one.
        """
        key, round_number = session_of(message), requests[0].round
        number, answered, reply = self._answered.get(key, (0, "", b""))
        if round_number == number and name == answered:
            # Asked again after a lost reply: the same bytes, never a second encoding.
            return reply
        check_round(round_number, number)
        # Written before anything is computed: whatever fails below, this round's
        # masks are spent.
        self._answered[key] = (round_number, "", b"")
        if self._following is not None:
            followed_by = self._session(message).followed_by()
            self._following.check(requests, **followed_by)
        return None

    def _answer(
        self, session: Session, message: Message, request: Request, request_digest: str
    ) -> tuple[Framed, AnsweredRound]:
        """Answer one step; nothing has left before it is written down."""
        asked = session.check(request)
        n_entries = self._studies.check(asked, session.parties)
        try:
            released = session.answer(asked, self._studies)
        except UnpooledError as reason:
            if reason.rule == "source_unavailable":
                self._studies.refund(asked)
            if isinstance(asked.view, View):
                describe(asked.view, self.table.label, reason.rule)
            raise
        digests = {name: digest(array.data) for name, array in released.arrays.items()}
        marked = ""
        if rule := released.marked:
            # What nobody else may know is one of the silo's refusals all the same.
            self._studies.refused(message.header, rule, message.digests)
            marked = question_of(rule, message.header, message.digests)
        # From here on it counts as released; before, nothing may leave.
        seals = self._studies.write_round(
            asked,
            session.answered(asked),
            self.name,
            session.parties,
            released.lines,
            request=request_digest,
            digests={**message.digests, **digests},
            n_entries=n_entries,
            marked=marked,
            opened=released.opened,
            n_rows=self._pooled_rows(session, asked),
            n_verified=self._verified_rows(session),
        )
        session.proceed(request_digest)
        answered = session.answered_round(asked, released, request_digest)
        header = {"kind": "released", "seals": seals, **released.header}
        reply = self._reply(request_digest, header, released.arrays, digests)
        return reply, answered

    def _pooled_rows(self, session: Session, asked: AskedStep) -> int:
        """Return N, over which the budget of numbers is counted."""
        assert isinstance(asked.view, View), "matching of rows is no step"
        own, parties = asked.view.table.n_rows, session.parties
        known, columns = self._rows_known(session), len(asked.view.source_columns)
        return pooled_rows(own, len(parties), self.partition, columns, known)

    def _rows_known(self, session: Session) -> int:
        """Return N of a session's roster where it was counted, else 0."""
        return max(self._rows_opened(session), self._studies.cuts.n_counted(self.table))

    def _rows_opened(self, session: Session) -> int:
        """Return N of a session's roster where it was opened to all, else 0."""
        known = self._verified_rows(session)
        if not known and self.simulated_rows is not None:
            known = self.simulated_rows(session.parties)
        elif not known:
            # Each study between organisations is a process of its own.
            known = self._studies.rows_of_earlier(session.parties)
        return known

    def _verified_rows(self, session: Session) -> int:
        """Return N of a session's roster as its study has verified it, else 0."""
        following = self._following
        return 0 if following is None else following.pooled_rows(session.parties)


def _of_study(message: Message) -> str:
    """Return the study of a message for the log, where it names one."""
    study = message.header.get("study")
    named = isinstance(study, str) and NAME.fullmatch(study)
    return f" of the study {study}" if named else ""


def _goes_with_others(request: Request) -> bool:
    """Whether a step may share a message: sums may, whoever opens their totals."""
    summed = find_step(request.step).verb == "summed"
    return summed and not request.inbox and request.topology is None

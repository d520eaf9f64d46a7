"""The coordinator: sends a step to every party, checks the replies, opens the totals.

    fit     join ── offer of a fresh key, number of lines so far ──> recover_ledger
            agree ── the signed offers of all ──> masks between every two parties
    round   step ── request ──> replies checked, then in the ledger ──> totals opened
    end     leave ── the parties forget keys, and arrays kept for the fit

A total is over the study's whole roster, or it is not opened: a party that is absent,
replies twice, replies to another request, or does not sign under the key that the
roster pins ends the round.
"""

import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from functools import partial
from typing import Any, final

from unpooled.coordinator.channel import Channel
from unpooled.coordinator.comparisons import (
    Comparisons,
    computing_parties,
    note_computing,
)
from unpooled.coordinator.open_totals import (
    added_words,
    disclosed_values,
    opened_totals,
)
from unpooled.coordinator.opened_rounds import OpenedRounds, words_by_party
from unpooled.coordinator.recover_ledger import recover
from unpooled.coordinator.relay import Relay
from unpooled.coordinator.replies import (
    Replies,
    check_builds,
    check_origins,
    gather,
    log_lines,
    raise_refusals,
    replies_by_step,
)
from unpooled.coordinator.step_call import RoundRecord, RoundRunner, StepCall
from unpooled.errors import AggregationError, UnpooledError
from unpooled.ledger import Ledger
from unpooled.protocol.block_levels import COUNTED
from unpooled.protocol.following import Call
from unpooled.protocol.ledger_lines import Lines, lines_of_all
from unpooled.protocol.library_build import library_build
from unpooled.protocol.message import Message, encode
from unpooled.protocol.request import Request
from unpooled.protocol.several_steps import together
from unpooled.protocol.step import Step
from unpooled.secure.keys.agreement import (
    Offer,
    offer_in,
    offers_of,
    session_seed,
)
from unpooled.secure.keys.roster import Roster
from unpooled.secure.sums.masking import MaskedSum
from unpooled.secure.sums.plain import PlainSum
from unpooled.secure.sums.secure_sum import SecureSum

# Messages without a record of their own: those about a study, which belong to no fit,
# and those of comparisons, which `Comparisons` records.
_NOT_RECORDED = ("shares", "signs", "plan", "describe", "announce", "deliver")
_NOT_RECORDED += ("finish", "share blocks")


@final
class Coordinator(RoundRunner):
    """Runs rounds over a channel and keeps the ledger.

    Parameters
    ----------
    channel : Channel
        Carries the messages.
    roster : Roster
        Identities of the parties.
    study : str
        Name of the study, in every request and ledger line.
    protection : {"masked", "plain"}
        How totals travel.
    ledger : Ledger, optional
        To be continued when a study is resumed.
    first_round : int, default 1
        Number of the next round.
    partition : {"rows", "columns"}, default "rows"
        What differs between the parties; each must have declared the same.
    follows : bool, default False
        Whether every silo repeats each call by itself, and is sent what it needs.
    allowed_builds : sequence of str, optional
        Builds of the library that silos may have, beside that of this process.

    Attributes
    ----------
    listeners : list of callable
        Called with (party, step, round) whenever a reply has arrived.
    recorders : list of callable
        Called without arguments when a round is in `ledger` and `records`, before any
        total of it is opened.
    policies : mapping of str to mapping, or None
        The policies of the silos by party, for reports, where they are known.
    """

    def __init__(
        self,
        channel: Channel,
        roster: Roster,
        *,
        study: str,
        protection: str = "masked",
        ledger: Ledger | None = None,
        first_round: int = 1,
        partition: str = "rows",
        follows: bool = False,
        allowed_builds: Sequence[str] = (),
    ) -> None:
        self.channel, self.roster = channel, roster
        self.parties = channel.parties
        self.study, self.protection = study, protection
        self.partition, self.planned, self.follows = partition, False, follows
        self._allowed_builds = tuple(allowed_builds)
        self.ledger = Ledger() if ledger is None else ledger
        self.records: list[RoundRecord] = []
        self.notes: list[str] = []
        self.listeners: list[Callable[[str, str, int], None]] = []
        self.recorders: list[Callable[[], None]] = []
        # Each makes a context for (model, method, view, arguments) of a call.
        self.watchers: list[Callable[..., AbstractContextManager[None]]] = []
        self.policies: Mapping[str, Mapping[str, Any]] | None = None
        # For simulated parties: (party, rule) -> the party's numbers behind a refusal.
        self.explain: Callable[[str, str], str] | None = None
        # Columns of which one row carries half of a direction or more: those that silos
        # name in their replies, and those of simulated silos.
        self.told_carried: dict[str, tuple[str, ...]] = {}
        self.simulated_carried: Callable[[], dict[str, tuple[str, ...]]] = dict
        self._opened_rounds = OpenedRounds()
        self._round = first_round - 1
        self._session, self._seed, self._depth = "", 0, 0
        # Keys of view arrays that this session's parties have.
        self._sent: set[str] = set()
        self._has_group_key = self._has_blocks = False
        self._comparisons: Comparisons | None = None
        self._sum: SecureSum = MaskedSum() if protection == "masked" else PlainSum()
        self._relay = Relay()

    @property
    def carried(self) -> dict[str, tuple[str, ...]]:
        """By party, the columns of which one row carries half of a direction."""
        return self.told_carried | self.simulated_carried()

    def enter(self, call: Callable[[], Call] | None = None) -> None:
        """Begin a fit; its first round will agree on fresh keys."""
        if self._depth == 0:
            self._leave()
            if self.follows and call is not None:
                self._opened_rounds.begin(call())
        self._depth += 1

    def exit(self) -> None:
        """End a fit; the parties forget its keys and the arrays kept for it."""
        self._depth -= 1
        if self._depth == 0:
            self._opened_rounds.end()
            self._leave()

    def seed(self) -> int:
        """Return the seed that follows from the fresh keys of all parties."""
        if not self._session:
            self._join()
        return self._seed

    def run_step(self, call: StepCall) -> dict[str, Any]:
        """Run a step at every party; see `RoundRunner.run_step`."""
        return self._run([call])[0]

    def run_steps(self, calls: Sequence[StepCall]) -> list[dict[str, Any]]:
        """Run several steps in one round; see `RoundRunner.run_steps`."""
        if len(calls) == 1:
            return [self.run_step(calls[0])]
        return self._run(calls)

    def _run(self, calls: Sequence[StepCall]) -> list[dict[str, Any]]:
        """Run the steps of a round, in one message; return what each gave."""
        # First: a step that does not fit the columns is refused before all else.
        sizes = [call.sizes(self.parties) for call in calls]
        self._share_blocks(calls)
        veiled = any(call.to == "parties" for call in calls)
        self.begin_round(for_parties=veiled and self.protection == "masked")
        sent, requests = set(self._sent), list[Request]()
        # The results of the round before are sent with the first step.
        due = self._opened_rounds.due(self._session, calls[0].step.name)
        for call in calls:
            fresh = call.new_arrays(sent)
            sent |= fresh
            request = call.request(
                study=self.study,
                session=self._session,
                round_number=self._round,
                fresh=fresh,
                **due,
            )
            requests.append(request)
            due = {}
        if len(calls) == 1:
            released = [self._run_alone(calls[0], requests[0], sizes[0])]
        else:
            released = self._run_together(calls, requests, sizes)
        # Only now: a silo that refused has not kept what came with the request.
        self._sent = sent
        self._opened_rounds.was_sent()
        results = []
        for call, request, replies, own in zip(
            calls, requests, released, sizes, strict=True
        ):
            check_origins(call.step.name, replies)
            results.append(self._results(call, request, own, replies))
        return results

    def _run_alone(
        self, call: StepCall, request: Request, sizes: Mapping[str, Mapping[str, int]]
    ) -> dict[str, Message]:
        """Send a step, to each party with what neighbours sent it; return replies."""
        step = call.step
        inboxes = self._relay.deliver(step)
        lines = lines_of_all(
            request, step, sizes, self.protection, inboxes, self.roster.n_computing
        )
        messages = dict.fromkeys(self.parties, encode(*request.as_message()))
        for party, inbox in inboxes.items():
            messages[party] = encode(*replace(request, inbox=inbox).as_message())
        return self.run_round(step.name, messages, lambda _: lines)

    def _run_together(
        self,
        calls: Sequence[StepCall],
        requests: Sequence[Request],
        sizes: Sequence[Mapping[str, Mapping[str, int]]],
    ) -> list[dict[str, Message]]:
        """Send the steps of a round in one message, and return the replies by step."""
        parts = [encode(*request.as_message()) for request in requests]
        data = encode(*together(self.study, self._session, parts))
        step = calls[0].step.name
        replies = self.exchange(dict.fromkeys(self.parties, data), step)
        released = list[dict[str, Message]]()
        try:
            by_step = replies_by_step(self.roster, parts, replies)
            # All of them first: the ledger is complete also where one was refused.
            for call, request, own, of in zip(
                calls, requests, by_step, sizes, strict=True
            ):
                lines = lines_of_all(request, call.step, of, self.protection)
                released.append(log_lines(self.ledger, self.roster, lines, own))
        finally:
            self._record()
        if replies.problem:
            self._leave()
            raise replies.problem
        for call, own in zip(calls, by_step, strict=True):
            raise_refusals(call.step.name, own, self.explain)
        if any(set(own) != set(self.parties) for own in released):
            raise AggregationError(
                f"Not every party answered all steps of the round of {step}.",
                rule="malformed_message",
            )
        return released

    def _share_blocks(self, calls: Sequence[StepCall]) -> None:
        """Have the silos count blocks and their rows, before rows are selected."""
        if self._has_blocks or self.partition != "rows":
            return
        if not any(call.selects_rows for call in calls):
            return
        for step in COUNTED.values():
            self._count_blocks(step)
        self._has_blocks = True

    def _count_blocks(self, step: Step) -> None:
        """Have the silos add what they count, and send them the total to open."""
        session, number = self.begin_round(for_parties=self.protection == "masked")
        where = {"study": self.study, "session": session}
        request = Request.between_silos(step.name, self.study, session, number)
        sizes = {party: dict[str, int]() for party in self.parties}
        lines = lines_of_all(request, step, sizes, self.protection, {})
        asked = {"kind": "count blocks", **where, "round": number, "step": step.name}
        data = encode(asked, {})
        released = self.run_round(
            step.name, dict.fromkeys(self.parties, data), lambda _: lines
        )
        words = added_words(request, step, sizes, released, self._sum)
        ((name, _),) = step.declared.items()
        sealed = {
            party: reply.header.get("checks", {}).get(name, "")
            for party, reply in released.items()
        }
        self.send({"kind": "share blocks", **where, "sealed": sealed}, words)

    def _results(
        self,
        call: StepCall,
        request: Request,
        sizes: Mapping[str, Mapping[str, int]],
        released: Mapping[str, Message],
    ) -> dict[str, Any]:
        """Return the results of a round, and keep those that silos are sent next."""
        step, tell = call.step, partial(self._opened_rounds.add, request)
        if step.computation is not None:
            return self._compared(call, request, released)
        if call.topology is not None:
            self._relay.carry(step, call.topology, sizes, released)
            tell({})
            return {}
        if step.verb == "disclosed":
            words = words_by_party(released)
            tell(words, signed=released)
            return disclosed_values(request, step, sizes, words)
        words = added_words(request, step, sizes, released, self._sum)
        tell(words, sealed=released)
        return opened_totals(request, step, sizes, words, self.protection)

    def begin_computing(self, allow_coordinator_party: bool = False) -> None:
        """Have the parties start their computing processes, once in a session."""
        if self._comparisons is not None:
            return
        committee = computing_parties(self.roster, allow_coordinator_party)
        note_computing(self.notes, committee, self.parties)
        if not self._session:
            self._join()
        self._comparisons = Comparisons(
            committee,
            send=self.send,
            channel=self.channel,
            study=self.study,
            session=self._session,
        )
        self._comparisons.begin()

    def _compared(
        self, call: StepCall, request: Request, released: Mapping[str, Message]
    ) -> dict[str, Any]:
        """Return signs or other results, once the parties have computed them."""
        assert self._comparisons is not None, "Federation.compare begins computing"
        outcome = self._comparisons.compared(
            call.step,
            # A result has one shape, whatever the parties' own columns are.
            call.sizes(self.parties)[min(self.parties)],
            first_round=self._round,
            request_cost=self.records.pop(),
            released=released,
        )
        self.records += outcome.records
        self._round += len(outcome.records) - 1
        if len(outcome.records) < outcome.exchanged:
            self.notes.append(
                f"In round {request.round} the silos' processes computed together, "
                f"with {outcome.exchanged:,} messages to each other."
            )
        self._opened_rounds.add(request, outcome.words, signed=outcome.replies)
        return outcome.results

    def begin_round(self, *, for_parties: bool) -> tuple[str, int]:
        """Return the session's name and the number of the round that begins.

        The parties join first where there is no session. With `for_parties` they also
        agree on a key that the coordinator lacks.
        """
        if not self._session:
            self._join()
        if (for_parties or self.follows) and not self._has_group_key:
            self._share_group_key()
        self._round += 1
        return self._session, self._round

    def run_round(
        self,
        step: str,
        requests: Mapping[str, bytes],
        lines_of: Callable[[Mapping[str, Message]], Lines],
    ) -> dict[str, Message]:
        """Send requests, write the ledger's lines, and return the replies.

        `lines_of` gives the lines of the round, which may depend on the replies.
        """
        replies = self.exchange(requests, step)
        # Written before anything else: the ledger is complete also where nothing can
        # be opened.
        try:
            lines = lines_of(replies.messages)
            released = log_lines(self.ledger, self.roster, lines, replies.messages)
        finally:
            self._record()
        if replies.problem:
            # The next join requests the lines that were lost.
            self._leave()
            raise replies.problem
        raise_refusals(step, replies.messages, self.explain)
        return released

    def send(
        self,
        header: Mapping[str, Any],
        arrays: Mapping[str, Any] | None = None,
        parties: Iterable[str] | None = None,
    ) -> dict[str, Message]:
        """Send a message that is not a step; return the checked replies by party.

        Parameters
        ----------
        header : mapping
            With the message's "kind".
        arrays : mapping of str to array, optional
            What travels with it.
        parties : iterable of str, optional
            The receivers; all parties when omitted.
        """
        receivers = self.parties if parties is None else parties
        data = encode(header, arrays or {})
        return self._send_each(str(header["kind"]), dict.fromkeys(receivers, data))

    def _send_each(
        self, kind: str, requests: Mapping[str, bytes]
    ) -> dict[str, Message]:
        replies = self.exchange(requests, kind)
        if replies.problem:
            raise replies.problem
        raise_refusals(kind, replies.messages, self.explain)
        return replies.messages

    def exchange(self, requests: Mapping[str, bytes], step: str) -> Replies:
        """Send each party its message, check who signed the replies, note the cost."""

        def arrived(party: str) -> None:
            for listener in self.listeners:
                listener(party, step, self._round)

        started = time.perf_counter()
        replies = gather(self.channel, self.roster, requests, step, arrived)
        if step not in _NOT_RECORDED:
            record = RoundRecord(
                round=self._round if "." in step else 0,
                step=step,
                seconds=time.perf_counter() - started,
                bytes_out=replies.bytes_out // max(len(replies.messages), 1),
                bytes_in=sum(map(len, requests.values())) // len(requests),
            )
            self.records.append(record)
        return replies

    def _record(self) -> None:
        for recorder in self.recorders:
            recorder()

    def _join(self) -> None:
        """Begin a session: fresh keys between every two parties, and lost lines.

        The coordinator carries the offers and cannot exchange them for its own: each
        is signed under an identity that the silos pin.
        """
        session = {"study": self.study, "session": secrets.token_hex(16)}
        join = {
            "kind": "join",
            **session,
            "parties": sorted(self.parties),
            "roster": self.roster.digest(),
            "protection": self.protection,
            "partition": self.partition,
            "library": library_build(),
        }
        offers = self.send(join)
        check_builds(self.study, offers, self._allowed_builds)
        last = recover(self.ledger, self.roster, self.study, offers, self.send)
        if last:
            self._round = max(self._round, last)
            self._record()
        signed = {party: offer_in(reply.header) for party, reply in offers.items()}
        offered = _as_offers(signed)
        self._seed = session_seed(self.study, session["session"], offered)
        agree = {"kind": "agree", **session, "offers": signed}
        requests = {}
        for party in self.parties:
            # Each silo checks that its log still is the one that the others saw.
            seen = {p: o.header["pinned"].get(party, "") for p, o in offers.items()}
            requests[party] = encode(agree | {"seen": seen}, {})
        self._send_each("agree", requests)
        self._session = session["session"]

    def _share_group_key(self) -> None:
        """Have the first party make a key for all parties, sealed to each other one."""
        session = {"study": self.study, "session": self._session}
        leader, *others = sorted(self.parties)
        offer = {"kind": "offer group key", **session}
        sealed = self.send(offer, parties=[leader])[leader].header["sealed"]
        accept = {"kind": "accept group key", "leader": leader, "sealed": sealed}
        # A party by itself refuses what comes next, with a reason.
        if others:
            self.send(accept | session, parties=others)
        self._has_group_key = True

    def _leave(self) -> None:
        if self._session:
            # A fit that failed because a party is absent must not fail again here.
            with suppress(UnpooledError):
                self.send(
                    {"kind": "leave", "study": self.study, "session": self._session}
                )
        if self._comparisons is not None:
            self._comparisons.close()
        self._session, self._comparisons = "", None
        self._has_group_key = self._has_blocks = False
        self._sent.clear()
        self._relay.clear()


def _as_offers(signed: Mapping[str, list[Any]]) -> dict[str, Offer]:
    """Return offers as bytes, of which parties sent hexadecimal texts."""
    try:
        return offers_of(signed)
    except (TypeError, ValueError) as wrong:
        raise AggregationError(
            "A party did not send a key.", rule="malformed_message"
        ) from wrong

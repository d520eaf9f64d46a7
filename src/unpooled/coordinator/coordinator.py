"""The coordinator's end of a round: ask every party, check every reply, open the total.

A total is over the study's roster, or it is not opened: a party that is absent, answers
twice, answers another request, or does not sign as the roster pins ends the round.
"""

import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, final

from unpooled.coordinator.channel import Channel
from unpooled.coordinator.comparisons import Comparing, computing_parties, who_computes
from unpooled.coordinator.fit_evidence import Proofs
from unpooled.coordinator.key_agreement import (
    agree_header,
    join_header,
    share_group_key,
)
from unpooled.coordinator.open_totals import opened, shown
from unpooled.coordinator.recover_ledger import recall
from unpooled.coordinator.relay import Relay
from unpooled.coordinator.replies import (
    Replies,
    check_origins,
    gather,
    log_lines,
    raise_refusals,
)
from unpooled.coordinator.round_cost import RoundRecord
from unpooled.errors import UnpooledError
from unpooled.ledger import Ledger, Release
from unpooled.protocol.ledger_lines import lines_of_all
from unpooled.protocol.message import Message, encode
from unpooled.protocol.request import Request, view_arrays
from unpooled.protocol.sizes import ViewSize
from unpooled.protocol.step import Step
from unpooled.protocol.topology import Graph
from unpooled.protocol.view_operations import Operation
from unpooled.secure.keys.roster import Roster
from unpooled.secure.sums.masking import MaskedSum
from unpooled.secure.sums.plain import PlainSum
from unpooled.secure.sums.secure_sum import SecureSum

# The lines of a round, each with the name of its array in the message.
Lines = list[tuple[Release, str]]

# Messages that no round needs: they are about a study, not of a fit.
_NO_ROUNDS = ("shares", "signs", "plan", "describe", "announce", "deliver")


@final
class Coordinator:
    """Runs rounds over a channel and keeps the ledger.

    Parameters
    ----------
    channel : Channel
        Carries the messages.
    roster : Roster
        Identities of the parties.
    study : str
        Its name, in every request and line.
    protection : {"masked", "plain"}
        How totals travel.
    ledger : Ledger, optional
        To continue, when a study is resumed.
    first_round : int, default 1
        Number of the next round.
    partition : {"rows", "columns"}, default "rows"
        What differs between the parties; each must have declared the same.

    Attributes
    ----------
    records : list of RoundRecord
        Time and bytes by round.
    listeners : list of callable
        Called with (party, step, round) whenever a reply has arrived.
    recorders : list of callable
        Called without arguments when a round stands in `ledger` and `records`, before
        any total of it is opened.
    proofs : Proofs
        Replies of the rounds that fitted transforms, which parties ask to see.
    policies : mapping of str to mapping, or None
        The silos' rules by party, for reports, where the silos have told them.
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
    ) -> None:
        self.channel, self.roster = channel, roster
        self.study, self.protection = study, protection
        self.partition = partition
        self.ledger = Ledger() if ledger is None else ledger
        self.records: list[RoundRecord] = []
        self.listeners: list[Callable[[str, str, int], None]] = []
        self.recorders: list[Callable[[], None]] = []
        self.policies: Mapping[str, Mapping[str, Any]] | None = None
        self.notes: list[str] = []
        self.proofs = Proofs()
        self._parties = tuple(sorted(channel.parties))
        self._round = first_round - 1
        self._session, self._depth, self.planned = "", 0, False
        self._sent: set[str] = set()
        self._has_group_key = False
        self._comparing: Comparing | None = None
        self._sum: SecureSum = MaskedSum() if protection == "masked" else PlainSum()
        self._relay = Relay()

    @property
    def parties(self) -> tuple[str, ...]:
        """The parties, in the study's order."""
        return self.channel.parties

    def enter(self) -> None:
        """Begin a fit; its first round will agree on fresh keys."""
        if self._depth == 0:
            self._leave()
        self._depth += 1

    def exit(self) -> None:
        """End a fit; the parties forget its keys and what they kept for it."""
        self._depth -= 1
        if self._depth == 0:
            self._leave()

    def ask(
        self,
        step: Step,
        operations: tuple[Operation, ...],
        extents: Mapping[str, ViewSize],
        to: str,
        public: Mapping[str, Any],
        kept_of: str = "",
        topology: Graph | None = None,
    ) -> dict[str, Any]:
        """Run a step at every party and return what its verb gives the coordinator.

        For a summed step a dict of totals by name (`Veiled` ones with
        ``to="parties"``); for a disclosed one a dict of such dicts by party. `extents`
        is how large each party's view is, `kept_of` the fit whose arrays it reads,
        `topology` who tells whom in an exchanged step.
        """
        sizes = {party: extents[party].sizes(step, public) for party in self.parties}
        self.begin_round(for_parties=to == "parties" and self.protection == "masked")
        fresh = frozenset(set(view_arrays(operations)) - self._sent)
        evidence, proven = self.proofs.evidence(operations, self._sent)
        where = (self.study, self._session, self._round, step.name, to)
        what = (operations, dict(public), fresh, kept_of, evidence, topology)
        request, inboxes = Request(*where, *what), self._relay.deliver(step)
        written = lines_of_all(request, step, sizes, self.protection, inboxes)
        asked = dict.fromkeys(self.parties, encode(*request.as_message()))
        for party, inbox in inboxes.items():
            asked[party] = encode(*replace(request, inbox=inbox).as_message())
        released = self.run_round(step.name, asked, lambda _: written)
        # A silo that refused has not kept what came with the request.
        self._sent |= fresh | proven
        check_origins(step.name, released)
        if step.polynomial is None:
            self.proofs.keep(request, extents, released, self.protection)
        if topology is not None:
            self._relay.carry(step, topology, sizes, released)
            return {}
        if step.verb == "disclosed":
            return shown(request, step, sizes, released)
        if step.polynomial is not None:
            its = sizes[self._parties[0]]
            found, signed = self._compared(step, its, released)
            self.proofs.keep(request, extents, signed, self.protection)
            return found
        return opened(request, step, sizes, released, self._sum)

    def begin_computing(self, allow_coordinator_party: bool = False) -> None:
        """Have the parties start their processes, unless they have in this session.

        Raises
        ------
        AggregationError
            When too few parties, or too many without a committee, would compute.
        """
        if self._comparing is not None:
            return
        members = computing_parties(self.roster, allow_coordinator_party)
        if (note := who_computes(members, self._parties)) not in ("", *self.notes):
            self.notes.append(note)
        if not self._session:
            self._join()
        session = self.study, self._session
        self._comparing = Comparing(members, self._control, self.channel, session)
        self._comparing.begin()

    def _compared(
        self, step: Step, its: Mapping[str, int], released: Mapping[str, Message]
    ) -> tuple[dict[str, Any], dict[str, Message]]:
        assert self._comparing is not None, "Federation.compare begins computing"
        about = self._round, self.records.pop(), released
        found, records, signed = self._comparing.compared(step, its, *about)
        self.records += records
        self._round += len(records) - 1
        return found, signed

    @property
    def _where(self) -> dict[str, str]:
        return {"study": self.study, "session": self._session}

    def begin_round(self, *, for_parties: bool) -> tuple[str, int]:
        """Join where there is no session; return its name and the round's number.

        `for_parties` has the parties agree on a key that the coordinator lacks.
        """
        if not self._session:
            self._join()
        if for_parties and not self._has_group_key:
            share_group_key(self._where, self._parties, self._control)
            self._has_group_key = True
        self._round += 1
        return self._session, self._round

    def run_round(
        self,
        step: str,
        requests: Mapping[str, bytes],
        written: Callable[[Mapping[str, Message]], Lines],
    ) -> dict[str, Message]:
        """Ask parties, write down what left, and return the replies.

        `written` gives the lines of the round, which may depend on the replies.
        """
        replies = self.exchange(requests, step)
        # Written first: the ledger tells what left, also when nothing can be opened.
        try:
            lines = written(replies.messages)
            released = log_lines(self.ledger, self.roster, lines, replies.messages)
        finally:
            for recorder in self.recorders:
                recorder()
        if replies.problem:
            # The next join asks for what was lost.
            self._leave()
            raise replies.problem
        raise_refusals(step, replies.messages)
        return released

    def tell(
        self, header: Mapping[str, Any], arrays: Mapping[str, Any] | None = None
    ) -> dict[str, Message]:
        """Send every party a message that belongs to no fit; return the replies."""
        return self._control(header, None, arrays)

    def _join(self) -> None:
        where = self._where | {"session": secrets.token_hex(16)}
        how = (self._parties, self.roster, self.protection, self.partition)
        offers = self._control(join_header(where, *how))
        if last := recall(self.ledger, self.roster, self.study, offers, self._control):
            self._round = max(self._round, last)
            for recorder in self.recorders:
                recorder()
        self._control(agree_header(where, offers))
        self._session = where["session"]

    def _control(
        self,
        header: Mapping[str, Any],
        parties: Iterable[str] | None = None,
        arrays: Mapping[str, Any] | None = None,
    ) -> dict[str, Message]:
        data = encode(header, arrays or {})
        chosen = self.parties if parties is None else parties
        replies = self.exchange(dict.fromkeys(chosen, data), str(header["kind"]))
        if replies.problem:
            raise replies.problem
        raise_refusals(str(header["kind"]), replies.messages)
        return replies.messages

    def _leave(self) -> None:
        if self._session:
            header = {"kind": "leave", **self._where}
            # A fit that failed because a party is absent must not fail again here.
            with suppress(UnpooledError):
                self._control(header)
        if self._comparing is not None:
            self._comparing.close()
        self._session, self._has_group_key, self._comparing = "", False, None
        self._sent.clear()
        self._relay.clear()

    def exchange(self, requests: Mapping[str, bytes], step: str) -> Replies:
        """Send parties messages, and check who signed what came back."""

        def arrived(party: str) -> None:
            for listener in self.listeners:
                listener(party, step, self._round)

        started = time.perf_counter()
        replies = gather(self.channel, self.roster, requests, step, arrived)
        if step not in _NO_ROUNDS:
            record = RoundRecord(
                self._round if "." in step else 0,
                step,
                time.perf_counter() - started,
                replies.bytes_out // max(len(replies.messages), 1),
                sum(map(len, requests.values())) // len(requests),
            )
            self.records.append(record)
        return replies

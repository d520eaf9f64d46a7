"""The coordinator's end of joint computations: it carries messages and opens results.

It holds no share, and cannot exchange the parties' certificates for its own. Beside two
silos, which alone could not compare in secret, it may be declared as a third computing
party: it then holds shares of both silos' totals, which reveal nothing unless a silo
colludes with it.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, final

import numpy as np

from unpooled.arrays import Array
from unpooled.coordinator.channel import Channel, Send
from unpooled.coordinator.step_call import RoundRecord
from unpooled.errors import AggregationError
from unpooled.protocol.computing_party import COORDINATOR, ComputingParty
from unpooled.protocol.message import Message
from unpooled.protocol.step import Step
from unpooled.secure.comparison.joint_computation import Shape
from unpooled.secure.keys.roster import FEWEST_COMPUTING, MOST_COMPUTING, Roster


def computing_parties(roster: Roster, allow_coordinator_party: bool) -> tuple[str, ...]:
    """Return the computing parties; the coordinator is last, under an empty name.

    Raises
    ------
    AggregationError
        When too few parties, or too many without a committee, would compute.
    """
    if len(roster) < FEWEST_COMPUTING:
        if allow_coordinator_party and len(roster) == FEWEST_COMPUTING - 1:
            return (*roster, COORDINATOR)
        raise AggregationError(
            f"{len(roster)} parties cannot compare in secret: with two, each would see "
            f"all. Add a silo, let the coordinator compute as a declared third "
            f'(allow_coordinator_party=True), or use comparison="summed".',
            rule="two_parties",
        )
    if not roster.committee:
        raise AggregationError(
            f"{len(roster)} parties compare in secret only by a committee of "
            f"{FEWEST_COMPUTING} to {MOST_COMPUTING}, which every silo and the server "
            f'pin at the top of their roster files: committee = ["...", "...", "..."].',
            rule="committee",
        )
    return roster.committee


def note_computing(
    notes: list[str], committee: tuple[str, ...], parties: tuple[str, ...]
) -> None:
    """Add a sentence on who computes, once; none where all parties do."""
    note = ""
    if COORDINATOR in committee:
        note = computed_for(len(parties)).strip()
    elif len(committee) < len(parties):
        note = (
            f"Comparisons are computed by the committee {', '.join(committee)}, which "
            f"the silos' rosters pin; the others hand it shares."
        )
    if note not in ("", *notes):
        notes.append(note)


def computed_for(n_parties: int) -> str:
    """Return a report's sentence on who compares; empty where all parties do."""
    if n_parties < FEWEST_COMPUTING:
        return (
            " The coordinator computes as a third party: it holds shares, which tell "
            "it nothing unless a silo joins with it."
        )
    if n_parties > MOST_COMPUTING:
        return " A committee computes for all, which the silos' rosters name."
    return ""


@final
@dataclass(frozen=True, eq=False)
class ComparisonOutcome:
    """The result of a batch of comparisons, or of another joint computation.

    Attributes
    ----------
    words : dict of str to array
        What the processes opened.
    results : dict of str to array
        The same by the declared names; signs as bool.
    records : list of RoundRecord
        The cost of its rounds.
    replies : dict of str to Message
        The signed replies of the computing silos.
    exchanged : int
        Number of messages that each process sent to each other one.
    """

    words: dict[str, Array]
    results: dict[str, Array]
    records: list[RoundRecord]
    replies: dict[str, Message]
    exchanged: int


@final
class Comparisons:
    """The coordinator's end of the comparisons of one session.

    Parameters
    ----------
    committee : tuple of str
        The computing parties, of `computing_parties`.
    send : callable
        Sends parties a message and returns their replies.
    channel : Channel
        Carries the messages of the coordinator's own computing process, where it is a
        third party.
    study, session : str
        By which parties know the session.
    """

    def __init__(
        self,
        committee: tuple[str, ...],
        *,
        send: Send,
        channel: Channel,
        study: str,
        session: str,
    ) -> None:
        self._silos = tuple(party for party in committee if party != COORDINATOR)
        self._send, self._channel = send, channel
        self._third: ComputingParty | None = None
        self._committee, self._study, self._session = committee, study, session

    def begin(self) -> None:
        """Have every computing party start its process, and test the processes."""
        declared = COORDINATOR in self._committee
        offers = self._exchange({"kind": "offer computing", "coordinator": declared})
        ports = {party: reply.header["port"] for party, reply in offers.items()}
        sealed = {party: reply.header["sealed"] for party, reply in offers.items()}
        if declared:
            self._third = self._third_party(offers)
            offer = self._third.join()
            ports[COORDINATOR], sealed[COORDINATOR] = offer["port"], offer["sealed"]
        self._exchange({"kind": "begin computing", "ports": ports, "sealed": sealed})
        self._exchange({"kind": "test computing"})

    def compared(
        self,
        step: Step,
        sizes: Mapping[str, int],
        *,
        first_round: int,
        request_cost: RoundRecord,
        released: Mapping[str, Message],
    ) -> ComparisonOutcome:
        """Return the results that the parties compute together from a step's totals.

        Parameters
        ----------
        step : Step
            Declared with `compared` or `computed`; the parties have run it and hold its
            integers.
        sizes : mapping of str to int
            Sizes of its axis letters.
        first_round : int
            Number of the first of its rounds.
        request_cost : RoundRecord
            The cost of the request; it is added to that of the first round.
        released : mapping of str to Message
            Replies to the request, with the shares of parties that do not compute.

        Raises
        ------
        AggregationError
            When the parties computed different results, or sent something else.
        """
        computation = step.computation
        assert computation is not None, "the step declares one"
        began, shapes = time.perf_counter(), step.shapes(sizes)
        self._hand_over_shares(released)
        if self._third is not None:
            # It has no rows: its part of every total is zero.
            shape = computation.input_shape(shapes, sizes)
            zeros = {total: np.zeros(shape) for total in computation.names}
            self._third.take(step, sizes, zeros)
            self._third.proceed()
        replies = self._exchange({"kind": "signs"})
        seconds = request_cost.seconds + time.perf_counter() - began
        words = _common_words(replies, computation.forms(shapes))
        exchanged, sent = _rounds_and_bytes(replies)
        # A batch of comparisons has a round for each message between processes.
        several = computation.rounds(len(self._committee)) > 1
        rounds = exchanged if several else 1
        records = [
            RoundRecord(
                round=first_round + turn,
                step=step.name,
                seconds=seconds / rounds,
                bytes_out=sent // rounds + (request_cost.bytes_out if turn == 0 else 0),
                bytes_in=request_cost.bytes_in if turn == 0 else 0,
            )
            for turn in range(rounds)
        ]
        signed = {party: replies[party] for party in self._silos}
        results = computation.opened(words, list(step.declared))
        return ComparisonOutcome(words, results, records, signed, exchanged)

    def close(self) -> None:
        """End the coordinator's own process, if it has one."""
        self._channel.deliver = None
        if self._third is not None:
            self._third.close()

    def _exchange(self, header: dict[str, Any]) -> dict[str, Message]:
        """Return the replies of all computing parties, the coordinator's included."""
        message = Message(header, {}, {})
        if self._third is not None and header["kind"] == "begin computing":
            self._third.answer(message)
        header = {**header, "study": self._study, "session": self._session}
        replies = self._send(header, parties=self._silos)
        # Last, since it waits for the others.
        if self._third is not None and header["kind"] in ("test computing", "signs"):
            answer, arrays = self._third.answer(message)
            replies[COORDINATOR] = Message(answer, arrays, {})
        return replies

    def _third_party(self, offers: Mapping[str, Message]) -> ComputingParty:
        keys = {p: bytes.fromhex(reply.header["key"]) for p, reply in offers.items()}
        here = self._study, self._session
        carry = self._channel.carry and partial(self._channel.carry, here)
        # Its zeros need no masks.
        third = ComputingParty(
            COORDINATOR, self._committee, self._committee, keys, carry, masked_with=()
        )
        self._channel.deliver = lambda peer, session, message: (
            third.carried(peer, message) if session == here else None
        )
        return third

    def _hand_over_shares(self, released: Mapping[str, Message]) -> None:
        """Send each computing party the shares of those that do not compute."""
        shares = {
            party: reply.header["shares"]
            for party, reply in released.items()
            if party not in self._committee
        }
        if shares:
            self._exchange({"kind": "shares", "shares": shares})


def _common_words(
    replies: Mapping[str, Message], forms: Mapping[str, tuple[Shape, np.dtype[Any]]]
) -> dict[str, Array]:
    """Return the opened words, if all parties computed the same."""
    first, *others = [reply.arrays for reply in replies.values()]
    if {name: (a.shape, a.dtype) for name, a in first.items()} != dict(forms):
        raise AggregationError("A party sent no result.", rule="malformed_message")
    for arrays in others:
        if set(arrays) != set(first) or any(
            not np.array_equal(first[name], arrays[name]) for name in first
        ):
            raise AggregationError(
                "The parties computed different results.", rule="comparison"
            )
    return dict(first)


def _rounds_and_bytes(replies: Mapping[str, Message]) -> tuple[int, int]:
    """Return rounds and bytes sent, of the party with the most."""
    spent = [reply.header["spent"] for reply in replies.values()]
    rounds, sent, _ = np.max(spent, axis=0)
    return max(round(float(rounds)), 1), int(sent)

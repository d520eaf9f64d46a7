"""The coordinator's end of secure comparisons: it carries offers and learns signs.

It holds no share, and cannot exchange the parties' certificates for its own. Beside two
silos, which alone could not compare in secret, it may be a declared third: then it
holds shares of both, which tell it nothing unless a silo joins with it.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, final

import numpy as np

from unpooled.arrays import Array
from unpooled.coordinator.channel import Channel
from unpooled.coordinator.round_cost import RoundRecord
from unpooled.errors import AggregationError
from unpooled.protocol.computing_party import COORDINATOR, ComputingParty
from unpooled.protocol.message import Message
from unpooled.protocol.step import Step
from unpooled.secure.keys.roster import FEWEST_COMPUTING, MOST_COMPUTING, Roster

Tell = Callable[[dict[str, Any], Iterable[str]], dict[str, Message]]


def computing_parties(roster: Roster, allow_coordinator_party: bool) -> tuple[str, ...]:
    """Return who computes; the coordinator is last, under an empty name.

    Raises
    ------
    AggregationError
        When nobody can: the message says what to do.
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


def who_computes(members: tuple[str, ...], parties: tuple[str, ...]) -> str:
    """Return a sentence for plan and report; empty where all parties compute."""
    if COORDINATOR in members:
        return computed_for(len(parties)).strip()
    if len(members) < len(parties):
        return (
            f"Comparisons are computed by the committee {', '.join(members)}, which "
            f"the silos' rosters pin; the others hand it shares."
        )
    return ""


def computed_for(n_parties: int) -> str:
    """Return what a report adds on who compares, where that is not every party."""
    if n_parties < FEWEST_COMPUTING:
        return (
            " The coordinator computes as a third party: it holds shares, which tell "
            "it nothing unless a silo joins with it."
        )
    if n_parties > MOST_COMPUTING:
        return " A committee computes for all, which the silos' rosters name."
    return ""


@final
class Comparing:
    """The coordinator's end of the comparisons of one session.

    Parameters
    ----------
    members : tuple of str
        As `computing_parties` gives them.
    tell : callable
        Sends some parties a message, and returns the replies.
    channel : Channel
        Carries what the coordinator's own process says, where it is a third.
    session : (str, str)
        Study and session, by which parties know whose it is.
    """

    def __init__(
        self,
        members: tuple[str, ...],
        tell: Tell,
        channel: Channel,
        session: tuple[str, str],
    ) -> None:
        self._silos = tuple(party for party in members if party != COORDINATOR)
        self._tell, self._channel = tell, channel
        self._third: ComputingParty | None = None
        self._members, self._session = members, session

    def begin(self) -> None:
        """Have every party start its process, and all of them prove their signs."""
        declared = COORDINATOR in self._members
        offers = self._ask({"kind": "offer computing", "coordinator": declared})
        ports = {party: reply.header["port"] for party, reply in offers.items()}
        sealed = {party: reply.header["sealed"] for party, reply in offers.items()}
        if declared:
            self._third = self._own_part(offers)
            own = self._third.join()
            ports[COORDINATOR], sealed[COORDINATOR] = own["port"], own["sealed"]
        self._ask({"kind": "begin computing", "ports": ports, "sealed": sealed})
        self._ask({"kind": "test computing"})

    def compared(
        self,
        step: Step,
        sizes: Mapping[str, int],
        number: int,
        asked: RoundRecord,
        released: Mapping[str, Message],
    ) -> tuple[dict[str, Array], list[RoundRecord], dict[str, Message]]:
        """Return where a polynomial is negative, records of its rounds, and who signed.

        Parameters
        ----------
        step : Step
            Declared with `compared`; the parties were asked and hold their integers.
        sizes : mapping of str to int
            Of its axes.
        number : int
            Of the first of its rounds.
        asked : RoundRecord
            What asking cost; it counts with the first.
        released : mapping of str to Message
            Their replies, with shares of those that do not compute.

        Raises
        ------
        AggregationError
            When parties found different signs, or something else than signs.
        """
        ((name, declared),) = step.declared.items()
        began, shape = time.perf_counter(), declared.shape(sizes)
        self._pass_on(released)
        if self._third is not None and step.polynomial is not None:
            # It has no rows: its part of every total is zero.
            nothing = {total: np.zeros(shape) for total in step.polynomial.names}
            self._third.take(step, sizes, nothing)
            self._third.proceed()
        replies = self._ask({"kind": "signs"})
        took = asked.seconds + time.perf_counter() - began
        found = _agreed(replies, shape)
        rounds, sent = _spent(replies)
        records = [
            RoundRecord(
                number + turn,
                step.name,
                took / rounds,
                sent // rounds + (asked.bytes_out if turn == 0 else 0),
                asked.bytes_in if turn == 0 else 0,
            )
            for turn in range(rounds)
        ]
        signed = {party: replies[party] for party in self._silos}
        return {name: found}, records, signed

    def close(self) -> None:
        """End the coordinator's own process, if it has one."""
        self._channel.deliver = None
        if self._third is not None:
            self._third.close()

    def _ask(self, header: dict[str, Any]) -> dict[str, Message]:
        """Tell all that compute; the coordinator's own process answers too."""
        study, session = self._session
        own = Message(header, {}, {})
        if self._third is not None and header["kind"] == "begin computing":
            self._third.answer(own)
        where = {"study": study, "session": session}
        replies = self._tell(header | where, self._silos)
        # Last, since it waits for the others.
        if self._third is not None and header["kind"] in ("test computing", "signs"):
            answer, arrays = self._third.answer(own)
            replies[COORDINATOR] = Message(answer, arrays, {})
        return replies

    def _own_part(self, offers: Mapping[str, Message]) -> ComputingParty:
        keys = {p: bytes.fromhex(reply.header["key"]) for p, reply in offers.items()}
        carry = self._channel.carry and partial(self._channel.carry, self._session)
        third = ComputingParty(COORDINATOR, self._members, self._members, keys, carry)
        self._channel.deliver = lambda peer, session, message: (
            third.carried(peer, message) if session == self._session else None
        )
        return third

    def _pass_on(self, released: Mapping[str, Message]) -> None:
        """Hand each computing party the shares of those that do not compute."""
        shares = {
            party: reply.header["shares"]
            for party, reply in released.items()
            if party not in self._members
        }
        if shares:
            self._ask({"kind": "shares", "shares": shares})


def _agreed(replies: Mapping[str, Message], shape: tuple[int, ...]) -> Array:
    """Return the signs, if all found the same."""
    found = [reply.arrays.get("negative") for reply in replies.values()]
    first = found[0]
    if first is None or first.shape != shape or first.dtype != np.uint8:
        raise AggregationError("A party sent no signs.", rule="malformed_message")
    if any(other is None or not np.array_equal(first, other) for other in found):
        raise AggregationError(
            "The parties computed different signs.", rule="comparison"
        )
    return first.astype(bool)


def _spent(replies: Mapping[str, Message]) -> tuple[int, int]:
    """Return rounds and bytes, of the party that had most."""
    spent = [reply.header["spent"] for reply in replies.values()]
    rounds, sent, _ = np.max(spent, axis=0)
    return max(round(float(rounds)), 1), int(sent)

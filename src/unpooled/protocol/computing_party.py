"""A party's part in secure comparisons and other joint computations.

offer  ── port and a certificate, sealed for each peer ──> coordinator ──> begin
test   ── the parties' processes prove that their arithmetic is exact
step   ── a computing party's integers wait until the round is written down; those of
          any other party leave as shares, sealed for each computing party
shares ── the shares of parties that do not compute, where there are any
signs  ── the result of the processes, signs or others, the same at every party

The processes' streams go straight to each other on one machine, and between
organisations through a tunnel (`unpooled.secure.comparison.relayed_streams`).
"""

import secrets
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, final

import numpy as np

from unpooled.arrays import Array
from unpooled.ledger import canonical
from unpooled.protocol.message import Message
from unpooled.protocol.refusal import Refusal
from unpooled.protocol.step import Step
from unpooled.secure.comparison.integer_masks import covered
from unpooled.secure.comparison.joint_computation import (
    JointComputation,
    Rows,
    Shapes,
)
from unpooled.secure.comparison.protocol import Computation
from unpooled.secure.comparison.relayed_streams import (
    HOME,
    Carry,
    SocketAddress,
    Tunnel,
)
from unpooled.secure.comparison.secret_sharing import added, shares
from unpooled.secure.keys.agreement import KEY_BYTES, open_sealed, seal_for
from unpooled.secure.keys.roster import FEWEST_COMPUTING

STAGES = ("offer computing", "begin computing", "test computing", "shares", "signs")
# Name of the coordinator as the third beside two silos. No party has it.
COORDINATOR = ""
# Seconds without a message after which one is lost, or a peer is.
_SILENCE = 180.0

Answer = tuple[dict[str, Any], dict[str, Array]]


@final
class ComputingParty:
    """One party's process in one session, and the integers that wait for it.

    Parameters
    ----------
    party : str
        This party's name.
    parties : sequence of str
        All parties of the session, this one included.
    committee : sequence of str
        The parties that compute, in the order of their numbers.
    keys : mapping of str to bytes
        Shared with each of the others, or those that it sends something sealed to.
    carry : callable, optional
        Hands a message for a peer to the relay. Without it all processes are on this
        machine and reach each other.
    masked_with : collection of str
        The parties with whom it shares masks.
    """

    def __init__(
        self,
        party: str,
        parties: Sequence[str],
        committee: Sequence[str],
        keys: Mapping[str, bytes],
        carry: Carry | None = None,
        *,
        masked_with: Collection[str],
    ) -> None:
        self._party, self._keys, self._carry = party, dict(keys), carry
        self._everybody, self._committee = tuple(parties), tuple(committee)
        self._masked_with = frozenset(masked_with)
        self._computation: Computation | None = None
        self._tunnel: Tunnel | None = None
        # The computation, the shapes of what it opens, this party's integers, and the
        # context that shares are sealed for.
        self._waiting: list[tuple[JointComputation, Shapes, Rows, bytes]] = []
        # Requests of batches whose results are not collected yet, in their order.
        self._requests: list[str] = []
        self._taken = False

    @property
    def outsiders(self) -> tuple[str, ...]:
        """The parties that do not compute."""
        return tuple(p for p in self._everybody if p not in self._committee)

    def answer(self, message: Message) -> Answer:
        """Answer one message of the five stages."""
        kind, header = message.header["kind"], message.header
        if kind == "offer computing":
            return self._offer(header["coordinator"] is True), {}
        computation = self._computation
        if computation is None:
            raise Refusal("out_of_order")
        if kind == "begin computing":
            self._begin(computation, header["ports"], header["sealed"])
            return {"kind": "begun"}, {}
        if kind == "test computing":
            computation.tested(lost=self._silence())
            return {"kind": "tested"}, {}
        if kind == "shares":
            self._hand_over(header["shares"])
            return {"kind": "shared"}, {}
        found, spent = computation.found(lost=self._silence())
        # Signed with the result, so that a silo can check which batch they belong to.
        about = self._requests.pop(0) if self._requests else ""
        return {"kind": "compared", "spent": spent, "about": about}, found

    def take(
        self,
        step: Step,
        sizes: Mapping[str, int],
        totals: Mapping[str, Array],
        context: bytes = b"",
    ) -> dict[str, str]:
        """Keep this party's integers, or return them as sealed shares by party.

        They are masked for the context, which holds the whole request; the
        coordinator's zeros need no masks, and have no keys.
        """
        computation = step.computation
        if computation is None or set(totals) != set(computation.names):
            raise Refusal("declaration")
        shapes = step.shapes(sizes)
        parts = {name: np.asarray(part, dtype=float) for name, part in totals.items()}
        wanted = computation.input_shape(shapes, sizes)
        if {part.shape for part in parts.values()} != {wanted}:
            raise Refusal("declaration")
        rows = computation.integers(parts)
        if context:
            keys = {peer: self._keys[peer] for peer in self._masked_with}
            rows = covered(rows, computation, self._party, keys, context)
        if self._party in self._committee:
            self._waiting.append((computation, shapes, rows, context))
            self._requests.append("")
            self._taken = True
            return {}
        if not self._committee:
            raise Refusal("committee")
        dealt = shares(rows, len(self._committee), computation)
        return {
            peer: seal_for(
                self._keys[peer], part, _about("shares", self._party, peer, context)
            ).hex()
            for peer, part in zip(self._committee, dealt, strict=True)
        }

    def proceed(self, request: str = "") -> None:
        """Hand over the waiting integers, unless shares of others are still to come.

        `request` is the SHA-256 of the request that was answered.
        """
        if self._taken:
            self._requests[-1], self._taken = request, False
        if self._waiting and not self.outsiders:
            self._hand_over({})

    def carried(self, peer: str, message: bytes) -> None:
        """Take a message of a peer's tunnel, from whichever thread it comes."""
        if self._tunnel is not None:
            self._tunnel.arrived(peer, message)

    def close(self) -> None:
        """End the process, and the tunnel that leads to it."""
        if self._tunnel is not None:
            self._tunnel.close()
        if self._computation is not None:
            self._computation.close()

    def _offer(self, with_coordinator: bool) -> dict[str, Any]:
        key = b""
        if with_coordinator:
            # It is trusted not to collude with a silo, and only two silos need it.
            if len(self._everybody) != FEWEST_COMPUTING - 1:
                raise Refusal("two_parties")
            key = self._keys[COORDINATOR] = secrets.token_bytes(KEY_BYTES)
            self._committee = (*self._committee, COORDINATOR)
        return {"kind": "computing", "key": key.hex(), **self.join()}

    def join(self) -> dict[str, Any]:
        """Make ready; return the process's port, and its certificate for each peer."""
        if self._computation is not None:
            # One tunnel for a session: its messages' numbers are never used again.
            raise Refusal("replayed")
        committee = self._committee
        if not committee:
            raise Refusal("committee")
        if len(committee) < FEWEST_COMPUTING:
            raise Refusal("two_parties")
        if self._party not in committee:
            raise Refusal("out_of_order")
        computation = Computation(committee.index(self._party), len(committee))
        self._computation = computation
        if self._carry is not None:
            self._tunnel = Tunnel(
                self._party,
                committee,
                self._keys,
                computation.port,
                self._carry,
                computation.kill,
            )
        sealed = {
            peer: seal_for(
                self._keys[peer],
                computation.certificate,
                _about("certificate", self._party, peer),
            ).hex()
            for peer in committee
            if peer != self._party
        }
        return {"port": computation.port, "sealed": sealed}

    def _begin(
        self,
        computation: Computation,
        ports: Mapping[str, int],
        sealed: Mapping[str, Mapping[str, str]],
    ) -> None:
        certificates = [
            computation.certificate
            if peer == self._party
            else open_sealed(
                self._keys[peer],
                bytes.fromhex(sealed[peer][self._party]),
                _about("certificate", peer, self._party),
            )
            for peer in self._committee
        ]
        addresses: list[SocketAddress] = [
            (HOME, int(ports[p])) for p in self._committee
        ]
        if self._tunnel is not None:
            addresses = self._tunnel.addresses
        computation.begin(addresses, certificates)

    def _hand_over(self, sealed: Mapping[str, Mapping[str, str]]) -> None:
        if set(sealed) != set(self.outsiders) or self._computation is None:
            raise Refusal("out_of_order")
        while self._waiting:
            computation, shapes, rows, context = self._waiting.pop(0)
            for peer, words in sealed.items():
                what = _about("shares", peer, self._party, context)
                sealed_for_me = bytes.fromhex(words[self._party])
                share = open_sealed(self._keys[peer], sealed_for_me, what)
                rows = added(rows, share, computation)
            self._computation.ask(computation, rows, shapes)

    def _silence(self) -> Callable[[], bool]:
        """Return a function: whether the peers have been silent for too long."""
        tunnel, began = self._tunnel, time.monotonic()

        def is_silent() -> bool:
            waited = time.monotonic() - began
            return tunnel is not None and min(tunnel.silent_for, waited) > _SILENCE

        return is_silent


def _about(what: str, sender: str, receiver: str, where: bytes = b"") -> bytes:
    return canonical([what, sender, receiver, where.decode()])
